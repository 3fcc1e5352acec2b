//! Key-value state machine: conditions, batches, counters, time-to-live, scans, changes.
//!
//! | File | What |
//! |---|---|
//! | `command.rs`, `query.rs`, `answer.rs` | what goes in and out, as types |
//! | `codec.rs` | the same as bytes: the only format |
//! | `machine.rs` | the state: applies commands, forgets what is due, divides |
//! | `operation.rs` | the effect of each operation |
//! | `read.rs` | the answer to each query |
//! | `table.rs` | keys with their values: each a `record.rs` on a `heap.rs`, found by `index.rs`, in an `order.rs` |
//! | `changes.rs` | the last changes, for watchers |
//! | `snapshot.rs` | the state as bytes |
//!
//! Not here: which bucket a key is in and who may write there (`atoll-replica`), exactly-once (its session table).

mod answer;
mod changes;
mod codec;
mod command;
mod heap;
mod import;
mod index;
mod machine;
mod operation;
mod order;
mod query;
mod read;
mod record;
mod snapshot;
mod table;

pub use answer::{Answer, Change, Detail, Failure, Found, Kind, Outcome, Remaining, Scanned};
pub use codec::{is_done, put_command};
pub use command::{Action, Command, Condition, Operation, Ttl};
pub use machine::Store;
pub use query::{Query, Which};

/// The longest key, in bytes.
pub const KEY_MOST: usize = 64 << 10;
/// The longest value, in bytes.
pub const VALUE_MOST: usize = 16 << 20;
/// How many operations one command may have. No more than the changes that are kept: a watcher sees a whole batch.
pub const OPERATIONS_MOST: usize = 1024;
/// How many bytes of keys and values one answer may have. A batch whose answer would be longer is undone.
pub const ANSWER_MOST: usize = 32 << 20;
/// How many keys one scan looks at, whether or not they are among those it is asked for.
pub const EXAMINED_MOST: usize = 16_384;
/// How many changes are remembered, at most: they are forgotten many at a time.
pub const CHANGES_MOST: usize = 1024;
/// How many bytes the remembered changes may have.
pub const CHANGES_BYTES_MOST: usize = 256 << 10;
/// How many keys one bucket may have.
pub const KEYS_MOST: usize = (1 << 31) - 2;
