//! What commands and queries are answered.

use atoll_types::{Few, HashSlot, Offset, Time};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The bytes are no command or query. Nothing changed.
    Malformed,
    /// The command took effect: one outcome for each operation.
    Done(Few<Outcome<'a>>),
    /// This operation, counted from zero, cannot be done. Nothing changed.
    Failed {
        operation: u16,
        why: Failure,
    },
    /// The keys of the command are in different slots. Nothing changed.
    CrossSlot {
        first: HashSlot,
        other: HashSlot,
    },
    Value(Option<Found<'a>>),
    Values(Vec<Option<Found<'a>>>),
    Number(u64),
    Remaining(Remaining),
    Scanned(Scanned<'a>),
    /// Everything that changed up to, and with, offset `until`: ask for what comes after that next.
    Changes {
        changes: Vec<Change<'a>>,
        until: Offset,
    },
    /// Changes are remembered only after this offset: read the present state, then ask for what comes after it.
    Reset {
        oldest: Offset,
    },
    /// The answer would have more than `ANSWER_MOST` bytes: ask for less.
    TooLong,
}

/// What became of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome<'a> {
    /// Was the key there before?
    pub existed: bool,
    /// The key's version after it; none if it is absent then.
    pub version: Option<Offset>,
    pub detail: Detail<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail<'a> {
    Nothing,
    /// The length of the value after an append.
    Length(u64),
    /// The number after an increment.
    Number(i64),
    /// The value before it was changed or deleted; none if the key was absent.
    Old(Option<&'a [u8]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The condition does not hold; this is the version the key has.
    Condition {
        version: Option<Offset>,
    },
    NotAnInteger,
    Overflow,
    KeyTooLong,
    ValueTooLong,
    /// The command has more than `OPERATIONS_MOST` operations.
    TooManyOperations,
    /// Old values of more than `ANSWER_MOST` bytes.
    AnswerTooLong,
    /// The bucket has `KEYS_MOST` keys.
    Full,
}

/// A value that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// The offset of the entry that wrote it.
    pub version: Offset,
    pub expires: Option<Time>,
    pub value: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    Absent,
    Forever,
    Until(Time),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanned<'a> {
    /// The value is empty if only keys were asked for.
    pub found: Vec<(&'a [u8], Found<'a>)>,
    /// There may be more after this key, which need not be among those found. None at the end.
    pub stopped_at: Option<&'a [u8]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    pub offset: Offset,
    pub kind: Kind,
    pub key: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The key has a value, written at that offset.
    Put,
    Delete,
    /// Its time had come.
    Expired,
}
