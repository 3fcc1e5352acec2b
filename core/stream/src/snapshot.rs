//! The whole state as bytes: a function of the state, and the way back.
//!
//! ```text
//! format:1  floors: list of (slot:2 offset:8), by slot
//! streams: list of (name:string next:8 retention  places: count:8, place × count), by name    digest:8
//! place    0 hole | 1 time:8 payload:string
//! ```
//!
//! The digest shows that what was read is what was written; position and checksum of the whole are the replica's.

use crate::codec::{put_retention, retention};
use crate::command::StreamOffset;
use crate::machine::Streams;
use crate::stream::{Kept, Stream};
use crate::{NAME_MOST, PAYLOAD_MOST};
use atoll_types::bytes::{Reader, put_length, put_long, put_short, put_string};
use atoll_types::{HashSlot, StateMachine, Time};
use std::ops::Range;

const FORMAT: u8 = 1;

pub(crate) fn encode(state: &Streams) -> Vec<u8> {
    let mut out = vec![FORMAT];
    put_length(&mut out, state.floors().len());
    for (slot, floor) in state.floors() {
        put_short(&mut out, slot.0);
        put_long(&mut out, floor.0);
    }
    put_length(&mut out, state.streams().len());
    for stream in state.streams().values() {
        put_stream(&mut out, stream, 0..stream.places().len());
    }
    put_long(&mut out, state.digest());
    out
}

/// A stream, with these of its places alone: as if it ended with the last of them, and the first were its oldest.
pub(crate) fn put_stream(out: &mut Vec<u8>, stream: &Stream, places: Range<usize>) {
    put_string(out, &stream.name);
    put_long(out, stream.first().0 + places.end as u64);
    put_retention(out, &stream.retention());
    put_long(out, places.len() as u64);
    for kept in stream.places().range(places) {
        match &kept.payload {
            None => out.push(0),
            Some(payload) => {
                out.push(1);
                put_long(out, kept.time.0);
                put_string(out, payload);
            }
        }
    }
}

pub(crate) fn decode(bytes: &[u8]) -> Option<Streams> {
    let mut reader = Reader::new(bytes);
    if reader.byte()? != FORMAT {
        return None;
    }
    let mut state = Streams::new();
    let mut last: Option<HashSlot> = None;
    for _ in 0..reader.word()? {
        let (slot, floor) = (HashSlot(reader.short()?), StreamOffset(reader.long()?));
        if last.is_some_and(|last| last >= slot) || slot.0 >= HashSlot::COUNT || floor <= StreamOffset::FIRST {
            return None;
        }
        state.raise_floor(slot, floor);
        last = Some(slot);
    }
    let mut last: Option<&[u8]> = None;
    for _ in 0..reader.word()? {
        let (name, stream) = stream(&mut reader)?;
        if last.is_some_and(|last| last >= name) {
            return None;
        }
        state.insert(stream);
        last = Some(name);
    }
    let is_whole = reader.long()? == state.digest();
    reader.end().filter(|()| is_whole).map(|()| state)
}

pub(crate) fn stream<'a>(reader: &mut Reader<'a>) -> Option<(&'a [u8], Stream)> {
    let name = reader.string()?;
    let next = reader.long()?;
    let retention = retention(reader)?;
    let count = reader.long()?;
    let first = next.checked_sub(count).filter(|&first| first >= StreamOffset::FIRST.0)?;
    if name.len() > NAME_MOST {
        return None;
    }
    let mut stream = Stream::new(name, StreamOffset(first));
    stream.configure(retention);
    for number in 0..count {
        let kept = match reader.byte()? {
            // The oldest is no hole.
            0 if number > 0 => Kept { time: Time::ZERO, payload: None },
            1 => {
                let (time, payload) = (Time(reader.long()?), reader.string()?);
                Kept { time, payload: Some(Some(payload).filter(|payload| payload.len() <= PAYLOAD_MOST)?.into()) }
            }
            0 | 2.. => return None,
        };
        stream.push(kept);
    }
    Some((name, stream))
}
