//! Commands on streams. The message at offset N of a stream has the id `N-0`.
//!
//! Not here: how fields become a payload (`fields.rs`), reading (`range.rs`), waiting (`tail.rs`).

use super::expect::{Expect, Gather, StreamSay};
use super::options::{check_key, check_value, is, number};
use super::parse::Arguments;
use super::plan::{Plan, read, write};
use super::reply::Fault;
use super::table::{Streams, wrong_number};
use crate::data::{kv_query, stream_command, stream_query};
use crate::fields;
use atoll_stream::{Action, Command, Id, Operation, Query, StreamOffset, Trim};
use atoll_types::HashSlot;
use std::borrow::Cow;

/// An id as clients write it: `N`, or `N-S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryId {
    pub(crate) offset: u64,
    pub(crate) sequence: Option<u64>,
}

impl EntryId {
    pub(crate) fn parse(text: &[u8]) -> Result<EntryId, Fault> {
        let whole = |digits: &[u8]| -> Option<u64> {
            let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
            std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
        };
        let mut parts = text.splitn(2, |&byte| byte == b'-');
        let offset = parts.next().and_then(whole);
        let sequence = parts.next().map(whole);
        match (offset, sequence) {
            (Some(offset), None) => Ok(EntryId { offset, sequence: None }),
            (Some(offset), Some(Some(sequence))) => Ok(EntryId { offset, sequence: Some(sequence) }),
            (Some(_) | None, _) => Err(Fault::new("ERR Invalid stream ID specified as stream command argument")),
        }
    }

    /// The first offset whose id is not below this one.
    pub(crate) fn at_or_after(self) -> u64 {
        if self.sequence.unwrap_or(0) > 0 { self.offset.saturating_add(1) } else { self.offset }
    }
}

/// A command that writes to a stream, as operations that are one batch.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    stream: &'a [u8],
    steps: Vec<Step<'a>>,
    pub(crate) say: StreamSay,
}

#[derive(Debug)]
enum Step<'a> {
    Append { id: Id, payload: Cow<'a, [u8]> },
    Trim(Trim),
    Delete(Vec<StreamOffset>),
}

impl Batch<'_> {
    pub(crate) fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        self.steps.iter().map(|step| {
            let action = match step {
                Step::Append { id, payload } => Action::Append { id: *id, payload },
                Step::Trim(by) => Action::Trim { by: *by },
                Step::Delete(offsets) => Action::DeleteEntries { offsets: offsets.clone() },
            };
            Operation { stream: self.stream, action }
        })
    }

    pub(crate) fn slot(&self) -> HashSlot {
        HashSlot::of(self.stream)
    }

    pub(crate) fn plan(self) -> Plan {
        let command = stream_command(&Command { operations: self.operations().collect() });
        Plan::Ask(self.slot(), write(command), Expect::Stream(self.say))
    }
}

/// What this command writes; none of one that only reads.
pub(crate) fn batch<'a>(verb: Streams, arguments: Arguments<'a>, most: usize) -> Option<Result<Batch<'a>, Fault>> {
    match verb {
        Streams::Xadd => Some(append(arguments, most)),
        Streams::Xtrim => Some(trim(arguments)),
        Streams::Xdel => Some(delete(arguments)),
        Streams::Xlen | Streams::Xrange | Streams::Xrevrange | Streams::Xread => None,
    }
}

fn append<'a>(arguments: Arguments<'a>, most: usize) -> Result<Batch<'a>, Fault> {
    let stream = arguments.get(1);
    check_key(stream)?;
    let mut rest = arguments.from(2);
    if is(rest.get(0), "NOMKSTREAM") {
        return Err(Fault::new("ERR NOMKSTREAM is not supported: XADD makes the stream if there is none"));
    }
    let limit = if is(rest.get(0), "MAXLEN") || is(rest.get(0), "MINID") {
        let (limit, after) = threshold(rest)?;
        rest = after;
        Some(limit)
    } else {
        None
    };
    let id = rest.get(0);
    let pairs = rest.from(1);
    if pairs.len() == 0 || !pairs.len().is_multiple_of(2) {
        return Err(wrong_number("xadd"));
    }
    let id = match id.strip_suffix(b"-*") {
        Some(offset) => Id::Exactly(StreamOffset(EntryId::parse(offset)?.offset)),
        None if id == b"*" => Id::Auto,
        None => match EntryId::parse(id)? {
            EntryId { offset: 0, .. } => {
                return Err(Fault::new("ERR The ID specified in XADD must be greater than 0-0"));
            }
            EntryId { sequence: Some(1..), .. } => {
                return Err(Fault::new(
                    "ERR The ID specified in XADD must end with -0: ids count the messages of a stream",
                ));
            }
            EntryId { offset, .. } => Id::Exactly(StreamOffset(offset)),
        },
    };
    let fields: Vec<(&[u8], &[u8])> =
        (0..pairs.len()).step_by(2).map(|index| (pairs.get(index), pairs.get(index + 1))).collect();
    let payload = fields::encode(&fields);
    check_value(&payload, most)?;
    let mut steps = vec![Step::Append { id, payload }];
    steps.extend(limit.map(Step::Trim));
    let say = StreamSay::Id { operations: steps.len() };
    Ok(Batch { stream, steps, say })
}

/// `MAXLEN|MINID [=|~] threshold [LIMIT count]`, and what comes after it.
fn threshold(arguments: Arguments<'_>) -> Result<(Trim, Arguments<'_>), Fault> {
    let by_count = is(arguments.get(0), "MAXLEN");
    if !by_count && !is(arguments.get(0), "MINID") {
        return Err(Fault::SYNTAX);
    }
    let about = arguments.get(1) == b"~";
    let rest = arguments.from(if about || arguments.get(1) == b"=" { 2 } else { 1 });
    if rest.len() == 0 {
        return Err(Fault::SYNTAX);
    }
    let limit = if by_count {
        let count = u64::try_from(number(rest.get(0))?);
        Trim::Count(count.map_err(|_| Fault::new("ERR The MAXLEN argument must be >= 0."))?)
    } else {
        Trim::Before(StreamOffset(EntryId::parse(rest.get(0))?.at_or_after()))
    };
    let rest = rest.from(1);
    if !is(rest.get(0), "LIMIT") {
        return Ok((limit, rest));
    }
    // What is trimmed here is trimmed exactly, at no great cost: there is nothing to limit.
    if !about {
        return Err(Fault::new("ERR syntax error, LIMIT cannot be used without the special ~ option"));
    }
    number(rest.get(1))?;
    Ok((limit, rest.from(2)))
}

fn trim(arguments: Arguments<'_>) -> Result<Batch<'_>, Fault> {
    let stream = arguments.get(1);
    check_key(stream)?;
    let (limit, rest) = threshold(arguments.from(2))?;
    if rest.len() > 0 {
        return Err(Fault::SYNTAX);
    }
    Ok(Batch { stream, steps: vec![Step::Trim(limit)], say: StreamSay::Removed })
}

fn delete(arguments: Arguments<'_>) -> Result<Batch<'_>, Fault> {
    let stream = arguments.get(1);
    check_key(stream)?;
    let mut offsets = Vec::new();
    for text in arguments.from(2).iter() {
        let id = EntryId::parse(text)?;
        // There is nothing at N-1.
        if id.sequence.unwrap_or(0) == 0 {
            offsets.push(StreamOffset(id.offset));
        }
    }
    Ok(Batch { stream, steps: vec![Step::Delete(offsets)], say: StreamSay::Removed })
}

pub(crate) fn length(stream: &[u8]) -> Result<Plan, Fault> {
    check_key(stream)?;
    let slot = HashSlot::of(stream);
    let keys = kv_query(&atoll_kv::Query::Exists { keys: vec![stream] });
    let asks = vec![(slot, read(stream_query(&Query::Length { stream }))), (slot, read(keys))];
    Ok(Plan::Fan(asks, Gather::StreamLength))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        let id = |offset, sequence| Ok(EntryId { offset, sequence });
        assert_eq!(EntryId::parse(b"12"), id(12, None));
        assert_eq!(EntryId::parse(b"12-0"), id(12, Some(0)));
        for wrong in ["", "-", "1-", "-1", "a", "1-b", "+1", "1-2-3", "99999999999999999999"] {
            assert!(EntryId::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert_eq!(EntryId::parse(b"7-3").map(EntryId::at_or_after), Ok(8));
    }
}
