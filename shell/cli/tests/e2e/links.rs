//! Links that are cut while every process runs.

use crate::cluster::{Cluster, wait};
use crate::load::Load;
use crate::proxy::Network;

/// Three nodes that reach each other only through links that can be cut.
fn behind_links() -> (Cluster, Network) {
    let network = Network::default();
    let mut cluster = Cluster::prepare(3, &[]);
    for node in &mut cluster.nodes {
        node.advertised = network.before(node.peer);
    }
    cluster.start_all();
    cluster.wait_until_healthy();
    (cluster, network)
}

fn a_follower(cluster: &Cluster) -> usize {
    let leader = cluster.leader();
    (0..3).find(|&node| node != leader).unwrap()
}

/// The nodes that are not this one see it as absent.
fn wait_until_missed(cluster: &Cluster, missing: usize) {
    let name = cluster.nodes[missing].name.clone();
    for watcher in (0..3).filter(|&node| node != missing) {
        wait("missed", || {
            let status = cluster.status(watcher).unwrap_or_default();
            status["nodes"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|node| node["name"] == name && node["state"] == "absent")
        });
    }
}

#[test]
fn a_node_that_is_cut_off_is_replaced_and_returns() {
    let (cluster, network) = behind_links();
    let load = Load::start("cut", cluster.http());
    let victim = a_follower(&cluster);
    for other in (0..3).filter(|&node| node != victim) {
        network.cut_both_ways(cluster.nodes[victim].advertised, cluster.nodes[other].advertised);
    }
    wait_until_missed(&cluster, victim);
    load.run_for_a_while();
    network.mend();
    cluster.wait_until_healthy();
    load.end();
}

#[test]
fn a_node_that_is_not_heard_is_replaced_and_returns() {
    let (cluster, network) = behind_links();
    let load = Load::start("one-way", cluster.http());
    let victim = a_follower(&cluster);
    for other in (0..3).filter(|&node| node != victim) {
        network.cut(cluster.nodes[victim].advertised, cluster.nodes[other].advertised);
    }
    wait_until_missed(&cluster, victim);
    load.run_for_a_while();
    network.mend();
    cluster.wait_until_healthy();
    load.end();
}

#[test]
fn buckets_go_on_when_one_link_between_two_members_is_cut() {
    let (cluster, network) = behind_links();
    let load = Load::start("gray", cluster.http());
    let leader = cluster.leader();
    let others: Vec<usize> = (0..3).filter(|&node| node != leader).collect();
    network.cut_both_ways(cluster.nodes[others[0]].advertised, cluster.nodes[others[1]].advertised);
    // Both still hear the leader: nobody is absent, and yet every bucket must be served.
    for _ in 0..5 {
        load.run_for_a_while();
    }
    network.mend();
    cluster.wait_until_healthy();
    load.end();
}
