//! The native protocol: what devices, the Rust client and a node say to each other, as bytes.
//!
//! ```text
//!   client                                     node
//!     │ hello: magic, version, session ──────────▶│
//!     │◀────────── welcome: session, limits, name │
//!     │ request, request, request … ─────────────▶│   frames, each with a number of the client's own
//!     │◀──────────────────────── answer, answer … │   in any order, by that number
//! ```
//!
//! | File | What |
//! |---|---|
//! | `hello.rs` | the first words of both sides |
//! | `session.rs` | a session as it is asked for, and as it is given |
//! | `frame.rs` | where a frame begins and ends |
//! | `request.rs`, `answer.rs` | what stands in a frame |
//! | `table.rs` | who serves what, for clients that go straight there |
//!
//! Numbers are little-endian. A decoder borrows from the bytes it is given, says None where they are nonsense, and
//! reserves no memory because a length says so. `docs/protocol/native.md` tells the same to people without Rust.
//!
//! Not here: commands and queries themselves (`atoll-kv`, `atoll-stream`: their bytes go through as they are), sockets.

mod answer;
pub mod frame;
mod hello;
mod request;
mod session;
mod table;

pub use answer::{Answer, Outcome, Reason};
pub use hello::{Hello, Limits, Step, Unreadable, Welcome};
pub use request::{Ask, Numbers, Request};
pub use session::{Opened, WINDOW_MOST, Wanted};
pub use table::{Node, Range, Table};

/// What a connection begins with. Its first byte can begin no RESP request, so that both share a port.
pub const MAGIC: [u8; 4] = [0xa7, b'A', b'T', b'L'];
/// What both sides have to speak.
pub const VERSION: u8 = 1;

/// The first byte of a command or query for the key-value store.
pub const KV: u8 = 1;
/// The first byte of one for the streams.
pub const STREAM: u8 = 2;

/// No answer is longer: the longest list of values, and room for what is around it.
pub const ANSWER_MOST: usize = 40 << 20;
/// No credential is longer.
pub const CREDENTIAL_MOST: usize = 1024;
/// No name, reason or address is longer.
pub const TEXT_MOST: usize = 4096;
