//! What stands in the cluster log about buckets: the distributor's orders, the replicas' reports, operators' wishes.

use crate::{BucketId, Epoch, NodeId, Slot};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Steps of moves, thought out by the leader's distributor. Each step names the epoch it was thought out for and does
/// nothing in any other; an order with another number than the next is a duplicate, or was overtaken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Counts the orders that took effect.
    pub number: u64,
    /// The last removal its author knew of: an order from before a removal is void.
    pub removal: Slot,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// First placement: the key space in `buckets` equal parts, spread over the present nodes.
    /// For good: how long the lease of a primary lasts; zero: there are none.
    Place { buckets: u16, copies: u8, min_copies: u8, lease: Duration },
    /// These catch up.
    Expand { bucket: BucketId, epoch: Epoch, add: Vec<NodeId> },
    /// Those that catch up and are ready become members.
    Unite { bucket: BucketId, epoch: Epoch },
    /// Those that catch up no longer do.
    Abandon { bucket: BucketId, epoch: Epoch, drop: Vec<NodeId> },
    /// Another eligible member becomes primary.
    Abdicate { bucket: BucketId, epoch: Epoch, to: NodeId },
    /// These are no longer members.
    Contract { bucket: BucketId, epoch: Epoch, drop: Vec<NodeId> },
    /// The primary is to write the split as the last entry of this epoch.
    Split { bucket: BucketId, epoch: Epoch },
}

/// What a replica tells the cluster log. Counts only for the bucket's present epoch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Report {
    /// From the primary: this catching-up node holds what a member holds. Only a hint.
    Ready { bucket: BucketId, epoch: Epoch, node: NodeId },
    /// From the primary: every member acknowledged this epoch.
    Settled { bucket: BucketId, epoch: Epoch },
    /// From the primary: every member holds the split, the last entry of this epoch.
    Divided { bucket: BucketId, epoch: Epoch },
    /// From a member: it waits in vain for this one, who is a member, catching up, or the primary; or itself.
    Complain { bucket: BucketId, epoch: Epoch, about: NodeId },
    /// From a member or one that catches up: its own copy is damaged.
    Damaged { bucket: BucketId, epoch: Epoch },
    /// From the primary: requests come in at this node, nearly all; at nobody: from all over.
    Sought { bucket: BucketId, epoch: Epoch, at: NodeId },
}

/// An operator's wish about buckets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Everything moves off this node; then it departs.
    Drain { node: NodeId },
    /// It stays after all.
    Undrain { node: NodeId },
    /// This node hands over its primaries: it is about to stop for a while.
    HandOver { node: NodeId },
    /// Each bucket, or one, is halved.
    Split { bucket: Option<BucketId> },
    /// Level out again now.
    Rebalance,
    /// A lost bucket is served again, from the copy of this node, or empty.
    Revive { bucket: BucketId, from: Option<NodeId> },
}
