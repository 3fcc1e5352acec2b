//! `atoll inspect`: shows and verifies a data directory or a backup. Exit code 1 where something is damaged.

use crate::{Outcome, show};
use atoll_server::archive::{self, Manifest};
use atoll_server::disk::inspect::{CopyInfo, Inspection, inspect};
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A data directory, best of a node that does not run; or a backup
    directory: PathBuf,
    /// For programs
    #[arg(long)]
    json: bool,
    /// Every copy and every file
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if let Some(manifest) = archive::load(&arguments.directory)? {
        return backup(arguments, &manifest);
    }
    let found = inspect(&arguments.directory)?;
    if arguments.json {
        show::line(serde_json::to_string_pretty(&found)?.as_bytes())?;
    } else {
        show::line(in_words(&found, arguments.all).as_bytes())?;
    }
    Ok(if found.damage.is_empty() { Outcome::Done } else { Outcome::Failed })
}

fn backup(arguments: &Arguments, manifest: &Manifest) -> anyhow::Result<Outcome> {
    let mut rows = Vec::new();
    let mut damage = Vec::new();
    for part in &manifest.buckets {
        match archive::open(&arguments.directory, part) {
            Ok(copy) => rows.push((part, copy.machine.count(), copy.sessions.len())),
            Err(error) => damage.push(error.to_string()),
        }
    }
    let (keys, sessions) = rows.iter().fold((0, 0), |(keys, sessions), row| (keys + row.1, sessions + row.2));
    if arguments.json {
        let found = json!({"backup": manifest, "keys": keys, "sessions": sessions, "damage": damage});
        show::line(serde_json::to_string_pretty(&found)?.as_bytes())?;
    } else {
        let mut lines = vec![
            format!("backup of cluster {}, written by version {}", manifest.cluster, manifest.version),
            format!("begun        {} s since 1970", manifest.begun / 1_000_000),
            format!("buckets      {}, {:.1} MB", manifest.buckets.len(), manifest.bytes() as f64 / 1e6),
            format!("holds        {keys} keys and streams, {sessions} entries of sessions"),
        ];
        if arguments.all {
            lines.extend(rows.iter().map(|(part, keys, sessions)| {
                format!(
                    "  bucket {:5}  slots to {}, position {}, {keys} keys and streams, {sessions} sessions, {} bytes",
                    part.first, part.last, part.position, part.length
                )
            }));
        }
        lines.extend(damage.iter().map(|damage| format!("DAMAGED: {damage}")));
        if damage.is_empty() {
            lines.push("every checksum is right".to_owned());
        }
        show::line(lines.join("\n").as_bytes())?;
    }
    Ok(if damage.is_empty() { Outcome::Done } else { Outcome::Failed })
}

fn in_words(found: &Inspection, all: bool) -> String {
    let unknown = || "?".to_owned();
    let mut lines = vec![
        format!(
            "node {}, #{} of cluster {}, life {}",
            found.name.clone().unwrap_or_else(unknown),
            found.node.map_or_else(unknown, |node| node.to_string()),
            found.cluster.clone().unwrap_or_else(unknown),
            found.life.map_or_else(unknown, |life| life.to_string()),
        ),
        format!("cluster log  decided up to {}, promised {}", found.decided, found.promised),
        format!("on disk      {} files, {:.1} MB", found.files.len(), found.bytes as f64 / 1e6),
        format!("records      {} are needed", found.records),
        summary(&found.copies),
    ];
    if all {
        lines.extend(found.copies.iter().map(|copy| {
            let state = if copy.whole { "" } else { ", not whole: it comes from other nodes" };
            format!(
                "  bucket {:5}  slots {} to {}, epoch {}, offset {}, {} keys and {} entries above{state}",
                copy.bucket, copy.slots.0, copy.slots.1, copy.epoch, copy.offset, copy.keys, copy.log_entries
            )
        }));
        lines.extend(found.files.iter().map(|file| format!("  {:12} {}", file.bytes, file.name)));
    }
    if found.torn {
        lines.push("the log ends with something that was never safe: it is cut at the next start".to_owned());
    }
    lines.extend(found.damage.iter().map(|damage| format!("DAMAGED: {damage}")));
    if found.damage.is_empty() {
        lines.push("every checksum is right".to_owned());
    }
    lines.join("\n")
}

fn summary(copies: &[CopyInfo]) -> String {
    let whole = copies.iter().filter(|copy| copy.whole).count();
    let (keys, entries) =
        (copies.iter().map(|copy| copy.keys).sum::<u64>(), copies.iter().map(|copy| copy.log_entries).sum::<u64>());
    format!("copies       {} buckets, {whole} whole, {keys} keys and {entries} log entries above them", copies.len())
}
