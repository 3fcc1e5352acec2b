//! The last changes, so that a watcher can go on where it stopped, on any member.
//!
//! ```text
//!          reach
//!   forgotten │ remembered: every change of every key
//!  ───────────┼──────────────────────────────────▶ offsets
//! ```
//!
//! Part of the state: in snapshots and the digest, and filtered for both halves of a split. The values are not here: a
//! watcher reads them from the state, and sees the latest.

use crate::answer::{Change, Kind};
use crate::{CHANGES_BYTES_MOST, CHANGES_MOST};
use atoll_types::Offset;
use std::borrow::Cow;
use std::collections::VecDeque;
use xxhash_rust::xxh3::xxh3_64_with_seed;

#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: Offset,
    /// Its part of the digest.
    hash: u64,
    length: u32,
    kind: Kind,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// Every change after it is remembered. None before the first entry of the log that this state has seen: a bucket
    /// that was revived empty begins at some high offset and must not pretend to know what came before.
    reach: Option<Offset>,
    /// Offsets do not go down; those of one command are equal.
    entries: VecDeque<Entry>,
    /// The keys of the entries, one after another.
    keys: VecDeque<u8>,
    digest: u64,
}

impl Changes {
    /// The log has come to this offset.
    pub(crate) fn begin(&mut self, offset: Offset) {
        self.reach.get_or_insert(offset.previous());
    }

    pub(crate) fn reach(&self) -> Option<Offset> {
        self.reach
    }

    /// Begins again as a list that knows what came after `reach`.
    pub(crate) fn since(reach: Option<Offset>) -> Changes {
        Changes { reach, ..Changes::default() }
    }

    pub(crate) fn push(&mut self, offset: Offset, kind: Kind, key: &[u8]) {
        // Every bit of the offset counts: a damaged snapshot shows by its digest.
        let hash = xxh3_64_with_seed(key, offset.0).rotate_left(u32::from(kind.tag()));
        self.digest = self.digest.wrapping_add(hash);
        // Room is made before it is taken: one entry too many would double the list's memory.
        while self.entries.len() >= CHANGES_MOST
            || (!self.entries.is_empty() && self.keys.len() + key.len() > CHANGES_BYTES_MOST)
        {
            self.forget_first();
        }
        self.entries.push_back(Entry { offset, hash, length: key.len() as u32, kind });
        self.keys.extend(key);
    }

    fn forget_first(&mut self) {
        let Some(entry) = self.entries.pop_front() else { return };
        self.keys.drain(..entry.length as usize);
        self.digest = self.digest.wrapping_sub(entry.hash);
        // Whoever has seen this offset has seen all of its changes.
        self.reach = Some(entry.offset);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        let mut begin = 0;
        self.entries.iter().map(move |entry| {
            let end = begin + entry.length as usize;
            let key = self.key(begin, end);
            begin = end;
            Change { offset: entry.offset, kind: entry.kind, key }
        })
    }

    fn key(&self, begin: usize, end: usize) -> Cow<'_, [u8]> {
        let (front, back) = self.keys.as_slices();
        if let Some(key) = front.get(begin..end) {
            return Cow::Borrowed(key);
        }
        match begin.checked_sub(front.len()) {
            Some(within) => Cow::Borrowed(&back[within..end - front.len()]),
            None => Cow::Owned([&front[begin..], &back[..end - front.len()]].concat()),
        }
    }

    /// The changes of the keys that `goes` says go; the others stay.
    pub(crate) fn split(&mut self, goes: impl Fn(&[u8]) -> bool) -> Changes {
        let (mut stay, mut gone) = (Changes::since(self.reach), Changes::since(self.reach));
        for change in self.iter() {
            let half = if goes(&change.key) { &mut gone } else { &mut stay };
            half.push(change.offset, change.kind, &change.key);
        }
        *self = stay;
        gone
    }

    pub(crate) fn digest(&self) -> u64 {
        let reach = self.reach.map_or(0, |reach| reach.0.wrapping_add(1));
        self.digest.wrapping_add(xxh3_64_with_seed(b"reach", reach))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.keys.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_and_the_reach_says_so() {
        let mut changes = Changes::default();
        changes.begin(Offset(1));
        for offset in 1..=CHANGES_MOST as u64 + 3 {
            changes.push(Offset(offset), Kind::Put, format!("key {offset}").as_bytes());
        }
        assert_eq!((changes.reach(), changes.iter().count()), (Some(Offset(3)), CHANGES_MOST));
        let mut again = Changes::since(changes.reach());
        changes.iter().for_each(|change| again.push(change.offset, change.kind, &change.key));
        assert_eq!(again.digest(), changes.digest());
        assert!(changes.iter().eq(again.iter()));
        assert_eq!(changes.iter().next().map(|change| change.key.into_owned()), Some(b"key 4".to_vec()));
    }

    #[test]
    fn long_keys_are_forgotten_sooner() {
        let mut changes = Changes::default();
        changes.begin(Offset(1));
        let key = vec![b'k'; crate::KEY_MOST];
        (1..=9).for_each(|offset| changes.push(Offset(offset), Kind::Delete, &key));
        assert_eq!((changes.reach(), changes.iter().count()), (Some(Offset(5)), 4));
    }
}
