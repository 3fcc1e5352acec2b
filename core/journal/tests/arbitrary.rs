//! No file can make the reading panic, or invent a record.

use atoll_journal::memory::Memory;
use atoll_journal::{Batch, Files, Journal, Settings};
use atoll_types::{Record, Slot};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

fn settings() -> Settings {
    Settings { segment: 1024, log_least: 4096, log_factor: 4, spares: 1 }
}

const IMAGE: &str = "image-00000-0000000000000003";

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn arbitrary_files(log in vec(any::<u8>(), 0..2000), image in vec(any::<u8>(), 0..300), headed: bool) {
        let mut files = Memory::default();
        let magic: &[u8] = if headed { b"ATOLLLOG\x01\0\0\0" } else { b"" };
        for (name, bytes) in [("log-0000000000000001", [magic, &log].concat()), (IMAGE, image)] {
            files.create(name, 0).expect("memory");
            files.write(name, 0, &bytes).expect("memory");
        }
        if let Ok((_, recovered)) = Journal::open(files, settings(), &mut |_| {}) {
            let known = |record: &Record| matches!(record, Record::Unreadable | Record::Bucket(_));
            prop_assert!(recovered.records.iter().all(known));
        }
    }

    #[test]
    fn spoilt_logs(places in vec((any::<Index>(), any::<u8>()), 1..6)) {
        let (mut journal, _) = Journal::open(Memory::default(), settings(), &mut |_| {}).expect("nothing to read");
        for slot in 1..60 {
            let mut batch = Batch::default();
            batch.add(&Record::Decided(Slot(slot)));
            journal.write(&batch).expect("memory");
            journal.sync().expect("memory");
        }
        let mut files = journal.files().clone();
        for (place, byte) in places {
            let names = files.list().expect("memory");
            let name = place.get(&names);
            let length = files.read(name).expect("memory").len();
            files.write(name, place.index(length.max(1)) as u64, &[byte]).expect("memory");
        }
        if let Ok((_, recovered)) = Journal::open(files, settings(), &mut |_| {}) {
            let slot = |record: &Record| if let Record::Decided(slot) = record { Some(slot.0) } else { None };
            let slots = recovered.records.iter().filter_map(slot);
            prop_assert!(slots.collect::<Vec<u64>>().is_sorted_by(|one, other| one < other));
        }
    }
}
