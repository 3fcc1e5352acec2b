//! Keys with their values. A record is on the heap; its handle says where. The index finds the handle by the key, the
//! order walks it among its neighbours, and those that expire stand in a list by time as well.
//!
//! ```text
//!   key ─▶ hash ─▶ index ─┐
//!   from a key on ▶ order ┼─▶ handle ─▶ heap: the bytes of a record
//!   what is due ─▶ times ─┘
//! ```
//!
//! A handle is good until the record is written again or `tidy` is called. Handles depend on the history, not on the
//! state: nothing that shows outside may depend on their order.
//!
//! Not here: conditions, limits, what an operation does (`operation.rs`).

use crate::heap::Heap;
use crate::index::{Handle, Index};
use crate::order::{Order, Place};
use crate::record::Record;
use atoll_types::{Offset, Time};
use std::collections::BTreeSet;
use std::ops::Bound;
use xxhash_rust::xxh3::xxh3_64;

/// What the list of times holds for each entry.
const EXPIRY_OVERHEAD: usize = 2 * size_of::<(Time, Handle)>();
/// A record that outgrew its place gets this share of its length to grow into: one that is appended to does not move
/// each time.
const GROWTH: usize = 8;

/// Where a key is, or that it is not there. Good for as long as a handle is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// Of the key.
    pub(crate) hash: u64,
    pub(crate) handle: Option<Handle>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    heap: Heap,
    index: Index,
    order: Order,
    expiries: BTreeSet<(Time, Handle)>,
    count: usize,
    /// The sum of the hashes of all records.
    digest: u64,
}

impl Table {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// About what it takes up in memory.
    pub(crate) fn bytes(&self) -> usize {
        let lists = self.index.bytes() + self.order.bytes(self.count) + self.expiries.len() * EXPIRY_OVERHEAD;
        self.heap.bytes() + lists
    }

    pub(crate) fn record(&self, handle: Handle) -> Record<'_> {
        self.heap.record(handle)
    }

    fn key(&self, handle: Handle) -> &[u8] {
        self.heap.key(handle)
    }

    pub(crate) fn find(&self, key: &[u8]) -> Spot {
        let hash = xxh3_64(key);
        Spot { hash, handle: self.index.find(hash, |handle| self.key(handle) == key) }
    }

    /// Somebody will look for this key soon.
    pub(crate) fn foresee(&self, key: &[u8]) {
        // Whether it is this key the record would tell, which is what is not here yet.
        if let Some(handle) = self.index.find(xxh3_64(key), |_| true) {
            self.heap.foresee(handle);
        }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Record<'_>> {
        self.find(key).handle.map(|handle| self.record(handle))
    }

    /// Writes a value. `spot` is what `find` says of the key now.
    pub(crate) fn put(&mut self, spot: Spot, key: &[u8], version: Offset, value: &[u8], expires: Option<Time>) {
        let Spot { hash, handle: Some(handle) } = spot else {
            return self.insert_at(self.place(key), spot.hash, Record::new(key, version, value, expires));
        };
        if expires.is_none()
            && let Some((before, after)) = self.heap.write_over(handle, key.len(), version, value)
        {
            self.digest = self.digest.wrapping_sub(before.hash(hash)).wrapping_add(after.hash(hash));
            return;
        }
        let record = Record::new(key, version, value, expires);
        let before = self.heap.stamp(handle);
        let had = before.expires;
        self.digest = self.digest.wrapping_sub(before.hash(hash)).wrapping_add(record.stamp().hash(hash));
        if self.heap.overwrite(handle, record) {
            return self.change_expiry((handle, had), (handle, expires));
        }
        let place = self.order.place_of(handle, key, |handle| self.heap.key(handle));
        let moved = self.heap.add(record, record.length() / GROWTH);
        self.heap.remove(handle);
        self.index.replace(hash, handle, moved);
        self.order.replace(place, moved);
        self.change_expiry((handle, had), (moved, expires));
    }

    fn change_expiry(&mut self, before: (Handle, Option<Time>), after: (Handle, Option<Time>)) {
        if before == after {
            return;
        }
        if let (handle, Some(time)) = before {
            self.expiries.remove(&(time, handle));
        }
        if let (handle, Some(time)) = after {
            self.expiries.insert((time, handle));
        }
    }

    /// Adds a record whose key comes after all that are there.
    pub(crate) fn push(&mut self, record: Record<'_>) {
        self.insert_at(self.order.end(), xxh3_64(record.key()), record);
    }

    /// Adds a record whose key is not there, and has this hash.
    fn insert_at(&mut self, place: Place, hash: u64, record: Record<'_>) {
        self.count += 1;
        let handle = self.heap.add(record, 0);
        self.digest = self.digest.wrapping_add(record.stamp().hash(hash));
        self.index.insert(hash, handle);
        self.order.insert(place, handle, |handle| self.heap.key(handle));
        self.change_expiry((handle, None), (handle, record.expires()));
    }

    pub(crate) fn remove(&mut self, handle: Handle) {
        let record = self.heap.record(handle);
        let (hash, expires) = (xxh3_64(record.key()), record.expires());
        self.digest = self.digest.wrapping_sub(record.stamp().hash(hash));
        let place = self.order.place_of(handle, record.key(), |handle| self.heap.key(handle));
        self.order.remove(place, |handle| self.heap.key(handle));
        self.index.remove(hash, handle);
        self.change_expiry((handle, expires), (handle, None));
        self.heap.remove(handle);
        self.count -= 1;
        if self.count == 0 {
            // Gives back what the lists held.
            *self = Table::default();
        }
    }

    /// Gives back memory where too much of it is free, a page at a time. Handles that are kept are not good any more.
    #[inline]
    pub(crate) fn tidy(&mut self) {
        if self.heap.is_wasteful() {
            self.empty_pages();
        }
    }

    #[cold]
    fn empty_pages(&mut self) {
        while let Some(page) = self.heap.wasteful() {
            for handle in self.heap.handles(page) {
                let record = self.heap.record(handle);
                let (hash, expires) = (xxh3_64(record.key()), record.expires());
                let place = self.order.place_of(handle, record.key(), |handle| self.heap.key(handle));
                let moved = self.heap.copy(handle);
                self.heap.remove(handle);
                self.index.replace(hash, handle, moved);
                self.order.replace(place, moved);
                self.change_expiry((handle, expires), (moved, expires));
            }
        }
    }

    fn place(&self, key: &[u8]) -> Place {
        self.order.place(key, |handle| self.heap.key(handle))
    }

    /// When the next one expires.
    pub(crate) fn due(&self) -> Option<Time> {
        self.expiries.first().map(|&(time, _)| time)
    }

    /// Those that expire by `now`: the earliest first, then by key, never by handle.
    pub(crate) fn due_by(&self, now: Time) -> Vec<Handle> {
        let mut due: Vec<(Time, Handle)> = self.expiries.range(..=(now, Handle::MAX)).copied().collect();
        due.sort_by(|(time, one), (other_time, other)| {
            time.cmp(other_time).then_with(|| self.key(*one).cmp(self.key(*other)))
        });
        due.into_iter().map(|(_, handle)| handle).collect()
    }

    /// In the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Record<'_>> {
        self.order.iter().map(|handle| self.record(handle))
    }

    /// From this key on, in order.
    pub(crate) fn from(&self, key: Bound<&[u8]>) -> impl Iterator<Item = Record<'_>> {
        let (first, beyond) = match key {
            Bound::Included(key) => (key, None),
            Bound::Excluded(key) => (key, Some(key)),
            Bound::Unbounded => (&[][..], None),
        };
        let records = self.order.from(self.place(first)).map(|handle| self.record(handle));
        records.skip_while(move |record| beyond == Some(record.key()))
    }

    /// Gives away every record for which `goes`. Both tables are made anew, so that neither keeps the other's room.
    pub(crate) fn split(&mut self, goes: impl Fn(&[u8]) -> bool) -> Table {
        let whole = std::mem::take(self);
        let mut gone = Table::default();
        for record in whole.iter() {
            if goes(record.key()) { gone.push(record) } else { self.push(record) }
        }
        gone
    }
}

#[cfg(test)]
mod tests;
