//! Nodes as threads of one process: the driver, the peers and the gateway, without any client protocol.

mod common;

use atoll_kv::{Action, Command, Query, Ttl};
use atoll_node::shard::door::Answer;
use atoll_server::Server;
use atoll_types::{HashSlot, Payload};
use common::{start, until};

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
    let servers = start(3);
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
    let mut servers = start(3);
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
