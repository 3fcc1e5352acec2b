//! Clusters in one process, for tests.

#![allow(dead_code)] // Each test file uses some of it.

pub(crate) mod raw;

use atoll_server::{Server, Settings};
use std::net::TcpListener;
use std::time::{Duration, Instant};

pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").to_string()
}

pub(crate) fn start(nodes: usize) -> Vec<Server> {
    start_with(nodes, |settings| settings)
}

pub(crate) fn start_with(nodes: usize, change: impl Fn(Settings) -> Settings) -> Vec<Server> {
    let peers: Vec<String> = (0..nodes).map(|_| free_address()).collect();
    let names: Vec<String> = (1..=nodes).map(|node| format!("n{node}")).collect();
    let settings = |node: usize| {
        change(Settings {
            name: names[node].clone(),
            peer: peers[node].clone(),
            http: "127.0.0.1:0".to_owned(),
            resp: "127.0.0.1:0".to_owned(),
            join: peers.clone(),
            bootstrap: names.clone(),
            ..Settings::default()
        })
    };
    (0..nodes).map(|node| Server::start(settings(node)).expect("a free port")).collect()
}

pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "never {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
