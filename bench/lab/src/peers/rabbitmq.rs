//! RabbitMQ: three nodes and one quorum queue; messages are published with confirms. It always syncs its log; in memory
//! that log is on a file system in memory.
//!
//! Its scripts know where their files are, so the unpacked packages are its whole world: a root of its own, which only
//! the superuser may give, in namespaces that end with it, since it leaves a daemon behind.

use super::{Cluster, Workshop};
use crate::load::{self, Kind, Load, Target};
use crate::servers::{Place, Servers, addresses, free_ports};
use anyhow::{Context, ensure};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

/// Set by `bench/run-lab` where it could make namespaces.
const ALONE: &str = "ATOLL_LAB_NAMESPACES";

pub(crate) fn start(workshop: &Workshop, place: Place) -> anyhow::Result<Cluster> {
    ensure!(std::env::var_os(ALONE).is_some(), "it needs namespaces of its own, and so the superuser");
    let root = workshop.store.root("rabbitmq");
    let version = fs::read_dir(root.join("usr/lib/rabbitmq/lib")).context("its package did not come")?;
    let version = version
        .flatten()
        .find_map(|entry| Some(entry.file_name().to_str()?.strip_prefix("rabbitmq_server-")?.to_owned()));
    furnish(&root)?;
    let mut servers = Servers::new(place, &workshop.scratch)?;
    let ports = free_ports(6)?;
    let (clients, peers) = ports.split_at(3);
    let data = servers.folder("data")?;
    let members: Vec<String> = (1..=3)
        .map(|number| format!("cluster_formation.classic_config.nodes.{number} = n{number}@localhost\n"))
        .collect();
    for (index, client) in clients.iter().enumerate() {
        let name = format!("n{}", index + 1);
        servers.folder(&format!("data/{name}"))?;
        let config = format!(
            "listeners.tcp.1 = 127.0.0.1:{client}\ncluster_formation.peer_discovery_backend = classic_config\n{}\
             log.console.level = error\nlog.file = false\nvm_memory_high_watermark.absolute = 6GB\n",
            members.concat()
        );
        fs::write(data.join(format!("{name}.conf")), config)?;
        let mut command = within(&root, &data, &name, "/usr/lib/rabbitmq/bin/rabbitmq-server");
        command.env("RABBITMQ_DIST_PORT", peers[index].to_string());
        servers.start(&name, &mut command)?;
    }
    servers.wait_for_ports(clients)?;
    let mut wait = within(&root, &data, "n1", "/usr/lib/rabbitmq/bin/rabbitmqctl");
    wait.args(["-q", "await_online_nodes", "3"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    ensure!(wait.status()?.success(), "the nodes do not find each other");
    let addresses = addresses(clients);
    // Whoever declares the queue is connected to the node that will lead it.
    let cluster = Cluster {
        name: format!("RabbitMQ {} quorum queue", version.unwrap_or_default()),
        kind: Kind::Amqp,
        targets: vec![Target::any(&addresses[..1])],
        addresses,
        servers,
        leader: 0,
    };
    let warm = load::run(Load { seconds: 2.0, ..cluster.load() })?;
    ensure!(warm.operations > 0, "it takes no messages: {}", warm.first_error);
    Ok(cluster)
}

/// What a system has and packages leave to it.
fn furnish(root: &Path) -> anyhow::Result<()> {
    for folder in ["proc", "dev", "lab", "root", "tmp", "etc"] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::write(root.join("etc/hosts"), "127.0.0.1 localhost\n")?;
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    let cookie = root.join("root/.erlang.cookie");
    if !cookie.exists() {
        fs::write(&cookie, format!("lab{}", std::process::id()))?;
        fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400))?;
    }
    let _ = symlink("mawk", root.join("usr/bin/awk"));
    Ok(())
}

/// A program that sees the unpacked packages as its system, and the data of this cluster at `/lab`.
fn within(root: &Path, data: &Path, name: &str, program: &str) -> Command {
    let script = "mount -t proc proc \"$1/proc\" && mount --bind /dev \"$1/dev\" && mount --bind \"$2\" \"$1/lab\" && \
                  shift 2 && exec chroot \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", script, "within"]).arg(root).arg(data).arg(root).arg(program);
    command.env_clear().env("HOME", "/root").env("PATH", "/usr/bin:/usr/sbin:/bin:/sbin").env("LANG", "C.UTF-8");
    command.env("ERL_EPMD_ADDRESS", "127.0.0.1").env("RABBITMQ_NODENAME", format!("{name}@localhost"));
    command.env("RABBITMQ_CONFIG_FILE", format!("/lab/{name}.conf"));
    for (variable, file) in
        [("MNESIA_BASE", ""), ("LOG_BASE", ""), ("ENABLED_PLUGINS_FILE", "/plugins"), ("PID_FILE", "/pid")]
    {
        command.env(format!("RABBITMQ_{variable}"), format!("/lab/{name}{file}"));
    }
    // So its script makes way for the virtual machine, and the process that was begun is the server.
    command.env("RUNNING_UNDER_SYSTEMD", "true");
    command
}
