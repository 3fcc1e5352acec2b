//! The answer to each query. What is too old by the time of the read is not there, whether or not the log has been
//! told.

use crate::answer::{Answer, Info, Message};
use crate::command::StreamOffset;
use crate::machine::Streams;
use crate::query::Query;
use crate::stream::{Kept, Stream};
use crate::{ANSWER_MOST, EXAMINED_MOST};
use atoll_types::{At, Time};
use std::ops::Bound;

impl Streams {
    pub(crate) fn answer<'a>(&'a self, at: At, query: &'a [u8]) -> Answer<'a> {
        let Some(query) = Query::decode(query) else { return Answer::Malformed };
        match query {
            Query::Read { stream, from, limit, bytes } => match self.stream(stream) {
                Some(stream) => read(stream, at.time, from, Limits::new(limit, bytes)),
                None => Answer::Absent,
            },
            Query::ReadReverse { stream, from, limit, bytes } => match self.stream(stream) {
                Some(stream) => read_reverse(stream, at.time, from, Limits::new(limit, bytes)),
                None => Answer::Absent,
            },
            Query::Length { stream } => {
                Answer::Number(self.stream(stream).map_or(0, |stream| info(stream, at.time).length))
            }
            Query::Info { stream } => {
                self.stream(stream).map_or(Answer::Absent, |stream| Answer::Info(info(stream, at.time)))
            }
            Query::List { prefix, after, limit } => self.list(prefix, after, limit),
        }
    }

    fn list(&self, prefix: &[u8], after: Option<&[u8]>, limit: u32) -> Answer<'_> {
        let begin = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix),
        };
        let range = self.streams().range::<[u8], _>((begin, Bound::Unbounded));
        let mut left = range.map(|(name, _)| &**name).take_while(|name| name.starts_with(prefix)).peekable();
        let (mut names, mut bytes) = (Vec::new(), 0);
        while let Some(name) = left.next() {
            names.push(name);
            bytes += name.len();
            if (names.len() >= limit as usize || bytes >= ANSWER_MOST) && left.peek().is_some() {
                return Answer::Names { names, stopped_at: Some(name) };
            }
        }
        Answer::Names { names, stopped_at: None }
    }
}

fn info(stream: &Stream, now: Time) -> Info {
    let gone = stream.too_old(now);
    let payloads = stream.places().iter().take(gone).filter_map(|kept| kept.payload.as_ref());
    let (count, bytes) = payloads.fold((0, 0), |(count, bytes), payload| (count + 1, bytes + payload.len() as u64));
    Info {
        first: StreamOffset(stream.first().0 + gone as u64),
        next: stream.next(),
        length: stream.length() - count,
        bytes: stream.bytes() - bytes,
        retention: stream.retention(),
    }
}

/// How much one answer may hold. A message is always looked at: whoever reads gets on.
#[derive(Debug)]
struct Limits {
    count: usize,
    bytes: usize,
    examined: usize,
}

impl Limits {
    fn new(count: u32, bytes: u32) -> Limits {
        Limits { count: count as usize, bytes: (bytes as usize).min(ANSWER_MOST), examined: EXAMINED_MOST }
    }

    /// Takes note of one more place. Is that enough?
    fn reached(&mut self, kept: &Kept) -> bool {
        self.examined = self.examined.saturating_sub(1);
        if let Some(payload) = &kept.payload {
            self.count = self.count.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(payload.len());
        }
        self.count == 0 || self.bytes == 0 || self.examined == 0
    }
}

fn message(offset: StreamOffset, kept: &Kept) -> Option<Message<'_>> {
    kept.payload.as_ref().map(|payload| Message { offset, time: kept.time, payload })
}

fn read(stream: &Stream, now: Time, from: Option<StreamOffset>, mut limits: Limits) -> Answer<'_> {
    let oldest = info(stream, now).first;
    let mut next = from.unwrap_or(oldest);
    if next < oldest {
        return Answer::Reset { oldest };
    }
    let skip = usize::try_from(next.0 - stream.first().0).unwrap_or(usize::MAX);
    let mut messages = Vec::new();
    for kept in stream.places().range(skip.min(stream.places().len())..) {
        messages.extend(message(next, kept));
        next = next.next();
        if limits.reached(kept) {
            break;
        }
    }
    Answer::Messages { messages, next: Some(next) }
}

fn read_reverse(stream: &Stream, now: Time, from: Option<StreamOffset>, mut limits: Limits) -> Answer<'_> {
    let oldest = info(stream, now).first;
    if from.is_some_and(|from| from < oldest) {
        return Answer::Reset { oldest };
    }
    let (first, end) = (stream.first(), from.map_or(stream.next(), |from| from.next().min(stream.next())));
    let places = |offset: StreamOffset| usize::try_from(offset.0 - first.0).unwrap_or(usize::MAX);
    let mut messages = Vec::new();
    let mut offset = end.0;
    for kept in stream.places().range(places(oldest)..places(end)).rev() {
        offset -= 1;
        messages.extend(message(StreamOffset(offset), kept));
        if limits.reached(kept) {
            break;
        }
    }
    let next = (offset > oldest.0).then(|| StreamOffset(offset - 1));
    Answer::Messages { messages, next }
}
