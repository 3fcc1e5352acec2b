//! What each host's disk holds of each bucket, by the records that are safe, and what its processes have acknowledged
//! and seen: the simulator's own knowledge, apart from what any replica believes.
//!
//! A host without a disk writes no records of buckets. What it holds is what its process holds.

use crate::host::Host;
use atoll_replica::Replica;
use atoll_replica::message::Ack;
use atoll_types::{BucketId, BucketRecord, ClusterId, Entries, Epoch, Mark, NodeId, Offset, SlotRange};
use std::collections::BTreeMap;

/// A copy as it can be read back.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) range: SlotRange,
    base: Mark,
    /// One by one; the first has the offset after the base.
    entries: Vec<Entries>,
}

impl Held {
    fn of(replica: &Replica) -> Held {
        let log = replica.log();
        let entries =
            log.all_from(log.base().offset.next()).iter().flat_map(|row| row.each().collect::<Vec<_>>()).collect();
        Held { range: replica.range(), base: log.base(), entries }
    }

    fn cut(&mut self, to: Offset) {
        self.entries.truncate(to.above(self.base.offset) as usize);
    }

    pub(crate) fn last(&self) -> Offset {
        Offset(self.base.offset.0 + self.entries.len() as u64)
    }

    /// Holds this entry, or a state that came of it.
    pub(crate) fn holds(&self, offset: Offset, entry: &Entries) -> bool {
        let above = offset.0.checked_sub(self.base.offset.0 + 1);
        above.is_none_or(|index| self.entries.get(index as usize).is_some_and(|held| held == entry))
    }
}

#[derive(Debug, Default)]
struct Disk {
    held: BTreeMap<BucketId, Held>,
    seen: BTreeMap<BucketId, Epoch>,
}

/// What a replica was when it was last looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) seen: Epoch,
    /// Of its duty.
    pub(crate) epoch: Epoch,
}

#[derive(Debug)]
pub(crate) struct Copies {
    disks: Vec<Disk>,
    last: Vec<BTreeMap<BucketId, Last>>,
    /// The highest offset that each node has said, in this epoch, to hold.
    /// How far each node acknowledged in an epoch, and its last round.
    acks: BTreeMap<(ClusterId, BucketId, Epoch, NodeId), (Offset, u64)>,
}

impl Copies {
    pub(crate) fn new(hosts: usize) -> Copies {
        let (disks, last) = ((0..hosts).map(|_| Disk::default()).collect(), vec![BTreeMap::new(); hosts]);
        Copies { disks, last, acks: BTreeMap::new() }
    }

    pub(crate) fn on_safe(&mut self, host: usize, record: &BucketRecord) {
        let Disk { held, seen } = &mut self.disks[host];
        let bucket = record.bucket();
        match record {
            BucketRecord::Began { range, base, .. } => {
                held.insert(bucket, Held { range: *range, base: *base, entries: Vec::new() });
            }
            BucketRecord::Seen { epoch, .. } => {
                let known = seen.entry(bucket).or_default();
                *known = (*known).max(*epoch);
            }
            BucketRecord::Appended { first, entries, .. } => {
                if let Some(copy) = held.get_mut(&bucket) {
                    copy.cut(first.previous());
                    copy.entries.extend(entries.each());
                }
            }
            BucketRecord::Cut { to, .. } => {
                if let Some(copy) = held.get_mut(&bucket) {
                    copy.cut(*to);
                }
            }
            BucketRecord::Copied { range, snapshot, .. } => {
                held.insert(bucket, Held { range: *range, base: snapshot.mark, entries: Vec::new() });
            }
            BucketRecord::Divided { at, lower, upper, .. } => {
                for half in [*lower, *upper] {
                    held.insert(half.bucket(), Held { range: half, base: *at, entries: Vec::new() });
                }
            }
            BucketRecord::Purged { .. } => drop(held.remove(&bucket)),
            // Says nothing that was not said before.
            BucketRecord::Image { .. } | BucketRecord::Unreadable { .. } => {}
        }
    }

    /// A process begins with what its disk gives back: all that was safe, and maybe more. Tells what is missing, unless
    /// the disk was damaged and the copy is known to be of no use.
    pub(crate) fn on_start(&mut self, hosts: &[Host], host: usize) -> Option<String> {
        self.last[host].clear();
        let core = hosts[host].core()?;
        let safe = std::mem::take(&mut self.disks[host].held);
        if core.view().identity.is_none() {
            self.disks[host].seen.clear();
            return None;
        }
        let mut missing = None;
        let replicas: BTreeMap<BucketId, &Replica> = core
            .shards()
            .iter()
            .flat_map(|shard| shard.replicas().iter().map(|(&id, replica)| (id, replica)))
            .collect();
        for (bucket, copy) in safe {
            let back = replicas.get(&bucket).map(|replica| Held::of(replica));
            let whole = back.is_some_and(|back| {
                let offsets = (copy.base.offset.0 + 1..).map(Offset);
                back.base.offset >= copy.base.offset
                    && back.last() >= copy.last()
                    && offsets.zip(&copy.entries).all(|(offset, entry)| back.holds(offset, entry))
            });
            if !(whole || is_known_damaged(&hosts[host], bucket)) {
                missing = Some(format!("bucket {bucket}, of which {} were safe", copy.last()));
            }
        }
        for (&bucket, replica) in &replicas {
            self.disks[host].held.insert(bucket, Held::of(replica));
            let seen = self.disks[host].seen.entry(bucket).or_default();
            *seen = (*seen).max(replica.seen());
        }
        missing
    }

    /// No copy on the disk counts any more.
    pub(crate) fn forget_held(&mut self, host: usize) {
        self.disks[host].held.clear();
    }

    /// What the disk held is gone.
    pub(crate) fn forget(&mut self, host: usize) {
        self.disks[host] = Disk::default();
    }

    pub(crate) fn on_stop(&mut self, host: usize) {
        self.last[host].clear();
    }

    /// The highest epoch that the disk knows of.
    pub(crate) fn safely_seen(&self, host: usize, bucket: BucketId) -> Epoch {
        self.disks[host].seen.get(&bucket).copied().unwrap_or_default()
    }

    /// The copy on the disk. Before its division is safe, that of the whole.
    pub(crate) fn safely_held(&self, host: usize, bucket: BucketId) -> Option<&Held> {
        let (_, copy) = self.disks[host].held.range(..=bucket).next_back()?;
        (copy.range.first.0 <= bucket.0 && bucket.0 <= copy.range.last.0).then_some(copy)
    }

    /// As of the end of the step before.
    pub(crate) fn last(&self, host: usize, bucket: BucketId) -> Last {
        self.last[host].get(&bucket).copied().unwrap_or_default()
    }

    /// Notes what the replica is now; tells whether its duty is of another epoch than before.
    pub(crate) fn note(&mut self, host: usize, bucket: BucketId, replica: &Replica) -> bool {
        let epoch = replica.duty().map_or(Epoch::ZERO, |duty| duty.appointment.epoch);
        let before = self.last[host].insert(bucket, Last { seen: replica.seen(), epoch });
        before.is_none_or(|before| before.epoch != epoch)
    }

    pub(crate) fn forget_purged(&mut self, host: usize, bucket: BucketId) {
        self.last[host].remove(&bucket);
    }

    pub(crate) fn on_ack(&mut self, cluster: ClusterId, bucket: BucketId, epoch: Epoch, node: NodeId, ack: &Ack) {
        let (held, round) = self.acks.entry((cluster, bucket, epoch, node)).or_default();
        (*held, *round) = ((*held).max(ack.held), (*round).max(ack.round));
    }

    /// The last round this node acknowledged in this epoch.
    pub(crate) fn round(&self, cluster: ClusterId, bucket: BucketId, epoch: Epoch, node: NodeId) -> u64 {
        self.acks.get(&(cluster, bucket, epoch, node)).map_or(0, |(_, round)| *round)
    }

    /// How far this node has acknowledged in this epoch, if at all.
    pub(crate) fn acked(&self, cluster: ClusterId, bucket: BucketId, epoch: Epoch, node: NodeId) -> Option<Offset> {
        self.acks.get(&(cluster, bucket, epoch, node)).map(|(held, _)| *held)
    }
}

/// The disk lost something that was safe, and the process knows that its copy is of no use.
pub(crate) fn is_known_damaged(host: &Host, bucket: BucketId) -> bool {
    host.disk.is_rotten() && replica(host, bucket).is_none_or(|replica| replica.is_useless() || replica.is_blank())
}

/// The replica of a bucket in the process on this host.
pub(crate) fn replica(host: &Host, bucket: BucketId) -> Option<&Replica> {
    host.core()?.shards().iter().find_map(|shard| shard.replicas().get(&bucket))
}
