//! The entries a copy holds, after its base. A log agrees with another up to the highest mark they share.

use atoll_types::{BucketEntry, Epoch, Mark, Offset};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// A row of entries of one epoch, up to and with `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub epoch: Epoch,
    pub last: Offset,
}

#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The mark before the first entry: of a snapshot, of a split, or before all.
    base: Mark,
    entries: VecDeque<Arc<BucketEntry>>,
    /// What the entries hold, about.
    bytes: usize,
}

impl Log {
    pub fn new(base: Mark) -> Log {
        Log { base, entries: VecDeque::new(), bytes: 0 }
    }

    pub fn base(&self) -> Mark {
        self.base
    }

    pub fn last(&self) -> Mark {
        match self.entries.back() {
            Some(entry) => Mark { epoch: entry.epoch, offset: self.last_offset() },
            None => self.base,
        }
    }

    pub fn last_offset(&self) -> Offset {
        Offset(self.base.offset.0 + self.entries.len() as u64)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn index(&self, offset: Offset) -> Option<usize> {
        offset.0.checked_sub(self.base.offset.0 + 1).map(|index| index as usize)
    }

    pub fn get(&self, offset: Offset) -> Option<&Arc<BucketEntry>> {
        self.entries.get(self.index(offset)?)
    }

    /// The mark at `offset`, where it is the base or held.
    pub fn mark(&self, offset: Offset) -> Option<Mark> {
        if offset == self.base.offset {
            return Some(self.base);
        }
        self.get(offset).map(|entry| Mark { epoch: entry.epoch, offset })
    }

    pub fn append(&mut self, entry: Arc<BucketEntry>) -> Offset {
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        self.last_offset()
    }

    /// Drops what is above `offset`; gives how many entries that were.
    pub fn cut(&mut self, offset: Offset) -> usize {
        let before = self.entries.len();
        while self.last_offset() > offset
            && let Some(entry) = self.entries.pop_back()
        {
            self.bytes -= entry.bytes();
        }
        before - self.entries.len()
    }

    /// Drops what is at or below `offset`, which becomes the base.
    pub fn trim(&mut self, offset: Offset) {
        while self.base.offset < offset
            && let Some(entry) = self.entries.pop_front()
        {
            self.bytes -= entry.bytes();
            self.base = Mark { epoch: entry.epoch, offset: self.base.offset.next() };
        }
        if self.entries.is_empty() {
            self.entries.shrink_to_fit(); // A quiet bucket costs next to nothing.
        }
    }

    /// From `first` on, as many as `most_bytes` allows, and at least one.
    pub fn from(&self, first: Offset, most_bytes: usize) -> Vec<Arc<BucketEntry>> {
        let Some(start) = self.index(first).filter(|start| *start < self.entries.len()) else { return Vec::new() };
        let (mut bytes, mut end) = (0, start);
        for entry in self.entries.range(start..) {
            bytes += entry.bytes();
            if end > start && bytes > most_bytes {
                break;
            }
            end += 1;
        }
        self.entries.range(start..end).cloned().collect()
    }

    /// The base by itself, then all entries, as rows of equal epochs: enough for another to find where the logs part.
    pub fn runs(&self) -> Vec<Run> {
        let mut runs = vec![Run { epoch: self.base.epoch, last: self.base.offset }];
        for (offset, entry) in (self.base.offset.0 + 1..).zip(&self.entries) {
            // Never merged with the base, whose run says where the log begins.
            match runs.get_mut(1..).and_then(<[Run]>::last_mut) {
                Some(run) if run.epoch == entry.epoch => run.last = Offset(offset),
                Some(_) | None => runs.push(Run { epoch: entry.epoch, last: Offset(offset) }),
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

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{BucketBody, Slot, Time};

    fn epoch(slot: u64) -> Epoch {
        Epoch { slot: Slot(slot), ..Epoch::ZERO }
    }

    fn log(base: u64, epochs: &[u64]) -> Log {
        let mut log = Log::new(Mark { epoch: epoch(if base == 0 { 0 } else { 1 }), offset: Offset(base) });
        for &slot in epochs {
            log.append(Arc::new(BucketEntry { epoch: epoch(slot), time: Time(1), body: BucketBody::Tick }));
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
        theirs.trim(Offset(2));
        assert_eq!(shared(&log(0, &[1, 1, 1, 1]), &theirs), Some(4), "theirs is longer, of one epoch with its base");
        assert_eq!(shared(&log(0, &[1]), &theirs), None);
    }

    #[test]
    fn trimming_moves_the_base_and_cutting_the_end() {
        let mut log = log(0, &[1, 1, 2, 2, 3]);
        log.trim(Offset(2));
        assert_eq!((log.base(), log.len()), (Mark { epoch: epoch(1), offset: Offset(2) }, 3));
        assert_eq!(log.cut(Offset(3)), 2);
        assert_eq!(log.last(), Mark { epoch: epoch(2), offset: Offset(3) });
        log.trim(Offset(3));
        assert_eq!((log.bytes(), log.last().offset), (0, Offset(3)));
    }
}
