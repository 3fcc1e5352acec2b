//! Processes that die, freeze, or all stop.

use crate::cluster::{Cluster, wait};
use crate::load::Load;

/// A node that is primary of something and does not lead, and so a bucket changes hands without an election.
fn a_follower(cluster: &Cluster) -> usize {
    let leader = cluster.leader();
    cluster.running().into_iter().find(|&node| node != leader).unwrap()
}

#[test]
fn a_killed_primary_is_replaced_and_may_return() {
    let mut cluster = Cluster::start(3);
    let load = Load::start("primary", cluster.http());
    let victim = a_follower(&cluster);
    load.watch_gap();
    cluster.kill(victim);
    load.run_for_a_while();
    cluster.start_node(victim);
    cluster.wait_until_healthy();
    let ended = load.end();
    assert!(ended.writes > 0);
    println!("longest gap {:?}", ended.longest_gap);
}

#[test]
fn a_killed_leader_is_replaced() {
    let mut cluster = Cluster::start(3);
    let load = Load::start("leader", cluster.http());
    let leader = cluster.leader();
    load.watch_gap();
    cluster.kill(leader);
    load.run_for_a_while();
    cluster.start_node(leader);
    cluster.wait_until_healthy();
    let ended = load.end();
    println!("longest gap {:?}", ended.longest_gap);
}

#[test]
fn five_nodes_survive_two() {
    let mut cluster = Cluster::start(3);
    cluster.add();
    cluster.add();
    cluster.wait_until_healthy();
    let load = Load::start("two", cluster.http());
    let first = a_follower(&cluster);
    cluster.kill(first);
    // The second one only when no bucket depends on it alone: in memory nothing survives the loss of all its copies.
    cluster.wait_until_healthy();
    let second = cluster.leader();
    cluster.kill(second);
    cluster.wait_until_healthy();
    load.end();
}

#[test]
fn a_frozen_node_is_replaced_and_returns() {
    let cluster = Cluster::start(3);
    let load = Load::start("frozen", cluster.http());
    let victim = a_follower(&cluster);
    load.watch_gap();
    cluster.freeze(victim);
    let others: Vec<&str> = cluster
        .nodes
        .iter()
        .enumerate()
        .filter(|(node, _)| *node != victim)
        .map(|(_, node)| node.name.as_str())
        .collect();
    wait("absent", || {
        let watcher = cluster.running().into_iter().find(|&node| node != victim).unwrap();
        let status = cluster.status(watcher).unwrap_or_default();
        let present = status["nodes"].as_array().into_iter().flatten().filter(|node| node["state"] == "present");
        present.filter_map(|node| node["name"].as_str()).eq(others.iter().copied())
    });
    load.run_for_a_while();
    cluster.thaw(victim);
    cluster.wait_until_healthy();
    let ended = load.end();
    println!("longest gap {:?}", ended.longest_gap);
}

#[test]
fn a_whole_cluster_stops_when_it_is_told_to() {
    let mut cluster = Cluster::start(3);
    let load = Load::start("stop", cluster.http());
    load.end();
    for node in cluster.running() {
        cluster.stop(node);
    }
}
