//! The key-value store: get, put, compare and swap, delete, count.

use crate::client::Client;
use crate::error::Error;
use crate::link::Done;
use atoll_kv::{Action, Answer, Command, Condition, Detail, Failure, Found, Operation, Outcome, Query, Ttl};
use atoll_protocol::KV;
use atoll_types::{Few, HashSlot, Offset, Position, Time};
use std::time::Duration;

/// A value that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub bytes: Vec<u8>,
    /// Unique over re-creation: for `cas`.
    pub version: Offset,
    /// When it goes, in the log's time: microseconds since 1970.
    pub expires: Option<Time>,
    /// Where in the log it was read.
    pub position: Position,
}

/// A write that took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The key's version after it; none if the value's time had come already.
    pub version: Option<Offset>,
    pub position: Position,
    /// An earlier attempt took effect; this is its answer.
    pub duplicate: bool,
}

/// How to put a value. The default: for ever, whatever was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// How long the value stays; none: for ever.
    pub ttl: Option<Duration>,
    pub condition: Condition,
}

pub(crate) fn command_bytes(command: &Command<'_>) -> Vec<u8> {
    let mut bytes = vec![KV];
    command.encode(&mut bytes);
    bytes
}

pub(crate) fn query_bytes(query: &Query<'_>) -> Vec<u8> {
    let mut bytes = vec![KV];
    query.encode(&mut bytes);
    bytes
}

pub(crate) fn value(found: Found<'_>, position: Position) -> Value {
    Value { bytes: found.value.to_vec(), version: found.version, expires: found.expires, position }
}

/// The value that a `Get` answered.
pub(crate) fn got(done: &Done) -> Result<Option<Value>, Error> {
    match Answer::decode(&done.payload) {
        Some(Answer::Value(found)) => Ok(found.map(|found| value(found, done.position))),
        Some(_) | None => Err(Error::Protocol("no value")),
    }
}

/// The outcome of the only operation. None: it is no longer known, but it took effect.
fn outcome(done: &Done) -> Result<Option<Outcome<'_>>, Error> {
    if done.payload.is_empty() && done.duplicate {
        return Ok(None);
    }
    match Answer::decode(&done.payload) {
        Some(Answer::Done(outcomes)) => outcomes.first().copied().map(Some).ok_or(Error::Protocol("no outcome")),
        Some(Answer::Failed { why: Failure::Condition { version }, .. }) => Err(Error::Condition { version }),
        Some(Answer::Failed { why: Failure::NotAnInteger | Failure::Overflow, .. }) => Err(Error::NotANumber),
        Some(Answer::Failed { why, .. }) => Err(Error::Failed { why }),
        Some(_) | None => Err(Error::Protocol("no outcome of a write")),
    }
}

impl Client {
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>, Error> {
        let key = key.as_ref();
        got(&self.read(HashSlot::of(key), &query_bytes(&Query::Get { key })).await?)
    }

    /// From any member, at or after `after` if that is named: cheaper, and perhaps a little old. None of an answer
    /// that is new enough came in time: `Error::Deadline`.
    pub async fn get_stale(&self, key: impl AsRef<[u8]>, after: Option<Position>) -> Result<Option<Value>, Error> {
        let key = key.as_ref();
        let within = self.inner.settings.deadline;
        match self.read_after(HashSlot::of(key), after, &query_bytes(&Query::Get { key })).await? {
            Some(done) => got(&done),
            None => Err(Error::Deadline { within, last: "no member has a state that is new enough".to_owned() }),
        }
    }

    pub async fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Written, Error> {
        self.put_with(key, value, Put::default()).await
    }

    /// `Error::Condition` where the condition does not hold.
    pub async fn put_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, put: Put) -> Result<Written, Error> {
        let ttl = put.ttl.map_or(Ttl::Never, Ttl::After);
        let action = Action::Put { value: value.as_ref(), ttl };
        let done = self.operate(Operation::new(key.as_ref(), action).on(put.condition)).await?;
        let version = outcome(&done)?.map_or(Some(done.position.mark.offset), |outcome| outcome.version);
        Ok(Written { version, position: done.position, duplicate: done.duplicate })
    }

    /// Puts the value if the key still has this version; none: if it is absent. Otherwise `Error::Condition`.
    pub async fn cas(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<Offset>,
        value: impl AsRef<[u8]>,
    ) -> Result<Written, Error> {
        let condition = expected.map_or(Condition::Absent, Condition::Version);
        self.put_with(key, value, Put { ttl: None, condition }).await
    }

    /// Was it there?
    pub async fn del(&self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let done = self.operate(Operation::new(key.as_ref(), Action::Delete)).await?;
        outcome(&done)?.map(|outcome| outcome.existed).ok_or(Error::AnswerGone { position: done.position })
    }

    /// Adds to a decimal number; an absent key counts as zero. Returns the sum.
    pub async fn incr(&self, key: impl AsRef<[u8]>, by: i64) -> Result<i64, Error> {
        let done = self.operate(Operation::new(key.as_ref(), Action::Increment { by })).await?;
        match outcome(&done)?.map(|outcome| outcome.detail) {
            Some(Detail::Number(number)) => Ok(number),
            Some(Detail::Nothing | Detail::Length(_) | Detail::Old(_)) => Err(Error::Protocol("no number")),
            None => Err(Error::AnswerGone { position: done.position }),
        }
    }

    async fn operate(&self, operation: Operation<'_>) -> Result<Done, Error> {
        let slot = HashSlot::of(operation.key);
        self.write(slot, &command_bytes(&Command { operations: Few::One(operation) })).await
    }
}
