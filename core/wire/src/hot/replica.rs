//! What replicas say to each other. Writes and acknowledgements by hand; the others, which are rare, as postcard.
//!
//! ```text
//! write   flags:1 bucket:2 epoch  round:8 previous committed:8 echo:8 [digest: offset:8 sum:8] count:4 entries
//! ack     flags:1 bucket:2 epoch  held:8 round:8 sent:8
//! other   flags:1 bucket:2 epoch  length:4 postcard
//! entry   flags:1 time:8 [epoch] and, of a write: slot:2 [usage:40] length:4 command
//! ```
//!
//! `previous` is an offset, after its epoch where that is not the message's own; an entry is of the message's epoch
//! where it has none.

use super::{Source, Writer};
use atoll_replica::message::{Ack, Body, Message, Write};
use atoll_types::bytes::{put_length, put_long, put_short};
use atoll_types::{BucketBody, BucketEntry, BucketId, Epoch, HashSlot, Mark, Offset, Time};
use std::sync::Arc;

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
// Of an entry: the kind in the two lowest bits.
const COMMAND: u8 = 0;
const TICK: u8 = 1;
const SPLIT: u8 = 2;
const OWN_EPOCH: u8 = 1 << 2;
const USAGE: u8 = 1 << 3;

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
        writer.out.push(flags | flag(WHOLE_EPOCH, !short));
        put_short(writer.out, bucket.0);
        writer.epoch(*epoch, short);
    };
    match body {
        Body::Write(write) => {
            let flags = flag(OPENING, write.opening)
                | flag(SERVING, write.serving)
                | flag(CONFIRM, write.confirm)
                | flag(DIGEST, write.digest.is_some())
                | flag(PREVIOUS, write.previous.epoch != *epoch);
            head(writer, WRITE | flags);
            put_write(writer, *epoch, write);
        }
        Body::Ack(ack) => {
            head(writer, ACK | flag(GAP, ack.gap) | flag(FULL, ack.full));
            put_long(writer.out, ack.held.0);
            put_long(writer.out, ack.round);
            put_long(writer.out, ack.sent.0);
        }
        Body::Open(_) | Body::Opened(_) | Body::Piece(_) | Body::Got(_) | Body::Refused(_) => {
            head(writer, OTHER);
            put_other(writer, body);
        }
    }
}

fn put_write(writer: &mut Writer<'_>, epoch: Epoch, write: &Write) {
    put_long(writer.out, write.round);
    if write.previous.epoch != epoch {
        writer.epoch(write.previous.epoch, false);
    }
    put_long(writer.out, write.previous.offset.0);
    put_long(writer.out, write.committed.0);
    put_long(writer.out, write.echo.0);
    if let Some((offset, digest)) = write.digest {
        put_long(writer.out, offset.0);
        put_long(writer.out, digest);
    }
    put_length(writer.out, write.entries.len());
    write.entries.iter().for_each(|entry| put_entry(writer, epoch, entry));
}

fn put_entry(writer: &mut Writer<'_>, epoch: Epoch, entry: &BucketEntry) {
    let own = entry.epoch != epoch;
    let (kind, usage) = match &entry.body {
        BucketBody::Write { usage, .. } => (COMMAND, usage.is_some()),
        BucketBody::Tick => (TICK, false),
        BucketBody::Split => (SPLIT, false),
    };
    writer.out.push(kind | flag(OWN_EPOCH, own) | flag(USAGE, usage));
    put_long(writer.out, entry.time.0);
    if own {
        writer.epoch(entry.epoch, false);
    }
    match &entry.body {
        BucketBody::Write { slot, usage, command } => {
            put_short(writer.out, slot.0);
            if let Some(usage) = usage {
                writer.usage(usage);
            }
            writer.payload(command.as_slice());
        }
        BucketBody::Tick | BucketBody::Split => {}
    }
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

fn message(source: &mut Source<'_>) -> Option<Message> {
    let flags = source.reader.byte()?;
    let bucket = BucketId(source.reader.short()?);
    let epoch = source.epoch(flags & WHOLE_EPOCH == 0)?;
    let only = |known: u8| (flags & !(KIND | WHOLE_EPOCH | known) == 0).then_some(());
    let body = match flags & KIND {
        WRITE => Body::Write(write(source, flags, epoch)?),
        ACK => {
            only(GAP | FULL)?;
            let (held, round) = (Offset(source.reader.long()?), source.reader.long()?);
            let sent = Time(source.reader.long()?);
            Body::Ack(Ack { held, round, gap: flags & GAP != 0, full: flags & FULL != 0, sent })
        }
        OTHER => {
            only(0)?;
            other(source)?
        }
        3.. => return None,
    };
    Some(Message { bucket, epoch, body })
}

fn write(source: &mut Source<'_>, flags: u8, epoch: Epoch) -> Option<Write> {
    let round = source.reader.long()?;
    let before = if flags & PREVIOUS != 0 { source.epoch(false)? } else { epoch };
    let previous = Mark { epoch: before, offset: Offset(source.reader.long()?) };
    let (committed, echo) = (Offset(source.reader.long()?), Time(source.reader.long()?));
    let digest = match flags & DIGEST {
        0 => None,
        1.. => Some((Offset(source.reader.long()?), source.reader.long()?)),
    };
    let entries = source.list(9, |source| entry(source, epoch).map(Arc::new))?;
    let (opening, serving, confirm) = (flags & OPENING != 0, flags & SERVING != 0, flags & CONFIRM != 0);
    Some(Write { round, opening, previous, entries, committed, serving, confirm, digest, echo })
}

fn entry(source: &mut Source<'_>, epoch: Epoch) -> Option<BucketEntry> {
    let flags = source.reader.byte()?;
    let time = Time(source.reader.long()?);
    let epoch = if flags & OWN_EPOCH != 0 { source.epoch(false)? } else { epoch };
    let body = match flags & !OWN_EPOCH {
        kind if kind & !USAGE == COMMAND => {
            let slot = HashSlot(source.reader.short()?);
            let usage = if kind & USAGE != 0 { Some(source.usage()?) } else { None };
            BucketBody::Write { slot, usage, command: source.payload()? }
        }
        TICK => BucketBody::Tick,
        SPLIT => BucketBody::Split,
        _unknown => return None,
    };
    Some(BucketEntry { epoch, time, body })
}

fn other(source: &mut Source<'_>) -> Option<Body> {
    let bytes = source.reader.string()?;
    let (body, _) = crate::codec::read_within::<Body>(bytes, source.loose_most).ok()??;
    let is_other = !matches!(body, Body::Write(_) | Body::Ack(_));
    source.payloads += piece_bytes(&body);
    is_other.then_some(body)
}
