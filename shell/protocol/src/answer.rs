//! What a node answers, by the number of the request.
//!
//! ```text
//! answer   kind:1 number:8 flags:1 (1: hopped), then
//!   128 done         duplicate:1 position:26 payload
//!   129 not applied  reason:1 text
//!   130 unknown
//!   131 session      opened:21
//!   132 table        as in `table.rs`
//!   133 pong         table:8
//!   134 goodbye      text: what is wrong with this connection, which ends now; number 0
//! ```
//!
//! Payload and text fill the rest of the frame.

use crate::frame;
use crate::request::{position, put_position};
use crate::session::Opened;
use crate::table::Table;
use atoll_types::Position;
use atoll_types::bytes::{Reader, put_long};

const DONE: u8 = 128;
const NOT_APPLIED: u8 = 129;
const UNKNOWN: u8 = 130;
const SESSION: u8 = 131;
const TABLE: u8 = 132;
const PONG: u8 = 133;
const GOODBYE: u8 = 134;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    pub number: u64,
    /// The node that took the request does not serve its slot: a newer table would save a hop.
    pub hopped: bool,
    pub outcome: Outcome<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    Done {
        /// Applied before, under the same number; this is its first answer.
        duplicate: bool,
        position: Position,
        /// As the machine gave it. Empty for a duplicate whose answer was too long to be kept.
        payload: &'a [u8],
    },
    /// This sending has had no effect and will have none.
    NotApplied {
        reason: Reason,
        text: &'a str,
    },
    /// It may have an effect, or not.
    Unknown,
    Session(Opened),
    Table(Table),
    Pong {
        table: u64,
    },
    /// The connection ends.
    Goodbye {
        text: &'a str,
    },
}

/// Why something was not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Too much is waiting already.
    Busy,
    /// The bucket was not served in time.
    Paused,
    /// No eligible copy is left.
    Lost,
    /// The node belongs to no cluster yet.
    NoTable,
    TooManyHops,
    OutOfMemory,
    /// Whether earlier writes of the session took effect cannot be said any more.
    SessionExpired,
    /// Below the floor the client itself named.
    BelowFloor,
    /// More writes outstanding than a session may have.
    BeyondWindow,
    /// A wrapping counter that is used outside of its slot, or is none.
    BadSession,
    /// No member's state is new enough, or became so in time.
    TooStale,
    TooLarge,
    /// No command or query, or its keys are not in the slot that was named.
    BadRequest,
}

impl Reason {
    pub const ALL: [Reason; 13] = [
        Reason::Busy,
        Reason::Paused,
        Reason::Lost,
        Reason::NoTable,
        Reason::TooManyHops,
        Reason::OutOfMemory,
        Reason::SessionExpired,
        Reason::BelowFloor,
        Reason::BeyondWindow,
        Reason::BadSession,
        Reason::TooStale,
        Reason::TooLarge,
        Reason::BadRequest,
    ];

    /// Counted from 1, in the order above.
    pub fn byte(self) -> u8 {
        self as u8 + 1
    }

    pub fn of(byte: u8) -> Option<Reason> {
        Reason::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

impl<'a> Answer<'a> {
    /// As a frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let begin = frame::begin(out);
        out.push(match self.outcome {
            Outcome::Done { .. } => DONE,
            Outcome::NotApplied { .. } => NOT_APPLIED,
            Outcome::Unknown => UNKNOWN,
            Outcome::Session(_) => SESSION,
            Outcome::Table(_) => TABLE,
            Outcome::Pong { .. } => PONG,
            Outcome::Goodbye { .. } => GOODBYE,
        });
        put_long(out, self.number);
        out.push(u8::from(self.hopped));
        match &self.outcome {
            Outcome::Done { duplicate, position, payload } => {
                out.push(u8::from(*duplicate));
                put_position(out, position);
                out.extend_from_slice(payload);
            }
            Outcome::NotApplied { reason, text } => {
                out.push(reason.byte());
                out.extend_from_slice(text.as_bytes());
            }
            Outcome::Unknown => {}
            Outcome::Session(opened) => opened.encode(out),
            Outcome::Table(table) => table.encode(out),
            Outcome::Pong { table } => put_long(out, *table),
            Outcome::Goodbye { text } => out.extend_from_slice(text.as_bytes()),
        }
        frame::end(out, begin);
    }

    /// What stands in a frame.
    pub fn decode(body: &'a [u8]) -> Option<Answer<'a>> {
        let mut reader = Reader::new(body);
        let (kind, number) = (reader.byte()?, reader.long()?);
        let hopped = flag(&mut reader)?;
        let outcome = match kind {
            DONE => {
                let (duplicate, position) = (flag(&mut reader)?, position(&mut reader)?);
                Outcome::Done { duplicate, position, payload: reader.rest() }
            }
            NOT_APPLIED => Outcome::NotApplied { reason: Reason::of(reader.byte()?)?, text: text(reader)? },
            UNKNOWN => reader.end().map(|()| Outcome::Unknown)?,
            SESSION => {
                let opened = Opened::read(&mut reader)?;
                reader.end().map(|()| Outcome::Session(opened))?
            }
            TABLE => {
                let table = Table::read(&mut reader)?;
                reader.end().map(|()| Outcome::Table(table))?
            }
            PONG => {
                let table = reader.long()?;
                reader.end().map(|()| Outcome::Pong { table })?
            }
            GOODBYE => Outcome::Goodbye { text: text(reader)? },
            0..DONE | 135.. => return None,
        };
        Some(Answer { number, hopped, outcome })
    }
}

fn flag(reader: &mut Reader<'_>) -> Option<bool> {
    match reader.byte()? {
        0 => Some(false),
        1 => Some(true),
        2.. => None,
    }
}

fn text(reader: Reader<'_>) -> Option<&str> {
    std::str::from_utf8(reader.rest()).ok()
}
