//! The key-value machine from outside, by its bytes.

mod arbitrary;
mod model;
mod operations;
mod queries;
mod random;

use atoll_kv::{Answer, Command, Operation, Outcome, Query, Store};
use atoll_types::{At, Offset, StateMachine, Time};

pub(crate) fn at(offset: u64, time: u64) -> At {
    At { offset: Offset(offset), time: Time(time) }
}

pub(crate) fn encode(operations: &[Operation<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Command { operations: operations.to_vec().into() }.encode(&mut bytes);
    bytes
}

/// Applies a command and gives the bytes of the answer.
pub(crate) fn apply(store: &mut dyn StateMachine, at: At, command: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    store.advance(at);
    store.apply(at, command, &mut answer);
    answer
}

pub(crate) fn read(store: &dyn StateMachine, at: At, query: &Query<'_>) -> Vec<u8> {
    let (mut bytes, mut answer) = (Vec::new(), Vec::new());
    query.encode(&mut bytes);
    store.read(at, &bytes, &mut answer);
    answer
}

pub(crate) fn answer(bytes: &[u8]) -> Answer<'_> {
    Answer::decode(bytes).expect("an answer can be read")
}

/// The outcomes of a command that takes effect.
pub(crate) fn outcomes(bytes: &[u8]) -> Vec<Outcome<'_>> {
    let Answer::Done(outcomes) = answer(bytes) else { panic!("not done: {:?}", answer(bytes)) };
    outcomes.to_vec()
}

/// Another machine with the same state, made from its snapshot: all it keeps up to date is worked out afresh there.
pub(crate) fn afresh(store: &dyn StateMachine) -> Store {
    let mut again = Store::new();
    again.install(&store.snapshot()).expect("a snapshot can be installed");
    again
}
