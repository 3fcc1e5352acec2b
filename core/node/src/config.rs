//! What a node is told when it starts. Part of a recording, so that a replay starts the same.

use atoll_types::{Address, Endpoints, Level, Name};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    pub name: Name,
    /// Where peers reach this node.
    pub address: Address,
    /// Where clients do.
    pub endpoints: Endpoints,
    pub zone: Name,
    pub weight: u32,
    /// Peers to ask.
    pub join: Vec<Address>,
    /// Names of the founders, the first of which founds. Empty: arrive only.
    pub bootstrap: Vec<Name>,
    /// Has a data directory.
    pub durable: bool,
    /// The highest feature level this build understands.
    pub level: Level,
    /// Into how many buckets a new cluster divides the key space: a power of two, at most 16,384. Zero: nothing is
    /// placed, and the cluster log is all there is.
    pub buckets: u16,
    /// Members of a bucket, where there are nodes enough.
    pub copies: u8,
    /// Shards of this node, among which its buckets are divided.
    pub shards: usize,
    /// Events of replicas are told. That costs a copy of each entry: for checkers, recorders and people who look.
    pub watched: bool,
    pub timing: Timing,
    pub limits: Limits,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// How often the leader is heard when nothing happens.
    pub heartbeat: Duration,
    /// A voter that has not heard the leader for this long, and up to twice as long by lot, asks the others.
    pub election: Duration,
    /// A member of the majority that has not answered for this long is swapped for one that stands by.
    pub replace: Duration,
    /// A node that is silent for this long, also when asked directly, is absent.
    pub silence: Duration,
    /// How long after hard evidence of death the evidence counts, if the node is not heard again.
    pub evidence: Duration,
    /// An absent node departs after this long.
    pub depart_after: Duration,
    /// A newcomer that was named and is not heard for this long departs again.
    pub arrival: Duration,
    /// Back-off of asks, fetches and submissions: from `retry` up to `retry_most`.
    pub retry: Duration,
    pub retry_most: Duration,
    /// A member of a bucket that has not acknowledged for this long is complained of.
    pub ack_timeout: Duration,
    /// How long a request may wait.
    pub request: Duration,
    /// After this long a replica says again what was not answered.
    pub replica_retry: Duration,
    /// How long the commit waits for a write to ride on.
    pub commit_flush: Duration,
    /// And on which ticks it then goes, the same for all buckets: what many have to tell goes together. Zero: at once.
    pub commit_tick: Duration,
    /// A stale read is served from a state no older than this.
    pub max_stale: Duration,
    /// How long a primary may answer reads by itself after the cluster log last confirmed that it is one; zero: not at
    /// all. Counts where a cluster is founded, for all of its nodes.
    pub lease: Duration,
    /// A session that is not used for this long, by the log's time, may be forgotten.
    pub session_idle: Duration,
    /// A bucket whose requests nearly all come in at one of its members, for twice this long, is led from there; zero:
    /// it stays where it is. Counts for what is led here.
    pub follow: Duration,
    /// A node whose clock is off the median of all by more than this leads no bucket that another can; zero: nobody
    /// looks. The leader's own setting counts.
    pub max_skew: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            heartbeat: Duration::from_millis(100),
            election: Duration::from_millis(500),
            replace: Duration::from_millis(400),
            silence: Duration::from_secs(1),
            evidence: Duration::from_millis(50),
            depart_after: Duration::from_secs(600),
            arrival: Duration::from_secs(5),
            retry: Duration::from_millis(200),
            retry_most: Duration::from_secs(3),
            ack_timeout: Duration::from_secs(1),
            request: Duration::from_secs(5),
            replica_retry: Duration::from_millis(50),
            commit_flush: Duration::from_millis(2),
            commit_tick: Duration::ZERO,
            max_stale: Duration::from_secs(5),
            lease: Duration::ZERO,
            session_idle: Duration::from_secs(600),
            follow: Duration::from_secs(1),
            max_skew: Duration::from_millis(500),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Slots proposed and not yet decided.
    pub pipeline: usize,
    /// Submissions waiting at the leader.
    pub submissions: usize,
    /// Submissions of this node that wait for their decision.
    pub outstanding: usize,
    /// Newcomers waiting at the leader.
    pub arrivals: usize,
    /// Bytes of one entry.
    pub entry_bytes: usize,
    /// Decided entries kept for nodes that are behind. Beyond it a laggard gets a snapshot instead.
    pub log: usize,
    /// The log is trimmed in steps of at least this many entries.
    pub trim_step: usize,
    /// Bytes of one piece of a snapshot.
    pub chunk_bytes: usize,
    /// Snapshots kept for newcomers.
    pub snapshots: usize,
    /// Children of one node in the relay tree.
    pub fan_out: usize,
    /// Requests waiting for one bucket of the first placement, and what came out of it.
    pub backlog: usize,
    /// Messages of a later epoch kept for one bucket.
    pub held: usize,
    /// Bytes of one write.
    pub write_bytes: usize,
    /// Bytes of one frame between shards, about.
    pub frame_bytes: usize,
    /// Bytes sent to one member of a bucket and not acknowledged.
    pub window_bytes: usize,
    /// Committed entries of a bucket kept for members that return; fewer where they are large and its
    /// state is small.
    pub bucket_log: usize,
    /// Bytes of one piece of a bucket's snapshot.
    pub piece_bytes: usize,
    /// Bytes of memory for buckets; 0: no limit.
    pub memory: u64,
    /// Buckets that are moved at a time to level out.
    pub width: usize,
    /// With fewer requests than these in `follow` nobody can say where a bucket's requests come in.
    pub follow: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            pipeline: 64,
            submissions: 1024,
            outstanding: 256,
            arrivals: 64,
            entry_bytes: 64 * 1024,
            log: 8192,
            trim_step: 512,
            chunk_bytes: 32 * 1024,
            snapshots: 8,
            fan_out: 8,
            backlog: 4096,
            held: 256,
            write_bytes: (1024 + 64) * 1024,
            frame_bytes: 256 * 1024,
            window_bytes: 8 * 1024 * 1024,
            bucket_log: 1024,
            piece_bytes: 64 * 1024,
            memory: 0,
            width: 1,
            follow: 64,
        }
    }
}
