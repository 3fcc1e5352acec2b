//! A government: who votes, who leads, who listens. It is an entry of the log that it governs.
//!
//! Not here: which change of government is wanted (`atoll-cluster`), when one takes effect (`atoll-paxos`).

use crate::{Ballot, ClusterId, Generation, Newcomer, NodeId, Why};
use serde::{Deserialize, Serialize};

/// Invariants: the leader is the first of the majority; no node stands in two of the lists; the majority is just more
/// than half of the voters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Government {
    /// Of the leader that proposed it. A vote for a later slot in a lower ballot is void: that leader has asked a
    /// majority for everything that could have been decided, and put its government after it.
    pub ballot: Ballot,
    /// The voters the leader sends to, itself first.
    pub majority: Vec<NodeId>,
    /// The voters that stand by.
    pub minority: Vec<NodeId>,
    /// Everybody else, in the order of arrival.
    pub learners: Vec<NodeId>,
    pub cause: Cause,
}

/// Why there is a new government, and what changes with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The first entry. `alone`: founded as a cluster of one, which may have a single voter for ever.
    Founded { cluster: ClusterId, founder: Newcomer, alone: bool },
    /// A new leader. The voters stay.
    Elected,
    /// Names a newcomer, as a learner.
    Arrived(Newcomer),
    /// Removes a node for good.
    Departed { node: NodeId, why: Why },
    /// Gives seats to acclimated nodes or takes them away.
    Seated,
    /// Swaps a silent member of the majority for one that stands by. The voters stay.
    Rearranged,
    /// An operator's word after the majority was lost: everybody but the leader is a learner, and absent.
    Recovered { generation: Generation },
}

impl Government {
    pub fn leader(&self) -> NodeId {
        self.majority.first().copied().unwrap_or(NodeId::NOBODY)
    }

    pub fn voters(&self) -> impl Iterator<Item = NodeId> + Clone + '_ {
        self.majority.iter().chain(&self.minority).copied()
    }

    pub fn voter_count(&self) -> usize {
        self.majority.len() + self.minority.len()
    }

    pub fn is_voter(&self, node: NodeId) -> bool {
        self.majority.contains(&node) || self.minority.contains(&node)
    }

    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + Clone + '_ {
        self.voters().chain(self.learners.iter().copied())
    }

    /// How many votes decide.
    pub fn quorum(&self) -> usize {
        self.voter_count() / 2 + 1
    }

    /// Do the voters among `nodes` decide?
    pub fn is_majority(&self, mut holds: impl FnMut(NodeId) -> bool) -> bool {
        self.voters().filter(|&voter| holds(voter)).count() >= self.quorum()
    }

    /// Lays `voters` out, for whoever will propose it, as majority and minority, the first one leading; everybody else
    /// of `everybody` learns.
    pub fn of(voters: &[NodeId], everybody: impl Iterator<Item = NodeId>, cause: Cause) -> Government {
        let active = voters.len() / 2 + 1;
        let mut learners: Vec<NodeId> = everybody.filter(|node| !voters.contains(node)).collect();
        learners.sort_unstable();
        learners.dedup();
        Government {
            ballot: Ballot::default(),
            majority: voters[..active.min(voters.len())].to_vec(),
            minority: voters[active.min(voters.len())..].to_vec(),
            learners,
            cause,
        }
    }

    /// Do the invariants above hold? For what comes from elsewhere.
    pub fn is_lawful(&self) -> bool {
        let mut all: Vec<NodeId> = self.nodes().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        all.len() == count && !self.majority.is_empty() && self.majority.len() == self.quorum()
    }

    /// The invariants above, for what this node made itself.
    pub fn check(&self) {
        let mut all: Vec<NodeId> = self.nodes().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "a node stands twice in {self:?}");
        assert_eq!(self.majority.len(), self.quorum(), "the majority is not just over half in {self:?}");
    }
}
