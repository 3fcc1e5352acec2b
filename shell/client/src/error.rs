//! Everything that can go wrong, in words for people and in variants for programs.

use atoll_kv::Failure;
use atoll_protocol::Reason;
use atoll_stream::StreamOffset;
use atoll_types::{Offset, Position};
use std::time::Duration;
use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    #[error("no node could be reached within {within:?}; the last said: {last}; are the addresses right?")]
    Unreachable { within: Duration, last: String },
    /// It has had no effect.
    #[error("not done within {within:?}, and it had no effect; the last answer was: {last}")]
    Deadline { within: Duration, last: String },
    /// A write that took effect once, or not at all.
    #[error("nobody can say whether this write took effect; read before you write it again: {last}")]
    Unknown { last: String },
    /// It has had no effect, and trying again would not help.
    #[error("refused: {text}")]
    Refused { reason: Reason, text: String },
    /// It has had no effect. The version is the one the key has; none if it is absent.
    #[error("the condition does not hold: the key {}", described(*version))]
    Condition { version: Option<Offset> },
    #[error("the value is no decimal number, or the result would be none of 64 bits")]
    NotANumber,
    #[error("cannot be done, and had no effect: {why:?}")]
    Failed { why: Failure },
    #[error("cannot be done, and had no effect: {why:?}")]
    StreamFailed { why: atoll_stream::Failure },
    /// It took effect; an earlier answer got lost, and was too long to be kept.
    #[error("done, at {position}; what it answered was too long to be kept")]
    AnswerGone { position: Position },
    #[error("this is no longer kept: the oldest message has offset {oldest}")]
    Trimmed { oldest: StreamOffset },
    #[error("the answer is longer than an answer may be: ask for less at a time")]
    TooLong,
    #[error("an answer that makes no sense: {0}; do client and nodes have the same version?")]
    Protocol(&'static str),
}

fn described(version: Option<Offset>) -> String {
    version.map_or_else(|| "is absent".to_owned(), |version| format!("has version {version}"))
}
