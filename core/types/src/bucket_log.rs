//! What a durable node writes of a bucket to its disk.
//!
//! Not here: what stands in a bucket's log (`entries.rs`).

use crate::{BucketId, Entries, Epoch, Mark, Offset, Payload, SlotRange};
use serde::{Deserialize, Serialize};

/// A bucket's whole state at a committed mark. Refused whole where its length or checksum is not right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketSnapshot {
    pub mark: Mark,
    pub bytes: Payload,
    pub checksum: u32,
}

/// What a durable node writes about its copy of a bucket, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BucketRecord {
    /// The bucket begins here, with nothing; or, blank, only this copy does, to be filled by a primary. `width`: slots
    /// per bucket at first placement, which tells the shard.
    Began { bucket: BucketId, range: SlotRange, width: u16, base: Mark, blank: bool },
    /// The highest epoch seen.
    Seen { bucket: BucketId, epoch: Epoch },
    /// Written after everything before it.
    Appended { bucket: BucketId, first: Offset, entries: Entries },
    /// Everything above this is void.
    Cut { bucket: BucketId, to: Offset },
    /// The whole copy is this from now on.
    Copied { bucket: BucketId, range: SlotRange, width: u16, snapshot: BucketSnapshot },
    /// The bucket ended with a split at `at`: this copy is halved, both go on from there.
    Divided { bucket: BucketId, at: Mark, lower: SlotRange, upper: SlotRange },
    /// The copy is no longer there.
    Purged { bucket: BucketId },
    /// The same copy, said again in one: stands for all before it.
    Image {
        bucket: BucketId,
        range: SlotRange,
        width: u16,
        seen: Epoch,
        blank: bool,
        /// The last split that was applied.
        split_at: Option<Mark>,
        snapshot: BucketSnapshot,
        /// What is held above the snapshot.
        tail: Vec<Entries>,
    },
    /// Here stood a record that cannot be read any more. Never written: told to the next life.
    Unreadable { bucket: BucketId },
}

impl BucketRecord {
    pub fn bucket(&self) -> BucketId {
        match self {
            BucketRecord::Began { bucket, .. }
            | BucketRecord::Seen { bucket, .. }
            | BucketRecord::Appended { bucket, .. }
            | BucketRecord::Cut { bucket, .. }
            | BucketRecord::Copied { bucket, .. }
            | BucketRecord::Divided { bucket, .. }
            | BucketRecord::Image { bucket, .. }
            | BucketRecord::Unreadable { bucket }
            | BucketRecord::Purged { bucket } => *bucket,
        }
    }
}
