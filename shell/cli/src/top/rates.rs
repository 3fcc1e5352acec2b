//! What happened between two looks, per second.

use super::gather::{Counts, Look};
use atoll_server::status::{BucketStatus, NodeStatus, Status};
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

/// Everything that a screen shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Shown {
    pub(super) status: Status,
    pub(super) nodes: Vec<NodeRow>,
    pub(super) buckets: Vec<BucketRow>,
    pub(super) total: Load,
    /// Why the numbers are old, if they are.
    pub(super) trouble: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeRow {
    pub(super) node: NodeStatus,
    /// None where the node did not answer, or only once.
    pub(super) load: Option<Load>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct BucketRow {
    pub(super) bucket: BucketStatus,
    pub(super) writes: f64,
}

/// Per second, where it is a rate.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Load {
    pub(super) reads: f64,
    pub(super) writes: f64,
    pub(super) failed: f64,
    /// In seconds; None where there was nothing.
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) backlog: f64,
    pub(super) clients: f64,
    pub(super) bytes: f64,
}

/// Looks again and again, until nobody wants to see it.
pub(super) fn follow(
    first: Look,
    every: Duration,
    mut gather: impl FnMut() -> anyhow::Result<Look>,
    mut tell: impl FnMut(Shown) -> bool,
) {
    let mut before = first;
    let mut shown = between(&before, &before);
    loop {
        if !tell(shown.clone()) {
            return;
        }
        sleep(every);
        match gather() {
            Ok(now) => {
                shown = between(&before, &now);
                before = now;
            }
            Err(error) => shown.trouble = Some(format!("{error:#}")),
        }
    }
}

pub(super) fn between(before: &Look, now: &Look) -> Shown {
    let seconds = now.at.saturating_duration_since(before.at).as_secs_f64();
    let mut spread = Spread::default();
    let mut total = Load::default();
    let mut nodes = Vec::new();
    for node in now.status.nodes.iter().filter(|node| node.state != "departed") {
        let counts = before.counts.get(&node.name).zip(now.counts.get(&node.name));
        let load = counts.filter(|_| seconds > 0.0).map(|(before, now)| {
            let own = Spread::between(before, now);
            let load = load(before, now, seconds, &own);
            spread.add(&own);
            total.add(&load);
            load
        });
        nodes.push(NodeRow { node: node.clone(), load });
    }
    (total.p50, total.p99) = (spread.quantile(0.5), spread.quantile(0.99));
    let offsets: BTreeMap<u16, u64> =
        before.buckets.iter().filter_map(|bucket| Some((bucket.bucket, bucket.offset?))).collect();
    let row = |bucket: &BucketStatus| {
        let more = offsets.get(&bucket.bucket).zip(bucket.offset).map_or(0, |(old, new)| new.saturating_sub(*old));
        BucketRow { bucket: bucket.clone(), writes: if seconds > 0.0 { more as f64 / seconds } else { 0.0 } }
    };
    let buckets = now.buckets.iter().map(row).collect();
    Shown { status: now.status.clone(), nodes, buckets, total, trouble: now.instead.clone() }
}

fn load(before: &Counts, now: &Counts, seconds: f64, spread: &Spread) -> Load {
    // A node that was started again counts from zero.
    let rate =
        |metric: &str, labels: &[&str]| (now.sum(metric, labels) - before.sum(metric, labels)).max(0.0) / seconds;
    let requests = |kind: &str| rate("atoll_requests_total", &[kind]);
    let (reads, writes) = (requests("kind=\"read\""), requests("kind=\"write\""));
    Load {
        reads,
        writes,
        failed: (reads + writes - requests("result=\"done\"")).max(0.0),
        p50: spread.quantile(0.5),
        p99: spread.quantile(0.99),
        backlog: now.sum("atoll_backlog", &[]),
        clients: now.sum("atoll_clients", &[]),
        bytes: now.sum("atoll_copies_bytes", &[]),
    }
}

impl Load {
    fn add(&mut self, other: &Load) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.failed += other.failed;
        self.backlog += other.backlog;
        self.clients += other.clients;
        self.bytes += other.bytes;
    }
}

/// How many requests took how long: up to each bound, in microseconds, as they are written in metrics.
#[derive(Clone, Debug, Default, PartialEq)]
struct Spread(BTreeMap<u64, f64>);

const ENDLESS: u64 = u64::MAX;

impl Spread {
    fn of(counts: &Counts) -> Spread {
        let mut spread = Spread::default();
        for (series, count) in counts.of("atoll_request_seconds_bucket") {
            let bound = series.split_once("le=\"").and_then(|(_, rest)| rest.split('"').next()).unwrap_or("+Inf");
            let bound = bound
                .parse::<f64>()
                .map_or(ENDLESS, |seconds| if seconds.is_finite() { (seconds * 1e6).round() as u64 } else { ENDLESS });
            *spread.0.entry(bound).or_default() += count;
        }
        spread
    }

    fn between(before: &Counts, now: &Counts) -> Spread {
        let (before, mut now) = (Spread::of(before), Spread::of(now));
        now.0.iter_mut().for_each(|(bound, count)| *count -= before.0.get(bound).unwrap_or(&0.0));
        now
    }

    fn add(&mut self, other: &Spread) {
        other.0.iter().for_each(|(&bound, count)| *self.0.entry(bound).or_default() += count);
    }

    /// In seconds, as if those between two bounds were spread evenly.
    fn quantile(&self, part: f64) -> Option<f64> {
        let all = self.0.get(&ENDLESS).copied().filter(|all| *all > 0.0)?;
        let (mut low, mut below) = (0, 0.0);
        for (&bound, &up_to) in &self.0 {
            if up_to >= all * part {
                let within = if up_to > below { (all * part - below) / (up_to - below) } else { 1.0 };
                let high = if bound == ENDLESS { low } else { bound };
                return Some((low as f64 + (high - low) as f64 * within) / 1e6);
            }
            (low, below) = (bound, up_to);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn look(at: Instant, metrics: &str, offset: u64) -> Look {
        let named = |name: &str| NodeStatus {
            name: name.to_owned(),
            id: 1,
            state: "present".to_owned(),
            peer: String::new(),
            http: String::new(),
            resp: String::new(),
            zone: String::new(),
            primaries: 1,
            copies: 1,
        };
        let bucket = BucketStatus {
            bucket: 0,
            slots: [0, 16_383],
            epoch: "1".to_owned(),
            primary: Some("n1".to_owned()),
            home: None,
            members: Vec::new(),
            catching_up: Vec::new(),
            state: "serving".to_owned(),
            keys: None,
            offset: Some(offset),
        };
        let status = Status { nodes: vec![named("n1"), named("silent")], ..Status::default() };
        let counts = BTreeMap::from([("n1".to_owned(), Counts::read(metrics))]);
        Look { at, status, buckets: vec![bucket], counts, instead: None }
    }

    #[test]
    fn rates_are_what_changed_per_second() {
        let begun = Instant::now();
        let before = look(begun, "atoll_requests_total{kind=\"write\",result=\"done\"} 10\n", 100);
        let metrics = "atoll_requests_total{kind=\"write\",result=\"done\"} 30\n\
                       atoll_requests_total{kind=\"write\",result=\"busy\"} 4\n\
                       atoll_request_seconds_bucket{le=\"0.001\"} 50\n\
                       atoll_request_seconds_bucket{le=\"0.002\"} 100\n\
                       atoll_request_seconds_bucket{le=\"+Inf\"} 100\n";
        let shown = between(&before, &look(begun + Duration::from_secs(2), metrics, 120));
        let load = shown.nodes[0].load.clone().expect("it answered twice");
        assert_eq!((load.writes, load.failed, load.reads), (12.0, 2.0, 0.0));
        assert_eq!((load.p50, load.p99), (Some(0.001), Some(0.00198)));
        assert_eq!((shown.total.writes, shown.total.p50), (12.0, Some(0.001)));
        assert_eq!(shown.buckets[0].writes, 10.0);
        assert_eq!(shown.nodes[1].load, None);
    }

    #[test]
    fn the_first_look_has_no_rates() {
        let look = look(Instant::now(), "", 5);
        let shown = between(&look, &look);
        assert_eq!((shown.nodes[0].load.as_ref(), shown.buckets[0].writes), (None, 0.0));
    }
}
