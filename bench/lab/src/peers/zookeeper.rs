//! ZooKeeper: three servers. It always syncs its log; in memory that log is on a file system in memory.

use super::{Cluster, Workshop, ask};
use crate::load::{self, Kind, Load, Target, Work};
use crate::packages::on_path;
use crate::servers::{Place, Servers, addresses, free_ports};
use anyhow::{Context, ensure};
use std::fs;
use std::process::Command;

pub(crate) fn start(workshop: &Workshop, place: Place) -> anyhow::Result<Cluster> {
    ensure!(on_path("java"), "there is no java on the path");
    let jars = workshop.store.root("zookeeper").join("usr/share/java");
    let list = fs::read_dir(&jars).context("its package did not come")?;
    let paths: Vec<_> = list.flatten().map(|entry| entry.path()).collect();
    let version = paths.iter().find_map(|path| {
        let name = path.file_name()?.to_str()?;
        Some(name.strip_prefix("zookeeper-3")?.strip_suffix(".jar")?.to_owned())
    });
    // A logger that says little; the one that says everything on the path as well would be taken at random.
    let is_wanted = |name: &str| {
        let loggers = ["slf4j-api", "slf4j-simple"];
        let versioned = name.trim_end_matches(".jar").rsplit('-').next().unwrap_or_default();
        let has_version = versioned.starts_with(|letter: char| letter.is_ascii_digit()) || versioned == "debian";
        !has_version && (loggers.iter().any(|logger| name.starts_with(logger)) || !is_logger(name))
    };
    let class_path: Vec<String> = paths
        .iter()
        .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_wanted))
        .map(|path| path.display().to_string())
        .collect();
    let mut servers = Servers::new(place, &workshop.scratch)?;
    let ports = free_ports(9)?;
    let clients = &ports[..3];
    let members: Vec<String> = (0..3)
        .map(|index| format!("server.{}=127.0.0.1:{}:{}\n", index + 1, ports[3 + index], ports[6 + index]))
        .collect();
    for (index, client) in clients.iter().enumerate() {
        let folder = servers.folder(&format!("n{index}"))?;
        fs::write(folder.join("myid"), (index + 1).to_string())?;
        let config = servers.folder("config")?.join(format!("n{index}.cfg"));
        let text = format!(
            "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={}\nclientPort={client}\n\
             clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n\
             4lw.commands.whitelist=srvr\n{}",
            folder.display(),
            members.concat()
        );
        fs::write(&config, text)?;
        let mut command = Command::new("java");
        command.args(["-Xmx2g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", &class_path.join(":")]);
        command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(&config);
        servers.start(&format!("n{index}"), &mut command)?;
    }
    servers.wait_for_ports(clients)?;
    let addresses = addresses(clients);
    let mode = |index: usize, mode: &str| {
        ask(&addresses[index], "srvr\n").is_ok_and(|answer| answer.contains(&format!("Mode: {mode}")))
    };
    let follows = |index: usize| mode(index, "follower");
    let leads = || (0..3).find(|&index| mode(index, "leader"));
    servers.wait("a leader and two followers", 60, || {
        (0..3).filter(|&index| follows(index)).count() == 2 && leads().is_some()
    })?;
    let leader = leads().context("no leader")?;
    let cluster = Cluster {
        name: format!("ZooKeeper 3{}", version.unwrap_or_default()),
        kind: Kind::Zookeeper,
        targets: vec![Target::any(&addresses[leader..=leader])],
        addresses,
        servers,
        leader,
    };
    make_nodes(&cluster)?;
    Ok(cluster)
}

fn is_logger(name: &str) -> bool {
    name.starts_with("slf4j") || name.starts_with("log4j") || name.starts_with("jcl-") || name.starts_with("jul-")
}

/// Only a node that is there can be written to. It warms the virtual machines as well.
fn make_nodes(cluster: &Cluster) -> anyhow::Result<()> {
    let mut make: Load = cluster.load();
    make.work = Work::Create;
    make.count = Some(load::KEYS);
    load::run(make)?;
    let mut warm = cluster.load();
    warm.seconds = 4.0;
    load::run(warm)?;
    Ok(())
}
