//! Requests passed on to another node, and those that others passed on to this one.
//!
//! A hop is sent again, under its number, until every request in it is answered; the receiver carries out each number
//! once and keeps its answers until the sender no longer waits for them. So a hop survives a lost message, and a
//! duplicate does nothing.

use super::door::Answer;
use super::message::{Hop, Hopped};
use atoll_replica::Ticket;
use atoll_types::{Incarnation, NodeId, SlotRange, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// One hop that this node waits for.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) to: NodeId,
    /// The life of the receiver that it was sent to: another one knows nothing of it.
    pub(crate) incarnation: Incarnation,
    pub(crate) hop: Hop,
    /// By place; none where it is answered.
    pub(crate) tickets: Vec<Option<Ticket>>,
    /// Of the tickets, those that are not answered.
    pub(crate) waiting: usize,
    /// Of all commands and queries.
    pub(crate) bytes: usize,
    pub(crate) retry_at: Time,
}

#[derive(Debug, Default)]
pub(crate) struct Hops {
    pub(crate) outgoing: BTreeMap<u64, Outgoing>,
    last: u64,
    /// Hops of this turn, which are not sent yet: whatever else goes the same way goes with them. By receiver, root,
    /// and how often their requests were passed on.
    pub(crate) open: BTreeMap<(NodeId, u16, u8), u64>,
    /// Those of this turn that are full.
    pub(crate) full: Vec<u64>,
    /// Nothing is to be sent again before this; perhaps nothing is then, as answers do not change it.
    retry_from: Time,
}

impl Hops {
    /// Begins one, under the next number.
    pub(crate) fn begin(&mut self, outgoing: Outgoing) -> u64 {
        self.last += 1;
        let before = if self.outgoing.is_empty() { Time::NEVER } else { self.retry_from };
        self.retry_from = before.min(outgoing.retry_at);
        self.outgoing.insert(self.last, outgoing);
        self.last
    }

    /// The lowest number that is still waited for.
    pub(crate) fn floor(&self) -> u64 {
        self.outgoing.keys().next().copied().unwrap_or(self.last)
    }

    /// Numbers go on; what was under way is given up.
    pub(crate) fn abandon(&mut self) -> Vec<Ticket> {
        self.open.clear();
        self.full.clear();
        std::mem::take(&mut self.outgoing).into_values().flat_map(|hop| hop.tickets).flatten().collect()
    }

    pub(crate) fn next_retry(&self) -> Time {
        if self.outgoing.is_empty() { Time::NEVER } else { self.retry_from }
    }

    /// Those that are to be sent again, and next after this pause.
    pub(crate) fn due(&mut self, now: Time, pause: Duration) -> Vec<u64> {
        let mut due = Vec::new();
        if now < self.retry_from {
            return due;
        }
        self.retry_from = Time::NEVER;
        for (&number, outgoing) in &mut self.outgoing {
            if outgoing.retry_at <= now {
                outgoing.retry_at = now + pause;
                due.push(number);
            }
            self.retry_from = self.retry_from.min(outgoing.retry_at);
        }
        due
    }

    /// Who waits for this answer of that node.
    pub(crate) fn ticket(&self, from: NodeId, number: u64, place: u32) -> Option<Ticket> {
        let outgoing = self.outgoing.get(&number).filter(|outgoing| outgoing.to == from)?;
        *outgoing.tickets.get(place as usize)?
    }

    /// Nobody waits any more for this place of the hop.
    pub(crate) fn forget(&mut self, number: u64, place: u32) {
        let Some(hop) = self.outgoing.get_mut(&number) else { return };
        let waited = hop.tickets.get_mut(place as usize).and_then(Option::take);
        hop.waiting -= usize::from(waited.is_some());
        if hop.waiting == 0 {
            self.outgoing.remove(&number);
        }
    }
}

/// A hop that another node sent here.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) root: SlotRange,
    pub(crate) answers: Vec<Option<Answer>>,
    /// Answers that were not sent yet.
    pub(crate) fresh: Vec<u32>,
}

impl Taken {
    /// What is known and was not told since the last ask.
    pub(crate) fn news(&mut self, number: u64) -> Hopped {
        let fresh = std::mem::take(&mut self.fresh);
        let known = |place: u32| Some((place, self.answers.get(place as usize)?.clone()?));
        Hopped { number, root: self.root, answers: fresh.into_iter().filter_map(known).collect() }
    }
}

/// What one shard of another node has passed on to this one.
#[derive(Debug, Default)]
pub(crate) struct Guest {
    /// Nothing below is waited for any more.
    pub(crate) floor: u64,
    pub(crate) taken: BTreeMap<u64, Taken>,
    /// Sent by a newer table than this node has.
    pub(crate) early: BTreeMap<u64, Hop>,
}

impl Guest {
    pub(crate) fn raise_floor(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
        while self.taken.first_key_value().is_some_and(|(number, _)| *number < self.floor) {
            self.taken.pop_first();
        }
        while self.early.first_key_value().is_some_and(|(number, _)| *number < self.floor) {
            self.early.pop_first();
        }
    }
}
