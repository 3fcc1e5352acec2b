//! Replicated writes in memory, and linearizable reads.
//!
//! The first row of each pair has an ordinary client, which knows one node and sends it everything: primaries come to
//! that node, before anything is measured. The row that says "knows the slot map" has a client as Redis Cluster has
//! them, and a cluster of its own, in which every node leads a third. The others are always asked where nothing has to
//! be passed on. Reads have a third row, of a cluster founded with a lease: its primaries answer reads without asking
//! anybody, as Redis does.

use super::{Run, bar, group};
use crate::chart::{self, Bar};
use crate::load::{Load, Report, Work};
use crate::measure::{Rounds, rounds};
use crate::peers::{Cluster, Peer, atoll};
use crate::servers::Place;
use crate::table::{Found, Row, Unit, Wanted};

/// One kind of load: what is done by how many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Case {
    work: Work,
    connections: usize,
    depth: usize,
}

impl Case {
    pub(crate) fn name(self) -> String {
        let what = if self.work == Work::Get { "linearizable reads" } else { "replicated writes of 100 B" };
        let how = if self.depth > 1 { format!(" × {} pipelined", self.depth) } else { String::new() };
        let plural = if self.connections == 1 { "" } else { "s" };
        format!("{what}, {} connection{plural}{how}", self.connections)
    }

    pub(crate) fn of(self, mut load: Load) -> Load {
        load.work = self.work;
        load.connections = self.connections;
        load.depth = self.depth;
        load
    }
}

/// What a cluster is founded with whose reads go by a lease.
const LEASE: [&str; 2] = ["--lease", "500ms"];

const fn put(connections: usize, depth: usize) -> Case {
    Case { work: Work::Put, connections, depth }
}

const fn get(connections: usize) -> Case {
    Case { work: Work::Get, connections, depth: 1 }
}

/// What Redis is compared in.
pub(crate) const CASES: [Case; 6] = [put(64, 1), put(256, 1), put(64, 16), put(1, 1), get(64), get(256)];

/// What is judged: the figure of a run, and what is wanted of it.
type Judged = (&'static str, fn(&Report) -> f64, Unit, Wanted);

const RATE: fn(&Report) -> f64 = |report| report.per_second;
const COST: fn(&Report) -> f64 = |report| report.server_us;

fn cases(peer: Peer) -> Vec<(Case, Vec<Judged>)> {
    let rate = |ratio| ("", RATE, Unit::PerSecond, Wanted::AtLeast(ratio));
    match peer {
        Peer::Redis | Peer::Valkey => {
            let cost: Judged = (": servers' processor time", COST, Unit::Microseconds, Wanted::AtMost(0.8));
            let p50: Judged = (": p50", |report| report.p50 as f64, Unit::Microseconds, Wanted::AtMost(1.0));
            let p99: Judged = (": p99", |report| report.p99 as f64, Unit::Microseconds, Wanted::AtMost(1.0));
            vec![
                (put(64, 1), vec![rate(1.25), cost]),
                (put(256, 1), vec![rate(1.25), cost]),
                (put(64, 16), vec![rate(2.0), cost]),
                (put(1, 1), vec![p50, p99]),
                (get(64), vec![rate(0.9)]),
                (get(256), vec![rate(0.9)]),
            ]
        }
        Peer::Nats => [put(64, 1), put(256, 1), put(64, 16)].map(|case| (case, vec![rate(2.5)])).to_vec(),
        Peer::ZooKeeper => [put(64, 1), put(256, 1)].map(|case| (case, vec![rate(2.5)])).to_vec(),
        Peer::OpenRaft | Peer::RaftRs | Peer::OmniPaxos => {
            vec![(put(64, 1), vec![rate(1.0)]), (put(256, 1), vec![rate(1.0)]), (put(64, 16), vec![rate(2.0)])]
        }
        Peer::Etcd | Peer::RabbitMq | Peer::Rqlite => {
            [put(64, 1), put(256, 1), put(64, 16)].map(|case| (case, vec![rate(6.0)])).to_vec()
        }
        Peer::Consul => [put(64, 1), put(256, 1)].map(|case| (case, vec![rate(6.0)])).to_vec(),
    }
}

pub(super) fn measure(run: &mut Run) -> anyhow::Result<Vec<(&'static str, String)>> {
    let own = atoll::start(&run.workshop, &atoll::Setup::default())?;
    let plain = own.settled_load()?;
    let spread = atoll::start(&run.workshop, &atoll::Setup::default())?;
    let aware = Load { targets: spread.aware_targets()?, ..spread.cluster.load() };
    let flags = LEASE.map(str::to_owned).to_vec();
    let leased = atoll::start(&run.workshop, &atoll::Setup { flags, ..atoll::Setup::default() })?;
    let leased_aware = Load { targets: leased.aware_targets()?, ..leased.cluster.load() };
    let mut bars = Charts::default();
    for peer in run.peers.clone() {
        let targets = |(case, judged): &(Case, Vec<Judged>)| {
            judged.iter().map(|(what, _, unit, wanted)| (case.name() + what, *wanted, *unit)).collect::<Vec<_>>()
        };
        match peer.start(&run.workshop, Place::Memory) {
            Err(error) => run.missing(cases(peer).iter().flat_map(targets).collect(), peer.title(), &error),
            Ok(cluster) => {
                for (case, judged) in cases(peer) {
                    let mut loads = vec![plain.clone(), cluster.load(), aware.clone()];
                    loads.extend((case.work == Work::Get).then(|| leased_aware.clone()));
                    let loads: Vec<Load> = loads.into_iter().map(|load| case.of(load)).collect();
                    let found = rounds(&loads, run.effort)?;
                    judge(run, case, &judged, &cluster, &found);
                    bars.note(case, &cluster, &found);
                }
            }
        }
    }
    Ok(bars.draw())
}

fn judge(run: &mut Run, case: Case, judged: &[Judged], cluster: &Cluster, rounds: &Rounds) {
    let leased = format!(", client knows the slot map, {}", LEASE.join(" "));
    let mut ways = vec![(0, ""), (2, ", client knows the slot map")];
    ways.extend((case.work == Work::Get).then_some((3, leased.as_str())));
    for &(what, figure, unit, wanted) in judged {
        for &(own, how) in &ways {
            let found = match rounds.failure(own).or_else(|| rounds.failure(1)) {
                Some(error) => Err(error),
                None => Ok(Found {
                    own: rounds.median(own, figure),
                    other: rounds.median(1, figure),
                    ratio: rounds.ratio(own, 1, figure),
                    disturbed: rounds.others(),
                }),
            };
            let work = format!("{}{what}{how}", case.name());
            run.add(Row { work, against: cluster.name.clone(), wanted, unit, found });
        }
    }
}

/// Bars by case; Atoll's are from the runs beside the first of the others.
#[derive(Debug, Default)]
struct Charts {
    rates: Vec<(Case, Vec<Bar>)>,
    costs: Vec<(Case, Vec<Bar>)>,
}

impl Charts {
    fn note(&mut self, case: Case, cluster: &Cluster, rounds: &Rounds) {
        let leased = (case.work == Work::Get).then_some(("Atoll, by a lease", 3));
        let ways = [("Atoll", 0), ("Atoll, slot map known", 2)].into_iter().chain(leased);
        let rates = (&mut self.rates, RATE, Unit::PerSecond);
        for (list, figure, unit) in [rates, (&mut self.costs, COST, Unit::Microseconds)] {
            if !list.iter().any(|(known, _)| *known == case) {
                let own = |(label, load): (&str, usize)| bar(label, rounds.median(load, figure), unit);
                list.push((case, ways.clone().map(own).collect()));
            }
            if let Some((_, bars)) = list.iter_mut().find(|(known, _)| *known == case) {
                bars.push(bar(&cluster.name, rounds.median(1, figure), unit));
            }
        }
    }

    fn draw(self) -> Vec<(&'static str, String)> {
        let draw = |title: &str, note: &str, list: Vec<(Case, Vec<Bar>)>| {
            let groups: Vec<_> = list.into_iter().map(|(case, bars)| group(&case.name(), bars)).collect();
            chart::draw(title, note, &groups)
        };
        let rate = draw(
            "Operations a second, three nodes on one machine",
            "Longer is better. Writes are acknowledged by replicas in memory; each group has its own scale.",
            self.rates,
        );
        let cost = draw(
            "Processor time of all servers for one operation",
            "Shorter is better. Of all three nodes together; hardly depends on what else the machine does.",
            self.costs,
        );
        vec![("compare-rate.svg", rate), ("compare-cost.svg", cost)]
    }
}
