//! What changes the state: an atomic batch of operations on keys of one hash slot.
//!
//! Not here: their bytes (`codec.rs`), their effect (`operation.rs`).

use atoll_types::{Few, Offset, Time};
use std::time::Duration;

/// All of it or nothing. Later operations see what earlier ones did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command<'a> {
    pub operations: Few<Operation<'a>>,
}

impl<'a> Command<'a> {
    /// A command of one operation.
    pub fn one(key: &'a [u8], action: Action<'a>) -> Command<'a> {
        Command { operations: Few::One(Operation::new(key, action)) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    pub key: &'a [u8],
    /// Must hold just before the action, or the whole command does nothing.
    pub condition: Condition,
    pub action: Action<'a>,
}

impl<'a> Operation<'a> {
    pub fn new(key: &'a [u8], action: Action<'a>) -> Operation<'a> {
        Operation { key, condition: Condition::None, action }
    }

    pub fn on(self, condition: Condition) -> Operation<'a> {
        Operation { condition, ..self }
    }
}

/// On the operation's own key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    #[default]
    None,
    Absent,
    Present,
    /// Present, and written by the entry at this offset.
    Version(Offset),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Does nothing: for a condition on a key that the command leaves alone.
    Check,
    Put {
        value: &'a [u8],
        ttl: Ttl,
    },
    Delete,
    /// The value is a decimal number; an absent one counts as zero. Keeps the time-to-live.
    Increment {
        by: i64,
    },
    /// To the end of the value; an absent one counts as empty. Keeps the time-to-live. The whole may have so many bytes
    /// at most: in the command, so that all members refuse the same, whatever each is told to take itself.
    Append {
        value: &'a [u8],
        most: u64,
    },
    /// Changes the time-to-live of a key that is there, and neither its value nor its version.
    Expire {
        ttl: Ttl,
    },
    GetAndPut {
        value: &'a [u8],
        ttl: Ttl,
    },
    GetAndDelete,
    /// Changes nothing: for a value that is to be seen as the rest of the batch leaves it.
    Get,
}

/// How long a value stays. A value whose time has come by the time it is written is not stored: its key is absent then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ttl {
    /// As it was; for ever, if the key was absent.
    Keep,
    #[default]
    Never,
    /// Until this log time.
    At(Time),
    /// For so long, in whole microseconds, from the entry's log time on.
    After(Duration),
}

impl Ttl {
    /// When the value goes, if ever.
    pub(crate) fn resolve(self, now: Time, present: Option<Time>) -> Option<Time> {
        let time = match self {
            Ttl::Keep => return present,
            Ttl::Never => return None,
            Ttl::At(time) => time,
            Ttl::After(span) => now + span,
        };
        (time < Time::NEVER).then_some(time)
    }
}
