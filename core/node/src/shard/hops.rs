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

/// One hop that this node waits for.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) to: NodeId,
    /// The life of the receiver that it was sent to: another one knows nothing of it.
    pub(crate) incarnation: Incarnation,
    pub(crate) hop: Hop,
    /// By place; none where it is answered.
    pub(crate) tickets: Vec<Option<Ticket>>,
    pub(crate) retry_at: Time,
}

#[derive(Debug, Default)]
pub(crate) struct Hops {
    pub(crate) outgoing: BTreeMap<u64, Outgoing>,
    last: u64,
}

impl Hops {
    pub(crate) fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The lowest number that is still waited for.
    pub(crate) fn floor(&self) -> u64 {
        self.outgoing.keys().next().copied().unwrap_or(self.last)
    }

    /// Numbers go on; what was under way is given up.
    pub(crate) fn abandon(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.outgoing).into_values().flat_map(|hop| hop.tickets).flatten().collect()
    }

    pub(crate) fn next_retry(&self) -> Time {
        self.outgoing.values().map(|hop| hop.retry_at).min().unwrap_or(Time::NEVER)
    }

    /// The ticket no longer waits for this hop.
    pub(crate) fn forget(&mut self, number: u64, ticket: Ticket) {
        let Some(hop) = self.outgoing.get_mut(&number) else { return };
        for waiting in hop.tickets.iter_mut().filter(|waiting| **waiting == Some(ticket)) {
            *waiting = None;
        }
        if hop.tickets.iter().all(Option::is_none) {
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
        self.taken = self.taken.split_off(&self.floor);
        self.early = self.early.split_off(&self.floor);
    }
}
