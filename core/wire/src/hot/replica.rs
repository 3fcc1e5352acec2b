//! What replicas say to each other. Writes and acknowledgements by hand; the others, which are rare, as postcard.
//!
//! ```text
//! write   flags:1 bucket:2 epoch  round:8 previous committed:8 echo:8 [digest: offset:8 sum:8] entries
//! ack     flags:1 bucket:2 epoch  held:8 round:8 sent:8
//! other   flags:1 bucket:2 epoch  length:4 postcard
//! entries 0 none | 1 of the message's epoch, 2 epoch: length:4 and the entries as they stand in logs (`entries.rs` of
//!         `atoll-types`)
//! ```
//!
//! `previous` is an offset, after its epoch where that is not the message's own.

use super::{Source, Writer};
use atoll_replica::message::{Ack, Body, Message, Write};
use atoll_types::bytes::{put_length, put_longs};
use atoll_types::{BucketId, Entries, Epoch, Mark, Offset, Slot, Time};

// Of a message: the kind in the two lowest bits.
const OTHER: u8 = 0;
const WRITE: u8 = 1;
const ACK: u8 = 2;
const KIND: u8 = 3;
const WHOLE_EPOCH: u8 = 1 << 2;
// Of a write.
const OPENING: u8 = 1 << 3;
const SERVING: u8 = 1 << 4;
const CONFIRM: u8 = 1 << 5;
const DIGEST: u8 = 1 << 6;
const PREVIOUS: u8 = 1 << 7;
// Of an acknowledgement.
const GAP: u8 = 1 << 3;
const FULL: u8 = 1 << 4;
const WAITS: u8 = 1 << 5;
// Of entries.
const NONE: u8 = 0;
const SAME_EPOCH: u8 = 1;
const OTHER_EPOCH: u8 = 2;

fn flag(flag: u8, set: bool) -> u8 {
    if set { flag } else { 0 }
}

pub(super) fn put_messages(writer: &mut Writer<'_>, messages: &[Message]) {
    put_length(writer.out, messages.len());
    messages.iter().for_each(|message| put_message(writer, message));
}

fn put_message(writer: &mut Writer<'_>, message: &Message) {
    let Message { bucket, epoch, body } = message;
    let short = writer.is_short(*epoch);
    let head = |writer: &mut Writer<'_>, flags: u8| {
        let [low, high] = bucket.0.to_le_bytes();
        writer.out.extend_from_slice(&[flags | flag(WHOLE_EPOCH, !short), low, high]);
        if !short {
            writer.generations(*epoch);
        }
    };
    match body {
        Body::Write(write) => {
            let other_epoch = write.previous.epoch != *epoch;
            let flags = flag(OPENING, write.opening)
                | flag(SERVING, write.serving)
                | flag(CONFIRM, write.confirm)
                | flag(DIGEST, write.digest.is_some())
                | flag(PREVIOUS, other_epoch);
            head(writer, WRITE | flags);
            let numbers = [write.previous.offset.0, write.committed.0, write.echo.0];
            if other_epoch {
                put_longs(writer.out, [epoch.slot.0, write.round]);
                writer.epoch(write.previous.epoch, false);
                put_longs(writer.out, numbers);
            } else {
                let [previous, committed, echo] = numbers;
                put_longs(writer.out, [epoch.slot.0, write.round, previous, committed, echo]);
            }
            if let Some((offset, digest)) = write.digest {
                put_longs(writer.out, [offset.0, digest]);
            }
            put_entries(writer, *epoch, &write.entries);
        }
        Body::Ack(ack) => {
            head(writer, ACK | flag(GAP, ack.gap) | flag(FULL, ack.full) | flag(WAITS, ack.waits));
            put_longs(writer.out, [epoch.slot.0, ack.held.0, ack.round, ack.sent.0]);
        }
        Body::Open(_) | Body::Opened(_) | Body::Piece(_) | Body::Got(_) | Body::Refused(_) => {
            head(writer, OTHER);
            put_longs(writer.out, [epoch.slot.0]);
            put_other(writer, body);
        }
    }
}

fn put_entries(writer: &mut Writer<'_>, epoch: Epoch, entries: &Entries) {
    if entries.is_empty() {
        return writer.out.push(NONE);
    }
    if entries.epoch() == epoch {
        writer.out.push(SAME_EPOCH);
    } else {
        writer.out.push(OTHER_EPOCH);
        writer.epoch(entries.epoch(), false);
    }
    writer.payload(entries.bytes().as_slice());
}

/// Counts as loose but for the bytes of a piece.
fn put_other(writer: &mut Writer<'_>, body: &Body) {
    let start = writer.out.len();
    put_length(writer.out, 0);
    crate::codec::append(body, writer.out);
    let length = (writer.out.len() - start - 4) as u32;
    writer.out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    writer.payloads += piece_bytes(body);
}

fn piece_bytes(body: &Body) -> usize {
    match body {
        Body::Piece(piece) => piece.bytes.len(),
        Body::Open(_) | Body::Opened(_) | Body::Got(_) | Body::Refused(_) | Body::Write(_) | Body::Ack(_) => 0,
    }
}

pub(super) fn messages(source: &mut Source<'_>) -> Option<Vec<Message>> {
    source.list(16, message)
}

#[inline(always)] // Made where it stays: moving a message costs more than reading one.
fn message(source: &mut Source<'_>) -> Option<Message> {
    let flags = source.reader.byte()?;
    let bucket = BucketId(source.reader.short()?);
    let (generation, revival) = source.generations(flags & WHOLE_EPOCH == 0)?;
    let of = |slot: u64| Epoch { generation, revival, slot: Slot(slot) };
    let only = |known: u8| (flags & !(KIND | WHOLE_EPOCH | known) == 0).then_some(());
    let (epoch, body) = match flags & KIND {
        WRITE if flags & PREVIOUS == 0 => {
            let [slot, round, previous, committed, echo] = source.reader.longs()?;
            let numbers = [previous, committed, echo];
            (of(slot), Body::Write(write(source, flags, of(slot), round, of(slot), numbers)?))
        }
        WRITE => {
            let [slot, round] = source.reader.longs()?;
            let (before, numbers) = (source.epoch(false)?, source.reader.longs()?);
            (of(slot), Body::Write(write(source, flags, of(slot), round, before, numbers)?))
        }
        ACK => {
            only(GAP | FULL | WAITS)?;
            let [slot, held, round, sent] = source.reader.longs()?;
            let (gap, full, waits) = (flags & GAP != 0, flags & FULL != 0, flags & WAITS != 0);
            (of(slot), Body::Ack(Ack { held: Offset(held), round, gap, full, waits, sent: Time(sent) }))
        }
        OTHER => {
            only(0)?;
            (of(source.reader.long()?), other(source)?)
        }
        3.. => return None,
    };
    Some(Message { bucket, epoch, body })
}

#[inline(always)]
fn write(
    source: &mut Source<'_>,
    flags: u8,
    epoch: Epoch,
    round: u64,
    before: Epoch,
    [previous, committed, echo]: [u64; 3],
) -> Option<Write> {
    let previous = Mark { epoch: before, offset: Offset(previous) };
    let digest = match flags & DIGEST {
        0 => None,
        1.. => source.reader.longs().map(|[offset, digest]| Some((Offset(offset), digest)))?,
    };
    let entries = entries(source, epoch)?;
    let (opening, serving, confirm) = (flags & OPENING != 0, flags & SERVING != 0, flags & CONFIRM != 0);
    let (committed, echo) = (Offset(committed), Time(echo));
    Some(Write { round, opening, previous, entries, committed, serving, confirm, digest, echo })
}

fn entries(source: &mut Source<'_>, epoch: Epoch) -> Option<Entries> {
    let epoch = match source.reader.byte()? {
        NONE => return Some(Entries::none(epoch)),
        SAME_EPOCH => epoch,
        OTHER_EPOCH => source.epoch(false).filter(|own| *own != epoch)?,
        3.. => return None,
    };
    let entries = Entries::read(epoch, source.payload()?).ok()?;
    (!entries.is_empty()).then_some(entries)
}

fn other(source: &mut Source<'_>) -> Option<Body> {
    let bytes = source.reader.string()?;
    let (body, _) = crate::codec::read_within::<Body>(bytes, source.loose_most).ok()??;
    let is_other = !matches!(body, Body::Write(_) | Body::Ack(_));
    source.payloads += piece_bytes(&body);
    is_other.then_some(body)
}
