//! Decided entries become appointments: who serves which part of the key space, who is given a copy next.
//!
//! ```text
//!  decided entries ──▶ Distributor ──▶ duties of replicas, routes       (every node, the same at the same slot)
//!                          └─────────▶ next_order ──▶ the cluster log   (the leader only)
//! ```
//!
//! | File | What is in it |
//! |---|---|
//! | `state.rs`, `bucket.rs`, `node.rs` | what is known, and its invariants |
//! | `roster.rs`, `removal.rs` | nodes come, go and restart: usurp |
//! | `moves.rs`, `placement.rs` | the steps of an order: when each is legal, what it does |
//! | `reports.rs`, `complaint.rs`, `split.rs` | what replicas tell |
//! | `operations.rs` | what operators want |
//! | `orders.rs`, `recovery.rs`, `level.rs`, `load.rs`, `follow.rs` | what should be done next |
//! | `alarm.rs`, `dry_run.rs` | for people |
//!
//! Not here: the bucket's log and its epochs at work (`atoll-replica`), sending (`atoll-node`).

mod alarm;
mod bucket;
mod complaint;
mod dry_run;
mod follow;
mod level;
mod load;
mod moves;
mod node;
mod operations;
mod orders;
mod placement;
mod recovery;
mod removal;
mod reports;
mod roster;
mod split;
mod state;

pub use alarm::Alarm;
pub use bucket::Bucket;
pub use dry_run::{Hypothesis, Move, Plan};
pub use node::{Node, Shun};
pub use operations::Impossible;
pub use orders::Settings;
pub use state::{Decided, Distributor, Roster, Standing};

#[cfg(test)]
mod tests;
