//! Nodes among each other: one connection in each direction for each pair of threads, and frames on it.
//!
//! ```text
//!   thread of n1 ──link──▶ acceptor of n2 ──▶ reader on the thread that the hello names ──▶ inbox of whom it is for
//! ```
//!
//! Each thread has links of its own (`link`), so what one thread sends never waits for another. What is large and not
//! urgent, pieces of snapshots, goes over a link of its own, so that a heartbeat or a write never queues behind it.
//!
//! Messages may be lost here: a link that is down or full drops them. The core sends again what matters.
//!
//! Not here: what stands in a frame (`atoll-wire`), whether a message counts (`atoll-node`).

mod accept;
pub(crate) mod frame;
pub(crate) mod hello;
mod link;
mod read;

pub(crate) use accept::{Accepted, PEERS_MOST, accept};
pub(crate) use hello::Lane;
pub(crate) use link::{Evidence, Links};
pub(crate) use read::read;
