//! What the log says, read from its files. Tells a torn end from damage.
//!
//! A crash leaves the end of the log in any state: whatever was not synced may be there, or not, or in part. The first
//! record there that is missing or broken ends the log; it, and all behind it, was never reported as safe. But every
//! record says how far the log was synced when it was written: what is broken below the highest such mark was safe
//! once, and is damage. That is never cut away, it is told.

use crate::frame::{self, ALIGN, Header, Lsn, Owner};
use crate::segment::{HEAD, Head, NoHead};
use atoll_types::{Bug, Record, planted};

/// At a place of the log stands this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Record(Record),
    /// Only says how far the log was synced.
    Mark,
    /// Something that was safe once, and whose it was, if that is known.
    Unreadable(Option<Owner>),
}

#[derive(Debug)]
struct Seen {
    lsn: Lsn,
    /// Whose it was, where it cannot be read.
    found: Result<Option<Record>, Option<Owner>>,
    segment: u64,
    /// Where it ends in its file.
    end: usize,
}

/// Takes the files one after another.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    seen: Vec<Seen>,
    first: Option<Lsn>,
    /// The highest mark found anywhere.
    synced: Lsn,
    /// The first file does not say where it begins.
    headless: bool,
}

/// The whole log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// From the first position that is kept, without gaps.
    pub(crate) found: Vec<(Lsn, Found)>,
    /// Where the log goes on.
    pub(crate) next: Lsn,
    /// The file that holds the last record, and where in it that ends. None: there is no record.
    pub(crate) end: Option<(u64, usize)>,
    /// Records behind the end were thrown away, or parts of them.
    pub(crate) torn: bool,
}

impl Scan {
    /// The next file. `number` is what its name says.
    pub(crate) fn take(&mut self, number: u64, bytes: &[u8]) -> Result<(), u32> {
        let expected = self.seen.last().map(|seen| seen.lsn.next());
        let first = match Head::read(bytes) {
            Ok(head) if head.number == number => {
                self.synced = self.synced.max(head.synced);
                Some(head.first)
            }
            // Its name is not given before its head is safe: so this is damage. The frames speak for themselves.
            Ok(_) | Err(NoHead::Damaged) => {
                self.headless |= expected.is_none();
                expected
            }
            Err(NoHead::Format(format)) => return Err(format),
        };
        if let Some(first) = first {
            // What an earlier life left behind its end.
            self.seen.truncate(self.seen.partition_point(|seen| seen.lsn < first));
            self.first.get_or_insert(first);
        }
        let mut expected = first;
        let mut at = HEAD;
        while let Some(place) = next_frame(bytes, at, number, expected) {
            let Some(header) = Header::read(bytes, place, number) else { break };
            let found = match (header.body(bytes, place), header.owner) {
                (Some(_), None) => Ok(None),
                (Some(body), Some(owner)) => frame::record(body).map(Some).ok_or(Some(owner)),
                (None, owner) => Err(owner),
            };
            self.first.get_or_insert(header.lsn);
            self.synced = self.synced.max(header.synced);
            at = place + header.size();
            self.seen.push(Seen { lsn: header.lsn, found, segment: number, end: at });
            expected = Some(header.lsn.next());
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Scanned {
        let first = self.first.unwrap_or(Lsn(1));
        let mut scanned = Scanned { found: Vec::new(), next: first, end: None, torn: false };
        let synced = self.synced;
        if self.headless {
            scanned.found.push((first, Found::Unreadable(None)));
        }
        for seen in self.seen {
            let missing = seen.lsn > scanned.next;
            // A missing or broken record that was never said to be synced is where the log ends.
            let torn_at = if missing { scanned.next } else { seen.lsn };
            if (missing || seen.found.is_err()) && (torn_at > synced || planted(Bug::MiddleCut)) {
                scanned.torn = true;
                break;
            }
            if missing {
                scanned.found.push((scanned.next, Found::Unreadable(None)));
            }
            let found = match seen.found {
                Ok(Some(record)) => Found::Record(record),
                Ok(None) => Found::Mark,
                Err(owner) => Found::Unreadable(owner),
            };
            scanned.found.push((seen.lsn, found));
            scanned.next = seen.lsn.next();
            scanned.end = Some((seen.segment, seen.end));
        }
        if scanned.next <= synced && !planted(Bug::MiddleCut) {
            // The very end is gone, and the log knows that it was there.
            scanned.found.push((scanned.next, Found::Unreadable(None)));
            scanned.next = synced.next();
        }
        scanned
    }
}

/// The place of the next whole header, from `at` on: usually right there.
fn next_frame(bytes: &[u8], at: usize, salt: u64, expected: Option<Lsn>) -> Option<usize> {
    let fits = |place: usize| {
        let lsn = Lsn(atoll_wire::codec::long_word(bytes, place + 16)?);
        if lsn.0 == 0 || expected.is_some_and(|expected| lsn < expected) {
            return None;
        }
        let header = Header::read(bytes, place, salt)?;
        (place + header.size() <= bytes.len().next_multiple_of(ALIGN)).then_some(place)
    };
    (at..bytes.len()).step_by(ALIGN).find_map(fits)
}
