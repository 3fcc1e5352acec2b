//! One envelope as bytes: the version, then postcard. A connection keeps the frames apart; here is what stands in one.
//!
//! Not here: whether the message counts (`atoll-node` looks at cluster, generation and incarnation).

use crate::codec::{self, Unreadable};
use atoll_node::Envelope;
use thiserror::Error;

/// What this build speaks. Nodes speak this version and the one before; there is none before the first.
pub const VERSION: u8 = 1;

/// The longest frame that is looked at, version byte included.
pub const FRAME_MAX: usize = 16 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("an empty frame")]
    Empty,
    #[error("a frame of {length} bytes; at most {most} are taken")]
    TooLong { length: usize, most: usize },
    #[error("version {found}; this node speaks version {VERSION}")]
    Version { found: u8 },
    #[error("not a message: {reason}")]
    Malformed { reason: postcard::Error },
    #[error("{extra} bytes after the end of the message")]
    Trailing { extra: usize },
}

/// Appends the frame to `out`. A frame longer than `FRAME_MAX` is refused by whoever receives it.
pub fn encode(envelope: &Envelope, out: &mut Vec<u8>) {
    out.push(VERSION);
    codec::append(envelope, out);
}

pub fn decode(bytes: &[u8]) -> Result<Envelope, DecodeError> {
    // Before anything else: a peer must not make this node work in proportion to what it claims to send.
    if bytes.len() > FRAME_MAX {
        return Err(DecodeError::TooLong { length: bytes.len(), most: FRAME_MAX });
    }
    match bytes.split_first() {
        None => Err(DecodeError::Empty),
        Some((&VERSION, body)) => codec::read(body).map_err(|unreadable| match unreadable {
            Unreadable::Malformed(reason) => DecodeError::Malformed { reason },
            // Refused, because bytes that this node would ignore might mean something to a later version.
            Unreadable::Trailing(extra) => DecodeError::Trailing { extra },
        }),
        Some((&found, _)) => Err(DecodeError::Version { found }),
    }
}
