//! A journal as bytes: one frame per record, one after another.
//!
//! ```text
//! length u32 LE │ crc32c u32 LE of (seq, body) │ seq u64 LE │ body: postcard, `length` bytes
//! ```
//!
//! A crash may leave the last frame torn. It was never reported as safe, so it may be cut. Anything else that cannot be
//! read is damage to what the node may have promised, and must not be cut silently: `scan` tells the two apart by
//! looking for whole records behind the break.
//!
//! Not here: files, and how far they were synced (the shell), what the records mean (`atoll-paxos`).

use crate::codec::{self, Unreadable};
use atoll_types::{JournalSeq, Record};
use thiserror::Error;

const HEADER: usize = 16;

/// Where a frame's checksum begins to count: at its seq.
const CHECKED: usize = 8;

/// No node writes more records than this in a life. Noise that is looked at as a frame has a higher seq nearly always.
const SEQ_MOST: u64 = 1 << 48;

/// The search behind a break checksums at most this many times the journal's length.
const SEARCH_FACTOR: usize = 64;

/// What a journal holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The records before the first break, in order.
    pub records: Vec<(JournalSeq, Record)>,
    /// How many bytes they fill. A journal with a torn tail is cut to this length before it is written on.
    pub end: usize,
    pub tail: Tail,
}

/// What stands behind `Scan::end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    Clean,
    /// The beginning of a record whose writing was interrupted.
    Torn,
    /// Something that may have been safe once. `at` equals `Scan::end`.
    ///
    /// Several records that were written together and not yet synced may reach the disk in any order, which looks the
    /// same from here. A caller that knows how far its journal was synced may treat a break beyond that as torn.
    Damaged {
        at: usize,
        fault: Fault,
        /// Where the next whole record was found; none if the bytes at `at` are themselves the evidence.
        next: Option<usize>,
    },
}

/// Why the bytes at one place are not the next record.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    #[error("the journal ends inside the record")]
    Short,
    #[error("a record without a body")]
    Empty,
    #[error("the checksum is wrong")]
    Checksum,
    #[error("the checksum is right, but the body is no record of this version: {reason}")]
    Malformed { reason: postcard::Error },
    #[error("the checksum is right, but {extra} bytes follow the record in its body")]
    Trailing { extra: usize },
    #[error("record {found:?} where {expected:?} was due")]
    Gap { expected: JournalSeq, found: JournalSeq },
}

/// Appends the frame to `out`.
pub fn encode(seq: JournalSeq, record: &Record, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; CHECKED]);
    out.extend_from_slice(&seq.0.to_le_bytes());
    codec::append(record, out);
    let length = u32::try_from(out.len() - start - HEADER).expect("the core's limits keep a record far below 4 GiB");
    let checksum = crc32c::crc32c(&out[start + CHECKED..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + CHECKED].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads a journal up to its end or its first break. Seqs go up by one; a step back is a new life of the node, which
/// counts anew.
pub fn scan(bytes: &[u8]) -> Scan {
    let mut records: Vec<(JournalSeq, Record)> = Vec::new();
    let mut end = 0;
    let tail = loop {
        if end == bytes.len() {
            break Tail::Clean;
        }
        let expected = records.last().map(|(seq, _)| JournalSeq(seq.0.saturating_add(1)));
        match whole(bytes, end).and_then(|frame| frame.record(expected)) {
            Ok((seq, record, next)) => {
                records.push((seq, record));
                end = next;
            }
            Err(fault) => break judge(bytes, end, fault),
        }
    };
    Scan { records, end, tail }
}

/// Is the break at `at` the end of the journal, or damage in it?
fn judge(bytes: &[u8], at: usize, fault: Fault) -> Tail {
    match fault {
        // Whole, as its checksum shows, and so perhaps reported as safe. A build that cannot read what a later one
        // wrote must not cut it off.
        Fault::Malformed { .. } | Fault::Trailing { .. } | Fault::Gap { .. } => Tail::Damaged { at, fault, next: None },
        Fault::Short | Fault::Empty | Fault::Checksum => match search(bytes, at) {
            Search::Found(next) => Tail::Damaged { at, fault, next: Some(next) },
            // Keeping a torn tail costs a person's look; cutting good records costs promises.
            Search::GaveUp => Tail::Damaged { at, fault, next: None },
            Search::Nothing => Tail::Torn,
        },
    }
}

/// A frame whose checksum is right.
#[derive(Clone, Copy, Debug)]
struct Whole<'a> {
    seq: JournalSeq,
    body: &'a [u8],
    next: usize,
}

impl Whole<'_> {
    fn record(self, expected: Option<JournalSeq>) -> Result<(JournalSeq, Record, usize), Fault> {
        // A record that was dropped without a trace may hold a promise.
        if let Some(expected) = expected.filter(|expected| self.seq > *expected) {
            return Err(Fault::Gap { expected, found: self.seq });
        }
        match codec::read(self.body) {
            Ok(record) => Ok((self.seq, record, self.next)),
            Err(Unreadable::Malformed(reason)) => Err(Fault::Malformed { reason }),
            Err(Unreadable::Trailing(extra)) => Err(Fault::Trailing { extra }),
        }
    }
}

/// The frame that begins at `at`, if its checksum is right.
fn whole(bytes: &[u8], at: usize) -> Result<Whole<'_>, Fault> {
    let frame = bytes.get(at..).ok_or(Fault::Short)?;
    let (Some(length), Some(checksum), Some(seq)) =
        (codec::word(frame, 0), codec::word(frame, 4), codec::long_word(frame, CHECKED))
    else {
        return Err(Fault::Short);
    };
    if length == 0 {
        return Err(Fault::Empty);
    }
    let stop = HEADER.saturating_add(length as usize);
    let checked = frame.get(CHECKED..stop).ok_or(Fault::Short)?;
    if crc32c::crc32c(checked) != checksum {
        return Err(Fault::Checksum);
    }
    Ok(Whole { seq: JournalSeq(seq), body: &frame[HEADER..stop], next: at + stop })
}

enum Search {
    Found(usize),
    Nothing,
    GaveUp,
}

/// Looks for a whole frame anywhere behind the break at `at`: its length may be what is damaged, so nothing says where
/// the next frame begins.
fn search(bytes: &[u8], at: usize) -> Search {
    // Bounded, because bytes made for the purpose could hold a long false frame at every place.
    let mut budget = bytes.len().saturating_mul(SEARCH_FACTOR);
    for place in at + 1..bytes.len() {
        let (Some(length), Some(seq)) = (codec::word(bytes, place), codec::long_word(bytes, place + CHECKED)) else {
            break;
        };
        let length = length as usize;
        if length == 0 || length > bytes.len() - place - HEADER || seq > SEQ_MOST {
            continue;
        }
        let Some(left) = budget.checked_sub(length) else {
            return Search::GaveUp;
        };
        budget = left;
        if whole(bytes, place).is_ok() {
            return Search::Found(place);
        }
    }
    Search::Nothing
}
