//! Nodes as processes of their own.

use crate::http;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longer than this nothing takes, on a machine with much else to do.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) peer: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) resp: SocketAddr,
    /// Where the others are told to reach it.
    pub(crate) advertised: SocketAddr,
    pub(crate) process: Option<Child>,
}

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    founders: usize,
    more: Vec<String>,
}

/// Below the ports that the system gives to outgoing connections: one of those may be taken again before a node
/// listens on it.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + (std::process::id() as u16).wrapping_mul(97).wrapping_add(step) % 22_000;
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            return listener.local_addr().unwrap();
        }
    }
}

impl Cluster {
    /// So many founders, healthy.
    pub(crate) fn start(founders: usize) -> Cluster {
        let mut cluster = Cluster::prepare(founders, &[]);
        cluster.start_all();
        cluster.wait_until_healthy();
        cluster
    }

    /// Places for them, and nothing running yet.
    pub(crate) fn prepare(founders: usize, more: &[&str]) -> Cluster {
        let more = more.iter().map(|&flag| flag.to_owned()).collect();
        let mut cluster = Cluster { nodes: Vec::new(), founders, more };
        (0..founders).for_each(|_| cluster.add_place());
        cluster
    }

    fn add_place(&mut self) {
        let peer = free_address();
        let name = format!("n{}", self.nodes.len() + 1);
        let (http, resp) = (free_address(), free_address());
        self.nodes.push(Node { name, peer, http, resp, advertised: peer, process: None });
    }

    pub(crate) fn start_all(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.start_node(node));
    }

    /// One more, that arrives.
    pub(crate) fn add(&mut self) -> usize {
        self.add_place();
        let node = self.nodes.len() - 1;
        self.start_node(node);
        node
    }

    pub(crate) fn start_node(&mut self, node: usize) {
        let join: Vec<String> = self.nodes.iter().map(|node| node.advertised.to_string()).collect();
        let founders: Vec<&str> = self.nodes[..self.founders].iter().map(|node| node.name.as_str()).collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
        let place = &self.nodes[node];
        command.args(["serve", "--name", &place.name]);
        command.args(["--peer", &place.peer.to_string(), "--advertise-peer", &place.advertised.to_string()]);
        command.args(["--http", &place.http.to_string(), "--resp", &place.resp.to_string()]);
        command.args(["--join", &join.join(","), "--shards", "1"]);
        if node < self.founders {
            command.args(["--bootstrap", &founders.join(",")]);
        }
        command.args(&self.more);
        command.env("ATOLL_LOG", "error").stdout(Stdio::null()).stderr(Stdio::inherit());
        self.nodes[node].process = Some(command.spawn().unwrap());
    }

    fn signal(&self, node: usize, signal: &str) {
        let id = self.nodes[node].process.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// kill -9
    pub(crate) fn kill(&mut self, node: usize) {
        let mut process = self.nodes[node].process.take().expect("it runs");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// SIGTERM, and waits for the end.
    pub(crate) fn stop(&mut self, node: usize) {
        self.signal(node, "-TERM");
        let mut process = self.nodes[node].process.take().expect("it runs");
        wait("stopped", || process.try_wait().unwrap().is_some());
    }

    pub(crate) fn freeze(&self, node: usize) {
        self.signal(node, "-STOP");
    }

    pub(crate) fn thaw(&self, node: usize) {
        self.signal(node, "-CONT");
    }

    /// Where clients may go: also to nodes that are not there.
    pub(crate) fn http(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.http).collect()
    }

    pub(crate) fn running(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&node| self.nodes[node].process.is_some()).collect()
    }

    /// The state as this node shows it.
    pub(crate) fn status(&self, node: usize) -> Option<serde_json::Value> {
        let reply = http::get(self.nodes[node].http, "/v1/cluster").ok()?;
        (reply.status == 200).then(|| reply.json())
    }

    /// Every running node says so, and lists as many present nodes as there run.
    pub(crate) fn is_healthy(&self) -> bool {
        let running = self.running();
        running.iter().all(|&node| {
            let Some(status) = self.status(node) else { return false };
            status["healthy"] == true && present(&status).len() == running.len()
        })
    }

    pub(crate) fn wait_until_healthy(&self) {
        let healthy = || self.is_healthy();
        if !holds_in_time(healthy) {
            let states: Vec<String> =
                self.running().iter().map(|&node| format!("{:#}", self.status(node).unwrap_or_default())).collect();
            panic!("never healthy: {}", states.join("\n"));
        }
    }

    pub(crate) fn leader(&self) -> usize {
        let mut found = None;
        wait("a leader", || {
            let status = self.running().into_iter().find_map(|node| self.status(node));
            let leader = status.and_then(|status| status["government"]["leader"].as_str().map(str::to_owned));
            found = leader.and_then(|name| self.nodes.iter().position(|node| node.name == name));
            found.is_some()
        });
        found.unwrap()
    }

    /// Posts an order to the first node that runs.
    pub(crate) fn order(&self, method: &str, path: &str) {
        let node = self.running()[0];
        let reply = http::send(self.nodes[node].http, method, path, &[], &[]).unwrap();
        assert_eq!(reply.status, 202, "{path}: {}", reply.text());
    }
}

fn present(status: &serde_json::Value) -> Vec<String> {
    let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
    let present = nodes.iter().filter(|node| node["state"] == "present");
    present.filter_map(|node| node["name"].as_str().map(str::to_owned)).collect()
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(mut process) = node.process.take() {
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}

pub(crate) fn holds_in_time(mut holds: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        if holds() {
            return true;
        }
        sleep(Duration::from_millis(20));
    }
    false
}

pub(crate) fn wait(what: &str, holds: impl FnMut() -> bool) {
    assert!(holds_in_time(holds), "never {what}");
}
