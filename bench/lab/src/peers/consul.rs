//! Consul: three servers, asked over HTTP. The distribution has an old release only.

use super::{Cluster, Workshop};
use crate::load::{Kind, Target};
use crate::servers::{Place, Servers, addresses, free_ports, http};
use anyhow::Context;
use serde_json::json;

pub(crate) fn start(workshop: &Workshop, place: Place) -> anyhow::Result<Cluster> {
    let program = workshop.store.program("consul", "consul")?;
    let mut servers = Servers::new(place, &workshop.scratch)?;
    let ports = free_ports(9)?;
    let (clients, servers_ports, gossip) = (&ports[..3], &ports[3..6], &ports[6..]);
    let join: Vec<String> = addresses(gossip);
    for index in 0..3 {
        let folder = servers.folder(&format!("n{index}"))?;
        let config = servers.folder("config")?.join(format!("n{index}.json"));
        let settings = json!({
            "server": true, "bootstrap_expect": 3, "node_name": format!("n{index}"), "data_dir": folder,
            "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1", "log_level": "ERR",
            "retry_join": join, "retry_interval": "1s", "performance": { "raft_multiplier": 1 },
            "limits": { "http_max_conns_per_client": 4096 },
            "ports": { "http": clients[index], "server": servers_ports[index], "serf_lan": gossip[index],
                       "serf_wan": -1, "dns": -1, "grpc": -1 },
        });
        std::fs::write(&config, settings.to_string())?;
        servers.start(&format!("n{index}"), program.command().arg("agent").arg("-config-file").arg(&config))?;
    }
    servers.wait_for_ports(clients)?;
    let addresses = addresses(clients);
    let write = || http(&addresses[0], "PUT", "/v1/kv/ready", "yes").is_ok_and(|answer| answer.trim() == "true");
    servers.wait("it takes writes", 60, write)?;
    let said = http(&addresses[0], "GET", "/v1/status/leader", "")?;
    let leader = servers_ports.iter().position(|port| said.contains(&format!(":{port}\""))).context("no leader")?;
    Ok(Cluster {
        name: format!("Consul {}", program.version()),
        kind: Kind::Consul,
        targets: vec![Target::any(&addresses[leader..=leader])],
        addresses,
        servers,
        leader,
    })
}
