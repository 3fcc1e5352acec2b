//! Answers of the core as replies.
//!
//! Not here: bytes of replies (`reply.rs`), the order of replies (`queue.rs`).

use super::reply::{Fault, Reply};
use crate::clock::Clock;
use crate::data::words;
use atoll_kv::{Answer as Kv, Detail, Failure, Outcome, Remaining};
use atoll_node::shard::door::{Answer, Reason};
use atoll_node::store;
use atoll_stream::{Answer as Streams, Outcome as StreamOutcome};
use atoll_types::{Few, Time};

/// The reply to a command that is one request to the core.
#[derive(Debug)]
pub(crate) enum Expect {
    Value,
    Count,
    Remaining(Remain),
    /// A batch of operations with one reply.
    Written(Say, Unmet),
    /// A transaction: an array of replies.
    Executed(Vec<Part>),
    ExecutedOnStreams(Vec<StreamSay>),
    Stream(StreamSay),
}

/// How the outcomes of operations are said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Say {
    Ok,
    One,
    Old,
    Number,
    Length,
    /// How many of the keys were there.
    Existed,
    /// The value of each.
    Values,
}

/// What is said where the condition of an operation does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmet {
    Null,
    Zero,
}

/// One command of a transaction: so many of its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) operations: usize,
    pub(crate) say: Say,
    /// As many are of the streams of the same names.
    pub(crate) streams: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamSay {
    /// The id of what was appended by the first of so many operations.
    Id { operations: usize },
    /// How many messages went.
    Removed,
}

/// How a time-to-live is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remain {
    Seconds,
    Milliseconds,
    AtSecond,
    AtMillisecond,
}

/// The reply to a command that is several requests to the core.
#[derive(Debug)]
pub(crate) enum Gather {
    /// For each key: which answer has its value, and at which place.
    Values(Vec<(usize, usize)>),
    /// Pairs of answers: deletions of keys, and of streams of the same names. How many names had anything?
    Deleted,
    /// Pairs of answers: is there such a key, such a stream?
    Existing,
    /// One such pair.
    Kind,
    /// The length of a stream, and whether there is a key of its name.
    StreamLength,
}

/// A refusal as clients of a cluster know them.
pub(crate) fn refusal(answer: &Answer) -> Fault {
    match answer {
        Answer::Done { .. } => unreadable(),
        Answer::Unknown => Fault::new(
            "UNKNOWN the bucket changed hands meanwhile: this may have been applied, or not; look, then decide",
        ),
        Answer::NotApplied(reason) => {
            let code = match reason {
                Reason::Busy | Reason::Paused | Reason::TooManyHops | Reason::TooStale => "TRYAGAIN",
                Reason::Lost | Reason::NoTable => "CLUSTERDOWN",
                Reason::OutOfMemory => "OOM",
                Reason::SessionExpired
                | Reason::BelowFloor
                | Reason::BeyondWindow
                | Reason::BadSession
                | Reason::TooLarge => "ERR",
            };
            Fault::new(format!("{code} {}", words(*reason).message))
        }
    }
}

/// The core answered something else than was asked: a node of another version, at most.
pub(crate) fn unreadable() -> Fault {
    Fault::new("ERR the answer cannot be read; do all nodes run the same version?")
}

fn failure(why: Failure) -> Fault {
    match why {
        Failure::Condition { .. } => Fault::new("ERR the condition does not hold"),
        Failure::NotAnInteger => Fault::NOT_AN_INTEGER,
        Failure::Overflow => Fault::new("ERR increment or decrement would overflow"),
        Failure::KeyTooLong => Fault::new(format!("ERR the key has more than {} bytes", atoll_kv::KEY_MOST)),
        Failure::ValueTooLong => Fault::new("ERR string exceeds maximum allowed size"),
        Failure::TooManyOperations => {
            Fault::new(format!("ERR more than {} operations at once", atoll_kv::OPERATIONS_MOST))
        }
        Failure::AnswerTooLong => Fault::new("ERR the answer would be too long: ask for less at once"),
        Failure::Full => Fault::new("OOM the bucket has as many keys as it can have"),
    }
}

fn stream_failure(why: atoll_stream::Failure) -> Fault {
    match why {
        atoll_stream::Failure::NotNext { next } => Fault::new(format!(
            "ERR The ID specified in XADD must be the next one, which is {next}-0: ids count the messages of a stream"
        )),
        atoll_stream::Failure::NameTooLong => {
            Fault::new(format!("ERR the name has more than {} bytes", atoll_stream::NAME_MOST))
        }
        atoll_stream::Failure::PayloadTooLong => Fault::new("ERR the message is too long"),
        atoll_stream::Failure::TooManyOperations => {
            Fault::new(format!("ERR more than {} operations at once", atoll_stream::OPERATIONS_MOST))
        }
    }
}

/// Answers that no query or command of this listener should get.
pub(crate) fn other_kv(answer: &Kv<'_>) -> Fault {
    match answer {
        Kv::Failed { why, .. } => failure(*why),
        Kv::CrossSlot { .. } => Fault::CROSS_SLOT,
        Kv::TooLong => failure(Failure::AnswerTooLong),
        Kv::Malformed
        | Kv::Done(_)
        | Kv::Value(_)
        | Kv::Values(_)
        | Kv::Number(_)
        | Kv::Remaining(_)
        | Kv::Scanned(_)
        | Kv::Changes { .. }
        | Kv::Reset { .. } => unreadable(),
    }
}

pub(crate) fn other_stream(answer: &Streams<'_>) -> Fault {
    match answer {
        Streams::Failed { why, .. } => stream_failure(*why),
        Streams::CrossSlot { .. } => Fault::CROSS_SLOT,
        Streams::Malformed
        | Streams::Done(_)
        | Streams::Messages { .. }
        | Streams::Reset { .. }
        | Streams::Absent
        | Streams::Number(_)
        | Streams::Info(_)
        | Streams::Names { .. } => unreadable(),
    }
}

/// What the key-value store answered.
pub(crate) fn kv(payload: &[u8]) -> Result<Kv<'_>, Fault> {
    Kv::decode(payload).ok_or_else(unreadable)
}

pub(crate) fn streams(payload: &[u8]) -> Result<Streams<'_>, Fault> {
    Streams::decode(payload).ok_or_else(unreadable)
}

/// A number of the key-value store.
pub(crate) fn number(payload: &[u8]) -> Result<u64, Fault> {
    let answer = kv(payload)?;
    let Kv::Number(number) = answer else { return Err(other_kv(&answer)) };
    Ok(number)
}

fn outcomes(payload: &[u8]) -> Result<Few<Outcome<'_>>, Fault> {
    let answer = kv(payload)?;
    let Kv::Done(outcomes) = answer else { return Err(other_kv(&answer)) };
    Ok(outcomes)
}

fn stream_outcomes(payload: &[u8]) -> Result<Vec<StreamOutcome>, Fault> {
    let answer = streams(payload)?;
    let Streams::Done(outcomes) = answer else { return Err(other_stream(&answer)) };
    Ok(outcomes)
}

fn payload(answer: &Answer) -> Result<&[u8], Fault> {
    match answer {
        Answer::Done { payload, .. } => Ok(payload.as_slice()),
        Answer::NotApplied(_) | Answer::Unknown => Err(refusal(answer)),
    }
}

impl Expect {
    pub(crate) fn write(&self, answer: &Answer, clock: &Clock, reply: &mut Reply<'_>) {
        if let Err(fault) = self.try_write(answer, clock, reply) {
            reply.fault(&fault);
        }
    }

    /// Writes a whole reply, or nothing.
    fn try_write(&self, answer: &Answer, clock: &Clock, reply: &mut Reply<'_>) -> Result<(), Fault> {
        let payload = payload(answer)?;
        match self {
            Expect::Stream(say) => write_stream_outcomes(&[*say], &stream_outcomes(payload)?, reply),
            Expect::ExecutedOnStreams(says) => {
                let outcomes = stream_outcomes(payload)?;
                reply.array(says.len());
                write_stream_outcomes(says, &outcomes, reply);
            }
            Expect::Value => {
                let answer = kv(payload)?;
                let Kv::Value(found) = answer else { return Err(other_kv(&answer)) };
                reply.bulk_or_null(found.map(|found| found.value));
            }
            Expect::Count => reply.count(number(payload)?),
            Expect::Remaining(remain) => {
                let answer = kv(payload)?;
                let Kv::Remaining(remaining) = answer else { return Err(other_kv(&answer)) };
                reply.integer(remain.of(remaining, clock.now()));
            }
            // No other reply is as frequent, and this one needs no more than a look.
            Expect::Written(Say::Ok, _) if atoll_kv::is_done(payload) => reply.ok(),
            Expect::Written(say, unmet) => {
                let answer = kv(payload)?;
                match (&answer, unmet) {
                    (Kv::Done(outcomes), _) => say.write(outcomes, reply)?,
                    (Kv::Failed { why: Failure::Condition { .. }, .. }, Unmet::Null) => reply.null(),
                    (Kv::Failed { why: Failure::Condition { .. }, .. }, Unmet::Zero) => reply.integer(0),
                    (_, Unmet::Null | Unmet::Zero) => return Err(other_kv(&answer)),
                }
            }
            Expect::Executed(parts) => {
                let on_both = parts.iter().any(|part| part.streams);
                let (values, names) =
                    if on_both { store::halves(payload).ok_or_else(unreadable)? } else { (payload, &[][..]) };
                let answer = kv(values)?;
                if let Kv::Failed { operation, why } = answer {
                    return Err(aborted(parts, operation, &failure(why)));
                }
                let Kv::Done(outcomes) = answer else { return Err(other_kv(&answer)) };
                let names = if on_both { stream_outcomes(names)? } else { Vec::new() };
                write_parts(parts, &outcomes, &names, reply)?;
            }
        }
        Ok(())
    }
}

/// Which command of the transaction it was that could not be done.
fn aborted(parts: &[Part], operation: u16, why: &Fault) -> Fault {
    let mut before = 0;
    let number = parts.iter().take_while(|part| {
        before += part.operations;
        before <= usize::from(operation)
    });
    let number = number.count() + 1;
    Fault::new(format!("EXECABORT Transaction discarded, nothing was applied: command {number} of it said {}", why.0))
}

/// `names`: what was found of streams, for those commands that mean both.
fn write_parts(
    parts: &[Part],
    outcomes: &[Outcome<'_>],
    names: &[StreamOutcome],
    reply: &mut Reply<'_>,
) -> Result<(), Fault> {
    let of_streams = parts.iter().filter(|part| part.streams);
    if outcomes.len() != parts.iter().map(|part| part.operations).sum::<usize>()
        || names.len() != of_streams.map(|part| part.operations).sum::<usize>()
    {
        return Err(unreadable());
    }
    reply.array(parts.len());
    let (mut rest, mut names) = (outcomes, names);
    for part in parts {
        let (own, after) = rest.split_at(part.operations);
        rest = after;
        if !part.streams {
            part.say.write(own, reply)?;
            continue;
        }
        let (streams, after) = names.split_at(part.operations);
        names = after;
        let either =
            own.iter().zip(streams).map(|(own, stream)| Outcome { existed: own.existed || was_stream(stream), ..*own });
        part.say.write(&either.collect::<Vec<_>>(), reply)?;
    }
    Ok(())
}

fn was_stream(outcome: &StreamOutcome) -> bool {
    matches!(outcome, StreamOutcome::Removed { existed: true, .. })
}

fn write_stream_outcomes(says: &[StreamSay], outcomes: &[StreamOutcome], reply: &mut Reply<'_>) {
    let mut rest = outcomes;
    for say in says {
        match (say, rest.first()) {
            (StreamSay::Id { operations }, Some(StreamOutcome::Appended { offset, .. })) => {
                reply.bulk(format!("{offset}-0").as_bytes());
                rest = rest.get(*operations..).unwrap_or_default();
            }
            (StreamSay::Removed, Some(StreamOutcome::Removed { count, .. })) => {
                reply.count(*count);
                rest = &rest[1..];
            }
            (StreamSay::Id { .. } | StreamSay::Removed, _) => reply.fault(&unreadable()),
        }
    }
}

impl Say {
    fn write(self, outcomes: &[Outcome<'_>], reply: &mut Reply<'_>) -> Result<(), Fault> {
        let first = outcomes.first().ok_or_else(unreadable)?;
        match (self, first.detail) {
            (Say::Ok, _) => reply.ok(),
            (Say::One, _) => reply.integer(1),
            (Say::Old, Detail::Old(old)) => reply.bulk_or_null(old),
            (Say::Number, Detail::Number(number)) => reply.integer(number),
            (Say::Length, Detail::Length(length)) => reply.count(length),
            (Say::Existed, _) => reply.count(outcomes.iter().filter(|outcome| outcome.existed).count() as u64),
            (Say::Values, _) => {
                reply.array(outcomes.len());
                for outcome in outcomes {
                    match outcome.detail {
                        Detail::Old(old) => reply.bulk_or_null(old),
                        Detail::Nothing | Detail::Length(_) | Detail::Number(_) => reply.null(),
                    }
                }
            }
            (Say::Old | Say::Number | Say::Length, _) => reply.fault(&unreadable()),
        }
        Ok(())
    }
}

impl Remain {
    fn of(self, remaining: Remaining, now: Time) -> i64 {
        let time = match remaining {
            Remaining::Absent => return -2,
            Remaining::Forever => return -1,
            Remaining::Until(time) => time,
        };
        let milliseconds = |micros: u64| i64::try_from(micros / 1000).unwrap_or(i64::MAX);
        let left = milliseconds(time.since(now).as_micros() as u64);
        let rounded = |milliseconds: i64| milliseconds.saturating_add(500) / 1000;
        match self {
            Remain::Seconds => rounded(left),
            Remain::Milliseconds => left,
            Remain::AtSecond => rounded(milliseconds(time.0)),
            Remain::AtMillisecond => milliseconds(time.0),
        }
    }
}

impl Gather {
    pub(crate) fn write(&self, answers: &[Answer], reply: &mut Reply<'_>) {
        if let Err(fault) = self.try_write(answers, reply) {
            reply.fault(&fault);
        }
    }

    fn try_write(&self, answers: &[Answer], reply: &mut Reply<'_>) -> Result<(), Fault> {
        match self {
            Gather::Values(places) => write_values(places, answers, reply),
            Gather::Deleted => {
                reply.count(deleted(answers)?);
                Ok(())
            }
            Gather::Existing => {
                let mut there = 0;
                for pair in answers.chunks(2) {
                    there += u64::from(kind(pair)?.is_some());
                }
                reply.count(there);
                Ok(())
            }
            Gather::Kind => {
                reply.simple(kind(answers)?.unwrap_or("none"));
                Ok(())
            }
            Gather::StreamLength => {
                let [length, key] = answers else { return Err(unreadable()) };
                let Streams::Number(length) = streams(payload(length)?)? else { return Err(unreadable()) };
                if length == 0 && number(payload(key)?)? > 0 {
                    return Err(Fault::WRONG_TYPE);
                }
                reply.count(length);
                Ok(())
            }
        }
    }
}

fn write_values(places: &[(usize, usize)], answers: &[Answer], reply: &mut Reply<'_>) -> Result<(), Fault> {
    let mut parts = Vec::new();
    for answer in answers {
        let answer = kv(payload(answer)?)?;
        let Kv::Values(values) = answer else { return Err(other_kv(&answer)) };
        parts.push(values);
    }
    reply.array(places.len());
    for &(part, place) in places {
        let found = parts.get(part).and_then(|values| values.get(place)).copied().flatten();
        reply.bulk_or_null(found.map(|found| found.value));
    }
    Ok(())
}

/// Part of it may be done where another is not: then nobody may say that nothing was applied.
fn deleted(answers: &[Answer]) -> Result<u64, Fault> {
    let done = answers.iter().filter(|answer| matches!(answer, Answer::Done { .. })).count();
    if let Some(refused) = answers.iter().find(|answer| !matches!(answer, Answer::Done { .. })) {
        let Fault(text) = refusal(refused);
        return Err(match done {
            0 => Fault(text),
            _ => Fault::new(format!(
                "UNKNOWN some of the keys were deleted, others perhaps not; for one of them: {text}"
            )),
        });
    }
    let mut count = 0;
    for pair in answers.chunks(2) {
        let [keys, names] = pair else { return Err(unreadable()) };
        let (keys, names) = (outcomes(payload(keys)?)?, stream_outcomes(payload(names)?)?);
        for (key, name) in keys.iter().zip(&names) {
            count += u64::from(key.existed || was_stream(name));
        }
    }
    Ok(count)
}

/// Of a pair of answers: what is of this name.
fn kind(pair: &[Answer]) -> Result<Option<&'static str>, Fault> {
    let [key, stream] = pair else { return Err(unreadable()) };
    let keys = number(payload(key)?)?;
    let stream = matches!(streams(payload(stream)?)?, Streams::Info(_));
    Ok(if keys > 0 { Some("string") } else { stream.then_some("stream") })
}
