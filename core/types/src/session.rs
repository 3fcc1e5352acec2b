//! A client's own numbering of its writes, by which each counts once.

use crate::{HashSlot, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One client's session. Carries when it was opened, so that a bucket that has never heard of it can tell whether it
/// is new or was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId {
    pub opened: Time,
    pub token: u64,
    pub counter: Counter,
}

/// How a session's numbers run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Counter {
    /// 64 bits: they never come round.
    #[default]
    Full,
    /// A device's counter of so many bits (8 to 63) that wraps. Such a session writes to one hash slot only, so that
    /// one table sees all of its numbers.
    Wrapping { bits: u8, slot: HashSlot },
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:016x}", self.opened.0, self.token)
    }
}

/// The number of a write in its session. Of a wrapping counter: its low bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Series(pub u64);

/// What a write carries of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionUse {
    pub session: SessionId,
    pub series: Series,
    /// The lowest series the client still waits for: answers below it are dropped, such writes refused.
    pub floor: Series,
    /// How often it was sent before. For people only; nothing depends on it.
    pub attempt: u32,
}
