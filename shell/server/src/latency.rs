//! How long requests take, counted by the shard that carries them out: from when it takes a request to its answer, with
//! hops and rounds to other members. Each shard's thread has counters of its own; whoever looks adds them up.
//!
//! Not counted: reads that wait for a position on purpose.

use crate::meters::Meter;
use atoll_node::shard::door::Ask;
use std::time::Duration;

/// Whom a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http,
    Resp,
    Native,
}

impl Protocol {
    pub(crate) const ALL: [Protocol; 3] = [Protocol::Http, Protocol::Resp, Protocol::Native];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Resp => "resp",
            Protocol::Native => "native",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::Read, Kind::Write];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
        }
    }

    /// None of what may wait on purpose.
    pub(crate) fn of(ask: &Ask) -> Option<Kind> {
        match ask {
            Ask::Write { .. } => Some(Kind::Write),
            Ask::Read { .. } | Ask::Stale { after: None, .. } => Some(Kind::Read),
            Ask::Stale { after: Some(_), .. } => None,
        }
    }
}

/// Upper bounds in microseconds; what took longer is counted behind the last.
pub(crate) const BOUNDS: [u64; 14] =
    [25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 1_000_000, 5_000_000];

/// Of requests of one protocol and kind, or of one stage. One thread counts, any may look.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    counts: [Meter; BOUNDS.len() + 1],
    micros: Meter,
}

impl Histogram {
    pub(crate) fn count(&self, took: Duration) {
        let micros = took.as_micros() as u64;
        let place = BOUNDS.partition_point(|bound| *bound < micros);
        self.counts[place].add(1);
        self.micros.add(micros);
    }
}

/// Of one thread.
#[derive(Debug, Default)]
pub(crate) struct Latencies([[Histogram; Kind::ALL.len()]; Protocol::ALL.len()]);

impl Latencies {
    pub(crate) fn of(&self, protocol: Protocol, kind: Kind) -> &Histogram {
        &self.0[protocol as usize][kind as usize]
    }
}

/// Several histograms together, as of now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Up to each bound, and in all.
    pub(crate) up_to: [u64; BOUNDS.len() + 1],
    pub(crate) micros: u64,
}

impl Sum {
    pub(crate) fn of<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Sum {
        let mut sum = Sum::default();
        for histogram in histograms {
            let mut so_far = 0;
            for (up_to, count) in sum.up_to.iter_mut().zip(&histogram.counts) {
                so_far += count.get();
                *up_to += so_far;
            }
            sum.micros += histogram.micros.get();
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_counted_is_added_up_to_each_bound() {
        let (one, other) = (Latencies::default(), Latencies::default());
        for micros in [0, 250, 251, 5_000_000] {
            one.of(Protocol::Resp, Kind::Write).count(Duration::from_micros(micros));
        }
        other.of(Protocol::Resp, Kind::Write).count(Duration::from_secs(60));
        other.of(Protocol::Resp, Kind::Read).count(Duration::from_secs(60));
        let sum = Sum::of([&one, &other].into_iter().map(|own| own.of(Protocol::Resp, Kind::Write)));
        assert_eq!(sum.up_to, [1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 5]);
        assert_eq!(sum.micros, 65_000_501);
    }
}
