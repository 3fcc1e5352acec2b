//! What a disk's records add up to: the copies that an earlier life of this node held.

use crate::copy::Copy;
use crate::log::Log;
use crate::machine::Replica;
use crate::session::Sessions;
use atoll_types::{BucketId, BucketRecord, StateMachine, Time};
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
                if let Some(replica) = copies.get_mut(&bucket) {
                    replica.blank = false;
                    // Something before it cannot be read: what is here is no beginning of the log.
                    replica.useless |= first > replica.log.last_offset().next() || first <= replica.log.base().offset;
                    if replica.useless {
                        continue;
                    }
                    replica.log.cut(first.previous());
                    for entry in entries {
                        replica.clock = replica.clock.max(entry.time);
                        replica.log.append(entry);
                    }
                }
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
                    replica.committed = at.offset.min(replica.log.last_offset());
                    replica.catch_up_to_commit();
                    let upper = replica.halve(lower, upper);
                    copies.entry(upper.bucket()).or_insert(upper);
                }
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

impl Replica {
    /// Applies what is committed; nobody waits for it.
    fn catch_up_to_commit(&mut self) {
        while self.copy.applied.offset < self.committed {
            let offset = self.copy.applied.offset.next();
            let Some(entry) = self.log.get(offset) else { break };
            self.copy.apply(offset, entry, Time::ZERO);
        }
        self.log = Log::new(self.copy.applied);
    }
}
