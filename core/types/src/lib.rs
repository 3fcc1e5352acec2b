//! The vocabulary of the core: ids, positions, entries of the cluster log, and a few small tools.
//!
//! Not here: any behaviour of the protocol (`atoll-paxos`, `atoll-cluster`), any bytes (`atoll-wire`).

pub mod bounded;
pub mod bugs;
pub mod entry;
pub mod government;
pub mod ids;
pub mod payload;
pub mod position;
pub mod record;
pub mod rng;
pub mod time;

pub use bounded::{Bounded, Gauge};
pub use bugs::{Bug, planted};
pub use entry::{Body, Edict, Entry, Newcomer, Request, Submission, Why};
pub use government::{Cause, Government};
pub use ids::{Address, ClusterId, Cookie, Identity, Incarnation, Level, Name, NodeId};
pub use payload::Payload;
pub use position::{Ballot, Generation, Sequence, Slot};
pub use record::{Checkpoint, Held, JournalSeq, Record};
pub use rng::Rng;
pub use time::Time;
