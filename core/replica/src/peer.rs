//! What a primary keeps about an epoch: how far each other node is, which reads wait, what was told.
//!
//! ```text
//!   a peer:  Asked ──opened──▶ Streaming (sent, acknowledged)
//!              │                    ▲
//!              └──nothing shared──▶ Copying (a snapshot, in pieces)          only one that catches up
//! ```

use crate::catch_up::Copying;
use crate::copy::Copy;
use crate::event::Event;
use crate::sink::{Outcome, Settings, Sink, Ticket};
use crate::vouch::Vouchers;
use atoll_types::{BucketId, BucketSnapshot, Bug, Duty, Epoch, NodeId, Offset, Payload, Position, Time, planted};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(crate) enum Stage {
    /// Asked what it holds.
    Asked,
    Streaming,
    Copying(Copying),
}

/// A pace is forgotten by one part in so many with each that is shorter.
const PACE_SHARE: u32 = 8;

/// Another node that this primary sends to.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) node: NodeId,
    pub(crate) member: bool,
    pub(crate) stage: Stage,
    /// Its log and this one agree up to here.
    pub(crate) matched: Offset,
    /// It has acknowledged in this epoch.
    pub(crate) opened: bool,
    /// Counts only once it is opened.
    pub(crate) acked: Offset,
    pub(crate) sent: Offset,
    pub(crate) round_sent: u64,
    pub(crate) round_acked: u64,
    pub(crate) commit_sent: Offset,
    /// It knows that the epoch serves: what it was cut stays cut.
    pub(crate) told_serving: bool,
    /// Has no memory to spare.
    pub(crate) full: bool,
    /// When it sent its last acknowledgement, by its own clock.
    pub(crate) echo: Time,
    /// Sent again then, if nothing is heard.
    pub(crate) retry_at: Time,
    /// Since when it is waited for without any progress.
    pub(crate) waiting_since: Option<Time>,
    /// How long that took lately: what takes longer on a busy node is not lost, and said again it takes longer still.
    pub(crate) pace: Duration,
    /// When it was last reported as ready.
    pub(crate) reported: Option<Time>,
}

impl Peer {
    pub(crate) fn new(node: NodeId, member: bool) -> Peer {
        Peer {
            node,
            member,
            stage: Stage::Asked,
            matched: Offset::ZERO,
            opened: false,
            acked: Offset::ZERO,
            sent: Offset::ZERO,
            round_sent: 0,
            round_acked: 0,
            commit_sent: Offset::ZERO,
            told_serving: false,
            full: false,
            echo: Time::ZERO,
            retry_at: Time::NEVER,
            waiting_since: None,
            pace: Duration::ZERO,
            reported: None,
        }
    }

    pub(crate) fn progressed(&mut self, now: Time) {
        let Some(since) = &mut self.waiting_since else { return };
        self.pace = now.since(*since).max(self.pace - self.pace / PACE_SHARE);
        *since = now;
    }

    pub(crate) fn waits(&mut self, now: Time, settings: &Settings) {
        self.waiting_since.get_or_insert(now);
        self.retry_at = self.retry(now, settings);
    }

    /// When what is sent now counts as lost.
    pub(crate) fn retry(&self, now: Time, settings: &Settings) -> Time {
        now + settings.retry + self.pace.min(settings.ack_timeout)
    }
}

#[derive(Debug)]
pub(crate) struct WaitingRead {
    pub(crate) ticket: Ticket,
    /// Confirmed by a round no older than this, or else by what all members vouched for since; none: by the lease, when
    /// it came.
    pub(crate) round: Option<u64>,
    /// None: it waits for a round only.
    pub(crate) vouch: Option<u64>,
    /// It sees at least everything written before it came.
    pub(crate) index: Offset,
    pub(crate) query: Payload,
}

#[derive(Debug)]
pub(crate) struct Primary {
    /// The end of the log when the epoch began: every member has to hold it before anything is served.
    pub(crate) inherited: Offset,
    pub(crate) peers: Vec<Peer>,
    pub(crate) serving: bool,
    /// The split was written: nothing comes after it in this epoch.
    pub(crate) closed: bool,
    pub(crate) split: Option<Offset>,
    /// The last round sent.
    pub(crate) round: u64,
    /// The round that the newest waiting read needs.
    pub(crate) wanted_round: u64,
    pub(crate) reads: VecDeque<WaitingRead>,
    /// Some of them wait for members to vouch, and the vouchers know.
    pub(crate) vouching: bool,
    /// The commit index is sent by itself then.
    pub(crate) commit_at: Time,
    /// From then on the next write carries a digest to be compared.
    pub(crate) compare_at: Time,
    /// When this epoch was last reported as settled or divided.
    pub(crate) settled_at: Option<Time>,
    pub(crate) divided_at: Option<Time>,
    /// Since when the own disk is waited for.
    pub(crate) disk_since: Option<Time>,
    /// Made for those that copy, as long as somebody does.
    pub(crate) snapshot: Option<Arc<BucketSnapshot>>,
}

impl Primary {
    pub(crate) fn new(inherited: Offset) -> Primary {
        Primary {
            inherited,
            peers: Vec::new(),
            serving: false,
            closed: false,
            split: None,
            round: 0,
            wanted_round: 0,
            reads: VecDeque::new(),
            vouching: false,
            commit_at: Time::NEVER,
            compare_at: Time::ZERO,
            settled_at: None,
            divided_at: None,
            disk_since: None,
            snapshot: None,
        }
    }

    pub(crate) fn peer(&mut self, node: NodeId) -> Option<&mut Peer> {
        self.peers.iter_mut().find(|peer| peer.node == node)
    }

    /// The other members, all of which have to acknowledge.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Peer> + Clone {
        self.peers.iter().filter(|peer| peer.member)
    }

    pub(crate) fn enlist(&mut self, duty: &Duty, me: NodeId) {
        let appointment = &duty.appointment;
        self.peers.retain(|peer| appointment.names(peer.node));
        for &node in appointment.members.iter().chain(&appointment.catching_up) {
            if node != me && !self.peers.iter().any(|peer| peer.node == node) {
                self.peers.push(Peer::new(node, appointment.is_member(node)));
            }
        }
    }

    /// What every other member holds, once this one holds so much.
    pub(crate) fn held_with(&self, node: NodeId, held: Offset) -> Offset {
        let held_by = |peer: &Peer| if peer.node == node { held } else { peer.acked };
        self.members().map(held_by).min().unwrap_or(Offset::ZERO)
    }

    /// Below this nothing may be trimmed: somebody who catches up still needs it, unless that is too far behind.
    pub(crate) fn wanted_by_slow(&self, last: Offset, patience: u64) -> Offset {
        let needs = self.peers.iter().filter_map(|peer| match &peer.stage {
            Stage::Asked => None,
            Stage::Streaming => Some(peer.acked.max(peer.matched)),
            Stage::Copying(copying) => Some(copying.mark().offset),
        });
        needs.filter(|need| last.above(*need) <= patience).min().unwrap_or(last)
    }

    /// Is there something to be sent, or something other than a steady state? Then the copy has to be flushed.
    pub(crate) fn is_stirred(&self, last: Offset) -> bool {
        let steady = |peer: &Peer| peer.opened && peer.sent >= last && matches!(peer.stage, Stage::Streaming);
        let leased = self.reads.front().is_some_and(|read| read.round.is_none());
        let asks = self.wanted_round > self.round || leased;
        !self.serving || self.split.is_some() || asks || !self.peers.iter().all(steady)
    }

    /// Answers those whose round every member has acknowledged, and that may see this state.
    pub(crate) fn answer_reads(&mut self, sink: &mut Sink, bucket: BucketId, epoch: Epoch, copy: &Copy) {
        if self.reads.is_empty() {
            return;
        }
        let (confirmed, vouched, applied) = (self.confirmed_round(), self.vouched(&sink.vouchers), copy.applied);
        let by_vouch = |read: &WaitingRead| read.vouch.is_some_and(|number| number <= vouched);
        while let Some(read) = self.reads.front()
            && (read.round.is_none_or(|round| round <= confirmed) || by_vouch(read))
            && read.index <= applied.offset
            && let Some(read) = self.reads.pop_front()
        {
            let payload = copy.read(&read.query, &mut sink.scratch);
            if let Some(round) = read.round {
                let number = read.vouch.unwrap_or_default();
                sink.event(|| match round <= confirmed {
                    true => Event::Confirmed { bucket, epoch, mark: applied, round },
                    false => Event::VouchedFor { bucket, epoch, mark: applied, number },
                });
            }
            let position = Position { bucket, mark: applied };
            sink.answer(read.ticket, Outcome::Done { position, payload, duplicate: false });
        }
    }

    /// The highest round that every member has acknowledged.
    pub(crate) fn confirmed_round(&self) -> u64 {
        let rounds = self.members().map(|peer| peer.round_acked);
        let confirmed = if planted(Bug::ReadOneMember) { rounds.max() } else { rounds.min() };
        confirmed.unwrap_or(u64::MAX)
    }

    /// The highest number that every member has vouched for.
    fn vouched(&self, vouchers: &Vouchers) -> u64 {
        let numbers = self.members().map(|peer| vouchers.given(peer.node));
        let vouched = if planted(Bug::ReadOneMember) { numbers.max() } else { numbers.min() };
        vouched.unwrap_or(u64::MAX)
    }
}
