//! Nodes with disks: whatever is killed or switched off comes back with everything that was acknowledged.

use crate::cluster::{Cluster, wait};
use crate::http;
use crate::load::Load;
use crate::ports::free_address;

#[test]
fn all_nodes_killed_at_once_ten_times_lose_nothing() {
    let mut cluster = Cluster::start_durable(3);
    let load = Load::start("power", cluster.http());
    let ids = cluster.ids();
    for round in 0..10 {
        (0..3).for_each(|node| cluster.kill(node));
        // In whatever order they come back.
        (0..3).for_each(|node| cluster.start_node((node + round) % 3));
        cluster.wait_until_healthy();
        load.run_for_a_while();
    }
    assert_eq!(cluster.ids(), ids, "they are who they were");
    load.end();
}

#[test]
fn a_killed_node_comes_back_as_itself() {
    let mut cluster = Cluster::start_durable(3);
    let load = Load::start("itself", cluster.http());
    let ids = cluster.ids();
    for node in 0..3 {
        cluster.kill(node);
        load.run_for_a_while();
        cluster.start_node(node);
        cluster.wait_until_healthy();
    }
    assert_eq!(cluster.ids(), ids);
    load.end();
}

#[test]
fn durable_nodes_restart_one_by_one_under_load() {
    let mut cluster = Cluster::start_durable(3);
    let load = Load::start("rolling-disk", cluster.http());
    let ids = cluster.ids();
    for node in 0..3 {
        cluster.stop(node);
        cluster.start_node(node);
        cluster.wait_until_healthy();
    }
    assert_eq!(cluster.ids(), ids);
    load.end();
}

#[test]
fn a_node_whose_log_is_damaged_arrives_anew() {
    let mut cluster = Cluster::start_durable(3);
    let load = Load::start("damaged", cluster.http());
    let ids = cluster.ids();
    cluster.kill(1);
    cluster.spoil_log(1);
    cluster.start_node(1);
    cluster.wait_until_healthy();
    assert_ne!(cluster.ids()["n2"], ids["n2"], "it does not vote from a guess");
    load.end();
}

/// So many writes are counted, and not how long it was away: a log keeps what fits it, whatever the time.
#[test]
fn a_restarted_node_catches_up_from_where_it_was() {
    const MISSED: usize = 300;
    let mut cluster = Cluster::start_durable(3);
    Load::start("position", cluster.http()).end();
    cluster.kill(2);
    for number in 0..MISSED {
        let path = format!("/v1/kv/missed-{}", number % 30);
        wait("written", || {
            http::send(cluster.nodes[0].http, "PUT", &path, &[], b"missed").is_ok_and(|r| r.status == 200)
        });
    }
    cluster.start_node(2);
    cluster.wait_until_healthy();
    let copied = cluster.metric(2, "atoll_disk_copied_total");
    assert_eq!(copied, Some(0.0), "no bucket was sent to it as a whole");
    for number in 0..30 {
        let path = format!("/v1/kv/missed-{number}?consistency=stale");
        let has = || http::get(cluster.nodes[2].http, &path).is_ok_and(|reply| reply.body == b"missed");
        wait("caught up", has);
    }
    Load::start("after", cluster.http()).end();
}

#[test]
fn a_node_that_departed_meanwhile_arrives_anew() {
    let mut cluster = Cluster::start_durable(3);
    let load = Load::start("departed", cluster.http());
    let ids = cluster.ids();
    cluster.kill(2);
    cluster.order("DELETE", "/v1/cluster/nodes/n3");
    wait("departed", || !cluster.ids().contains_key("n3"));
    load.run_for_a_while();
    cluster.start_node(2);
    cluster.wait_until_healthy();
    assert!(cluster.ids()["n3"] > ids["n3"], "an id never comes back");
    load.end();
}

#[test]
fn a_node_comes_back_with_other_ports() {
    let mut cluster = Cluster::start_durable(3);
    let load = Load::start("ports", cluster.http());
    let ids = cluster.ids();
    cluster.kill(1);
    let (peer, http, resp) = (free_address(), free_address(), free_address());
    let place = &mut cluster.nodes[1];
    (place.peer, place.advertised, place.http, place.resp) = (peer, peer, http, resp);
    cluster.start_node(1);
    cluster.wait_until_healthy();
    wait("known where it is", || {
        let status = cluster.status(0).unwrap_or_default();
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        nodes
            .iter()
            .any(|node| node["name"] == "n2" && node["http"] == http.to_string() && node["resp"] == resp.to_string())
    });
    assert_eq!(cluster.ids(), ids);
    load.end();
}

/// Sends it to the first node until it is answered.
fn insist(cluster: &Cluster, method: &str, path: &str, headers: &[(&str, String)], body: &[u8]) -> http::Reply {
    let mut found = None;
    wait("answered", || {
        let reply = http::send(cluster.nodes[0].http, method, path, headers, body);
        found = reply.ok().filter(|reply| ![503, 504].contains(&reply.status));
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn sessions_and_times_to_live_survive_a_stop_of_all() {
    let mut cluster = Cluster::start_durable(3);
    let session = insist(&cluster, "POST", "/v1/sessions", &[], &[]).json()["session"].as_str().unwrap().to_owned();
    let numbered = [("Atoll-Session", session), ("Atoll-Series", "1".to_owned())];
    let first = insist(&cluster, "POST", "/v1/streams/orders", &numbered, b"once");
    assert_eq!(first.status, 200, "{}", first.text());
    insist(&cluster, "PUT", "/v1/kv/short?ttl=2", &[], b"x");
    insist(&cluster, "PUT", "/v1/kv/long?ttl=600", &[], b"x");
    (0..3).for_each(|node| cluster.kill(node));
    [2, 0, 1].into_iter().for_each(|node| cluster.start_node(node));
    cluster.wait_until_healthy();
    let again = insist(&cluster, "POST", "/v1/streams/orders", &numbered, b"once");
    assert_eq!(again.json(), first.json(), "the first answer");
    let stream = insist(&cluster, "GET", "/v1/streams/orders", &[], &[]).json();
    assert_eq!(stream["messages"].as_array().map(Vec::len), Some(1));
    wait("gone in time", || insist(&cluster, "GET", "/v1/kv/short", &[], &[]).status == 404);
    assert_eq!(insist(&cluster, "GET", "/v1/kv/long", &[], &[]).status, 200);
}
