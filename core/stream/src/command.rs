//! What changes the state: an atomic batch of operations on streams of one hash slot.
//!
//! Not here: their bytes (`codec.rs`), their effect (`machine.rs`, `stream.rs`).

use atoll_types::Time;
use std::fmt;
use std::time::Duration;

/// A message's place in its stream. The first message of a stream has 1, the next one more; none is ever given twice.
///
/// Not the bucket's log offset: that one counts entries of all streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamOffset(pub u64);

impl StreamOffset {
    pub const FIRST: StreamOffset = StreamOffset(1);

    pub fn next(self) -> StreamOffset {
        StreamOffset(self.0.saturating_add(1))
    }
}

impl fmt::Display for StreamOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// All of it or nothing. Later operations see what earlier ones did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command<'a> {
    pub operations: Vec<Operation<'a>>,
}

impl<'a> Command<'a> {
    /// A command of one operation.
    pub fn one(stream: &'a [u8], action: Action<'a>) -> Command<'a> {
        Command { operations: vec![Operation { stream, action }] }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    pub stream: &'a [u8],
    pub action: Action<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Makes the stream, if need be.
    Append { id: Id, payload: &'a [u8] },
    /// Forgets the oldest messages.
    Trim { by: Trim },
    /// The stream and all of its messages. One of the same name that is made later goes on counting.
    Delete,
    /// These messages; the others keep their offsets.
    DeleteEntries { offsets: Vec<StreamOffset> },
    /// What the stream keeps, from now on. Makes the stream, if need be.
    Configure { retention: Retention },
}

/// The offset that a message gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Id {
    #[default]
    Auto,
    /// It must be the next, or nothing is done.
    Exactly(StreamOffset),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// All but so many.
    Count(u64),
    /// All but so many bytes.
    Bytes(u64),
    /// Those before this one.
    Before(StreamOffset),
    /// Those appended before this log time.
    OlderThan(Time),
}

/// What a stream keeps, counted from its newest message. Each limit holds after every entry of the log; none of a limit
/// keeps everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    pub most_count: Option<u64>,
    /// Bytes of messages.
    pub most_bytes: Option<u64>,
    /// In whole microseconds of log time.
    pub most_age: Option<Duration>,
}
