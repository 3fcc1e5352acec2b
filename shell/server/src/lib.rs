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
//! | `archive` | backups: a directory with the states of all buckets |
//! | `disk` | what outlives the process, where there is a data directory |
//! | `recording` | what the machines are told, written down to be run again |
//! | `peers` | connections between nodes |
//! | `gateway` | what listeners see of the node behind them |
//! | `clients`, `resp`, `native`, `http` | the listeners |
//! | `home`, `alarm` | what the tasks of a shard's thread share; when to look after a client |
//! | `parting` | last words to whoever is turned away |
//! | `fuzzing` | a door for the fuzz targets, no part of the interface |
//! | `status`, `routes`, `log`, `refused`, `latency`, `meters`, `rates` | what can be seen from outside |
//! | `timeline` | something that is over, to be looked at moment by moment |
//! | `page` | the dashboard's files |
//! | `events` | what happened, in words, with what led to what |
//! | `advice` | what to do about an alarm |
//! | `waiting` | what a node waits for that belongs to no cluster |
//! | `describe` | inputs, outputs and entries of the log, a readable line each |
//! | `gauge` | what each thread has done, so that one that hangs is noticed |
//! | `settings`, `clock` | what a node is told, and the time |
//! | `scheduling`, `lookout` | how its threads share a core, and when they sleep |
//!
//! Not here: any rule of the protocol (`core/`).

mod advice;
mod alarm;
pub mod archive;
mod call;
mod clients;
mod clock;
mod cluster;
mod data;
pub mod describe;
pub mod disk;
pub mod events;
mod fields;
#[doc(hidden)]
pub mod fuzzing;
pub mod gateway;
mod gauge;
mod home;
mod http;
mod inbox;
mod latency;
pub mod log;
mod lookout;
mod meters;
mod native;
pub mod page;
mod parting;
mod peers;
mod rates;
mod recording;
mod refused;
mod resp;
pub mod routes;
mod scheduling;
mod server;
mod settings;
mod shard;
pub mod status;
mod switch;
pub mod timeline;
mod waiting;

pub use atoll_node::Timing;
pub use clock::Clock;
pub use cluster::Ordered;
pub use gateway::Gateway;
pub use latency::Protocol;
pub use refused::{Refused, Why};
pub use scheduling::Scheduling;
pub use server::{Server, StartError};
pub use settings::Settings;
pub use status::Board;
