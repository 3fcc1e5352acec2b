//! The door in, the door out: everything that reaches the core and everything that leaves it.
//!
//! `Node` and `Cluster` have the same doors. What only concerns the two sides of a node, reports and directives, goes
//! through the doors of a `Cluster` that runs beside its shards, and never leaves a `Node`.
//!
//! Not here: the doors of a shard (`shard/door.rs`).

use crate::envelope::Envelope;
use crate::shard::door::{Answer, Directive, Request, RequestId};
use atoll_cluster::Pulse;
use atoll_types::{
    Address, Ballot, BucketId, Cookie, Entry, Generation, Government, Identity, Incarnation, JournalSeq, Level, NodeId,
    Operation, Payload, Record, Report, Sequence, Slot, Time,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// A message, and the address its sender listens at.
    Message { from: Address, envelope: Envelope },
    /// The time asked for by `Output::WakeAt` has come.
    Wake,
    /// All records up to this one are safe.
    Persisted(JournalSeq),
    /// The journal is long: what it holds of this bucket, or of the cluster log, is to be said again in one record.
    Condense(Option<BucketId>),
    /// The connection to this address was reset and a new one refused: no process listens there.
    ConnectionRefused { address: Address },
    /// Bytes for the cluster log. `ticket` is the caller's name for it, used in the answer.
    Submit { ticket: u64, payload: Payload },
    /// Opens a barrier.
    Broadcast { ticket: u64, payload: Payload },
    /// Answers a barrier.
    Answer { barrier: Slot, answer: Payload },
    /// An operator's word.
    Operator { ticket: u64, order: Order },
    /// What this node's replicas have to tell the cluster log.
    Reports(Vec<Report>),
    /// What the parts of this node have done so far. A `Node` counts for itself.
    Pulse(Pulse),
    /// A shard stands still from now on, as a thread may that hangs, or goes on. Only for a `Node`, in simulations.
    Hang { shard: usize, hangs: bool },
    /// For a bucket. `id` is the caller's name for it, used in the answer.
    Request { id: RequestId, request: Request },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Remove this node for good.
    Depart(NodeId),
    /// The majority is lost for good: go on from this node's copy, in a new generation.
    Recover,
    /// Something about buckets.
    Operate(Operation),
    /// This node stops for a while: it is absent from now on, until it is there in a new life.
    Pause,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    Send {
        to: Address,
        envelope: Envelope,
    },
    /// To be written in this order; answered by `Input::Persisted`.
    Persist {
        seq: JournalSeq,
        record: Record,
    },
    /// Come back with `Input::Wake` at this time. Replaces the time given before.
    WakeAt(Time),
    Event(Event),
    /// For every shard of this node, in this order.
    Directive(Directive),
    /// To a request; each gets exactly one.
    Answer {
        id: RequestId,
        answer: Answer,
    },
    /// Of a replica on this node, in this life: the node may be in the next one already. For checkers and people.
    Bucket {
        by: Option<Identity>,
        event: atoll_replica::Event,
    },
}

/// What a user of the cluster log, an operator or a checker wants to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A government named this node (or it founded, or came back from its disk).
    Named {
        node: NodeId,
        incarnation: Incarnation,
    },
    /// The next entry of the log, on this node. Every node sees every entry, in order, once per life, except those
    /// below a snapshot it installed.
    Decided {
        slot: Slot,
        entry: Arc<Entry>,
    },
    /// A submission took effect. `duplicate` entries raise no such event.
    Delivered {
        slot: Slot,
        node: NodeId,
        cookie: Cookie,
        sequence: Sequence,
        payload: Payload,
    },
    /// A barrier was opened and this node is to answer it. Told again after a restart.
    BarrierOpened {
        barrier: Slot,
        payload: Payload,
    },
    /// All have answered; `answers` are those that count.
    BarrierReduced {
        barrier: Slot,
        slot: Slot,
        answers: BTreeMap<NodeId, Payload>,
    },
    /// What this node submitted under `ticket` is in the log.
    Submitted {
        ticket: u64,
        slot: Slot,
        /// What the user's machine answered; empty without one, or where this node went on from a snapshot.
        answer: Payload,
    },
    /// It has no effect and never will have.
    Rejected {
        ticket: u64,
        rejection: Rejection,
    },
    /// It may be in the log, or not: this node has lost its place and cannot say.
    Unknown {
        ticket: u64,
    },
    /// This node leads, and its own government is decided.
    Leading {
        ballot: Ballot,
        slot: Slot,
    },
    /// This node no longer leads.
    SteppedDown {
        ballot: Ballot,
    },
    /// A government took effect.
    Government {
        slot: Slot,
        government: Government,
    },
    /// The state was replaced by a snapshot made at `slot`.
    SnapshotInstalled {
        slot: Slot,
        digest: u64,
    },
    /// A snapshot was made at `slot`.
    SnapshotMade {
        slot: Slot,
        digest: u64,
    },
    /// Entries up to `slot` were dropped from the log.
    Trimmed {
        slot: Slot,
    },
    /// This node departed. It is blank, and asks to arrive anew.
    Departed {
        at: Slot,
    },
    /// A later generation exists; this node's log is void.
    Fenced {
        generation: Generation,
    },
    LevelRaised {
        level: Level,
    },
    /// Something an operator should know.
    Alarm(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rejection {
    /// Too much is waiting already.
    Busy,
    /// This node belongs to no cluster yet.
    Blank,
    /// Larger than an entry may be.
    TooLarge,
    /// No such node or bucket, or the cluster would be left with too few voters or copies.
    NotPossible,
}
