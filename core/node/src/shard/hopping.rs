//! Passing requests on, and taking those that were passed on.

use super::Shard;
use super::door::{Answer, Reason};
use super::hops::{Outgoing, Taken};
use super::lane::{Caller, LaneKey, Route, Where};
use super::message::{Hop, Hopped, ShardMessage};
use atoll_replica::Ticket;
use atoll_types::{Bug, HashSlot, NodeId, SlotRange, planted};

impl Shard {
    pub(super) fn begin_hop(&mut self, key: LaneKey, to: NodeId, tickets: Vec<Ticket>) -> bool {
        // Of one that is absent the next table says who is in its place.
        let contact = self.roster.get(&to).filter(|contact| contact.present);
        let Some(incarnation) = contact.map(|contact| contact.incarnation) else { return false };
        let waiting = tickets.iter().filter_map(|ticket| self.lanes.waiting.get(*ticket));
        let hops = waiting.clone().map(|waiting| waiting.hops).max().unwrap_or(0);
        let requests = waiting.map(|waiting| waiting.request.clone()).collect();
        let number = self.hops.next_number();
        let last = HashSlot(key.root() + self.width.max(1) - 1);
        let hop = Hop {
            number,
            shard: self.index as u16,
            floor: 0,
            version: self.version,
            hops: hops + 1,
            root: SlotRange { first: HashSlot(key.root()), last },
            requests,
        };
        for &ticket in &tickets {
            self.lanes.depart(ticket, Route::To(to), Where::Hopped(number));
        }
        let tickets = tickets.into_iter().map(Some).collect();
        let retry_at = self.now + self.config.timing.replica_retry * 2;
        self.hops.outgoing.insert(number, Outgoing { to, incarnation, hop, tickets, retry_at });
        self.send_hop(number);
        true
    }

    fn send_hop(&mut self, number: u64) {
        let floor = self.hops.floor();
        let Some(outgoing) = self.hops.outgoing.get(&number) else { return };
        let (to, hop) = (outgoing.to, Hop { floor, ..outgoing.hop.clone() });
        self.send(to, ShardMessage::Hop(hop));
    }

    /// Sends again what was not answered. The number makes it count once.
    pub(super) fn repeat_hops(&mut self) {
        let (now, pause) = (self.now, self.config.timing.replica_retry * 4);
        let mut due = Vec::new();
        for (&number, outgoing) in &mut self.hops.outgoing {
            if outgoing.retry_at <= now {
                outgoing.retry_at = now + pause;
                due.push(number);
            }
        }
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
        let Some(outgoing) = self.hops.outgoing.get(&hopped.number).filter(|outgoing| outgoing.to == from) else {
            return; // Answered before, or given up.
        };
        let tickets = outgoing.tickets.clone();
        for (place, answer) in hopped.answers {
            if let Some(Some(ticket)) = tickets.get(place as usize) {
                self.answer(*ticket, answer);
            }
        }
    }
}
