//! Requests on their way to the primary, and their answers.
//!
//! ```text
//! hop      number:8 shard:2 floor:8 version:8 hops:1 root:4 count:4 requests
//! request  flags:1 connection:8 slot:2 [length:4 principal] [usage:40 | bucket:2 position] length:4 command or query
//! hopped   number:8 root:4 count:4 answers
//! answer   flags:1 place:4 and, where it is done: bucket:2 position length:4 payload; where it is not: reason:1
//! ```
//!
//! A position is an epoch, short or whole as a flag says, and an offset.

use super::{Source, Writer};
use atoll_node::shard::door::{Answer, Ask, Reason, Request};
use atoll_node::shard::message::{Hop, Hopped};
use atoll_types::bytes::{put_length, put_long, put_short, put_string, put_word};
use atoll_types::{BucketId, HashSlot, Position, Principal, SessionUse, Slot, SlotRange};

// Of a request and of an answer: the kind in the two lowest bits.
const KIND: u8 = 3;
const WHOLE_EPOCH: u8 = 1 << 2;
const WRITE: u8 = 0;
const READ: u8 = 1;
const STALE: u8 = 2;
/// A write has a session; a stale read names a position.
const MORE: u8 = 1 << 3;
/// A request names its principal.
const NAMED: u8 = 1 << 4;
const DONE: u8 = 0;
const NOT_APPLIED: u8 = 1;
const UNKNOWN: u8 = 2;
const DUPLICATE: u8 = 1 << 3;

/// By their byte.
const REASONS: [Reason; 12] = [
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
];

fn put_root(writer: &mut Writer<'_>, root: SlotRange) {
    put_short(writer.out, root.first.0);
    put_short(writer.out, root.last.0);
}

fn root(source: &mut Source<'_>) -> Option<SlotRange> {
    let (first, last) = (HashSlot(source.reader.short()?), HashSlot(source.reader.short()?));
    Some(SlotRange { first, last })
}

fn put_position(writer: &mut Writer<'_>, position: &Position, short: bool) {
    put_short(writer.out, position.bucket.0);
    writer.mark(position.mark, short);
}

fn position(source: &mut Source<'_>, flags: u8) -> Option<Position> {
    let bucket = BucketId(source.reader.short()?);
    Some(Position { bucket, mark: source.mark(flags & WHOLE_EPOCH == 0)? })
}

fn whole(short: bool) -> u8 {
    if short { 0 } else { WHOLE_EPOCH }
}

pub(super) fn put_hop(writer: &mut Writer<'_>, hop: &Hop) {
    put_long(writer.out, hop.number);
    put_short(writer.out, hop.shard);
    put_long(writer.out, hop.floor);
    put_long(writer.out, hop.version.0);
    writer.out.push(hop.hops);
    put_root(writer, hop.root);
    put_length(writer.out, hop.requests.len());
    hop.requests.iter().for_each(|request| put_request(writer, request));
}

fn put_request(writer: &mut Writer<'_>, request: &Request) {
    let Request { connection, slot, principal, ask } = request;
    let head = |writer: &mut Writer<'_>, flags: u8| {
        let named = principal.as_slice();
        writer.out.push(flags | if named.is_empty() { 0 } else { NAMED });
        put_long(writer.out, *connection);
        put_short(writer.out, slot.0);
        if !named.is_empty() {
            put_string(writer.out, named);
        }
    };
    match ask {
        Ask::Write { usage, command } => {
            head(writer, WRITE | if usage.is_some() { MORE } else { 0 });
            if let Some(usage) = usage {
                usage.put(writer.out);
            }
            writer.payload(command.as_slice());
        }
        Ask::Read { query } => {
            head(writer, READ);
            writer.payload(query.as_slice());
        }
        Ask::Stale { query, after } => {
            let short = after.is_none_or(|after| writer.is_short(after.mark.epoch));
            head(writer, STALE | whole(short) | if after.is_some() { MORE } else { 0 });
            if let Some(after) = after {
                put_position(writer, after, short);
            }
            writer.payload(query.as_slice());
        }
    }
}

pub(super) fn hop(source: &mut Source<'_>) -> Option<Hop> {
    let reader = &mut source.reader;
    let (number, shard, floor) = (reader.long()?, reader.short()?, reader.long()?);
    let (version, hops) = (Slot(reader.long()?), reader.byte()?);
    let root = root(source)?;
    let requests = source.list(15, request)?;
    Some(Hop { number, shard, floor, version, hops, root, requests })
}

fn request(source: &mut Source<'_>) -> Option<Request> {
    let flags = source.reader.byte()?;
    let (connection, slot) = (source.reader.long()?, HashSlot(source.reader.short()?));
    let principal = if flags & NAMED == 0 {
        Principal::ANONYMOUS
    } else {
        let named = source.reader.string().filter(|named| !named.is_empty())?;
        Principal::try_from(named).ok()?
    };
    let flags = flags & !NAMED;
    let more = flags & MORE != 0;
    let ask = match flags {
        WRITE => Ask::Write { usage: None, command: source.payload()? },
        flags if flags == WRITE | MORE => {
            let usage = Some(SessionUse::read(&mut source.reader)?);
            Ask::Write { usage, command: source.payload()? }
        }
        READ => Ask::Read { query: source.payload()? },
        flags if flags & KIND == STALE && flags & !(KIND | MORE | WHOLE_EPOCH) == 0 => {
            let after = if more { Some(position(source, flags)?) } else { None };
            Ask::Stale { query: source.payload()?, after }
        }
        _unknown => return None,
    };
    Some(Request { connection, slot, principal, ask })
}

pub(super) fn put_hopped(writer: &mut Writer<'_>, hopped: &Hopped) {
    put_long(writer.out, hopped.number);
    put_root(writer, hopped.root);
    put_length(writer.out, hopped.answers.len());
    for (place, answer) in &hopped.answers {
        put_answer(writer, *place, answer);
    }
}

fn put_answer(writer: &mut Writer<'_>, place: u32, answer: &Answer) {
    match answer {
        Answer::Done { payload, position, duplicate } => {
            let short = writer.is_short(position.mark.epoch);
            writer.out.push(DONE | whole(short) | if *duplicate { DUPLICATE } else { 0 });
            put_word(writer.out, place);
            put_position(writer, position, short);
            writer.payload(payload.as_slice());
        }
        Answer::NotApplied(reason) => {
            writer.out.push(NOT_APPLIED);
            put_word(writer.out, place);
            let place = REASONS.iter().position(|known| known == reason);
            writer.out.push(place.map_or(u8::MAX, |place| place as u8));
        }
        Answer::Unknown => {
            writer.out.push(UNKNOWN);
            put_word(writer.out, place);
        }
    }
}

pub(super) fn hopped(source: &mut Source<'_>) -> Option<Hopped> {
    let number = source.reader.long()?;
    let root = root(source)?;
    let answers = source.list(5, answer)?;
    Some(Hopped { number, root, answers })
}

fn answer(source: &mut Source<'_>) -> Option<(u32, Answer)> {
    let flags = source.reader.byte()?;
    let place = source.reader.word()?;
    let answer = match flags {
        NOT_APPLIED => Answer::NotApplied(*REASONS.get(usize::from(source.reader.byte()?))?),
        UNKNOWN => Answer::Unknown,
        flags if flags & KIND == DONE && flags & !(KIND | WHOLE_EPOCH | DUPLICATE) == 0 => {
            let position = position(source, flags)?;
            Answer::Done { payload: source.payload()?, position, duplicate: flags & DUPLICATE != 0 }
        }
        _unknown => return None,
    };
    Some((place, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new one must be given a byte.
    #[test]
    fn every_reason_has_a_byte() {
        for reason in REASONS {
            match reason {
                Reason::Busy | Reason::Paused | Reason::Lost | Reason::NoTable | Reason::TooManyHops => {}
                Reason::OutOfMemory | Reason::SessionExpired | Reason::BelowFloor | Reason::BeyondWindow => {}
                Reason::BadSession | Reason::TooStale | Reason::TooLarge => {}
            }
        }
        let bytes: std::collections::BTreeSet<Reason> = REASONS.into();
        assert_eq!(bytes.len(), 12);
    }
}
