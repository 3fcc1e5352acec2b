//! How fast it is on this machine: a cluster of three nodes in this process, 64 tasks that put.
//!
//! `cargo run --release -p atoll-client --example throughput [TASKS] [SECONDS]`

use atoll_client::Client;
use atoll_server::{Server, Settings};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

fn number(place: usize, default: u64) -> u64 {
    std::env::args().nth(place).and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn start() -> Vec<Server> {
    let free = || TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let peers: Vec<String> = (0..3).map(|_| free().to_string()).collect();
    let names: Vec<String> = (1..=3).map(|node| format!("n{node}")).collect();
    let settings = |node: usize| Settings {
        name: names[node].clone(),
        peer: peers[node].clone(),
        http: "127.0.0.1:0".to_owned(),
        resp: "127.0.0.1:0".to_owned(),
        join: peers.clone(),
        bootstrap: names.clone(),
        ..Settings::default()
    };
    (0..3).map(|node| Server::start(settings(node)).expect("a free port")).collect()
}

#[tokio::main]
async fn main() {
    let (tasks, seconds) = (number(1, 64), number(2, 5));
    let servers = start();
    let addresses: Vec<String> = servers.iter().map(|server| server.resp.to_string()).collect();
    while !servers.iter().all(|server| server.gateway.board().status().healthy) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let client = Client::connect(addresses).await.expect("a node");
    let begun = Instant::now();
    let mut writers = JoinSet::new();
    for task in 0..tasks {
        let client = client.clone();
        writers.spawn(async move {
            let (value, mut waits) = ([7; 64], Vec::new());
            while begun.elapsed() < Duration::from_secs(seconds) {
                let sent = Instant::now();
                client.put(format!("key {task} {}", waits.len() % 1000), value).await.expect("a write");
                waits.push(sent.elapsed());
            }
            waits
        });
    }
    let mut waits: Vec<Duration> = writers.join_all().await.into_iter().flatten().collect();
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
    let rate = waits.len() as f64 / begun.elapsed().as_secs_f64();
    println!("{tasks} tasks: {rate:.0} puts a second, p50 {:?}, p99 {:?}, max {:?}", at(0.5), at(0.99), at(1.0));
    servers.into_iter().for_each(Server::kill);
}
