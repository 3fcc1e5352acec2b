//! The key-value store: commands, queries, answers and snapshots as bytes. Commands are also carried out, one after the
//! other, on a machine that must come out of its own snapshot the same.

#![no_main]

use atoll_kv::{Answer, Command, Query, Store};
use atoll_types::{At, Offset, StateMachine, Time};
use libfuzzer_sys::fuzz_target;

fn at(offset: usize) -> At {
    let offset = offset as u64;
    At { offset: Offset(offset), time: Time(offset * 1_000_000) }
}

fn decode(bytes: &[u8]) {
    let mut again = Vec::new();
    if let Some(command) = Command::decode(bytes) {
        command.encode(&mut again);
        assert_eq!(Command::decode(&again), Some(command));
    }
    again.clear();
    if let Some(query) = Query::decode(bytes) {
        query.encode(&mut again);
        assert_eq!(Query::decode(&again), Some(query));
    }
    again.clear();
    if let Some(answer) = Answer::decode(bytes) {
        answer.encode(&mut again);
        assert_eq!(Answer::decode(&again), Some(answer));
    }
}

/// The bytes as a list of commands, each with its length in front; each is also asked as a query.
fn carry_out(mut bytes: &[u8]) {
    let mut machine = Store::new();
    let mut offset = 1;
    while let Some((&length, rest)) = bytes.split_first() {
        let (command, rest) = rest.split_at(usize::from(length).min(rest.len()));
        bytes = rest;
        decode(command);
        let mut answer = Vec::new();
        machine.apply(at(offset), command, &mut answer);
        assert!(Answer::decode(&answer).is_some());
        answer.clear();
        machine.read(at(offset), command, &mut answer);
        assert!(Answer::decode(&answer).is_some());
        offset += 1;
    }
    let snapshot = machine.snapshot();
    let mut copy = Store::new();
    copy.install(&snapshot).expect("a snapshot of this machine");
    assert_eq!((copy.digest(), copy.snapshot()), (machine.digest(), snapshot));
}

fuzz_target!(|bytes: &[u8]| {
    decode(bytes);
    carry_out(bytes);
    let mut machine = Store::new();
    if machine.install(bytes).is_ok() {
        assert_eq!(machine.snapshot(), bytes);
    }
});
