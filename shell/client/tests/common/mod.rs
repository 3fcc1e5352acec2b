//! Clusters in this process.

#![allow(dead_code)] // Each test file uses some of it.

#[path = "../../../server/tests/common/ports.rs"]
pub(crate) mod ports;

use atoll_server::{Server, Settings};
use std::time::{Duration, Instant};

pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn start(nodes: usize) -> Vec<Server> {
    start_with(nodes, |settings| settings)
}

pub(crate) fn start_with(nodes: usize, change: impl Fn(Settings) -> Settings) -> Vec<Server> {
    let peers: Vec<String> = (0..nodes).map(|_| ports::free_address().to_string()).collect();
    let names: Vec<String> = (1..=nodes).map(|node| format!("n{node}")).collect();
    let settings = |node: usize| Settings {
        name: names[node].clone(),
        peer: peers[node].clone(),
        http: "127.0.0.1:0".to_owned(),
        resp: "127.0.0.1:0".to_owned(),
        join: peers.clone(),
        bootstrap: names.clone(),
        ..Settings::default()
    };
    (0..nodes).map(|node| Server::start(change(settings(node))).expect("a free port")).collect()
}

pub(crate) async fn healthy(servers: &[Server]) {
    until("healthy", || servers.iter().all(|server| server.gateway.board().status().healthy)).await;
}

/// Healthy, and as many voters as nodes: so that any one node may die.
pub(crate) async fn steady(servers: &[Server]) {
    healthy(servers).await;
    let voters = |server: &Server| {
        let government = &server.gateway.board().status().government;
        government.majority.len() + government.minority.len()
    };
    until("as many voters as nodes", || servers.iter().all(|server| voters(server) == servers.len())).await;
}

pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "never {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn addresses(servers: &[Server]) -> Vec<String> {
    servers.iter().map(|server| server.resp.to_string()).collect()
}

/// Ends a node as if its process had died, without holding up whoever runs here.
pub(crate) async fn kill(server: Server) {
    tokio::task::spawn_blocking(move || server.kill()).await.expect("a node that stops");
}

pub(crate) async fn kill_all(servers: Vec<Server>) {
    for server in servers {
        kill(server).await;
    }
}
