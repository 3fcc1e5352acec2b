//! One node's copy of one bucket, and what it is to do about it.
//!
//! ```text
//!                 appointed primary                    every member holds what the epoch began with
//!        ┌──────────────────────────────▶ Primary: opening ──────────────────────────────▶ Primary: serving
//!        │                                   │                                                │
//!   Idle ◀── not named, or a later epoch was seen ────────────────────────────────────────────┤
//!        │                                   │                                                │
//!        └──────────────────────────────▶ Backup: closed ──── opening write matches ──▶ Backup: open
//!             appointed member or catching up
//! ```
//! Every new epoch starts again from the left.
//!
//! Invariants (`check`): base ≤ applied ≤ committed ≤ last; safe ≤ last; the epoch of the duty ≤ the highest seen.
//!
//! Not here: who is appointed (`atoll-distributor`), which request comes here (`atoll-node`, shard).

use crate::backup::Backup;
use crate::copy::Copy;
use crate::log::{Log, Made};
use crate::message::{Body, Message, Refused};
use crate::peer::Primary;
use crate::session::Sessions;
use crate::sink::{Outcome, Sink, Ticket};
use atoll_types::{
    BucketId, BucketRecord, Bug, Duty, Epoch, JournalSeq, Mark, NodeId, Offset, Payload, Report, SlotRange,
    StateMachine, Time, planted,
};
use std::collections::VecDeque;
use std::time::Duration;

/// Messages that wait for a record or for the edict they speak of. Beyond it they are dropped, and sent again.
const HELD_MOST: usize = 64;
#[derive(Debug)]
pub(crate) enum Role {
    Idle,
    Primary(Box<Primary>),
    Backup(Box<Backup>),
}

#[derive(Debug)]
pub struct Replica {
    pub(crate) bucket: BucketId,
    pub(crate) me: NodeId,
    pub(crate) copy: Copy,
    pub(crate) log: Log,
    /// Not longer than so many entries, and so many bytes, the log need not be looked at for what may go.
    pub(crate) trim_beyond: (usize, usize),
    /// All up to here is committed, as far as this copy knows. applied ≤ committed ≤ last.
    pub(crate) committed: Offset,
    /// All up to here is on the disk, where there is one.
    pub(crate) safe: Offset,
    /// Entries ordered to be written up to here.
    pub(crate) ordered: Offset,
    /// Records of entries under way, and what is safe once they are.
    pub(crate) writing: VecDeque<(JournalSeq, Offset)>,
    /// The highest epoch this copy ever heard of. Nothing older counts.
    pub(crate) seen: Epoch,
    pub(crate) duty: Option<Box<Duty>>,
    pub(crate) role: Role,
    /// Nothing is answered before this record is safe.
    gate: Option<JournalSeq>,
    held: Vec<(NodeId, Message)>,
    /// Callers of what was written here and is not committed, by offset.
    pub(crate) pending: VecDeque<(Offset, Ticket)>,
    /// Callers of what was cut in this epoch, which does not serve yet.
    pub(crate) cut: Vec<Ticket>,
    /// The time of the last entry: the next is not earlier.
    pub(crate) clock: Time,
    /// In this epoch, and those before, an earlier life of this node may have acted: this one does not.
    void: Epoch,
    /// The last split that was applied.
    pub(crate) split_at: Option<Mark>,
    /// Begun without the bucket, to be filled: nothing can be served from it before it was.
    pub(crate) blank: bool,
    /// When this copy last said that it is of no use.
    damaged_at: Option<Time>,
    /// This copy cannot follow its primary, and says so.
    pub(crate) useless: bool,
    /// The epoch of the duty may commit from its beginning: its primary had done so before it was said to be settled.
    pub(crate) commits_at_once: bool,
    /// As primary it does not serve before then: another that led before may answer reads by its lease.
    pub(crate) serves_from: Time,
}

impl Replica {
    /// A copy that holds nothing.
    pub fn empty(
        bucket: BucketId,
        range: SlotRange,
        base: Mark,
        idle: Duration,
        machine: Box<dyn StateMachine>,
    ) -> Replica {
        Replica::of(bucket, Copy::empty(range, base, Sessions::new(idle), machine))
    }

    pub(crate) fn of(bucket: BucketId, copy: Copy) -> Replica {
        let base = copy.applied;
        Replica {
            bucket,
            me: NodeId::NOBODY,
            clock: copy.time,
            copy,
            log: Log::new(base),
            trim_beyond: (0, 0),
            committed: base.offset,
            safe: base.offset,
            ordered: base.offset,
            writing: VecDeque::new(),
            seen: Epoch::ZERO,
            duty: None,
            role: Role::Idle,
            gate: None,
            held: Vec::new(),
            pending: VecDeque::new(),
            cut: Vec::new(),
            void: Epoch::ZERO,
            split_at: None,
            blank: false,
            damaged_at: None,
            useless: false,
            commits_at_once: false,
            serves_from: Time::ZERO,
        }
    }

    /// A new life begins: what an earlier one was appointed to is not this one's business.
    pub fn begin_life(&mut self, sink: &mut Sink) {
        self.abandon(sink);
        self.void_what_was();
    }

    /// An earlier copy had heard of this epoch: it still counts.
    pub fn remember(&mut self, sink: &mut Sink, seen: Epoch) {
        self.seen = self.seen.max(seen);
        sink.latest = sink.latest.max(seen.latest());
    }

    /// Was this epoch given to a life before this one?
    pub fn is_void(&self, epoch: Epoch) -> bool {
        epoch <= self.void
    }

    /// What was appointed up to this epoch was meant for an earlier life.
    pub fn void_up_to(&mut self, epoch: Epoch) {
        self.void = self.void.max(epoch);
    }

    pub(crate) fn void_what_was(&mut self) {
        self.void = self.seen;
    }

    pub fn bucket(&self) -> BucketId {
        self.bucket
    }

    pub fn range(&self) -> SlotRange {
        self.copy.range
    }

    pub fn copy(&self) -> &Copy {
        &self.copy
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    pub fn committed(&self) -> Offset {
        self.committed
    }

    pub fn seen(&self) -> Epoch {
        self.seen
    }

    pub fn duty(&self) -> Option<&Duty> {
        self.duty.as_deref()
    }

    pub fn bytes(&self) -> usize {
        self.copy.bytes() + self.log.bytes()
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.duty.as_ref().map_or(Epoch::ZERO, |duty| duty.appointment.epoch)
    }

    /// Is the epoch of the duty the latest that was heard of, and written down as such?
    pub(crate) fn is_current(&self) -> bool {
        self.gate.is_none() && self.duty.is_some() && self.epoch() == self.seen
    }

    /// Something of this copy is on its way to the disk.
    pub fn awaits_disk(&self) -> bool {
        self.gate.is_some() || !self.writing.is_empty()
    }

    /// Takes requests now.
    pub fn is_serving(&self) -> bool {
        match &self.role {
            Role::Primary(primary) => self.is_current() && primary.serving && !primary.closed,
            Role::Backup(_) | Role::Idle => false,
        }
    }

    /// This node is a member that follows its primary: its committed state may be shown, as of `fresh`. A primary asks
    /// its members instead: it may have been replaced without knowing.
    pub fn is_following(&self) -> bool {
        match &self.role {
            Role::Primary(_) | Role::Idle => false,
            Role::Backup(backup) => self.is_current() && backup.open && self.is_member() && !self.useless,
        }
    }

    /// By this node's own clock: what was committed in this epoch, and before it, by then is shown here.
    pub fn fresh(&self) -> Time {
        match &self.role {
            Role::Backup(backup) => backup.fresh,
            Role::Primary(_) | Role::Idle => Time::ZERO,
        }
    }

    fn is_member(&self) -> bool {
        self.duty.as_ref().is_some_and(|duty| duty.appointment.is_member(self.me))
    }

    /// Notes a later epoch, before anything else is said. What was written in this copy's own epoch can no longer be
    /// committed by it.
    fn see(&mut self, sink: &mut Sink, epoch: Epoch) {
        if epoch <= self.seen {
            return;
        }
        self.seen = epoch;
        sink.latest = sink.latest.max(epoch.latest());
        let seq = sink.persist(BucketRecord::Seen { bucket: self.bucket, epoch });
        if !planted(Bug::EpochNotPersisted) {
            self.shut(seq);
        }
    }

    /// Everything waits for this record.
    pub(crate) fn shut(&mut self, seq: Option<JournalSeq>) {
        self.gate = seq.or(self.gate);
    }

    /// Until then somebody who led the bucket before, and whom the next duty leaves out, may hold a lease.
    pub fn wait_for_leases(&mut self, until: Time) {
        self.serves_from = until;
    }

    /// Takes a duty from the cluster log. They come in order.
    pub fn appoint(&mut self, now: Time, sink: &mut Sink, me: NodeId, duty: Duty) {
        self.me = me;
        let epoch = duty.appointment.epoch;
        if self.duty.is_some() && epoch == self.epoch() {
            self.duty = Some(Box::new(duty));
            return self.on_same_epoch(now, sink);
        }
        if epoch < self.epoch() {
            return; // Told again from an older table.
        }
        self.learn_fates(now, sink, &duty);
        self.leave(sink, &duty);
        self.see(sink, epoch);
        self.commits_at_once = duty.may_commit && !duty.settled;
        self.duty = Some(Box::new(duty));
        if epoch == self.seen {
            self.take_office(now, sink);
        }
    }

    pub(crate) fn take_office(&mut self, now: Time, sink: &mut Sink) {
        let Some(duty) = &self.duty else { return };
        // One that only catches up counts for nothing, in whichever life.
        let void = self.is_void(duty.appointment.epoch) && duty.appointment.is_member(self.me);
        if void && !planted(Bug::RestartedPrimaryGoesOn) {
            return;
        }
        if duty.appointment.primary == self.me && (self.useless || self.blank) {
            // An operator named the wrong node, or the copy was lost: there is nothing to go on from.
            self.useless = true;
            self.say_damaged(now, sink);
        } else if duty.appointment.primary == self.me {
            self.open_epoch(now, sink);
        } else if duty.appointment.names(self.me) {
            let backup = Backup::new(now, duty.appointment.primary);
            self.role = Role::Backup(Box::new(backup));
        }
        self.replay_held(now, sink);
    }

    /// An epoch is over here. Reads go elsewhere; writes are answered by their fate, where this copy will learn it.
    fn leave(&mut self, sink: &mut Sink, next: &Duty) {
        if let Role::Primary(primary) = &mut self.role {
            for read in primary.reads.drain(..) {
                sink.answer(read.ticket, Outcome::Moved);
            }
        }
        if let Role::Backup(backup) = &mut self.role {
            backup.move_reads(sink);
        }
        for ticket in self.cut.drain(..) {
            sink.answer(ticket, Outcome::Unknown);
        }
        if !next.appointment.is_member(self.me) {
            self.give_up_pending(sink);
        }
        self.role = Role::Idle;
    }

    /// This copy will not learn what becomes of what was written here.
    fn give_up_pending(&mut self, sink: &mut Sink) {
        for (_, ticket) in self.pending.drain(..) {
            sink.answer(ticket, Outcome::Unknown);
        }
    }

    /// This node lost its place, or the copy goes: all callers are told.
    pub fn abandon(&mut self, sink: &mut Sink) {
        let nobody = Duty {
            range: self.copy.range,
            appointment: Default::default(),
            may_commit: false,
            settled: false,
            splitting: false,
            lost: false,
            short: false,
            begins: Mark::default(),
            divided: None,
            sought_at: NodeId::NOBODY,
        };
        self.leave(sink, &nobody);
        self.duty = None;
        self.held.clear();
    }

    pub fn on_message(&mut self, now: Time, sink: &mut Sink, from: NodeId, message: &Message) {
        let late = message.epoch < self.seen;
        if late && !(planted(Bug::FenceAfterCommit) && message.epoch == self.epoch()) {
            if !matches!(message.body, Body::Refused(_)) && self.gate.is_none() {
                let refused = Refused { current: self.seen };
                sink.send(from, self.bucket, self.seen, Body::Refused(refused));
            }
            return;
        }
        self.see(sink, message.epoch);
        if matches!(message.body, Body::Refused(_)) {
            return;
        }
        if self.gate.is_some() || (message.epoch > self.epoch()) {
            if self.held.len() < HELD_MOST {
                self.held.push((from, message.clone()));
            }
            return;
        }
        self.dispatch(now, sink, from, &message.body);
    }

    fn dispatch(&mut self, now: Time, sink: &mut Sink, from: NodeId, body: &Body) {
        match body {
            Body::Open(_) => self.on_open(sink, from),
            Body::Opened(opened) => self.on_opened(now, sink, from, opened),
            Body::Write(write) => self.on_write(now, sink, from, write),
            Body::Ack(ack) => self.on_ack(now, sink, from, ack),
            Body::Piece(piece) => self.on_piece(now, sink, from, piece),
            Body::Got(got) => self.on_got(now, sink, from, got),
            Body::Refused(_) => {} // Its epoch was noted.
        }
    }

    fn replay_held(&mut self, now: Time, sink: &mut Sink) {
        for (from, message) in std::mem::take(&mut self.held) {
            self.on_message(now, sink, from, &message);
        }
    }

    pub fn on_persisted(&mut self, now: Time, sink: &mut Sink, seq: JournalSeq) {
        let before = (self.safe, self.gate);
        while let Some(&(waiting, offset)) = self.writing.front()
            && waiting <= seq
        {
            self.writing.pop_front();
            self.safe = self.safe.max(offset.min(self.log.last_offset()));
        }
        if self.gate.is_some_and(|gate| gate <= seq) {
            self.gate = None;
            self.on_gate_open(now, sink);
            self.replay_held(now, sink);
        }
        if before != (self.safe, self.gate) {
            self.on_safe(now, sink);
        }
    }

    fn on_gate_open(&mut self, now: Time, sink: &mut Sink) {
        if matches!(self.role, Role::Idle) && self.is_current() {
            self.take_office(now, sink);
        } else if let Role::Primary(_) = &self.role {
            self.ask_all(now, sink);
        }
    }

    /// Something of this copy's own became safe.
    fn on_safe(&mut self, now: Time, sink: &mut Sink) {
        match &mut self.role {
            Role::Primary(primary) => {
                primary.disk_since = None; // It gets on.
                self.advance(now, sink);
            }
            Role::Backup(backup) => backup.owes_ack |= backup.open,
            Role::Idle => {}
        }
    }

    /// Orders what was appended to be written. Gives what it last made of the log for that.
    pub(crate) fn order_entries(&mut self, sink: &mut Sink) -> Made {
        let (last, mut made) = (self.log.last_offset(), Made::default());
        if self.ordered == last {
            return made;
        }
        if !sink.settings.durable {
            (self.safe, self.ordered) = (last, last);
            return made;
        }
        while let Some(entries) = made.from(&self.log, self.ordered.next(), usize::MAX) {
            let first = self.ordered.next();
            self.ordered = Offset(self.ordered.0 + entries.count());
            let record = BucketRecord::Appended { bucket: self.bucket, first, entries };
            if let Some(seq) = sink.persist(record) {
                self.writing.push_back((seq, self.ordered));
            }
        }
        made
    }

    /// After a message: does it lead to anything that a flush would do?
    pub fn is_stirred(&self) -> bool {
        match &self.role {
            Role::Primary(primary) => !self.is_current() || primary.is_stirred(self.log.last_offset()),
            Role::Backup(backup) => backup.owes_ack,
            Role::Idle => true,
        }
    }

    /// Ends a round of inputs: what is there is sent, once.
    pub fn flush(&mut self, now: Time, sink: &mut Sink) {
        if self.gate.is_some() {
            return;
        }
        match &mut self.role {
            Role::Primary(_) => self.flush_primary(now, sink),
            Role::Backup(_) => self.flush_backup(now, sink),
            Role::Idle => {}
        }
    }

    pub fn on_wake(&mut self, now: Time, sink: &mut Sink) {
        if self.gate.is_some() {
            return;
        }
        let patience = sink.settings.ack_timeout;
        if self.is_to_say_damaged() && self.damaged_at.is_none_or(|at| now.since(at) >= patience) {
            self.say_damaged(now, sink);
        }
        match &mut self.role {
            Role::Primary(_) => self.wake_primary(now, sink),
            Role::Backup(_) => self.wake_backup(now, sink),
            Role::Idle => {}
        }
    }

    /// When this copy next has something to do by itself.
    pub fn due(&self, settings: &crate::sink::Settings) -> Time {
        if self.gate.is_some() {
            return Time::NEVER; // The record it waits for wakes it.
        }
        // At once, and then again: until the log knows, this copy counts as one that holds the bucket.
        let again = self.damaged_at.map_or(Time::ZERO, |at| at + settings.ack_timeout);
        let damaged = if self.is_to_say_damaged() { again } else { Time::NEVER };
        let role = match &self.role {
            Role::Primary(primary) => self.primary_due(primary, settings),
            Role::Backup(backup) => self.backup_due(backup, settings),
            Role::Idle => Time::NEVER,
        };
        role.min(damaged)
    }

    /// A stale read, of committed state.
    pub fn look(&self, query: &Payload) -> (Mark, Payload) {
        (self.copy.applied, self.copy.read(query, &mut Vec::new()))
    }

    /// Forgets everything and begins at `base`: with the bucket, by first placement or by an operator's word; or blank,
    /// to be filled by a primary.
    pub fn begin(&mut self, sink: &mut Sink, range: SlotRange, base: Mark, blank: bool) {
        self.abandon(sink);
        let idle = sink.settings.session_idle;
        let machine = self.copy.machine.empty();
        self.replace(Copy::empty(range, base, Sessions::new(idle), machine));
        (self.useless, self.blank) = (false, blank);
        let seq = sink.persist(BucketRecord::Began { bucket: self.bucket, range, width: sink.width, base, blank });
        self.shut(seq);
    }

    /// The whole copy is this from now on.
    pub(crate) fn replace(&mut self, copy: Copy) {
        let base = copy.applied;
        self.clock = copy.time;
        self.copy = copy;
        (self.log, self.trim_beyond) = (Log::new(base), (0, 0));
        (self.committed, self.safe, self.ordered) = (base.offset, base.offset, base.offset);
        self.writing.clear();
    }

    /// This copy is of no use: it is to be given a new one.
    pub(crate) fn declare_damaged(&mut self, now: Time, sink: &mut Sink) {
        self.useless = true;
        self.say_damaged(now, sink);
    }

    /// Told again for as long as it is so and this node is named.
    fn say_damaged(&mut self, now: Time, sink: &mut Sink) {
        self.damaged_at = Some(now);
        sink.report(Report::Damaged { bucket: self.bucket, epoch: self.epoch() });
    }

    fn is_to_say_damaged(&self) -> bool {
        self.useless && self.duty.as_ref().is_some_and(|duty| duty.appointment.names(self.me))
    }

    pub fn check(&self) {
        let (applied, last) = (self.copy.applied.offset, self.log.last_offset());
        assert!(self.log.base().offset <= applied, "nothing is trimmed before it is applied");
        assert!(applied <= self.committed && self.committed <= last, "applied ≤ committed ≤ last");
        assert!(self.safe <= last && self.ordered <= last, "safe ≤ last");
        assert!(self.epoch() <= self.seen, "the epoch of the duty was seen");
        assert!(self.copy.range.bucket() == self.bucket, "a bucket is named by its first slot");
        assert!(self.pending.iter().is_sorted(), "callers wait in the order of their writes");
    }
}
