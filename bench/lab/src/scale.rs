//! `bench/scale`: how the cost of Atoll grows with buckets, nodes, values, connections, hops, moves, and when idle.
//!
//! Clients know the slot map here, unless it says otherwise: what is looked at is what a write costs, not a hop.

use crate::chart;
use crate::compare::{Places, bar, group, machine};
use crate::load::usage::Usage;
use crate::load::{self, Load, Report};
use crate::measure::{Effort, Rounds, median, rounds};
use crate::peers::Workshop;
use crate::peers::atoll::{self, Atoll, Setup};
use crate::table::{self, Found, Row, Unit, Wanted};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Short runs
    #[arg(long)]
    quick: bool,
    /// Only these parts: buckets, nodes, values, connections, hops, moves, idle
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    #[command(flatten)]
    places: Places,
}

struct Run {
    workshop: Workshop,
    effort: Effort,
    rows: Vec<Row>,
    groups: Vec<chart::Group>,
}

impl Run {
    fn add(&mut self, work: &str, against: &str, wanted: Wanted, unit: Unit, found: Found) {
        let row = Row { work: work.to_owned(), against: against.to_owned(), wanted, unit, found: Ok(found) };
        eprintln!("  {}", table::line(&row));
        self.rows.push(row);
    }

    fn start(&self, setup: &Setup) -> anyhow::Result<(Atoll, Load)> {
        let own = atoll::start(&self.workshop, setup)?;
        let load = Load { targets: own.aware_targets()?, ..own.cluster.load() };
        Ok((own, load))
    }

    fn chart(&mut self, heading: &str, bars: Vec<chart::Bar>) {
        self.groups.push(group(heading, bars));
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let effort = if arguments.quick { Effort::QUICK } else { Effort::FULL };
    let workshop = arguments.places.workshop()?;
    let mut run = Run { workshop, effort, rows: Vec::new(), groups: Vec::new() };
    let parts: [(&str, Part); 7] = [
        ("buckets", buckets),
        ("nodes", nodes),
        ("values", values),
        ("connections", connections),
        ("hops", hops),
        ("moves", moves),
        ("idle", idle),
    ];
    let is_wanted = |part: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| only == part);
    for (name, part) in parts.into_iter().filter(|(name, _)| is_wanted(name)) {
        eprintln!("{name}");
        if let Err(error) = part(&mut run) {
            let (work, against) = (name.to_owned(), "–".to_owned());
            let found = Err(format!("{error:#}").chars().take(160).collect());
            run.rows.push(Row { work, against, wanted: Wanted::AtMost(1.0), unit: Unit::PerSecond, found });
        }
        let report = format!("{}\n\n{}", machine(), table::render(&run.rows));
        arguments.places.write("scale.md", &report)?;
    }
    let note = "Each group has its own scale. Writes of 100 B by 64 connections, where nothing else is said.";
    arguments.places.write_chart("scale.svg", &chart::draw("How it grows", note, &run.groups))?;
    println!("{}\n\n{}", machine(), table::render(&run.rows));
    Ok(())
}

type Part = fn(&mut Run) -> anyhow::Result<()>;

const RATE: fn(&Report) -> f64 = |report| report.per_second;
const COST: fn(&Report) -> f64 = |report| report.server_us;

/// One load against another of the same rounds.
fn found(rounds: &Rounds, load: usize, to: usize, figure: fn(&Report) -> f64) -> Found {
    Found {
        own: rounds.median(load, figure),
        other: rounds.median(to, figure),
        ratio: rounds.ratio(load, to, figure),
        disturbed: rounds.others(),
    }
}

/// Flat: the rate with any number of buckets is within 15% of that with sixteen.
fn buckets(run: &mut Run) -> anyhow::Result<()> {
    let counts = [16, 1, 256, 4096];
    let clusters: Vec<(Atoll, Load)> = counts
        .iter()
        .map(|&buckets| run.start(&Setup { buckets, ..Setup::default() }))
        .collect::<anyhow::Result<_>>()?;
    let loads: Vec<Load> = clusters.iter().map(|(_, load)| load.clone()).collect();
    let rounds = rounds(&loads, run.effort)?;
    let mut bars = vec![bar("Atoll, 16 buckets", rounds.median(0, RATE), Unit::PerSecond)];
    for (index, count) in counts.iter().enumerate().skip(1) {
        let work = format!("writes a second with {count} buckets");
        run.add(&work, "16 buckets", Wanted::AtLeast(0.85), Unit::PerSecond, found(&rounds, index, 0, RATE));
        bars.push(bar(&format!("Atoll, {count} buckets"), rounds.median(index, RATE), Unit::PerSecond));
    }
    run.chart("writes a second by number of buckets", bars);
    Ok(())
}

/// Flat: each bucket has three members, however many nodes there are.
fn nodes(run: &mut Run) -> anyhow::Result<()> {
    let counts = [3, 5, 7];
    let clusters: Vec<(Atoll, Load)> =
        counts.iter().map(|&nodes| run.start(&Setup { nodes, ..Setup::default() })).collect::<anyhow::Result<_>>()?;
    let loads: Vec<Load> = clusters.iter().map(|(_, load)| load.clone()).collect();
    let rounds = rounds(&loads, run.effort)?;
    let mut bars = vec![bar("Atoll, 3 nodes", rounds.median(0, COST), Unit::Microseconds)];
    for (index, count) in counts.iter().enumerate().skip(1) {
        let work = format!("servers' processor time for a write, {count} nodes");
        run.add(&work, "3 nodes", Wanted::AtMost(1.15), Unit::Microseconds, found(&rounds, index, 0, COST));
        bars.push(bar(&format!("Atoll, {count} nodes"), rounds.median(index, COST), Unit::Microseconds));
    }
    run.chart("servers' processor time for a write, by number of nodes", bars);
    Ok(())
}

/// Bytes a second rise with the size of values, to near what three copies through the loopback interface allow: each
/// byte goes from the client to the primary, and from there to two members.
fn values(run: &mut Run) -> anyhow::Result<()> {
    let (_own, load) = run.start(&Setup::default())?;
    let sizes = [100, 1_000, 10_000, 100_000, 1_000_000];
    // The same keys are written again: how fast a system gives out memory for the first time is not what is asked.
    let few = |value_size: usize| {
        let most = (VALUES_BYTES_MOST / value_size / load.targets.len()).max(1);
        let mut targets = load.targets.clone();
        targets.iter_mut().for_each(|target| target.keep(most));
        targets
    };
    let with = |value_size: usize| {
        let connections = if value_size > 50_000 { 16 } else { 64 };
        Load { value_size, connections, targets: few(value_size), ..load.clone() }
    };
    let loads: Vec<Load> = sizes.iter().map(|&size| with(size)).collect();
    let rounds = rounds(&loads, run.effort)?;
    let allowed = loopback()? / 3.0;
    let bytes = |index: usize| rounds.median(index, RATE) * sizes[index] as f64;
    let mut bars = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        bars.push(bar(&format!("Atoll, {size} B"), bytes(index), Unit::BytesPerSecond));
        if index > 0 {
            let work = format!("bytes a second, values of {size} B");
            let found = Found::new(bytes(index), bytes(index - 1), rounds.others());
            run.add(&work, &format!("{} B", sizes[index - 1]), Wanted::AtLeast(1.0), Unit::BytesPerSecond, found);
        }
    }
    let found = Found::new(bytes(sizes.len() - 1), allowed, rounds.others());
    run.add(
        "bytes a second, values of 1 MB",
        "a third of what loopback carries",
        Wanted::AtLeast(0.7),
        Unit::BytesPerSecond,
        found,
    );
    bars.push(bar("a third of loopback", allowed, Unit::BytesPerSecond));
    run.chart("bytes a second by size of values", bars);
    Ok(())
}

/// What all values written by one load take, in one copy.
const VALUES_BYTES_MOST: usize = 64 << 20;

/// Bytes a second through one connection, in pieces of 64 KiB.
fn loopback() -> anyhow::Result<f64> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    let reader = std::thread::spawn(move || {
        let (mut buffer, mut total) = (vec![0; 64 << 10], 0_u64);
        while let Ok(length) = receiver.read(&mut buffer) {
            if length == 0 {
                break;
            }
            total += length as u64;
        }
        total
    });
    let (piece, begun) = (vec![1; 64 << 10], Instant::now());
    while begun.elapsed() < Duration::from_secs(2) {
        sender.write_all(&piece)?;
    }
    drop(sender);
    let total = reader.join().map_err(|_| anyhow::anyhow!("the reader failed"))?;
    Ok(total as f64 / begun.elapsed().as_secs_f64())
}

/// No cliff: with ever more connections there are no fewer writes than 0.7 of those with a hundred.
fn connections(run: &mut Run) -> anyhow::Result<()> {
    let (_own, load) = run.start(&Setup::default())?;
    let counts = [100, 10, 1_000, 10_000];
    let with = |connections: usize| Load { connections, timeout: Duration::from_secs(30), ..load.clone() };
    let loads: Vec<Load> = counts.iter().map(|&count| with(count)).collect();
    let rounds = rounds(&loads, run.effort)?;
    let mut bars = Vec::new();
    for (index, count) in counts.iter().enumerate() {
        bars.push(bar(&format!("Atoll, {count} connections"), rounds.median(index, RATE), Unit::PerSecond));
        if *count > 100 {
            let work = format!("writes a second, {count} connections");
            run.add(&work, "100 connections", Wanted::AtLeast(0.7), Unit::PerSecond, found(&rounds, index, 0, RATE));
        }
    }
    run.chart("writes a second by number of connections", bars);
    Ok(())
}

fn hops(run: &mut Run) -> anyhow::Result<()> {
    let (own, right) = run.start(&Setup::default())?;
    let wrong = Load { targets: own.wrong_targets()?, ..right.clone() };
    let rounds = rounds(&[wrong, right], run.effort)?;
    let work = "servers' processor time for a write to the wrong node";
    run.add(work, "to the right one", Wanted::AtMost(1.6), Unit::Microseconds, found(&rounds, 0, 1, COST));
    let bars = ["Atoll, wrong node", "Atoll, right node"].iter().enumerate();
    let bars = bars.map(|(load, label)| bar(label, rounds.median(load, COST), Unit::Microseconds)).collect();
    run.chart("servers' processor time for a write", bars);
    Ok(())
}

/// While a fourth node arrives and takes its part of 300,000 keys, writes go on by a client that knows nothing.
fn moves(run: &mut Run) -> anyhow::Result<()> {
    let setup = Setup::default();
    let (mut own, load) = run.start(&setup)?;
    load::run(Load { count: Some(300_000), depth: 16, timeout: Duration::from_secs(30), ..load })?;
    let plain = Load { connections: 16, seconds: run.effort.seconds, ..own.cluster.load() };
    let mut quiet = Vec::new();
    for _ in 0..3 {
        quiet.push(load::run(plain.clone())?);
    }
    own.add_node(&run.workshop, &setup)?;
    let mut moving = Vec::new();
    while !own.is_settled(setup.nodes + 1) && moving.len() < 20 {
        moving.push(load::run(Load { seconds: 1.0, ..plain.clone() })?);
    }
    anyhow::ensure!(!moving.is_empty(), "all had moved before anything was measured");
    let p99 = |reports: &[Report]| median(reports.iter().map(|report| report.p99 as f64).collect());
    let disturbed = median(moving.iter().map(|report| report.others).collect());
    let found = Found::new(p99(&moving), p99(&quiet), disturbed);
    run.add("p99 of writes while buckets move", "when nothing moves", Wanted::AtMost(2.0), Unit::Microseconds, found);
    let bars =
        vec![bar("Atoll, moving", found.own, Unit::Microseconds), bar("Atoll, quiet", found.other, Unit::Microseconds)];
    run.chart("p99 of writes, 16 connections to one node", bars);
    Ok(())
}

/// Of one core, for each node.
fn idle(run: &mut Run) -> anyhow::Result<()> {
    let (own, _) = run.start(&Setup { buckets: 4096, ..Setup::default() })?;
    let pids = own.cluster.pids();
    std::thread::sleep(Duration::from_secs(2));
    let (before, begun) = (Usage::now(&pids), Instant::now());
    std::thread::sleep(Duration::from_secs(10));
    let used = Usage::now(&pids).since(before);
    let each = used.servers / begun.elapsed().as_secs_f64() / pids.len() as f64;
    let work = "an idle node of a cluster with 4,096 buckets, of one core";
    run.add(work, "–", Wanted::Below(0.01), Unit::Percent, Found::new(each, f64::NAN, 0.0));
    Ok(())
}
