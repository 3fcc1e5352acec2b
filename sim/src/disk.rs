//! A disk: the journal that the shell has as well, over files that lose what was not synced.
//!
//! ```text
//!   ordered ──begin_sync──▶ written, a sync is under way ──finish_sync──▶ safe, survives a crash
//! ```
//! As with the shell's writer, everything that was ordered meanwhile is written at once when a sync begins. A crash
//! leaves what is safe, and of what was written nothing, a part, or all.
//!
//! Not here: what the records mean (`check/ledger.rs`).

use crate::clock::Moment;
use crate::plan::DiskPlan;
use atoll_journal::frame::{HEADER, Header};
use atoll_journal::memory::Memory;
use atoll_journal::{Batch, Files, Journal, Lsn, Owner, Settings, look};
use atoll_types::{BucketId, JournalSeq, Record, Rng};
use std::collections::VecDeque;
use std::time::Duration;

/// What one finished sync made safe.
#[derive(Debug)]
pub(crate) struct Synced {
    pub(crate) through: JournalSeq,
    pub(crate) records: Vec<Record>,
}

#[derive(Debug)]
pub(crate) struct Disk {
    plan: DiskPlan,
    rng: Rng,
    settings: Settings,
    journal: Journal<Memory>,
    /// Ordered, and nothing more.
    queue: Vec<(JournalSeq, Record)>,
    /// Written; the sync is under way. The first of them has this position.
    syncing: (Lsn, Vec<(JournalSeq, Record)>),
    /// What the journal asks its node to say again in one.
    asks: VecDeque<Option<BucketId>>,
    slow_until: Moment,
    /// Nothing is done before.
    hangs_until: Moment,
    /// Now and then a bit changes by itself while the process is down.
    rots: bool,
    /// It did, before this life or an earlier one.
    rotten: bool,
    /// What the node promised can no longer be read.
    spoiled: bool,
}

/// A sector that lands in the wrong place is drawn so often, until it hits the cluster log.
const SPOILS_MOST: usize = 8;

impl Disk {
    pub(crate) fn new(mut rng: Rng, plan: DiskPlan) -> Disk {
        // Small, so that files are begun, given up and used again in every run.
        let segment = 4096 << rng.below(4);
        let settings = Settings { segment, log_least: segment * (2 + rng.below(6)), log_factor: 4, spares: 1 };
        let journal = blank(&settings);
        let syncing = (Lsn(0), Vec::new());
        let (queue, asks) = (Vec::new(), VecDeque::new());
        let rots = plan.torn && rng.one_in(3);
        Disk {
            plan,
            rng,
            settings,
            journal,
            queue,
            syncing,
            asks,
            slow_until: Moment(0),
            hangs_until: Moment(0),
            rots,
            rotten: false,
            spoiled: false,
        }
    }

    pub(crate) fn write(&mut self, seq: JournalSeq, record: Record) {
        self.queue.push((seq, record));
    }

    /// Begins a sync if there is something to make safe and none is under way. Gives the moment it will be done.
    pub(crate) fn begin_sync(&mut self, now: Moment) -> Option<Moment> {
        if !self.syncing.1.is_empty() || self.queue.is_empty() {
            return None;
        }
        self.syncing = (self.journal.next(), std::mem::take(&mut self.queue));
        let mut batch = Batch::default();
        self.syncing.1.iter().for_each(|(_, record)| batch.add(record));
        self.journal.write(&batch).expect("this disk does not fail");
        let (low, high) = self.plan.sync;
        let mut span = self.rng.between(low, high.max(low + Duration::from_micros(1)));
        if now < self.slow_until {
            span += self.rng.between(Duration::from_millis(50), Duration::from_millis(500));
        }
        Some(now.max(self.hangs_until).after(span))
    }

    pub(crate) fn hang(&mut self, until: Moment) {
        self.hangs_until = self.hangs_until.max(until);
    }

    pub(crate) fn slow(&mut self, until: Moment) {
        self.slow_until = self.slow_until.max(until);
    }

    pub(crate) fn finish_sync(&mut self) -> Option<Synced> {
        let records = std::mem::take(&mut self.syncing.1);
        let &(through, _) = records.last()?;
        self.journal.sync().expect("this disk does not fail");
        self.do_chores();
        Some(Synced { through, records: records.into_iter().map(|(_, record)| record).collect() })
    }

    /// What the shell does in the background.
    fn do_chores(&mut self) {
        for image in self.journal.take_images() {
            image.write(self.journal.files()).expect("this disk does not fail");
            self.journal.on_image(image.bucket, image.lsn, image.len());
        }
        self.journal.trim().expect("this disk does not fail");
        if self.rng.one_in(8) {
            self.journal.mark().expect("this disk does not fail");
        }
        if let Some((name, length)) = self.journal.wants_spare() {
            self.journal.files().create(&name, length).expect("this disk does not fail");
            self.journal.add_spare(name);
        }
        if let Some(owner) = self.journal.wants_image() {
            self.asks.push_back(match owner {
                Owner::Cluster => None,
                Owner::Bucket(bucket) => Some(bucket),
            });
        }
    }

    /// The next thing that the node is to say again in one.
    pub(crate) fn ask(&mut self) -> Option<Option<BucketId>> {
        self.asks.pop_front()
    }

    /// The process is gone. Gives the records that were not safe and survived nevertheless.
    pub(crate) fn crash(&mut self) -> Vec<Record> {
        self.queue.clear();
        self.asks.clear();
        let (first, written) = std::mem::take(&mut self.syncing);
        self.journal.files().crash(&mut self.rng, self.plan.torn);
        let files = self.journal.files().clone();
        let read = Journal::open(files, self.settings.clone(), &mut |_| {});
        let next = read.map_or(first, |(journal, _)| journal.next());
        let survived = (first.0..next.0).zip(written).map(|(_, (_, record))| record);
        survived.collect()
    }

    /// A bit changes in something of a bucket: in an image, or in a record of which the log says that it was safe.
    fn rot(&mut self) -> bool {
        let files = self.journal.files();
        let mut places: Vec<(String, usize)> = Vec::new();
        for name in files.list().unwrap_or_default() {
            let bytes = files.read(&name).unwrap_or_default();
            if name.starts_with("image-") && !name.ends_with(".new") {
                places.push((name, bytes.len() - 1));
            } else if let Some(number) = name.strip_prefix("log-").and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
                places.extend(safe_bodies(&bytes, number).into_iter().map(|place| (name.clone(), place)));
            }
        }
        let Some((name, at)) = places.get(self.rng.below(places.len().max(1) as u64) as usize).cloned() else {
            return false;
        };
        let byte = files.read(&name).ok().and_then(|bytes| bytes.get(at).copied()).unwrap_or_default();
        files.write(&name, at as u64, &[byte ^ 1]).and_then(|()| files.sync(&name)).is_ok()
    }

    /// Whether this disk may have lost something that was safe.
    pub(crate) fn is_rotten(&self) -> bool {
        self.rotten
    }

    /// What the next life finds. `Err`: something is damaged that was safe.
    pub(crate) fn recover(&mut self) -> Result<Vec<Record>, String> {
        // What is damaged stays so until something later stands for it.
        self.rotten |= self.rots && self.rng.one_in(2) && self.rot();
        let files = std::mem::take(self.journal.files());
        let read = Journal::open(files, self.settings.clone(), &mut |_| {});
        let (journal, recovered) = read.map_err(|error| error.to_string())?;
        self.journal = journal;
        // A life that ended before its disk knew that all is forgotten leaves the damage to the next one.
        self.spoiled &= !recovered.damage.is_empty();
        let whose = |record: &Record| matches!(record, Record::Unreadable);
        if self.spoiled || recovered.damage.is_empty() || (self.rotten && !recovered.records.iter().any(whose)) {
            Ok(recovered.records)
        } else {
            Err(recovered.damage.join("; "))
        }
    }

    /// Is there a record, not yet safe, that tells who the node is or what it starts from?
    pub(crate) fn is_settling(&self) -> bool {
        self.queue.iter().chain(&self.syncing.1).any(|(_, record)| match record {
            Record::Identity(_)
            | Record::Checkpoint(_)
            | Record::Fenced(_)
            | Record::Unreadable
            | Record::Blank { .. } => true,
            Record::Promised(_)
            | Record::Accepted { .. }
            | Record::Learned { .. }
            | Record::Decided(_)
            | Record::Bucket(_) => false,
        })
    }

    /// What this disk would hold if the power went now and a sector of it landed in the wrong place, so that what the
    /// node promised is no longer known. None where that is not drawn, or hits nothing of that kind.
    pub(crate) fn spoiled(&mut self) -> Option<Memory> {
        if self.rng.one_in(2) {
            return None;
        }
        let mut files = self.journal.files().clone();
        files.crash(&mut self.rng, self.plan.torn);
        (0..SPOILS_MOST).find_map(|_| {
            let mut files = files.clone();
            files.misdirect(&mut self.rng, |name| name.starts_with("log-"))?;
            let found = look(&files).ok()?;
            is_damaged(&found.records).then_some(files)
        })
    }

    /// The next life finds this.
    pub(crate) fn put_back(&mut self, files: Memory) {
        *self.journal.files() = files;
        self.spoiled = true;
    }

    pub(crate) fn wipe(&mut self) {
        self.journal = blank(&self.settings);
        (self.rotten, self.spoiled) = (false, false);
        self.queue.clear();
        self.syncing.1.clear();
        self.asks.clear();
    }
}

/// Is what the node promised no longer known? What it forgot itself, after the damage, it need not know.
pub(crate) fn is_damaged(records: &[Record]) -> bool {
    let damage = records.iter().rposition(|record| *record == Record::Unreadable);
    damage > records.iter().rposition(|record| matches!(record, Record::Blank { .. }))
}

/// Where, in a file of the log, something of a bucket stands that a later record of this file says was safe.
fn safe_bodies(bytes: &[u8], number: u64) -> Vec<usize> {
    let (mut found, mut synced) = (Vec::new(), Lsn(0));
    let mut at = 64;
    while let Some(header) = Header::read(bytes, at, number) {
        synced = synced.max(header.synced);
        if matches!(header.owner, Some(Owner::Bucket(_))) && header.length > 0 {
            found.push((header.lsn, at + HEADER));
        }
        at += header.size();
    }
    found.into_iter().filter(|(lsn, _)| *lsn <= synced).map(|(_, place)| place).collect()
}

fn blank(settings: &Settings) -> Journal<Memory> {
    let (journal, _) =
        Journal::open(Memory::default(), settings.clone(), &mut |_| {}).expect("nothing is there to read");
    journal
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::Slot;

    fn disk(torn: bool, seed: u64) -> Disk {
        let sync = (Duration::from_millis(1), Duration::from_millis(2));
        Disk::new(Rng::new(seed), DiskPlan { sync, torn })
    }

    fn decided(slot: u64) -> Record {
        Record::Decided(Slot(slot))
    }

    #[test]
    fn a_crash_loses_what_was_not_synced() {
        let mut disk = disk(false, 1);
        disk.write(JournalSeq(1), decided(1));
        assert!(disk.begin_sync(Moment(0)).is_some());
        disk.write(JournalSeq(2), decided(2));
        assert_eq!(disk.finish_sync().map(|synced| synced.through), Some(JournalSeq(1)));
        assert!(disk.begin_sync(Moment(0)).is_some());
        assert!(disk.crash().is_empty());
        assert_eq!(disk.recover(), Ok(vec![decided(1)]));
    }

    #[test]
    fn what_survives_a_torn_write_is_told() {
        let mut survivals = 0;
        for seed in 0..200 {
            let mut disk = disk(true, seed);
            (1..40).for_each(|slot| disk.write(JournalSeq(slot), decided(slot)));
            disk.begin_sync(Moment(0));
            let survived = disk.crash();
            survivals += usize::from(!survived.is_empty() && survived.len() < 39);
            assert_eq!(disk.recover(), Ok(survived), "seed {seed}");
        }
        assert!(survivals > 10, "{survivals}");
    }
}
