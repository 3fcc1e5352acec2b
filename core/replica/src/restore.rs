//! What a disk's records add up to: the copies that an earlier life of this node held.

use crate::copy::Copy;
use crate::log::Log;
use crate::machine::Replica;
use crate::session::Sessions;
use crate::sink::Sink;
use atoll_types::{BucketId, BucketRecord, HashSlot, Mark, SlotRange, StateMachine, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// The copies, with their logs. What is committed is not known again until a primary tells it.
pub fn restore(records: Vec<BucketRecord>, kind: &dyn StateMachine, idle: Duration) -> BTreeMap<BucketId, Replica> {
    let mut copies: BTreeMap<BucketId, Replica> = BTreeMap::new();
    let mut seen = BTreeMap::new();
    for record in records {
        let bucket = record.bucket();
        match record {
            BucketRecord::Began { range, base, blank, .. } => {
                let copy = Copy::empty(range, base, Sessions::new(idle), kind.empty());
                let mut replica = Replica::of(bucket, copy);
                replica.blank = blank;
                copies.insert(bucket, replica);
            }
            BucketRecord::Seen { epoch, .. } => {
                let highest = seen.entry(bucket).or_insert(epoch);
                *highest = epoch.max(*highest);
            }
            BucketRecord::Appended { first, entries, .. } => {
                // What the copy began with may be the half of another, of which the record is damaged.
                let replica = copies.entry(bucket).or_insert_with(|| without_beginning(bucket, kind, idle));
                replica.blank = false;
                // Something before it cannot be read: what is here is no beginning of the log.
                replica.useless |= first > replica.log.last_offset().next() || first <= replica.log.base().offset;
                if replica.useless {
                    continue;
                }
                replica.log.cut(first.previous());
                replica.clock = replica.clock.max(entries.last_time());
                replica.log.append(&entries);
            }
            BucketRecord::Cut { to, .. } => {
                if let Some(replica) = copies.get_mut(&bucket) {
                    replica.log.cut(to);
                    replica.clock = replica.log.get(to).map_or(replica.copy.time, |entry| entry.time);
                }
            }
            BucketRecord::Copied { snapshot, .. } => {
                if let Some(copy) = Copy::open(&snapshot, kind) {
                    let replica = copies.entry(bucket).or_insert_with(|| {
                        let empty = Copy::empty(copy.range, snapshot.mark, Sessions::new(idle), kind.empty());
                        Replica::of(bucket, empty)
                    });
                    replica.replace(copy);
                    (replica.useless, replica.blank) = (false, false);
                } else if let Some(replica) = copies.get_mut(&bucket) {
                    replica.useless = true;
                }
            }
            BucketRecord::Divided { at, lower, upper, .. } => {
                if let Some(replica) = copies.get_mut(&bucket) {
                    replica.useless |= replica.log.last() != at;
                    replica.committed = at.offset.min(replica.log.last_offset());
                    replica.catch_up_to_commit();
                    let upper = replica.halve(lower, upper);
                    copies.entry(upper.bucket()).or_insert(upper);
                }
            }
            BucketRecord::Image { range, seen: epoch, blank, split_at, snapshot, tail, .. } => {
                let copy = Copy::open(&snapshot, kind);
                let useless = copy.is_none();
                let empty = || Copy::empty(range, snapshot.mark, Sessions::new(idle), kind.empty());
                let mut replica = Replica::of(bucket, copy.unwrap_or_else(empty));
                (replica.blank, replica.useless, replica.split_at) = (blank, useless, split_at);
                for entries in tail {
                    replica.clock = replica.clock.max(entries.last_time());
                    replica.log.append(&entries);
                }
                let highest = seen.entry(bucket).or_insert(epoch);
                *highest = epoch.max(*highest);
                copies.insert(bucket, replica);
            }
            BucketRecord::Unreadable { .. } => {
                // Also where that was the copy's beginning.
                copies.entry(bucket).or_insert_with(|| without_beginning(bucket, kind, idle)).useless = true;
            }
            BucketRecord::Purged { .. } => drop(copies.remove(&bucket)),
        }
    }
    for (bucket, replica) in &mut copies {
        replica.seen = replica.seen.max(seen.get(bucket).copied().unwrap_or_default());
        let last = replica.log.last_offset();
        (replica.safe, replica.ordered) = (last, last);
        replica.void_what_was();
    }
    copies
}

/// A copy of which not even the range is known any more. One that were simply missing would be begun anew, with
/// nothing, where the bucket has not moved since it began.
fn without_beginning(bucket: BucketId, kind: &dyn StateMachine, idle: Duration) -> Replica {
    let unknown = SlotRange { first: HashSlot(bucket.0), last: HashSlot(bucket.0) };
    let copy = Copy::empty(unknown, Mark::default(), Sessions::new(idle), kind.empty());
    let mut replica = Replica::of(bucket, copy);
    replica.useless = true;
    replica
}

impl Replica {
    /// Says in one record all that the disk has to know of this copy.
    pub fn condense(&self, sink: &mut Sink) {
        if self.useless {
            return; // There is nothing to keep; what the disk has is as useless.
        }
        sink.persist(BucketRecord::Image {
            bucket: self.bucket,
            range: self.copy.range,
            width: sink.width,
            seen: self.seen,
            blank: self.blank,
            split_at: self.split_at,
            snapshot: self.copy.snapshot(),
            tail: self.log.all_from(self.copy.applied.offset.next()),
        });
    }

    /// Applies what is committed; nobody waits for it.
    fn catch_up_to_commit(&mut self) {
        let applied = self.copy.applied.offset;
        for entry in self.log.rows(applied.next()).take(self.committed.above(applied) as usize) {
            self.copy.apply(&entry, Time::ZERO);
        }
        (self.log, self.trim_beyond) = (Log::new(self.copy.applied), (0, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{Entries, Epoch, Offset};

    #[derive(Debug)]
    struct Nothing;

    impl StateMachine for Nothing {
        fn empty(&self) -> Box<dyn StateMachine> {
            Box::new(Nothing)
        }
        fn apply(&mut self, _: atoll_types::At, _: &[u8], _: &mut Vec<u8>) {}
        fn advance(&mut self, _: atoll_types::At) {}
        fn due(&self) -> Option<Time> {
            None
        }
        fn read(&self, _: atoll_types::At, _: &[u8], _: &mut Vec<u8>) {}
        fn grows(&self, _: &[u8]) -> bool {
            false
        }
        fn bytes(&self) -> usize {
            0
        }
        fn count(&self) -> usize {
            0
        }
        fn snapshot(&self) -> Vec<u8> {
            Vec::new()
        }
        fn install(&mut self, _: &[u8]) -> Result<(), atoll_types::Malformed> {
            Ok(())
        }
        fn split(&mut self, _: HashSlot) -> Box<dyn StateMachine> {
            Box::new(Nothing)
        }
        fn digest(&self) -> u64 {
            0
        }
    }

    #[test]
    fn a_copy_whose_beginning_cannot_be_read_is_there_and_of_no_use() {
        let bucket = BucketId(10_240);
        let seen = BucketRecord::Seen { bucket, epoch: Epoch::ZERO };
        let appended = BucketRecord::Appended { bucket, first: Offset(1), entries: Entries::none(Epoch::ZERO) };
        let records = vec![BucketRecord::Unreadable { bucket }, seen, appended];
        let copies = restore(records, &Nothing, Duration::from_secs(1));
        assert!(copies.get(&bucket).is_some_and(Replica::is_useless), "missing, it would be begun anew");
    }

    /// The record of a division is damaged: the upper half goes on in the log, and is not what the lower one still has.
    #[test]
    fn the_upper_half_of_a_damaged_division_is_of_no_use() {
        let (lower, upper) = (BucketId(0), BucketId(8192));
        let began = BucketRecord::Began {
            bucket: lower,
            range: SlotRange::ALL,
            width: 16_384,
            base: Mark::default(),
            blank: false,
        };
        let appended = BucketRecord::Appended { bucket: upper, first: Offset(1), entries: Entries::none(Epoch::ZERO) };
        let records = vec![began, BucketRecord::Unreadable { bucket: lower }, appended];
        let mut copies = restore(records, &Nothing, Duration::from_secs(1));
        assert!(copies.get(&upper).is_some_and(Replica::is_useless), "missing, it would be divided off once more");
        let (low, high) = SlotRange::ALL.halves().expect("there are two");
        let half = copies.get_mut(&lower).expect("it is there").halve(low, high);
        assert!(half.is_useless(), "nor is that half what the whole had");
    }
}
