//! One key with its value, and its bytes in memory.
//!
//! ```text
//! narrow   head:4 (flags:8 key's length:8 value's length:16)  version:4                   key  value  [expires:8]
//! wide     head:4 (flags:8 key's length:24)                   value's length:4 version:8  key  value  [expires:8]
//! ```
//!
//! Which of the two is a function of the record. The bytes that are hashed are neither: they are those of the first
//! layout, so that members that keep their records in different ways agree in their digests.

use atoll_types::{Offset, Time};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

const EXPIRES: u32 = 1 << 31;
const WIDE: u32 = 1 << 30;
/// In a head: here is no record, but so many free units.
pub(crate) const FREE: u32 = 1 << 29;
const LENGTH: u32 = (1 << 24) - 1;

const NARROW_BEGIN: usize = 8;
const WIDE_BEGIN: usize = 16;
/// Up to here a record is put together before it is hashed, and hashed in one go. Most are short: clearing room for the
/// longest of these costs as much as hashing one of 100 bytes.
const HASHED_AT_ONCE: usize = 512;
const HASHED_SHORT: usize = 192;
/// What is hashed before the key.
const HASHED_HEAD: usize = 12;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    key: &'a [u8],
    value: &'a [u8],
    version: Offset,
    expires: Option<Time>,
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

/// Of everything in the record that these bytes begin with:
/// `version:8  key's length, and whether it expires:4  key  value  [expires:8]`.
pub(crate) fn hash_of(bytes: &[u8]) -> u64 {
    let (head, key, value, end) = parts(bytes);
    let version = if head & WIDE == 0 { u64::from(word(bytes, 4)) } else { long(bytes, 8) };
    let mut begin = [0; HASHED_HEAD];
    begin[..8].copy_from_slice(&version.to_le_bytes());
    begin[8..].copy_from_slice(&((value - key) as u32 | head & EXPIRES).to_le_bytes());
    // The rest stands in the same order.
    let rest = &bytes[key..if head & EXPIRES == 0 { end } else { end + 8 }];
    if HASHED_HEAD + rest.len() <= HASHED_SHORT {
        return hash_at_once::<HASHED_SHORT>(begin, rest);
    }
    if HASHED_HEAD + rest.len() <= HASHED_AT_ONCE {
        return hash_at_once::<HASHED_AT_ONCE>(begin, rest);
    }
    let mut hasher = Xxh3Default::new();
    hasher.update(&begin);
    hasher.update(rest);
    hasher.digest()
}

/// Together they are at most so long.
fn hash_at_once<const MOST: usize>(begin: [u8; HASHED_HEAD], rest: &[u8]) -> u64 {
    let mut bytes = [0; MOST];
    let end = HASHED_HEAD + rest.len();
    bytes[..HASHED_HEAD].copy_from_slice(&begin);
    bytes[HASHED_HEAD..end].copy_from_slice(rest);
    xxh3_64(&bytes[..end])
}

impl<'a> Record<'a> {
    /// A key is at most `KEY_MOST` long, a value `VALUE_MOST`.
    pub(crate) fn new(key: &'a [u8], version: Offset, value: &'a [u8], expires: Option<Time>) -> Record<'a> {
        Record { key, value, version, expires }
    }

    /// The one that these bytes begin with.
    pub(crate) fn read(bytes: &'a [u8]) -> Record<'a> {
        let (head, key, value, end) = parts(bytes);
        let version = if head & WIDE == 0 { u64::from(word(bytes, 4)) } else { long(bytes, 8) };
        let expires = (head & EXPIRES != 0).then(|| Time(long(bytes, end)));
        Record { key: &bytes[key..value], value: &bytes[value..end], version: Offset(version), expires }
    }

    fn is_wide(self) -> bool {
        self.key.len() > 0xff || self.value.len() > 0xffff || self.version.0 > u64::from(u32::MAX)
    }

    /// How long its bytes are.
    pub(crate) fn length(self) -> usize {
        let begin = if self.is_wide() { WIDE_BEGIN } else { NARROW_BEGIN };
        begin + self.key.len() + self.value.len() + if self.expires.is_some() { 8 } else { 0 }
    }

    /// Fills the first `length` of these.
    pub(crate) fn write(self, bytes: &mut [u8]) {
        let flag = if self.expires.is_some() { EXPIRES } else { 0 };
        let (key, value) = (self.key.len(), self.value.len());
        let begin = if self.is_wide() {
            bytes[..4].copy_from_slice(&(flag | WIDE | key as u32).to_le_bytes());
            bytes[4..8].copy_from_slice(&(value as u32).to_le_bytes());
            bytes[8..16].copy_from_slice(&self.version.0.to_le_bytes());
            WIDE_BEGIN
        } else {
            bytes[..4].copy_from_slice(&(flag | (key as u32) << 16 | value as u32).to_le_bytes());
            bytes[4..8].copy_from_slice(&(self.version.0 as u32).to_le_bytes());
            NARROW_BEGIN
        };
        bytes[begin..begin + key].copy_from_slice(self.key);
        bytes[begin + key..begin + key + value].copy_from_slice(self.value);
        if let Some(time) = self.expires {
            bytes[begin + key + value..begin + key + value + 8].copy_from_slice(&time.0.to_le_bytes());
        }
    }

    pub(crate) fn key(self) -> &'a [u8] {
        self.key
    }

    pub(crate) fn value(self) -> &'a [u8] {
        self.value
    }

    pub(crate) fn version(self) -> Offset {
        self.version
    }

    pub(crate) fn expires(self) -> Option<Time> {
        self.expires
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
                        assert_eq!((again.version, again.expires), (record.version, record.expires));
                    }
                }
            }
        }
    }

    #[test]
    fn hashes_are_those_of_the_first_layout_at_any_length() {
        let bytes: Vec<u8> = (0..2000_u32).map(|number| number as u8).collect();
        for length in [0, 1, 100, 160, 170, 175, 176, 480, 494, 495, 496, 1000, 2000] {
            for expires in [None, Some(Time(77))] {
                let record = Record::new(b"a key", Offset(1 << 40), &bytes[..length], expires);
                let flag = if expires.is_some() { EXPIRES } else { 0 };
                let mut whole = (1_u64 << 40).to_le_bytes().to_vec();
                whole.extend_from_slice(&(5 | flag).to_le_bytes());
                whole.extend_from_slice(b"a key");
                whole.extend_from_slice(&bytes[..length]);
                whole.extend(expires.iter().flat_map(|time| time.0.to_le_bytes()));
                let mut written = vec![0xff; record.length() + 3];
                record.write(&mut written);
                assert_eq!(hash_of(&written), xxh3_64(&whole));
            }
        }
    }
}
