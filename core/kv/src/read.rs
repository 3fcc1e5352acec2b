//! The answer to each query. What is due by the time of the read is not there, whether or not the log has been told.

use crate::answer::{Answer, Change, Found, Remaining, Scanned};
use crate::machine::Store;
use crate::query::{Query, Which};
use crate::record::Record;
use crate::{ANSWER_MOST, EXAMINED_MOST};
use atoll_types::{At, HashSlot, Offset, Time};
use std::ops::Bound;

/// What a value that is found takes in an answer, beside itself.
const FOUND: usize = 21;

impl Store {
    pub(crate) fn answer<'a>(&'a self, at: At, query: &'a [u8]) -> Answer<'a> {
        let Some(query) = Query::decode(query) else { return Answer::Malformed };
        match query {
            Query::Get { key } => Answer::Value(self.get(at, key).map(found)),
            Query::GetMany { keys } => self.get_many(at, &keys),
            Query::Exists { keys } => {
                Answer::Number(keys.iter().filter(|key| self.get(at, key).is_some()).count() as u64)
            }
            Query::Ttl { key } => Answer::Remaining(match self.get(at, key).map(Record::expires) {
                None => Remaining::Absent,
                Some(None) => Remaining::Forever,
                Some(Some(time)) => Remaining::Until(time),
            }),
            Query::Length { key } => Answer::Number(self.get(at, key).map_or(0, |record| record.value().len() as u64)),
            Query::Scan { prefix, after, slot, values, limit, bytes } => {
                Answer::Scanned(self.scan(at, &Scan { prefix, after, slot, values, limit, bytes }))
            }
            Query::Count => Answer::Number(self.table.count() as u64),
            Query::Changes { which, after, limit } => self.changes_after(at, which, after, limit),
        }
    }

    fn get(&self, at: At, key: &[u8]) -> Option<Record<'_>> {
        self.table.get(key).filter(|&record| is_there(at.time, record))
    }

    fn get_many(&self, at: At, keys: &[&[u8]]) -> Answer<'_> {
        let mut bytes = 0;
        let mut values = Vec::new();
        for key in keys {
            let value = self.get(at, key).map(found);
            bytes += value.map_or(1, |found| FOUND + found.value.len());
            if bytes > ANSWER_MOST {
                return Answer::TooLong;
            }
            values.push(value);
        }
        Answer::Values(values)
    }

    fn scan<'a>(&'a self, at: At, scan: &Scan<'_>) -> Scanned<'a> {
        let begin = match scan.after {
            Some(after) if after >= scan.prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(scan.prefix),
        };
        let bytes_most = (scan.bytes as usize).min(ANSWER_MOST);
        let mut scanned = Scanned { found: Vec::new(), stopped_at: None };
        let (mut examined, mut bytes) = (0, 0);
        let mut records = self.table.from(begin).take_while(|record| record.key().starts_with(scan.prefix)).peekable();
        while let Some(record) = records.next() {
            examined += 1;
            if is_there(at.time, record) && scan.slot.is_none_or(|slot| HashSlot::of(record.key()) == slot) {
                let whole = found(record);
                let found = if scan.values { whole } else { Found { value: &[], ..whole } };
                bytes += record.key().len() + found.value.len();
                scanned.found.push((record.key(), found));
            }
            let is_enough = scanned.found.len() >= scan.limit as usize || bytes >= bytes_most;
            if (is_enough || examined >= EXAMINED_MOST) && records.peek().is_some() {
                scanned.stopped_at = Some(record.key());
                break;
            }
        }
        scanned
    }

    /// Gives all changes of an offset or none: a watcher that went on in the middle of a batch would miss the rest.
    fn changes_after(&self, at: At, which: Which<'_>, after: Offset, limit: u32) -> Answer<'_> {
        let oldest = self.changes.reach().unwrap_or(at.offset);
        if after < oldest {
            return Answer::Reset { oldest };
        }
        let mut until = at.offset.max(after);
        let mut changes: Vec<Change<'_>> = Vec::new();
        let is_asked_for = |change: &Change<'_>| match which {
            Which::Key(key) => change.key == key,
            Which::Prefix(prefix) => change.key.starts_with(prefix),
        };
        for change in self.changes.after(after).filter(is_asked_for) {
            let last = changes.last().map(|last| last.offset);
            if let Some(last) = last.filter(|&last| last < change.offset && changes.len() >= limit as usize) {
                until = last;
                break;
            }
            changes.push(change);
        }
        Answer::Changes { changes, until }
    }
}

#[derive(Debug)]
struct Scan<'a> {
    prefix: &'a [u8],
    after: Option<&'a [u8]>,
    slot: Option<HashSlot>,
    values: bool,
    limit: u32,
    bytes: u32,
}

fn is_there(now: Time, record: Record<'_>) -> bool {
    record.expires().is_none_or(|time| time > now)
}

fn found(record: Record<'_>) -> Found<'_> {
    Found { version: record.version(), expires: record.expires(), value: record.value() }
}
