//! Everything a node can be told. Each is a flag of `atoll serve`, a key of its file and an `ATOLL_…` variable.

use crate::scheduling::Scheduling;
use atoll_node::{Config, Limits, Timing};
use atoll_types::{Address, Endpoints, Level};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    pub name: String,
    /// Where peers, HTTP clients and RESP or native clients are listened for.
    pub peer: String,
    pub http: String,
    pub resp: String,
    /// The host that others are told, where it is not the one listened on.
    pub advertise: Option<String>,
    /// The whole address that peers are told, where something stands in between.
    pub advertise_peer: Option<String>,
    pub join: Vec<String>,
    pub bootstrap: Vec<String>,
    pub data_dir: Option<PathBuf>,
    /// The log on disk may be so long in any case; beyond it, four times as long as what it is the log of.
    pub log_bytes: u64,
    /// Where everything that this node is told is written down, for `atoll replay`.
    pub record: Option<PathBuf>,
    /// So many bytes of it; 0: no limit.
    pub record_bytes: u64,
    pub buckets: u16,
    pub copies: u8,
    pub zone: String,
    pub weight: u32,
    /// Threads that serve buckets.
    pub shards: usize,
    /// How these share a busy core with others.
    pub scheduling: Scheduling,
    /// How long they look for more before they sleep; zero: not at all.
    pub busy_poll: Duration,
    /// Listening beyond this machine without encryption is meant.
    pub insecure_listen: bool,
    pub max_clients: usize,
    /// The longest value, and the longest body over HTTP.
    pub max_value: usize,
    /// Bytes of memory for buckets; 0: no limit.
    pub max_memory: u64,
    /// A client that has said nothing for this long is let go; zero: never.
    pub idle: Duration,
    /// A client may take this long for the rest of a request, or to take an answer.
    pub slow: Duration,
    pub timing: Timing,
}

impl Default for Settings {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Settings {
            name: "n1".to_owned(),
            peer: "127.0.0.1:7480".to_owned(),
            http: "127.0.0.1:8080".to_owned(),
            resp: "127.0.0.1:6380".to_owned(),
            advertise: None,
            advertise_peer: None,
            join: Vec::new(),
            bootstrap: Vec::new(),
            data_dir: None,
            log_bytes: 256 << 20,
            record: None,
            record_bytes: 1 << 30,
            buckets: 64,
            copies: 3,
            zone: String::new(),
            weight: 1,
            shards: (cores / 2).clamp(1, 16),
            scheduling: Scheduling::default(),
            busy_poll: Duration::from_micros(50),
            insecure_listen: false,
            max_clients: 10_000,
            max_value: 1024 * 1024,
            max_memory: 0,
            idle: Duration::ZERO,
            slow: Duration::from_secs(30),
            // A bucket that is written to now and then need not tell each time by itself what is committed.
            timing: Timing {
                commit_flush: Duration::from_millis(5),
                commit_tick: Duration::from_millis(1),
                ..Timing::default()
            },
        }
    }
}

impl Settings {
    /// What the core is told. `peer`, `http`, `resp`: where this node is really reached.
    pub(crate) fn config(&self, peer: Address, http: Address, resp: Address) -> Config {
        let limits = Limits { write_bytes: self.max_value + 128 * 1024, memory: self.max_memory, ..Limits::default() };
        let join = self.join.iter().map(|address| address.as_str().into()).filter(|address| *address != peer);
        Config {
            name: self.name.as_str().into(),
            endpoints: Endpoints { http, resp },
            zone: self.zone.as_str().into(),
            weight: self.weight,
            join: join.collect(),
            address: peer,
            bootstrap: self.bootstrap.iter().map(|name| name.as_str().into()).collect(),
            durable: self.data_dir.is_some(),
            level: Level(1),
            buckets: self.buckets,
            copies: self.copies,
            shards: self.shards.max(1),
            watched: false,
            timing: self.timing.clone(),
            limits,
        }
    }
}
