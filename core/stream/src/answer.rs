//! What commands and queries are answered.

use crate::command::{Retention, StreamOffset};
use atoll_types::{HashSlot, Time};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The bytes are no command or query. Nothing changed.
    Malformed,
    /// The command took effect: one outcome for each operation.
    Done(Vec<Outcome>),
    /// This operation, counted from zero, cannot be done. Nothing changed.
    Failed {
        operation: u16,
        why: Failure,
    },
    /// The streams of the command are in different slots. Nothing changed.
    CrossSlot {
        first: HashSlot,
        other: HashSlot,
    },
    /// Where to read on: for a read back, nowhere once the oldest was reached.
    Messages {
        messages: Vec<Message<'a>>,
        next: Option<StreamOffset>,
    },
    /// What was asked for is no longer kept; this is the oldest that is, or the next to come.
    Reset {
        oldest: StreamOffset,
    },
    /// There is no such stream.
    Absent,
    Number(u64),
    Info(Info),
    /// Names, and after which there may be more.
    Names {
        names: Vec<&'a [u8]>,
        stopped_at: Option<&'a [u8]>,
    },
}

/// What became of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Appended {
        offset: StreamOffset,
        time: Time,
    },
    /// Of a trim or a deletion: was there such a stream, and how many messages are gone?
    Removed {
        existed: bool,
        count: u64,
    },
    Configured {
        existed: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The message was to have another offset than the next, which is this one.
    NotNext {
        next: StreamOffset,
    },
    NameTooLong,
    PayloadTooLong,
    /// The command has more than `OPERATIONS_MOST` operations.
    TooManyOperations,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub offset: StreamOffset,
    /// The log's time when it was appended.
    pub time: Time,
    pub payload: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The oldest message that is kept; the next to come, if none is.
    pub first: StreamOffset,
    pub next: StreamOffset,
    /// How many messages there are; fewer than from `first` to `next`, where some were deleted.
    pub length: u64,
    /// Of all messages.
    pub bytes: u64,
    pub retention: Retention,
}
