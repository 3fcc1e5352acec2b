//! NATS JetStream: three servers and a stream of three replicas, in memory or in files that are synced at every write.

use super::{Cluster, Workshop};
use crate::load::{Kind, Target, nats::SUBJECT};
use crate::servers::{Place, Servers, addresses, free_ports};
use anyhow::{Context, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What the stream keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// The last two million messages.
    Log,
    /// The last message of each subject: a key-value store.
    Keys,
}

pub(crate) fn start(workshop: &Workshop, place: Place, keeps: Keeps) -> anyhow::Result<Cluster> {
    let program = workshop.store.program("nats", "nats-server")?;
    let mut servers = Servers::new(place, &workshop.scratch)?;
    let ports = free_ports(6)?;
    let (clients, peers) = ports.split_at(3);
    let routes: Vec<String> = peers.iter().map(|port| format!("nats-route://127.0.0.1:{port}")).collect();
    let sync = match place {
        Place::Memory => "2m",
        Place::Disk => "always",
    };
    for index in 0..3 {
        let folder = servers.folder(&format!("n{index}"))?;
        let config = folder.join("nats.conf");
        let text = format!(
            "server_name: n{index}\nlisten: 127.0.0.1:{}\n\
             jetstream {{ store_dir: \"{}\", max_mem: 8G, max_file: 20G, sync_interval: {sync} }}\n\
             cluster {{ name: lab, listen: 127.0.0.1:{}, routes: [{}] }}\n",
            clients[index],
            folder.display(),
            peers[index],
            routes.join(", ")
        );
        std::fs::write(&config, text)?;
        servers.start(&format!("n{index}"), program.command().arg("-c").arg(&config))?;
    }
    servers.wait_for_ports(clients)?;
    let addresses = addresses(clients);
    let storage = if place == Place::Memory { "memory" } else { "file" };
    let limit = match keeps {
        Keeps::Log => r#""max_msgs":2000000"#,
        Keeps::Keys => r#""max_msgs_per_subject":1,"allow_direct":true"#,
    };
    let kind = format!(r#""storage":"{storage}","num_replicas":3,"retention":"limits","discard":"old",{limit}"#);
    let stream = format!(r#"{{"name":"LAB","subjects":["{SUBJECT}.>"],{kind}}}"#);
    let create = || request(&addresses[0], "$JS.API.STREAM.CREATE.LAB", &stream).is_ok();
    servers.wait("the stream is made", 60, create)?;
    let mut leader = None;
    servers.wait("all replicas follow", 60, || {
        leader = info(&addresses[0]);
        leader.is_some()
    })?;
    let leader = leader.context("no leader")?;
    let how = if place == Place::Memory { "in memory" } else { "in files, synced at every write" };
    Ok(Cluster {
        name: format!("JetStream {} R3, {how}", program.version()),
        kind: Kind::Nats,
        targets: vec![Target::any(&addresses[leader..=leader])],
        addresses,
        servers,
        leader,
    })
}

/// The leader of the stream, once both others are current.
fn info(address: &str) -> Option<usize> {
    let info = request(address, "$JS.API.STREAM.INFO.LAB", "").ok()?;
    let cluster = &info["cluster"];
    let current = cluster["replicas"].as_array()?.iter().filter(|replica| replica["current"] == true).count();
    let leader = cluster["leader"].as_str()?.strip_prefix('n')?.parse().ok()?;
    (current == 2).then_some(leader)
}

/// One question to JetStream.
fn request(address: &str, subject: &str, body: &str) -> anyhow::Result<Value> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    let inbox = format!("_INBOX.ask{}", std::process::id());
    let length = body.len();
    let options = r#"{"verbose":false,"headers":true,"no_responders":true}"#;
    let words = format!("CONNECT {options}\r\nSUB {inbox} 1\r\nPUB {subject} {inbox} {length}\r\n{body}\r\n");
    writer.write_all(words.as_bytes())?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            bail!("closed");
        }
        if line.starts_with("HMSG") {
            bail!("nobody answers");
        }
        if line.starts_with("MSG") {
            let length: usize = line.trim().rsplit(' ').next().unwrap_or_default().parse()?;
            let mut answer = vec![0; length];
            reader.read_exact(&mut answer)?;
            let answer: Value = serde_json::from_slice(&answer)?;
            if answer["error"].is_object() {
                bail!("{}", answer["error"]);
            }
            return Ok(answer);
        }
    }
}
