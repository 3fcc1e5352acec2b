//! The last changes, so that a watcher can go on where it stopped, on any member.
//!
//! ```text
//!          reach
//!   forgotten │ remembered: every change of every key
//!  ───────────┼──────────────────────────────────▶ offsets
//!             │ segment ║ segment ║ … ║ the one that is written
//!
//! change   kind:2 bits, offsets since the change before: 6 bits [offsets:8]   key's length:1 [length:4]   key
//! ```
//!
//! A segment is begun where one is full and the offset changes, and is forgotten as a whole: where segments begin is a
//! function of what is remembered.
//!
//! Part of the state: in snapshots and the digest, and filtered for both halves of a split. The values are not here: a
//! watcher reads them from the state, and sees the latest.

use crate::answer::{Change, Kind};
use crate::{CHANGES_BYTES_MOST, CHANGES_MOST};
use atoll_types::Offset;
use atoll_types::bytes::{Reader, put_length, put_long};
use std::collections::VecDeque;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// A segment that has as many changes, or as many bytes, takes no more of another offset.
const SEGMENT_CHANGES: usize = 64;
const SEGMENT_BYTES: usize = 16 << 10;
/// In six bits: the offsets stand in eight bytes of their own.
const FAR: u64 = 63;
/// In one byte: the length stands in four bytes of its own.
const LONG: u8 = 255;

#[derive(Clone, Debug, Default)]
struct Segment {
    /// The first change counts its offset from this.
    begin: Offset,
    /// Of the last change.
    last: Offset,
    count: usize,
    bytes: Vec<u8>,
    digest: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// Every change after it is remembered. None before the first entry of the log that this state has seen: a bucket
    /// that was revived empty begins at some high offset and must not pretend to know what came before.
    reach: Option<Offset>,
    /// Offsets do not go down; those of one command are equal, and in one segment. None is without a change …
    full: VecDeque<Segment>,
    /// … but the last, before the first change.
    last: Segment,
    /// Of all segments but the last.
    count: usize,
    bytes: usize,
    digest: u64,
}

/// Its part of the digest: every bit of the offset counts, so that a damaged snapshot shows.
fn hash(offset: Offset, kind: Kind, key: u64) -> u64 {
    let mixed = (key ^ offset.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 29)).rotate_left(u32::from(kind.tag()))
}

impl Changes {
    /// The log has come to this offset.
    pub(crate) fn begin(&mut self, offset: Offset) {
        if self.reach.is_none() {
            self.reach = Some(offset.previous());
        }
    }

    pub(crate) fn reach(&self) -> Option<Offset> {
        self.reach
    }

    /// Begins again as a list that knows what came after `reach`.
    pub(crate) fn since(reach: Option<Offset>) -> Changes {
        Changes { reach, ..Changes::default() }
    }

    /// `hash`: of the key, which whoever changes it has looked for.
    pub(crate) fn push(&mut self, offset: Offset, kind: Kind, key: &[u8], hash: u64) {
        let is_full = self.last.count >= SEGMENT_CHANGES || self.last.bytes.len() >= SEGMENT_BYTES;
        if self.last.count == 0 || (is_full && self.last.last != offset) {
            self.begin_segment(offset);
        }
        self.last.put(offset, kind, key);
        self.last.digest = self.last.digest.wrapping_add(self::hash(offset, kind, hash));
        if self.count() > CHANGES_MOST || self.held() > CHANGES_BYTES_MOST {
            self.forget();
        }
    }

    fn begin_segment(&mut self, offset: Offset) {
        // The next has about as many bytes as the one before.
        let bytes = Vec::with_capacity(self.last.bytes.len());
        let fresh = Segment { begin: offset, last: offset, bytes, ..Segment::default() };
        let mut full = std::mem::replace(&mut self.last, fresh);
        if full.count > 0 {
            full.bytes.shrink_to_fit();
            self.count += full.count;
            self.bytes += full.bytes.len();
            self.digest = self.digest.wrapping_add(full.digest);
            self.full.push_back(full);
        }
    }

    /// The oldest go, until what is left is little enough; or was written by one command.
    fn forget(&mut self) {
        let most = |changes: &Changes| if changes.full.is_empty() { 2 * CHANGES_MOST } else { CHANGES_MOST };
        while self.count() > most(self) || self.held() > CHANGES_BYTES_MOST {
            let gone = match self.full.pop_front() {
                Some(gone) => {
                    self.count -= gone.count;
                    self.bytes -= gone.bytes.len();
                    self.digest = self.digest.wrapping_sub(gone.digest);
                    gone
                }
                None => std::mem::take(&mut self.last),
            };
            // Whoever has seen this offset has seen all of its changes.
            self.reach = Some(gone.last);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count + self.last.count
    }

    /// Bytes of all of them.
    fn held(&self) -> usize {
        self.bytes + self.last.bytes.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        self.segments().flat_map(Segment::iter)
    }

    fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.full.iter().chain(Some(&self.last))
    }

    /// Those of later offsets.
    pub(crate) fn after(&self, offset: Offset) -> impl Iterator<Item = Change<'_>> {
        let segments = self.segments().skip_while(move |segment| segment.last <= offset);
        segments.flat_map(Segment::iter).filter(move |change| change.offset > offset)
    }

    /// The changes of the keys that `goes` says go; the others stay.
    pub(crate) fn split(&mut self, goes: impl Fn(&[u8]) -> bool) -> Changes {
        let (mut stay, mut gone) = (Changes::since(self.reach), Changes::since(self.reach));
        for change in self.iter() {
            let half = if goes(change.key) { &mut gone } else { &mut stay };
            half.push(change.offset, change.kind, change.key, xxh3_64(change.key));
        }
        *self = stay;
        gone
    }

    pub(crate) fn digest(&self) -> u64 {
        let reach = self.reach.map_or(0, |reach| reach.0.wrapping_add(1));
        self.digest.wrapping_add(self.last.digest).wrapping_add(xxh3_64_with_seed(b"reach", reach))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.full.capacity() * size_of::<Segment>() + self.bytes + self.last.bytes.capacity()
    }
}

impl Segment {
    fn put(&mut self, offset: Offset, kind: Kind, key: &[u8]) {
        let since = offset.above(self.last);
        let head = kind.tag() << 6 | since.min(FAR) as u8;
        match u8::try_from(key.len()) {
            Ok(length) if length < LONG && since < FAR => {
                self.bytes.reserve(2 + key.len());
                self.bytes.extend_from_slice(&[head, length]);
                self.bytes.extend_from_slice(key);
            }
            length => {
                self.bytes.push(head);
                if since >= FAR {
                    put_long(&mut self.bytes, since);
                }
                self.bytes.push(length.unwrap_or(LONG));
                if length.unwrap_or(LONG) == LONG {
                    put_length(&mut self.bytes, key.len());
                }
                self.bytes.extend_from_slice(key);
            }
        }
        (self.last, self.count) = (offset, self.count + 1);
    }

    fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        let (mut reader, mut offset) = (Reader::new(&self.bytes), self.begin);
        std::iter::from_fn(move || {
            let head = reader.byte()?;
            let since = match u64::from(head & 0x3f) {
                FAR => reader.long()?,
                near => near,
            };
            offset = Offset(offset.0 + since);
            let key = match reader.byte()? {
                LONG => reader.string()?,
                length => reader.take(usize::from(length))?,
            };
            Some(Change { offset, kind: Kind::of(head >> 6)?, key })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(changes: &mut Changes, offset: u64, kind: Kind, key: &[u8]) {
        changes.push(Offset(offset), kind, key, xxh3_64(key));
    }

    /// Pushed again in their order they are the same, with all that is kept up to date.
    fn check(changes: &Changes) {
        let mut again = Changes::since(changes.reach());
        changes.iter().for_each(|change| push(&mut again, change.offset.0, change.kind, change.key));
        assert_eq!((again.digest(), again.count(), again.held()), (changes.digest(), changes.count(), changes.held()));
        assert!(changes.iter().eq(again.iter()));
        let begins = |changes: &Changes| changes.segments().map(|segment| segment.begin).collect::<Vec<_>>();
        assert_eq!(begins(&again), begins(changes));
        let middle = changes.iter().nth(changes.count() / 2).map_or(Offset(0), |change| change.offset);
        assert!(changes.after(middle).eq(changes.iter().filter(|change| change.offset > middle)));
    }

    #[test]
    fn the_oldest_are_forgotten_and_the_reach_says_so() {
        let mut changes = Changes::default();
        changes.begin(Offset(1));
        for offset in 1..=CHANGES_MOST as u64 + 3 {
            push(&mut changes, offset, Kind::Put, format!("key {offset}").as_bytes());
        }
        let (forgotten, left) = (SEGMENT_CHANGES as u64, CHANGES_MOST + 3 - SEGMENT_CHANGES);
        assert_eq!((changes.reach(), changes.iter().count()), (Some(Offset(forgotten)), left));
        assert_eq!(changes.iter().next().map(|change| change.key), Some(&b"key 65"[..]));
        check(&changes);
    }

    #[test]
    fn long_keys_are_forgotten_sooner() {
        let mut changes = Changes::default();
        changes.begin(Offset(1));
        let key = vec![b'k'; crate::KEY_MOST - 100];
        (1..=9).for_each(|offset| push(&mut changes, offset, Kind::Delete, &key));
        assert_eq!((changes.reach(), changes.iter().count()), (Some(Offset(5)), 4));
        check(&changes);
    }

    #[test]
    fn whatever_one_command_changed_is_remembered_together() {
        let mut changes = Changes::default();
        changes.begin(Offset(1));
        (1..SEGMENT_CHANGES as u64).for_each(|offset| push(&mut changes, offset, Kind::Put, b"before"));
        let batch = |changes: &mut Changes, offset| {
            (0..crate::OPERATIONS_MOST).for_each(|_| push(changes, offset, Kind::Put, b"of a batch"));
        };
        batch(&mut changes, 100);
        assert_eq!(changes.after(Offset(99)).count(), crate::OPERATIONS_MOST);
        check(&changes);
        batch(&mut changes, 101);
        assert_eq!((changes.reach(), changes.count()), (Some(Offset(100)), crate::OPERATIONS_MOST));
        check(&changes);
    }

    #[test]
    fn offsets_and_lengths_of_any_size_are_read_as_they_were_written() {
        let mut changes = Changes::default();
        changes.begin(Offset(5));
        let offsets = [5, 5, 6, 68, 69, 1 << 20, 1 << 40, u64::MAX];
        for (offset, length) in offsets.into_iter().zip([0, 1, 254, 255, 256, 300, 0, 9]) {
            push(&mut changes, offset, Kind::Expired, &vec![b'k'; length]);
        }
        assert!(changes.iter().map(|change| change.offset.0).eq(offsets));
        assert!(changes.iter().map(|change| change.key.len()).eq([0, 1, 254, 255, 256, 300, 0, 9]));
        assert!(changes.iter().all(|change| change.kind == Kind::Expired));
        check(&changes);
    }
}
