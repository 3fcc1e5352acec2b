//! Keys with their values. A record has a handle for as long as it is there; the index finds it by its key, the order
//! walks it among its neighbours, and those that expire stand in a list by time as well.
//!
//! Handles depend on the history, not on the state: nothing that shows outside may depend on their order.
//!
//! Not here: conditions, limits, what an operation does (`operation.rs`).

use crate::index::{Handle, Index};
use crate::order::{Order, Place};
use crate::record::Record;
use atoll_types::{Offset, Time};
use std::collections::BTreeSet;
use std::ops::Bound;
use xxhash_rust::xxh3::xxh3_64;

/// Records are kept in lists of so many: a list that doubled as a whole would stand half empty.
const CHUNK: usize = 1024;
/// What the lists of records and of times hold for each entry, and what an allocator adds to a record.
const OVERHEAD: usize = size_of::<Record>() + 8;
const EXPIRY_OVERHEAD: usize = 2 * size_of::<(Time, Handle)>();

#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// All full but the last. A record that is gone leaves an empty one, whose handle is in `free`.
    chunks: Vec<Vec<Record>>,
    free: Vec<Handle>,
    index: Index,
    order: Order,
    expiries: BTreeSet<(Time, Handle)>,
    count: usize,
    /// Bytes of all records.
    bytes: usize,
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
        let lists = self.index.bytes() + self.order.bytes() + self.free.capacity() * size_of::<Handle>();
        self.bytes + self.count * OVERHEAD + lists + self.expiries.len() * EXPIRY_OVERHEAD
    }

    pub(crate) fn record(&self, handle: Handle) -> &Record {
        &self.chunks[handle as usize / CHUNK][handle as usize % CHUNK]
    }

    fn record_mut(&mut self, handle: Handle) -> &mut Record {
        &mut self.chunks[handle as usize / CHUNK][handle as usize % CHUNK]
    }

    pub(crate) fn find(&self, key: &[u8]) -> Option<Handle> {
        self.index.find(xxh3_64(key), |handle| self.record(handle).key() == key)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Record> {
        self.find(key).map(|handle| self.record(handle))
    }

    /// Writes a value. `found` is what `find` says of the key now.
    pub(crate) fn put(
        &mut self,
        found: Option<Handle>,
        key: &[u8],
        version: Offset,
        value: &[u8],
        expires: Option<Time>,
    ) {
        let Some(handle) = found else { return self.insert(Record::new(key, version, [value, &[]], expires)) };
        let record = self.record_mut(handle);
        let (before, had) = (record.hash(), record.expires());
        if !record.overwrite(version, value, expires) {
            return self.replace(handle, Record::new(key, version, [value, &[]], expires));
        }
        let after = record.hash();
        self.digest = self.digest.wrapping_sub(before).wrapping_add(after);
        self.change_expiry(handle, had, expires);
    }

    /// Puts this record in the place of another with the same key.
    pub(crate) fn replace(&mut self, handle: Handle, record: Record) {
        let (expires, bytes, hash) = (record.expires(), record.bytes(), record.hash());
        let old = std::mem::replace(self.record_mut(handle), record);
        self.bytes = self.bytes + bytes - old.bytes();
        self.digest = self.digest.wrapping_sub(old.hash()).wrapping_add(hash);
        self.change_expiry(handle, old.expires(), expires);
    }

    fn change_expiry(&mut self, handle: Handle, before: Option<Time>, after: Option<Time>) {
        if before == after {
            return;
        }
        if let Some(time) = before {
            self.expiries.remove(&(time, handle));
        }
        if let Some(time) = after {
            self.expiries.insert((time, handle));
        }
    }

    /// Adds a record whose key is not there.
    pub(crate) fn insert(&mut self, record: Record) {
        let place = self.place(record.key());
        self.insert_at(place, record);
    }

    /// Adds a record whose key comes after all that are there.
    pub(crate) fn push(&mut self, record: Record) {
        self.insert_at(self.order.end(), record);
    }

    fn insert_at(&mut self, place: Place, record: Record) {
        let (hash, expires) = (xxh3_64(record.key()), record.expires());
        self.count += 1;
        self.bytes += record.bytes();
        self.digest = self.digest.wrapping_add(record.hash());
        let handle = self.settle(record);
        self.index.insert(hash, handle);
        self.order.insert(place, handle);
        self.change_expiry(handle, None, expires);
    }

    fn settle(&mut self, record: Record) -> Handle {
        if let Some(handle) = self.free.pop() {
            *self.record_mut(handle) = record;
            return handle;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::new());
        }
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        let within = self.chunks.last_mut().map_or(0, |chunk| {
            chunk.push(record);
            chunk.len() - 1
        });
        (full + within) as Handle
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> Record {
        let place = self.place(self.record(handle).key());
        self.order.remove(place);
        let record = std::mem::take(self.record_mut(handle));
        self.index.remove(xxh3_64(record.key()), handle);
        self.change_expiry(handle, record.expires(), None);
        self.free.push(handle);
        self.count -= 1;
        self.bytes -= record.bytes();
        self.digest = self.digest.wrapping_sub(record.hash());
        if self.count == 0 {
            // Gives back what the lists held.
            *self = Table::default();
        }
        record
    }

    fn place(&self, key: &[u8]) -> Place {
        self.order.place(|handle| self.record(handle).key().cmp(key))
    }

    /// When the next one expires.
    pub(crate) fn due(&self) -> Option<Time> {
        self.expiries.first().map(|&(time, _)| time)
    }

    /// Those that expire by `now`: the earliest first, then by key, never by handle.
    pub(crate) fn due_by(&self, now: Time) -> Vec<Handle> {
        let mut due: Vec<(Time, Handle)> = self.expiries.range(..=(now, Handle::MAX)).copied().collect();
        due.sort_by(|(time, one), (other_time, other)| {
            time.cmp(other_time).then_with(|| self.record(*one).key().cmp(self.record(*other).key()))
        });
        due.into_iter().map(|(_, handle)| handle).collect()
    }

    /// In the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Record> {
        self.order.iter().map(|handle| self.record(handle))
    }

    /// From this key on, in order.
    pub(crate) fn from(&self, key: Bound<&[u8]>) -> impl Iterator<Item = &Record> {
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
        let mut whole = std::mem::take(self);
        let handles: Vec<Handle> = whole.order.iter().collect();
        let mut gone = Table::default();
        for handle in handles {
            let record = std::mem::take(whole.record_mut(handle));
            if goes(record.key()) { gone.push(record) } else { self.push(record) }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::Rng;

    /// Asserts that everything fits together.
    fn check(table: &Table) {
        let mut again = Table::default();
        assert!(table.iter().map(Record::key).is_sorted_by(|one, other| one < other), "keys stand in order, once");
        for record in table.iter() {
            let handle = table.find(record.key()).expect("the index has every key");
            let is_listed = |time| table.expiries.contains(&(time, handle));
            assert!(record.expires().is_none_or(is_listed), "the list of times has every expiry");
            again.push(record.clone());
        }
        assert_eq!(
            (table.count, table.bytes, table.digest, table.expiries.len()),
            (again.count, again.bytes, again.digest, again.expiries.len())
        );
    }

    #[test]
    fn index_order_and_times_stay_in_step() {
        let mut rng = Rng::new(9);
        let mut table = Table::default();
        for round in 0..30_000 {
            let key = rng.below(3000).to_string().into_bytes();
            let found = table.find(&key);
            let expires = rng.one_in(2).then(|| Time(rng.below(1000)));
            match found.filter(|_| rng.one_in(2)) {
                Some(handle) => assert_eq!(table.remove(handle).key(), key),
                None => table.put(found, &key, Offset(round), &[b'v'; 9][..rng.below(9) as usize], expires),
            }
            if round % 5000 == 0 {
                check(&table);
            }
        }
        let (count, digest) = (table.count, table.digest);
        let gone = table.split(|key| key[0] < b'2');
        check(&table);
        check(&gone);
        assert_eq!((count, digest), (table.count + gone.count, table.digest.wrapping_add(gone.digest)));
        assert!(gone.from(Bound::Excluded(b"15")).all(|record| record.key() > b"15".as_slice()));
    }
}
