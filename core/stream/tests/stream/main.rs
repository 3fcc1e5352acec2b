//! The stream machine from outside, by its bytes.

mod arbitrary;
mod model;
mod operations;
mod random;

use atoll_stream::{Action, Answer, Command, Operation, Outcome, Query, Streams};
use atoll_types::{At, Offset, StateMachine, Time};

pub(crate) fn at(offset: u64, time: u64) -> At {
    At { offset: Offset(offset), time: Time(time) }
}

pub(crate) fn encode(operations: &[Operation<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Command { operations: operations.to_vec() }.encode(&mut bytes);
    bytes
}

pub(crate) fn operation<'a>(stream: &'a [u8], action: Action<'a>) -> Operation<'a> {
    Operation { stream, action }
}

/// Applies a command and gives the bytes of the answer.
pub(crate) fn apply(streams: &mut dyn StateMachine, at: At, operations: &[Operation<'_>]) -> Vec<u8> {
    let mut answer = Vec::new();
    streams.advance(at);
    streams.apply(at, &encode(operations), &mut answer);
    answer
}

pub(crate) fn read(streams: &dyn StateMachine, at: At, query: &Query<'_>) -> Vec<u8> {
    let (mut bytes, mut answer) = (Vec::new(), Vec::new());
    query.encode(&mut bytes);
    streams.read(at, &bytes, &mut answer);
    answer
}

pub(crate) fn answer(bytes: &[u8]) -> Answer<'_> {
    Answer::decode(bytes).expect("an answer can be read")
}

/// The outcomes of a command that takes effect.
pub(crate) fn outcomes(bytes: &[u8]) -> Vec<Outcome> {
    let Answer::Done(outcomes) = answer(bytes) else { panic!("not done: {:?}", answer(bytes)) };
    outcomes
}

/// Another machine with the same state, made from its snapshot: all it keeps up to date is worked out afresh there.
pub(crate) fn afresh(streams: &dyn StateMachine) -> Streams {
    let mut again = Streams::new();
    again.install(&streams.snapshot()).expect("a snapshot can be installed");
    again
}
