//! XRANGE and XREVRANGE: messages of a stream, page by page.

use super::expect::{number as kv_number, other_stream, streams};
use super::options::{check_key, is, number};
use super::parse::Arguments;
use super::plan::{Asker, Late, Plan, Said, read};
use super::reply::{Fault, Protocol, Reply, bytes};
use super::streams::EntryId;
use crate::data::{kv_query, stream_query};
use crate::fields;
use atoll_stream::{Answer, EXAMINED_MOST, Message, Query, StreamOffset};
use atoll_types::{HashSlot, Position};

/// What one question to the core may bring.
const PAGE: u32 = 4096;
const PAGE_BYTES: u32 = 1 << 20;
/// The longest reply.
const REPLY_MOST: usize = 64 << 20;

/// Messages as they stand in a reply.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub(crate) count: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Entries {
    fn push(&mut self, message: &Message<'_>) -> Result<(), Fault> {
        // The same in both protocols.
        let mut reply = Reply { out: &mut self.bytes, protocol: Protocol::Two };
        reply.array(2);
        reply.bulk(format!("{}-0", message.offset).as_bytes());
        match fields::decode(message.payload) {
            None => {
                reply.array(2);
                reply.bulk(fields::PLAIN);
                reply.bulk(message.payload);
            }
            Some(fields) => {
                reply.array(fields.len() * 2);
                for (name, value) in fields {
                    reply.bulk(name);
                    reply.bulk(value);
                }
            }
        }
        self.count += 1;
        if self.bytes.len() > REPLY_MOST {
            return Err(Fault::new("ERR the reply would be too long: ask for less at once, with COUNT"));
        }
        Ok(())
    }

    pub(crate) fn write(&self, reply: &mut Reply<'_>) {
        reply.array(self.count);
        reply.out.extend_from_slice(&self.bytes);
    }
}

/// What a stream was seen to hold; none where there is no such stream.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) entries: Option<Entries>,
    pub(crate) position: Position,
}

/// Up to `count` messages from `first` to `last`.
pub(crate) async fn forward(
    asker: &Asker,
    stream: &[u8],
    first: u64,
    last: u64,
    count: Option<u64>,
) -> Result<Seen, Fault> {
    let slot = HashSlot::of(stream);
    let mut entries = Entries::default();
    let mut from = first;
    loop {
        let left = count.map_or(u64::MAX, |count| count.saturating_sub(entries.count as u64));
        let limit = u32::try_from(left).unwrap_or(u32::MAX).min(PAGE);
        let query = Query::Read { stream, from: Some(StreamOffset(from)), limit, bytes: PAGE_BYTES };
        let given = asker.ask(slot, read(stream_query(&query))).await?;
        let position = given.position;
        let answer = streams(given.payload.as_slice())?;
        if let Answer::Absent = answer {
            return Ok(Seen { entries: (entries.count > 0).then_some(entries), position });
        }
        if let Answer::Reset { oldest } = answer {
            from = oldest.0;
            if from > last {
                return Ok(Seen { entries: Some(entries), position });
            }
            continue;
        }
        let Answer::Messages { messages, next } = &answer else { return Err(other_stream(&answer)) };
        let mut page_bytes = 0;
        for message in messages.iter().filter(|message| message.offset.0 <= last) {
            page_bytes += message.payload.len();
            entries.push(message)?;
        }
        let next = next.map_or(from, |next| next.0);
        let is_end = messages.len() < limit as usize
            && page_bytes < PAGE_BYTES as usize
            && next.saturating_sub(from) < EXAMINED_MOST as u64;
        if is_end || next > last || left <= messages.len() as u64 {
            return Ok(Seen { entries: Some(entries), position });
        }
        from = next;
    }
}

/// Up to `count` messages from `last` back to `first`.
async fn backward(asker: &Asker, stream: &[u8], first: u64, last: u64, count: Option<u64>) -> Result<Seen, Fault> {
    let slot = HashSlot::of(stream);
    let mut entries = Entries::default();
    let mut from = last;
    loop {
        let left = count.map_or(u64::MAX, |count| count.saturating_sub(entries.count as u64));
        let limit = u32::try_from(left).unwrap_or(u32::MAX).min(PAGE);
        let query = Query::ReadReverse { stream, from: Some(StreamOffset(from)), limit, bytes: PAGE_BYTES };
        let given = asker.ask(slot, read(stream_query(&query))).await?;
        let position = given.position;
        let answer = streams(given.payload.as_slice())?;
        if let Answer::Absent = answer {
            return Ok(Seen { entries: (entries.count > 0).then_some(entries), position });
        }
        if let Answer::Reset { .. } = answer {
            return Ok(Seen { entries: Some(entries), position });
        }
        let Answer::Messages { messages, next } = &answer else { return Err(other_stream(&answer)) };
        for message in messages.iter().filter(|message| message.offset.0 >= first) {
            entries.push(message)?;
        }
        match next {
            Some(next) if next.0 >= first && left > messages.len() as u64 => from = next.0,
            Some(_) | None => return Ok(Seen { entries: Some(entries), position }),
        }
    }
}

/// The offsets that one end of an interval allows.
fn first_of(text: &[u8]) -> Result<u64, Fault> {
    match text {
        b"-" => Ok(0),
        b"+" => Ok(u64::MAX),
        [b'(', id @ ..] => Ok(EntryId::parse(id)?.offset.saturating_add(1)),
        id => Ok(EntryId::parse(id)?.at_or_after()),
    }
}

/// None: nothing can be before it.
fn last_of(text: &[u8]) -> Result<Option<u64>, Fault> {
    match text {
        b"-" => Ok(None),
        b"+" => Ok(Some(u64::MAX)),
        [b'(', id @ ..] => {
            let id = EntryId::parse(id)?;
            Ok(if id.sequence == Some(0) { id.offset.checked_sub(1) } else { Some(id.offset) })
        }
        id => Ok(Some(EntryId::parse(id)?.offset)),
    }
}

pub(crate) fn plan(arguments: Arguments<'_>, reverse: bool, protocol: Protocol, asker: Asker) -> Result<Plan, Fault> {
    check_key(arguments.get(1))?;
    let stream = arguments.get(1).to_vec();
    let (low, high) = if reverse { (3, 2) } else { (2, 3) };
    let (first, last) = (first_of(arguments.get(low))?, last_of(arguments.get(high))?);
    let count = match arguments.len() {
        4 => None,
        6 if is(arguments.get(4), "COUNT") => Some(u64::try_from(number(arguments.get(5))?).unwrap_or(0)),
        _ => return Err(Fault::SYNTAX),
    };
    let last = match last {
        Some(last) if first <= last && count != Some(0) => last,
        Some(_) | None => return Ok(Plan::Reply(bytes(protocol, |reply| reply.array(0)))),
    };
    let late: Late = Box::pin(async move {
        let seen = match reverse {
            false => forward(&asker, &stream, first.max(1), last, count).await,
            true => backward(&asker, &stream, first, last, count).await,
        };
        let result = match seen {
            Ok(Seen { entries: Some(entries), .. }) => Ok(entries),
            Ok(Seen { entries: None, .. }) => absent(&asker, &stream).await,
            Err(fault) => Err(fault),
        };
        let reply = bytes(protocol, |reply| match &result {
            Ok(entries) => entries.write(reply),
            Err(fault) => reply.fault(fault),
        });
        Said { reply, rest: None }
    });
    Ok(Plan::Late { late, blocks: false })
}

/// There is no such stream; but perhaps a value of that name.
pub(crate) async fn absent(asker: &Asker, name: &[u8]) -> Result<Entries, Fault> {
    let query = kv_query(&atoll_kv::Query::Exists { keys: vec![name] });
    let given = asker.ask(HashSlot::of(name), read(query)).await?;
    if kv_number(given.payload.as_slice())? > 0 { Err(Fault::WRONG_TYPE) } else { Ok(Entries::default()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_intervals() {
        assert_eq!((first_of(b"-"), last_of(b"+")), (Ok(0), Ok(Some(u64::MAX))));
        assert_eq!((first_of(b"5"), last_of(b"5")), (Ok(5), Ok(Some(5))));
        assert_eq!((first_of(b"5-1"), last_of(b"5-1")), (Ok(6), Ok(Some(5))));
        assert_eq!((first_of(b"(5-0"), last_of(b"(5-0")), (Ok(6), Ok(Some(4))));
        assert_eq!(last_of(b"(0-0"), Ok(None));
        assert!(first_of(b"(-").is_err() && last_of(b"x").is_err());
    }
}
