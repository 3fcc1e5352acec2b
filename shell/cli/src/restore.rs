//! `atoll restore`: fills a cluster from a backup. Everything is checked before anything is written; then each piece is
//! an ordinary write of the bucket that has its slot, however many buckets there are.

use crate::Outcome;
use crate::backup::bar;
use crate::remote::Server;
use crate::show;
use anyhow::{Context, anyhow, bail};
use atoll_replica::Import;
use atoll_server::archive::{self, Manifest};
use atoll_server::status::BucketStatus;
use atoll_types::{HashSlot, Payload};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use ureq::Agent;

/// A piece that cannot be written now is tried again, for that long.
const INSIST: Duration = Duration::from_secs(60);
/// Pieces are about so long.
const PIECE: usize = 64 * 1024;
/// Slots that are written at a time.
const WORKERS: usize = 16;
/// How often the table may change while what belongs to every bucket is written.
const ROUNDS: usize = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: Server,
    /// A backup
    directory: PathBuf,
    /// Also into a cluster that is not empty: what is there and is newer stays
    #[arg(long)]
    force: bool,
}

/// Of one slot, to be written in this order.
type Slot = (HashSlot, Vec<Payload>);

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let (server, directory) = (&arguments.server, &arguments.directory);
    let manifest =
        archive::load(directory)?.with_context(|| format!("there is no backup in {}", directory.display()))?;
    let (mut keys, mut sessions) = (0, 0);
    for part in &manifest.buckets {
        let copy = archive::open(directory, part)?;
        (keys, sessions) = (keys + copy.machine.count(), sessions + copy.sessions.len());
    }
    let there = present(server)?;
    if there > 0 && !arguments.force {
        bail!("the cluster is not empty: it holds {there} keys and streams; --force restores into it nevertheless");
    }
    common(server, directory, &manifest)?;
    let progress = bar(u64::from(HashSlot::COUNT), "of the slots");
    for part in &manifest.buckets {
        let mut slots: BTreeMap<HashSlot, Vec<Payload>> = BTreeMap::new();
        for Import { slot, command } in archive::open(directory, part)?.imports(PIECE) {
            if let Some(slot) = slot {
                slots.entry(slot).or_default().push(command);
            }
        }
        write_all(server, slots.into_iter().collect())?;
        progress.set_position(u64::from(part.last) + 1);
    }
    progress.finish_and_clear();
    // Buckets that were split meanwhile have what belongs to all only where it was written before.
    common(server, directory, &manifest)?;
    let line = format!(
        "restored cluster {} from {}: {keys} keys and streams, {sessions} entries of sessions; {} keys are there now",
        manifest.cluster,
        directory.display(),
        present(server)?
    );
    show::line(line.as_bytes())?;
    Ok(Outcome::Done)
}

/// Keys and streams in the cluster.
fn present(server: &Server) -> anyhow::Result<u64> {
    let begun = Instant::now();
    loop {
        let buckets: Vec<BucketStatus> = server.get("/v1/cluster/buckets")?;
        let known: Option<u64> = buckets.iter().map(|bucket| bucket.keys).sum();
        match known.filter(|_| !buckets.is_empty()) {
            Some(keys) => return Ok(keys),
            None if begun.elapsed() < INSIST => sleep(Duration::from_millis(200)),
            None => bail!("not every bucket is served: see `atoll status`"),
        }
    }
}

fn ranges(server: &Server) -> anyhow::Result<Vec<(u16, u16)>> {
    let buckets: Vec<BucketStatus> = server.get("/v1/cluster/buckets")?;
    Ok(buckets.iter().map(|bucket| bucket.slots.into()).collect())
}

/// What belongs to no slot goes to every bucket that holds a part of the range, until the table stays the same.
fn common(server: &Server, directory: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let mut table = ranges(server)?;
    for _ in 0..ROUNDS {
        for part in &manifest.buckets {
            let imports = archive::open(directory, part)?.imports(PIECE);
            let pieces: Vec<Payload> =
                imports.into_iter().filter(|import| import.slot.is_none()).map(|import| import.command).collect();
            let meets = table.iter().filter(|(first, last)| *first <= part.last && part.first <= *last);
            let slots = meets.map(|(first, _)| (HashSlot((*first).max(part.first)), pieces.clone()));
            write_all(server, slots.collect())?;
        }
        let now = ranges(server)?;
        if now == table {
            return Ok(());
        }
        table = now;
    }
    bail!("the buckets are being split all the time; restore again with --force once that is over")
}

fn write_all(server: &Server, slots: Vec<Slot>) -> anyhow::Result<()> {
    let queue = Mutex::new(slots.into_iter());
    let work = || -> anyhow::Result<()> {
        let agent = server.patient();
        loop {
            let next = queue.lock().map_err(|_| anyhow!("another part of it failed"))?.next();
            let Some((slot, pieces)) = next else { return Ok(()) };
            for piece in pieces {
                write(server, &agent, slot, piece.as_slice())?;
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err(anyhow!("it panicked"))));
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

/// A piece that is sent twice does nothing the second time.
fn write(server: &Server, agent: &Agent, slot: HashSlot, piece: &[u8]) -> anyhow::Result<()> {
    let path = format!("/v1/cluster/import?slot={}", slot.0);
    let begun = Instant::now();
    loop {
        let sent = server.send_by(agent, "POST", &path, &[], piece);
        match sent {
            Ok(reply) if reply.status == 200 => return Ok(()),
            Ok(reply) if begun.elapsed() >= INSIST || ![503, 504].contains(&reply.status) => {
                return Err(server.refused(&reply));
            }
            Err(error) if begun.elapsed() >= INSIST => return Err(error),
            Ok(_) | Err(_) => sleep(Duration::from_millis(100)),
        }
    }
}
