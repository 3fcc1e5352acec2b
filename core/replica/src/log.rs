//! The entries a copy holds, after its base. A log agrees with another up to the highest mark they share.
//!
//! ```text
//!              base
//!   gone │ gone │ entry │ entry ║ entry │ entry │ entry ║ entry …      chunks of entries of one epoch, as bytes
//! ```
//!
//! Bytes stand one after another: to write, send, apply and forget an entry touches little memory, and in order. Large
//! entries are not copied: log, messages and disk share them.

use atoll_types::entries::{self, entry_bytes};
use atoll_types::{BucketBody, BucketEntry, Entries, Epoch, Mark, Offset, Payload, Time, put_entry};
use serde::{Deserialize, Serialize};
use std::collections::{VecDeque, vec_deque};

/// A chunk of more than one entry, or of more than came at a time, has no more than this; less, where little is kept.
const CHUNK_BYTES: usize = 16 << 10;
/// What a chunk has room for at first. It doubles: most buckets have few entries.
const CHUNK_FIRST: usize = 256;
/// What is written or comes with more bytes than this is a chunk by itself, and nothing follows in it.
const SHARED_BEYOND: usize = CHUNK_BYTES;

/// Some entries of one epoch, up to and with `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub epoch: Epoch,
    pub last: Offset,
}

/// Never without an entry. The first of the log's chunks may begin with some that are at or below its base.
#[derive(Clone, Debug)]
struct Chunk {
    epoch: Epoch,
    /// Of the first entry in it.
    first: Offset,
    bytes: Bytes,
    /// Where each entry ends.
    ends: Vec<u32>,
}

#[derive(Clone, Debug)]
enum Bytes {
    Own(Vec<u8>),
    /// With messages that are under way, and never changed.
    Shared(Payload),
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Own(bytes) => bytes,
            Bytes::Shared(bytes) => bytes.as_slice(),
        }
    }
}

impl Bytes {
    /// Leaves so many from the front.
    fn truncate(&mut self, length: usize) {
        match self {
            Bytes::Own(bytes) => bytes.truncate(length),
            Bytes::Shared(bytes) => *self = Bytes::Own(bytes.as_slice()[..length].to_vec()),
        }
    }

    /// Those from here to there: without a copy where that is everything.
    fn part(&self, begin: usize, end: usize) -> Payload {
        match self {
            Bytes::Shared(bytes) if begin == 0 && end == bytes.len() => bytes.clone(),
            Bytes::Own(_) | Bytes::Shared(_) => self[begin..end].into(),
        }
    }
}

impl Chunk {
    fn last(&self) -> Offset {
        Offset(self.first.0 + self.ends.len() as u64 - 1)
    }

    /// Where the entry with this index begins; one beyond the last: where the last ends.
    fn begin(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }

    fn index(&self, offset: Offset) -> usize {
        offset.above(self.first) as usize
    }

    #[inline(always)]
    fn entry(&self, index: usize) -> Option<BucketEntry<'_>> {
        entries::iter(self.epoch, self.bytes.get(self.begin(index)..)?).next()
    }

    /// Of an entry that is there.
    fn time(&self, index: usize) -> Time {
        entries::time(&self.bytes[self.begin(index)..])
    }
}

/// The last entries that were made of a log, to be used again by whoever wants the same.
#[derive(Debug, Default)]
pub(crate) struct Made(Option<(Offset, Entries)>);

impl Made {
    pub(crate) fn from(&mut self, log: &Log, first: Offset, most_bytes: usize) -> Option<Entries> {
        if let Some((known, entries)) = &self.0
            && *known == first
            && entries.bytes().len() <= most_bytes
        {
            return Some(entries.clone());
        }
        let entries = log.from(first, most_bytes)?;
        self.0 = Some((first, entries.clone()));
        Some(entries)
    }
}

#[derive(Clone, Debug)]
pub struct Log {
    /// The mark before the first entry: of a snapshot, of a split, or before all.
    base: Mark,
    chunks: VecDeque<Chunk>,
    last: Offset,
    /// Of the entries above the base.
    bytes: usize,
    /// A chunk to which something is added has no more bytes than this.
    chunk: usize,
}

impl Default for Log {
    fn default() -> Log {
        Log { base: Mark::default(), chunks: VecDeque::new(), last: Offset::ZERO, bytes: 0, chunk: CHUNK_BYTES }
    }
}

impl Log {
    pub fn new(base: Mark) -> Log {
        Log { base, last: base.offset, ..Log::default() }
    }

    /// Chunks that are begun from now on are about so long: what is trimmed goes by chunks.
    pub fn set_chunk(&mut self, bytes: usize) {
        self.chunk = bytes.clamp(CHUNK_FIRST, CHUNK_BYTES);
    }

    pub fn base(&self) -> Mark {
        self.base
    }

    pub fn last(&self) -> Mark {
        match self.chunks.back() {
            Some(chunk) => Mark { epoch: chunk.epoch, offset: self.last },
            None => self.base,
        }
    }

    pub fn last_offset(&self) -> Offset {
        self.last
    }

    pub fn len(&self) -> usize {
        self.last.above(self.base.offset) as usize
    }

    pub fn is_empty(&self) -> bool {
        self.last == self.base.offset
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Of the entries above `offset`, which is at or above the base.
    pub fn bytes_above(&self, offset: Offset) -> usize {
        let Some(place) = self.place(offset.next()) else { return 0 };
        let below = self.chunks[place].begin(self.chunks[place].index(offset.next()));
        self.chunks.range(place..).map(|chunk| chunk.bytes.len()).sum::<usize>() - below
    }

    /// The chunk that has it, where it is held. What is asked for is mostly in the last one.
    #[inline]
    fn place(&self, offset: Offset) -> Option<usize> {
        if offset <= self.base.offset || offset > self.last {
            return None;
        }
        let last = self.chunks.back().filter(|last| last.first <= offset);
        Some(last.map_or_else(|| self.earlier(offset), |_| self.chunks.len() - 1))
    }

    fn earlier(&self, offset: Offset) -> usize {
        self.chunks.partition_point(|chunk| chunk.last() < offset)
    }

    #[inline(always)]
    pub fn get(&self, offset: Offset) -> Option<BucketEntry<'_>> {
        let chunk = &self.chunks[self.place(offset)?];
        chunk.entry(chunk.index(offset))
    }

    /// Of the entry at `offset`, where it is held.
    pub fn time(&self, offset: Offset) -> Option<Time> {
        let chunk = &self.chunks[self.place(offset)?];
        Some(chunk.time(chunk.index(offset)))
    }

    /// The mark at `offset`, where it is the base or held.
    pub fn mark(&self, offset: Offset) -> Option<Mark> {
        if offset == self.base.offset {
            return Some(self.base);
        }
        let chunk = &self.chunks[self.place(offset)?];
        Some(Mark { epoch: chunk.epoch, offset })
    }

    /// The chunk that the next entries go to, with room for so many bytes of them: its bytes, and where they end.
    fn open(&mut self, epoch: Epoch, more: usize) -> (&mut Vec<u8>, &mut Vec<u32>) {
        let has_room = |chunk: &Chunk| {
            chunk.epoch == epoch && matches!(&chunk.bytes, Bytes::Own(own) if own.len() + more <= self.chunk)
        };
        if !self.chunks.back().is_some_and(has_room) {
            // A bucket that has filled one fills the next as well.
            let before = self.chunks.back().filter(|chunk| chunk.epoch == epoch);
            let room = before.map_or(CHUNK_FIRST, |_| self.chunk);
            let ends = Vec::with_capacity(before.map_or(0, |chunk| chunk.ends.len()));
            let bytes = Bytes::Own(Vec::with_capacity(room));
            self.chunks.push_back(Chunk { epoch, first: self.last.next(), bytes, ends });
        }
        let Some(Chunk { bytes: Bytes::Own(bytes), ends, .. }) = self.chunks.back_mut() else {
            unreachable!("there is one with room by now")
        };
        let needed = bytes.len() + more;
        if needed > bytes.capacity() {
            let wanted = (bytes.capacity() * 2).min(self.chunk).max(needed);
            bytes.reserve_exact(wanted - bytes.len());
        }
        (bytes, ends)
    }

    /// Writes an entry behind all others.
    pub fn write(&mut self, epoch: Epoch, time: Time, body: &BucketBody<'_>) -> Offset {
        let more = entry_bytes(body);
        if more > SHARED_BEYOND {
            let mut bytes = Vec::with_capacity(more);
            put_entry(&mut bytes, time, body);
            self.share(epoch, bytes.into(), vec![more as u32]);
        } else {
            let (bytes, ends) = self.open(epoch, more);
            put_entry(bytes, time, body);
            ends.push(bytes.len() as u32);
        }
        self.bytes += more;
        self.last = self.last.next();
        self.last
    }

    /// A chunk by itself, of the entries that come next.
    fn share(&mut self, epoch: Epoch, bytes: Payload, ends: Vec<u32>) {
        self.chunks.push_back(Chunk { epoch, first: self.last.next(), bytes: Bytes::Shared(bytes), ends });
    }

    /// Appends what came from elsewhere.
    pub fn append(&mut self, entries: &Entries) {
        if entries.is_empty() {
            return;
        }
        let (epoch, more) = (entries.epoch(), entries.bytes().len());
        if more > SHARED_BEYOND {
            let mut ends = Vec::with_capacity(entries.count() as usize);
            put_ends(&mut ends, 0, entries);
            self.share(epoch, entries.bytes().clone(), ends);
        } else {
            let (bytes, ends) = self.open(epoch, more);
            put_ends(ends, bytes.len(), entries);
            bytes.extend_from_slice(entries.bytes().as_slice());
        }
        self.bytes += more;
        self.last = Offset(self.last.0 + entries.count());
    }

    /// Drops what is above `offset`; gives how many entries that were.
    pub fn cut(&mut self, offset: Offset) -> u64 {
        let (before, to) = (self.last, offset.max(self.base.offset));
        while self.last > to
            && let Some(chunk) = self.chunks.back_mut()
        {
            let stay = (to.0 + 1).saturating_sub(chunk.first.0) as usize;
            let end = chunk.begin(stay);
            self.bytes -= chunk.bytes.len() - end;
            self.last = Offset(chunk.first.0 + stay as u64).previous();
            chunk.bytes.truncate(end);
            chunk.ends.truncate(stay);
            if stay == 0 || self.last == self.base.offset {
                self.chunks.pop_back();
            }
        }
        before.above(self.last)
    }

    /// Drops what is at or below `offset`, as long as so many bytes stay. What goes last becomes the base.
    pub fn trim(&mut self, offset: Offset, keep: usize) {
        while let Some(chunk) = self.chunks.front()
            && self.base.offset < offset
        {
            let held = chunk.begin(chunk.index(self.base.offset.next()));
            let (last, epoch) = (chunk.last(), chunk.epoch);
            if last <= offset {
                let more = chunk.bytes.len() - held;
                if self.bytes - more < keep {
                    return;
                }
                self.bytes -= more;
                self.base = Mark { epoch, offset: last };
                self.chunks.pop_front();
            } else if keep == 0 {
                self.bytes -= chunk.begin(chunk.index(offset.next())) - held;
                self.base = Mark { epoch, offset };
            } else {
                return;
            }
        }
        if self.chunks.is_empty() {
            self.chunks.shrink_to_fit(); // A quiet bucket costs next to nothing.
        }
    }

    /// All from `first` on, in order; none where that is not held.
    pub fn rows(&self, first: Offset) -> Rows<'_> {
        let Some(place) = self.place(first) else {
            return Rows { chunk: entries::iter(Epoch::ZERO, &[]), chunks: self.chunks.range(..0) };
        };
        let chunk = &self.chunks[place];
        let rest = entries::iter(chunk.epoch, &chunk.bytes[chunk.begin(chunk.index(first))..]);
        Rows { chunk: rest, chunks: self.chunks.range(place + 1..) }
    }

    /// From `first` on, as many as are of one epoch and `most_bytes` allows, and at least one; none where none is held.
    pub fn from(&self, first: Offset, most_bytes: usize) -> Option<Entries> {
        let place = self.place(first)?;
        let chunk = &self.chunks[place];
        let (epoch, index) = (chunk.epoch, chunk.index(first));
        let begin = chunk.begin(index);
        let mut room = most_bytes.saturating_add(begin);
        if chunk.bytes.len() > room {
            let fit = chunk.ends.partition_point(|end| *end as usize <= room).max(index + 1);
            let bytes = chunk.bytes.part(begin, chunk.begin(fit));
            return Some(Entries::written(epoch, (fit - index) as u32, chunk.time(fit - 1), bytes));
        }
        let fits = |chunk: &&Chunk| {
            room = room.saturating_sub(chunk.bytes.len());
            chunk.epoch == epoch && room > 0
        };
        let chunks = self.chunks.range(place..).take_while(fits).count().max(1);
        let last = &self.chunks[place + chunks - 1];
        let (count, time) = (last.last().above(first) + 1, last.time(last.ends.len() - 1));
        if chunks == 1 {
            return Some(Entries::written(epoch, count as u32, time, chunk.bytes.part(begin, chunk.bytes.len())));
        }
        // For somebody who was away: several chunks at a time.
        let mut bytes = chunk.bytes[begin..].to_vec();
        self.chunks.range(place + 1..place + chunks).for_each(|chunk| bytes.extend_from_slice(&chunk.bytes));
        Some(Entries::written(epoch, count as u32, time, bytes))
    }

    /// All from `first` on, in order.
    pub fn all_from(&self, first: Offset) -> Vec<Entries> {
        let mut all = Vec::new();
        let mut next = first;
        while let Some(entries) = self.from(next, usize::MAX) {
            next = Offset(next.0 + entries.count());
            all.push(entries);
        }
        all
    }

    /// The base by itself, then all entries, as rows of equal epochs: enough for another to find where the logs part.
    pub fn runs(&self) -> Vec<Run> {
        let mut runs = vec![Run { epoch: self.base.epoch, last: self.base.offset }];
        for chunk in &self.chunks {
            let (epoch, last) = (chunk.epoch, chunk.last());
            // Never merged with the base, whose run says where the log begins.
            match runs.get_mut(1..).and_then(<[Run]>::last_mut) {
                Some(run) if run.epoch == epoch => run.last = last,
                Some(_) | None => runs.push(Run { epoch, last }),
            }
        }
        runs
    }

    /// The highest mark that this log shares with one of these runs, of which the first begins at its base. None where
    /// they share nothing that either still holds.
    pub fn shared(&self, theirs: &[Run]) -> Option<Mark> {
        let base = theirs.first()?.last;
        // Newest first: the first offset at which the epochs are the same is the highest that is shared.
        let mut end = theirs.last()?.last.min(self.last_offset());
        for (index, run) in theirs.iter().enumerate().rev() {
            let start = match index.checked_sub(1) {
                Some(before) => theirs[before].last.next(),
                None => base,
            };
            while end >= start && end >= self.base.offset {
                match self.mark(end) {
                    Some(mark) if end <= run.last && mark.epoch == run.epoch => return Some(mark),
                    Some(_) | None => {}
                }
                if end == Offset::ZERO {
                    return None;
                }
                end = end.previous();
            }
        }
        None
    }
}

/// Where each of these ends, of which the first begins at `begin`.
fn put_ends(ends: &mut Vec<u32>, begin: usize, entries: &Entries) {
    let end = begin + entries.bytes().len();
    let mut iter = entries.iter();
    while iter.next().is_some() {
        ends.push((end - iter.rest().len()) as u32);
    }
}

/// Entries, one after another.
#[derive(Debug)]
pub struct Rows<'a> {
    chunk: entries::Iter<'a>,
    chunks: vec_deque::Iter<'a, Chunk>,
}

impl<'a> Iterator for Rows<'a> {
    type Item = BucketEntry<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<BucketEntry<'a>> {
        loop {
            if let Some(entry) = self.chunk.next() {
                return Some(entry);
            }
            let next = self.chunks.next()?;
            self.chunk = entries::iter(next.epoch, &next.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::Slot;

    fn epoch(slot: u64) -> Epoch {
        Epoch { slot: Slot(slot), ..Epoch::ZERO }
    }

    fn log(base: u64, epochs: &[u64]) -> Log {
        let mut log = Log::new(Mark { epoch: epoch(if base == 0 { 0 } else { 1 }), offset: Offset(base) });
        for &slot in epochs {
            log.write(epoch(slot), Time(1), &BucketBody::Tick);
        }
        log
    }

    fn shared(mine: &Log, theirs: &Log) -> Option<u64> {
        mine.shared(&theirs.runs()).map(|mark| mark.offset.0)
    }

    #[test]
    fn logs_agree_up_to_the_highest_mark_they_share() {
        let mine = log(0, &[1, 1, 2, 2, 3]);
        assert_eq!(shared(&mine, &log(0, &[1, 1, 2, 2, 3])), Some(5));
        assert_eq!(shared(&mine, &log(0, &[1, 1, 2])), Some(3));
        assert_eq!(shared(&mine, &log(0, &[1, 1, 1, 1])), Some(2));
        assert_eq!(shared(&mine, &log(0, &[1, 1, 2, 2, 2, 2])), Some(4));
        assert_eq!(shared(&mine, &log(0, &[4])), Some(0));
        assert_eq!(shared(&mine, &log(0, &[])), Some(0));
        assert_eq!(shared(&mine, &log(2, &[2, 2, 2])), Some(4));
        assert_eq!(shared(&log(2, &[2, 2]), &log(0, &[1])), None, "what they share is no longer here");
        assert_eq!(shared(&log(0, &[1]), &log(2, &[2, 2])), None, "what they share is no longer there");
    }

    #[test]
    fn a_log_trimmed_within_an_epoch_still_says_where_it_begins() {
        let mut theirs = log(0, &[1, 1, 1, 1, 1]);
        theirs.trim(Offset(2), 0);
        assert_eq!(shared(&log(0, &[1, 1, 1, 1]), &theirs), Some(4), "theirs is longer, of one epoch with its base");
        assert_eq!(shared(&log(0, &[1]), &theirs), None);
    }

    #[test]
    fn trimming_moves_the_base_and_cutting_the_end() {
        let mut log = log(0, &[1, 1, 2, 2, 3]);
        log.trim(Offset(2), 0);
        assert_eq!((log.base(), log.len()), (Mark { epoch: epoch(1), offset: Offset(2) }, 3));
        assert_eq!(log.cut(Offset(3)), 2);
        assert_eq!(log.last(), Mark { epoch: epoch(2), offset: Offset(3) });
        log.trim(Offset(3), 0);
        assert_eq!((log.bytes(), log.last().offset), (0, Offset(3)));
    }

    /// What a log is to be like, entry by entry.
    #[derive(Debug, Default)]
    struct Model {
        base: Mark,
        entries: Vec<Entries>,
    }

    impl Model {
        fn last(&self) -> u64 {
            self.base.offset.0 + self.entries.len() as u64
        }

        fn check(&self, log: &Log) {
            assert_eq!((log.base(), log.len(), log.last_offset().0), (self.base, self.entries.len(), self.last()));
            assert_eq!(log.bytes(), self.entries.iter().map(|entry| entry.bytes().len()).sum::<usize>());
            assert_eq!(log.mark(self.base.offset), Some(self.base));
            for (offset, entry) in (self.base.offset.0 + 1..).map(Offset).zip(&self.entries) {
                assert_eq!(log.get(offset), entry.first());
                assert_eq!(log.mark(offset), Some(Mark { epoch: entry.epoch(), offset }));
            }
            for beyond in [self.base.offset.0.wrapping_sub(1), self.last() + 1] {
                assert!(log.get(Offset(beyond)).is_none() && log.from(Offset(beyond), 1000).is_none());
                assert!(log.rows(Offset(beyond)).next().is_none());
            }
            for index in [0, self.entries.len() / 2, self.entries.len().saturating_sub(1)] {
                let rows = log.rows(Offset(self.base.offset.0 + 1 + index as u64));
                assert!(rows.map(|entry| Entries::one(&entry)).eq(self.entries.iter().skip(index).cloned()));
            }
            let all = log.all_from(self.base.offset.next());
            assert!(all.iter().flat_map(|some| some.each().collect::<Vec<_>>()).eq(self.entries.iter().cloned()));
        }
    }

    #[test]
    fn a_log_is_what_was_done_to_it() {
        let mut rng = atoll_types::Rng::new(5);
        for _ in 0..40 {
            let (mut log, mut model) = (Log::default(), Model::default());
            // Chunks end by their length as well as by their epochs; what is long is a chunk by itself.
            let longest = [20, CHUNK_BYTES as u64 / 4, CHUNK_BYTES as u64 * 3 / 2][rng.below(3) as usize];
            for time in 1..300 {
                if rng.one_in(20) {
                    log.set_chunk(rng.below(CHUNK_BYTES as u64 * 2) as usize);
                }
                let (epoch, last) = (epoch(time / 40), log.last_offset());
                let command = vec![time as u8; rng.below(longest) as usize];
                let body = BucketBody::Write { slot: Default::default(), usage: None, command: &command };
                let one = Entries::one(&BucketEntry { epoch, time: Time(time), body });
                match rng.below(10) {
                    0 => {
                        let to = Offset(last.0.saturating_sub(rng.below(30)));
                        let cut = log.cut(to);
                        assert_eq!(cut, last.above(to.max(model.base.offset)));
                        model.entries.truncate(to.above(model.base.offset) as usize);
                    }
                    1 => {
                        let to = Offset(model.base.offset.0 + rng.below(log.len() as u64 + 1));
                        let mark = log.mark(to).expect("it is held");
                        log.trim(to, 0);
                        model.entries.drain(..to.above(model.base.offset) as usize);
                        model.base = mark;
                    }
                    2 => {
                        let keep = rng.below(log.bytes() as u64 + 1) as usize;
                        log.trim(last, keep);
                        assert!(log.bytes() >= keep && log.base().offset <= last);
                        model.entries.drain(..log.base().offset.above(model.base.offset) as usize);
                        model.base = log.base();
                    }
                    3..6 => {
                        log.append(&one.joined(&[&one]));
                        model.entries.extend([one.clone(), one]);
                    }
                    _other => {
                        assert_eq!(log.write(epoch, Time(time), &body), last.next());
                        model.entries.push(one);
                    }
                }
                model.check(&log);
                let first = Offset(model.base.offset.0 + 1 + rng.below(log.len() as u64 + 1));
                let most = rng.below(CHUNK_BYTES as u64 * 8) as usize;
                if let Some(some) = log.from(first, most) {
                    assert!(some.count() == 1 || some.bytes().len() <= most);
                    let index = first.above(model.base.offset.next()) as usize;
                    assert!(some.each().eq(model.entries[index..][..some.count() as usize].iter().cloned()));
                    assert_eq!(some.last_time(), some.iter().map(|entry| entry.time).max().unwrap_or_default());
                    let next = model.entries.get(index + some.count() as usize);
                    let fits = |next: &&Entries| next.bytes().len() + some.bytes().len() <= most / 2;
                    let more = next.filter(|next| next.epoch() == some.epoch()).filter(fits);
                    // The next chunk has two of the longest at the most.
                    let most_of_one = CHUNK_BYTES * 3 + 100;
                    assert!(more.is_none() || some.bytes().len() + most_of_one > most, "it could have been more");
                }
            }
        }
    }
}
