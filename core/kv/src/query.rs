//! What can be asked of the state.
//!
//! Not here: the answers (`answer.rs`), how they come about (`read.rs`).

use atoll_types::{HashSlot, Offset};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query<'a> {
    /// Answered by `Value`.
    Get { key: &'a [u8] },
    /// Answered by `Values`, in the order of the keys.
    GetMany { keys: Vec<&'a [u8]> },
    /// How many of these are there? A key named twice counts twice.
    Exists { keys: Vec<&'a [u8]> },
    /// Answered by `Remaining`.
    Ttl { key: &'a [u8] },
    /// Of the value, in bytes; zero of an absent one.
    Length { key: &'a [u8] },
    /// Keys in the order of their bytes. Answered by `Scanned`.
    Scan {
        prefix: &'a [u8],
        /// Only keys that come after this one: where an earlier scan stopped.
        after: Option<&'a [u8]>,
        /// Only keys of this slot.
        slot: Option<HashSlot>,
        /// With the values, or the keys only.
        values: bool,
        limit: u32,
        /// The scan stops after the key that reaches so many bytes of keys and values.
        bytes: u32,
    },
    /// All keys of the bucket. Counts what is due and has not been advanced over.
    Count,
    /// What changed after this offset. Answered by `Changes` or `Reset`.
    Changes { which: Which<'a>, after: Offset, limit: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    Key(&'a [u8]),
    Prefix(&'a [u8]),
}
