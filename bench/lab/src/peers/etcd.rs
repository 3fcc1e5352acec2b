//! etcd: three members, asked by gRPC. It always syncs its log; in memory that log is on a file system in memory.

use super::{Cluster, Workshop};
use crate::load::{Kind, Target};
use crate::servers::{Place, Servers, addresses, free_ports, http};
use serde_json::Value;

pub(crate) fn start(workshop: &Workshop, place: Place) -> anyhow::Result<Cluster> {
    let program = workshop.store.program("etcd", "etcd")?;
    let mut servers = Servers::new(place, &workshop.scratch)?;
    let ports = free_ports(6)?;
    let (clients, peers) = ports.split_at(3);
    let all: Vec<String> =
        peers.iter().enumerate().map(|(index, port)| format!("n{index}=http://127.0.0.1:{port}")).collect();
    for index in 0..3 {
        let client = format!("http://127.0.0.1:{}", clients[index]);
        let peer = format!("http://127.0.0.1:{}", peers[index]);
        let mut command = program.command();
        command.args(["--name", &format!("n{index}"), "--initial-cluster", &all.join(","), "--log-level", "error"]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--quota-backend-bytes", "8589934592", "--data-dir"]).arg(servers.folder(&format!("n{index}"))?);
        servers.start(&format!("n{index}"), &mut command)?;
    }
    servers.wait_for_ports(clients)?;
    let addresses = addresses(clients);
    let write = || http(&addresses[0], "POST", "/v3/kv/put", r#"{"key":"cmVhZHk=","value":"eWVz"}"#).is_ok();
    servers.wait("it takes writes", 60, write)?;
    let leader = (0..3).find(|&index| leads(&addresses[index])).unwrap_or(0);
    Ok(Cluster {
        name: format!("etcd {}", program.version()),
        kind: Kind::Etcd,
        targets: vec![Target::any(&addresses[leader..=leader])],
        addresses,
        servers,
        leader,
    })
}

fn leads(address: &str) -> bool {
    let status = http(address, "POST", "/v3/maintenance/status", "{}").unwrap_or_default();
    let status: Value = serde_json::from_str(&status).unwrap_or_default();
    status["leader"].is_string() && status["leader"] == status["header"]["member_id"]
}
