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
//! Not here: what a lane's next request is given to (`routing.rs`), hops (`hops.rs`), tickets (`tickets.rs`),
//! how a lane is found (`lane_map.rs`).

use super::door::{Ask, Request, RequestId};
use super::lane_map::LaneMap;
use super::tickets::Tickets;
use atoll_replica::Ticket;
use atoll_types::{NodeId, Time};
use std::collections::{BTreeSet, VecDeque};

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

    /// Of no lane.
    pub(crate) const NONE: LaneKey = LaneKey(u128::MAX);

    pub(crate) fn root(self) -> u16 {
        (self.0 >> 112) as u16
    }

    /// Connections are counted and roots are few: both halves are spread over all bits.
    pub(crate) fn hash(self) -> u64 {
        let (place, connection) = ((self.0 >> 64) as u64, self.0 as u64);
        let mixed = (connection ^ place.rotate_left(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
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
    /// Writes in it, queued or under way.
    pub(crate) writes: usize,
    /// The latest write that was sent on and answered: a read before it must not be asked again.
    pub(crate) written: Ticket,
    /// Its own, in the map.
    pub(crate) place: u32,
}

impl Lane {
    pub(crate) fn new() -> Lane {
        Lane { route: Route::Nowhere, under_way: 0, queue: VecDeque::new(), writes: 0, written: Ticket(0), place: 0 }
    }

    /// Nothing is in it. What it remembers counts for nothing then: every later ticket is above it.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way == 0 && self.queue.is_empty()
    }

    /// Can the next request go this way at once? What went another way comes back first, and must not be overtaken.
    pub(crate) fn is_open(&self, route: Route) -> bool {
        self.queue.is_empty() && (self.under_way == 0 || self.route == route)
    }

    /// Whether nothing was queued before.
    fn line_up(&mut self, ticket: Ticket) -> bool {
        let is_first = self.queue.is_empty();
        let place = if self.queue.back().is_none_or(|last| *last < ticket) {
            self.queue.len()
        } else {
            self.queue.partition_point(|other| *other < ticket)
        };
        self.queue.insert(place, ticket);
        is_first
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
    /// Where its lane is.
    pub(crate) lane_place: u32,
    /// A read that the copy here could not answer: only the primary will do.
    pub(crate) to_primary: bool,
    /// How often it was passed on before it came here.
    pub(crate) hops: u8,
    pub(crate) place: Where,
    /// It was sent on and its fate is not known: it can no longer be said that it was not applied.
    pub(crate) tainted: bool,
    pub(crate) deadline: Time,
}

impl Waiting {
    pub(crate) fn is_write(&self) -> bool {
        matches!(self.request.ask, Ask::Write { .. })
    }
}

/// What is left to be known of one that is answered.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) caller: Caller,
    pub(crate) lane: LaneKey,
    pub(crate) place: Where,
    pub(crate) tainted: bool,
    /// Others of its lane wait for their turn.
    pub(crate) others: bool,
}

/// Everything that waits, by ticket, and the lanes it waits in.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    pub(crate) waiting: Tickets,
    pub(crate) lanes: LaneMap,
    /// The lanes in which something is queued, in order.
    stalled: BTreeSet<LaneKey>,
    /// Queued requests, by root.
    queued: Vec<u32>,
}

impl Lanes {
    pub(crate) fn queued(&self, root: u16) -> usize {
        self.queued.get(usize::from(root)).map_or(0, |count| *count as usize)
    }

    pub(crate) fn enqueue(&mut self, waiting: Waiting) {
        let (key, place, is_write) = (waiting.lane, waiting.lane_place, waiting.is_write());
        let ticket = self.waiting.insert(waiting);
        let is_first = self.lanes.change(place, |lane| {
            lane.writes += usize::from(is_write);
            lane.line_up(ticket)
        });
        self.note_queued(key, is_first);
    }

    /// Takes in one that is under way to the copy here, without any queue.
    pub(crate) fn enter(&mut self, waiting: Waiting) -> Ticket {
        let is_write = waiting.is_write();
        self.lanes.change(waiting.lane_place, |lane| {
            lane.route = Route::Here;
            lane.under_way += 1;
            lane.writes += usize::from(is_write);
        });
        self.waiting.insert(waiting)
    }

    /// One more is queued in this lane, perhaps the first.
    fn note_queued(&mut self, key: LaneKey, is_first: bool) {
        if is_first {
            self.stalled.insert(key);
        }
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
        let (left, others) = self.lanes.change(waiting.lane_place, |lane| {
            let left = lane.leave(ticket);
            if left {
                lane.route = route;
                lane.under_way += 1;
            }
            (left, !lane.queue.is_empty())
        });
        if left {
            self.left(key, others);
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
        let is_first = self.lanes.change(waiting.lane_place, |lane| {
            lane.under_way -= 1;
            lane.line_up(ticket)
        });
        self.note_queued(key, is_first);
        Some(key)
    }

    /// It is answered: no trace of it stays.
    pub(crate) fn finish(&mut self, ticket: Ticket) -> Option<Finished> {
        let finished = self.waiting.remove(ticket, |waiting| {
            let is_write = waiting.is_write();
            let Waiting { caller, lane, lane_place, place, tainted, .. } = *waiting;
            (Finished { caller, lane, place, tainted, others: false }, lane_place, is_write)
        });
        let (mut finished, place, is_write) = finished?;
        let was_queued = self.lanes.change(place, |lane| {
            lane.writes -= usize::from(is_write);
            let was_queued = finished.place == Where::Queued && lane.leave(ticket);
            if !was_queued {
                lane.under_way -= 1;
                if is_write {
                    lane.written = lane.written.max(ticket);
                }
            }
            finished.others = !lane.queue.is_empty();
            was_queued
        });
        self.lanes.tidy();
        if was_queued {
            self.left(finished.lane, finished.others);
        }
        Some(finished)
    }

    /// One less is queued in this lane.
    fn left(&mut self, key: LaneKey, others: bool) {
        if !others {
            self.stalled.remove(&key);
        }
        if let Some(count) = self.queued.get_mut(usize::from(key.root())) {
            *count -= 1;
        }
    }

    /// Lanes of this part of the key space that have something waiting.
    pub(crate) fn waiting_lanes(&self, root: u16) -> Vec<LaneKey> {
        let first = LaneKey::new(root, NodeId(0), 0, 0);
        self.stalled.range(first..).take_while(|key| key.root() == root).copied().collect()
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
        self.lanes.check();
        let lanes = || self.lanes.each().map(|(_, lane)| lane);
        let queued: usize = lanes().map(|lane| lane.queue.len()).sum();
        let under_way: usize = lanes().map(|lane| lane.under_way).sum();
        assert_eq!(queued + under_way, self.waiting.len(), "whatever waits is in a lane, once");
        assert_eq!(queued, self.queued.iter().map(|count| *count as usize).sum(), "the backlog is counted");
        assert!(lanes().all(|lane| lane.queue.iter().is_sorted()), "lanes keep the order of tickets");
        let writes: usize = lanes().map(|lane| lane.writes).sum();
        assert_eq!(writes, self.waiting.iter().filter(|(_, waiting)| waiting.is_write()).count(), "writes are counted");
        let is_noted = |(key, lane): &(LaneKey, Lane)| self.stalled.contains(key) != lane.queue.is_empty();
        assert!(self.lanes.each().all(is_noted), "lanes in which something is queued are noted");
        assert!(self.stalled.len() <= self.lanes.len(), "no lane is noted that is not there");
    }
}
