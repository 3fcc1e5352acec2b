//! A client for Atoll: goes straight to the node that serves a key, tries again elsewhere when that fails, and makes
//! each write count once.
//!
//! ```text
//!   Client ──▶ call: retries until a deadline ──▶ routes: which node ──▶ links: one connection for each node used
//!                     └──▶ sessions: a number for each write, the same for every attempt
//! ```
//!
//! | File | What |
//! |---|---|
//! | `client.rs` | connecting; what all calls share |
//! | `call.rs` | one request: attempts, back-off, what each answer means |
//! | `session.rs` | numbers of writes: series, floor, window |
//! | `routes.rs` | the table, and who keeps it fresh |
//! | `links.rs`, `link.rs` | connections |
//! | `keys.rs`, `scan.rs`, `watch.rs` | the key-value store |
//! | `streams.rs`, `tail.rs` | the streams |
//! | `error.rs` | everything that can go wrong, in words |
//!
//! What is promised: a write that returns `Ok` took effect exactly once and every member has it. One that returns
//! [`Error::Unknown`] took effect once or not at all, and nobody can say which. Any other error: it did not take
//! effect. Reads are linearizable unless their name says otherwise.
//!
//! Bounds: calls under way (`Settings::calls`), writes of one session (a window), bytes that wait for a connection.
//!
//! ```no_run
//! # async fn example() -> Result<(), atoll_client::Error> {
//! let client = atoll_client::Client::connect(["127.0.0.1:6380"]).await?;
//! client.put("greeting", "hello").await?;
//! assert_eq!(client.get("greeting").await?.expect("it was put").bytes, b"hello");
//! # Ok(()) }
//! ```
//!
//! Not here: the bytes on the wire (`atoll-protocol`), what commands do (`atoll-kv`, `atoll-stream`).

mod call;
mod client;
mod error;
mod keys;
mod link;
mod links;
mod routes;
mod scan;
mod session;
mod streams;
mod tail;
mod watch;

pub use atoll_kv::Condition;
pub use atoll_protocol::Reason;
pub use atoll_stream::StreamOffset;
pub use atoll_types::{Offset, Position, Time};
pub use client::{Client, Settings};
pub use error::Error;
pub use keys::{Put, Value, Written};
pub use scan::Page;
pub use streams::{Message, Messages, Published};
pub use tail::{From, Tail, Tailed};
pub use watch::{Seen, Watch};
