//! Entries of a bucket's log, as bytes. A primary makes them once; in its own log, in frames, in the logs of the other
//! members and on disks they stand as they are, and are copied, compared and sent again without being looked into.
//!
//! ```text
//! entry   flags:1  time:8  and, of a write:  slot:2  [usage:40]  length:4  command
//! ```
//!
//! Invariant: an `Entries` is whole entries, so many as it says, of times that do not go down. Bytes that come from
//! elsewhere are looked through before they become one.

use crate::bytes::{Reader, put_long, put_short, put_string};
use crate::{Epoch, HashSlot, Malformed, Payload, SessionUse, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

// The kind in the two lowest bits.
const WRITE: u8 = 0;
const TICK: u8 = 1;
const SPLIT: u8 = 2;
const USAGE: u8 = 1 << 2;

/// Where the time stands in an entry.
const TIME_AT: usize = 1;
/// What every entry begins with.
const HEAD: usize = 9;

/// One entry, looked at where it stands. Sent again by a later primary it stays the same, to the byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketEntry<'a> {
    /// In which it was first written.
    pub epoch: Epoch,
    /// Of the primary's clock, and never less than the entry before it had.
    pub time: Time,
    pub body: BucketBody<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BucketBody<'a> {
    Write {
        /// All keys of the command are in this slot.
        slot: HashSlot,
        usage: Option<SessionUse>,
        command: &'a [u8],
    },
    /// Only tells the time: something was due.
    Tick,
    /// The bucket is to be divided here. Does nothing by itself; the dividing edict does.
    Split,
}

impl fmt::Debug for BucketBody<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BucketBody::Write { slot, usage, command } => f
                .debug_struct("Write")
                .field("slot", slot)
                .field("usage", usage)
                .field("command", &Payload::from(*command))
                .finish(),
            BucketBody::Tick => f.write_str("Tick"),
            BucketBody::Split => f.write_str("Split"),
        }
    }
}

/// How many bytes an entry has.
pub fn entry_bytes(body: &BucketBody<'_>) -> usize {
    match body {
        BucketBody::Write { usage, command, .. } => {
            HEAD + 6 + command.len() + if usage.is_some() { SessionUse::BYTES } else { 0 }
        }
        BucketBody::Tick | BucketBody::Split => HEAD,
    }
}

/// Appends the bytes of an entry.
pub fn put_entry(out: &mut Vec<u8>, time: Time, body: &BucketBody<'_>) {
    match body {
        BucketBody::Write { slot, usage, command } => {
            out.push(WRITE | if usage.is_some() { USAGE } else { 0 });
            put_long(out, time.0);
            put_short(out, slot.0);
            if let Some(usage) = usage {
                usage.put(out);
            }
            put_string(out, command);
        }
        BucketBody::Tick => {
            out.push(TICK);
            put_long(out, time.0);
        }
        BucketBody::Split => {
            out.push(SPLIT);
            put_long(out, time.0);
        }
    }
}

#[inline(always)] // Looked at in place: moving what it finds about would cost more than finding it.
fn entry<'a>(epoch: Epoch, reader: &mut Reader<'a>) -> Option<BucketEntry<'a>> {
    let flags = reader.byte()?;
    let time = Time(reader.long()?);
    let body = match flags {
        WRITE => BucketBody::Write { slot: HashSlot(reader.short()?), usage: None, command: reader.string()? },
        TICK => BucketBody::Tick,
        SPLIT => BucketBody::Split,
        flags if flags == WRITE | USAGE => {
            let slot = HashSlot(reader.short()?);
            let usage = Some(SessionUse::read(reader)?);
            BucketBody::Write { slot, usage, command: reader.string()? }
        }
        _unknown => return None,
    };
    Some(BucketEntry { epoch, time, body })
}

/// Entries of one epoch that stand one after another in the log of a bucket. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked", into = "Unchecked")]
pub struct Entries {
    epoch: Epoch,
    count: u32,
    /// Of the last of them.
    time: Time,
    bytes: Payload,
}

#[derive(Serialize, Deserialize)]
struct Unchecked {
    epoch: Epoch,
    bytes: Payload,
}

impl From<Entries> for Unchecked {
    fn from(entries: Entries) -> Unchecked {
        Unchecked { epoch: entries.epoch, bytes: entries.bytes }
    }
}

impl TryFrom<Unchecked> for Entries {
    type Error = &'static str;

    fn try_from(unchecked: Unchecked) -> Result<Entries, &'static str> {
        Entries::read(unchecked.epoch, unchecked.bytes).map_err(|Malformed| "these are no entries")
    }
}

impl Entries {
    /// None of this epoch.
    pub fn none(epoch: Epoch) -> Entries {
        Entries { epoch, count: 0, time: Time::ZERO, bytes: Payload::default() }
    }

    /// What `put_entry` wrote, so many times, and last with this time.
    pub fn written(epoch: Epoch, count: u32, time: Time, bytes: impl Into<Payload>) -> Entries {
        Entries { epoch, count, time, bytes: bytes.into() }
    }

    pub fn one(entry: &BucketEntry<'_>) -> Entries {
        let mut bytes = Vec::new();
        put_entry(&mut bytes, entry.time, &entry.body);
        Entries::written(entry.epoch, 1, entry.time, bytes)
    }

    /// What these bytes are, which may be anything.
    pub fn read(epoch: Epoch, bytes: Payload) -> Result<Entries, Malformed> {
        let mut reader = Reader::new(bytes.as_slice());
        let (mut count, mut time) = (0_u32, Time::ZERO);
        while !reader.is_empty() {
            let entry = entry(epoch, &mut reader).filter(|entry| entry.time >= time).ok_or(Malformed)?;
            time = entry.time;
            count = count.checked_add(1).ok_or(Malformed)?;
        }
        Ok(Entries { epoch, count, time, bytes })
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub fn count(&self) -> u64 {
        u64::from(self.count)
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Of the last of them; zero where there is none.
    pub fn last_time(&self) -> Time {
        self.time
    }

    /// Of the first of them; zero where there is none.
    pub fn first_time(&self) -> Time {
        time(self.bytes.as_slice())
    }

    pub fn bytes(&self) -> &Payload {
        &self.bytes
    }

    pub fn iter(&self) -> Iter<'_> {
        iter(self.epoch, self.bytes.as_slice())
    }

    pub fn first(&self) -> Option<BucketEntry<'_>> {
        self.iter().next()
    }

    /// Each by itself.
    pub fn each(&self) -> impl Iterator<Item = Entries> {
        self.iter().map(|entry| Entries::one(&entry))
    }

    /// So many of them from the front, and the others.
    pub fn split_at(&self, count: u64) -> (Entries, Entries) {
        let mut iter = self.iter();
        let count = iter.by_ref().take(usize::try_from(count).unwrap_or(usize::MAX)).count() as u32;
        let rest = iter.rest();
        let (front, rest) = self.bytes.as_slice().split_at(self.bytes.len() - rest.len());
        let part = |count: u32, bytes: &[u8]| {
            let time = self::iter(self.epoch, bytes).last().map_or(Time::ZERO, |entry| entry.time);
            Entries::written(self.epoch, count, time, bytes)
        };
        (part(count, front), part(self.count - count, rest))
    }

    /// With these behind them, which are of the same epoch.
    pub fn joined(&self, others: &[&Entries]) -> Entries {
        let mut bytes = self.bytes.as_slice().to_vec();
        let (mut count, mut time) = (self.count, self.time);
        for other in others {
            assert_eq!(other.epoch, self.epoch, "only entries of one epoch are joined");
            bytes.extend_from_slice(other.bytes.as_slice());
            (count, time) = (count + other.count, time.max(other.time));
        }
        Entries::written(self.epoch, count, time, bytes)
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Of the first of them; zero where there is none.
pub fn time(bytes: &[u8]) -> Time {
    let time = bytes.get(TIME_AT..).and_then(<[u8]>::first_chunk);
    Time(time.map_or(0, |time| u64::from_le_bytes(*time)))
}

/// What `put_entry` wrote.
pub fn iter(epoch: Epoch, bytes: &[u8]) -> Iter<'_> {
    Iter { epoch, reader: Reader::new(bytes) }
}

#[derive(Clone, Debug)]
pub struct Iter<'a> {
    epoch: Epoch,
    reader: Reader<'a>,
}

impl<'a> Iter<'a> {
    /// The bytes of those that are left.
    pub fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = BucketEntry<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<BucketEntry<'a>> {
        // Whatever is there was looked through: where no entry is left, nothing is.
        entry(self.epoch, &mut self.reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counter, Series, SessionId, Slot};

    const EPOCH: Epoch = Epoch { slot: Slot(7), ..Epoch::ZERO };

    fn bodies() -> Vec<BucketBody<'static>> {
        let session = |counter| SessionId { opened: Time(5), token: 6, counter };
        let usage = |counter| SessionUse { session: session(counter), series: Series(1), floor: Series(0), attempt: 9 };
        let write = |usage| BucketBody::Write { slot: HashSlot(3), usage, command: b"a command" };
        let wrapping = Counter::Wrapping { bits: 12, slot: HashSlot(3) };
        vec![
            write(None),
            BucketBody::Tick,
            write(Some(usage(Counter::Full))),
            write(Some(usage(wrapping))),
            BucketBody::Split,
        ]
    }

    fn all() -> Entries {
        let mut bytes = Vec::new();
        (1..).zip(bodies()).for_each(|(time, body)| put_entry(&mut bytes, Time(time), &body));
        Entries::written(EPOCH, 5, Time(5), bytes)
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let all = all();
        assert_eq!(Entries::read(EPOCH, all.bytes().clone()), Ok(all.clone()));
        assert!(all.iter().map(|entry| entry.body).eq(bodies()));
        assert!(all.iter().map(|entry| entry.time.0).eq(1..=5));
        assert_eq!((all.first_time(), all.last_time(), all.count()), (Time(1), Time(5), 5));
        assert_eq!(Entries::none(EPOCH).first_time(), Time::ZERO);
        for entry in all.iter() {
            let one = Entries::one(&entry);
            assert_eq!((one.first(), one.bytes().len()), (Some(entry), entry_bytes(&entry.body)));
        }
    }

    #[test]
    fn entries_are_divided_and_joined() {
        let all = all();
        for count in 0..=6 {
            let (front, rest) = all.split_at(count);
            assert_eq!((front.count(), rest.count()), (count.min(5), 5 - count.min(5)));
            assert!(front.iter().chain(rest.iter()).eq(all.iter()));
            assert_eq!(front.last_time(), Time(count.min(5)));
            assert_eq!(front.joined(&[&rest]), all);
        }
    }

    #[test]
    fn what_is_no_row_of_entries_is_refused() {
        let whole = all().bytes().as_slice().to_vec();
        let ends: Vec<usize> = (0..=5).map(|count| all().split_at(count).0.bytes().len()).collect();
        for length in 0..whole.len() {
            let read = Entries::read(EPOCH, whole[..length].into());
            assert_eq!(read.is_ok(), ends.contains(&length), "{length} bytes");
        }
        let mut unknown = whole.clone();
        unknown[0] = 3;
        assert_eq!(Entries::read(EPOCH, unknown.into()), Err(Malformed));
        let mut back = whole;
        back[TIME_AT] = 200;
        assert_eq!(Entries::read(EPOCH, back.into()), Err(Malformed), "the time goes back");
    }
}
