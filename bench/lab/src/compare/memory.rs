//! Memory for each key: a million keys of 12 bytes with values of 100, on all three nodes together.

use super::{Run, bar, group};
use crate::chart;
use crate::load::{self, Load, usage};
use crate::peers::{Cluster, Peer, atoll, nats};
use crate::servers::Place;
use crate::table::{Found, Row, Unit, Wanted};
use std::time::Duration;

const KEYS: u64 = 1_000_000;
const KEYS_QUICK: u64 = 200_000;

pub(super) fn measure(run: &mut Run) -> anyhow::Result<Vec<(&'static str, String)>> {
    let count = if run.quick { KEYS_QUICK } else { KEYS };
    let own = atoll::start(&run.workshop, &atoll::Setup::default())?;
    let (own_bytes, disturbed) = fill(&own.cluster, count)?;
    drop(own);
    let mut bars = vec![bar("Atoll", own_bytes, Unit::Bytes)];
    let work = format!("memory for each of {count} keys of 12 B with 100 B, three copies");
    let has_keys = |peer: &Peer| matches!(peer, Peer::Redis | Peer::Valkey | Peer::Nats);
    for peer in run.peers.clone().into_iter().filter(has_keys) {
        let cluster = if peer == Peer::Nats {
            nats::start(&run.workshop, Place::Memory, nats::Keeps::Keys)
        } else {
            peer.start(&run.workshop, Place::Memory)
        };
        match cluster.and_then(|cluster| Ok((cluster.name.clone(), fill(&cluster, count)?))) {
            Ok((against, (bytes, _))) => {
                bars.push(bar(&against, bytes, Unit::Bytes));
                let found = Ok(Found::new(own_bytes, bytes, disturbed));
                run.add(Row { work: work.clone(), against, wanted: Wanted::AtMost(1.0), unit: Unit::Bytes, found });
            }
            Err(error) => run.missing(vec![(work.clone(), Wanted::AtMost(1.0), Unit::Bytes)], peer.title(), &error),
        }
    }
    let note = "Shorter is better. What all three processes grew by, divided by the number of keys.";
    let groups = [group("12 B keys, 100 B values, three copies", bars)];
    Ok(vec![("compare-memory.svg", chart::draw("Memory for one key", note, &groups))])
}

/// Bytes by which the servers grew for each key.
fn fill(cluster: &Cluster, count: u64) -> anyhow::Result<(f64, f64)> {
    let before = usage::resident(&cluster.pids());
    let load =
        Load { connections: 64, depth: 16, count: Some(count), timeout: Duration::from_secs(30), ..cluster.load() };
    let report = load::run(load)?;
    anyhow::ensure!(report.operations >= count, "{} of {count} keys: {}", report.operations, report.first_error);
    // What is only passing through is given back within moments; a garbage collector takes a little longer.
    std::thread::sleep(Duration::from_secs(3));
    let after = usage::resident(&cluster.pids());
    Ok((after.saturating_sub(before) as f64 / count as f64, report.others))
}
