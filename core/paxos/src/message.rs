//! Every message of the cluster log. `docs/protocol/paxos.md` tells who sends which to whom and what is answered.

use atoll_types::{Ballot, Body, Entry, Generation, Held, NodeId, Slot};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    Canvass(Canvass),
    Support(Support),
    Prepare(Prepare),
    Promise(Promise),
    Accept(Accept),
    Accepted(Accepted),
    Learn(Learn),
    Missing(Missing),
    Stand(Stand),
    Refused(Refused),
}

/// "Would you promise this ballot?" A voter that hears no leader asks the others before it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canvass {
    pub ballot: Ballot,
    pub decided: Slot,
}

/// "I would."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Support {
    pub ballot: Ballot,
}

/// Phase one of Paxos, for all slots at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepare {
    pub ballot: Ballot,
    pub decided: Slot,
    /// The present leader told the sender to stand: no reason to wait until that leader falls silent.
    pub ordered: bool,
}

/// "I accept nothing below `ballot`, I know all up to `decided`, and beyond that I hold this."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    pub ballot: Ballot,
    pub decided: Slot,
    /// Where `held` begins; the slot after `decided`.
    pub first: Slot,
    pub held: Vec<Held>,
}

/// Phase two: the entries that follow `previous`. Without entries it is a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    pub ballot: Ballot,
    /// Counts the leader's heartbeats in this ballot.
    pub beat: u64,
    pub previous: Slot,
    pub entries: Vec<Arc<Entry>>,
    pub decided: Slot,
    /// Every live node has all up to here: the log may be trimmed.
    pub floor: Slot,
}

/// "In `ballot` I hold all up to `through`."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub ballot: Ballot,
    pub beat: u64,
    pub through: Slot,
}

/// Decided entries on their way down the relay tree, or in answer to `Missing`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learn {
    /// The ballot of the leader the sender follows.
    pub ballot: Ballot,
    pub beat: u64,
    pub previous: Slot,
    pub entries: Vec<Arc<Entry>>,
    /// How far the sender knows; may lie beyond the entries.
    pub decided: Slot,
    pub floor: Slot,
}

/// "I have all up to `position`; send what follows."
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    pub position: Slot,
}

/// A leader that steps down tells a voter to stand at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stand {
    pub ballot: Ballot,
}

/// A refusal always says what the refused does not know yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Of the message that is refused.
    pub ballot: Ballot,
    pub refusal: Refusal,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// A higher ballot was promised.
    Promised(Ballot),
    /// The refuser hears this leader.
    LeaderAlive { ballot: Ballot, leader: NodeId },
    /// The refuser lacks what precedes; it holds all up to here in that ballot.
    Gap { through: Slot },
}

impl Message {
    /// Can anybody of this generation mean it? Checked before anything is believed.
    pub(crate) fn is_sane(&self, generation: Generation) -> bool {
        let ballot = |ballot: &Ballot| {
            ballot.round <= Ballot::ROUNDS_MOST && (ballot.generation == generation || *ballot == Ballot::default())
        };
        let slot = |slot: Slot| slot <= Slot::MOST;
        let lawful = |entry: &Entry| !matches!(&entry.body, Body::Government(government) if !government.is_lawful());
        let entries = |entries: &[Arc<Entry>]| entries.iter().all(|entry| lawful(entry));
        match self {
            Message::Canvass(canvass) => ballot(&canvass.ballot) && slot(canvass.decided),
            Message::Support(support) => ballot(&support.ballot),
            Message::Prepare(prepare) => ballot(&prepare.ballot) && slot(prepare.decided),
            Message::Promise(promise) => {
                ballot(&promise.ballot)
                    && slot(promise.decided)
                    && promise.first == promise.decided.next()
                    && promise.held.iter().all(|held| lawful(&held.entry))
            }
            Message::Accept(accept) => {
                ballot(&accept.ballot) && slot(accept.previous) && slot(accept.decided) && entries(&accept.entries)
            }
            Message::Accepted(accepted) => ballot(&accepted.ballot) && slot(accepted.through),
            Message::Learn(learn) => {
                slot(learn.previous)
                    && slot(learn.decided)
                    && learn.ballot.round <= Ballot::ROUNDS_MOST
                    && learn.ballot.generation <= generation
                    && entries(&learn.entries)
            }
            Message::Missing(missing) => slot(missing.position),
            Message::Stand(stand) => ballot(&stand.ballot),
            Message::Refused(refused) => match &refused.refusal {
                Refusal::Promised(promised) => ballot(&refused.ballot) && ballot(promised),
                Refusal::LeaderAlive { ballot: alive, .. } => {
                    ballot(&refused.ballot) && alive.round <= Ballot::ROUNDS_MOST
                }
                Refusal::Gap { through } => ballot(&refused.ballot) && slot(*through),
            },
        }
    }
}
