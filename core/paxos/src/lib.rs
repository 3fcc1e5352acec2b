//! The cluster log: a multi-decree Paxos whose configuration, the government, is itself an entry of the log.
//!
//! One door in, `handle`-like methods called by `atoll-node`, one door out, `Paxos::poll`. No clock, no disk, no
//! network: time comes in, messages and records go out. `docs/protocol/paxos.md` explains why it is safe.
//!
//! | file | holds |
//! |---|---|
//! | `machine.rs` | the machine: its fields, its dispatch, its ticks |
//! | `log.rs` | entries held, and how far they are decided |
//! | `acceptor.rs` | promising and accepting |
//! | `learner.rs` | decided entries: learning, passing on, trimming |
//! | `relay.rs` | who passes on to whom |
//! | `election.rs` | standing, collecting promises, restoring what was accepted |
//! | `leader.rs` | proposing, deciding, stepping down |
//!
//! Not here: what the entries mean and who should be in a government (`atoll-cluster`).

mod acceptor;
mod election;
mod leader;
mod learner;
mod log;
mod machine;
pub mod message;
mod relay;

pub use log::Log;
pub use machine::{Action, Forerunner, Paxos, Settings, Start};
pub use message::Message;
pub use relay::children_of;
