//! `bench/compare`: Atoll and the others in one run, against the table of targets.
//!
//! The parts, in the order of the table: replicated writes and reads in memory, durable writes, failover, memory, HTTP.
//! A part that fails leaves a row that says why, and the run goes on.

mod durable;
mod failover;
mod memory;
mod web;
pub(crate) mod writes;

use crate::chart::{Bar, Group};
use crate::load::{self, Load};
use crate::measure::Effort;
use crate::packages::Store;
use crate::peers::{Peer, Workshop, atoll};
use crate::servers::Place;
use crate::table::{self, Row, Unit};
use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Redis, etcd and JetStream only, and short runs
    #[arg(long)]
    quick: bool,
    /// Atoll alone, for a second: does it work at all?
    #[arg(long)]
    check: bool,
    /// Only these parts: writes, durable, failover, memory, http
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these of the others: redis, valkey, openraft, raft-rs, omnipaxos, nats, zookeeper, etcd, consul, rqlite,
    /// rabbitmq
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// A Cargo package with stores on bare consensus libraries, which `fetch` builds: it may need protobuf-compiler
    #[arg(long)]
    bare: Option<PathBuf>,
    /// Seconds of each run, if other than usual
    #[arg(long)]
    seconds: Option<f64>,
    #[command(flatten)]
    places: Places,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Places {
    /// Where the others are, and are brought to
    #[arg(long, default_value = "target/peers")]
    store: PathBuf,
    /// A folder on the disk that durable writes are measured on
    #[arg(long, default_value = "target")]
    scratch: PathBuf,
    #[arg(long, default_value = "target/release/atoll")]
    atoll: PathBuf,
    /// Where charts go
    #[arg(long, default_value = "docs/images")]
    images: PathBuf,
    /// Where the table goes, besides being printed
    #[arg(long, default_value = "target/lab")]
    out: PathBuf,
}

impl Arguments {
    fn peers(&self) -> Vec<Peer> {
        let all = if self.quick { Peer::QUICK } else { Peer::ALL };
        let is_wanted = |peer: &&Peer| self.peers.is_empty() || self.peers.iter().any(|name| name == peer.package());
        all.iter().filter(is_wanted).copied().collect()
    }
}

impl Places {
    pub(crate) fn workshop(&self) -> anyhow::Result<Workshop> {
        let atoll = fs::canonicalize(&self.atoll).with_context(|| format!("no binary at {}", self.atoll.display()))?;
        fs::create_dir_all(&self.scratch)?;
        let scratch = fs::canonicalize(&self.scratch)?;
        Ok(Workshop { store: Store::new(&self.store), scratch, atoll })
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        fs::create_dir_all(&self.out)?;
        Ok(fs::write(self.out.join(name), text)?)
    }

    pub(crate) fn write_chart(&self, name: &str, svg: &str) -> anyhow::Result<()> {
        fs::create_dir_all(&self.images)?;
        Ok(fs::write(self.images.join(name), svg)?)
    }
}

/// What a run has so far.
#[derive(Debug)]
pub(crate) struct Run {
    workshop: Workshop,
    effort: Effort,
    peers: Vec<Peer>,
    quick: bool,
    rows: Vec<Row>,
}

impl Run {
    fn add(&mut self, row: Row) {
        eprintln!("  {}", table::line(&row));
        self.rows.push(row);
    }

    /// A row for each target that could not be looked at.
    fn missing(&mut self, targets: Vec<(String, crate::table::Wanted, Unit)>, against: &str, why: &anyhow::Error) {
        let why = format!("{why:#}");
        let short: String = why.lines().next().unwrap_or_default().chars().take(160).collect();
        for (work, wanted, unit) in targets {
            self.add(Row { work, against: against.to_owned(), wanted, unit, found: Err(short.clone()) });
        }
    }
}

/// Brings what a run needs.
pub(crate) fn fetch(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.check {
        return Ok(());
    }
    let names: Vec<&str> = arguments.peers().iter().map(|peer| peer.package()).chain(["wrk"]).collect();
    let store = Store::new(&arguments.places.store);
    store.fetch(&names)?;
    if arguments.peers().contains(&Peer::Rqlite)
        && let Err(error) = store.fetch_rqlite()
    {
        eprintln!("rqlite did not come: {error:#}");
    }
    arguments.bare.as_ref().map_or(Ok(()), |source| store.build_bare(source))
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut effort = if arguments.quick { Effort::QUICK } else { Effort::FULL };
    effort.seconds = arguments.seconds.unwrap_or(effort.seconds);
    let workshop = arguments.places.workshop()?;
    if arguments.check {
        return check(&workshop);
    }
    let mut run = Run { workshop, effort, peers: arguments.peers(), quick: arguments.quick, rows: Vec::new() };
    let is_wanted = |part: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == part);
    let parts: [(&str, Part); 5] = [
        ("writes", writes::measure),
        ("durable", durable::measure),
        ("failover", failover::measure),
        ("memory", memory::measure),
        ("http", web::measure),
    ];
    for (name, part) in parts.into_iter().filter(|(name, _)| is_wanted(name)) {
        eprintln!("{name}");
        for (file, chart) in part(&mut run)? {
            arguments.places.write_chart(file, &chart)?;
        }
        // What there is so far is not lost if a later part is broken off.
        arguments.places.write("compare.md", &report(&run))?;
    }
    println!("{}", report(&run));
    Ok(())
}

fn check(workshop: &Workshop) -> anyhow::Result<()> {
    let own = atoll::start(workshop, &atoll::Setup { place: Place::Disk, ..atoll::Setup::default() })?;
    let loads = [("one node is asked", own.cluster.targets.clone()), ("slot map known", own.aware_targets()?)];
    for (what, targets) in loads {
        let report = load::run(Load { targets, connections: 8, seconds: 0.5, ..own.cluster.load() })?;
        anyhow::ensure!(report.operations > 0 && report.errors == 0, "{what}: {report:?}");
        println!("{what}: {:.0} durable writes a second", report.per_second);
    }
    Ok(())
}

/// A part measures, adds rows, and gives charts with the names of their files.
type Part = fn(&mut Run) -> anyhow::Result<Vec<(&'static str, String)>>;

fn report(run: &Run) -> String {
    format!("{}\n\n{}", machine(), table::render(&run.rows))
}

/// On what it was measured.
pub(crate) fn machine() -> String {
    let read = |path: &str| fs::read_to_string(Path::new(path)).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cores = crate::load::usage::cores();
    let load = read("/proc/loadavg");
    let kernel = read("/proc/sys/kernel/osrelease");
    format!(
        "{cores} cores ({}), Linux {}, load at the end {}",
        model.trim_matches([' ', '\t', ':']),
        kernel.trim(),
        load.split(' ').next().unwrap_or_default()
    )
}

/// A bar whose text is its figure.
pub(crate) fn bar(label: &str, value: f64, unit: Unit) -> Bar {
    Bar { label: label.to_owned(), value, text: table::figure(value, unit) }
}

pub(crate) fn group(heading: &str, bars: Vec<Bar>) -> Group {
    Group { heading: heading.to_owned(), bars }
}
