//! The doors of a shard: what reaches it and what leaves it.
//!
//! A node has one cluster machine and a few shards, which may run on threads of their own. They talk only by the
//! messages here: directives go from the cluster machine to every shard, reports from the shards to it.

use atoll_replica::Event;
use atoll_types::{
    Address, BucketId, BucketRecord, ClusterId, Duty, Generation, HashSlot, Identity, Incarnation, JournalSeq, NodeId,
    Payload, Position, Principal, Report, SessionUse, Slot, Time,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// What the cluster machine tells every shard of its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Directive {
    /// Who this node is from now on. Copies stay; whatever else was known is void until it is told again.
    Named { cluster: ClusterId, generation: Generation, node: NodeId, incarnation: Incarnation },
    /// A new generation, with the same names.
    Generation(Generation),
    /// This node departed: its copies go, its callers are told.
    Departed,
    /// Where all members of the cluster are, and in which life. Replaces what was told before.
    Roster(BTreeMap<NodeId, Contact>),
    /// Buckets whose duty changed, at this version of the table.
    Table(Table),
    /// Nothing that was decided before then, by this node's own clock, is missing from the table.
    Current { since: Time },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    pub address: Address,
    pub incarnation: Incarnation,
    /// Not absent, so that messages may reach it.
    pub present: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The slot this is as of: every epoch up to it is known.
    pub version: Slot,
    /// Hash slots of a bucket at first placement: what was one bucket then stays on one shard.
    pub width: u16,
    /// How long a primary may answer reads by itself; zero: not at all.
    pub lease: Duration,
    /// Everything there is; not only what changed.
    pub complete: bool,
    pub duties: Vec<(BucketId, Duty)>,
    /// Copies of these buckets, if there are any on this node, are of no use to anybody.
    pub purge: Vec<BucketId>,
}

/// The caller's own name for a request, used in the answer. Unique among those a node has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId(pub u64);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Requests of one connection to one bucket take effect in their order.
    pub connection: u64,
    pub slot: HashSlot,
    /// In whose name.
    pub principal: Principal,
    pub ask: Ask,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    Write {
        usage: Option<SessionUse>,
        command: Payload,
    },
    /// Linearizable.
    Read {
        query: Payload,
    },
    /// From any member's committed state, no older than `max_stale`. Where a position is named that nobody has reached
    /// yet, the read waits for it: whoever follows a bucket asks for the position after the last one it saw.
    Stale {
        query: Payload,
        after: Option<Position>,
    },
}

/// Each request gets exactly one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Done {
        payload: Payload,
        position: Position,
        /// Applied before, under the same number; this is its first answer.
        duplicate: bool,
    },
    /// It has had no effect and will have none.
    NotApplied(Reason),
    /// It may have an effect, or not.
    Unknown,
}

/// Why something was not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Reason {
    /// Too much is waiting already.
    Busy,
    /// The bucket was not served in time: it is moving, or too few of its members are there.
    Paused,
    /// No eligible copy is left.
    Lost,
    /// There is no table yet, or this node belongs to no cluster.
    NoTable,
    /// It was passed on too often.
    TooManyHops,
    /// A member has no memory to spare.
    OutOfMemory,
    /// The session was forgotten: whether earlier writes of it took effect cannot be said any more.
    SessionExpired,
    /// Below the floor the client itself named.
    BelowFloor,
    /// More writes outstanding than a session may have.
    BeyondWindow,
    /// A wrapping counter that is used outside of its slot, or is none.
    BadSession,
    /// No member's state is new enough.
    TooStale,
    /// Larger than an entry may be.
    TooLarge,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShardInput {
    Directive(Directive),
    /// From another node. Cluster, generation and incarnation are checked here.
    Message {
        from: Address,
        envelope: Box<crate::Envelope>,
    },
    Request {
        id: RequestId,
        request: Request,
    },
    Persisted(JournalSeq),
    /// The journal is long: what it holds of this bucket is to be said again in one record.
    Condense(BucketId),
    Wake,
    /// No process listens there any more.
    ConnectionRefused {
        address: Address,
    },
}

/// Most are answers: what is larger and comes less often has memory of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShardOutput {
    Send {
        to: Address,
        envelope: Box<crate::Envelope>,
    },
    Persist {
        seq: JournalSeq,
        record: Box<BucketRecord>,
    },
    WakeAt(Time),
    Answer {
        id: RequestId,
        answer: Answer,
    },
    /// For the cluster log. Told again while it matters and nothing has come of it.
    Reports(Vec<Report>),
    /// Of a replica, in this life. For checkers and people.
    Event {
        by: Option<Identity>,
        event: Box<Event>,
    },
}
