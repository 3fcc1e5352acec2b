//! Requests on their way: what waits, what is under way, and in which order.
//!
//! A lane holds the requests of one connection to one first bucket, in their order. What waits in lanes is the backlog:
//! it is bounded, and goes on by the table of the moment when its turn comes.
//!
//! ```text
//!   Queued ──▶ Local ──▶ answered            the primary is here
//!     ▲  └───▶ Hopped ──▶ answered           it is elsewhere
//!     └── cut, moved, or of unknown fate and safe to repeat
//! ```
//!
//! Not here: what a lane's next request is given to (`routing.rs`), hops (`hops.rs`), tickets (`tickets.rs`).

use super::door::{Ask, Request, RequestId};
use super::tickets::Tickets;
use atoll_replica::Ticket;
use atoll_types::{NodeId, Time};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Whose requests, and to which part of the key space. A lane outlives splits: halves are in the lane of the whole.
///
/// One number, because nothing is compared as often: from its high end the root (the first slot of the bucket as it was
/// at first placement), the node the requests came from (nobody for callers of this node), its shard, the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneKey(u128);

impl LaneKey {
    pub(crate) fn new(root: u16, origin: NodeId, shard: u16, connection: u64) -> LaneKey {
        let place = u64::from(root) << 48 | u64::from(origin.0) << 16 | u64::from(shard);
        LaneKey(u128::from(place) << 64 | u128::from(connection))
    }

    pub(crate) fn root(self) -> u16 {
        (self.0 >> 112) as u16
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Route {
    /// To the replica on this node.
    Here,
    To(NodeId),
    /// Nobody serves the bucket now.
    Nowhere,
}

#[derive(Debug)]
pub(crate) struct Lane {
    /// Where those under way went.
    pub(crate) route: Route,
    pub(crate) under_way: usize,
    /// Sorted, in the order in which they came: a ticket that goes back takes its old place.
    pub(crate) queue: VecDeque<Ticket>,
    /// The latest write that was sent on and answered: a read before it must not be asked again.
    pub(crate) written: Ticket,
}

impl Lane {
    fn line_up(&mut self, ticket: Ticket) {
        let place = if self.queue.back().is_none_or(|last| *last < ticket) {
            self.queue.len()
        } else {
            self.queue.partition_point(|other| *other < ticket)
        };
        self.queue.insert(place, ticket);
    }

    /// Whether it was in the queue.
    fn leave(&mut self, ticket: Ticket) -> bool {
        if self.queue.front() == Some(&ticket) {
            self.queue.pop_front();
            return true;
        }
        let place = self.queue.binary_search(&ticket);
        place.is_ok_and(|place| self.queue.remove(place).is_some())
    }
}

/// Who is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Here(RequestId),
    Hop { origin: NodeId, shard: u16, number: u64, place: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Queued,
    Local,
    /// In this hop, at this place.
    Hopped {
        number: u64,
        place: u32,
    },
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) caller: Caller,
    pub(crate) request: Request,
    pub(crate) lane: LaneKey,
    /// How often it was passed on before it came here.
    pub(crate) hops: u8,
    pub(crate) place: Where,
    /// It was sent on and its fate is not known: it can no longer be said that it was not applied.
    pub(crate) tainted: bool,
    pub(crate) deadline: Time,
}

/// Everything that waits, by ticket, and the lanes it waits in.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    pub(crate) waiting: Tickets,
    pub(crate) lanes: BTreeMap<LaneKey, Lane>,
    /// Queued requests, by root.
    queued: Vec<u32>,
}

impl Lanes {
    pub(crate) fn queued(&self, root: u16) -> usize {
        self.queued.get(usize::from(root)).map_or(0, |count| *count as usize)
    }

    pub(crate) fn enqueue(&mut self, waiting: Waiting) {
        let key = waiting.lane;
        let ticket = self.waiting.insert(waiting);
        self.line_up(key, ticket);
    }

    fn line_up(&mut self, key: LaneKey, ticket: Ticket) {
        let none = || Lane { route: Route::Nowhere, under_way: 0, queue: VecDeque::new(), written: Ticket(0) };
        self.lanes.entry(key).or_insert_with(none).line_up(ticket);
        let root = usize::from(key.root());
        if root >= self.queued.len() {
            self.queued.resize(root + 1, 0);
        }
        self.queued[root] += 1;
    }

    /// The ticket leaves the queue and is under way. Tells whether others are left in the queue.
    pub(crate) fn depart(&mut self, ticket: Ticket, route: Route, place: Where) -> bool {
        let Some(waiting) = self.waiting.get_mut(ticket) else { return false };
        waiting.place = place;
        let key = waiting.lane;
        let Some(lane) = self.lanes.get_mut(&key) else { return false };
        let left = lane.leave(ticket);
        if left {
            lane.route = route;
            lane.under_way += 1;
        }
        let others = !lane.queue.is_empty();
        if left {
            self.count_down(key.root());
        }
        others
    }

    /// Back to its old place in the queue.
    pub(crate) fn go_back(&mut self, ticket: Ticket, tainted: bool) -> Option<LaneKey> {
        let waiting = self.waiting.get_mut(ticket)?;
        if waiting.place == Where::Queued {
            return None;
        }
        waiting.place = Where::Queued;
        waiting.tainted |= tainted;
        let key = waiting.lane;
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.under_way -= 1;
        }
        self.line_up(key, ticket);
        Some(key)
    }

    /// It is answered: no trace of it stays. Tells as well whether others of its lane wait for their turn.
    pub(crate) fn finish(&mut self, ticket: Ticket) -> Option<(Waiting, bool)> {
        let waiting = self.waiting.remove(ticket)?;
        let key = waiting.lane;
        let Entry::Occupied(mut entry) = self.lanes.entry(key) else { return Some((waiting, false)) };
        let lane = entry.get_mut();
        let was_queued = lane.leave(ticket);
        if !was_queued {
            lane.under_way -= 1;
            if matches!(waiting.request.ask, Ask::Write { .. }) {
                lane.written = lane.written.max(ticket);
            }
        }
        let others = !lane.queue.is_empty();
        if !others && lane.under_way == 0 {
            entry.remove();
        }
        if was_queued {
            self.count_down(key.root());
        }
        Some((waiting, others))
    }

    fn count_down(&mut self, root: u16) {
        if let Some(count) = self.queued.get_mut(usize::from(root)) {
            *count -= 1;
        }
    }

    /// Lanes of this part of the key space that have something waiting.
    pub(crate) fn waiting_lanes(&self, root: u16) -> Vec<LaneKey> {
        let first = LaneKey::new(root, NodeId(0), 0, 0);
        let lanes = self.lanes.range(first..).take_while(|(key, _)| key.root() == root);
        lanes.filter(|(_, lane)| !lane.queue.is_empty()).map(|(key, _)| *key).collect()
    }

    pub(crate) fn roots_waiting(&self) -> Vec<u16> {
        (0..).zip(&self.queued).filter(|(_, count)| **count > 0).map(|(root, _)| root).collect()
    }

    pub(crate) fn next_deadline(&self) -> Time {
        self.waiting.first().map_or(Time::NEVER, |(_, waiting)| waiting.deadline)
    }

    pub(crate) fn overdue(&self, now: Time) -> Option<Ticket> {
        self.waiting.first().filter(|(_, waiting)| waiting.deadline <= now).map(|(ticket, _)| ticket)
    }

    pub(crate) fn check(&self) {
        self.waiting.check();
        let queued: usize = self.lanes.values().map(|lane| lane.queue.len()).sum();
        let under_way: usize = self.lanes.values().map(|lane| lane.under_way).sum();
        assert_eq!(queued + under_way, self.waiting.len(), "whatever waits is in a lane, once");
        assert_eq!(queued, self.queued.iter().map(|count| *count as usize).sum(), "the backlog is counted");
        assert!(self.lanes.values().all(|lane| lane.queue.iter().is_sorted()), "lanes keep the order of tickets");
    }
}
