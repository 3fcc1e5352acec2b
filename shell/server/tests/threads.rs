//! Nodes as threads of one process: the driver, the peers and the gateway, without any client protocol.

mod common;

use atoll_kv::{Action, Command, Query, Ttl};
use atoll_node::shard::door::Answer;
use atoll_server::{Server, Settings};
use atoll_types::{HashSlot, Payload};
use common::{founders, healthy, ports, start_with, until};

fn command(command: &Command<'_>) -> Payload {
    let mut bytes = vec![atoll_node::store::KV];
    command.encode(&mut bytes);
    bytes.into()
}

fn query(query: &Query<'_>) -> Payload {
    let mut bytes = vec![atoll_node::store::KV];
    query.encode(&mut bytes);
    bytes.into()
}

#[tokio::test]
async fn three_nodes_found_a_cluster_and_any_of_them_takes_a_write() {
    for shards in [1, 2, 3] {
        any_node_takes_a_write(start_with(3, |settings| settings.shards = shards)).await;
    }
}

#[tokio::test]
async fn nodes_may_have_different_numbers_of_shards() {
    let settings = founders(&["n1", "n2", "n3"]).into_iter().zip(1..);
    let servers =
        settings.map(|(settings, shards)| Server::start(Settings { shards, ..settings }).expect("a free port"));
    any_node_takes_a_write(servers.collect()).await;
}

async fn any_node_takes_a_write(servers: Vec<Server>) {
    until("healthy", || servers.iter().all(|server| server.gateway.board().status().healthy)).await;
    for (number, server) in servers.iter().enumerate() {
        let key = format!("key {number}");
        let slot = HashSlot::of(key.as_bytes());
        let put = command(&Command::one(key.as_bytes(), Action::Put { value: b"value", ttl: Ttl::Never }));
        let answer = server.gateway.write(1, slot, put, None).await;
        assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
        for other in &servers {
            let get = query(&Query::Get { key: key.as_bytes() });
            let Answer::Done { payload, .. } = other.gateway.read(2, slot, get).await else { panic!("no answer") };
            let Some(atoll_kv::Answer::Value(Some(found))) = atoll_kv::Answer::decode(payload.as_slice()) else {
                panic!("no value")
            };
            assert_eq!(found.value, b"value");
        }
    }
    servers.into_iter().for_each(Server::kill);
}

#[tokio::test]
async fn a_node_that_is_gone_is_replaced_and_nothing_acknowledged_is_missing() {
    for shards in [1, 2] {
        one_goes(start_with(3, |settings| settings.shards = shards)).await;
    }
}

async fn one_goes(mut servers: Vec<Server>) {
    until("healthy", || servers.iter().all(|server| server.gateway.board().status().healthy)).await;
    for number in 0..64 {
        let key = format!("key {number}");
        let put = command(&Command::one(key.as_bytes(), Action::Put { value: b"value", ttl: Ttl::Never }));
        let answer = servers[0].gateway.write(1, HashSlot::of(key.as_bytes()), put, None).await;
        assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
    }
    servers.remove(1).kill();
    for number in 0..64 {
        let key = format!("key {number}");
        let get = query(&Query::Get { key: key.as_bytes() });
        let answer = servers[0].gateway.read(1, HashSlot::of(key.as_bytes()), get).await;
        let Answer::Done { payload, .. } = answer else { panic!("{answer:?}") };
        let value = atoll_kv::Answer::decode(payload.as_slice());
        assert!(matches!(value, Some(atoll_kv::Answer::Value(Some(_)))), "{key}");
    }
    servers.into_iter().for_each(Server::kill);
}

fn problems(server: &Server) -> String {
    server.gateway.board().status().problems.join("; ")
}

#[tokio::test]
async fn a_founder_says_for_whom_it_waits() {
    let (here, there) = (ports::free_address().to_string(), ports::free_address().to_string());
    let settings = Settings { peer: here, join: vec![there.clone()], ..founders(&["n1", "n2"])[0].clone() };
    let server = Server::start(settings).expect("a free port");
    let wanted = format!("waiting for n2 to found the cluster (no answer from {there})");
    until("it says for whom it waits", || problems(&server).contains(&wanted)).await;
    server.kill();
}

#[tokio::test]
async fn two_nodes_of_one_name_found_nothing_and_say_so() {
    let mut settings = founders(&["n1", "n2"]);
    settings[1].name = "n1".to_owned();
    let servers: Vec<Server> = settings.into_iter().map(|s| Server::start(s).expect("a free port")).collect();
    for server in &servers {
        until("the other of its name is seen", || problems(server).contains("has the same name")).await;
    }
    servers.into_iter().for_each(Server::kill);
}

fn primaries(server: &Server) -> Vec<usize> {
    let status = server.gateway.board().status();
    status.nodes.iter().filter(|node| node.state == "present").map(|node| node.primaries).collect()
}

/// Each node leads as many buckets as any other, but for one.
async fn level(servers: &[Server]) {
    let is_level = |counts: Vec<usize>| {
        counts.len() == servers.len() && counts.iter().max() <= counts.iter().min().map(|few| few + 1).as_ref()
    };
    for server in servers {
        until(&format!("level: {:?}", primaries(server)), || is_level(primaries(server))).await;
    }
}

#[tokio::test]
async fn primaries_are_level_again_after_a_node_stopped_in_good_order_and_came_back() {
    let settings = founders(&["n1", "n2", "n3"]);
    let mut servers: Vec<Server> = settings.iter().map(|s| Server::start(s.clone()).expect("a free port")).collect();
    for node in [1, 0, 2] {
        healthy(&servers).await;
        level(&servers).await;
        servers.remove(node).stop_in_good_order().await;
        servers.insert(node, Server::start(settings[node].clone()).expect("its own port"));
    }
    healthy(&servers).await;
    level(&servers).await;
    servers.into_iter().for_each(Server::kill);
}
