//! Nodes as processes of their own.

use crate::http;
use crate::ports::free_address;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
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
    /// Where each node has a folder, if they keep their data.
    data: Option<PathBuf>,
}

impl Cluster {
    /// So many founders, healthy.
    pub(crate) fn start(founders: usize) -> Cluster {
        let mut cluster = Cluster::prepare(founders, &[]);
        cluster.start_all();
        cluster.wait_until_healthy();
        cluster
    }

    /// The same, with disks. A short log, so that it is cut while a test runs.
    pub(crate) fn start_durable(founders: usize) -> Cluster {
        let mut cluster = Cluster::prepare(founders, &["--log-bytes", "1048576"]);
        cluster.keep_data();
        cluster.start_all();
        cluster.wait_until_healthy();
        cluster
    }

    /// Before it is started: each node gets a disk.
    pub(crate) fn keep_data(&mut self) {
        self.data = Some(Cluster::scratch());
    }

    /// A place of this test's own.
    pub(crate) fn scratch() -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("atoll-e2e-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        std::env::temp_dir().join(name)
    }

    /// Where a node keeps its data.
    pub(crate) fn directory(&self, node: usize) -> PathBuf {
        self.data.as_ref().expect("it has a disk").join(&self.nodes[node].name)
    }

    /// Places for them, and nothing running yet.
    pub(crate) fn prepare(founders: usize, more: &[&str]) -> Cluster {
        let more = more.iter().map(|&flag| flag.to_owned()).collect();
        let mut cluster = Cluster { nodes: Vec::new(), founders, more, data: None };
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
        let mut command = self.command(node);
        command.stdout(Stdio::null()).stderr(Stdio::inherit());
        self.nodes[node].process = Some(command.spawn().unwrap());
    }

    /// The same, with what it says in a file.
    pub(crate) fn start_node_telling(&mut self, node: usize, told: &Path) {
        let mut command = self.command(node);
        command.stdout(Stdio::null()).stderr(std::fs::File::create(told).unwrap());
        self.nodes[node].process = Some(command.spawn().unwrap());
    }

    /// Whether the process is still there.
    pub(crate) fn runs(&mut self, node: usize) -> bool {
        self.nodes[node].process.as_mut().is_some_and(|process| process.try_wait().unwrap().is_none())
    }

    /// What starts a node.
    pub(crate) fn command(&self, node: usize) -> Command {
        let join: Vec<String> = self.nodes.iter().map(|node| node.advertised.to_string()).collect();
        let founders: Vec<&str> = self.nodes[..self.founders].iter().map(|node| node.name.as_str()).collect();
        // A file that may grow no further is an error to be told, not the end of the process.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_atoll")]);
        let place = &self.nodes[node];
        command.args(["serve", "--name", &place.name]);
        command.args(["--peer", &place.peer.to_string(), "--advertise-peer", &place.advertised.to_string()]);
        command.args(["--http", &place.http.to_string(), "--resp", &place.resp.to_string()]);
        command.args(["--join", &join.join(",")]);
        if !self.more.iter().any(|flag| flag == "--shards") {
            command.args(["--shards", "1"]);
        }
        if node < self.founders {
            command.args(["--bootstrap", &founders.join(",")]);
        }
        if let Some(data) = &self.data {
            command.arg("--data-dir").arg(data.join(&place.name));
        }
        command.args(&self.more);
        command.env("ATOLL_LOG", "error");
        command
    }

    /// A number of `/metrics`, as this node shows it.
    pub(crate) fn metric(&self, node: usize, name: &str) -> Option<f64> {
        let text = http::get(self.nodes[node].http, "/metrics").ok()?.text();
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
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
        self.wait_for_the_end(node);
    }

    /// No file of this node grows beyond so many bytes from now on.
    pub(crate) fn limit_files(&self, node: usize, bytes: u64) {
        let id = self.nodes[node].process.as_ref().expect("it runs").id().to_string();
        let limited = Command::new("prlimit").args(["--pid", &id, &format!("--fsize={bytes}:{bytes}")]).status();
        assert!(limited.unwrap().success());
    }

    /// Overwrites a few bytes near the beginning of what the node has kept.
    pub(crate) fn spoil_log(&self, node: usize) {
        let directory = self.directory(node);
        let names = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name());
        let first = names.filter(|name| name.to_string_lossy().starts_with("log-")).min().unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(directory.join(first)).unwrap();
        file.write_all_at(&[0xff; 64], 100).unwrap();
    }

    /// Waits until the node stops by itself; says whether it is content with that.
    pub(crate) fn wait_for_the_end(&mut self, node: usize) -> bool {
        let mut process = self.nodes[node].process.take().expect("it runs");
        let mut ended = None;
        wait("ended", || {
            ended = process.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap().success()
    }

    /// Of each node that is present, by name.
    pub(crate) fn ids(&self) -> BTreeMap<String, u64> {
        let status = self.status(self.running()[0]).unwrap_or_default();
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        let id = |node: &serde_json::Value| Some((node["name"].as_str()?.to_owned(), node["id"].as_u64()?));
        nodes.iter().filter(|node| node["state"] == "present").filter_map(id).collect()
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
        if let Some(data) = &self.data {
            let _ = std::fs::remove_dir_all(data);
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
