//! One key with its value, in one allocation.
//!
//! ```text
//! version:8  key's length, and whether it expires:4  key  value  [expires:8]
//! ```

use atoll_types::{Offset, Time};
use xxhash_rust::xxh3::xxh3_64;

const KEY: usize = 12;
const EXPIRES: u32 = 1 << 31;

#[derive(Clone, Debug, Default)]
pub(crate) struct Record(Box<[u8]>);

impl Record {
    /// The value is `value` and `more`, one after the other. A key is at most `KEY_MOST` long.
    pub(crate) fn new(key: &[u8], version: Offset, value: [&[u8]; 2], expires: Option<Time>) -> Record {
        let tail = if expires.is_some() { 8 } else { 0 };
        let mut bytes = Vec::with_capacity(KEY + key.len() + value[0].len() + value[1].len() + tail);
        let flag = if expires.is_some() { EXPIRES } else { 0 };
        bytes.extend_from_slice(&version.0.to_le_bytes());
        bytes.extend_from_slice(&(key.len() as u32 | flag).to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value[0]);
        bytes.extend_from_slice(value[1]);
        if let Some(time) = expires {
            bytes.extend_from_slice(&time.0.to_le_bytes());
        }
        Record(bytes.into_boxed_slice())
    }

    /// Takes another value of the same length in its place. False, and nothing done, where it does not fit.
    pub(crate) fn overwrite(&mut self, version: Offset, value: &[u8], expires: Option<Time>) -> bool {
        let (begin, end) = self.value_range();
        if end - begin != value.len() || expires.is_some() != self.has_expiry() {
            return false;
        }
        self.0[..8].copy_from_slice(&version.0.to_le_bytes());
        self.0[begin..end].copy_from_slice(value);
        if let Some(time) = expires {
            self.0[end..].copy_from_slice(&time.0.to_le_bytes());
        }
        true
    }

    fn word(&self) -> u32 {
        self.0.get(8..KEY).and_then(|bytes| bytes.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
    }

    fn has_expiry(&self) -> bool {
        self.word() & EXPIRES != 0
    }

    fn value_range(&self) -> (usize, usize) {
        let word = self.word();
        let tail = if word & EXPIRES != 0 { 8 } else { 0 };
        (KEY + (word & !EXPIRES) as usize, self.0.len() - tail)
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.0[KEY..KEY + (self.word() & !EXPIRES) as usize]
    }

    pub(crate) fn value(&self) -> &[u8] {
        let (begin, end) = self.value_range();
        &self.0[begin..end]
    }

    pub(crate) fn version(&self) -> Offset {
        Offset(self.0.first_chunk().map_or(0, |version| u64::from_le_bytes(*version)))
    }

    pub(crate) fn expires(&self) -> Option<Time> {
        let time = self.0.last_chunk().map(|time| Time(u64::from_le_bytes(*time)));
        time.filter(|_| self.has_expiry())
    }

    /// Of everything in it.
    pub(crate) fn hash(&self) -> u64 {
        xxh3_64(&self.0)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.len()
    }
}
