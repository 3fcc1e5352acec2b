//! `atoll bench`: load, and what it was answered with, second by second.
//!
//! Each connection goes to one node and takes keys that this node is primary of, as a client that knows the table does;
//! with `--hop` any key, so that most requests are passed on.

mod connection;

use crate::Outcome;
use crate::remote::Server;
use anyhow::bail;
use atoll_server::status::{BucketStatus, Status};
use atoll_types::HashSlot;
use connection::Work;
use hdrhistogram::Histogram;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;
use tokio::time::sleep_until;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Connections, spread over the nodes
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Requests under way on each connection
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pipeline: u16,
    /// Bytes of a value
    #[arg(long, default_value_t = 100)]
    value_size: usize,
    /// Of all requests, the part that reads: from 0 to 1
    #[arg(long, default_value_t = 0.0)]
    read_ratio: f64,
    /// How long, after the warm-up
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Seconds that do not count
    #[arg(long, default_value_t = 1)]
    warm_up: u64,
    /// Different keys
    #[arg(long, default_value_t = 100_000)]
    keys: u32,
    /// Any key through any node
    #[arg(long)]
    hop: bool,
    /// One line of JSON at the end, for programs
    #[arg(long)]
    json: bool,
}

/// What was measured since it was last looked at.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) latency: Histogram<u64>,
    pub(crate) errors: u64,
    /// What the last error was.
    pub(crate) error: String,
    /// When something was last answered well.
    pub(crate) answered: Instant,
    /// The longest time in which nothing was.
    pub(crate) gap: Duration,
}

impl Tally {
    fn new() -> Tally {
        let latency = Histogram::new_with_bounds(1, 60_000_000, 3).expect("fixed bounds");
        Tally { latency, errors: 0, error: String::new(), answered: Instant::now(), gap: Duration::ZERO }
    }

    pub(crate) fn answered(&mut self, now: Instant, took: Duration) {
        self.latency.saturating_record(took.as_micros() as u64);
        self.gap = self.gap.max(now - self.answered);
        self.answered = now;
    }

    pub(crate) fn failed(&mut self, error: &str) {
        self.errors += 1;
        if self.error != error {
            error.clone_into(&mut self.error);
        }
    }

    /// Starts afresh and gives what was there.
    fn take(&mut self) -> Tally {
        let answered = self.answered;
        let mut taken = std::mem::replace(self, Tally::new());
        self.answered = answered;
        taken.gap = taken.gap.max(answered.elapsed());
        taken
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if !(0.0..=1.0).contains(&arguments.read_ratio) {
        bail!("--read-ratio {}: from 0 to 1", arguments.read_ratio);
    }
    let work = plan(arguments)?;
    let tally = Rc::new(RefCell::new(Tally::new()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let total = LocalSet::new().block_on(&runtime, async {
        let stop = Instant::now() + Duration::from_secs(arguments.warm_up + arguments.seconds);
        for (number, work) in work.into_iter().enumerate() {
            tokio::task::spawn_local(work.run(number as u64, tally.clone(), stop));
        }
        watch(arguments, &tally).await
    });
    report(arguments, &total)
}

/// Which keys go where.
fn plan(arguments: &Arguments) -> anyhow::Result<Vec<Work>> {
    let status: Status = arguments.server.get("/v1/cluster")?;
    let buckets: Vec<BucketStatus> = arguments.server.get("/v1/cluster/buckets")?;
    let present: Vec<_> = status.nodes.iter().filter(|node| node.state == "present" && !node.resp.is_empty()).collect();
    if present.is_empty() {
        bail!("no node is present: `atoll status` says why");
    }
    let primary = |key: &str| {
        let slot = HashSlot::of(key.as_bytes()).0;
        let bucket = buckets.iter().find(|bucket| (bucket.slots[0]..=bucket.slots[1]).contains(&slot))?;
        present.iter().position(|node| Some(&node.name) == bucket.primary.as_ref())
    };
    let mut keys: Vec<Vec<String>> = vec![Vec::new(); present.len()];
    for number in 0..arguments.keys.max(1) {
        let key = format!("bench:{number:08}");
        if arguments.hop {
            keys.iter_mut().for_each(|keys| keys.push(key.clone()));
        } else if let Some(node) = primary(&key) {
            keys[node].push(key);
        }
    }
    let keys: Vec<Rc<Vec<String>>> = keys.into_iter().map(Rc::new).collect();
    let all = || present.iter().map(|node| node.resp.clone()).collect::<Vec<_>>();
    let work = (0..usize::from(arguments.connections)).filter_map(|number| {
        let node = number % present.len();
        let keys = keys[node].clone();
        (!keys.is_empty()).then(|| Work {
            address: present[node].resp.clone(),
            others: all(),
            keys,
            pipeline: usize::from(arguments.pipeline),
            value: vec![b'x'; arguments.value_size],
            read_ratio: arguments.read_ratio,
        })
    });
    Ok(work.collect())
}

/// A line a second; what came after the warm-up, in all, at the end.
async fn watch(arguments: &Arguments, tally: &Rc<RefCell<Tally>>) -> Tally {
    let mut total = Tally::new();
    let begun = Instant::now();
    for second in 1..=arguments.warm_up + arguments.seconds {
        sleep_until((begun + Duration::from_secs(second)).into()).await;
        let taken = tally.borrow_mut().take();
        let warming = second <= arguments.warm_up;
        if !arguments.json {
            let latency = &taken.latency;
            let (p50, p99) = (latency.value_at_quantile(0.5), latency.value_at_quantile(0.99));
            let note = if warming { "  (warming up)" } else { "" };
            let errors =
                if taken.errors > 0 { format!("  {} errors: {}", taken.errors, taken.error) } else { String::new() };
            println!("{second:>4} s  {:>9}/s  p50 {p50:>6} µs  p99 {p99:>6} µs{errors}{note}", latency.len());
        }
        if !warming {
            let _ = total.latency.add(&taken.latency);
            total.errors += taken.errors;
            total.gap = total.gap.max(taken.gap);
            total.error = if taken.error.is_empty() { total.error } else { taken.error };
        }
    }
    total
}

fn report(arguments: &Arguments, total: &Tally) -> anyhow::Result<Outcome> {
    let latency = &total.latency;
    let rate = latency.len() as f64 / arguments.seconds.max(1) as f64;
    let at = |quantile| latency.value_at_quantile(quantile);
    if arguments.json {
        let line = serde_json::json!({
            "connections": arguments.connections, "pipeline": arguments.pipeline, "value_size": arguments.value_size,
            "read_ratio": arguments.read_ratio, "seconds": arguments.seconds, "operations": latency.len(),
            "per_second": rate, "errors": total.errors, "longest_gap_ms": total.gap.as_millis() as u64,
            "us": { "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999), "max": latency.max() },
        });
        println!("{line}");
    } else {
        println!("\n{} operations in {} s: {rate:.0}/s, {} errors", latency.len(), arguments.seconds, total.errors);
        println!(
            "p50 {} µs  p90 {} µs  p99 {} µs  p99.9 {} µs  max {} µs",
            at(0.5),
            at(0.9),
            at(0.99),
            at(0.999),
            latency.max()
        );
        println!("longest time without an answer: {:.1} ms", total.gap.as_secs_f64() * 1000.0);
    }
    Ok(if latency.is_empty() { Outcome::Failed } else { Outcome::Done })
}
