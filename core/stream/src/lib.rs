//! Message streams as a state machine: append, read, trim, tail.
//!
//! | File | What |
//! |---|---|
//! | `command.rs`, `query.rs`, `answer.rs` | what goes in and out, as types |
//! | `codec.rs` | the same as bytes: the only format |
//! | `stream.rs` | one stream: its messages, what it keeps |
//! | `machine.rs` | all streams of a bucket: applies commands, forgets what is due, divides |
//! | `read.rs` | the answer to each query |
//! | `snapshot.rs` | the state as bytes |
//!
//! Not here: which bucket a stream is in and who may write there (`atoll-replica`), exactly-once (its session table).

mod answer;
mod codec;
mod command;
mod import;
mod machine;
mod query;
mod read;
mod snapshot;
mod stream;

pub use answer::{Answer, Failure, Info, Message, Outcome};
pub use command::{Action, Command, Id, Operation, Retention, StreamOffset, Trim};
pub use machine::Streams;
pub use query::Query;

/// The longest name of a stream, in bytes.
pub const NAME_MOST: usize = 64 << 10;
/// The longest message, in bytes.
pub const PAYLOAD_MOST: usize = 16 << 20;
/// How many operations one command may have.
pub const OPERATIONS_MOST: usize = 1024;
/// How many bytes of messages or names one answer may have.
pub const ANSWER_MOST: usize = 32 << 20;
/// How many messages one read looks at, whether or not they are deleted.
pub const EXAMINED_MOST: usize = 16_384;
