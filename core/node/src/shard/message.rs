//! What the shards of two nodes say to each other. One frame holds everything there is for a node.

use super::door::{Answer, Request};
use atoll_types::{Slot, SlotRange};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShardMessage {
    /// Of replicas, of any bucket.
    Replicas(Vec<atoll_replica::Message>),
    Hop(Hop),
    Hopped(Hopped),
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
