//! What two replicas of a bucket say to each other.
//!
//! | Message   | From             | To              | Means |
//! |----------|-----------------|----------------|--------------------------------------------------------------|
//! | `Open`    | primary          | all it appoints  | this epoch has begun: what do you hold? |
//! | `Opened`  | member, copying  | primary         | this |
//! | `Write`   | primary          | members, copying | after this mark come these; so much is committed |
//! | `Ack`     | member, copying  | primary         | I hold all up to here, and have seen this round |
//! | `Piece`   | primary          | copying         | a piece of a snapshot |
//! | `Got`     | copying          | primary         | I have so much of it |
//! | `Refused`  | anybody          | anybody         | there is a later epoch |

use crate::log::Run;
use atoll_types::{BucketId, Entries, Epoch, Mark, Offset, Payload, Time};
use serde::{Deserialize, Serialize};

/// A message, and for which bucket and epoch it counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub bucket: BucketId,
    pub epoch: Epoch,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    Open(Open),
    Opened(Opened),
    Write(Write),
    Ack(Ack),
    Piece(Piece),
    Got(Got),
    Refused(Refused),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// Nothing at or below this can be cut any more: it is applied.
    pub applied: Offset,
    pub runs: Vec<Run>,
    /// A snapshot that is here in part.
    pub partial: Option<Partial>,
    /// This copy is of no use: of other slots, damaged, or none.
    pub nothing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    pub mark: Mark,
    pub checksum: u32,
    pub have: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// Counts what this primary sends: an acknowledged round shows that it was still primary when it sent it.
    pub round: u64,
    /// The first message of an epoch to this member: what it holds above `previous` is void.
    pub opening: bool,
    pub previous: Mark,
    pub entries: Entries,
    /// So far all is committed. May be above what the receiver holds.
    pub committed: Offset,
    /// Every member holds what the epoch began with: what was cut stays cut.
    pub serving: bool,
    /// This round is to be acknowledged at once, whatever the disk does: reads wait for it, or an answer was lost.
    pub confirm: bool,
    /// Of the primary's state at this offset, to be compared.
    pub digest: Option<(Offset, u64)>,
    /// When, by its own clock, the receiver sent the last acknowledgement that came before this: what is said here was
    /// so after that.
    pub echo: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// Held, and on the disk where there is one.
    pub held: Offset,
    pub round: u64,
    /// Something before the last message is missing.
    pub gap: bool,
    /// This node has no memory to spare.
    pub full: bool,
    /// It has held something for long and has not heard that it is committed: the word of it may be lost.
    pub waits: bool,
    /// By the sender's own clock. Comes back as `Write::echo`.
    pub sent: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    pub mark: Mark,
    pub length: u64,
    pub checksum: u32,
    pub at: u64,
    pub bytes: Payload,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Got {
    pub mark: Mark,
    pub checksum: u32,
    /// So many bytes, from the beginning. None: the whole was bad, and is begun anew.
    pub have: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub current: Epoch,
}
