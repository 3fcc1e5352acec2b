//! Growing, draining, splitting and restarting under load.

use crate::cluster::{Cluster, wait};
use crate::load::Load;
use crate::plain::Plain;
use std::process::Command;

#[test]
fn a_cluster_grows_to_five_and_shrinks_again_under_load() {
    let mut cluster = Cluster::start(3);
    let load = Load::start("grow", cluster.http());
    cluster.add();
    cluster.add();
    cluster.wait_until_healthy();
    wait_until_level(&cluster, 5);
    load.run_for_a_while();
    let leaving = cluster.nodes[3].name.clone();
    cluster.order("POST", &format!("/v1/cluster/nodes/{leaving}/drain"));
    wait("drained", || {
        let status = cluster.status(0).unwrap_or_default();
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().all(|node| node["name"] != leaving.as_str() || node["state"] == "departed")
    });
    cluster.kill(3);
    cluster.wait_until_healthy();
    load.end();
    // It is listed until somebody has it forgotten, by all nodes at once.
    let listed = |node: usize| {
        let status = cluster.status(node).unwrap_or_default();
        status["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(|node| node["name"] == leaving.as_str()))
    };
    let at = format!("http://{}", cluster.nodes[0].http);
    let forget = |name: &str| {
        Command::new(env!("CARGO_BIN_EXE_atoll")).args(["forget", name, "--server", &at]).output().unwrap()
    };
    wait("listed by all", || [0, 1, 2, 4].into_iter().all(listed));
    let refused = forget("n2");
    assert!(!refused.status.success(), "one that is present is not forgotten: {refused:?}");
    let forgotten = forget(&leaving);
    assert!(forgotten.status.success(), "{forgotten:?}");
    assert!(String::from_utf8_lossy(&forgotten.stdout).contains("forgotten, by 4 nodes"), "{forgotten:?}");
    assert!([0, 1, 2, 4].into_iter().all(|node| !listed(node)), "nobody lists it");
    assert!(!forget(&leaving).status.success(), "there is nothing left to forget");
    cluster.wait_until_healthy();
}

#[test]
fn no_request_fails_while_a_cluster_grows_and_shrinks_again() {
    let mut cluster = Cluster::start(3);
    let plain = Plain::start(&cluster.nodes.iter().map(|node| node.resp).collect::<Vec<_>>());
    let new = cluster.add();
    wait_until_level(&cluster, 4);
    cluster.order("POST", "/v1/cluster/split");
    wait("split", || cluster.status(0).is_some_and(|status| status["buckets"] == 128));
    let leaving = cluster.nodes[new].name.clone();
    cluster.order("POST", &format!("/v1/cluster/nodes/{leaving}/drain"));
    wait_until_level(&cluster, 3);
    assert!(plain.end() > 1000, "there was load all the time");
}

/// Nothing moves, and so many nodes are primaries of as many buckets each, give or take one.
fn wait_until_level(cluster: &Cluster, nodes: usize) {
    wait("level", || {
        let status = cluster.status(0).unwrap_or_default();
        let listed = status["nodes"].as_array().cloned().unwrap_or_default();
        let present = listed.iter().filter(|node| node["state"] == "present");
        let primaries: Vec<u64> = present.filter_map(|node| node["primaries"].as_u64()).collect();
        status["moves"].as_array().is_some_and(Vec::is_empty)
            && primaries.len() == nodes
            && primaries.iter().max().unwrap() - primaries.iter().min().unwrap() <= 1
    });
}

#[test]
fn buckets_split_under_load() {
    let cluster = Cluster::start(3);
    let load = Load::start("split", cluster.http());
    cluster.order("POST", "/v1/cluster/split");
    wait("split", || cluster.status(0).is_some_and(|status| status["buckets"] == 128));
    load.run_for_a_while();
    cluster.order("POST", "/v1/cluster/split?bucket=0");
    wait("split", || cluster.status(0).is_some_and(|status| status["buckets"] == 129));
    cluster.wait_until_healthy();
    load.end();
}

fn rolling_restart(nodes: usize) {
    let mut cluster = Cluster::start(3);
    for _ in 3..nodes {
        cluster.add();
    }
    cluster.wait_until_healthy();
    let load = Load::start("rolling", cluster.http());
    for node in 0..nodes {
        cluster.stop(node);
        cluster.start_node(node);
        cluster.wait_until_healthy();
    }
    // Each handed over what it was primary of, and nobody asked for a rebalance.
    wait_until_level(&cluster, nodes);
    load.end();
}

#[test]
fn three_nodes_restart_one_by_one_under_load() {
    rolling_restart(3);
}

#[test]
fn five_nodes_restart_one_by_one_under_load() {
    rolling_restart(5);
}
