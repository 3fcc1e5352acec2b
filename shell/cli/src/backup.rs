//! `atoll backup`: the state of every bucket, one after another, into a directory. The cluster goes on serving.

use crate::Outcome;
use crate::remote::{Reply, Server};
use crate::show;
use anyhow::{Context, anyhow, bail};
use atoll_server::archive::{Archive, Manifest, Part};
use atoll_server::status::Status;
use atoll_types::{HashSlot, Position, SlotRange};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A bucket that moves is asked for again, for that long.
const INSIST: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: Server,
    /// A new directory, or one with an earlier backup: then only buckets that have changed are written
    directory: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let server = &arguments.server;
    let archive = Archive::begin(&arguments.directory)?;
    let status: Status = server.get("/v1/cluster")?;
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
    let mut manifest = Manifest::new(&status.cluster_id, begun);
    let progress = bar(u64::from(HashSlot::COUNT), "of the slots");
    let (mut next, mut changed, mut written) = (0, 0_u64, 0);
    while next < HashSlot::COUNT {
        let known = archive.known(&status.cluster_id, next);
        let (part, is_new) = bucket(server, &archive, next, known).with_context(|| format!("slot {next}"))?;
        next = part.last + 1;
        if is_new {
            (changed, written) = (changed + 1, written + part.length);
        }
        manifest.buckets.push(part);
        progress.set_position(u64::from(next));
    }
    progress.finish_and_clear();
    let (buckets, bytes) = (manifest.buckets.len(), manifest.bytes());
    archive.finish(&manifest)?;
    let line = format!(
        "backup of cluster {} in {}: {buckets} buckets, {:.1} MB; {changed} had changed, {:.1} MB",
        status.cluster_id,
        arguments.directory.display(),
        bytes as f64 / 1e6,
        written as f64 / 1e6
    );
    show::line(line.as_bytes())?;
    Ok(Outcome::Done)
}

pub(crate) fn bar(length: u64, of: &str) -> ProgressBar {
    let template = format!("{{bar:30}} {{percent}}% {of}, {{elapsed}}");
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}

/// The bucket that begins with this slot, and whether it is another than is known.
fn bucket(server: &Server, archive: &Archive, first: u16, known: Option<&Part>) -> anyhow::Result<(Part, bool)> {
    let (agent, begun) = (server.patient(), Instant::now());
    let path = format!("/v1/cluster/snapshot?slot={first}");
    let position = known.map(|part| part.position.clone());
    let headers: Vec<(&str, &str)> = position.iter().map(|known| ("If-None-Match", known.as_str())).collect();
    loop {
        let reply = server.send_by(&agent, "GET", &path, &headers, &[])?;
        match (reply.status, known) {
            (304, Some(part)) => return Ok((part.clone(), false)),
            (200, _) => return Ok((keep(archive, first, &reply)?, true)),
            // It moves, or has just changed its primary.
            (503 | 504, _) if begun.elapsed() < INSIST => sleep(Duration::from_millis(200)),
            (_, _) => return Err(server.refused(&reply)),
        }
    }
}

fn keep(archive: &Archive, first: u16, reply: &Reply) -> anyhow::Result<Part> {
    let unreadable = || anyhow!("the node answered something else than expected: is it another version?");
    let header = |name: &str| reply.header(name).ok_or_else(unreadable);
    let position: Position = header("Atoll-Position")?.parse().map_err(|_| unreadable())?;
    let checksum = u32::from_str_radix(header("Atoll-Checksum")?, 16).map_err(|_| unreadable())?;
    let (from, to) = header("Atoll-Slots")?.split_once('-').ok_or_else(unreadable)?;
    let range = SlotRange {
        first: HashSlot(from.parse().map_err(|_| unreadable())?),
        last: HashSlot(to.parse().map_err(|_| unreadable())?),
    };
    if range.first.0 != first {
        bail!("the bucket begins with slot {} instead of {first}", range.first.0);
    }
    Ok(archive.keep(range, position, &reply.body, checksum)?)
}
