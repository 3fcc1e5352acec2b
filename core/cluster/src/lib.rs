//! The cluster over its log: who belongs to it, who is healthy, barriers, submissions, snapshots.
//!
//! | file | holds |
//! |---|---|
//! | `state.rs` | what the decided entries add up to, the same on every node |
//! | `member.rs` | one node as the log knows it |
//! | `barrier.rs` | a broadcast and the answers still missing |
//! | `submissions.rs` | what makes a submission count once |
//! | `submitter.rs` | gets this node's submissions into the log |
//! | `seats.rs` | which government the leader should propose |
//! | `health.rs` | whom the leader hears, and what follows |
//! | `vitals.rs` | how a node is, by its own word |
//! | `skew.rs` | whose clock is off |
//! | `arrival.rs` | how a blank node founds a cluster or asks to be let in |
//! | `snapshot.rs` | making, keeping, fetching and checking snapshots |
//!
//! Not here: how an entry comes to be decided (`atoll-paxos`); the wiring of it all (`atoll-node`).

pub mod arrival;
pub mod barrier;
pub mod health;
mod member;
pub mod message;
pub mod seats;
pub mod skew;
pub mod snapshot;
mod state;
mod submissions;
pub mod submitter;
pub mod vitals;

pub use barrier::Barrier;
pub use member::{Member, Standing};
pub use message::Message;
pub use state::{Effect, State};
pub use submissions::Submitted;
pub use vitals::{Pulse, Vitals, Work};
