//! How a node is, by its own word: goes up the relay tree with its reports.
//!
//! ```text
//!   shell ──Pulse: counts──▶ Watch: since when does nothing move? ──▶ Vitals ──report──▶ … ──▶ leader
//! ```
//! The shell only counts; how long nothing has moved is measured here, by the time that comes in with the counts. So a
//! process that stood still as a whole can start afresh, and does not take its own pause for a hung disk.
//!
//! Not here: what the leader concludes (`health.rs`), how clocks are compared (`skew.rs`).

use crate::skew::Ahead;
use atoll_types::{Bug, Time, planted};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What one part of a node has done since the process began, and whether something waits for it now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    pub done: u64,
    pub waiting: bool,
}

/// What the shell tells the cluster machine, at least once a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pulse {
    /// Bytes that buckets take; zero where nobody counts them.
    pub memory: u64,
    pub shards: Vec<Work>,
    pub disk: Work,
}

/// How a node is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vitals {
    /// The node's own clock. Of two vitals of one life the later one counts.
    pub clock: Time,
    /// None before it was compared with the leader's.
    pub ahead: Option<Ahead>,
    /// Bytes that buckets take, and may take; no limit: zero.
    pub memory: u64,
    pub memory_limit: u64,
    /// For how long something has waited for a shard that did nothing; of several the longest.
    pub shard: Duration,
    /// The same of the disk.
    pub disk: Duration,
}

impl Vitals {
    /// For how long a part of the node has not moved although something waits for it.
    pub fn stalled(&self) -> Duration {
        self.shard.max(self.disk)
    }

    /// Above this buckets take nothing that grows.
    pub fn is_nearly_full(&self) -> bool {
        self.memory_limit > 0 && self.memory > self.memory_limit / 10 * 9
    }
}

/// One part, as it was when it was last seen to move.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    done: u64,
    /// Since when something waits and nothing is done.
    still: Option<Time>,
}

impl Part {
    fn look(&mut self, now: Time, work: Work) {
        let moved = work.done != self.done || !(work.waiting || planted(Bug::IdleTakenForStall));
        self.done = work.done;
        self.still = if moved { None } else { self.still.or(Some(now)) };
    }

    fn stalled(&self, now: Time) -> Duration {
        self.still.map_or(Duration::ZERO, |since| now.since(since))
    }
}

/// Sees from the counts of a shell what has not moved, and for how long.
#[derive(Debug, Default)]
pub struct Watch {
    memory: u64,
    shards: Vec<Part>,
    disk: Part,
}

impl Watch {
    pub fn on_pulse(&mut self, now: Time, pulse: &Pulse) {
        self.memory = pulse.memory;
        self.shards.resize(pulse.shards.len(), Part::default());
        for (part, work) in self.shards.iter_mut().zip(&pulse.shards) {
            part.look(now, *work);
        }
        self.disk.look(now, pulse.disk);
    }

    /// The process stood still as a whole: nothing could move.
    pub fn start_afresh(&mut self, now: Time) {
        for part in self.shards.iter_mut().chain([&mut self.disk]) {
            part.still = part.still.map(|_| now);
        }
    }

    pub fn vitals(&self, now: Time, ahead: Option<Ahead>, memory_limit: u64) -> Vitals {
        let shard = self.shards.iter().map(|part| part.stalled(now)).max().unwrap_or_default();
        Vitals { clock: now, ahead, memory: self.memory, memory_limit, shard, disk: self.disk.stalled(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulse(done: u64, waiting: bool) -> Pulse {
        let idle = Work { done: 3, waiting: false };
        Pulse { memory: 7, shards: vec![idle, Work { done, waiting }], disk: idle }
    }

    fn stalled(watch: &Watch, now: u64) -> u64 {
        watch.vitals(Time(now), None, 0).stalled().as_micros() as u64
    }

    #[test]
    fn only_a_part_that_something_waits_for_is_still() {
        let mut watch = Watch::default();
        watch.on_pulse(Time(0), &pulse(1, false));
        watch.on_pulse(Time(500), &pulse(1, false));
        assert_eq!(stalled(&watch, 900), 0, "it is idle");
        watch.on_pulse(Time(1000), &pulse(1, true));
        watch.on_pulse(Time(2000), &pulse(1, true));
        assert_eq!(stalled(&watch, 2500), 1500);
        watch.on_pulse(Time(3000), &pulse(2, true));
        assert_eq!(stalled(&watch, 3000), 0, "one thing was done");
    }

    #[test]
    fn a_pause_of_the_whole_process_is_no_stall_of_a_part() {
        let mut watch = Watch::default();
        watch.on_pulse(Time(0), &pulse(1, false));
        watch.on_pulse(Time(100), &pulse(1, true));
        watch.start_afresh(Time(9000));
        assert_eq!(stalled(&watch, 9100), 100);
    }
}
