//! The primary of one epoch: opens it, writes to every member, commits what all of them hold, confirms reads.
//!
//! Not here: what it keeps about the others (`peer.rs`), how logs are matched (`log.rs`), pieces of snapshots
//! (`catch_up.rs`).

use crate::event::Event;
use crate::machine::{Replica, Role};
use crate::message::{Ack, Body, Open, Opened, Write};
use crate::peer::{Peer, Primary, Stage, WaitingRead};
use crate::session::Verdict;
use crate::sink::{Outcome, Settings, Sink, Ticket};
use atoll_types::{
    BucketBody, Bug, Entries, HashSlot, NodeId, Offset, Payload, Position, Report, SessionUse, Time, planted,
};

/// A node that lags by no more than this many entries is ready to be a member.
const READY_LAG: u64 = 16;

/// Reads that wait for a round.
pub(crate) const READS_MOST: usize = 16_384;

/// Under load states are compared no more often than after so many times the pause of the commit index.
const COMPARE_PAUSE: u32 = 20;

/// Frames to one peer at a time; the rest goes out once these are acknowledged.
const FRAMES_MOST: usize = 8;

impl Replica {
    /// Takes up the epoch as its primary, with everything this copy holds.
    pub(crate) fn open_epoch(&mut self, now: Time, sink: &mut Sink) {
        if planted(Bug::UsurpKeepsLastOnly) && self.log.last_offset().above(self.committed) > 1 {
            self.log.cut(self.committed.next());
            (self.safe, self.ordered) = (self.safe.min(self.committed.next()), self.committed.next());
        }
        if self.log.last().epoch.generations() < self.epoch().generations() {
            // A generation begins with an entry of its own: no position in it equals one that was cut off before.
            self.append(now, &BucketBody::Tick);
        }
        let mut primary = Primary::new(self.log.last_offset());
        if let Some(duty) = &self.duty {
            primary.enlist(duty, self.me);
        }
        self.role = Role::Primary(Box::new(primary));
        self.ask_all(now, sink);
        self.flush_primary(now, sink);
    }

    /// Asks those that were not asked yet what they hold.
    pub(crate) fn ask_all(&mut self, now: Time, sink: &mut Sink) {
        let (current, bucket, epoch) = (self.is_current(), self.bucket, self.epoch());
        let Role::Primary(primary) = &mut self.role else { return };
        let is_to_ask = |peer: &Peer| matches!(peer.stage, Stage::Asked);
        if !current || !primary.peers.iter().any(is_to_ask) {
            return;
        }
        for peer in primary.peers.iter_mut().filter(|peer| is_to_ask(peer)) {
            if peer.waiting_since.is_none() {
                sink.send(peer.node, bucket, epoch, Body::Open(Open));
                peer.waits(now, &sink.settings);
            }
        }
    }

    /// The same epoch with other flags: somebody else catches up, it settled, it is to be split.
    pub(crate) fn on_same_epoch(&mut self, now: Time, sink: &mut Sink) {
        let current = self.is_current();
        let Some(duty) = &self.duty else { return };
        match &mut self.role {
            Role::Primary(primary) => {
                primary.enlist(duty, self.me);
                self.ask_all(now, sink);
                self.advance(now, sink);
                self.close_for_split(now, sink);
            }
            Role::Backup(backup) if !duty.appointment.names(self.me) => {
                backup.move_reads(sink);
                self.role = Role::Idle;
            }
            Role::Backup(_) => {}
            Role::Idle if current => self.take_office(now, sink),
            Role::Idle => {}
        }
    }

    fn close_for_split(&mut self, now: Time, sink: &mut Sink) {
        let splitting = self.duty.as_ref().is_some_and(|duty| duty.splitting && duty.settled);
        let current = self.is_current();
        let Role::Primary(primary) = &mut self.role else { return };
        if !splitting || !current || !primary.serving || primary.split.is_some() {
            return;
        }
        let offset = self.append(now, &BucketBody::Split);
        if let Role::Primary(primary) = &mut self.role {
            primary.split = Some(offset);
            primary.closed = !planted(Bug::HalvesServeEarly);
        }
        self.flush_primary(now, sink);
    }

    fn append(&mut self, now: Time, body: &BucketBody<'_>) -> Offset {
        self.clock = self.clock.max(now);
        let epoch = self.epoch();
        self.log.write(epoch, self.clock, body)
    }

    /// Takes a write. False where it cannot be taken now: it stays with the caller.
    pub fn write(
        &mut self,
        now: Time,
        sink: &mut Sink,
        ticket: Ticket,
        slot: HashSlot,
        usage: Option<SessionUse>,
        command: &[u8],
    ) -> bool {
        if !self.is_serving() || self.is_window_full(sink.settings.window_bytes) {
            return false;
        }
        if let Some(usage) = &usage {
            // As of the time that the entry would get: a session may have been opened since the last one.
            let time = self.clock.max(now);
            let verdict = if planted(Bug::SessionEnteredAtWrite) {
                self.copy.sessions.enter(time, slot, usage)
            } else {
                self.copy.sessions.look(time, slot, usage)
            };
            match verdict {
                Verdict::New => {}
                Verdict::Duplicate { mark, answer } => {
                    let payload = if planted(Bug::DuplicateAnsweredAnew) { Payload::default() } else { answer };
                    let position = Position { bucket: self.bucket, mark };
                    sink.answer(ticket, Outcome::Done { position, payload, duplicate: true });
                    return true;
                }
                Verdict::Refused(refusal) => {
                    sink.answer(ticket, Outcome::Refused(refusal));
                    return true;
                }
            }
        }
        let Role::Primary(primary) = &mut self.role else { return false };
        let full = sink.full || primary.members().any(|peer| peer.full);
        if full && self.copy.machine.grows(command) {
            primary.wanted_round = primary.round + 1; // Ask whether that is still so.

            sink.answer(ticket, Outcome::Full);
            return true;
        }
        let offset = self.append(now, &BucketBody::Write { slot, usage, command });
        self.pending.push_back((offset, ticket));
        true
    }

    /// More is written and not committed than a slow member may cost.
    fn is_window_full(&self, window: usize) -> bool {
        self.log.bytes() > window && self.log.bytes_above(self.copy.applied.offset) > window
    }

    /// Takes a read, to be confirmed by a round that begins after this, by what the others vouch for, or by the lease,
    /// while there is one. False where it cannot be taken now: it stays with the caller.
    pub fn read(&mut self, now: Time, sink: &mut Sink, ticket: Ticket, query: Payload) -> bool {
        if matches!(self.role, Role::Backup(_)) {
            return self.read_beside(sink, ticket, query);
        }
        if !self.is_serving() {
            return false;
        }
        let index = self.log.last_offset();
        if matches!(&self.role, Role::Primary(primary) if primary.reads.len() >= READS_MOST) {
            return false; // They wait in their lanes, where they are counted.
        }
        if planted(Bug::ReadWithoutRound) {
            let (mark, payload) = self.look(&query);
            let position = Position { bucket: self.bucket, mark };
            sink.answer(ticket, Outcome::Done { position, payload, duplicate: false });
            return true;
        }
        let leased = now < sink.leased_until;
        let (bucket, epoch) = (self.bucket, self.epoch());
        if let Role::Primary(primary) = &mut self.role {
            let index = if planted(Bug::ReadBeforeWrites) { Offset::ZERO } else { index };
            let (round, mut vouch) = (Some(primary.round + 1), None);
            if leased {
                sink.event(|| Event::Leased { bucket, epoch });
                primary.reads.push_back(WaitingRead { ticket, round: None, vouch, index, query });
                return true;
            }
            vouch = sink.vouchers.want(primary.members().map(|peer| peer.node));
            if vouch.is_none() {
                primary.wanted_round = primary.round + 1;
            } else if !std::mem::replace(&mut primary.vouching, true) {
                sink.vouchers.waits(bucket);
            }
            // A write that comes after it goes out with that round: once it is committed the read is confirmed as well,
            // and does not see it.
            primary.reads.push_back(WaitingRead { ticket, round, vouch, index, query });
        }
        true
    }

    /// Members have vouched for something, or will not. `ask`: then those that still wait ask by a round.
    pub fn on_vouched(&mut self, now: Time, sink: &mut Sink, ask: bool) {
        let (bucket, epoch, current) = (self.bucket, self.epoch(), self.is_current());
        let may_answer = self.duty.as_ref().is_some_and(|duty| duty.may_commit) && now >= self.serves_from;
        let Role::Primary(primary) = &mut self.role else { return self.on_vouched_beside(sink, ask) };
        if current && may_answer && primary.serving {
            primary.answer_reads(sink, bucket, epoch, &self.copy);
        }
        if ask && let Some(round) = primary.reads.iter().filter_map(|read| read.round).max() {
            // A round goes to whoever something is sent to: perhaps only to one that catches up.
            let is_asked = primary.members().all(|peer| peer.round_sent >= round);
            if !is_asked {
                primary.wanted_round = primary.round + 1;
            }
        }
        primary.vouching = primary.reads.iter().any(|read| read.vouch.is_some());
        if primary.vouching {
            sink.vouchers.waits(bucket);
        }
    }

    pub(crate) fn on_opened(&mut self, now: Time, sink: &mut Sink, from: NodeId, opened: &Opened) {
        let shared = if opened.nothing { None } else { self.log.shared(&opened.runs) };
        // What is applied there cannot be cut there.
        let shared = shared.filter(|mark| mark.offset >= opened.applied);
        let (bucket, epoch) = (self.bucket, self.epoch());
        let Role::Primary(primary) = &mut self.role else { return };
        let Some(peer) = primary.peer(from) else { return };
        if peer.opened && peer.member {
            return; // An answer to an ask that was repeated.
        }
        // One that catches up may have begun anew.
        (peer.opened, peer.acked, peer.round_acked) = (false, Offset::ZERO, 0);
        peer.progressed(now);
        match shared {
            Some(mark) => {
                peer.stage = Stage::Streaming;
                (peer.matched, peer.sent) = (mark.offset, mark.offset);
                peer.retry_at = now; // The opening write goes out with the next flush.
                peer.waiting_since.get_or_insert(now);
                self.flush_primary(now, sink);
            }
            None if peer.member => {
                // Eligible members share everything committed: this one is damaged, or joined by a hint that was too
                // old. Either way it is to catch up first.
                let primary = self.me;
                let offset = opened.applied;
                sink.event(|| Event::Diverged { bucket, primary, about: from, offset });
                sink.report(Report::Complain { bucket, epoch, about: from });
            }
            None => self.begin_copying(now, sink, from, opened.partial),
        }
    }

    pub(crate) fn on_ack(&mut self, now: Time, sink: &mut Sink, from: NodeId, ack: &Ack) {
        let last = self.log.last_offset();
        let Role::Primary(primary) = &mut self.role else { return };
        let round = primary.round;
        let Some(peer) = primary.peer(from) else { return };
        let streaming = matches!(peer.stage, Stage::Streaming);
        if !streaming || ack.held > last || ack.round > round {
            return;
        }
        let better = !peer.opened || ack.held > peer.acked || ack.round > peer.round_acked;
        peer.opened = true;
        peer.full = ack.full;
        peer.echo = peer.echo.max(ack.sent);
        peer.acked = peer.acked.max(ack.held);
        peer.round_acked = peer.round_acked.max(ack.round);
        if better {
            peer.progressed(now);
            peer.retry_at = peer.retry(now, &sink.settings);
        }
        if ack.gap && ack.held < peer.sent && better {
            peer.sent = peer.acked; // Lost or overtaken on the way: again from there.
            peer.retry_at = now;
        }
        if peer.acked >= peer.sent && peer.round_acked >= peer.round_sent {
            (peer.waiting_since, peer.retry_at) = (None, Time::NEVER);
        }
        if ack.waits {
            peer.commit_sent = Offset::ZERO;
            primary.commit_at = now;
        }
        self.advance(now, sink);
    }

    /// Commits, applies and answers what every member holds by now.
    pub(crate) fn advance(&mut self, now: Time, sink: &mut Sink) {
        let (current, bucket, epoch, safe) = (self.is_current(), self.bucket, self.epoch(), self.safe);
        let Some(duty) = &self.duty else { return };
        let (may_commit, settled) = (duty.may_commit || planted(Bug::CommitBelowMin), duty.settled);
        let Role::Primary(primary) = &mut self.role else { return };
        if !current {
            return; // A later epoch exists: nothing can be committed in this one any more.
        }
        if planted(Bug::PrimaryShrinksSet) {
            let patience = sink.settings.ack_timeout / 2;
            for peer in &mut primary.peers {
                peer.member &= peer.waiting_since.is_none_or(|since| now.since(since) < patience);
            }
        }
        let counts = |peer: &Peer| peer.member || (planted(Bug::NonMemberAckCounts) && peer.opened);
        // Each member has to hold it: the next edict may make any of them primary.
        let acks = primary
            .peers
            .iter()
            .filter(|peer| counts(peer))
            .map(|peer| if peer.opened { peer.acked } else { Offset::ZERO });
        let others = if planted(Bug::NonMemberAckCounts) && primary.peers.iter().any(|peer| !peer.member && peer.opened)
        {
            acks.max()
        } else {
            acks.min()
        };
        let own = if planted(Bug::OwnDiskIgnored) { self.log.last_offset() } else { safe };
        let held = others.unwrap_or(Offset::MOST).min(own);
        // Mostly one of several acknowledgements, and not the last.
        let steady = primary.serving && settled && primary.reads.is_empty() && primary.split.is_none();
        if steady && held <= self.committed && primary.peers.iter().all(|peer| peer.member) {
            return self.close_for_split(now, sink);
        }
        let opened = primary.members().all(|peer| peer.opened);
        if !opened || held < primary.inherited {
            return;
        }
        if !settled && primary.settled_at.is_none() {
            primary.settled_at = Some(now);
            sink.report(Report::Settled { bucket, epoch });
        }
        self.report_ready(now, sink);
        let Role::Primary(primary) = &mut self.role else { return };
        if !may_commit || now < self.serves_from {
            return;
        }
        if !primary.serving {
            primary.serving = true;
            primary.commit_at = sink.settings.commit_at(now);
            let inherited = primary.inherited;
            sink.event(|| Event::Serving { bucket, epoch, inherited });
        }
        if held > self.committed {
            if sink.watched {
                for offset in self.committed.0 + 1..=held.0 {
                    if let (Some(mark), Some(entry)) = (self.log.mark(Offset(offset)), self.log.get(Offset(offset))) {
                        let entry = Entries::one(&entry);
                        sink.event(|| Event::Committed { bucket, epoch, mark, entry });
                    }
                }
            }
            self.committed = held;
            sink.commit_time = self.log.time(held).map(|time| now.since(time));
            primary.commit_at = primary.commit_at.min(sink.settings.commit_at(now));
            if primary.split.is_some_and(|split| split <= held) && primary.divided_at.is_none() {
                primary.divided_at = Some(now);
                sink.report(Report::Divided { bucket, epoch });
            }
            self.apply(now, sink);
        }
        if let Role::Primary(primary) = &mut self.role {
            primary.answer_reads(sink, bucket, epoch, &self.copy);
        }
        self.close_for_split(now, sink);
    }

    fn report_ready(&mut self, now: Time, sink: &mut Sink) {
        let (bucket, epoch, committed) = (self.bucket, self.epoch(), self.committed);
        let Role::Primary(primary) = &mut self.role else { return };
        let inherited = primary.inherited;
        for peer in primary.peers.iter_mut().filter(|peer| !peer.member && peer.opened) {
            // Measured by what is committed: under load the end of the log is always ahead of everybody.
            let ready = peer.acked >= inherited && committed.above(peer.acked) <= READY_LAG;
            if ready && peer.reported.is_none() {
                peer.reported = Some(now);
                sink.report(Report::Ready { bucket, epoch, node: peer.node });
            }
        }
    }

    pub(crate) fn flush_primary(&mut self, now: Time, sink: &mut Sink) {
        if !self.is_current() {
            return;
        }
        // What one member lacks others mostly lack as well, and the disk: it is made once.
        let mut made = self.order_entries(sink);
        let last = self.log.last_offset();
        let (bucket, epoch, committed) = (self.bucket, self.epoch(), self.committed);
        let Role::Primary(primary) = &mut self.role else { return };
        primary.disk_since = (self.safe < last).then(|| primary.disk_since.unwrap_or(now));
        let confirm = primary.wanted_round > primary.round;
        let fresh = primary.peers.iter().any(|peer| matches!(peer.stage, Stage::Streaming) && peer.sent < last);
        let commit_due = now >= primary.commit_at;
        let serving = primary.serving;
        // That the epoch serves is repeated until it is acknowledged. That something is committed is said once: whoever
        // does not hear of it asks.
        let announces = |peer: &Peer| commit_due && peer.opened && serving && !peer.told_serving;
        if confirm || fresh || primary.peers.iter().any(announces) {
            primary.round += 1;
        }
        let applied = self.copy.applied.offset;
        let compare = commit_due || now >= primary.compare_at;
        let digest = (compare && applied == committed).then(|| (applied, self.copy.digest()));
        for peer in &mut primary.peers {
            let again = now >= peer.retry_at;
            let round = peer.member && confirm;
            let announce = announces(peer);
            let tell = commit_due && peer.opened && peer.commit_sent < committed;
            let mut must = again || round || announce || tell;
            for _ in 0..FRAMES_MOST {
                // One opening write at a time: what it leads to is not known.
                let opening_under_way = !peer.opened && peer.sent > peer.matched;
                let fresh = peer.sent < last && !opening_under_way;
                if !matches!(peer.stage, Stage::Streaming) || !(must || fresh) {
                    break;
                }
                let Some(previous) = self.log.mark(peer.sent) else {
                    // What it needs next is trimmed: it is asked anew, and gets a snapshot.
                    (peer.stage, peer.opened, peer.waiting_since) = (Stage::Asked, false, None);
                    break;
                };
                let frame_bytes = sink.settings.frame_bytes;
                let entries = if fresh {
                    made.from(&self.log, peer.sent.next(), frame_bytes).unwrap_or_else(|| Entries::none(epoch))
                } else {
                    Entries::none(epoch)
                };
                peer.sent = Offset(previous.offset.0 + entries.count());
                let asks = fresh || round || again || announce || !peer.opened;
                peer.commit_sent = committed;
                if asks {
                    (peer.round_sent, peer.told_serving) = (primary.round, serving);
                }
                let write = Write {
                    round: primary.round,
                    opening: !peer.opened,
                    previous,
                    entries,
                    committed,
                    serving: serving || planted(Bug::CutSentAgainEarly),
                    confirm: round || again || announce,
                    digest,
                    echo: peer.echo,
                };
                sink.send(peer.node, bucket, epoch, Body::Write(write));
                if digest.is_some() {
                    primary.compare_at = now + sink.settings.commit_flush * COMPARE_PAUSE;
                }
                if asks {
                    peer.waits(now, &sink.settings);
                }
                must = false;
            }
        }
        // Told by what was sent just now, or by a write before: nothing has to be said by itself.
        let knows = |peer: &Peer| peer.commit_sent >= committed && peer.told_serving == serving;
        if commit_due || primary.peers.iter().all(knows) {
            primary.commit_at = Time::NEVER;
        }
        self.advance(now, sink);
        self.ask_all(now, sink);
    }

    pub(crate) fn wake_primary(&mut self, now: Time, sink: &mut Sink) {
        let (bucket, epoch) = (self.bucket, self.epoch());
        if !self.is_current() {
            return;
        }
        let due = self.copy.machine.due().is_some_and(|due| due <= now);
        if due && self.is_serving() && self.log.last_offset() == self.committed {
            self.append(now, &BucketBody::Tick);
        }
        if now >= self.serves_from {
            self.serves_from = Time::ZERO;
        }
        let patience = sink.settings.ack_timeout;
        let (settled, may_commit) = self.duty.as_ref().map_or((true, false), |duty| (duty.settled, duty.may_commit));
        let me = self.me;
        let Role::Primary(primary) = &mut self.role else { return };
        for peer in &mut primary.peers {
            if now < peer.retry_at {
                continue;
            }
            match &mut peer.stage {
                Stage::Asked => {
                    sink.send(peer.node, bucket, epoch, Body::Open(Open));
                    peer.retry_at = now + sink.settings.retry;
                }
                Stage::Streaming => peer.sent = peer.acked.max(peer.matched).min(peer.sent),
                Stage::Copying(copying) => {
                    copying.rewind();
                    peer.retry_at = now + sink.settings.retry;
                }
            }
        }
        for peer in &mut primary.peers {
            let waits = if peer.member { patience } else { patience * 4 };
            if peer.waiting_since.is_some_and(|since| now.since(since) >= waits) {
                peer.waiting_since = Some(now);
                sink.report(Report::Complain { bucket, epoch, about: peer.node });
            }
            if peer.reported.is_some_and(|at| now.since(at) >= patience) {
                peer.reported = None; // Told again.
            }
        }
        if primary.disk_since.is_some_and(|since| now.since(since) >= patience) && may_commit {
            primary.disk_since = Some(now);
            sink.report(Report::Complain { bucket, epoch, about: me });
        }
        if !settled && primary.settled_at.is_some_and(|at| now.since(at) >= patience) {
            primary.settled_at = None;
        }
        if primary.divided_at.is_some_and(|at| now.since(at) >= patience) {
            primary.divided_at = Some(now);
            sink.report(Report::Divided { bucket, epoch });
        }
        self.send_pieces(now, sink);
        self.flush_primary(now, sink);
    }

    pub(crate) fn primary_due(&self, primary: &Primary, settings: &Settings) -> Time {
        if !self.is_current() {
            return Time::NEVER;
        }
        let after = |since: Option<Time>| since.map_or(Time::NEVER, |since| since + settings.ack_timeout);
        let (settled, may_commit) = self.duty.as_ref().map_or((true, false), |duty| (duty.settled, duty.may_commit));
        let mut due = primary.commit_at.min(after(primary.divided_at));
        if may_commit {
            due = due.min(after(primary.disk_since));
        }
        if !settled {
            due = due.min(after(primary.settled_at));
        }
        if self.serves_from > Time::ZERO {
            due = due.min(self.serves_from);
        }
        // What expires next is asked only where nothing is under way, since only then something is done about it.
        if primary.serving && !primary.closed && self.log.last_offset() == self.committed {
            due = due.min(self.copy.machine.due().unwrap_or(Time::NEVER));
        }
        for peer in &primary.peers {
            let told = if peer.member { peer.waiting_since } else { peer.reported };
            due = due.min(peer.retry_at).min(after(told));
        }
        due
    }
}
