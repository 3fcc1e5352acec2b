//! Commands, queries and answers as bytes: the only format, compact because the log carries it. Numbers are
//! little-endian; `string` is a length of 4 bytes and so many bytes; `list` is a count of 4 bytes and so many elements;
//! `optional` is a byte 0, or a byte 1 and the thing. Each value fills its bytes exactly.
//!
//! ```text
//! command    count:2, operation × count
//! operation  action:1, condition, key:string, what the action has
//! condition  0 | 1 absent | 2 present | 3 version:8
//! action     0 check | 1 put value:string ttl | 2 delete | 3 increment by:8 | 4 append value:string
//!            5 expire ttl | 6 get and put value:string ttl | 7 get and delete | 8 get
//! ttl        0 keep | 1 never | 2 at time:8 | 3 after microseconds:8
//!
//! query      0 get key | 1 get many keys:list | 2 exists keys:list | 3 ttl key | 4 length key
//!            5 scan prefix:string after:optional slot:optional values:1 limit:4 bytes:4
//!            6 count | 7 changes (0 key | 1 prefix):string after:8 limit:4
//!
//! answer     0 malformed | 1 done count:2, outcome × count | 2 failed operation:2 failure
//!            3 cross slot first:2 other:2 | 4 value optional found | 5 values list of optional found | 6 number:8
//!            7 remaining (0 absent | 1 forever | 2 until time:8) | 8 scanned list of (key found) stopped_at:optional
//!            9 changes list of (offset:8 kind:1 key) until:8 | 10 reset oldest:8 | 11 too long
//! outcome    flags:1 (1 existed, 2 has a version), [version:8],
//!            0 | 1 length:8 | 2 number:8 | 3 old value, absent | 4 old value:string
//! failure    0 condition, absent | 1 condition version:8 | 2 not an integer | 3 overflow | 4 key too long
//!            5 value too long | 6 too many operations | 7 answer too long | 8 full
//! found      version:8 expires:8 (all ones: never) value:string
//! ```
//!
//! Not here: what is too long or too much (`operation.rs`, `read.rs`): a decoder only says what the bytes are.

use crate::answer::{Answer, Change, Detail, Failure, Found, Kind, Outcome, Remaining, Scanned};
use crate::command::{Action, Command, Condition, Operation, Ttl};
use crate::query::{Query, Which};
use atoll_types::bytes::{Reader, put_length, put_long, put_short, put_string, put_word};
use atoll_types::{HashSlot, Offset, Time};
use std::time::Duration;

/// A command's operations, one after another, without memory of their own.
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

    /// The one there is; none where it is none, or the bytes go on after it.
    #[inline(always)] // Looked at in place: moving what it finds about would cost more than finding it.
    pub(crate) fn only(mut self) -> Option<Operation<'a>> {
        let only = operation(&mut self.reader)?;
        self.reader.end().map(|()| only)
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

#[inline(always)]
fn operation<'a>(reader: &mut Reader<'a>) -> Option<Operation<'a>> {
    let action = reader.byte()?;
    let condition = match reader.byte()? {
        0 => Condition::None,
        1 => Condition::Absent,
        2 => Condition::Present,
        3 => Condition::Version(Offset(reader.long()?)),
        4.. => return None,
    };
    let key = reader.string()?;
    let action = match action {
        0 => Action::Check,
        1 => Action::Put { value: reader.string()?, ttl: ttl(reader)? },
        2 => Action::Delete,
        3 => Action::Increment { by: reader.signed()? },
        4 => Action::Append { value: reader.string()?, most: reader.long()? },
        5 => Action::Expire { ttl: ttl(reader)? },
        6 => Action::GetAndPut { value: reader.string()?, ttl: ttl(reader)? },
        7 => Action::GetAndDelete,
        8 => Action::Get,
        9.. => return None,
    };
    Some(Operation { key, condition, action })
}

fn ttl(reader: &mut Reader<'_>) -> Option<Ttl> {
    Some(match reader.byte()? {
        0 => Ttl::Keep,
        1 => Ttl::Never,
        2 => Ttl::At(Time(reader.long()?)),
        3 => Ttl::After(Duration::from_micros(reader.long()?)),
        4.. => return None,
    })
}

fn put_operation(out: &mut Vec<u8>, operation: &Operation<'_>) {
    out.push(match operation.action {
        Action::Check => 0,
        Action::Put { .. } => 1,
        Action::Delete => 2,
        Action::Increment { .. } => 3,
        Action::Append { .. } => 4,
        Action::Expire { .. } => 5,
        Action::GetAndPut { .. } => 6,
        Action::GetAndDelete => 7,
        Action::Get => 8,
    });
    match operation.condition {
        Condition::None => out.push(0),
        Condition::Absent => out.push(1),
        Condition::Present => out.push(2),
        Condition::Version(version) => put_tagged(out, 3, version.0),
    }
    put_string(out, operation.key);
    match operation.action {
        Action::Check | Action::Delete | Action::GetAndDelete | Action::Get => {}
        Action::Put { value, ttl } | Action::GetAndPut { value, ttl } => {
            put_string(out, value);
            put_ttl(out, ttl);
        }
        Action::Increment { by } => out.extend_from_slice(&by.to_le_bytes()),
        Action::Append { value, most } => {
            put_string(out, value);
            out.extend_from_slice(&most.to_le_bytes());
        }
        Action::Expire { ttl } => put_ttl(out, ttl),
    }
}

/// What `Command::encode` makes of one put without a condition that never expires.
pub fn put_command(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.reserve(key.len() + value.len() + 13);
    out.extend_from_slice(&[1, 0, 1, 0]);
    put_string(out, key);
    put_string(out, value);
    out.push(1);
}

/// The key and the value of what `put_command` made. Most of all that is ever asked for: looked at by itself, since
/// nothing has to be told apart in it.
pub(crate) fn plain_put(command: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = command.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<4>().filter(|_| *head == [1, 0, 1, 0])?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    (rest == [1]).then_some((key, value))
}

fn put_ttl(out: &mut Vec<u8>, ttl: Ttl) {
    match ttl {
        Ttl::Keep => out.push(0),
        Ttl::Never => out.push(1),
        Ttl::At(time) => put_tagged(out, 2, time.0),
        Ttl::After(span) => put_tagged(out, 3, u64::try_from(span.as_micros()).unwrap_or(u64::MAX)),
    }
}

fn put_tagged(out: &mut Vec<u8>, tag: u8, number: u64) {
    out.push(tag);
    put_long(out, number);
}

impl<'a> Command<'a> {
    /// More operations than two bytes can count are a command that nobody takes: the bytes say as many as they can.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_short(out, u16::try_from(self.operations.len()).unwrap_or(u16::MAX));
        self.operations.iter().for_each(|operation| put_operation(out, operation));
    }

    pub fn decode(bytes: &'a [u8]) -> Option<Command<'a>> {
        let mut left = Operations::of(bytes)?;
        let operations = (0..left.count()).map(|_| left.next().ok().flatten()).collect::<Option<_>>()?;
        left.next().ok().map(|_| Command { operations })
    }
}

fn optional<'a, T>(reader: &mut Reader<'a>, thing: impl FnOnce(&mut Reader<'a>) -> Option<T>) -> Option<Option<T>> {
    match reader.byte()? {
        0 => Some(None),
        1 => thing(reader).map(Some),
        2.. => None,
    }
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

impl<'a> Query<'a> {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let put_key = |out: &mut Vec<u8>, tag: u8, key: &[u8]| {
            out.push(tag);
            put_string(out, key);
        };
        let put_keys = |out: &mut Vec<u8>, tag: u8, keys: &[&[u8]]| {
            out.push(tag);
            put_length(out, keys.len());
            keys.iter().for_each(|key| put_string(out, key));
        };
        match self {
            Query::Get { key } => put_key(out, 0, key),
            Query::GetMany { keys } => put_keys(out, 1, keys),
            Query::Exists { keys } => put_keys(out, 2, keys),
            Query::Ttl { key } => put_key(out, 3, key),
            Query::Length { key } => put_key(out, 4, key),
            Query::Scan { prefix, after, slot, values, limit, bytes } => {
                put_key(out, 5, prefix);
                put_optional(out, *after, put_string);
                put_optional(out, *slot, |out, slot| put_short(out, slot.0));
                out.push(u8::from(*values));
                put_word(out, *limit);
                put_word(out, *bytes);
            }
            Query::Count => out.push(6),
            Query::Changes { which, after, limit } => {
                out.push(7);
                match which {
                    Which::Key(key) => put_key(out, 0, key),
                    Which::Prefix(prefix) => put_key(out, 1, prefix),
                }
                put_long(out, after.0);
                put_word(out, *limit);
            }
        }
    }

    pub fn decode(bytes: &'a [u8]) -> Option<Query<'a>> {
        let mut reader = Reader::new(bytes);
        let query = match reader.byte()? {
            0 => Query::Get { key: reader.string()? },
            1 => Query::GetMany { keys: reader.list(Reader::string)? },
            2 => Query::Exists { keys: reader.list(Reader::string)? },
            3 => Query::Ttl { key: reader.string()? },
            4 => Query::Length { key: reader.string()? },
            5 => Query::Scan {
                prefix: reader.string()?,
                after: optional(&mut reader, Reader::string)?,
                slot: optional(&mut reader, Reader::short)?.map(HashSlot),
                values: flag(&mut reader)?,
                limit: reader.word()?,
                bytes: reader.word()?,
            },
            6 => Query::Count,
            7 => {
                let which = match reader.byte()? {
                    0 => Which::Key(reader.string()?),
                    1 => Which::Prefix(reader.string()?),
                    2.. => return None,
                };
                Query::Changes { which, after: Offset(reader.long()?), limit: reader.word()? }
            }
            8.. => return None,
        };
        reader.end().map(|()| query)
    }
}

const DONE: u8 = 1;

/// Whether these bytes are an `Answer::Done`, as far as one look tells.
pub fn is_done(answer: &[u8]) -> bool {
    answer.first() == Some(&DONE)
}

/// The beginning of `Answer::Done`; that many outcomes follow.
pub(crate) fn put_done(out: &mut Vec<u8>, count: u16) {
    out.push(DONE);
    put_short(out, count);
}

/// `Answer::Done` of one value that was written.
pub(crate) fn put_written(out: &mut Vec<u8>, existed: bool, version: Offset) {
    let [a, b, c, d, e, f, g, h] = version.0.to_le_bytes();
    out.extend_from_slice(&[DONE, 1, 0, u8::from(existed) | 2, a, b, c, d, e, f, g, h, 0]);
}

pub(crate) fn put_outcome(out: &mut Vec<u8>, outcome: &Outcome<'_>) {
    let flags = u8::from(outcome.existed) | u8::from(outcome.version.is_some()) << 1;
    out.push(flags);
    if let Some(version) = outcome.version {
        put_long(out, version.0);
    }
    match outcome.detail {
        Detail::Nothing => out.push(0),
        Detail::Length(length) => put_tagged(out, 1, length),
        Detail::Number(number) => put_tagged(out, 2, number.cast_unsigned()),
        Detail::Old(None) => out.push(3),
        Detail::Old(Some(value)) => {
            out.push(4);
            put_string(out, value);
        }
    }
}

fn outcome<'a>(reader: &mut Reader<'a>) -> Option<Outcome<'a>> {
    let flags = reader.byte()?;
    if flags > 3 {
        return None;
    }
    let version = if flags & 2 == 0 { None } else { Some(Offset(reader.long()?)) };
    let detail = match reader.byte()? {
        0 => Detail::Nothing,
        1 => Detail::Length(reader.long()?),
        2 => Detail::Number(reader.signed()?),
        3 => Detail::Old(None),
        4 => Detail::Old(Some(reader.string()?)),
        5.. => return None,
    };
    Some(Outcome { existed: flags & 1 == 1, version, detail })
}

fn put_failure(out: &mut Vec<u8>, failure: Failure) {
    match failure {
        Failure::Condition { version: None } => out.push(0),
        Failure::Condition { version: Some(version) } => put_tagged(out, 1, version.0),
        Failure::NotAnInteger => out.push(2),
        Failure::Overflow => out.push(3),
        Failure::KeyTooLong => out.push(4),
        Failure::ValueTooLong => out.push(5),
        Failure::TooManyOperations => out.push(6),
        Failure::AnswerTooLong => out.push(7),
        Failure::Full => out.push(8),
    }
}

fn failure(reader: &mut Reader<'_>) -> Option<Failure> {
    Some(match reader.byte()? {
        0 => Failure::Condition { version: None },
        1 => Failure::Condition { version: Some(Offset(reader.long()?)) },
        2 => Failure::NotAnInteger,
        3 => Failure::Overflow,
        4 => Failure::KeyTooLong,
        5 => Failure::ValueTooLong,
        6 => Failure::TooManyOperations,
        7 => Failure::AnswerTooLong,
        8 => Failure::Full,
        9.. => return None,
    })
}

fn put_found(out: &mut Vec<u8>, found: Found<'_>) {
    put_long(out, found.version.0);
    put_long(out, found.expires.unwrap_or(Time::NEVER).0);
    put_string(out, found.value);
}

fn found<'a>(reader: &mut Reader<'a>) -> Option<Found<'a>> {
    let (version, expires) = (Offset(reader.long()?), Time(reader.long()?));
    Some(Found { version, expires: (expires < Time::NEVER).then_some(expires), value: reader.string()? })
}

fn change<'a>(reader: &mut Reader<'a>) -> Option<Change<'a>> {
    let (offset, kind) = (Offset(reader.long()?), Kind::of(reader.byte()?)?);
    Some(Change { offset, kind, key: reader.string()? })
}

impl Kind {
    pub(crate) fn tag(self) -> u8 {
        match self {
            Kind::Put => 0,
            Kind::Delete => 1,
            Kind::Expired => 2,
        }
    }

    pub(crate) fn of(tag: u8) -> Option<Kind> {
        [Kind::Put, Kind::Delete, Kind::Expired].get(usize::from(tag)).copied()
    }
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
            Answer::Value(value) => {
                out.push(4);
                put_optional(out, *value, put_found);
            }
            Answer::Values(values) => {
                out.push(5);
                put_length(out, values.len());
                values.iter().for_each(|value| put_optional(out, *value, put_found));
            }
            Answer::Number(number) => put_tagged(out, 6, *number),
            Answer::Remaining(Remaining::Absent) => out.extend([7, 0]),
            Answer::Remaining(Remaining::Forever) => out.extend([7, 1]),
            Answer::Remaining(Remaining::Until(time)) => {
                out.push(7);
                put_tagged(out, 2, time.0);
            }
            Answer::Scanned(scanned) => {
                out.push(8);
                put_length(out, scanned.found.len());
                for (key, found) in &scanned.found {
                    put_string(out, key);
                    put_found(out, *found);
                }
                put_optional(out, scanned.stopped_at, put_string);
            }
            Answer::Changes { changes, until } => {
                out.push(9);
                put_length(out, changes.len());
                for change in changes {
                    put_long(out, change.offset.0);
                    out.push(change.kind.tag());
                    put_string(out, change.key);
                }
                put_long(out, until.0);
            }
            Answer::Reset { oldest } => put_tagged(out, 10, oldest.0),
            Answer::TooLong => out.push(11),
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
            4 => Answer::Value(optional(&mut reader, found)?),
            5 => Answer::Values(reader.list(|reader| optional(reader, found))?),
            6 => Answer::Number(reader.long()?),
            7 => Answer::Remaining(match reader.byte()? {
                0 => Remaining::Absent,
                1 => Remaining::Forever,
                2 => Remaining::Until(Time(reader.long()?)),
                3.. => return None,
            }),
            8 => Answer::Scanned(Scanned {
                found: reader.list(|reader| Some((reader.string()?, found(reader)?)))?,
                stopped_at: optional(&mut reader, Reader::string)?,
            }),
            9 => Answer::Changes { changes: reader.list(change)?, until: Offset(reader.long()?) },
            10 => Answer::Reset { oldest: Offset(reader.long()?) },
            11 => Answer::TooLong,
            12.. => return None,
        };
        reader.end().map(|()| answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::Rng;

    #[test]
    fn a_plain_put_is_one_put_without_a_condition_that_never_expires_and_nothing_else() {
        let (mut rng, mut found) = (Rng::new(5), 0);
        for _ in 0..20_000 {
            let text = [b'x'; 300];
            let (key, value) = (&text[..rng.below(20) as usize], &text[..rng.below(300) as usize]);
            let mut bytes = Vec::new();
            put_command(key, value, &mut bytes);
            if rng.one_in(2) {
                let at = rng.below(bytes.len().min(14) as u64) as usize;
                bytes[at] = rng.below(4) as u8;
            }
            if rng.one_in(8) {
                bytes.truncate(rng.below(bytes.len() as u64) as usize);
            }
            let one = Operations::of(&bytes).filter(|all| all.count() == 1).and_then(Operations::only);
            let expected = match one {
                Some(Operation { key, condition: Condition::None, action: Action::Put { value, ttl: Ttl::Never } }) => {
                    Some((key, value))
                }
                Some(_) | None => None,
            };
            assert_eq!(plain_put(&bytes), expected, "{bytes:?}");
            found += u32::from(expected.is_some());
        }
        assert!((5_000..15_000).contains(&found), "{found} of both kinds");
    }
}
