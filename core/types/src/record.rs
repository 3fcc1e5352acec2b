//! What a durable node writes to its disk. The core orders it, the shell writes it, in order.

use crate::{Ballot, BucketRecord, Entry, Generation, Identity, Payload, Slot};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Numbers a node's records in the order they were ordered. `Persisted(n)` says that all up to n are safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JournalSeq(pub u64);

/// An entry as one acceptor holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The ballot it was accepted in; for an entry known as decided it no longer matters.
    pub ballot: Ballot,
    pub entry: Arc<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Who this node is. Written when a government names it and at the start of each life.
    Identity(Identity),
    Promised(Ballot),
    /// Accepted at `first` and the slots after it, in one ballot.
    Accepted {
        ballot: Ballot,
        first: Slot,
        entries: Vec<Arc<Entry>>,
    },
    /// Decided, at `first` and the slots after it.
    Learned {
        first: Slot,
        entries: Vec<Arc<Entry>>,
    },
    /// All up to here is decided. Only a hint: losing it loses nothing.
    Decided(Slot),
    /// Stands for everything before it, which may be deleted once this is safe.
    Checkpoint(Checkpoint),
    /// A higher generation was seen: the log of the old one is void; the identity stays.
    Fenced(Generation),
    /// Of one bucket's copy.
    Bucket(BucketRecord),
    /// Here stood a record that cannot be read any more, of the cluster log or of nobody knows whom. Never written:
    /// told to the next life, which does not vote from a guess.
    Unreadable,
    /// Nothing before this counts. Departed: this node has belonged to a cluster and founds no other.
    Blank {
        departed: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub identity: Identity,
    pub promised: Ballot,
    /// The cluster state at `slot`, as a snapshot carries it.
    pub snapshot: Payload,
    pub slot: Slot,
    /// Known decided; not below `slot`.
    pub decided: Slot,
    /// What is held above `slot`.
    pub tail: Vec<Held>,
}
