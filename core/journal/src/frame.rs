//! One record as bytes.
//!
//! ```text
//! crc32c u32 of salt and header │ crc32c u32 of body │ length u32 │ kind u8 │ 0 u8 │ bucket u16 │ lsn u64 │ synced u64
//! body: postcard, `length` bytes │ zeros up to a multiple of 8
//! ```
//!
//! All numbers are little-endian. The header has a checksum of its own, so that of a record whose body is damaged it is
//! still known whose it was. The salt is the number of the segment: what a recycled file still holds of its earlier
//! use is never taken for a record.

use atoll_types::{BucketId, BucketRecord, Record};
use atoll_wire::codec;
use std::fmt;

pub const HEADER: usize = 32;

/// Frames begin at multiples of this.
pub const ALIGN: usize = 8;

/// The position of a record in the log of a node, over all its lives and machines. The first is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    pub fn next(self) -> Lsn {
        Lsn(self.0 + 1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Whose record it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    Cluster,
    Bucket(BucketId),
}

impl Owner {
    pub fn of(record: &Record) -> Owner {
        match record {
            Record::Bucket(record) => Owner::Bucket(record.bucket()),
            Record::Identity(_)
            | Record::Promised(_)
            | Record::Accepted { .. }
            | Record::Learned { .. }
            | Record::Decided(_)
            | Record::Checkpoint(_)
            | Record::Fenced(_)
            | Record::Unreadable
            | Record::Blank { .. } => Owner::Cluster,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Nobody's: only tells how far the log was synced.
    pub owner: Option<Owner>,
    pub lsn: Lsn,
    /// Everything up to here was on the disk when this was written.
    pub synced: Lsn,
    pub length: u32,
    pub body_crc: u32,
}

impl Header {
    pub fn put(&self, salt: u64, out: &mut Vec<u8>) {
        let (kind, bucket) = match self.owner {
            None => (0, 0),
            Some(Owner::Cluster) => (1, 0),
            Some(Owner::Bucket(bucket)) => (2, bucket.0),
        };
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.body_crc.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&[kind, 0]);
        out.extend_from_slice(&u16::to_le_bytes(bucket));
        out.extend_from_slice(&self.lsn.0.to_le_bytes());
        out.extend_from_slice(&self.synced.0.to_le_bytes());
        let crc = crc(salt, &out[start + 4..]);
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// The header at `at`, if there is a whole one.
    pub fn read(bytes: &[u8], at: usize, salt: u64) -> Option<Header> {
        let header = bytes.get(at..at.checked_add(HEADER)?)?;
        let (crc_there, body_crc, length) = (codec::word(header, 0)?, codec::word(header, 4)?, codec::word(header, 8)?);
        let (lsn, synced) = (Lsn(codec::long_word(header, 16)?), Lsn(codec::long_word(header, 24)?));
        let bucket = BucketId(u16::from_le_bytes([header[14], header[15]]));
        let owner = match header[12] {
            0 => None,
            1 => Some(Owner::Cluster),
            2 => Some(Owner::Bucket(bucket)),
            3.. => return None,
        };
        (crc_there == crc(salt, &header[4..])).then_some(Header { owner, lsn, synced, length, body_crc })
    }

    /// How many bytes the frame fills.
    pub fn size(&self) -> usize {
        padded(HEADER + self.length as usize)
    }

    /// The body of the frame at `at`, if it is as it was written.
    pub fn body<'a>(&self, bytes: &'a [u8], at: usize) -> Option<&'a [u8]> {
        let begin = at.checked_add(HEADER)?;
        let body = bytes.get(begin..begin.checked_add(self.length as usize)?)?;
        (crc32c::crc32c(body) == self.body_crc).then_some(body)
    }
}

fn crc(salt: u64, header: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), header)
}

pub fn padded(length: usize) -> usize {
    length.next_multiple_of(ALIGN)
}

/// What a record does to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Adds to them.
    Adds,
    /// Stands for all of its owner's before it.
    Whole,
    /// The same, and is large: written aside, not into the log.
    Image,
    /// Its owner has nothing any more.
    Gone,
    /// What this bucket had becomes the beginning of that one as well.
    Divides(BucketId),
    /// Nobody has anything any more.
    Blank,
}

impl Effect {
    pub(crate) fn of(record: &Record) -> Effect {
        match record {
            Record::Blank { .. } => Effect::Blank,
            Record::Checkpoint(_) => Effect::Whole,
            Record::Identity(_)
            | Record::Promised(_)
            | Record::Accepted { .. }
            | Record::Learned { .. }
            | Record::Decided(_)
            | Record::Unreadable
            | Record::Fenced(_) => Effect::Adds,
            Record::Bucket(record) => match record {
                BucketRecord::Began { .. } | BucketRecord::Copied { .. } => Effect::Whole,
                BucketRecord::Image { .. } => Effect::Image,
                BucketRecord::Purged { .. } => Effect::Gone,
                BucketRecord::Divided { upper, .. } => Effect::Divides(upper.bucket()),
                BucketRecord::Seen { .. }
                | BucketRecord::Appended { .. }
                | BucketRecord::Cut { .. }
                | BucketRecord::Unreadable { .. } => Effect::Adds,
            },
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) owner: Owner,
    pub(crate) effect: Effect,
    pub(crate) crc: u32,
    pub(crate) length: u32,
}

/// Records made ready for the log: turned into bytes where they arise, numbered where they are written.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) bodies: Vec<u8>,
    pub(crate) parts: Vec<Part>,
}

impl Batch {
    pub fn add(&mut self, record: &Record) {
        let begin = self.bodies.len();
        codec::append(record, &mut self.bodies);
        let body = &self.bodies[begin..];
        let length = u32::try_from(body.len()).expect("the core's limits keep a record far below 4 GiB");
        let (owner, effect) = (Owner::of(record), Effect::of(record));
        self.parts.push(Part { owner, effect, crc: crc32c::crc32c(body), length });
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Of all bodies.
    pub fn bytes(&self) -> usize {
        self.bodies.len()
    }

    pub fn clear(&mut self) {
        self.bodies.clear();
        self.parts.clear();
    }
}

/// A record that fills `body` exactly.
pub(crate) fn record(body: &[u8]) -> Option<Record> {
    codec::read(body).ok()
}
