//! `atoll kv`: keys and values.

use crate::Outcome;
use crate::remote::{Server, decoded, encoded};
use crate::show;
use anyhow::Context;
use serde::Deserialize;
use std::io::{Read, Write};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Prints the value of a key; exit code 1 if there is none
    Get {
        key: String,
        /// From any member, perhaps a little old
        #[arg(long)]
        stale: bool,
    },
    /// Writes a value: given here, or read from a file or from standard input
    Put {
        key: String,
        /// `-` reads standard input
        value: Option<String>,
        #[arg(long, value_name = "FILE", conflicts_with = "value")]
        file: Option<PathBuf>,
        /// Seconds until it goes
        #[arg(long, value_name = "SECONDS")]
        ttl: Option<u64>,
        /// Only if the key is not there yet
        #[arg(long)]
        create: bool,
    },
    /// Removes a key; exit code 1 if there is none
    Del { key: String },
    /// Writes a value only if the key still has this ETag
    Cas { key: String, etag: String, value: String },
    /// Lists keys, in order
    Scan {
        #[arg(default_value = "")]
        prefix: String,
        /// At most so many; all, if not said
        #[arg(long)]
        limit: Option<usize>,
        #[arg(long)]
        json: bool,
    },
    /// Prints the changes of a key as they happen
    Watch { key: String },
}

#[derive(Deserialize)]
struct Written {
    etag: String,
    position: String,
}

#[derive(Deserialize)]
struct Scanned {
    keys: Vec<Listed>,
    after: Option<String>,
}

#[derive(Deserialize, serde::Serialize)]
struct Listed {
    key: String,
    etag: String,
}

/// Keys asked for at a time.
const PAGE: usize = 1000;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let server = &arguments.server;
    match &arguments.command {
        Command::Get { key, stale } => get(server, key, *stale),
        Command::Put { key, value, file, ttl, create } => {
            let value = match (value.as_deref(), file) {
                (_, Some(file)) => std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?,
                (Some("-") | None, None) => {
                    let mut bytes = Vec::new();
                    std::io::stdin().read_to_end(&mut bytes)?;
                    bytes
                }
                (Some(value), None) => value.as_bytes().to_vec(),
            };
            let query = ttl.map(|ttl| format!("?ttl={ttl}")).unwrap_or_default();
            let headers: &[(&str, &str)] = if *create { &[("If-None-Match", "*")] } else { &[] };
            put(server, key, &query, headers, &value)
        }
        Command::Del { key } => {
            let reply = server.send("DELETE", &path(key), &[], &[])?;
            match reply.status {
                200 => Ok(Outcome::Done),
                404 => missing(key),
                _ => Err(server.refused(&reply)),
            }
        }
        Command::Cas { key, etag, value } => {
            let etag = format!("\"{}\"", etag.trim_matches('"'));
            put(server, key, "", &[("If-Match", &etag)], value.as_bytes())
        }
        Command::Scan { prefix, limit, json } => scan(server, prefix, limit.unwrap_or(usize::MAX), *json),
        Command::Watch { key } => watch(server, key),
    }
}

fn path(key: &str) -> String {
    format!("/v1/kv/{}", encoded(key.as_bytes()))
}

fn missing(key: &str) -> anyhow::Result<Outcome> {
    eprintln!("atoll: there is no key `{key}`");
    Ok(Outcome::Failed)
}

fn get(server: &Server, key: &str, stale: bool) -> anyhow::Result<Outcome> {
    let query = if stale { "?consistency=stale" } else { "" };
    let reply = server.send("GET", &format!("{}{query}", path(key)), &[], &[])?;
    match reply.status {
        200 => {
            show::bytes(&reply.body)?;
            Ok(Outcome::Done)
        }
        404 => missing(key),
        _ => Err(server.refused(&reply)),
    }
}

fn put(server: &Server, key: &str, query: &str, headers: &[(&str, &str)], value: &[u8]) -> anyhow::Result<Outcome> {
    let reply = server.send("PUT", &format!("{}{query}", path(key)), headers, value)?;
    match reply.status {
        200 => {
            let Written { etag, position } = reply.json()?;
            println!("etag {} position {position}", etag.trim_matches('"'));
            Ok(Outcome::Done)
        }
        412 => {
            let now =
                reply.header("ETag").map(|etag| format!("; it has {}", etag.trim_matches('"'))).unwrap_or_default();
            eprintln!("atoll: `{key}` is not as it should be{now}: nothing was written");
            Ok(Outcome::Failed)
        }
        _ => Err(server.refused(&reply)),
    }
}

fn scan(server: &Server, prefix: &str, mut limit: usize, json: bool) -> anyhow::Result<Outcome> {
    let mut after: Option<String> = None;
    while limit > 0 {
        let page = limit.min(PAGE);
        let resume = after.as_ref().map(|after| format!("&after={after}")).unwrap_or_default();
        let path = format!("/v1/kv?prefix={}&limit={page}{resume}", encoded(prefix.as_bytes()));
        let scanned: Scanned = server.get(&path)?;
        limit -= scanned.keys.len().min(limit);
        for listed in &scanned.keys {
            if json {
                show::line(serde_json::to_string(listed)?.as_bytes())?;
            } else {
                show::line(&decoded(&listed.key))?;
            }
        }
        match scanned.after {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    Ok(Outcome::Done)
}

fn watch(server: &Server, key: &str) -> anyhow::Result<Outcome> {
    show::follow(server, &path(key), |kind, data| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{kind} {data}")?;
        out.flush()?;
        Ok(())
    })
}
