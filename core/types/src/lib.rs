//! The vocabulary of the core: ids, positions, entries of the cluster log, and a few small tools.
//!
//! Not here: any behaviour of the protocol (`atoll-paxos`, `atoll-cluster`), the bytes of messages (`atoll-wire`).

pub mod bounded;
pub mod bucket;
pub mod bucket_log;
pub mod bugs;
pub mod bytes;
pub mod entries;
pub mod entry;
pub mod few;
pub mod government;
pub mod ids;
pub mod machine;
pub mod order;
pub mod payload;
pub mod position;
pub mod principal;
pub mod record;
pub mod rng;
pub mod session;
pub mod time;

pub use bounded::{Bounded, Gauge};
pub use bucket::{Appointment, BucketId, Duty, Epoch, HashSlot, Latest, Mark, Offset, Position, SlotRange};
pub use bucket_log::{BucketRecord, BucketSnapshot};
pub use bugs::{Bug, planted};
pub use entries::{BucketBody, BucketEntry, Entries, put_entry};
pub use entry::{Body, Edict, Endpoints, Entry, Newcomer, Request, Submission, Why};
pub use few::Few;
pub use government::{Cause, Government};
pub use ids::{Address, ClusterId, Cookie, Identity, Incarnation, Level, Name, NodeId};
pub use machine::{At, IMPORT, Malformed, Piece, StateMachine};
pub use order::{Operation, Order, Report, Step};
pub use payload::Payload;
pub use position::{Ballot, Generation, Sequence, Slot};
pub use principal::Principal;
pub use record::{Checkpoint, Held, JournalSeq, Record};
pub use rng::Rng;
pub use session::{Counter, Series, SessionId, SessionUse};
pub use time::Time;
