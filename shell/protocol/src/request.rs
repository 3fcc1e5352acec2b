//! What a client asks for, each with a number of its own by which the answer comes.
//!
//! ```text
//! request   kind:1 number:8, then
//!   1 write    options:1 (1: numbered) slot:2 [series:8 floor:8 attempt:4] command
//!   2 read     slot:2 query                                    linearizable
//!   3 stale    options:1 (1: after) slot:2 [position:26] query   from any member; waits for the position
//!   4 session  wanted:21                                       for the writes that follow on this connection
//!   5 table
//!   6 ping
//! slot      the hash slot of all keys; ffff: the node works it out from them
//! position  bucket:2 generation:4 by:4 revival:4 slot:8 offset:8
//! ```
//!
//! Command and query fill the rest of the frame.

use crate::frame;
use crate::session::Wanted;
use atoll_types::bytes::{Reader, put_long, put_short, put_word};
use atoll_types::{BucketId, Epoch, Generation, HashSlot, Mark, NodeId, Offset, Position, Series, Slot};

const WRITE: u8 = 1;
const READ: u8 = 2;
const STALE: u8 = 3;
const SESSION: u8 = 4;
const TABLE: u8 = 5;
const PING: u8 = 6;

const NO_SLOT: u16 = u16::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The client's own, used in the answer.
    pub number: u64,
    pub ask: Ask<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask<'a> {
    Write {
        slot: Option<HashSlot>,
        /// None: it is not repeated, and its fate may be unknown.
        numbers: Option<Numbers>,
        command: &'a [u8],
    },
    /// Linearizable.
    Read {
        slot: Option<HashSlot>,
        query: &'a [u8],
    },
    /// From any member's committed state, at or after this position if one is named. Not in order with other requests.
    Stale {
        slot: Option<HashSlot>,
        after: Option<Position>,
        query: &'a [u8],
    },
    /// The session of the writes that follow on this connection.
    Session(Wanted),
    Table,
    Ping,
}

/// What a write carries of its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    pub series: Series,
    pub floor: Series,
    pub attempt: u32,
}

impl<'a> Request<'a> {
    /// As a frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let begin = frame::begin(out);
        out.push(match self.ask {
            Ask::Write { .. } => WRITE,
            Ask::Read { .. } => READ,
            Ask::Stale { .. } => STALE,
            Ask::Session(_) => SESSION,
            Ask::Table => TABLE,
            Ask::Ping => PING,
        });
        put_long(out, self.number);
        match &self.ask {
            Ask::Write { slot, numbers, command } => {
                out.push(u8::from(numbers.is_some()));
                put_slot(out, *slot);
                if let Some(numbers) = numbers {
                    put_long(out, numbers.series.0);
                    put_long(out, numbers.floor.0);
                    put_word(out, numbers.attempt);
                }
                out.extend_from_slice(command);
            }
            Ask::Read { slot, query } => {
                put_slot(out, *slot);
                out.extend_from_slice(query);
            }
            Ask::Stale { slot, after, query } => {
                out.push(u8::from(after.is_some()));
                put_slot(out, *slot);
                if let Some(after) = after {
                    put_position(out, after);
                }
                out.extend_from_slice(query);
            }
            Ask::Session(wanted) => wanted.encode(out),
            Ask::Table | Ask::Ping => {}
        }
        frame::end(out, begin);
    }

    /// What stands in a frame.
    pub fn decode(body: &'a [u8]) -> Option<Request<'a>> {
        let mut reader = Reader::new(body);
        let (kind, number) = (reader.byte()?, reader.long()?);
        let ask = match kind {
            WRITE => {
                let numbered = flag(&mut reader)?;
                let slot = slot(&mut reader)?;
                let numbers = if numbered { Some(numbers(&mut reader)?) } else { None };
                Ask::Write { slot, numbers, command: reader.rest() }
            }
            READ => Ask::Read { slot: slot(&mut reader)?, query: reader.rest() },
            STALE => {
                let named = flag(&mut reader)?;
                let slot = slot(&mut reader)?;
                let after = if named { Some(position(&mut reader)?) } else { None };
                Ask::Stale { slot, after, query: reader.rest() }
            }
            SESSION => {
                let wanted = Wanted::read(&mut reader)?;
                reader.end().map(|()| Ask::Session(wanted))?
            }
            TABLE => reader.end().map(|()| Ask::Table)?,
            PING => reader.end().map(|()| Ask::Ping)?,
            0 | 7.. => return None,
        };
        Some(Request { number, ask })
    }
}

/// Options that this version does not know might change what is meant: they are refused.
fn flag(reader: &mut Reader<'_>) -> Option<bool> {
    match reader.byte()? {
        0 => Some(false),
        1 => Some(true),
        2.. => None,
    }
}

fn put_slot(out: &mut Vec<u8>, slot: Option<HashSlot>) {
    put_short(out, slot.map_or(NO_SLOT, |slot| slot.0));
}

fn slot(reader: &mut Reader<'_>) -> Option<Option<HashSlot>> {
    match reader.short()? {
        NO_SLOT => Some(None),
        slot if slot < HashSlot::COUNT => Some(Some(HashSlot(slot))),
        HashSlot::COUNT..NO_SLOT | 0..HashSlot::COUNT => None,
    }
}

fn numbers(reader: &mut Reader<'_>) -> Option<Numbers> {
    Some(Numbers { series: Series(reader.long()?), floor: Series(reader.long()?), attempt: reader.word()? })
}

pub(crate) fn put_position(out: &mut Vec<u8>, position: &Position) {
    let Position { bucket, mark: Mark { epoch, offset } } = position;
    put_short(out, bucket.0);
    put_word(out, epoch.generation.number);
    put_word(out, epoch.generation.by.0);
    put_word(out, epoch.revival);
    put_long(out, epoch.slot.0);
    put_long(out, offset.0);
}

pub(crate) fn position(reader: &mut Reader<'_>) -> Option<Position> {
    let bucket = BucketId(reader.short()?);
    let generation = Generation { number: reader.word()?, by: NodeId(reader.word()?) };
    let epoch = Epoch { generation, revival: reader.word()?, slot: Slot(reader.long()?) };
    Some(Position { bucket, mark: Mark { epoch, offset: Offset(reader.long()?) } })
}
