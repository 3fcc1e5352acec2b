//! Three nodes in one process, until it is stopped: for trying clients by hand.
//!
//! `cargo run --release -p atoll-server --example three -- 7000` listens for Redis clients on 7000, 7001 and 7002.

use atoll_server::{Server, Settings};
use std::time::Duration;

fn main() {
    let first: u16 = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(7000);
    let place = |port: u16| format!("127.0.0.1:{port}");
    let names: Vec<String> = (1..=3).map(|node| format!("n{node}")).collect();
    let peers: Vec<String> = (0..3).map(|node| place(first + 200 + node)).collect();
    let settings = |node: u16| Settings {
        name: names[usize::from(node)].clone(),
        peer: place(first + 200 + node),
        http: place(first + 100 + node),
        resp: place(first + node),
        join: peers.clone(),
        bootstrap: names.clone(),
        ..Settings::default()
    };
    let servers: Vec<Server> = (0..3).map(|node| Server::start(settings(node)).expect("free ports")).collect();
    while !servers.iter().all(|server| server.gateway.board().status().healthy) {
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("ready: redis-cli -p {first}");
    loop {
        std::thread::park();
    }
}
