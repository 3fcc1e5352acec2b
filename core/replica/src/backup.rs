//! A copy that follows a primary: as a member, or to become one.
//!
//! It says what it holds, is cut once to what the primary shares with it, and from then on only grows until the epoch
//! is over. What it acknowledges it holds, on its disk where it has one.

use crate::beside::ReadBeside;
use crate::catch_up::Incoming;
use crate::event::Event;
use crate::machine::{Replica, Role};
use crate::message::{Ack, Body, Opened, Write};
use crate::sink::{Outcome, Settings, Sink};
use atoll_types::{BucketRecord, Bug, Duty, Entries, NodeId, Offset, Report, Time, planted};
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Backup {
    pub(crate) primary: NodeId,
    /// The opening write of this epoch was taken: this log is a beginning of the primary's.
    pub(crate) open: bool,
    /// The primary said that the epoch serves: every member held what it began with, this one as well.
    pub(crate) serves: bool,
    /// The primary has to be told how far this copy is.
    pub(crate) owes_ack: bool,
    gap: bool,
    /// The last round seen.
    round: u64,
    /// By this node's own clock: everything committed before then is shown here, if the epoch was still the last one.
    /// Counts from when this copy last spoke, not from when it heard: a message may have been on its way for long.
    pub(crate) fresh: Time,
    /// Since when the primary is waited for: to open the epoch, or to commit what is here.
    pub(crate) waiting_since: Option<Time>,
    /// When it was last asked what is committed.
    asked: Time,
    /// To be asked with the next acknowledgement.
    asks: bool,
    /// A snapshot that is here in part.
    pub(crate) incoming: Option<Incoming>,
    /// To be answered here, once the other members have vouched.
    pub(crate) reads: VecDeque<ReadBeside>,
}

impl Backup {
    pub(crate) fn new(now: Time, primary: NodeId) -> Backup {
        Backup {
            primary,
            open: false,
            serves: false,
            owes_ack: false,
            gap: false,
            round: 0,
            fresh: Time::ZERO,
            waiting_since: Some(now),
            asked: Time::ZERO,
            asks: false,
            incoming: None,
            reads: VecDeque::new(),
        }
    }

    /// When the primary is asked whether what is here is committed: the word of it is not repeated.
    fn ask_at(&self, settings: &Settings) -> Option<Time> {
        let since = self.waiting_since.filter(|_| self.open)?;
        Some(since.max(self.asked) + settings.ack_timeout)
    }
}

impl Replica {
    /// The primary asks what this copy holds.
    pub(crate) fn on_open(&mut self, sink: &mut Sink, from: NodeId) {
        let Role::Backup(backup) = &self.role else { return };
        if backup.primary == from {
            self.tell_what_is_here(sink);
        }
    }

    pub(crate) fn tell_what_is_here(&mut self, sink: &mut Sink) {
        let (bucket, epoch) = (self.bucket, self.epoch());
        let nothing = self.useless || self.duty.as_ref().is_some_and(|duty| duty.range != self.copy.range);
        let Role::Backup(backup) = &mut self.role else { return };
        let opened = Opened {
            applied: self.copy.applied.offset,
            runs: self.log.runs(),
            partial: backup.incoming.as_ref().map(Incoming::partial),
            nothing,
        };
        sink.send(backup.primary, bucket, epoch, Body::Opened(opened));
    }

    pub(crate) fn on_write(&mut self, now: Time, sink: &mut Sink, from: NodeId, write: &Write) {
        let last = self.log.last_offset();
        let Role::Backup(backup) = &mut self.role else { return };
        if backup.primary != from || write.previous.offset > Offset::MOST {
            return;
        }
        if !backup.open || (planted(Bug::TruncatesTwice) && write.opening) {
            let agrees = self.log.mark(write.previous.offset) == Some(write.previous);
            if !write.opening || !agrees || write.previous.offset < self.copy.applied.offset {
                return self.tell_what_is_here(sink);
            }
            self.open_to(now, sink, write.previous.offset);
        } else if write.previous.offset > last {
            (backup.gap, backup.owes_ack) = (true, true);
            backup.round = backup.round.max(write.round);
            return;
        }
        let before = self.committed;
        let asks = write.opening || !write.entries.is_empty();
        self.take_entries(write.previous.offset, &write.entries);
        self.order_entries(sink);
        self.learn_commit(now, sink, write);
        let (last, safe) = (self.log.last_offset(), self.safe);
        let bug = planted(Bug::BucketAckBeforePersist);
        let uncommitted = last > self.committed;
        let Role::Backup(backup) = &mut self.role else { return };
        backup.round = backup.round.max(write.round);
        backup.serves |= write.serving;
        // Before the epoch serves its primary may not know all that was committed before it.
        if write.serving && write.committed <= last {
            backup.fresh = backup.fresh.max(write.echo.min(now));
        }
        // What is on its way to the disk is acknowledged once it is there; a round that reads wait for, now.
        backup.owes_ack |= write.confirm || (asks && (safe == last || bug));
        // Waited for since the last progress, not since the log was last quiet: under load it never is.
        let since = if self.committed > before { now } else { backup.waiting_since.unwrap_or(now) };
        backup.waiting_since = uncommitted.then_some(since);
        if write.serving {
            for ticket in self.cut.drain(..) {
                sink.answer(ticket, Outcome::Cut);
            }
        }
    }

    /// Matches this log to the primary's, once in an epoch: what is above `to` is void.
    fn open_to(&mut self, now: Time, sink: &mut Sink, to: Offset) {
        let (bucket, epoch) = (self.bucket, self.epoch());
        let cut = if planted(Bug::SuffixNotCut) { 0 } else { self.log.cut(to) };
        if cut > 0 {
            self.committed = self.committed.min(to);
            self.clock = self.log.get(to).map_or(self.copy.time, |entry| entry.time);
            (self.safe, self.ordered) = (self.safe.min(to), self.ordered.min(to));
            for (_, offset) in &mut self.writing {
                *offset = (*offset).min(to);
            }
            // A crash must not bring back what others have been told is gone.
            let seq = sink.persist(BucketRecord::Cut { bucket, to });
            self.shut(seq);
            sink.event(|| Event::Cut { bucket, epoch, to, entries: cut });
        }
        while let Some(&(offset, ticket)) = self.pending.back()
            && offset > to
            && !planted(Bug::SuffixNotCut)
        {
            self.pending.pop_back();
            self.cut.push(ticket);
        }
        self.cut.sort_unstable();
        if std::mem::take(&mut self.blank) {
            // Of an empty bucket there is nothing more to get: a restart must not take this copy for one that lacks it.
            let (range, width, base) = (self.copy.range, sink.width, self.log.base());
            let seq = sink.persist(BucketRecord::Began { bucket, range, width, base, blank: false });
            self.shut(seq);
        }
        if let Role::Backup(backup) = &mut self.role {
            (backup.open, backup.incoming) = (true, None);
            backup.waiting_since = backup.waiting_since.map(|_| now);
        }
    }

    /// What follows `previous`, which is here. Some of it may be here as well: it was sent again.
    fn take_entries(&mut self, previous: Offset, entries: &Entries) {
        let held = self.log.last_offset().above(previous);
        if held >= entries.count() {
            return;
        }
        self.clock = self.clock.max(entries.last_time());
        if held == 0 {
            self.log.append(entries);
        } else {
            self.log.append(&entries.split_at(held).1);
        }
    }

    fn learn_commit(&mut self, now: Time, sink: &mut Sink, write: &Write) {
        let last = self.log.last_offset();
        let told = if planted(Bug::UncommittedShown) { last } else { write.committed.min(last) };
        self.committed = self.committed.max(told);
        self.apply(now, sink);
        if let Some((offset, digest)) = write.digest
            && offset == self.copy.applied.offset
            && digest != self.copy.digest()
        {
            let (bucket, primary) = (self.bucket, write_primary(&self.role));
            let about = self.me;
            sink.event(|| Event::Diverged { bucket, primary, about, offset });
            self.declare_damaged(now, sink);
        }
    }

    /// This copy's epoch is over, perhaps before its primary told all. If it settled, every member has acknowledged
    /// what it began with, and nobody else may lead next. So what was cut stands nowhere; and what was written here
    /// before and matched is committed, which a copy that is let go must know now or never. Without this a bucket that
    /// moves away as soon as it can would leave callers behind who never hear.
    pub(crate) fn learn_fates(&mut self, now: Time, sink: &mut Sink, next: &Duty) {
        let Some(duty) = &self.duty else { return };
        let settled = duty.settled && duty.may_commit || planted(Bug::FatesBeforeSettled);
        let counted = duty.appointment.is_member(self.me) && !self.useless;
        let open = matches!(&self.role, Role::Backup(backup) if backup.open);
        if !settled || !counted || !open {
            return;
        }
        for ticket in self.cut.drain(..) {
            sink.answer(ticket, Outcome::Cut);
        }
        // Where there are leases, a primary may have to wait before it commits.
        let committed = self.commits_at_once && !sink.leases;
        let kept = self.pending.back().filter(|_| committed && !next.appointment.is_member(self.me));
        if let Some(&(kept, _)) = kept {
            self.committed = self.committed.max(kept);
            self.apply(now, sink);
        }
    }

    pub(crate) fn flush_backup(&mut self, now: Time, sink: &mut Sink) {
        let (bucket, epoch, last) = (self.bucket, self.epoch(), self.log.last_offset());
        let current = self.is_current() || planted(Bug::FenceAfterCommit);
        let safe = if planted(Bug::BucketAckBeforePersist) { last } else { self.safe };
        let full = sink.full;
        let Role::Backup(backup) = &mut self.role else { return };
        if !backup.open || !backup.owes_ack || !current || self.useless {
            return;
        }
        let (gap, waits) = (std::mem::take(&mut backup.gap), std::mem::take(&mut backup.asks));
        let ack = Ack { held: safe, round: backup.round, gap, full, waits, sent: now };
        backup.owes_ack = false;
        sink.send(backup.primary, bucket, epoch, Body::Ack(ack));
    }

    /// A primary that does not say what is committed is asked. One that does not open its epoch, or does not commit
    /// what is here, is complained of.
    pub(crate) fn wake_backup(&mut self, now: Time, sink: &mut Sink) {
        let (bucket, epoch) = (self.bucket, self.epoch());
        let duty = self.duty.as_ref();
        let member = duty.is_some_and(|duty| duty.appointment.is_member(self.me));
        let stuck = duty.is_some_and(|duty| !duty.may_commit);
        let Role::Backup(backup) = &mut self.role else { return };
        if backup.ask_at(&sink.settings).is_some_and(|at| at <= now) {
            backup.asked = now;
            (backup.asks, backup.owes_ack) = (!planted(Bug::CommitToldOnce), true);
        }
        let patience = sink.settings.ack_timeout * 3;
        if backup.waiting_since.is_some_and(|since| now.since(since) >= patience) {
            backup.waiting_since = Some(now);
            // Where nothing may be committed there is nothing to complain of, unless nobody even asked.
            if member && !(stuck && backup.open) {
                sink.report(Report::Complain { bucket, epoch, about: backup.primary });
            }
        }
    }

    pub(crate) fn backup_due(&self, backup: &Backup, settings: &Settings) -> Time {
        let complains_at = backup.waiting_since.map(|since| since + settings.ack_timeout * 3);
        complains_at.into_iter().chain(backup.ask_at(settings)).min().unwrap_or(Time::NEVER)
    }
}

fn write_primary(role: &Role) -> NodeId {
    match role {
        Role::Backup(backup) => backup.primary,
        Role::Primary(_) | Role::Idle => NodeId::NOBODY,
    }
}
