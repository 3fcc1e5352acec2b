//! Bytes for everything the core says, keeps or was told: messages between nodes, records on disk, recordings.
//!
//! | Module | Bytes for | Damaged bytes |
//! |---|---|---|
//! | `message` | one `Envelope` on its way to a peer | refused, with the reason |
//! | `record` | a journal of `Record`s | a torn end is cut, damage before it is reported |
//! | `recording`, `replay` | the inputs of one node, and how to run them again | a cut end is replayed up to the cut |
//!
//! No decoder panics, whatever it is given, and none reserves memory because a length field says so.
//!
//! Not here: sockets and files (the shell), what a message means (`atoll-paxos`, `atoll-cluster`).

mod codec;
mod frame;
pub mod message;
pub mod record;
pub mod recording;
pub mod replay;

pub use message::{DecodeError, FRAME_MAX, VERSION};
pub use record::{Fault, Scan, Tail};
pub use recording::{Header, Recorder, RecordingError};
pub use replay::{Difference, Replay, ReplayError, Step, Summary, What};
