//! No bytes make it panic, and what is no command changes nothing.

use crate::{afresh, at, encode, operation};
use atoll_stream::{Action, Answer, Command, Id, Query, Retention, StreamOffset, Streams, Trim};
use atoll_types::{Malformed, StateMachine, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

fn commands() -> Vec<Vec<u8>> {
    let retention = Retention { most_count: Some(9), most_bytes: None, most_age: Some(Duration::from_micros(7)) };
    let append = || Action::Append { id: Id::Exactly(StreamOffset(3)), payload: b"message" };
    vec![
        encode(&[operation(b"s", append())]),
        encode(&[
            operation(b"s", append()),
            operation(b"s", Action::Trim { by: Trim::Count(2) }),
            operation(b"s", Action::Trim { by: Trim::Bytes(2) }),
            operation(b"s", Action::Trim { by: Trim::Before(StreamOffset(2)) }),
            operation(b"s", Action::Trim { by: Trim::OlderThan(Time(2)) }),
            operation(b"s", Action::DeleteEntries { offsets: vec![StreamOffset(1), StreamOffset(9)] }),
            operation(b"s", Action::Configure { retention }),
            operation(b"s", Action::Delete),
            operation(b"s", Action::Append { id: Id::Auto, payload: b"" }),
        ]),
    ]
}

fn queries() -> Vec<Query<'static>> {
    vec![
        Query::Read { stream: b"s", from: None, limit: 9, bytes: 9 },
        Query::ReadReverse { stream: b"s", from: Some(StreamOffset(2)), limit: 9, bytes: 9 },
        Query::Length { stream: b"s" },
        Query::Info { stream: b"s" },
        Query::List { prefix: b"", after: Some(b"a"), limit: 3 },
    ]
}

fn streams() -> Streams {
    let mut streams = Streams::new();
    let append = |name| operation(name, Action::Append { id: Id::Auto, payload: b"message" });
    let retention = Retention { most_age: Some(Duration::from_secs(1)), ..Retention::default() };
    let hole = Action::DeleteEntries { offsets: vec![StreamOffset(2)] };
    let operations = [
        append(b"{s}t"),
        operation(b"{s}t", Action::Delete),
        append(b"s"),
        append(b"s"),
        append(b"s"),
        append(b"{s}u"),
        operation(b"s", hole),
        operation(b"{s}u", Action::Configure { retention }),
    ];
    streams.apply(at(1, 1), &encode(&operations), &mut Vec::new());
    streams
}

#[test]
fn every_bit_of_a_snapshot_counts() {
    let good = streams().snapshot();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Streams::new().install(&bad), Err(Malformed), "bit {bit}");
    }
}

#[test]
fn what_was_written_can_be_read() {
    for command in commands() {
        let decoded = Command::decode(&command).expect("it is a command");
        assert_eq!(encode(&decoded.operations), command);
    }
    assert_eq!(streams().count(), 2);
    for query in queries() {
        let mut bytes = Vec::new();
        query.encode(&mut bytes);
        assert_eq!(Query::decode(&bytes), Some(query));
        let mut answer = Vec::new();
        streams().read(at(9, 0), &bytes, &mut answer);
        let decoded = Answer::decode(&answer).expect("it is an answer");
        let mut again = Vec::new();
        decoded.encode(&mut again);
        assert_eq!(again, answer);
    }
}

/// Cuts, lengthens or changes bytes at one place.
fn spoiled(mut bytes: Vec<u8>, place: prop::sample::Index, how: u8, byte: u8) -> Vec<u8> {
    let place = place.index(bytes.len());
    match how {
        0 => bytes.truncate(place),
        1 => bytes.insert(place, byte),
        2 => bytes[place] = byte,
        3.. => bytes[place] ^= 1 << (byte % 8),
    }
    bytes
}

fn check(command: &[u8]) {
    let mut streams = streams();
    let before = (streams.digest(), streams.snapshot());
    let mut answer = Vec::new();
    streams.grows(command);
    streams.apply(at(4, 4), command, &mut answer);
    let answer = Answer::decode(&answer).expect("whatever comes is answered");
    if !matches!(answer, Answer::Done(_)) {
        assert_eq!((streams.digest(), streams.snapshot()), before);
    }
    assert_eq!(answer == Answer::Malformed, Command::decode(command).is_none());
    assert_eq!(afresh(&streams).digest(), streams.digest());
}

fn ask(query: &[u8]) {
    let mut answer = Vec::new();
    streams().read(at(4, 4), query, &mut answer);
    let answer = Answer::decode(&answer).expect("whatever comes is answered");
    assert_eq!(answer == Answer::Malformed, Query::decode(query).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in vec(prop_oneof![0..9_u8, any::<u8>()], 0..60)) {
        check(&bytes);
        ask(&bytes);
        let _ = Answer::decode(&bytes);
        let mut streams = streams();
        let before = streams.digest();
        if streams.install(&bytes) == Err(Malformed) {
            assert_eq!(streams.digest(), before);
        }
    }

    #[test]
    fn bytes_that_were_good(which in 0..2_usize, place: prop::sample::Index, how in 0..4_u8, byte: u8) {
        check(&spoiled(commands()[which].clone(), place, how, byte));
    }

    #[test]
    fn queries_that_were_good(which in 0..5_usize, place: prop::sample::Index, how in 0..4_u8, byte: u8) {
        let mut bytes = Vec::new();
        queries()[which].encode(&mut bytes);
        ask(&spoiled(bytes, place, how, byte));
    }

    #[test]
    fn a_damaged_snapshot_is_refused(place: prop::sample::Index, how in 0..4_u8, byte: u8) {
        let good = streams().snapshot();
        let bad = spoiled(good.clone(), place, how, byte);
        let mut streams = Streams::new();
        let before = streams.snapshot();
        prop_assume!(bad != good);
        assert_eq!(streams.install(&bad), Err(Malformed));
        assert_eq!(streams.snapshot(), before);
    }
}
