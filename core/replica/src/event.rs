//! What a replica tells whoever watches it. For checkers, people and metrics; nothing depends on it.

use atoll_types::{BucketId, Entries, Epoch, Mark, NodeId, Offset, SlotRange};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// This node serves the bucket in this epoch: every member holds what it began with.
    Serving { bucket: BucketId, epoch: Epoch, inherited: Offset },
    /// The primary of this epoch knows this entry to be committed.
    Committed { bucket: BucketId, epoch: Epoch, mark: Mark, entry: Entries },
    /// A read was answered at this mark, since every member had vouched for as much as this number.
    VouchedFor { bucket: BucketId, epoch: Epoch, mark: Mark, number: u64 },
    /// This copy applied this entry, and this is its digest after it.
    Applied { bucket: BucketId, mark: Mark, digest: u64 },
    /// Entries above `to` were cut in the opening of `epoch`.
    Cut { bucket: BucketId, epoch: Epoch, to: Offset, entries: u64 },
    /// A copy was replaced by a snapshot.
    Installed { bucket: BucketId, mark: Mark, digest: u64 },
    /// A copy was halved; both halves go on from `at`.
    Divided { bucket: BucketId, at: Mark, lower: SlotRange, upper: SlotRange },
    /// The copy is gone from this node.
    Purged { bucket: BucketId },
    /// A read was answered from the state at this mark, linearizably: every member acknowledged this round.
    Confirmed { bucket: BucketId, epoch: Epoch, mark: Mark, round: u64 },
    /// The primary took a read that its lease confirms.
    Leased { bucket: BucketId, epoch: Epoch },
    /// Two members have different states at the same place, or a copy cannot follow its primary.
    Diverged { bucket: BucketId, primary: NodeId, about: NodeId, offset: Offset },
}
