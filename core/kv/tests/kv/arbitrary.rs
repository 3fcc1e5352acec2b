//! No bytes make it panic, and what is no command changes nothing.

use crate::{afresh, at, encode};
use atoll_kv::{Action, Answer, Command, Condition, Operation, Query, Store, Ttl, Which};
use atoll_types::{HashSlot, Malformed, Offset, StateMachine, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

fn commands() -> Vec<Vec<u8>> {
    let put = Action::Put { value: b"value", ttl: Ttl::After(Duration::from_secs(1)) };
    vec![
        encode(&[Operation::new(b"key", put).on(Condition::Version(Offset(3)))]),
        encode(&[
            Operation::new(b"key", put),
            Operation::new(b"key", Action::Expire { ttl: Ttl::At(Time(9)) }).on(Condition::Present),
            Operation::new(b"key", Action::Append { value: b"more", most: u64::MAX }),
            Operation::new(b"key", Action::Delete),
            Operation::new(b"key", Action::Increment { by: -1 }).on(Condition::Absent),
            Operation::new(b"key", Action::GetAndPut { value: b"", ttl: Ttl::Keep }),
            Operation::new(b"key", Action::GetAndDelete),
            Operation::new(b"key", Action::Check),
            Operation::new(b"key", Action::Get),
        ]),
    ]
}

fn queries() -> Vec<Query<'static>> {
    let scan =
        Query::Scan { prefix: b"k", after: Some(b"a"), slot: Some(HashSlot(7)), values: true, limit: 9, bytes: 9 };
    vec![
        Query::Get { key: b"key" },
        Query::GetMany { keys: vec![b"key", b"other"] },
        Query::Exists { keys: vec![b"key", b"key", b"other"] },
        Query::Ttl { key: b"key" },
        Query::Length { key: b"key" },
        scan,
        Query::Count,
        Query::Changes { which: Which::Key(b"key"), after: Offset(0), limit: 5 },
        Query::Changes { which: Which::Prefix(b"k"), after: Offset(1), limit: 5 },
    ]
}

fn store() -> Store {
    let mut store = Store::new();
    let ttls = [Ttl::Never, Ttl::At(Time(1 << 40)), Ttl::At(Time(1 << 41))];
    for (offset, (key, ttl)) in (1..).zip([&b"key"[..], b"other", b"third"].into_iter().zip(ttls)) {
        let command = encode(&[Operation::new(key, Action::Put { value: b"value", ttl })]);
        store.apply(at(offset, 0), &command, &mut Vec::new());
    }
    store
}

/// Once the upper bits of a change's offset were not in the digest.
#[test]
fn every_bit_of_a_snapshot_counts() {
    let good = store().snapshot();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Store::new().install(&bad), Err(Malformed), "bit {bit}");
    }
}

#[test]
fn what_was_written_can_be_read() {
    for command in commands() {
        let decoded = Command::decode(&command).expect("it is a command");
        assert_eq!(encode(&decoded.operations), command);
    }
    for query in queries() {
        let mut bytes = Vec::new();
        query.encode(&mut bytes);
        assert_eq!(Query::decode(&bytes), Some(query));
        let mut answer = Vec::new();
        store().read(at(9, 0), &bytes, &mut answer);
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
    let mut store = store();
    let before = (store.digest(), store.snapshot());
    let mut answer = Vec::new();
    store.grows(command);
    store.apply(at(4, 0), command, &mut answer);
    let answer = Answer::decode(&answer).expect("whatever comes is answered");
    if !matches!(answer, Answer::Done(_)) {
        assert_eq!((store.digest(), store.snapshot()), before);
    }
    assert_eq!(answer == Answer::Malformed, Command::decode(command).is_none());
    let again = afresh(&store);
    assert_eq!(again.digest(), store.digest());
}

fn ask(query: &[u8]) {
    let mut answer = Vec::new();
    store().read(at(4, 0), query, &mut answer);
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
        let mut store = store();
        let before = store.digest();
        if store.install(&bytes) == Err(Malformed) {
            assert_eq!(store.digest(), before);
        }
    }

    #[test]
    fn bytes_that_were_good(which in 0..2_usize, place: prop::sample::Index, how in 0..4_u8, byte: u8) {
        check(&spoiled(commands()[which].clone(), place, how, byte));
    }

    #[test]
    fn queries_that_were_good(which in 0..9_usize, place: prop::sample::Index, how in 0..4_u8, byte: u8) {
        let mut bytes = Vec::new();
        queries()[which].encode(&mut bytes);
        ask(&spoiled(bytes, place, how, byte));
    }

    #[test]
    fn a_damaged_snapshot_is_refused(place: prop::sample::Index, how in 0..4_u8, byte: u8) {
        let good = store().snapshot();
        let bad = spoiled(good.clone(), place, how, byte);
        let mut store = Store::new();
        let before = store.snapshot();
        prop_assume!(bad != good);
        assert_eq!(store.install(&bad), Err(Malformed));
        assert_eq!(store.snapshot(), before);
    }
}
