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
//! Not here: what a lane's next request is given to (`routing.rs`), hops (`hops.rs`).

use super::door::{Ask, Request, RequestId};
use atoll_replica::Ticket;
use atoll_types::{NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Whose requests, and to which part of the key space. A lane outlives splits: halves are in the lane of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneKey {
    /// The first slot of the bucket as it was at first placement.
    pub(crate) root: u16,
    /// The node the requests came from, and its shard; nobody for callers of this node.
    pub(crate) origin: NodeId,
    pub(crate) shard: u16,
    pub(crate) connection: u64,
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
    /// In the order in which they came: a ticket that goes back takes its old place.
    pub(crate) queue: BTreeSet<Ticket>,
    /// The latest write that was sent on and answered: a read before it must not be asked again.
    pub(crate) written: Ticket,
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
    Hopped(u64),
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
    pub(crate) waiting: BTreeMap<Ticket, Waiting>,
    pub(crate) lanes: BTreeMap<LaneKey, Lane>,
    deadlines: BTreeSet<(Time, Ticket)>,
    /// Queued requests, by root.
    queued: BTreeMap<u16, usize>,
    last: u64,
}

impl Lanes {
    pub(crate) fn queued(&self, root: u16) -> usize {
        self.queued.get(&root).copied().unwrap_or(0)
    }

    pub(crate) fn enqueue(&mut self, waiting: Waiting) -> Ticket {
        self.last += 1;
        let ticket = Ticket(self.last);
        let key = waiting.lane;
        self.deadlines.insert((waiting.deadline, ticket));
        self.waiting.insert(ticket, waiting);
        self.line_up(key, ticket);
        ticket
    }

    fn line_up(&mut self, key: LaneKey, ticket: Ticket) {
        let lane = self.lanes.entry(key).or_insert_with(|| Lane {
            route: Route::Nowhere,
            under_way: 0,
            queue: BTreeSet::new(),
            written: Ticket(0),
        });
        lane.queue.insert(ticket);
        *self.queued.entry(key.root).or_default() += 1;
    }

    /// The ticket leaves the queue and is under way.
    pub(crate) fn depart(&mut self, ticket: Ticket, route: Route, place: Where) {
        let Some(waiting) = self.waiting.get_mut(&ticket) else { return };
        waiting.place = place;
        let key = waiting.lane;
        if let Some(lane) = self.lanes.get_mut(&key)
            && lane.queue.remove(&ticket)
        {
            lane.route = route;
            lane.under_way += 1;
            self.count_down(key.root);
        }
    }

    /// Back to its old place in the queue.
    pub(crate) fn go_back(&mut self, ticket: Ticket, tainted: bool) -> Option<LaneKey> {
        let waiting = self.waiting.get_mut(&ticket)?;
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

    /// It is answered: no trace of it stays.
    pub(crate) fn finish(&mut self, ticket: Ticket) -> Option<Waiting> {
        let waiting = self.waiting.remove(&ticket)?;
        self.deadlines.remove(&(waiting.deadline, ticket));
        let key = waiting.lane;
        if let Some(lane) = self.lanes.get_mut(&key) {
            if lane.queue.remove(&ticket) {
                self.count_down(key.root);
            } else {
                lane.under_way -= 1;
                if matches!(waiting.request.ask, Ask::Write { .. }) {
                    lane.written = lane.written.max(ticket);
                }
            }
        }
        if self.lanes.get(&key).is_some_and(|lane| lane.under_way == 0 && lane.queue.is_empty()) {
            self.lanes.remove(&key);
        }
        Some(waiting)
    }

    fn count_down(&mut self, root: u16) {
        if let Some(count) = self.queued.get_mut(&root) {
            *count -= 1;
            if *count == 0 {
                self.queued.remove(&root);
            }
        }
    }

    /// Lanes of this part of the key space that have something waiting.
    pub(crate) fn waiting_lanes(&self, root: u16) -> Vec<LaneKey> {
        let first = LaneKey { root, origin: NodeId(0), shard: 0, connection: 0 };
        let lanes = self.lanes.range(first..).take_while(|(key, _)| key.root == root);
        lanes.filter(|(_, lane)| !lane.queue.is_empty()).map(|(key, _)| *key).collect()
    }

    pub(crate) fn roots_waiting(&self) -> Vec<u16> {
        self.queued.keys().copied().collect()
    }

    pub(crate) fn next_deadline(&self) -> Time {
        self.deadlines.first().map_or(Time::NEVER, |&(time, _)| time)
    }

    pub(crate) fn overdue(&self, now: Time) -> Option<Ticket> {
        self.deadlines.first().filter(|&&(time, _)| time <= now).map(|&(_, ticket)| ticket)
    }

    pub(crate) fn check(&self) {
        let queued: usize = self.lanes.values().map(|lane| lane.queue.len()).sum();
        let under_way: usize = self.lanes.values().map(|lane| lane.under_way).sum();
        assert_eq!(queued + under_way, self.waiting.len(), "whatever waits is in a lane, once");
        assert_eq!(queued, self.queued.values().sum::<usize>(), "the backlog is counted");
        assert_eq!(self.deadlines.len(), self.waiting.len(), "whatever waits has a deadline");
    }
}
