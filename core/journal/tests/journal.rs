//! What was synced is there again after every crash; damage is told, never hidden; the log stays short.

// The functions around the tests are tests as well; clippy knows only those that are marked.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm)]

use atoll_journal::frame::{HEADER, Header};
use atoll_journal::memory::Memory;
use atoll_journal::{Batch, Files, Journal, Lsn, Owner, Recovered, Settings};
use atoll_types::bugs::plant;
use atoll_types::{
    Ballot, BucketId, BucketRecord, BucketSnapshot, Bug, Checkpoint, ClusterId, Epoch, HashSlot, Identity, Incarnation,
    Mark, NodeId, Payload, Record, Rng, Slot, SlotRange,
};
use std::collections::BTreeMap;

type Copies = BTreeMap<u16, Vec<u64>>;

fn settings() -> Settings {
    Settings { segment: 4096, log_least: 16 * 1024, log_factor: 4, spares: 1 }
}

fn open(files: Memory) -> (Journal<Memory>, Recovered) {
    Journal::open(files, settings(), &mut |_| {}).expect("it can be opened")
}

fn range(first: u16, last: u16) -> SlotRange {
    SlotRange { first: HashSlot(first), last: HashSlot(last) }
}

fn began(bucket: u16) -> Record {
    let (base, blank) = (Mark::default(), false);
    Record::Bucket(BucketRecord::Began {
        bucket: BucketId(bucket),
        range: range(bucket, bucket + 7),
        width: 8,
        base,
        blank,
    })
}

/// Any number, in a record that adds to what is there.
fn adds(bucket: u16, number: u64) -> Record {
    let epoch = Epoch { slot: Slot(number), ..Epoch::ZERO };
    Record::Bucket(BucketRecord::Seen { bucket: BucketId(bucket), epoch })
}

fn bytes(numbers: &[u64]) -> Payload {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>().into()
}

fn numbers(bytes: &Payload) -> Vec<u64> {
    let words = bytes.as_slice().chunks_exact(8);
    words.map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

fn checkpoint(numbers: &[u64]) -> Record {
    let identity = Identity { cluster: ClusterId(1), node: NodeId(1), incarnation: Incarnation::default() };
    let (promised, slot, tail) = (Ballot::default(), Slot(0), vec![]);
    Record::Checkpoint(Checkpoint { identity, promised, snapshot: bytes(numbers), slot, decided: slot, tail })
}

fn image(bucket: u16, numbers: &[u64]) -> Record {
    let snapshot = BucketSnapshot { mark: Mark::default(), checksum: 0, bytes: bytes(numbers) };
    Record::Bucket(BucketRecord::Image {
        bucket: BucketId(bucket),
        range: range(bucket, bucket + 7),
        width: 8,
        seen: Epoch::ZERO,
        blank: false,
        split_at: None,
        snapshot,
        tail: vec![],
    })
}

fn fold(copies: &mut Copies, cluster: &mut Vec<u64>, record: &Record) {
    match record {
        Record::Decided(slot) => cluster.push(slot.0),
        Record::Checkpoint(checkpoint) => *cluster = numbers(&checkpoint.snapshot),
        Record::Blank { .. } => {
            copies.clear();
            cluster.clear();
        }
        Record::Bucket(record) => {
            let bucket = record.bucket().0;
            match record {
                BucketRecord::Began { .. } => drop(copies.insert(bucket, vec![])),
                BucketRecord::Seen { epoch, .. } => {
                    if let Some(copy) = copies.get_mut(&bucket) {
                        copy.push(epoch.slot.0);
                    }
                }
                BucketRecord::Image { snapshot, .. } => {
                    copies.insert(bucket, numbers(&snapshot.bytes));
                }
                BucketRecord::Divided { upper, .. } => {
                    if let Some(copy) = copies.get(&bucket).cloned() {
                        copies.insert(upper.bucket().0, copy);
                    }
                }
                BucketRecord::Purged { .. } => drop(copies.remove(&bucket)),
                other => panic!("{other:?} is not written here"),
            }
        }
        other => panic!("{other:?} is not written here"),
    }
}

fn folded(records: &[Record]) -> (Copies, Vec<u64>) {
    let (mut copies, mut cluster) = (Copies::new(), Vec::new());
    records.iter().for_each(|record| fold(&mut copies, &mut cluster, record));
    (copies, cluster)
}

fn write(journal: &mut Journal<Memory>, records: &[Record]) {
    let mut batch = Batch::default();
    records.iter().for_each(|record| batch.add(record));
    journal.write(&batch).expect("the disk is well");
}

#[test]
fn what_was_synced_comes_back_in_order_over_files_and_lives() {
    let mut files = Memory::default();
    let mut written = Vec::new();
    for life in 0..4 {
        let (mut journal, recovered) = open(files);
        assert_eq!(recovered.records, written);
        assert!(!recovered.torn && recovered.damage.is_empty());
        for number in 0..200 {
            let record = Record::Decided(Slot(life * 1000 + number));
            write(&mut journal, std::slice::from_ref(&record));
            written.push(record);
        }
        journal.sync().unwrap();
        files = journal.files().clone();
        files.crash(&mut Rng::new(life), true);
    }
}

#[test]
fn a_record_longer_than_a_file_has_a_file_of_its_own() {
    let (mut journal, _) = open(Memory::default());
    let records = [adds(0, 1), image(0, &[7; 2000]), began(0), adds(0, 2)];
    let large = Record::Bucket(BucketRecord::Copied {
        bucket: BucketId(8),
        range: range(8, 15),
        width: 8,
        snapshot: BucketSnapshot { mark: Mark::default(), checksum: 0, bytes: vec![9; 20_000].into() },
    });
    write(&mut journal, &records);
    write(&mut journal, &[large.clone(), adds(8, 3)]);
    journal.sync().unwrap();
    let mut files = journal.files().clone();
    files.crash(&mut Rng::new(1), true);
    let (_, recovered) = open(files);
    assert!(recovered.records.contains(&large) && recovered.records.last() == Some(&adds(8, 3)));
}

/// A life that does anything, with crashes in between.
struct Life {
    rng: Rng,
    journal: Journal<Memory>,
    /// Everything that a crash has not taken back.
    written: Vec<Record>,
    synced: usize,
    number: u64,
    /// What `written` adds up to.
    now: (Copies, Vec<u64>),
}

impl Life {
    fn new(seed: u64) -> Life {
        let (mut journal, _) = open(Memory::default());
        let written = vec![checkpoint(&[])];
        write(&mut journal, &written);
        journal.sync().unwrap();
        Life { rng: Rng::new(seed), journal, written, synced: 1, number: 0, now: (Copies::new(), Vec::new()) }
    }

    fn put(&mut self, record: Record) {
        write(&mut self.journal, std::slice::from_ref(&record));
        fold(&mut self.now.0, &mut self.now.1, &record);
        self.written.push(record);
    }

    fn step(&mut self) {
        let has = |bucket: u16| self.now.0.contains_key(&bucket);
        let bucket = (self.rng.below(8) * 8) as u16;
        self.number += 1;
        let (whole, halved) = (has(bucket), has(bucket + 4));
        match self.rng.below(30) {
            0 if !whole => self.put(began(bucket)),
            1 if whole && self.rng.one_in(4) => {
                self.put(Record::Bucket(BucketRecord::Purged { bucket: BucketId(bucket) }));
            }
            2 if whole && !halved && self.rng.one_in(3) => {
                let (lower, upper) = (range(bucket, bucket + 3), range(bucket + 4, bucket + 7));
                let at = Mark::default();
                self.put(Record::Bucket(BucketRecord::Divided { bucket: BucketId(bucket), at, lower, upper }));
            }
            3 if self.rng.one_in(40) => self.put(Record::Blank { departed: true }),
            4..=6 => self.put(Record::Decided(Slot(self.number))),
            7 => {
                self.journal.mark().unwrap();
                // A spare is made ready in the background.
                if let Some((name, length)) = self.journal.wants_spare() {
                    self.journal.files().create(&name, length).unwrap();
                    self.journal.add_spare(name);
                }
            }
            8..=13 => self.sync(),
            14 if self.rng.one_in(6) => self.crash(),
            0..=3 | 14..30 | 30.. => {
                let upper = halved && self.rng.one_in(2);
                if upper || whole {
                    self.put(adds(if upper { bucket + 4 } else { bucket }, self.number));
                }
            }
        }
        match self.journal.wants_image() {
            Some(Owner::Bucket(bucket)) => {
                if let Some(numbers) = self.now.0.get(&bucket.0).cloned() {
                    self.put(image(bucket.0, &numbers));
                }
            }
            Some(Owner::Cluster) => self.put(checkpoint(&self.now.1.clone())),
            None => {}
        }
        if self.rng.one_in(3) {
            for image in self.journal.take_images() {
                let mut files = std::mem::take(self.journal.files());
                image.write(&mut files).unwrap();
                *self.journal.files() = files;
                self.journal.on_image(image.bucket, image.lsn, image.len());
            }
        }
    }

    fn sync(&mut self) {
        self.journal.sync().unwrap();
        self.synced = self.written.len();
        self.journal.trim().unwrap();
    }

    fn crash(&mut self) {
        let mut files = self.journal.files().clone();
        files.crash(&mut self.rng, true);
        let (journal, recovered) = open(files);
        assert_eq!(recovered.damage, Vec::<String>::new());
        let found = folded(&recovered.records);
        let fits = (self.synced..=self.written.len()).rev().find(|&count| folded(&self.written[..count]) == found);
        let Some(count) = fits else {
            panic!("{found:?} is no state since {:?}", folded(&self.written[..self.synced]))
        };
        self.written.truncate(count);
        self.now = found;
        self.synced = count;
        self.journal = journal;
    }
}

fn live(seed: u64) {
    let mut life = Life::new(seed);
    let mut longest = 0;
    for _ in 0..1500 {
        life.step();
        longest = longest.max(life.journal.files().bytes());
    }
    life.sync();
    life.crash();
    assert!(longest < 256 * 1024, "seed {seed}: {longest} bytes");
}

#[test]
fn no_crash_takes_what_was_synced_and_the_log_stays_short() {
    (0..100).for_each(live);
}

#[test]
fn planted_bugs_are_caught_by_such_lives() {
    for bug in [Bug::RenameNotSynced, Bug::SyncNotDone, Bug::LogCutTooFar] {
        plant(Some(bug));
        let caught = (0..100).find(|&seed| std::panic::catch_unwind(|| live(seed)).is_err());
        plant(None);
        assert!(caught.is_some(), "{bug:?} is not seen");
    }
}

#[test]
fn damage_is_told_and_never_hidden() {
    let mut told = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let (mut journal, _) = open(Memory::default());
        let mut written = vec![began(0), began(8)];
        for number in 0..120 {
            written.push(adds(if rng.one_in(2) { 0 } else { 8 }, number));
        }
        for records in written.chunks(3) {
            write(&mut journal, records);
            journal.sync().unwrap();
        }
        journal.mark().unwrap();
        let mut files = journal.files().clone();
        let hit = if rng.one_in(4) {
            files.misdirect(&mut rng, |name| name.starts_with("log-")).map(|_| ())
        } else {
            files.rot(&mut rng, |name| name.starts_with("log-")).map(|_| ())
        };
        assert!(hit.is_some());
        let (_, recovered) = open(files);
        if recovered.damage.is_empty() {
            // Where the last sector of all is hit, the mark goes with what it marks. All else must be as it was.
            let whole = recovered.records == written;
            let lost = written.len() - recovered.records.len();
            let cut = lost <= 512 / HEADER && written.starts_with(&recovered.records);
            assert!(whole || cut, "seed {seed}: {lost} lost");
            continue;
        }
        told += 1;
        let good: Vec<&Record> = recovered.records.iter().filter(|record| !is_unreadable(record)).collect();
        let mut rest = written.iter();
        assert!(good.iter().all(|&record| rest.any(|other| other == record)), "seed {seed}: nothing is made up");
        assert!(good.len() < written.len());
    }
    assert!(told > 100, "{told}");
}

fn is_unreadable(record: &Record) -> bool {
    matches!(record, Record::Unreadable | Record::Bucket(BucketRecord::Unreadable { .. }))
}

#[test]
fn damage_to_one_bucket_is_that_bucket_s_alone() {
    let (mut journal, _) = open(Memory::default());
    write(&mut journal, &[Record::Decided(Slot(1)), began(0), began(8), adds(8, 77)]);
    journal.sync().unwrap();
    journal.mark().unwrap();
    let mut files = journal.files().clone();
    let bytes = files.read("log-0000000000000001").unwrap();
    let mut at = 64;
    while let Some(header) = Header::read(&bytes, at, 1).filter(|header| header.lsn < Lsn(4)) {
        at += header.size();
    }
    files.write("log-0000000000000001", (at + HEADER) as u64, &[0xff; 4]).unwrap();
    let (_, recovered) = open(files);
    assert!(!recovered.damage.is_empty());
    assert!(!recovered.records.contains(&Record::Unreadable), "{:?}", recovered.damage);
    assert!(recovered.records.contains(&Record::Bucket(BucketRecord::Unreadable { bucket: BucketId(8) })));
}

#[test]
fn a_fault_is_final() {
    let (mut journal, _) = open(Memory::default());
    write(&mut journal, &[adds(0, 1)]);
    journal.files().broken = true;
    assert!(journal.sync().is_err());
    journal.files().broken = false;
    let mut batch = Batch::default();
    batch.add(&adds(0, 2));
    assert!(journal.write(&batch).is_err() && journal.sync().is_err(), "what the disk has then, nobody knows");
}

#[test]
fn a_later_format_is_refused() {
    let (mut journal, _) = open(Memory::default());
    journal.files().write("log-0000000000000001", 8, &9u32.to_le_bytes()).unwrap();
    let error = Journal::open(journal.files().clone(), settings(), &mut |_| {}).expect_err("format 9");
    assert!(error.to_string().contains("later version (format 9)"), "{error}");
}
