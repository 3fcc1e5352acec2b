//! rqlite: three nodes, Raft under SQLite, asked over HTTP. The distribution does not have it; a package for Node.js
//! has its program, packed by somebody else, which is why it runs as nobody.

use super::{Cluster, Workshop};
use crate::load::{Kind, Target};
use crate::packages::{RQLITE_VERSION, on_path};
use crate::servers::{Place, Servers, addresses, free_ports, http};
use anyhow::{Context, ensure};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

pub(crate) fn start(workshop: &Workshop, place: Place) -> anyhow::Result<Cluster> {
    let program = workshop.store.rqlite();
    ensure!(program.exists(), "its package did not come");
    ensure!(on_path("setpriv"), "there is no setpriv on the path to run it as nobody");
    let mut servers = Servers::new(place, &workshop.scratch)?;
    let ports = free_ports(6)?;
    let (clients, rafts) = ports.split_at(3);
    let join = addresses(rafts).join(",");
    for index in 0..3 {
        let folder = servers.folder(&format!("n{index}"))?;
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777))?;
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "nobody", "--clear-groups"]).arg(&program);
        command.args(["-node-id", &(index + 1).to_string(), "-bootstrap-expect", "3", "-join", &join]);
        command.args(["-http-addr", &addresses(clients)[index], "-raft-addr", &addresses(rafts)[index]]);
        servers.start(&format!("n{index}"), command.arg(folder))?;
    }
    servers.wait_for_ports(clients)?;
    let addresses = addresses(clients);
    let table = r#"["CREATE TABLE IF NOT EXISTS kv (k TEXT PRIMARY KEY, v TEXT)"]"#;
    let is_made =
        || http(&addresses[0], "POST", "/db/execute", table).is_ok_and(|answer| !answer.contains("\"error\""));
    servers.wait("it takes writes", 60, is_made)?;
    let status = http(&addresses[0], "GET", "/status?key=store.leader", "")?;
    let leader = rafts.iter().position(|port| status.contains(&format!(":{port}\""))).context("no leader")?;
    Ok(Cluster {
        name: format!("rqlite {RQLITE_VERSION}"),
        kind: Kind::Rqlite,
        targets: vec![Target::any(&addresses[leader..=leader])],
        addresses,
        servers,
        leader,
    })
}
