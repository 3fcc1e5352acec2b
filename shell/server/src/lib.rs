//! A node that people can run. The core decides; everything that touches the world is here.
//!
//! ```text
//!   peers ──▶ acceptor ──▶ reader ┐                        ┌──▶ links ──▶ peers
//!                                 ├─▶ inbox ─▶ one thread ─┤
//!   clients ──▶ http, resp, native┘   (a shard, or the     └──▶ mailboxes ──▶ clients
//!                                      cluster machine)
//! ```
//!
//! Each machine of the core is owned by one thread, with a runtime of its own. Its loop takes everything that waits,
//! lets the core work, and sends once: batches come from what has piled up, never from waiting.
//!
//! | Part | What |
//! |---|---|
//! | `server` | one node: its threads and listeners, started and stopped |
//! | `cluster`, `shard` | the threads that own the machines |
//! | `inbox`, `switch`, `call` | what goes between threads |
//! | `peers` | connections between nodes |
//! | `gateway` | what listeners see of the node behind them |
//! | `clients`, `resp`, `native`, `http` | the listeners |
//! | `parting` | last words to whoever is turned away |
//! | `fuzzing` | a door for the fuzz targets, no part of the interface |
//! | `status`, `routes`, `log`, `refused` | what can be seen from outside |
//! | `describe` | inputs, outputs and entries of the log, a readable line each |
//! | `settings`, `clock` | what a node is told, and the time |
//!
//! Not here: any rule of the protocol (`core/`).

pub mod call;
mod clients;
mod clock;
mod cluster;
mod data;
pub mod describe;
mod fields;
#[doc(hidden)]
pub mod fuzzing;
pub mod gateway;
mod http;
mod inbox;
pub mod log;
mod native;
mod parting;
mod peers;
mod refused;
mod resp;
pub mod routes;
mod server;
mod settings;
mod shard;
pub mod status;
mod switch;

pub use atoll_node::Timing;
pub use clock::Clock;
pub use cluster::Ordered;
pub use gateway::Gateway;
pub use refused::{Refused, Why};
pub use server::{Server, StartError};
pub use settings::Settings;
