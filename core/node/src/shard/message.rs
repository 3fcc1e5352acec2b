//! What the shards of two nodes say to each other. One frame holds everything there is for a node.

use super::door::{Answer, Request};
use atoll_types::{Latest, Slot, SlotRange};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShardMessage {
    /// Of replicas, of any bucket.
    Replicas(Vec<atoll_replica::Message>),
    Hop(Hop),
    Hopped(Hopped),
    Vouch(Vouch),
    Vouched(Vouched),
}

/// Asks what the shard that has the same buckets has heard of, on behalf of every read that waits in the sender's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vouch {
    /// Counts what the sender asks anybody. Every read that waits for it came before it was sent.
    pub number: u64,
    /// Which of the sender's shards asks, and how many there are: the buckets are the same only where the receiver has
    /// as many.
    pub shard: u16,
    pub shards: u16,
}

/// The answer: when the question came this was the latest edict that this shard had heard of. None: it cannot tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vouched {
    pub number: u64,
    pub shard: u16,
    pub latest: Option<Latest>,
}

/// Requests on their way to the primary, all of one root, those of each lane in their order. Sent again, with the same
/// number, until it is answered; the number makes it count once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Of the sender, counting its hops to anybody.
    pub number: u64,
    /// Which of the sender's shards counts here.
    pub shard: u16,
    /// The lowest number the sender still waits for: what is below may be forgotten.
    pub floor: u64,
    /// The sender's table: older ones wait.
    pub version: Slot,
    /// How often these were passed on, this time included; the most of any of them.
    pub hops: u8,
    /// The bucket at first placement that all of these belong to: which shard they are for.
    pub root: SlotRange,
    pub requests: Vec<Request>,
}

/// What has become of a hop, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hopped {
    pub number: u64,
    pub root: SlotRange,
    /// By the place in the hop.
    pub answers: Vec<(u32, Answer)>,
}
