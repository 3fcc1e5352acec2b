//! Journals: whole, torn and damaged at every byte.

use crate::samples;
use atoll_types::{JournalSeq, Record, Slot};
use atoll_wire::record::{Fault, Tail, encode, scan};

/// The samples as a journal from `first` on, and where each frame begins.
fn journal(first: u64) -> (Vec<u8>, Vec<usize>, Vec<(JournalSeq, Record)>) {
    let records: Vec<_> = (first..).map(JournalSeq).zip(samples::records()).collect();
    let mut bytes = Vec::new();
    let mut starts = Vec::new();
    for (seq, record) in &records {
        starts.push(bytes.len());
        encode(*seq, record, &mut bytes);
    }
    (bytes, starts, records)
}

#[test]
fn a_journal_comes_back_as_it_was() {
    for first in [0, 1, 1_000_000] {
        let (bytes, _, records) = journal(first);
        let scan = scan(&bytes);
        assert_eq!((scan.records, scan.end, scan.tail), (records, bytes.len(), Tail::Clean));
    }
    assert_eq!((scan(&[]).end, scan(&[]).tail), (0, Tail::Clean));
}

#[test]
fn a_journal_cut_anywhere_loses_only_the_torn_record() {
    let (bytes, starts, records) = journal(1);
    for cut in 0..bytes.len() {
        let scan = scan(&bytes[..cut]);
        let whole = starts.iter().filter(|&&start| start <= cut).count() - 1;
        assert_eq!((scan.end, &scan.records[..]), (starts[whole], &records[..whole]), "cut at {cut}");
        assert_eq!(scan.tail, if cut == starts[whole] { Tail::Clean } else { Tail::Torn }, "cut at {cut}");
    }
}

#[test]
fn a_flipped_bit_in_the_last_record_cuts_it() {
    let (bytes, starts, records) = journal(1);
    let last = starts[starts.len() - 1];
    for place in last..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << bit;
            let scan = scan(&damaged);
            assert_eq!((scan.end, scan.records.len(), scan.tail), (last, records.len() - 1, Tail::Torn));
        }
    }
}

#[test]
fn a_flipped_bit_before_the_last_record_is_damage_and_nothing_past_it_is_given() {
    let (bytes, starts, records) = journal(1);
    let last = starts[starts.len() - 1];
    for place in 0..last {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        let scan = scan(&damaged);
        let index = starts.iter().filter(|&&start| start <= place).count() - 1;
        assert_eq!((scan.end, &scan.records[..]), (starts[index], &records[..index]), "damage at {place}");
        match scan.tail {
            Tail::Damaged { at, next, .. } => {
                assert_eq!((at, next), (starts[index], Some(starts[index + 1])), "damage at {place}");
            }
            Tail::Clean | Tail::Torn => panic!("damage at {place} was taken for {:?}", scan.tail),
        }
    }
}

#[test]
fn zeros_behind_the_records_are_a_torn_tail() {
    let (mut bytes, _, records) = journal(1);
    let end = bytes.len();
    bytes.resize(end + 4096, 0);
    let scan = scan(&bytes);
    assert_eq!((scan.records.len(), scan.end, scan.tail), (records.len(), end, Tail::Torn));
}

#[test]
fn a_hole_of_zeros_is_damage() {
    let (mut bytes, starts, _) = journal(1);
    bytes[starts[2]..starts[3]].fill(0);
    let scan = scan(&bytes);
    assert_eq!(scan.tail, Tail::Damaged { at: starts[2], fault: Fault::Empty, next: Some(starts[3]) });
}

#[test]
fn a_missing_record_is_damage() {
    let mut bytes = Vec::new();
    encode(JournalSeq(1), &Record::Decided(Slot(1)), &mut bytes);
    let at = bytes.len();
    encode(JournalSeq(3), &Record::Decided(Slot(2)), &mut bytes);
    let fault = Fault::Gap { expected: JournalSeq(2), found: JournalSeq(3) };
    assert_eq!(scan(&bytes).tail, Tail::Damaged { at, fault, next: None });
}

#[test]
fn a_new_life_counts_anew() {
    let (mut bytes, _, mut records) = journal(5);
    let (later, _, more) = journal(1);
    bytes.extend(later);
    records.extend(more);
    let scan = scan(&bytes);
    assert_eq!((scan.records, scan.tail), (records, Tail::Clean));
}

/// A build that does not know a record, of a later version for example, must not cut it off as torn.
#[test]
fn a_whole_record_that_cannot_be_read_is_damage_even_at_the_end() {
    let (mut bytes, _, records) = journal(1);
    let at = bytes.len();
    let checked = [&9_u64.to_le_bytes()[..], &[200, 1, 2, 3]].concat();
    bytes.extend(4_u32.to_le_bytes());
    bytes.extend(crc32c::crc32c(&checked).to_le_bytes());
    bytes.extend(checked);
    let scan = scan(&bytes);
    assert_eq!((scan.records.len(), scan.end), (records.len(), at));
    assert!(matches!(scan.tail, Tail::Damaged { fault: Fault::Malformed { .. }, next: None, .. }), "{:?}", scan.tail);
}

/// A long false frame at every sixteenth byte: the search gives up, and then nothing may be cut.
#[test]
fn a_search_that_costs_too_much_ends_as_damage() {
    let bytes: Vec<u8> = (0..200_000).map(|place| u8::from(place % 16 == 2)).collect();
    let scan = scan(&bytes);
    assert_eq!((scan.end, scan.records.len()), (0, 0));
    assert_eq!(scan.tail, Tail::Damaged { at: 0, fault: Fault::Checksum, next: None });
}
