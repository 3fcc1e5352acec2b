//! A node: the core's machines joined behind one door in, `Node::handle`, and one door out, `Node::poll`.
//!
//! Inside are one `Cluster` and a few `Shard`s, with doors of their own: a shell may also run each on its own thread.
//!
//! | file | holds |
//! |---|---|
//! | `node.rs` | the whole node: one cluster machine and its shards |
//! | `door.rs` | everything that comes in and goes out |
//! | `envelope.rs` | what every message carries |
//! | `config.rs`, `view.rs` | what a node is told; what can be seen of it |
//! | `machine.rs` | the cluster machine, its phases, its doors |
//! | `blank.rs` | a node that belongs to no cluster: asking, founding |
//! | `fetching.rs` | a node that was named and waits for its snapshot |
//! | `joining.rs` | the ways to become a member |
//! | `member.rs` | a node in step with the log |
//! | `inbox.rs` | what a member does with each message |
//! | `replicated.rs` | what the decided entries add up to, and its snapshots |
//! | `directives.rs` | what the shards are told |
//! | `outbox.rs` | what the shards report, on its way into the log |
//! | `office.rs` | what a leader does beyond Paxos |
//! | `orders.rs` | what a leader orders about buckets |
//! | `restore.rs` | what a disk's records add up to |
//! | `shard/` | the replicas of some of the buckets, requests and their routes |
//!
//! Not here: bytes (`atoll-wire`), sockets, clocks and disks (the shell, or the simulator).

mod blank;
mod config;
mod context;
mod currency;
mod directives;
mod door;
mod envelope;
mod fetching;
mod inbox;
mod joining;
mod machine;
mod member;
mod node;
mod office;
mod orders;
mod outbox;
mod replicated;
mod restore;
pub mod shard;
pub mod store;
mod view;

pub use atoll_replica::Event as BucketEvent;
pub use config::{Config, Limits, Timing};
pub use door::{Event, Input, Order, Output, Rejection};
pub use envelope::{Envelope, Message};
pub use machine::Cluster;
pub use node::{Node, Sorted};
pub use replicated::{changes_standings, roster};
pub use shard::Shard;
pub use view::{Counters, View};

#[cfg(test)]
mod tests;
