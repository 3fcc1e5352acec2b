//! What can be asked of the state.
//!
//! Not here: the answers (`answer.rs`), how they come about (`read.rs`).

use crate::command::StreamOffset;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query<'a> {
    /// From this message on, or from the oldest. Answered by `Messages`, `Reset` or `Absent`.
    Read {
        stream: &'a [u8],
        from: Option<StreamOffset>,
        limit: u32,
        /// The read stops after the message that reaches so many bytes.
        bytes: u32,
    },
    /// From this message back, or from the newest.
    ReadReverse { stream: &'a [u8], from: Option<StreamOffset>, limit: u32, bytes: u32 },
    /// How many messages; zero where there is no such stream.
    Length { stream: &'a [u8] },
    /// Answered by `Info` or `Absent`.
    Info { stream: &'a [u8] },
    /// Names in the order of their bytes. Answered by `Names`.
    List {
        prefix: &'a [u8],
        /// Only names that come after this one: where an earlier list stopped.
        after: Option<&'a [u8]>,
        limit: u32,
    },
}
