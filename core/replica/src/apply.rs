//! What is committed is applied, in order; whoever waits for it is answered; and what is applied is forgotten in time.
//!
//! Not here: which entries are committed (`primary.rs`, `backup.rs`), what an entry does (`copy.rs`).

use crate::copy::{Applied, Copy};
use crate::event::Event;
use crate::machine::{Replica, Role};
use crate::message::{Body, Message};
use crate::sink::{Outcome, Sink, Ticket};
use atoll_types::{BucketBody, BucketId, Mark, NodeId, Offset, Payload, Position, Time};
use std::collections::VecDeque;

/// Entries of one bucket that are looked at in advance.
const FORESEEN: usize = 16;
/// One part in so many of a copy's state is kept as log besides.
const LOG_SHARE: usize = 32;
/// And so many bytes, but no more than the state has: a short absence must not cost a copy of the whole bucket.
const LOG_LEAST: usize = 64 << 10;
/// And so many in any case.
const LOG_FEW: usize = 4 << 10;
/// What is kept is in about so many chunks, which go as a whole; the log is looked at again when it has one more.
const CHUNKS: usize = 4;
/// As many entries more, of those that may be kept: one part in so many.
const LOOK_SHARE: usize = 16;
/// While copies are missing, one part in so many, and so many times the rest: whoever is away needs it when it returns.
const LOG_SHARE_SHORT: usize = 4;
const SHORT_FACTOR: usize = 8;

impl Replica {
    /// This message comes next: has the state machine see to what it will then apply. Only a guess, which costs nothing
    /// but time where it is wrong.
    pub fn foresee(&self, from: NodeId, message: &Message) {
        let to = match (&message.body, &self.role) {
            (Body::Ack(ack), Role::Primary(primary)) => primary.held_with(from, ack.held).min(self.safe),
            (Body::Write(write), Role::Backup(_)) => write.committed,
            _other => return,
        };
        let count = to.min(self.log.last_offset()).above(self.copy.applied.offset) as usize;
        for entry in self.log.rows(self.copy.applied.offset.next()).take(count.min(FORESEEN)) {
            if let BucketBody::Write { command, .. } = entry.body {
                self.copy.machine.foresee(command);
            }
        }
    }

    /// Applies what is committed, and answers whoever waits for it.
    pub(crate) fn apply(&mut self, now: Time, sink: &mut Sink) {
        let epoch = self.epoch();
        let Replica { bucket, log, copy, committed, role, pending, split_at, .. } = self;
        let count = committed.above(copy.applied.offset) as usize;
        for entry in log.rows(copy.applied.offset.next()).take(count) {
            // A read that came before this was written does not see it.
            if let Role::Primary(primary) = role {
                primary.answer_reads(sink, *bucket, epoch, copy);
            }
            let applied = copy.apply(&entry, now);
            if matches!(entry.body, BucketBody::Split) {
                *split_at = Some(copy.applied);
            }
            if sink.watched {
                let (bucket, mark, digest) = (*bucket, copy.applied, copy.digest());
                sink.event(|| Event::Applied { bucket, mark, digest });
            }
            // An answer gets memory of its own only where somebody waits for it.
            if pending.front().is_some_and(|(waiting, _)| *waiting <= copy.applied.offset) {
                answer_write(pending, sink, *bucket, copy, applied);
            }
        }
        self.trim(sink);
    }

    /// Whoever returns gets what it lacks from the log, or a snapshot. So the log is kept as long as it is a small
    /// share of what a snapshot would be, up to the setting: kept without regard to the state, the logs of many buckets
    /// would take a good part of what their keys take.
    ///
    /// Looked at again when it has grown by some part: chunks go as a whole.
    fn trim(&mut self, sink: &Sink) {
        let (length, bytes) = self.trim_beyond;
        if self.log.len() <= length && self.log.bytes() <= bytes {
            return;
        }
        let state = self.copy.bytes();
        let least = state.clamp(LOG_FEW, LOG_LEAST).min(sink.settings.window_bytes);
        self.log.set_chunk(least / CHUNKS);
        self.trim_now(sink, state, least);
        let log = sink.settings.log;
        let length = self.log.len().max(log) + log / LOOK_SHARE;
        self.trim_beyond = (length, self.log.bytes().max(least) + least / CHUNKS);
    }

    fn trim_now(&mut self, sink: &Sink, state: usize, least: usize) {
        let is_short = self.duty.as_ref().is_some_and(|duty| duty.short);
        let (factor, part) = if is_short { (SHORT_FACTOR, LOG_SHARE_SHORT) } else { (1, LOG_SHARE) };
        let (most, window) = (sink.settings.log * factor, sink.settings.window_bytes);
        if self.log.len() <= most && self.log.bytes() <= least {
            return;
        }
        let applied = self.copy.applied.offset;
        let needed = match &self.role {
            Role::Primary(primary) => {
                primary.wanted_by_slow(self.log.last_offset(), (sink.settings.log * SHORT_FACTOR) as u64)
            }
            Role::Backup(_) | Role::Idle => applied,
        };
        // Few large entries are as good a reason as many small ones.
        let is_long = self.log.bytes() > window;
        let share = if is_long { 0 } else { (state / part).max(least * factor) };
        self.log.trim(applied.min(needed), share);
        self.log.trim(Offset(applied.0.saturating_sub(most as u64)).min(needed), 0);
    }
}

/// Tells whoever waits for the entry that was just applied.
fn answer_write(
    pending: &mut VecDeque<(Offset, Ticket)>,
    sink: &mut Sink,
    bucket: BucketId,
    copy: &Copy,
    applied: Applied,
) {
    let offset = copy.applied.offset;
    let mut waits = None;
    while let Some(&(waiting, ticket)) = pending.front()
        && waiting <= offset
    {
        pending.pop_front();
        waits = (waiting == offset).then_some(ticket);
    }
    let Some(ticket) = waits else { return };
    let done = |mark: Mark, payload: Payload, duplicate: bool| {
        let position = Position { bucket, mark };
        Outcome::Done { position, payload, duplicate }
    };
    sink.answer(
        ticket,
        match applied {
            Applied::Done => done(copy.applied, copy.answer().into(), false),
            Applied::Duplicate(first) => {
                let (mark, payload) = *first;
                done(mark, payload, true)
            }
            Applied::Refused(refusal) => Outcome::Refused(*refusal),
            Applied::Nothing => Outcome::Moved, // No caller waits for an entry that nobody asked for.
        },
    );
}
