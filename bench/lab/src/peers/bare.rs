//! Stores of three nodes right on a consensus library, in memory: no partitions, no sessions, no routing. They speak
//! RESP and only the leader answers. Their source is somebody else's, and is named by `--bare`: a Cargo package whose
//! program is begun with ENGINE ID PORT PEER,PEER,PEER (ports of this machine).

use super::{Cluster, Workshop, ask};
use crate::load::{Kind, Target};
use crate::servers::{Place, Servers, addresses, free_ports};
use anyhow::{Context, ensure};
use std::process::Command;

pub(crate) fn start(workshop: &Workshop, engine: &str, place: Place) -> anyhow::Result<Cluster> {
    let program = workshop.store.bare();
    ensure!(program.exists(), "there is no program for it: --bare names its source");
    ensure!(place == Place::Memory, "it is in memory only");
    let mut servers = Servers::new(place, &workshop.scratch)?;
    let ports = free_ports(6)?;
    let (clients, peers) = ports.split_at(3);
    let peers: Vec<String> = peers.iter().map(u16::to_string).collect();
    for (index, port) in clients.iter().enumerate() {
        let mut command = Command::new(&program);
        command.args([engine, &(index + 1).to_string(), &port.to_string(), &peers.join(",")]);
        servers.start(&format!("n{index}"), &mut command)?;
    }
    servers.wait_for_ports(clients)?;
    let addresses = addresses(clients);
    let takes_writes = |index: &usize| {
        let set = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
        ask(&addresses[*index], set).is_ok_and(|answer| answer.starts_with("+OK"))
    };
    let leads = || (0..addresses.len()).find(takes_writes);
    servers.wait("a leader that takes writes", 60, || leads().is_some())?;
    // The first leaders may change.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let leader = leads().context("no leader")?;
    Ok(Cluster {
        name: format!("bare store on {engine}"),
        kind: Kind::Resp,
        targets: vec![Target::any(&addresses[leader..=leader])],
        addresses,
        servers,
        leader,
    })
}
