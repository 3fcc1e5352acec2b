//! Commands, queries and answers as bytes: the only format, compact because the log carries it. Numbers are
//! little-endian; `string` is a length of 4 bytes and so many bytes; `list` is a count of 4 bytes and so many elements;
//! `optional` is a byte 0, or a byte 1 and the thing. Each value fills its bytes exactly.
//!
//! ```text
//! command    count:2, operation × count
//! operation  action:1, stream:string, what the action has
//! action     0 append (0 auto | 1 exactly offset:8) payload:string
//!            1 trim (0 count:8 | 1 bytes:8 | 2 before offset:8 | 3 older than time:8)
//!            2 delete | 3 delete entries list of offset:8 | 4 configure retention
//! retention  most_count:optional 8, most_bytes:optional 8, most_age:optional 8 (microseconds)
//!
//! query      0 read | 1 read reverse, each: stream:string from:optional 8 limit:4 bytes:4
//!            2 length stream | 3 info stream | 4 list prefix:string after:optional string limit:4
//!
//! answer     0 malformed | 1 done count:2, outcome × count | 2 failed operation:2 failure
//!            3 cross slot first:2 other:2 | 4 messages list of (offset:8 time:8 payload:string) next:optional 8
//!            5 reset oldest:8 | 6 absent | 7 number:8 | 8 info first:8 next:8 length:8 bytes:8 retention
//!            9 names list of string, stopped_at:optional string
//! outcome    0 appended offset:8 time:8 | 1 removed existed:1 count:8 | 2 configured existed:1
//! failure    0 not next, next:8 | 1 name too long | 2 payload too long | 3 too many operations
//! ```
//!
//! Not here: what is too long or too much (`machine.rs`, `read.rs`): a decoder only says what the bytes are.

use crate::answer::{Answer, Failure, Info, Message, Outcome};
use crate::command::{Action, Command, Id, Operation, Retention, StreamOffset, Trim};
use crate::query::Query;
use atoll_types::bytes::{Reader, put_length, put_long, put_short, put_string, put_word};
use atoll_types::{HashSlot, Time};
use std::time::Duration;

/// A command's operations, one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operations<'a> {
    left: u16,
    reader: Reader<'a>,
}

impl<'a> Operations<'a> {
    pub(crate) fn of(command: &'a [u8]) -> Option<Operations<'a>> {
        let mut reader = Reader::new(command);
        Some(Operations { left: reader.short()?, reader })
    }

    pub(crate) fn count(&self) -> u16 {
        self.left
    }

    /// The next; nothing after the last; `Err` where the bytes are no operation, or go on after the last.
    pub(crate) fn next(&mut self) -> Result<Option<Operation<'a>>, ()> {
        let Some(left) = self.left.checked_sub(1) else {
            return self.reader.end().map(|()| None).ok_or(());
        };
        self.left = left;
        operation(&mut self.reader).map(Some).ok_or(())
    }
}

fn offset(reader: &mut Reader<'_>) -> Option<StreamOffset> {
    reader.long().map(StreamOffset)
}

fn operation<'a>(reader: &mut Reader<'a>) -> Option<Operation<'a>> {
    let action = reader.byte()?;
    let stream = reader.string()?;
    let action = match action {
        0 => {
            let id = match reader.byte()? {
                0 => Id::Auto,
                1 => Id::Exactly(offset(reader)?),
                2.. => return None,
            };
            Action::Append { id, payload: reader.string()? }
        }
        1 => Action::Trim {
            by: match reader.byte()? {
                0 => Trim::Count(reader.long()?),
                1 => Trim::Bytes(reader.long()?),
                2 => Trim::Before(offset(reader)?),
                3 => Trim::OlderThan(Time(reader.long()?)),
                4.. => return None,
            },
        },
        2 => Action::Delete,
        3 => Action::DeleteEntries { offsets: reader.list(offset)? },
        4 => Action::Configure { retention: retention(reader)? },
        5.. => return None,
    };
    Some(Operation { stream, action })
}

fn put_operation(out: &mut Vec<u8>, operation: &Operation<'_>) {
    out.push(match operation.action {
        Action::Append { .. } => 0,
        Action::Trim { .. } => 1,
        Action::Delete => 2,
        Action::DeleteEntries { .. } => 3,
        Action::Configure { .. } => 4,
    });
    put_string(out, operation.stream);
    match &operation.action {
        Action::Append { id, payload } => {
            match id {
                Id::Auto => out.push(0),
                Id::Exactly(offset) => put_tagged(out, 1, offset.0),
            }
            put_string(out, payload);
        }
        Action::Trim { by: Trim::Count(count) } => put_tagged(out, 0, *count),
        Action::Trim { by: Trim::Bytes(bytes) } => put_tagged(out, 1, *bytes),
        Action::Trim { by: Trim::Before(offset) } => put_tagged(out, 2, offset.0),
        Action::Trim { by: Trim::OlderThan(time) } => put_tagged(out, 3, time.0),
        Action::Delete => {}
        Action::DeleteEntries { offsets } => {
            put_length(out, offsets.len());
            offsets.iter().for_each(|offset| put_long(out, offset.0));
        }
        Action::Configure { retention } => put_retention(out, retention),
    }
}

fn put_tagged(out: &mut Vec<u8>, tag: u8, number: u64) {
    out.push(tag);
    put_long(out, number);
}

pub(crate) fn retention(reader: &mut Reader<'_>) -> Option<Retention> {
    Some(Retention {
        most_count: optional(reader, Reader::long)?,
        most_bytes: optional(reader, Reader::long)?,
        most_age: optional(reader, Reader::long)?.map(Duration::from_micros),
    })
}

pub(crate) fn put_retention(out: &mut Vec<u8>, retention: &Retention) {
    let age = retention.most_age.map(|age| u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
    put_optional(out, retention.most_count, put_long);
    put_optional(out, retention.most_bytes, put_long);
    put_optional(out, age, put_long);
}

fn optional<'a, T>(reader: &mut Reader<'a>, thing: impl FnOnce(&mut Reader<'a>) -> Option<T>) -> Option<Option<T>> {
    if flag(reader)? { thing(reader).map(Some) } else { Some(None) }
}

fn put_optional<T>(out: &mut Vec<u8>, thing: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(u8::from(thing.is_some()));
    if let Some(thing) = thing {
        put(out, thing);
    }
}

fn flag(reader: &mut Reader<'_>) -> Option<bool> {
    match reader.byte()? {
        0 => Some(false),
        1 => Some(true),
        2.. => None,
    }
}

impl<'a> Command<'a> {
    /// More operations than two bytes can count are a command that nobody takes: the bytes say as many as they can.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_short(out, u16::try_from(self.operations.len()).unwrap_or(u16::MAX));
        self.operations.iter().for_each(|operation| put_operation(out, operation));
    }

    pub fn decode(bytes: &'a [u8]) -> Option<Command<'a>> {
        let mut left = Operations::of(bytes)?;
        let mut operations = Vec::new();
        while let Some(operation) = left.next().ok()? {
            operations.push(operation);
        }
        Some(Command { operations })
    }
}

impl<'a> Query<'a> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Query::Read { stream, from, limit, bytes } => put_read(out, 0, stream, *from, [*limit, *bytes]),
            Query::ReadReverse { stream, from, limit, bytes } => put_read(out, 1, stream, *from, [*limit, *bytes]),
            Query::Length { stream } => {
                out.push(2);
                put_string(out, stream);
            }
            Query::Info { stream } => {
                out.push(3);
                put_string(out, stream);
            }
            Query::List { prefix, after, limit } => {
                out.push(4);
                put_string(out, prefix);
                put_optional(out, *after, put_string);
                put_word(out, *limit);
            }
        }
    }

    pub fn decode(bytes: &'a [u8]) -> Option<Query<'a>> {
        let mut reader = Reader::new(bytes);
        let tag = reader.byte()?;
        let name = reader.string()?;
        let query = match tag {
            0 | 1 => {
                let from = optional(&mut reader, offset)?;
                let (limit, bytes) = (reader.word()?, reader.word()?);
                match tag {
                    0 => Query::Read { stream: name, from, limit, bytes },
                    1.. => Query::ReadReverse { stream: name, from, limit, bytes },
                }
            }
            2 => Query::Length { stream: name },
            3 => Query::Info { stream: name },
            4 => Query::List { prefix: name, after: optional(&mut reader, Reader::string)?, limit: reader.word()? },
            5.. => return None,
        };
        reader.end().map(|()| query)
    }
}

fn put_read(out: &mut Vec<u8>, tag: u8, stream: &[u8], from: Option<StreamOffset>, limits: [u32; 2]) {
    out.push(tag);
    put_string(out, stream);
    put_optional(out, from, |out, from| put_long(out, from.0));
    limits.into_iter().for_each(|limit| put_word(out, limit));
}

/// The beginning of `Answer::Done`; that many outcomes follow.
pub(crate) fn put_done(out: &mut Vec<u8>, count: u16) {
    out.push(1);
    put_short(out, count);
}

pub(crate) fn put_outcome(out: &mut Vec<u8>, outcome: &Outcome) {
    match outcome {
        Outcome::Appended { offset, time } => {
            put_tagged(out, 0, offset.0);
            put_long(out, time.0);
        }
        Outcome::Removed { existed, count } => {
            out.extend([1, u8::from(*existed)]);
            put_long(out, *count);
        }
        Outcome::Configured { existed } => out.extend([2, u8::from(*existed)]),
    }
}

fn outcome(reader: &mut Reader<'_>) -> Option<Outcome> {
    Some(match reader.byte()? {
        0 => Outcome::Appended { offset: offset(reader)?, time: Time(reader.long()?) },
        1 => Outcome::Removed { existed: flag(reader)?, count: reader.long()? },
        2 => Outcome::Configured { existed: flag(reader)? },
        3.. => return None,
    })
}

fn put_failure(out: &mut Vec<u8>, failure: Failure) {
    match failure {
        Failure::NotNext { next } => put_tagged(out, 0, next.0),
        Failure::NameTooLong => out.push(1),
        Failure::PayloadTooLong => out.push(2),
        Failure::TooManyOperations => out.push(3),
    }
}

fn failure(reader: &mut Reader<'_>) -> Option<Failure> {
    Some(match reader.byte()? {
        0 => Failure::NotNext { next: offset(reader)? },
        1 => Failure::NameTooLong,
        2 => Failure::PayloadTooLong,
        3 => Failure::TooManyOperations,
        4.. => return None,
    })
}

fn message<'a>(reader: &mut Reader<'a>) -> Option<Message<'a>> {
    Some(Message { offset: offset(reader)?, time: Time(reader.long()?), payload: reader.string()? })
}

impl<'a> Answer<'a> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Answer::Malformed => out.push(0),
            Answer::Done(outcomes) => {
                put_done(out, u16::try_from(outcomes.len()).unwrap_or(u16::MAX));
                outcomes.iter().for_each(|outcome| put_outcome(out, outcome));
            }
            Answer::Failed { operation, why } => {
                out.push(2);
                put_short(out, *operation);
                put_failure(out, *why);
            }
            Answer::CrossSlot { first, other } => {
                out.push(3);
                put_short(out, first.0);
                put_short(out, other.0);
            }
            Answer::Messages { messages, next } => {
                out.push(4);
                put_length(out, messages.len());
                for message in messages {
                    put_long(out, message.offset.0);
                    put_long(out, message.time.0);
                    put_string(out, message.payload);
                }
                put_optional(out, *next, |out, next| put_long(out, next.0));
            }
            Answer::Reset { oldest } => put_tagged(out, 5, oldest.0),
            Answer::Absent => out.push(6),
            Answer::Number(number) => put_tagged(out, 7, *number),
            Answer::Info(info) => {
                put_tagged(out, 8, info.first.0);
                [info.next.0, info.length, info.bytes].into_iter().for_each(|number| put_long(out, number));
                put_retention(out, &info.retention);
            }
            Answer::Names { names, stopped_at } => {
                out.push(9);
                put_length(out, names.len());
                names.iter().for_each(|name| put_string(out, name));
                put_optional(out, *stopped_at, put_string);
            }
        }
    }

    pub fn decode(bytes: &'a [u8]) -> Option<Answer<'a>> {
        let mut reader = Reader::new(bytes);
        let answer = match reader.byte()? {
            0 => Answer::Malformed,
            1 => {
                let count = reader.short()?;
                Answer::Done((0..count).map(|_| outcome(&mut reader)).collect::<Option<_>>()?)
            }
            2 => Answer::Failed { operation: reader.short()?, why: failure(&mut reader)? },
            3 => Answer::CrossSlot { first: HashSlot(reader.short()?), other: HashSlot(reader.short()?) },
            4 => Answer::Messages { messages: reader.list(message)?, next: optional(&mut reader, offset)? },
            5 => Answer::Reset { oldest: offset(&mut reader)? },
            6 => Answer::Absent,
            7 => Answer::Number(reader.long()?),
            8 => Answer::Info(Info {
                first: offset(&mut reader)?,
                next: offset(&mut reader)?,
                length: reader.long()?,
                bytes: reader.long()?,
                retention: retention(&mut reader)?,
            }),
            9 => Answer::Names {
                names: reader.list(Reader::string)?,
                stopped_at: optional(&mut reader, Reader::string)?,
            },
            10.. => return None,
        };
        reader.end().map(|()| answer)
    }
}
