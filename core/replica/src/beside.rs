//! Reads that a member answers beside its primary, as linearizable as the primary's own.
//!
//! What was committed before a read came was acknowledged by this member as well, so it is in the log here. Where all
//! that is in the log is known to be committed, the state here shows it. It remains that nobody commits without this
//! member: that the others vouch for, as they do for a primary. The next primary is one of them, or this node itself.
//!
//! ```text
//!   read ──▶ nothing here that may or may not be committed? ──no──▶ to the primary
//!                │ yes
//!                ▼
//!            all other members have seen no later epoch, asked after the read came ──▶ answered from the state here
//!                │ somebody does not say so, or the epoch is over
//!                ▼
//!            to the primary
//! ```
//!
//! Not here: how members are asked (`vouch.rs`), which requests come here (`atoll-node`, shard).

use crate::backup::Backup;
use crate::event::Event;
use crate::machine::{Replica, Role};
use crate::primary::READS_MOST;
use crate::sink::{Outcome, Sink, Ticket};
use crate::vouch::Vouchers;
use atoll_types::{Bug, NodeId, Payload, Position, planted};

#[derive(Debug)]
pub(crate) struct ReadBeside {
    pub(crate) ticket: Ticket,
    /// Answered once all other members have vouched for this number.
    vouch: u64,
    query: Payload,
}

impl Replica {
    /// Would a read that comes now be answered here, beside the primary?
    pub fn may_read_beside(&self, sink: &Sink) -> bool {
        let Role::Backup(backup) = &self.role else { return false };
        // What is not known to be committed may be, and its caller may know it.
        let is_clean = self.log.last_offset() == self.committed || planted(Bug::BesideUnknown);
        let has_room = backup.reads.len() < READS_MOST;
        is_clean && has_room && self.shows_all(backup) && sink.vouchers.can(self.others())
    }

    /// Everything that was committed before this epoch, and in it so far, is in the log here, and nobody else commits.
    fn shows_all(&self, backup: &Backup) -> bool {
        let may_commit = self.duty.as_ref().is_some_and(|duty| duty.may_commit);
        // Before its epoch serves a member may still lack what was committed in an earlier one.
        let serves = backup.serves || planted(Bug::BesideEarly);
        may_commit && serves && self.is_following()
    }

    fn others(&self) -> impl Iterator<Item = NodeId> + Clone {
        let members = self.duty.as_ref().map_or(&[][..], |duty| &duty.appointment.members);
        members.iter().copied().filter(|member| *member != self.me)
    }

    /// Takes a read that may be answered here.
    pub(crate) fn read_beside(&mut self, sink: &mut Sink, ticket: Ticket, query: Payload) -> bool {
        if !self.may_read_beside(sink) {
            return false;
        }
        let Some(vouch) = sink.vouchers.want(self.others()) else { return false };
        let Role::Backup(backup) = &mut self.role else { return false };
        if backup.reads.is_empty() {
            sink.vouchers.waits(self.bucket);
        }
        backup.reads.push_back(ReadBeside { ticket, vouch, query });
        true
    }

    /// Members have vouched for something, or will not. `ask`: then those that still wait go to the primary.
    pub(crate) fn on_vouched_beside(&mut self, sink: &mut Sink, ask: bool) {
        let Role::Backup(backup) = &self.role else { return };
        if backup.reads.is_empty() {
            return;
        }
        let (bucket, epoch, mark) = (self.bucket, self.epoch(), self.copy.applied);
        let shows_all = self.shows_all(backup);
        let vouched = if shows_all { self.vouched_by_others(&sink.vouchers) } else { 0 };
        let Role::Backup(backup) = &mut self.role else { return };
        while let Some(read) = backup.reads.pop_front_if(|read| read.vouch <= vouched) {
            let payload = self.copy.read(&read.query, &mut sink.scratch);
            sink.event(|| Event::VouchedFor { bucket, epoch, mark, number: read.vouch });
            let position = Position { bucket, mark };
            sink.answer(read.ticket, Outcome::Done { position, payload, duplicate: false });
        }
        if ask || !shows_all {
            backup.move_reads(sink);
        } else if !backup.reads.is_empty() {
            sink.vouchers.waits(bucket);
        }
    }

    /// The highest number that all other members have vouched for.
    fn vouched_by_others(&self, vouchers: &Vouchers) -> u64 {
        let numbers = self.others().map(|node| vouchers.given(node));
        let vouched = if planted(Bug::ReadOneMember) { numbers.max() } else { numbers.min() };
        vouched.unwrap_or(0)
    }
}

impl Backup {
    /// They are not answered here.
    pub(crate) fn move_reads(&mut self, sink: &mut Sink) {
        for read in self.reads.drain(..) {
            sink.answer(read.ticket, Outcome::Moved);
        }
    }
}
