//! A disk: the journal of one host as bytes, and how much of it is safe.
//!
//! ```text
//!   safe, survives a crash │ written, a sync is under way │ written since
//!                          safe                           syncing          end
//! ```
//! A sync covers what was written before it began. A crash leaves what is safe, and of the rest nothing or a part that
//! may end inside a record.
//!
//! Not here: what the records mean (`check/ledger.rs`).

use crate::clock::Moment;
use crate::plan::DiskPlan;
use atoll_types::{JournalSeq, Record, Rng};
use atoll_wire::record;
use std::collections::VecDeque;
use std::time::Duration;

/// What one finished sync made safe.
#[derive(Debug)]
pub(crate) struct Synced {
    pub(crate) through: JournalSeq,
    pub(crate) records: Vec<Record>,
}

#[derive(Debug)]
struct Written {
    seq: JournalSeq,
    record: Record,
    begin: usize,
    end: usize,
}

#[derive(Debug)]
pub(crate) struct Disk {
    plan: DiskPlan,
    rng: Rng,
    bytes: Vec<u8>,
    safe: usize,
    /// How much the sync under way will make safe.
    syncing: Option<usize>,
    unsafe_records: VecDeque<Written>,
    /// How many records are safe: as many a scan must find.
    safe_records: usize,
    slow_until: Moment,
}

impl Disk {
    pub(crate) fn new(rng: Rng, plan: DiskPlan) -> Disk {
        Disk {
            plan,
            rng,
            bytes: Vec::new(),
            safe: 0,
            syncing: None,
            unsafe_records: VecDeque::new(),
            safe_records: 0,
            slow_until: Moment(0),
        }
    }

    pub(crate) fn write(&mut self, seq: JournalSeq, record: Record) {
        let begin = self.bytes.len();
        record::encode(seq, &record, &mut self.bytes);
        self.unsafe_records.push_back(Written { seq, record, begin, end: self.bytes.len() });
    }

    /// Begins a sync if there is something to make safe and none is under way. Gives the moment it will be done.
    pub(crate) fn begin_sync(&mut self, now: Moment) -> Option<Moment> {
        if self.syncing.is_some() || self.unsafe_records.is_empty() {
            return None;
        }
        self.syncing = Some(self.bytes.len());
        let (low, high) = self.plan.sync;
        let mut span = self.rng.between(low, high.max(low + Duration::from_micros(1)));
        if now < self.slow_until {
            span += self.rng.between(Duration::from_millis(50), Duration::from_millis(500));
        }
        Some(now.after(span))
    }

    pub(crate) fn slow(&mut self, until: Moment) {
        self.slow_until = self.slow_until.max(until);
    }

    pub(crate) fn finish_sync(&mut self) -> Option<Synced> {
        let covered = self.syncing.take()?;
        self.safe = covered;
        self.settle(covered)
    }

    /// Gives the records that end at or before `covered`, and drops the bytes that a checkpoint stands for.
    fn settle(&mut self, covered: usize) -> Option<Synced> {
        let mut records = Vec::new();
        let mut through = None;
        let mut obsolete = None;
        while self.unsafe_records.front().is_some_and(|written| written.end <= covered) {
            let Some(written) = self.unsafe_records.pop_front() else { break };
            through = Some(written.seq);
            self.safe_records += 1;
            if stands_alone(&written.record) {
                obsolete = Some((written.begin, written.seq, keeps_buckets(&written.record)));
                self.safe_records = 1;
            }
            records.push(written.record);
        }
        if let Some((begin, seq, keeps_buckets)) = obsolete {
            self.drop_before(begin, seq, keeps_buckets);
        }
        through.map(|through| Synced { through, records })
    }

    /// Writes the journal anew, from the record on that begins at `begin`. The records of buckets before it stay, where
    /// it does not stand for them, under numbers that lead up to its own.
    fn drop_before(&mut self, begin: usize, seq: JournalSeq, keeps_buckets: bool) {
        let mut kept = Vec::new();
        for (_, record) in record::scan(&self.bytes[..begin]).records {
            match record {
                Record::Bucket(_) if keeps_buckets => kept.push(record),
                Record::Blank { .. } => kept.clear(),
                Record::Bucket(_)
                | Record::Identity(_)
                | Record::Promised(_)
                | Record::Accepted { .. }
                | Record::Learned { .. }
                | Record::Decided(_)
                | Record::Checkpoint(_)
                | Record::Fenced(_) => {}
            }
        }
        let count = kept.len() as u64;
        let first = if seq.0 > count { seq.0 - count } else { 1 };
        let mut bytes = Vec::new();
        for (seq, record) in (first..).map(JournalSeq).zip(&kept) {
            record::encode(seq, record, &mut bytes);
        }
        self.safe_records += kept.len();
        let written_anew = bytes.len();
        bytes.extend_from_slice(&self.bytes[begin..]);
        self.bytes = bytes;
        let moved = |place: &mut usize| *place = *place - begin + written_anew;
        moved(&mut self.safe);
        self.syncing.as_mut().map(moved);
        for written in &mut self.unsafe_records {
            moved(&mut written.begin);
            moved(&mut written.end);
        }
    }

    /// The process is gone. Gives the records that were not safe and survived nevertheless.
    pub(crate) fn crash(&mut self) -> Vec<Record> {
        self.syncing = None;
        let tail = self.bytes.len() - self.safe;
        let kept = if self.plan.torn && tail > 0 { self.rng.below(tail as u64 + 1) as usize } else { 0 };
        self.bytes.truncate(self.safe + kept);
        let whole = self.bytes.len();
        // A torn write may also leave bytes that were never written.
        if kept > 0 && self.rng.one_in(3) {
            let last = self.unsafe_records.iter().rev().find(|written| written.begin < whole);
            if let Some(written) = last.filter(|written| written.end > whole) {
                let place = written.begin + self.rng.below((whole - written.begin) as u64) as usize;
                self.bytes[place] ^= 1 << self.rng.below(8);
            }
        }
        let last = self.unsafe_records.iter().map(|written| written.end).rfind(|&end| end <= whole);
        self.safe = last.unwrap_or(self.safe);
        let survived = self.settle(whole).map_or_else(Vec::new, |synced| synced.records);
        self.unsafe_records.clear();
        survived
    }

    /// What the next life finds. `Err`: the journal cannot be read as far as it was safe.
    pub(crate) fn recover(&mut self) -> Result<Vec<Record>, String> {
        let scan = record::scan(&self.bytes);
        if scan.end < self.safe.min(self.bytes.len()) {
            return Err(format!("safe up to byte {}, read up to {}: {:?}", self.safe, scan.end, scan.tail));
        }
        if scan.records.len() != self.safe_records {
            return Err(format!(
                "{} records were kept, {} read: {:?}",
                self.safe_records,
                scan.records.len(),
                scan.tail
            ));
        }
        self.bytes.truncate(scan.end);
        self.safe = scan.end;
        Ok(scan.records.into_iter().map(|(_, record)| record).collect())
    }

    /// Is there a record, not yet safe, that tells who the node is or what it starts from?
    pub(crate) fn is_settling(&self) -> bool {
        self.unsafe_records.iter().any(|written| match written.record {
            Record::Identity(_) | Record::Checkpoint(_) | Record::Fenced(_) | Record::Blank { .. } => true,
            Record::Promised(_)
            | Record::Accepted { .. }
            | Record::Learned { .. }
            | Record::Decided(_)
            | Record::Bucket(_) => false,
        })
    }

    pub(crate) fn wipe(&mut self) {
        self.bytes.clear();
        self.safe = 0;
        self.syncing = None;
        self.unsafe_records.clear();
        self.safe_records = 0;
    }
}

/// Does the record stand for everything before it, copies of buckets aside?
fn stands_alone(record: &Record) -> bool {
    match record {
        Record::Checkpoint(_) | Record::Blank { .. } => true,
        Record::Identity(_)
        | Record::Promised(_)
        | Record::Accepted { .. }
        | Record::Learned { .. }
        | Record::Decided(_)
        | Record::Fenced(_)
        | Record::Bucket(_) => false,
    }
}

/// A checkpoint stands for the cluster's records only.
fn keeps_buckets(record: &Record) -> bool {
    matches!(record, Record::Checkpoint(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{
        Ballot, BucketId, BucketRecord, Checkpoint, ClusterId, Identity, Incarnation, NodeId, Payload, Slot,
    };

    fn disk(torn: bool, seed: u64) -> Disk {
        let sync = (Duration::from_millis(1), Duration::from_millis(2));
        Disk::new(Rng::new(seed), DiskPlan { sync, torn })
    }

    #[test]
    fn a_crash_loses_what_was_not_synced() {
        let mut disk = disk(false, 1);
        disk.write(JournalSeq(1), Record::Decided(Slot(1)));
        assert!(disk.begin_sync(Moment(0)).is_some());
        disk.write(JournalSeq(2), Record::Decided(Slot(2)));
        assert_eq!(disk.finish_sync().map(|synced| synced.through), Some(JournalSeq(1)));
        assert!(disk.crash().is_empty());
        assert_eq!(disk.recover(), Ok(vec![Record::Decided(Slot(1))]));
    }

    #[test]
    fn a_blank_that_is_safe_stands_for_all_before_it() {
        let mut disk = disk(false, 1);
        disk.write(JournalSeq(1), Record::Promised(Ballot::default()));
        disk.write(JournalSeq(2), Record::Blank { departed: true });
        disk.begin_sync(Moment(0));
        disk.write(JournalSeq(3), Record::Decided(Slot(3)));
        disk.finish_sync();
        disk.begin_sync(Moment(0));
        disk.finish_sync();
        disk.crash();
        assert_eq!(disk.recover(), Ok(vec![Record::Blank { departed: true }, Record::Decided(Slot(3))]));
    }

    fn checkpoint() -> Record {
        let identity = Identity { cluster: ClusterId(1), node: NodeId(1), incarnation: Incarnation::default() };
        let (slot, snapshot) = (Slot(1), Payload::default());
        let promised = Ballot::default();
        Record::Checkpoint(Checkpoint { identity, promised, snapshot, slot, decided: slot, tail: vec![] })
    }

    #[test]
    fn a_checkpoint_leaves_the_records_of_buckets_and_a_blank_does_not() {
        let purged = |bucket| Record::Bucket(BucketRecord::Purged { bucket: BucketId(bucket) });
        let mut disk = disk(false, 1);
        let first = [purged(1), Record::Blank { departed: true }, purged(2), Record::Decided(Slot(1)), purged(3)];
        let later = [checkpoint(), Record::Decided(Slot(2)), purged(4)];
        for (seq, record) in (1..).map(JournalSeq).zip(first.into_iter().chain(later.clone())) {
            disk.write(seq, record);
        }
        disk.begin_sync(Moment(0));
        disk.finish_sync();
        let wanted: Vec<Record> = [purged(2), purged(3)].into_iter().chain(later.clone()).collect();
        assert_eq!(disk.recover(), Ok(wanted.clone()));
        // A new life counts its records anew; what is kept may be more than those.
        (1..).map(JournalSeq).zip(later).for_each(|(seq, record)| disk.write(seq, record));
        disk.begin_sync(Moment(0));
        disk.finish_sync();
        let kept = [purged(2), purged(3), purged(4)].into_iter().chain(wanted[2..].to_vec()).collect();
        assert_eq!(disk.recover(), Ok(kept));
    }

    #[test]
    fn a_torn_tail_is_cut_to_whole_records_and_those_are_told() {
        for seed in 0..200 {
            let mut disk = disk(true, seed);
            (1..4).for_each(|seq| disk.write(JournalSeq(seq), Record::Decided(Slot(seq))));
            disk.begin_sync(Moment(0));
            disk.finish_sync();
            (4..9).for_each(|seq| disk.write(JournalSeq(seq), Record::Decided(Slot(seq))));
            let survived = disk.crash();
            let records = disk.recover().expect("what is safe can be read");
            assert_eq!(records.len(), 3 + survived.len());
            assert_eq!(records[3..], survived[..]);
        }
    }
}
