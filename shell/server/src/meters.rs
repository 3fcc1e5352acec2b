//! What a node counts about itself. Whoever works counts, plainly and on its own; whoever looks adds up.
//!
//! | Who counts | Where |
//! |---|---|
//! | a shard's thread, nobody else | `ShardMeters`, one for each |
//! | the thread of the cluster machine | `ClusterMeters` |
//! | whoever reads and writes sockets | `Traffic` |
//!
//! Not here: how long requests take (`latency.rs`), what was turned away (`refused.rs`), how it is shown
//! (`http/metrics`).

use crate::latency::{Histogram, Kind, Protocol};
use atoll_node::shard::door::{Answer, Reason};
use atoll_types::{Body, Cause, Edict, Entry, Step};
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread writes and any may read: no thread waits for another.
#[derive(Debug, Default)]
pub(crate) struct Meter(AtomicU64);

impl Meter {
    /// Only for the one thread that writes.
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// For where several threads write.
    pub(crate) fn add_shared(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters by name, in an order that does not change.
#[derive(Debug)]
pub(crate) struct Named<const N: usize> {
    pub(crate) names: [&'static str; N],
    counts: [Meter; N],
}

impl<const N: usize> Named<N> {
    fn new(names: [&'static str; N]) -> Named<N> {
        Named { names, counts: std::array::from_fn(|_| Meter::default()) }
    }

    fn of(&self, name: &str) -> &Meter {
        let place = self.names.iter().position(|known| *known == name);
        &self.counts[place.expect("a name of the list")]
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.names.iter().copied().zip(self.counts.iter().map(Meter::get))
    }
}

/// What became of a request, as it stands in metrics.
pub(crate) const RESULTS: [&str; 14] = [
    "done",
    "unknown",
    "busy",
    "paused",
    "lost",
    "no_table",
    "too_many_hops",
    "out_of_memory",
    "session_expired",
    "below_floor",
    "beyond_window",
    "bad_session",
    "too_stale",
    "too_large",
];

fn result(answer: &Answer) -> usize {
    match answer {
        Answer::Done { .. } => 0,
        Answer::Unknown => 1,
        Answer::NotApplied(reason) => match reason {
            Reason::Busy => 2,
            Reason::Paused => 3,
            Reason::Lost => 4,
            Reason::NoTable => 5,
            Reason::TooManyHops => 6,
            Reason::OutOfMemory => 7,
            Reason::SessionExpired => 8,
            Reason::BelowFloor => 9,
            Reason::BeyondWindow => 10,
            Reason::BadSession => 11,
            Reason::TooStale => 12,
            Reason::TooLarge => 13,
        },
    }
}

/// Of one shard's thread.
#[derive(Debug, Default)]
pub(crate) struct ShardMeters {
    results: [[[Meter; RESULTS.len()]; Kind::ALL.len()]; Protocol::ALL.len()],
    /// How long the oldest of what was taken from the inbox had waited there.
    pub(crate) queue: Histogram,
    /// From passing requests on to the first answers, of one hop in `HOPS_PER_SAMPLE`.
    pub(crate) hop: Histogram,
    /// From writing an entry to its commit, of the last one of each round.
    pub(crate) replicate: Histogram,
    /// What the core takes to work off what was taken from the inbox: writes, applies, answers.
    pub(crate) apply: Histogram,
    /// Requests that wait for a bucket, and those turned away because too many did.
    pub(crate) backlog: Meter,
    pub(crate) backlog_full: Meter,
    pub(crate) sent: Pieces,
    pub(crate) received: Pieces,
    /// Bytes to peers.
    pub(crate) to_peers: Meter,
}

/// Of snapshots of buckets.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Whole ones, counted by their last piece.
    pub(crate) snapshots: Meter,
    pub(crate) bytes: Meter,
}

impl ShardMeters {
    pub(crate) fn count(&self, protocol: Protocol, kind: Kind, answer: &Answer) {
        self.results[protocol as usize][kind as usize][result(answer)].add(1);
    }

    pub(crate) fn so_far(&self, protocol: Protocol, kind: Kind, result: usize) -> u64 {
        self.results[protocol as usize][kind as usize][result].get()
    }
}

/// Bytes of sockets. Written by many threads.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) from_peers: Meter,
    from_clients: [Meter; Protocol::ALL.len()],
    to_clients: [Meter; Protocol::ALL.len()],
}

impl Traffic {
    pub(crate) fn from(&self, protocol: Protocol) -> &Meter {
        &self.from_clients[protocol as usize]
    }

    pub(crate) fn to(&self, protocol: Protocol) -> &Meter {
        &self.to_clients[protocol as usize]
    }
}

/// What this node has seen decided since it was started.
#[derive(Debug)]
pub(crate) struct ClusterMeters {
    pub(crate) changes: Named<7>,
    pub(crate) moves: Named<7>,
    pub(crate) to_peers: Meter,
}

impl Default for ClusterMeters {
    fn default() -> Self {
        let changes = ["arrived", "absent", "present", "restarted", "departed", "elected", "recovered"];
        let moves = ["place", "expand", "unite", "abandon", "abdicate", "contract", "split"];
        ClusterMeters { changes: Named::new(changes), moves: Named::new(moves), to_peers: Meter::default() }
    }
}

impl ClusterMeters {
    pub(crate) fn count(&self, entry: &Entry) {
        match &entry.body {
            Body::Government(government) => match government.cause {
                Cause::Founded { .. } | Cause::Arrived(_) => self.changes.of("arrived").add(1),
                Cause::Elected => self.changes.of("elected").add(1),
                Cause::Departed { .. } => self.changes.of("departed").add(1),
                Cause::Recovered { .. } => self.changes.of("recovered").add(1),
                Cause::Seated | Cause::Rearranged => {}
            },
            Body::Edict(edict) => match edict {
                Edict::Absent { .. } => self.changes.of("absent").add(1),
                Edict::Present { .. } => self.changes.of("present").add(1),
                Edict::Restarted { .. } => self.changes.of("restarted").add(1),
                Edict::Level(_) | Edict::Skewed { .. } => {}
            },
            Body::Order(order) => order.steps.iter().for_each(|step| self.moves.of(name(step)).add(1)),
            Body::Noop | Body::Submission(_) => {}
        }
    }
}

fn name(step: &Step) -> &'static str {
    match step {
        Step::Place { .. } => "place",
        Step::Expand { .. } => "expand",
        Step::Unite { .. } => "unite",
        Step::Abandon { .. } => "abandon",
        Step::Abdicate { .. } => "abdicate",
        Step::Contract { .. } => "contract",
        Step::Split { .. } => "split",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{NodeId, Order, Slot, Time};

    #[test]
    fn answers_are_counted_by_what_they_say() {
        let meters = ShardMeters::default();
        meters.count(Protocol::Resp, Kind::Write, &Answer::NotApplied(Reason::Paused));
        meters.count(Protocol::Resp, Kind::Write, &Answer::Unknown);
        let named = |name| RESULTS.iter().position(|known| *known == name).expect("a result");
        assert_eq!(meters.so_far(Protocol::Resp, Kind::Write, named("paused")), 1);
        assert_eq!(meters.so_far(Protocol::Resp, Kind::Write, named("unknown")), 1);
        assert_eq!(meters.so_far(Protocol::Resp, Kind::Read, named("paused")), 0);
    }

    #[test]
    fn steps_of_orders_are_counted_by_kind() {
        let steps = vec![Step::Split { bucket: atoll_types::BucketId(0), epoch: atoll_types::Epoch::default() }; 3];
        let body = Body::Order(Order { number: 1, removal: Slot(0), steps });
        let meters = ClusterMeters::default();
        meters.count(&Entry { time: Time::ZERO, leader: NodeId(1), body });
        let counted: Vec<_> = meters.moves.all().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [("split", 3)]);
    }
}
