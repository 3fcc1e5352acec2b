//! Rule: each write takes effect at most once. Of a session's write, sent as often as may be, one entry counts; a write
//! without a session stands in the log once at most; whoever was told "not applied" finds no trace of it; whoever was
//! told "done" finds it in the committed log, where it was said to be, with the answer that it got.
//!
//! `Sessions` is a second opinion on what a bucket's session table does: it knows writes by their numbers in the run,
//! and never has to unwrap a counter.

use super::lines::{Effect, Fated, Line, Lines};
use crate::Violation;
use crate::clients::Operation;
use atoll_node::shard::door::Answer;
use atoll_types::{BucketBody, BucketId, Counter, Offset, Payload, Position, SessionId, SessionUse, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const RULE: &str = "series";

/// Writes of a session that may be outstanding.
const WINDOW: u64 = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    New,
    Duplicate(Offset),
    Refused,
}

#[derive(Clone, Debug)]
struct Session {
    used: Time,
    floor: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    idle: Duration,
    horizon: Time,
    sessions: BTreeMap<SessionId, Session>,
    /// Where each write first took effect.
    first: BTreeMap<usize, Offset>,
}

impl Sessions {
    pub(crate) fn new(idle: Duration) -> Sessions {
        Sessions { idle, horizon: Time::ZERO, sessions: BTreeMap::new(), first: BTreeMap::new() }
    }

    pub(crate) fn advance(&mut self, time: Time) {
        let since = time - self.idle;
        self.horizon = self.horizon.max(since);
        self.sessions.retain(|_, session| session.used > since);
    }

    /// Of a write without a session.
    pub(crate) fn first(&mut self, offset: Offset, operation: usize) -> Taken {
        match self.first.get(&operation) {
            Some(&first) => Taken::Duplicate(first),
            None => {
                self.first.insert(operation, offset);
                Taken::New
            }
        }
    }

    pub(crate) fn enter(
        &mut self,
        time: Time,
        offset: Offset,
        operation: usize,
        usage: &SessionUse,
        series: u64,
    ) -> Taken {
        self.advance(time);
        let id = usage.session;
        let (mask, window) = match id.counter {
            Counter::Full => (u64::MAX, WINDOW),
            Counter::Wrapping { bits, .. } => ((1 << bits) - 1, WINDOW.min((1 << bits) / 4)),
        };
        let floor = series - (series.wrapping_sub(usage.floor.0) & mask);
        let known = self.sessions.get(&id);
        if known.is_none() && (id.opened <= self.horizon || id.opened > time + self.idle) {
            return Taken::Refused;
        }
        let floor = known.map_or(floor, |session| session.floor.max(floor));
        if series < floor || series - floor >= window {
            return Taken::Refused;
        }
        let used = known.map_or(id.opened, |session| session.used).max(time);
        self.sessions.insert(id, Session { used, floor });
        self.first(offset, operation)
    }
}

/// What was said of each attempt, and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Series {
    /// Attempts that were answered with "not applied".
    denied: BTreeSet<(usize, u32)>,
    /// Attempts that took effect.
    taken: BTreeMap<(usize, u32), (BucketId, Offset)>,
    /// The first answer to each write.
    answers: BTreeMap<usize, (Payload, Position)>,
}

fn attempt_of(fated: &Fated) -> u32 {
    match fated.body() {
        BucketBody::Write { usage: Some(usage), .. } => usage.attempt,
        BucketBody::Write { usage: None, .. } | BucketBody::Tick | BucketBody::Split => 0,
    }
}

impl Series {
    pub(crate) fn on_committed(&mut self, lines: &Lines, bucket: BucketId, offset: Offset) -> Result<(), Violation> {
        let Some(fated) = lines.get(bucket).and_then(|line| line.get(offset)) else { return Ok(()) };
        let BucketBody::Write { usage, command, .. } = fated.body() else { return Ok(()) };
        let Some(operation) = fated.operation else {
            let detail = format!("{command:?} is committed at {offset} of bucket {bucket}, which nobody wrote");
            return Err(Violation::of(RULE, detail));
        };
        let key = (operation, attempt_of(fated));
        match &fated.effect {
            Effect::New(_) => {
                if self.denied.contains(&key) {
                    let detail = format!(
                        "operation {operation}, attempt {}, was answered as not applied and is committed at {offset} \
                         of bucket {bucket}",
                        key.1
                    );
                    return Err(Violation::of(RULE, detail));
                }
                self.taken.insert(key, (bucket, offset));
            }
            Effect::Duplicate(first) if usage.is_none() => {
                let detail = format!(
                    "operation {operation}, without a session, is committed at {first} and {offset} of bucket {bucket}"
                );
                return Err(Violation::of(RULE, detail));
            }
            Effect::Duplicate(_) | Effect::Refused | Effect::Nothing => {}
        }
        Ok(())
    }

    /// What a host says of a write. `line` is the one it is in, if it is not older than the line's last break.
    pub(crate) fn on_answer(
        &mut self,
        line: Option<&Line>,
        number: usize,
        operation: &Operation,
        attempt: u32,
        answer: &Answer,
    ) -> Result<(), Violation> {
        let what = || format!("operation {number}, attempt {attempt}, {:?}", operation.act);
        match answer {
            Answer::Unknown => Ok(()),
            Answer::NotApplied(reason) => {
                self.denied.insert((number, attempt));
                match self.taken.get(&(number, attempt)).filter(|_| line.is_some()) {
                    None => Ok(()),
                    Some((bucket, offset)) => {
                        let detail = format!(
                            "{} is answered as not applied ({reason:?}) and stands at {offset} of bucket {bucket}",
                            what()
                        );
                        Err(Violation::of(RULE, detail))
                    }
                }
            }
            Answer::Done { payload, position, .. } => {
                let Some(line) = line else { return Ok(()) };
                let mark = position.mark;
                let Some(fated) = line.get(mark.offset).filter(|fated| fated.entry.epoch() == mark.epoch) else {
                    let detail = format!("{} is done at {position}, which is not committed", what());
                    return Err(Violation::of(RULE, detail));
                };
                let first = self.answers.entry(number).or_insert_with(|| (payload.clone(), *position));
                if (&first.0, first.1.mark) != (payload, mark) && line.broken.is_none() {
                    let detail = format!("{} is done at {position}: {payload:?}; before, it was {first:?}", what());
                    return Err(Violation::of(RULE, detail));
                }
                match &fated.effect {
                    Effect::New(expected) if fated.operation == Some(number) => {
                        if line.blind || expected == payload.as_slice() {
                            return Ok(());
                        }
                        let (got, wanted) = (show(payload.as_slice()), show(expected));
                        let detail = format!("{} at {position} is answered {got}; it should be {wanted}", what());
                        Err(Violation::of(RULE, detail))
                    }
                    // Sessions of a copy that an operator chose are not known here: only that the entry is its own.
                    Effect::Refused if line.blind && fated.operation == Some(number) => Ok(()),
                    Effect::New(_) | Effect::Duplicate(_) | Effect::Refused | Effect::Nothing => {
                        let detail = format!("{} is done at {position}, where there is {fated:?}", what());
                        Err(Violation::of(RULE, detail))
                    }
                }
            }
        }
    }
}

/// An answer in words.
pub(crate) fn show(bytes: &[u8]) -> String {
    match atoll_kv::Answer::decode(bytes) {
        Some(answer) => format!("{answer:?}"),
        None => format!("{bytes:?}"),
    }
}
