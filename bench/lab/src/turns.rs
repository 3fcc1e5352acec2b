//! `atoll-lab turns`: binaries of Atoll, next to Redis with `WAIT 2`, in turn: what did a change bring?
//!
//! Not here: targets and verdicts (`compare`).

use crate::compare::writes::{CASES, Case};
use crate::load::{Load, Report};
use crate::measure::{Effort, rounds};
use crate::packages::Store;
use crate::peers::{Peer, Workshop, atoll};
use crate::servers::Place;
use anyhow::Context;
use std::fs;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Binaries to compare
    #[arg(value_delimiter = ',', default_value = "target/release/atoll")]
    atoll: Vec<PathBuf>,
    /// Only cases whose name begins or ends with one of these, as "linear" or "B, 64 connections"
    #[arg(long)]
    only: Vec<String>,
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    #[arg(long, default_value_t = 64)]
    buckets: u16,
    /// Clients that know the slot map, only
    #[arg(long)]
    aware: bool,
    /// Without Redis
    #[arg(long)]
    alone: bool,
    /// Where Redis is, if it was brought by `fetch`
    #[arg(long, default_value = "target/peers")]
    store: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let is_wanted = |case: &&Case| {
        let name = case.name();
        arguments.only.is_empty()
            || arguments.only.iter().any(|only| name.starts_with(only.as_str()) || name.ends_with(only.as_str()))
    };
    let cases: Vec<Case> = CASES.iter().filter(is_wanted).copied().collect();
    let effort = Effort { seconds: arguments.seconds, rounds: arguments.rounds, rounds_most: arguments.rounds };
    let (mut names, mut loads, mut clusters) = (Vec::new(), Vec::new(), Vec::new());
    for (index, path) in arguments.atoll.iter().enumerate() {
        let atoll = fs::canonicalize(path).with_context(|| format!("no binary at {}", path.display()))?;
        let workshop = Workshop { store: Store::new(&arguments.store), scratch: std::env::temp_dir(), atoll };
        let setup = atoll::Setup { buckets: arguments.buckets, ..atoll::Setup::default() };
        let spread = atoll::start(&workshop, &setup)?;
        names.push(format!("{} aware", path.display()));
        loads.push(Load { targets: spread.aware_targets()?, ..spread.cluster.load() });
        clusters.push(spread.cluster);
        if !arguments.aware {
            let own = atoll::start(&workshop, &setup)?;
            names.push(format!("{} plain", path.display()));
            loads.push(own.settled_load()?);
            clusters.push(own.cluster);
        }
        if index == 0 && !arguments.alone {
            let redis = Peer::Redis.start(&workshop, Place::Memory)?;
            names.push(redis.name.clone());
            loads.push(redis.load());
            clusters.push(redis);
        }
    }
    for case in cases {
        let loads: Vec<Load> = loads.iter().map(|load| case.of(load.clone())).collect();
        let found = rounds(&loads, effort)?;
        println!("{} (others took {:.0}% of the machine)", case.name(), found.others() * 100.0);
        for (load, name) in names.iter().enumerate() {
            let median = |figure: fn(&Report) -> f64| found.median(load, figure);
            println!(
                "  {name:44} {:8.0}/s  servers {:6.2} µs  client {:5.2} µs  p50 {:6.0}  p99 {:6.0} µs",
                median(|report| report.per_second),
                median(|report| report.server_us),
                median(|report| report.client_us),
                median(|report| report.p50 as f64),
                median(|report| report.p99 as f64),
            );
        }
    }
    Ok(())
}
