//! A node: the core's machines joined behind one door in, `Cluster::handle`, and one door out, `Cluster::poll`.
//!
//! | file | holds |
//! |---|---|
//! | `door.rs` | everything that comes in and goes out |
//! | `envelope.rs` | what every message carries |
//! | `config.rs`, `view.rs` | what a node is told; what can be seen of it |
//! | `machine.rs` | the machine, its phases, its doors |
//! | `blank.rs` | a node that belongs to no cluster: asking, founding |
//! | `fetching.rs` | a node that was named and waits for its snapshot |
//! | `joining.rs` | the ways to become a member |
//! | `member.rs` | a node in step with the log |
//! | `inbox.rs` | what a member does with each message |
//! | `office.rs` | what a leader does beyond Paxos |
//! | `restore.rs` | what a disk's records add up to |
//!
//! Not here: bytes (`atoll-wire`), sockets, clocks and disks (the shell, or the simulator).

mod blank;
mod config;
mod context;
mod door;
mod envelope;
mod fetching;
mod inbox;
mod joining;
mod machine;
mod member;
mod office;
mod restore;
mod view;

pub use config::{Config, Limits, Timing};
pub use door::{Event, Input, Order, Output, Rejection};
pub use envelope::{Envelope, Message};
pub use machine::Cluster;
pub use view::{Counters, View};
