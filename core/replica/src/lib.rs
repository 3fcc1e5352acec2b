//! The bucket log: one node's copy of one bucket, as primary, backup, or catching up.
//!
//! A replica is a machine without a clock, a disk or a network of its own: its shard gives it duties, messages,
//! requests and the time, and takes what it wants done from a [`Sink`] that all replicas of the shard share.
//!
//! | Rule | File |
//! |---|---|
//! | the highest epoch counts, and is remembered first | `machine.rs` |
//! | opening an epoch, committing, confirming reads | `primary.rs`, `peer.rs` |
//! | being cut once, acknowledging, showing only what is committed | `backup.rs` |
//! | reads that a member answers beside its primary | `beside.rs` |
//! | snapshots in pieces | `catch_up.rs` |
//! | where two logs agree | `log.rs` |
//! | applying, answering, forgetting, halving | `apply.rs`, `copy.rs`, `division.rs` |
//! | what nodes vouch for to each other, so that reads of many buckets share an answer | `vouch.rs` |
//! | a write counts once | `session.rs` |
//! | what a restart finds | `restore.rs` |
//! | what a backup is taken in by | `import.rs` |

mod apply;
mod backup;
mod beside;
mod catch_up;
mod copy;
mod division;
mod event;
mod import;
mod log;
mod machine;
pub mod message;
mod peer;
mod primary;
mod restore;
pub mod session;
mod sink;
mod vouch;

pub use copy::Copy;
pub use event::Event;
pub use import::{Import, taken_in};
pub use log::{Log, Run};
pub use machine::Replica;
pub use message::Message;
pub use restore::restore;
pub use session::{Refusal, Sessions};
pub use sink::{Action, Letters, Outcome, Settings, Sink, Ticket};
pub use vouch::Vouchers;
