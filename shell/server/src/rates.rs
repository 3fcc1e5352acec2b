//! How much was done in each of the last seconds, and how long it took: of one node, and of several together.
//!
//! Counts are kept by bound of time, so that those of several nodes can be added up; the figures that people read are
//! worked out of the sums.
//!
//! Not here: who asks whom (`http/rates.rs`), where it is counted (`latency`).

use crate::latency::{BOUNDS, Kind, Protocol, Sum};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Seconds kept.
pub(crate) const KEPT_MOST: usize = 300;

/// What was done in one second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Second {
    /// Since 1970, at its end.
    pub(crate) second: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    /// How many took up to each bound and longer than the one before; at last, longer than all.
    pub(crate) counts: Vec<u64>,
    pub(crate) clients: usize,
}

/// As people read it. Times in microseconds; None where nothing was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Figures {
    second: u64,
    reads: u64,
    writes: u64,
    p50: Option<u64>,
    p99: Option<u64>,
    clients: usize,
}

impl Second {
    pub(crate) fn figures(&self) -> Figures {
        let Second { second, reads, writes, clients, .. } = *self;
        let (p50, p99) = (quantile(&self.counts, 0.5), quantile(&self.counts, 0.99));
        Figures { second, reads, writes, p50, p99, clients }
    }

    fn add(&mut self, other: &Second) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.clients += other.clients;
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, more)| *own += more);
    }
}

/// Between two bounds, times are taken to be spread evenly. Beyond the last, its own time is told.
fn quantile(counts: &[u64], part: f64) -> Option<u64> {
    let all: u64 = counts.iter().sum();
    let mut left = (all as f64 * part).ceil().max(1.0);
    let mut low = 0;
    for (place, &count) in counts.iter().enumerate() {
        let Some(&high) = BOUNDS.get(place) else { break };
        if count > 0 && left <= count as f64 {
            return Some(low + ((high - low) as f64 * left / count as f64) as u64);
        }
        left -= count as f64;
        low = high;
    }
    (all > 0).then_some(low)
}

/// The last seconds of this node.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    seconds: VecDeque<Second>,
    before: Option<Totals>,
}

#[derive(Clone, Debug)]
struct Totals {
    reads: u64,
    writes: u64,
    up_to: Vec<u64>,
}

impl Totals {
    fn of(latencies: impl Fn(Protocol, Kind) -> Sum) -> Totals {
        let mut totals = Totals { reads: 0, writes: 0, up_to: vec![0; BOUNDS.len() + 1] };
        for protocol in Protocol::ALL {
            for kind in Kind::ALL {
                let sum = latencies(protocol, kind);
                let all = sum.up_to.last().copied().unwrap_or(0);
                match kind {
                    Kind::Read => totals.reads += all,
                    Kind::Write => totals.writes += all,
                }
                totals.up_to.iter_mut().zip(sum.up_to).for_each(|(total, more)| *total += more);
            }
        }
        totals
    }
}

impl Rates {
    /// This second is over.
    pub(crate) fn tick(&mut self, second: u64, clients: usize, latencies: impl Fn(Protocol, Kind) -> Sum) {
        let now = Totals::of(latencies);
        if let Some(before) = self.before.replace(now.clone()) {
            // Threads count while others look: a sum may lag behind its parts.
            let up_to: Vec<u64> =
                now.up_to.iter().zip(&before.up_to).map(|(now, before)| now.saturating_sub(*before)).collect();
            let below = std::iter::once(&0).chain(&up_to);
            let counts = up_to.iter().zip(below).map(|(up_to, below)| up_to.saturating_sub(*below)).collect();
            let (reads, writes) = (now.reads.saturating_sub(before.reads), now.writes.saturating_sub(before.writes));
            self.seconds.push_back(Second { second, reads, writes, counts, clients });
        }
        if self.seconds.len() > KEPT_MOST {
            self.seconds.pop_front();
        }
    }

    /// The last so many.
    pub(crate) fn last(&self, most: usize) -> Vec<Second> {
        self.seconds.range(self.seconds.len().saturating_sub(most)..).cloned().collect()
    }
}

/// Second by second, of those that every one of the nodes has told; `most` is how many at most.
pub(crate) fn together(nodes: &BTreeMap<String, Vec<Second>>, most: usize) -> Vec<Second> {
    let newest = nodes.values().filter_map(|seconds| seconds.last()).map(|last| last.second).min().unwrap_or(0);
    let mut sums: BTreeMap<u64, Second> = BTreeMap::new();
    for second in nodes.values().flatten().filter(|second| second.second <= newest) {
        let sum = sums.entry(second.second).or_insert_with(|| Second { second: second.second, ..Second::default() });
        sum.add(second);
    }
    let skipped = sums.len().saturating_sub(most);
    sums.into_values().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u64, counts: &[u64]) -> Second {
        let writes = counts.iter().sum();
        Second { second, writes, counts: counts.to_vec(), ..Second::default() }
    }

    #[test]
    fn quantiles_lie_between_their_bounds() {
        assert_eq!(quantile(&[0; 12], 0.5), None);
        assert_eq!(quantile(&[], 0.5), None);
        let mut counts = [0; BOUNDS.len() + 1];
        counts[1] = 100;
        let (low, high) = (BOUNDS[0], BOUNDS[1]);
        assert_eq!(quantile(&counts, 0.5), Some(low + (high - low) / 2));
        assert!(quantile(&counts, 0.99).is_some_and(|micros| micros > low && micros <= high));
        let mut counts = [0; BOUNDS.len() + 1];
        counts[BOUNDS.len()] = 1;
        assert_eq!(quantile(&counts, 0.5), BOUNDS.last().copied());
    }

    #[test]
    fn a_second_is_what_came_since_the_one_before() {
        let mut rates = Rates::default();
        let mut sum = Sum::default();
        for (second, more) in [(1, 5), (2, 7), (3, 0)] {
            sum.up_to.iter_mut().for_each(|up_to| *up_to += more);
            let sum = sum.clone();
            rates.tick(second, 1, move |protocol, kind| match (protocol, kind) {
                (Protocol::Resp, Kind::Write) => sum.clone(),
                _ => Sum::default(),
            });
        }
        let told: Vec<(u64, u64, u64)> = rates.last(9).iter().map(|of| (of.second, of.writes, of.counts[0])).collect();
        assert_eq!(told, [(2, 7, 7), (3, 0, 0)]);
        (4..2 * KEPT_MOST as u64).for_each(|second| rates.tick(second, 1, |_, _| Sum::default()));
        assert_eq!(rates.last(usize::MAX).len(), KEPT_MOST);
    }

    #[test]
    fn several_nodes_are_added_up_as_far_as_all_have_told() {
        let nodes = BTreeMap::from([
            ("a".to_owned(), vec![second(1, &[1, 0]), second(2, &[1, 0])]),
            ("b".to_owned(), vec![second(1, &[0, 3])]),
        ]);
        let sums = together(&nodes, 10);
        assert_eq!(sums, [second(1, &[1, 3])]);
        assert_eq!(together(&BTreeMap::new(), 10), []);
    }
}
