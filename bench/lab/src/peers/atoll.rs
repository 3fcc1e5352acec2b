//! Atoll itself, as processes of their own like the others.

use super::{Cluster, Workshop};
use crate::load::{self, KEYS, Kind, Load, Target, key};
use crate::servers::{Place, Servers, addresses, free_ports, http};
use anyhow::Context;
use atoll_types::HashSlot;
use serde_json::Value;
use std::process::Command;
use std::rc::Rc;

/// Load for so many seconds shows whether a primary is still to follow it.
const SETTLES_IN: f64 = 4.0;
/// So often, at the most.
const SETTLES_AFTER: usize = 5;

/// How a cluster of Atoll is set up.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) nodes: usize,
    pub(crate) buckets: u16,
    pub(crate) place: Place,
    pub(crate) flags: Vec<String>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { nodes: 3, buckets: 64, place: Place::Memory, flags: Vec::new() }
    }
}

/// A cluster, and what only Atoll is asked for.
#[derive(Debug)]
pub(crate) struct Atoll {
    pub(crate) cluster: Cluster,
    pub(crate) http: Vec<String>,
    joins: String,
    ports: Vec<u16>,
}

/// A bucket's slots, and the index of its primary.
#[derive(Clone, Debug)]
struct Bucket {
    first: u64,
    last: u64,
    primary: usize,
}

pub(crate) fn start(workshop: &Workshop, setup: &Setup) -> anyhow::Result<Atoll> {
    let mut servers = Servers::new(setup.place, &workshop.scratch)?;
    // One more set than nodes: somebody may arrive later.
    let ports = free_ports((setup.nodes + 1) * 3)?;
    let joins: Vec<String> = (0..setup.nodes).map(|index| format!("127.0.0.1:{}", ports[index * 3])).collect();
    let joins = joins.join(",");
    for index in 0..setup.nodes {
        launch(workshop, setup, &mut servers, index, &ports, &joins, index < 3)?;
    }
    let of = |offset: usize| addresses(&(0..setup.nodes).map(|index| ports[index * 3 + offset]).collect::<Vec<_>>());
    let (http, resp) = (of(1), of(2));
    let mut atoll = Atoll {
        cluster: Cluster {
            name: "Atoll".to_owned(),
            kind: Kind::Resp,
            targets: vec![Target::any(&resp[..1])],
            addresses: resp,
            servers,
            leader: 0,
        },
        http,
        joins,
        ports,
    };
    atoll.settle(setup.nodes)?;
    atoll.cluster.leader = atoll.leader()?;
    Ok(atoll)
}

fn launch(
    workshop: &Workshop,
    setup: &Setup,
    servers: &mut Servers,
    index: usize,
    ports: &[u16],
    joins: &str,
    founds: bool,
) -> anyhow::Result<()> {
    let at = addresses(&ports[index * 3..index * 3 + 3]);
    let name = format!("n{}", index + 1);
    let mut command = Command::new(&workshop.atoll);
    command.env("ATOLL_LOG", "error").args(["serve", "--name", &name, "--join", joins]);
    command.args(["--peer", &at[0], "--http", &at[1], "--resp", &at[2], "--max-clients", "20000"]);
    command.args(["--buckets", &setup.buckets.to_string()]);
    if founds {
        let founders: Vec<String> = (1..=setup.nodes.min(3)).map(|number| format!("n{number}")).collect();
        command.args(["--bootstrap", &founders.join(",")]);
    }
    if setup.place == Place::Disk {
        command.arg("--data-dir").arg(servers.folder(&name)?);
    }
    command.args(&setup.flags);
    servers.start(&name, &mut command)
}

impl Atoll {
    fn settle(&self, nodes: usize) -> anyhow::Result<()> {
        self.cluster.servers.wait("healthy", 180, || self.is_settled(nodes))
    }

    /// Healthy, nothing moves, and every node has its part of the work, to within one bucket.
    pub(crate) fn is_settled(&self, nodes: usize) -> bool {
        let Ok(status) = self.status() else { return false };
        let list = status["nodes"].as_array().map_or(&[][..], Vec::as_slice);
        let present: Vec<&Value> = list.iter().filter(|node| node["state"] == "present").collect();
        let idle = status["moves"].as_array().is_some_and(Vec::is_empty);
        let copies = || present.iter().filter_map(|node| node["copies"].as_u64());
        let is_even = copies().max().unwrap_or(0) <= copies().min().unwrap_or(0) + 1;
        status["healthy"] == true && idle && present.len() == nodes && is_even
    }

    fn status(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&http(&self.http[0], "GET", "/v1/cluster", "")?)?)
    }

    /// The load of a client that knows one node, once primaries have come to where its requests come in.
    pub(crate) fn settled_load(&self) -> anyhow::Result<Load> {
        let load = Load { seconds: SETTLES_IN, ..self.cluster.load() };
        for _ in 0..SETTLES_AFTER {
            let before = self.table_version()?;
            load::run(load.clone())?;
            if self.table_version()? == before {
                return Ok(self.cluster.load());
            }
        }
        anyhow::bail!("primaries do not come to rest")
    }

    fn table_version(&self) -> anyhow::Result<u64> {
        self.status()?["table_version"].as_u64().context("no version of the table")
    }

    /// The index of the node that leads the cluster log.
    pub(crate) fn leader(&self) -> anyhow::Result<usize> {
        let status = self.status()?;
        index_of(&status["government"]["leader"]).context("no leader")
    }

    pub(crate) fn aware_targets(&self) -> anyhow::Result<Vec<Target>> {
        aware_targets(&self.http[0], &self.cluster.addresses)
    }

    /// For each node the keys that it is not primary of: every request is passed on.
    pub(crate) fn wrong_targets(&self) -> anyhow::Result<Vec<Target>> {
        targets(&self.http[0], &self.cluster.addresses, |primary, node| primary != node)
    }

    /// Keys of buckets that this node is primary of, asked for anywhere: all of them pause when it is gone.
    pub(crate) fn hit_target(&self, victim: usize) -> anyhow::Result<Target> {
        let buckets = buckets(&self.http[0])?;
        let keys: Vec<String> = (0..KEYS).map(key).filter(|key| primary_of(&buckets, key) == Some(victim)).collect();
        Ok(Target { addresses: self.cluster.addresses.clone(), keys: Rc::new(keys) })
    }

    /// One more node, which is given its part of the buckets. Does not wait for that.
    pub(crate) fn add_node(&mut self, workshop: &Workshop, setup: &Setup) -> anyhow::Result<()> {
        let joins = self.joins.clone();
        launch(workshop, setup, &mut self.cluster.servers, setup.nodes, &self.ports, &joins, false)
    }
}

fn buckets(http_address: &str) -> anyhow::Result<Vec<Bucket>> {
    let list: Value = serde_json::from_str(&http(http_address, "GET", "/v1/cluster/buckets", "")?)?;
    let read = |bucket: &Value| {
        let (first, last) = (bucket["slots"][0].as_u64()?, bucket["slots"][1].as_u64()?);
        Some(Bucket { first, last, primary: index_of(&bucket["primary"])? })
    };
    let list = list.as_array().context("no list of buckets")?;
    Ok(list.iter().filter_map(read).collect())
}

/// For each of the nodes at these addresses, in the order of their names, the keys that it is primary of: what a client
/// does that knows the slot map.
pub(crate) fn aware_targets(http_address: &str, addresses: &[String]) -> anyhow::Result<Vec<Target>> {
    targets(http_address, addresses, |primary, node| primary == node)
}

fn targets(
    http_address: &str,
    addresses: &[String],
    takes: impl Fn(usize, usize) -> bool,
) -> anyhow::Result<Vec<Target>> {
    let buckets = buckets(http_address)?;
    let mut keys = vec![Vec::new(); addresses.len()];
    for number in 0..KEYS {
        let key = key(number);
        let Some(primary) = primary_of(&buckets, &key) else { continue };
        for (_, list) in keys.iter_mut().enumerate().filter(|(node, _)| takes(primary, *node)) {
            list.push(key.clone());
        }
    }
    let pairs = addresses.iter().zip(keys).filter(|(_, keys)| !keys.is_empty());
    Ok(pairs.map(|(address, keys)| Target { addresses: vec![address.clone()], keys: Rc::new(keys) }).collect())
}

fn primary_of(buckets: &[Bucket], key: &str) -> Option<usize> {
    let slot = u64::from(HashSlot::of(key.as_bytes()).0);
    buckets.iter().find(|bucket| (bucket.first..=bucket.last).contains(&slot)).map(|bucket| bucket.primary)
}

/// From a node's name: `n1` is the first.
fn index_of(name: &Value) -> Option<usize> {
    name.as_str()?.strip_prefix('n')?.parse::<usize>().ok()?.checked_sub(1)
}
