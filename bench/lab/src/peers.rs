//! Clusters of three nodes that can be put under load: Atoll and the others, each in its own file.
//!
//! A load goes where each does best: to the master, or to the leader, so that no other node has to pass it on.

pub(crate) mod atoll;
pub(crate) mod bare;
pub(crate) mod consul;
pub(crate) mod etcd;
pub(crate) mod nats;
pub(crate) mod rabbitmq;
pub(crate) mod redis;
pub(crate) mod rqlite;
pub(crate) mod zookeeper;

use crate::load::{Kind, Load, Target};
use crate::servers::{Place, Servers};
use anyhow::Context;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

/// Where everything is that a cluster is made of.
#[derive(Clone, Debug)]
pub(crate) struct Workshop {
    pub(crate) store: crate::packages::Store,
    /// On the disk that durable writes are measured on.
    pub(crate) scratch: PathBuf,
    /// The binary `atoll`.
    pub(crate) atoll: PathBuf,
}

#[derive(Debug)]
pub(crate) struct Cluster {
    /// With its version and what a write is acknowledged by.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Where it does best.
    pub(crate) targets: Vec<Target>,
    /// Of every node, for clients that must find another one.
    pub(crate) addresses: Vec<String>,
    pub(crate) servers: Servers,
    /// Which of the servers leads.
    pub(crate) leader: usize,
}

impl Cluster {
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.servers.pids()
    }

    pub(crate) fn load(&self) -> Load {
        Load::new(self.kind, self.targets.clone(), &self.pids())
    }

    /// Writers that know all nodes and give up on one soon.
    pub(crate) fn roaming_load(&self) -> Load {
        let mut load = Load::new(self.kind, vec![Target::any(&self.addresses)], &self.pids());
        load.connections = 16;
        load.timeout = Duration::from_millis(300);
        load
    }
}

/// The others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Redis,
    Valkey,
    Etcd,
    Nats,
    ZooKeeper,
    Consul,
    RabbitMq,
    Rqlite,
    OpenRaft,
    RaftRs,
    OmniPaxos,
}

impl Peer {
    pub(crate) const ALL: &[Peer] = &[
        Peer::Redis,
        Peer::Valkey,
        Peer::OpenRaft,
        Peer::RaftRs,
        Peer::OmniPaxos,
        Peer::Nats,
        Peer::ZooKeeper,
        Peer::Etcd,
        Peer::Consul,
        Peer::Rqlite,
        Peer::RabbitMq,
    ];
    /// Those of a quick run.
    pub(crate) const QUICK: &[Peer] = &[Peer::Redis, Peer::Etcd, Peer::Nats];

    /// As its package is stored.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Peer::Redis => "redis",
            Peer::Valkey => "valkey",
            Peer::Etcd => "etcd",
            Peer::Nats => "nats",
            Peer::ZooKeeper => "zookeeper",
            Peer::Consul => "consul",
            Peer::RabbitMq => "rabbitmq",
            Peer::Rqlite => "rqlite",
            Peer::OpenRaft => "openraft",
            Peer::RaftRs => "raft-rs",
            Peer::OmniPaxos => "omnipaxos",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Peer::Redis => "Redis",
            Peer::Valkey => "Valkey",
            Peer::Etcd => "etcd",
            Peer::Nats => "JetStream R3",
            Peer::ZooKeeper => "ZooKeeper",
            Peer::Consul => "Consul",
            Peer::RabbitMq => "RabbitMQ quorum queue",
            Peer::Rqlite => "rqlite",
            Peer::OpenRaft => "bare store on openraft",
            Peer::RaftRs => "bare store on raft-rs",
            Peer::OmniPaxos => "bare store on omnipaxos",
        }
    }

    /// Three nodes that serve. In memory each acknowledges what all or a majority have; on a disk, what they synced.
    pub(crate) fn start(self, workshop: &Workshop, place: Place) -> anyhow::Result<Cluster> {
        match self {
            Peer::Redis => redis::start(workshop, "redis", place),
            Peer::Valkey => redis::start(workshop, "valkey", place),
            Peer::Etcd => etcd::start(workshop, place),
            Peer::Nats => nats::start(workshop, place, nats::Keeps::Log),
            Peer::ZooKeeper => zookeeper::start(workshop, place),
            Peer::Consul => consul::start(workshop, place),
            Peer::RabbitMq => rabbitmq::start(workshop, place),
            Peer::Rqlite => rqlite::start(workshop, place),
            Peer::OpenRaft | Peer::RaftRs | Peer::OmniPaxos => bare::start(workshop, self.package(), place),
        }
        .with_context(|| format!("{} does not start", self.title()))
    }
}

/// Says something on a connection of its own and gives what comes back first.
pub(crate) fn ask(address: &str, words: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(3)))?;
    stream.write_all(words.as_bytes())?;
    let mut answer = vec![0; 64 << 10];
    let length = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}
