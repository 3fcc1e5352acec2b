//! Durable writes: synced to the disks of all members before they are answered. And what the disk itself allows.

use super::{Run, bar, group};
use crate::chart;
use crate::load::Load;
use crate::measure::rounds;
use crate::peers::{Peer, atoll};
use crate::servers::Place;
use crate::table::{Found, Row, Unit, Wanted};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

const CONNECTIONS: [usize; 2] = [64, 256];

/// Bytes that one write takes in a log, about.
const RECORD: usize = 200;

fn work(connections: usize) -> String {
    format!("durable writes of 100 B, {connections} connections")
}

pub(super) fn measure(run: &mut Run) -> anyhow::Result<Vec<(&'static str, String)>> {
    let on_disk = atoll::start(&run.workshop, &atoll::Setup { place: Place::Disk, ..atoll::Setup::default() })?;
    let own_load = on_disk.settled_load()?;
    let mut charts: Vec<(usize, Vec<chart::Bar>)> = CONNECTIONS.map(|count| (count, Vec::new())).to_vec();
    let has_disk = |peer: &Peer| matches!(peer, Peer::Redis | Peer::Valkey | Peer::Etcd | Peer::Nats);
    for peer in run.peers.clone().into_iter().filter(has_disk) {
        let cluster = match peer.start(&run.workshop, Place::Disk) {
            Ok(cluster) => cluster,
            Err(error) => {
                let rows = CONNECTIONS.map(|count| (work(count), Wanted::AtLeast(1.5), Unit::PerSecond));
                run.missing(rows.to_vec(), peer.title(), &error);
                continue;
            }
        };
        for (connections, bars) in &mut charts {
            let connections = *connections;
            let loads = [own_load.clone(), cluster.load()].map(|load| Load { connections, ..load });
            let rounds = rounds(&loads, run.effort)?;
            let found = Found {
                own: rounds.median(0, |report| report.per_second),
                other: rounds.median(1, |report| report.per_second),
                ratio: rounds.ratio(0, 1, |report| report.per_second),
                disturbed: rounds.others(),
            };
            if bars.is_empty() {
                bars.push(bar("Atoll", found.own, Unit::PerSecond));
            }
            bars.push(bar(&cluster.name, found.other, Unit::PerSecond));
            let against = cluster.name.clone();
            let found = rounds.failure(1).map_or(Ok(found), Err);
            let wanted = Wanted::AtLeast(1.5);
            run.add(Row { work: work(connections), against, wanted, unit: Unit::PerSecond, found });
        }
    }
    against_the_disk(run, &own_load)?;
    let groups: Vec<_> = charts.into_iter().map(|(count, bars)| group(&work(count), bars)).collect();
    let note = "Longer is better. Synced on every node that must have it, before the answer; all nodes share one disk.";
    Ok(vec![("compare-durable.svg", chart::draw("Durable writes a second", note, &groups))])
}

/// One sync for all writes that wait, on three nodes at once, and the time that these writes take without a disk: a
/// cluster that did that and nothing else would do so many.
fn against_the_disk(run: &mut Run, on_disk: &Load) -> anyhow::Result<()> {
    let in_memory = atoll::start(&run.workshop, &atoll::Setup::default())?;
    let memory_load = in_memory.settled_load()?;
    for connections in CONNECTIONS {
        let loads = [on_disk.clone(), memory_load.clone()].map(|load| Load { connections, ..load });
        let rounds = rounds(&loads, run.effort)?;
        let sync = sync_time(&run.workshop.scratch, connections * RECORD)?;
        let own = rounds.median(0, |report| report.per_second);
        let memory = rounds.median(1, |report| report.per_second);
        let allowed = 1.0 / (1.0 / memory + sync.as_secs_f64() / connections as f64);
        let found = Ok(Found::new(own, allowed, rounds.others()));
        let against = format!("one sync ({} µs) for each {connections}, and their time in memory", sync.as_micros());
        let wanted = Wanted::AtLeast(0.7);
        run.add(Row { work: work(connections), against, wanted, unit: Unit::PerSecond, found });
    }
    Ok(())
}

/// The middle time of a write of `bytes` and its sync, while three files are written to at once, as nodes share a disk.
fn sync_time(folder: &Path, bytes: usize) -> anyhow::Result<Duration> {
    let mut writers = Vec::new();
    for number in 0..3 {
        let path = folder.join(format!("sync-probe-{}-{number}", std::process::id()));
        let file = File::create(&path)?;
        file.write_all_at(&vec![0; 8 << 20], 0)?;
        file.sync_all()?;
        std::fs::remove_file(&path)?;
        writers.push(std::thread::spawn(move || -> std::io::Result<Vec<Duration>> {
            let (data, mut took) = (vec![1; bytes], Vec::new());
            let end = Instant::now() + Duration::from_millis(1500);
            while Instant::now() < end {
                let at = (took.len() * bytes % ((8 << 20) - bytes)) as u64;
                let begun = Instant::now();
                file.write_all_at(&data, at)?;
                file.sync_data()?;
                took.push(begun.elapsed());
            }
            Ok(took)
        }));
    }
    let mut all = Vec::new();
    for writer in writers {
        all.extend(writer.join().map_err(|_| anyhow::anyhow!("a writer failed"))??);
    }
    all.sort_unstable();
    Ok(all[all.len() / 2])
}
