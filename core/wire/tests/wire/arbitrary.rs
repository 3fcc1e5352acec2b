//! No decoder panics, whatever it is given.

use crate::samples;
use atoll_node::Node;
use atoll_types::Time;
use atoll_wire::{Recorder, Replay, message};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// One way to spoil bytes.
#[derive(Clone, Debug)]
enum Spoil {
    Set(Index, u8),
    Insert(Index, u8),
    Remove(Index),
    Cut(Index),
    /// Copies a stretch to another place.
    Copy(Index, Index, u8),
}

fn spoils() -> impl Strategy<Value = Vec<Spoil>> {
    let one = prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Spoil::Set(at, byte)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Spoil::Insert(at, byte)),
        any::<Index>().prop_map(Spoil::Remove),
        any::<Index>().prop_map(Spoil::Cut),
        (any::<Index>(), any::<Index>(), any::<u8>()).prop_map(|(from, to, length)| Spoil::Copy(from, to, length)),
    ];
    vec(one, 1..6)
}

fn spoil(bytes: &mut Vec<u8>, spoils: &[Spoil]) {
    for spoil in spoils {
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len();
        match spoil {
            Spoil::Set(at, byte) => bytes[at.index(length)] = *byte,
            Spoil::Insert(at, byte) => bytes.insert(at.index(length), *byte),
            Spoil::Remove(at) => {
                bytes.remove(at.index(length));
            }
            Spoil::Cut(at) => bytes.truncate(at.index(length)),
            Spoil::Copy(from, to, count) => {
                let (from, to) = (from.index(length), to.index(length));
                let count = usize::from(*count).min(length - from.max(to));
                bytes.copy_within(from..from + count, to);
            }
        }
    }
}

/// A recording to be read, not to be replayed.
fn recording() -> Vec<u8> {
    let (mut recorder, mut bytes) = Recorder::new(&samples::config(), 1, &samples::records(), Time(1));
    let node = Node::start(samples::config(), 1, vec![], Time(1));
    bytes.extend(recorder.outcome(&[], &node));
    for input in samples::inputs() {
        bytes.extend(recorder.step(Time(2), &input, &[], &node));
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn arbitrary_bytes_as_a_message(mut bytes in vec(any::<u8>(), 0..400), versioned: bool) {
        if let (true, Some(first)) = (versioned, bytes.first_mut()) {
            *first = message::VERSION;
        }
        if let Ok(envelope) = message::decode(&bytes) {
            let mut again = Vec::new();
            message::encode(&envelope, &mut again);
            prop_assert_eq!(message::decode(&again), Ok(envelope));
        }
    }

    #[test]
    fn spoilt_messages(which: Index, how in spoils()) {
        let envelopes = samples::envelopes();
        let mut bytes = Vec::new();
        message::encode(which.get(&envelopes), &mut bytes);
        spoil(&mut bytes, &how);
        if let Ok(envelope) = message::decode(&bytes) {
            let mut again = Vec::new();
            message::encode(&envelope, &mut again);
            prop_assert_eq!(message::decode(&again), Ok(envelope));
        }
    }

    #[test]
    fn arbitrary_bytes_as_a_recording(bytes in vec(any::<u8>(), 0..2000), headed: bool) {
        let bytes = if headed { [b"ATOLLREC\x03\x00", &bytes[..]].concat() } else { bytes };
        prop_assert!(Replay::open(&bytes).is_err());
    }

    #[test]
    fn spoilt_recordings(how in spoils()) {
        let mut bytes = recording();
        spoil(&mut bytes, &how);
        if let Ok(replay) = Replay::open(&bytes) {
            prop_assert!(replay.cut().is_none_or(|at| at < bytes.len()));
        }
    }
}
