//! Bytes for everything the core says or was told: messages between nodes, recordings.
//!
//! | Module | Bytes for | Damaged bytes |
//! |---|---|---|
//! | `message` | one `Envelope` on its way to a peer | refused, with the reason |
//! | `hot` | the messages among them that carry the load | the same |
//! | `recording`, `replay` | what one machine was given, and running it again | a cut end is replayed up to the cut |
//!
//! No decoder panics, whatever it is given, and none reserves memory because a length field says so.
//!
//! Not here: records on disk (`atoll-journal`), sockets and files (the shell), what a message means (`atoll-paxos`,
//! `atoll-cluster`).

pub mod codec;
mod frame;
mod hot;
pub mod message;
pub mod recording;
pub mod replay;

pub use message::{DecodeError, FRAME_MAX, LOOSE_MAX, VERSION};
pub use recording::{End, Header, Machine, Recorder, RecordingError, Tape};
pub use replay::{Came, Difference, Given, Replay, ReplayError, Step, Summary, What};
