//! Passing requests on, and taking those that were passed on.

use super::Shard;
use super::door::{Answer, Reason};
use super::hops::{Outgoing, Taken};
use super::lane::{Caller, LaneKey, Route, Where};
use super::message::{Hop, Hopped, ShardMessage};
use super::routing::HOP_REQUESTS_MOST;
use atoll_replica::Ticket;
use atoll_types::{Bug, HashSlot, Incarnation, NodeId, SlotRange, planted};

impl Shard {
    /// What this lane has for that node goes with what other lanes of the root have for it in this turn.
    pub(super) fn join_hop(&mut self, key: LaneKey, to: NodeId, tickets: &[Ticket], bytes: usize) -> bool {
        // Of one that is absent the next table says who is in its place.
        let contact = self.roster.get(&to).filter(|contact| contact.present);
        let Some(incarnation) = contact.map(|contact| contact.incarnation) else { return false };
        let waiting = tickets.iter().filter_map(|ticket| self.lanes.waiting.get(*ticket));
        // All of a lane in one hop, under the most of any: two hops may overtake each other.
        let hops = waiting.map(|waiting| waiting.hops).max().unwrap_or(0) + 1;
        let number = self.open_hop(to, incarnation, key.root(), hops, tickets.len(), bytes);
        let Some(outgoing) = self.hops.outgoing.get_mut(&number) else { return false };
        outgoing.bytes += bytes;
        for &ticket in tickets {
            let Some(waiting) = self.lanes.waiting.get(ticket) else { continue };
            let place = outgoing.tickets.len() as u32;
            outgoing.hop.requests.push(waiting.request.clone());
            outgoing.tickets.push(Some(ticket));
            outgoing.waiting += 1;
            self.lanes.depart(ticket, Route::To(to), Where::Hopped { number, place });
        }
        true
    }

    /// A hop of this turn with room for so many requests of so many bytes.
    fn open_hop(
        &mut self,
        to: NodeId,
        incarnation: Incarnation,
        root: u16,
        hops: u8,
        requests: usize,
        bytes: usize,
    ) -> u64 {
        let way = (to, root, hops);
        if let Some(&number) = self.hops.open.get(&way) {
            let has_room = |outgoing: &Outgoing| {
                outgoing.tickets.len() + requests <= HOP_REQUESTS_MOST
                    && outgoing.bytes + bytes <= self.config.limits.frame_bytes
            };
            if self.hops.outgoing.get(&number).is_some_and(has_room) {
                return number;
            }
            self.hops.full.push(number);
        }
        let last = HashSlot(root + self.width.max(1) - 1);
        let hop = Hop {
            number: 0,
            shard: self.index as u16,
            floor: 0,
            version: self.version,
            hops,
            root: SlotRange { first: HashSlot(root), last },
            requests: Vec::new(),
        };
        let retry_at = self.now + self.config.timing.replica_retry * 2;
        let (tickets, waiting, bytes) = (Vec::new(), 0, 0);
        let number = self.hops.begin(Outgoing { to, incarnation, hop, tickets, waiting, bytes, retry_at });
        self.hops.open.insert(way, number);
        number
    }

    /// Ends the turn: what goes to another node goes now.
    pub(super) fn send_hops(&mut self) {
        let mut numbers = std::mem::take(&mut self.hops.full);
        numbers.extend(std::mem::take(&mut self.hops.open).into_values());
        numbers.sort_unstable();
        numbers.into_iter().for_each(|number| self.send_hop(number));
    }

    fn send_hop(&mut self, number: u64) {
        let floor = self.hops.floor();
        let Some(outgoing) = self.hops.outgoing.get(&number) else { return };
        let (to, hop) = (outgoing.to, Hop { number, floor, ..outgoing.hop.clone() });
        self.send(to, ShardMessage::Hop(hop));
    }

    /// Sends again what was not answered. The number makes it count once.
    pub(super) fn repeat_hops(&mut self) {
        let due = self.hops.due(self.now, self.config.timing.replica_retry * 4);
        due.into_iter().for_each(|number| self.send_hop(number));
    }

    /// Hops to those that are gone, absent, or in another life: nobody will answer them.
    pub(super) fn drop_hops(&mut self) {
        let gone = |outgoing: &Outgoing| {
            let contact = self.roster.get(&outgoing.to);
            contact.is_none_or(|contact| !contact.present || contact.incarnation != outgoing.incarnation)
        };
        let gone: Vec<u64> =
            self.hops.outgoing.iter().filter(|(_, outgoing)| gone(outgoing)).map(|(&number, _)| number).collect();
        for number in gone {
            if let Some(outgoing) = self.hops.outgoing.remove(&number) {
                outgoing.tickets.into_iter().flatten().for_each(|ticket| self.on_fate_unknown(ticket));
            }
        }
    }

    pub(super) fn on_hop(&mut self, from: NodeId, hop: Hop) {
        let version = self.version;
        let (key, number) = ((from, hop.shard), hop.number);
        let guest = self.guests.entry(key).or_default();
        guest.raise_floor(hop.floor);
        if number < guest.floor || hop.requests.is_empty() {
            return; // Answered long ago.
        }
        if guest.taken.contains_key(&number) && !planted(Bug::HopTakenTwice) {
            self.answered.insert((from, hop.shard, number));
            if let Some(taken) = self.guests.get_mut(&key).and_then(|guest| guest.taken.get_mut(&number)) {
                // Asked again: what is known is told again.
                taken.fresh = (0..taken.answers.len() as u32).collect();
            }
            return;
        }
        // A table that is newer than this one knows better: it is waited for, and nothing is sent back.
        if hop.version > version {
            let full = guest.early.len() >= self.config.limits.held;
            if !full {
                guest.early.insert(number, hop);
            }
            return;
        }
        self.take_hop(from, hop);
    }

    fn take_hop(&mut self, from: NodeId, hop: Hop) {
        let Hop { number, shard, root, hops, requests, .. } = hop;
        let Some(guest) = self.guests.get_mut(&(from, shard)) else { return };
        let taken = Taken { root, answers: vec![None; requests.len()], fresh: Vec::new() };
        guest.taken.insert(number, taken);
        for (place, request) in (0..).zip(requests) {
            let caller = Caller::Hop { origin: from, shard, number, place };
            if request.slot.0 >= HashSlot::COUNT || self.root(request.slot) != root.first.0 {
                self.tell(caller, Answer::NotApplied(Reason::NoTable));
            } else {
                self.admit(caller, request, hops);
            }
        }
    }

    pub(super) fn take_early_hops(&mut self) {
        let version = self.version;
        let mut due = Vec::new();
        for (&(from, _), guest) in &mut self.guests {
            let known: Vec<u64> =
                guest.early.iter().filter(|(_, hop)| hop.version <= version).map(|(&number, _)| number).collect();
            due.extend(known.into_iter().filter_map(|number| Some((from, guest.early.remove(&number)?))));
        }
        due.into_iter().for_each(|(from, hop)| self.take_hop(from, hop));
    }

    pub(super) fn send_answers(&mut self, origin: NodeId, shard: u16, number: u64) {
        let Some(guest) = self.guests.get_mut(&(origin, shard)) else { return };
        let Some(taken) = guest.taken.get_mut(&number) else { return };
        let news = taken.news(number);
        if !news.answers.is_empty() {
            self.send(origin, ShardMessage::Hopped(news));
        }
    }

    pub(super) fn on_hopped(&mut self, from: NodeId, hopped: Hopped) {
        for (place, answer) in hopped.answers {
            // Nobody: answered before, or given up.
            if let Some(ticket) = self.hops.ticket(from, hopped.number, place) {
                self.answer(ticket, answer);
            }
        }
    }
}
