//! What stands in the cluster log.

use crate::{
    Address, Cookie, Government, Incarnation, Level, Name, NodeId, Operation, Order, Payload, Report, Sequence, Slot,
    Time,
};
use serde::{Deserialize, Serialize};

/// One entry, with who proposed it first and when by the leader's clock. Proposed again by a later leader it stays the
/// same, to the byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Never less than the entry before it had.
    pub time: Time,
    pub leader: NodeId,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// Fills a slot of which an election learnt that nothing can have been decided there.
    Noop,
    Government(Government),
    /// The leader's own word about a node or the cluster. Does nothing where it no longer fits.
    Edict(Edict),
    /// Steps of moves of buckets, thought out by the leader. Does nothing where it no longer fits.
    Order(Order),
    /// Anybody's, once, by (node, cookie, sequence).
    Submission(Submission),
}

/// Where clients reach a node. Empty: nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    pub http: Address,
    pub resp: Address,
}

/// A node as it asks to be let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Newcomer {
    /// Given by the leader; nobody in an ask.
    pub node: NodeId,
    pub name: Name,
    pub address: Address,
    pub endpoints: Endpoints,
    pub incarnation: Incarnation,
    pub zone: Name,
    pub weight: u32,
    /// The highest feature level it understands.
    pub level: Level,
    /// Keeps its promises over a restart.
    pub durable: bool,
}

/// Why a node is absent or departed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Why {
    /// Not heard for too long, also when asked directly.
    Silent,
    /// Its process is known to be gone.
    Dead,
    /// An operator's word.
    Ordered,
    /// It came again under its name, as a blank process.
    Replaced,
    /// Named by a government, and never reached.
    Unreachable,
    /// Absent for longer than `depart_after`.
    AbsentTooLong,
    /// Came back with a version that does not understand the cluster's feature level.
    LevelTooLow,
    /// It stopped for a while, in good order, and comes back in a new life.
    Stopped,
    /// Its disk or one of its shards does not move, although something waits for it.
    Stalled,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edict {
    Absent {
        node: NodeId,
        incarnation: Incarnation,
        why: Why,
    },
    Present {
        node: NodeId,
        incarnation: Incarnation,
    },
    /// The node was restarted from its data directory: it is the same node in a new life.
    Restarted {
        node: NodeId,
        incarnation: Incarnation,
        address: Address,
        level: Level,
    },
    /// Every member understands this level.
    Level(Level),
    /// The node's clock is far from most others', or no longer is.
    Skewed {
        node: NodeId,
        incarnation: Incarnation,
        skewed: bool,
    },
}

/// A submission counts once per (node, cookie, sequence), however often it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    pub node: NodeId,
    /// Of the submitter's incarnation: what an earlier life submitted counts no more.
    pub cookie: Cookie,
    pub sequence: Sequence,
    /// The lowest sequence the submitter still waits for: what is below may be forgotten.
    pub floor: Sequence,
    pub request: Request,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// For whoever uses the cluster log.
    User(Payload),
    /// The submitter has its snapshot and is in step.
    Acclimated,
    /// Opens a barrier: every present node is to answer.
    Broadcast(Payload),
    /// Answers the barrier that was opened at `barrier`.
    Answer { barrier: Slot, answer: Payload },
    /// An operator wants the node gone for good.
    Depart { node: NodeId },
    /// What the submitter's replicas have to tell.
    Reports(Vec<Report>),
    /// An operator's wish about buckets.
    Operate(Operation),
    /// The submitter stops for a while, in good order: it is absent from now on,
    /// until it is there in a new life.
    Pause,
    /// Clients reach the submitter there from now on: it was started again with other ports.
    Reached(Endpoints),
}
