//! One envelope as bytes. A connection keeps the frames apart; here is what stands in one.
//!
//! ```text
//! version:1  kind:1  the rest, as postcard where the kind is 0, as `hot.rs` writes it otherwise
//! ```
//!
//! Not here: whether the message counts (`atoll-node` looks at cluster, generation and incarnation).

use crate::codec::{self, Unreadable};
use crate::hot::{self, Wrong};
use atoll_node::Envelope;
use thiserror::Error;

/// What this build speaks. Nodes speak this version and the one before; there is none before the first.
pub const VERSION: u8 = 1;

/// The longest frame that is looked at, version byte included.
pub const FRAME_MAX: usize = 16 * 1024 * 1024;

/// How many bytes of a frame may stand outside of payloads and names. A message of nothing but small parts takes far
/// more memory and time than it has bytes.
pub const LOOSE_MAX: usize = 1024 * 1024;

/// The memory that a loose byte may take, about: four of them are the smallest part of the largest kind.
const LOOSE_COST: usize = 48;

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
    #[error("a message of too many small parts; at most {LOOSE_MAX} bytes of them are taken")]
    TooLoose,
    #[error("{extra} bytes after the end of the message")]
    Trailing { extra: usize },
}

/// Appends the frame to `out`. Tells whether it keeps to the limits: otherwise it is refused by whoever receives it.
pub fn encode(envelope: &Envelope, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let kind = hot::kind(&envelope.message);
    out.extend_from_slice(&[VERSION, kind]);
    let loose = match kind {
        0 => codec::append(envelope, out),
        1.. => {
            let payloads = hot::encode(envelope, out);
            out.len() - start - payloads
        }
    };
    out.len() - start <= FRAME_MAX && loose <= LOOSE_MAX
}

pub fn decode(bytes: &[u8]) -> Result<Envelope, DecodeError> {
    decode_and_weigh(bytes).map(|(envelope, _)| envelope)
}

/// Also tells how much memory the message takes, about.
pub fn decode_and_weigh(bytes: &[u8]) -> Result<(Envelope, usize), DecodeError> {
    // Before anything else: a peer must not make this node work in proportion to what it claims to send.
    if bytes.len() > FRAME_MAX {
        return Err(DecodeError::TooLong { length: bytes.len(), most: FRAME_MAX });
    }
    match bytes {
        [] => Err(DecodeError::Empty),
        [VERSION] => Err(malformed()),
        [VERSION, 0, body @ ..] => decode_postcard(body),
        [VERSION, kind, body @ ..] => match hot::decode(*kind, body, LOOSE_MAX) {
            Ok((envelope, loose)) => Ok((envelope, bytes.len() + loose * hot::LOOSE_COST)),
            Err(Wrong::Malformed) => Err(malformed()),
            Err(Wrong::TooLoose) => Err(DecodeError::TooLoose),
            Err(Wrong::Trailing(extra)) => Err(DecodeError::Trailing { extra }),
        },
        [found, ..] => Err(DecodeError::Version { found: *found }),
    }
}

fn malformed() -> DecodeError {
    DecodeError::Malformed { reason: postcard::Error::DeserializeUnexpectedEnd }
}

fn decode_postcard(body: &[u8]) -> Result<(Envelope, usize), DecodeError> {
    match codec::read_within::<Envelope>(body, LOOSE_MAX) {
        // There is one way to write each message.
        Ok(Some((envelope, _))) if hot::kind(&envelope.message) != 0 => Err(malformed()),
        Ok(Some((envelope, loose))) => Ok((envelope, body.len() + loose * LOOSE_COST)),
        Ok(None) => Err(DecodeError::TooLoose),
        Err(Unreadable::Malformed(reason)) => Err(DecodeError::Malformed { reason }),
        // Refused, because bytes that this node would ignore might mean something to a later version.
        Err(Unreadable::Trailing(extra)) => Err(DecodeError::Trailing { extra }),
    }
}
