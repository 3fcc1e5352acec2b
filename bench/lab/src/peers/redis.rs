//! Redis and Valkey: a master and two replicas. `WAIT 2` makes a write wait until both replicas have it in memory,
//! `WAITAOF 1 2` until all three have it on disk.

use super::{Cluster, Workshop, ask};
use crate::load::{Kind, Target};
use crate::servers::{Place, Servers, addresses, free_ports};

pub(crate) fn start(workshop: &Workshop, flavour: &str, place: Place) -> anyhow::Result<Cluster> {
    let program = workshop.store.program(flavour, &format!("{flavour}-server"))?;
    let mut servers = Servers::new(place, &workshop.scratch)?;
    let ports = free_ports(3)?;
    for (index, port) in ports.iter().enumerate() {
        let mut command = program.command();
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string(), "--dir"]);
        command.arg(servers.folder(&format!("n{index}"))?);
        match place {
            Place::Memory => command.args(["--appendonly", "no"]),
            Place::Disk => command.args(["--appendonly", "yes", "--appendfsync", "always"]),
        };
        if index > 0 {
            command.args(["--replicaof", "127.0.0.1", &ports[0].to_string()]);
        }
        servers.start(&format!("n{index}"), &mut command)?;
    }
    servers.wait_for_ports(&ports)?;
    let addresses = addresses(&ports);
    let is_synced = || ask(&addresses[0], "WAIT 2 500\r\n").is_ok_and(|answer| answer.starts_with(":2"));
    servers.wait("both replicas follow", 60, is_synced)?;
    let (kind, how) = match place {
        Place::Memory => (Kind::RespWait, "WAIT 2"),
        Place::Disk => (Kind::RespWaitaof, "WAITAOF 1 2"),
    };
    Ok(Cluster {
        name: format!("{flavour} {} {how}", program.version()),
        kind,
        targets: vec![Target::any(&addresses[..1])],
        addresses,
        servers,
        leader: 0,
    })
}

/// Watches the master and makes a replica master when it is gone. Its clients ask each node in turn.
pub(crate) fn add_sentinels(cluster: &mut Cluster, workshop: &Workshop, after_ms: u32) -> anyhow::Result<()> {
    let program = workshop.store.program("redis", "redis-server")?;
    let master = cluster.addresses[0].rsplit(':').next().unwrap_or_default().to_owned();
    let ports = free_ports(3)?;
    for port in &ports {
        let folder = cluster.servers.folder(&format!("sentinel{port}"))?;
        let config = folder.join("sentinel.conf");
        let text = format!(
            "bind 127.0.0.1\nport {port}\ndir {}\nsentinel monitor lab 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds lab {after_ms}\nsentinel failover-timeout lab 10000\n",
            folder.display()
        );
        std::fs::write(&config, text)?;
        cluster.servers.start(&format!("sentinel{port}"), program.command().arg(&config).arg("--sentinel"))?;
    }
    cluster.servers.wait_for_ports(&ports)?;
    let knows = |port: &u16| {
        let answer = ask(&format!("127.0.0.1:{port}"), "SENTINEL MASTER lab\r\n").unwrap_or_default();
        let field = |name: &str| answer.split("\r\n").skip_while(|line| *line != name).nth(2).map(str::to_owned);
        field("num-other-sentinels").as_deref() == Some("2") && field("num-slaves").as_deref() == Some("2")
    };
    cluster.servers.wait("the sentinels know each other", 30, || ports.iter().all(knows))?;
    // What is left once the master is dead: one replica to wait for.
    cluster.kind = Kind::RespWaitOne;
    cluster.name = format!("{} with sentinels ({after_ms} ms)", cluster.name);
    Ok(())
}
