//! One key with its value, and its bytes in memory.
//!
//! ```text
//! narrow  head:4 (flags:8 key's length:8 value's length:16)  version:4 sum:4                   key  value  [expires:8]
//! wide    head:4 (flags:8 key's length:24)                   value's length:4 version:8 sum:4  key  value  [expires:8]
//! ```
//!
//! Which of the two is a function of the record. Its hash is of neither, so that members that keep their records in
//! different ways agree in their digests. `sum` is of the value: to replace one nobody has to look at it.

use atoll_types::{Offset, Time};
use xxhash_rust::xxh3::xxh3_64;

const EXPIRES: u32 = 1 << 31;
const WIDE: u32 = 1 << 30;
/// In a head: here is no record, but so many free units.
pub(crate) const FREE: u32 = 1 << 29;
const LENGTH: u32 = (1 << 24) - 1;

const NARROW_BEGIN: usize = 12;
const WIDE_BEGIN: usize = 20;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    key: &'a [u8],
    value: &'a [u8],
    stamp: Stamp,
}

/// All of a record but its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) version: Offset,
    pub(crate) expires: Option<Time>,
    /// Of the value.
    sum: u32,
}

impl Stamp {
    /// Of everything in the record. `key` is the hash of its key, which whoever asks has looked for.
    pub(crate) fn hash(self, key: u64) -> u64 {
        let expires = self.expires.map_or(0, |time| time.0.wrapping_add(1));
        let parts = [u64::from(self.sum), self.version.0, expires];
        // Each part is multiplied in turn: two records that swap a part must not come to the same sum.
        parts.iter().fold(key, |hash, part| mix(hash ^ part))
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |long| u64::from_le_bytes(*long))
}

/// Where the parts of the record stand that begins here: the key, the value, what comes after.
fn parts(bytes: &[u8]) -> (u32, usize, usize, usize) {
    let head = word(bytes, 0);
    if head & WIDE == 0 {
        let value = NARROW_BEGIN + (head >> 16 & 0xff) as usize;
        return (head, NARROW_BEGIN, value, value + (head & 0xffff) as usize);
    }
    let value = WIDE_BEGIN + (head & LENGTH) as usize;
    (head, WIDE_BEGIN, value, value + word(bytes, 4) as usize)
}

/// The key of the record that these bytes begin with.
pub(crate) fn key_of(bytes: &[u8]) -> &[u8] {
    let (_, key, value, _) = parts(bytes);
    &bytes[key..value]
}

/// How long the record is that these bytes begin with.
pub(crate) fn length_of(bytes: &[u8]) -> usize {
    let (head, _, _, end) = parts(bytes);
    if head & EXPIRES == 0 { end } else { end + 8 }
}

/// The stamp of the record that these bytes begin with.
pub(crate) fn stamp_of(bytes: &[u8]) -> Stamp {
    let (head, _, _, end) = parts(bytes);
    let (version, sum) =
        if head & WIDE == 0 { (u64::from(word(bytes, 4)), word(bytes, 8)) } else { (long(bytes, 8), word(bytes, 16)) };
    let expires = (head & EXPIRES != 0).then(|| Time(long(bytes, end)));
    Stamp { version: Offset(version), expires, sum }
}

/// Spreads every bit over all.
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

/// Puts another value where these begin with a narrow record whose key is so long, whose value is as long, and that
/// does not expire. Most values that are replaced are. Gives the stamps before and after.
pub(crate) fn write_over(bytes: &mut [u8], key: usize, version: Offset, value: &[u8]) -> Option<(Stamp, Stamp)> {
    if key > 0xff || value.len() > 0xffff || version.0 > u64::from(u32::MAX) {
        return None;
    }
    let head = (key as u32) << 16 | value.len() as u32;
    let (begin, rest) = bytes.split_first_chunk_mut::<NARROW_BEGIN>()?;
    if word(begin, 0) != head {
        return None;
    }
    let stamp = |version: u64, sum: u32| Stamp { version: Offset(version), expires: None, sum };
    let before = stamp(u64::from(word(begin, 4)), word(begin, 8));
    let after = stamp(version.0, sum(value));
    rest.get_mut(key..key + value.len())?.copy_from_slice(value);
    begin[4..8].copy_from_slice(&(version.0 as u32).to_le_bytes());
    begin[8..12].copy_from_slice(&after.sum.to_le_bytes());
    Some((before, after))
}

fn sum(value: &[u8]) -> u32 {
    xxh3_64(value) as u32
}

impl<'a> Record<'a> {
    /// A key is at most `KEY_MOST` long, a value `VALUE_MOST`.
    pub(crate) fn new(key: &'a [u8], version: Offset, value: &'a [u8], expires: Option<Time>) -> Record<'a> {
        Record { key, value, stamp: Stamp { version, expires, sum: sum(value) } }
    }

    /// The one that these bytes begin with.
    pub(crate) fn read(bytes: &'a [u8]) -> Record<'a> {
        let (_, key, value, end) = parts(bytes);
        Record { key: &bytes[key..value], value: &bytes[value..end], stamp: stamp_of(bytes) }
    }

    fn is_wide(self) -> bool {
        self.key.len() > 0xff || self.value.len() > 0xffff || self.stamp.version.0 > u64::from(u32::MAX)
    }

    fn head(self) -> u32 {
        let flag = if self.stamp.expires.is_some() { EXPIRES } else { 0 };
        let (key, value) = (self.key.len() as u32, self.value.len() as u32);
        flag | if self.is_wide() { WIDE | key } else { key << 16 | value }
    }

    /// How long its bytes are.
    pub(crate) fn length(self) -> usize {
        let begin = if self.is_wide() { WIDE_BEGIN } else { NARROW_BEGIN };
        begin + self.key.len() + self.value.len() + if self.stamp.expires.is_some() { 8 } else { 0 }
    }

    /// Fills the first `length` of these.
    pub(crate) fn write(self, bytes: &mut [u8]) {
        let (key, value) = (self.key.len(), self.value.len());
        bytes[..4].copy_from_slice(&self.head().to_le_bytes());
        let begin = if self.is_wide() {
            bytes[4..8].copy_from_slice(&(value as u32).to_le_bytes());
            bytes[8..16].copy_from_slice(&self.stamp.version.0.to_le_bytes());
            bytes[16..20].copy_from_slice(&self.stamp.sum.to_le_bytes());
            WIDE_BEGIN
        } else {
            bytes[4..8].copy_from_slice(&(self.stamp.version.0 as u32).to_le_bytes());
            bytes[8..12].copy_from_slice(&self.stamp.sum.to_le_bytes());
            NARROW_BEGIN
        };
        bytes[begin..begin + key].copy_from_slice(self.key);
        bytes[begin + key..begin + key + value].copy_from_slice(self.value);
        if let Some(time) = self.stamp.expires {
            bytes[begin + key + value..begin + key + value + 8].copy_from_slice(&time.0.to_le_bytes());
        }
    }

    pub(crate) fn key(self) -> &'a [u8] {
        self.key
    }

    pub(crate) fn value(self) -> &'a [u8] {
        self.value
    }

    pub(crate) fn stamp(self) -> Stamp {
        self.stamp
    }

    pub(crate) fn version(self) -> Offset {
        self.stamp.version
    }

    pub(crate) fn expires(self) -> Option<Time> {
        self.stamp.expires
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let bytes = vec![b'x'; 70_000];
        for key in [0, 1, 12, 255, 256, crate::KEY_MOST] {
            for value in [0, 1, 100, 65_535, 65_536] {
                for version in [0, 1, u64::from(u32::MAX), u64::from(u32::MAX) + 1, u64::MAX] {
                    for expires in [None, Some(Time(0)), Some(Time(u64::MAX))] {
                        let record = Record::new(&bytes[..key], Offset(version), &bytes[..value], expires);
                        // What comes after it is no part of it.
                        let mut written = vec![0xff; record.length() + 5];
                        record.write(&mut written);
                        assert_eq!(length_of(&written), record.length());
                        assert_eq!(key_of(&written), record.key());
                        let again = Record::read(&written);
                        assert_eq!((again.key, again.value), (record.key, record.value));
                        assert_eq!((again.stamp, stamp_of(&written)), (record.stamp, record.stamp));
                        let other = vec![b'y'; value];
                        let over = Record::new(record.key(), Offset(7), &other, expires);
                        let mut expected = written.clone();
                        over.write(&mut expected[..]);
                        let stamps = write_over(&mut written, key, Offset(7), &other);
                        assert_eq!(stamps.is_some(), !record.is_wide() && expires.is_none());
                        if let Some((before, after)) = stamps {
                            assert_eq!((before, after), (record.stamp(), over.stamp()));
                            assert_eq!(written, expected, "written over, it is as if it were written");
                        }
                        let longer = vec![b'y'; value + 1];
                        assert_eq!(write_over(&mut written, key, Offset(7), &longer), None, "it does not fit");
                    }
                }
            }
        }
    }

    #[test]
    fn every_part_of_a_record_counts_in_its_hash() {
        let record = |version, value, expires| Record::new(b"key", Offset(version), value, expires);
        let mut hashes: Vec<u64> = Vec::new();
        for key in [1, 2] {
            for version in [0, 1, 2, 1 << 40] {
                for value in [&b""[..], b"a", b"b", &[0; 100], &[0; 101], &[0; 1000]] {
                    for expires in [None, Some(Time(0)), Some(Time(1)), Some(Time(2))] {
                        hashes.push(record(version, value, expires).stamp().hash(key));
                    }
                }
            }
        }
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
        let sum = |one: Record<'_>, other: Record<'_>| one.stamp().hash(1).wrapping_add(other.stamp().hash(2));
        let swapped = sum(record(2, b"a", None), record(1, b"b", None));
        assert_ne!(sum(record(1, b"a", None), record(2, b"b", None)), swapped, "whose version it is counts");
    }
}
