//! The longest time in which no write was acknowledged, when a node is killed or frozen under 16 writers that try all
//! nodes in turn and give each 300 ms.
//!
//! Atoll's writers write only to buckets of the node that is hit: all the others go on, and would hide the gap.

use super::{Run, bar, group};
use crate::chart;
use crate::load::{self, Load, Strike};
use crate::measure::median;
use crate::peers::{Cluster, Peer, atoll, redis};
use crate::servers::Place;
use crate::table::{Found, Row, Unit, Wanted};
use std::time::Duration;

/// Into the run, so that all is under way.
const AFTER: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hit {
    Killed,
    Frozen,
}

impl Hit {
    fn signal(self) -> &'static str {
        match self {
            Hit::Killed => "KILL",
            Hit::Frozen => "STOP",
        }
    }
}

pub(super) fn measure(run: &mut Run) -> anyhow::Result<Vec<(&'static str, String)>> {
    let (mut killed, mut frozen) = (Vec::new(), Vec::new());
    let others = measure_others(run);
    let runs = if run.quick { 3 } else { 5 };
    for (hit, limit) in [(Hit::Killed, 150.0), (Hit::Frozen, 1300.0)] {
        for leads in [false, true] {
            let who = if leads { "the cluster's leader" } else { "a primary that does not lead" };
            let what = if hit == Hit::Killed { "kill -9 of" } else { "frozen:" };
            let mut gaps = Vec::new();
            for _ in 0..runs {
                match own_gap(run, hit, leads) {
                    Ok(gap) => gaps.push(gap),
                    Err(error) => eprintln!("  Atoll: {error:#}"),
                }
            }
            let own = median(gaps.clone());
            let best = others.iter().filter(|other| other.hit == hit).map(|other| other.gap).fold(f64::NAN, f64::min);
            let list: Vec<String> = gaps.iter().map(|gap| format!("{gap:.0}")).collect();
            let work = format!("longest gap in writes, {what} {who} (ms: {})", list.join(", "));
            let against =
                others.iter().filter(|other| other.hit == hit).min_by(|one, other| one.gap.total_cmp(&other.gap));
            let against = against.map_or("–".to_owned(), |other| other.name.clone());
            let found = Ok(Found::new(own, best, 0.0));
            run.add(Row { work, against, wanted: Wanted::Below(limit), unit: Unit::Milliseconds, found });
            let bars = if hit == Hit::Killed { &mut killed } else { &mut frozen };
            bars.push(bar(if leads { "Atoll, leader" } else { "Atoll, primary" }, own, Unit::Milliseconds));
        }
    }
    for other in others {
        let bars = if other.hit == Hit::Killed { &mut killed } else { &mut frozen };
        bars.push(bar(&other.name, other.gap, Unit::Milliseconds));
    }
    let groups = [group("the node that leads is killed (-9)", killed), group("it is frozen (SIGSTOP)", frozen)];
    let note =
        "Shorter is better. Median of several runs, 16 writers; for Atoll only buckets of the node that was hit.";
    Ok(vec![("compare-failover.svg", chart::draw("Longest gap in acknowledged writes", note, &groups))])
}

struct Other {
    name: String,
    hit: Hit,
    gap: f64,
}

fn measure_others(run: &Run) -> Vec<Other> {
    let mut found = Vec::new();
    let peers = run.peers.iter().filter(|peer| **peer != Peer::Valkey);
    for &peer in peers {
        for (hit, runs) in [(Hit::Killed, 3), (Hit::Frozen, 1)] {
            if run.quick && hit == Hit::Frozen {
                continue;
            }
            let mut gaps = Vec::new();
            let mut name = String::new();
            for _ in 0..if run.quick { 1 } else { runs } {
                match other_gap(run, peer, hit) {
                    Ok((who, gap)) => {
                        name = who;
                        gaps.push(gap);
                    }
                    Err(error) => eprintln!("  {}: {error:#}", peer.title()),
                }
            }
            if !gaps.is_empty() {
                found.push(Other { name, hit, gap: median(gaps) });
            }
        }
    }
    found
}

fn other_gap(run: &Run, peer: Peer, hit: Hit) -> anyhow::Result<(String, f64)> {
    let mut cluster = peer.start(&run.workshop, Place::Memory)?;
    if peer == Peer::Redis {
        redis::add_sentinels(&mut cluster, &run.workshop, 1000)?;
    }
    let gap = gap(&cluster, cluster.roaming_load(), cluster.leader, hit, 14.0)?;
    eprintln!("  {} {}: {gap:.0} ms", cluster.name, hit.signal());
    Ok((cluster.name.clone(), gap))
}

fn own_gap(run: &Run, hit: Hit, leads: bool) -> anyhow::Result<f64> {
    let own = atoll::start(&run.workshop, &atoll::Setup::default())?;
    let leader = own.leader()?;
    let victim = if leads { leader } else { (leader + 1) % 3 };
    let load = Load { targets: vec![own.hit_target(victim)?], ..own.cluster.roaming_load() };
    gap(&own.cluster, load, victim, hit, 4.0)
}

/// In milliseconds. The gap must have begun about when the node was hit, or it is none of its making.
fn gap(cluster: &Cluster, load: Load, victim: usize, hit: Hit, seconds: f64) -> anyhow::Result<f64> {
    let strike = Strike { after: AFTER, pid: cluster.pids()[victim], signal: hit.signal() };
    let report = load::run(Load { strike: Some(strike), seconds, ..load })?;
    anyhow::ensure!(report.operations > 0, "nothing was answered: {}", report.first_error);
    let away = report.gap_after;
    anyhow::ensure!(away < Duration::from_millis(1500), "the longest gap began {} ms later", away.as_millis());
    Ok(report.gap.as_secs_f64() * 1e3)
}
