//! Rules 5, 10, 11, 13, 14: what is committed stands, the same for everybody and for ever; nobody applies or shows
//! anything else; all copies at the same mark have the same digest.
//!
//! ```text
//!   placed ──▶ one log ──divided──▶ lower half ──▶ …        both go on from the split
//!                 │          └────▶ upper half ──▶ …
//!                 └── an operator's word (a revival, a new generation) ──▶ a log that may have lost its end
//! ```
//! An entry is in the log of its bucket from the moment at which a primary first tells that it is committed.
//!
//! Not here: whether it may be (`commit.rs`), which epoch goes on with which log (`edicts.rs`).

use super::broken;
use atoll_replica::Log;
use atoll_types::{BucketBody, BucketEntry, Entries, Epoch, Mark, Offset};
use std::collections::BTreeMap;

const RULE: &str = "bucket log";

/// Names one of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogId(usize);

/// What is known below the base of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// There is nothing.
    Nothing,
    /// It came out of the division of this one.
    Half(LogId),
    /// An operator's word: nobody can say what was kept.
    Lossy,
}

#[derive(Debug)]
struct Canon {
    origin: Origin,
    /// False of a lossy one that nobody has served yet: its beginning is what its first primary has.
    known: bool,
    base: Mark,
    /// One by one; the first has the offset after the base.
    entries: Vec<Entries>,
    /// In which epoch each was first committed.
    epochs: Vec<Epoch>,
    /// By the offset that was applied last.
    digests: BTreeMap<Offset, u64>,
    /// Of a half, before anything is applied to it.
    first_digest: Option<u64>,
}

impl Canon {
    fn last(&self) -> Offset {
        Offset(self.base.offset.0 + self.entries.len() as u64)
    }

    /// The last that was committed in an epoch before this one. A late primary knows nothing of what came after.
    fn last_before(&self, epoch: Epoch) -> Offset {
        let later = self.epochs.iter().rev().take_while(|&&of| of >= epoch).count() as u64;
        Offset(self.last().0 - later)
    }

    fn entry(&self, offset: Offset) -> Option<BucketEntry<'_>> {
        self.entries.get(usize::try_from(offset.0.checked_sub(self.base.offset.0 + 1)?).ok()?)?.first()
    }

    fn mark(&self, offset: Offset) -> Option<Mark> {
        if offset == self.base.offset {
            return Some(self.base);
        }
        self.entry(offset).map(|entry| Mark { epoch: entry.epoch, offset })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Canons {
    logs: Vec<Canon>,
}

impl Canons {
    fn add(&mut self, origin: Origin, known: bool, base: Mark) -> LogId {
        let (entries, epochs, digests) = (Vec::new(), Vec::new(), BTreeMap::new());
        self.logs.push(Canon { origin, known, base, entries, epochs, digests, first_digest: None });
        LogId(self.logs.len() - 1)
    }

    /// A bucket begins with nothing.
    pub(crate) fn begin(&mut self, base: Mark) -> LogId {
        self.add(Origin::Nothing, true, base)
    }

    /// An operator's word: what was committed may be lost. Nothing else may.
    pub(crate) fn fork(&mut self) -> LogId {
        self.add(Origin::Lossy, false, Mark::default())
    }

    /// One of the halves of a log that must end with the split that was written in `epoch`.
    pub(crate) fn halve(&mut self, whole: LogId, epoch: Epoch) -> Result<LogId, crate::Violation> {
        let log = &self.logs[whole.0];
        let last = log.entry(log.last());
        if !last.is_some_and(|last| matches!(last.body, BucketBody::Split) && last.epoch == epoch) {
            let detail = format!("a bucket is divided by its epoch {epoch}, and its last committed entry is {last:?}");
            return Err(broken(RULE, detail));
        }
        let base = log.mark(log.last()).unwrap_or_default();
        Ok(self.add(Origin::Half(whole), true, base))
    }

    pub(crate) fn is_lossy(&self, log: LogId) -> bool {
        self.logs[log.0].origin == Origin::Lossy
    }

    /// Nothing was ever committed in it, so nobody lacks anything.
    pub(crate) fn is_empty(&self, log: LogId) -> bool {
        let log = &self.logs[log.0];
        log.origin == Origin::Nothing && log.entries.is_empty()
    }

    /// The last offset that is committed; none where that is not known.
    pub(crate) fn last(&self, log: LogId) -> Option<Offset> {
        let log = &self.logs[log.0];
        log.known.then(|| log.last())
    }

    /// Whose the entry at `offset` is: of this log, or of the one it came out of.
    fn owner(&self, log: LogId, offset: Offset) -> LogId {
        match self.logs[log.0].origin {
            Origin::Half(whole) if offset <= self.logs[log.0].base.offset => self.owner(whole, offset),
            Origin::Half(_) | Origin::Nothing | Origin::Lossy => log,
        }
    }

    /// Is it beyond what anybody can say of this log?
    fn is_unknown(&self, log: LogId, offset: Offset) -> bool {
        let log = &self.logs[log.0];
        log.origin == Origin::Lossy && (!log.known || offset <= log.base.offset)
    }

    /// The primary of an epoch serves: it began it with everything that is committed.
    pub(crate) fn on_serving(
        &mut self,
        who: &str,
        (log, epoch): (LogId, Epoch),
        held: &Log,
        committed: Offset,
        inherited: Offset,
    ) -> Result<(), crate::Violation> {
        let canon = &mut self.logs[log.0];
        if !canon.known {
            (canon.known, canon.base) = (true, held.base());
            let offsets = (held.base().offset.0 + 1..=committed.0).map(Offset);
            canon.entries = offsets.map_while(|offset| held.get(offset).map(|entry| Entries::one(&entry))).collect();
            canon.epochs = vec![epoch; canon.entries.len()];
            return Ok(());
        }
        let last = canon.last_before(epoch);
        if inherited < last {
            let detail = format!("{who} began {epoch} with {inherited} entries, and {last} were committed before");
            return Err(broken(RULE, detail));
        }
        let base = held.base().offset;
        for offset in (base.0..=last.0).map(Offset) {
            if self.is_unknown(log, offset) || offset == Offset::ZERO {
                continue;
            }
            let owner = &self.logs[self.owner(log, offset).0];
            let same = match (held.get(offset), owner.entry(offset)) {
                (Some(own), Some(known)) => own == known,
                (None, Some(_)) | (None, None) | (Some(_), None) => held.mark(offset) == owner.mark(offset),
            };
            if !same {
                let (own, known) = (held.get(offset), owner.entry(offset));
                let (base, end) = (held.base(), held.last());
                let detail =
                    format!("{who} serves with {own:?} at {offset}, of {base} to {end}; {known:?} is committed");
                return Err(broken(RULE, detail));
            }
        }
        Ok(())
    }

    pub(crate) fn on_committed(
        &mut self,
        who: &str,
        (log, epoch): (LogId, Epoch),
        mark: Mark,
        entry: &Entries,
    ) -> Result<(), crate::Violation> {
        let offset = mark.offset;
        if mark.epoch != entry.epoch() {
            return Err(broken(RULE, format!("{who} commits {entry:?} as {mark}")));
        }
        if self.is_unknown(log, offset) {
            return Ok(());
        }
        let last = self.logs[log.0].last();
        if offset == last.next() {
            self.logs[log.0].entries.push(entry.clone());
            self.logs[log.0].epochs.push(epoch);
            return Ok(());
        }
        match self.logs[self.owner(log, offset).0].entry(offset) {
            Some(known) if Some(known) == entry.first() => Ok(()),
            Some(known) => {
                Err(broken(RULE, format!("{who} commits {entry:?} at {offset}, where {known:?} is committed")))
            }
            None => Err(broken(RULE, format!("{who} commits at {offset}, and {last} entries are committed"))),
        }
    }

    /// This mark must be one of a committed entry.
    pub(crate) fn must_be_committed(&self, who: &str, log: LogId, mark: Mark) -> Result<(), crate::Violation> {
        if self.is_unknown(log, mark.offset) {
            return Ok(());
        }
        let known = self.logs[self.owner(log, mark.offset).0].mark(mark.offset);
        if known != Some(mark) && mark.offset != Offset::ZERO {
            let last = self.logs[log.0].last();
            let detail = format!("{who} {mark}, where {known:?} is committed, of {last} entries");
            return Err(broken("committed only", detail));
        }
        Ok(())
    }

    /// A copy has applied this entry.
    pub(crate) fn on_applied(
        &mut self,
        who: &str,
        log: LogId,
        mark: Mark,
        digest: u64,
    ) -> Result<(), crate::Violation> {
        self.must_be_committed(who, log, mark)?;
        if self.logs[log.0].known {
            let owner = self.owner(log, mark.offset);
            let first = *self.logs[owner.0].digests.entry(mark.offset).or_insert(digest);
            same_digest(who, mark, first, digest)?;
        }
        Ok(())
    }

    /// A copy is in this state, of the slots that the log is of now.
    pub(crate) fn on_state(&mut self, who: &str, log: LogId, mark: Mark, digest: u64) -> Result<(), crate::Violation> {
        self.must_be_committed(who, log, mark)?;
        let canon = &mut self.logs[log.0];
        if !canon.known {
            return Ok(());
        }
        // The state at its base is not the one that the whole had there: it is half of that.
        let half = matches!(canon.origin, Origin::Half(_));
        if half && mark.offset < canon.base.offset {
            let base = canon.base;
            return Err(broken("digest", format!("{who} {mark}, and the bucket was divided at {base}")));
        }
        let first = if half && mark.offset == canon.base.offset {
            *canon.first_digest.get_or_insert(digest)
        } else {
            *canon.digests.entry(mark.offset).or_insert(digest)
        };
        same_digest(who, mark, first, digest)
    }
}

fn same_digest(who: &str, mark: Mark, first: u64, digest: u64) -> Result<(), crate::Violation> {
    if first != digest {
        return Err(broken("digest", format!("{who} {mark} with digest {digest:x}, another {first:x}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{Slot, Time};

    fn entry(slot: u64, time: u64, body: BucketBody<'static>) -> Entries {
        Entries::one(&BucketEntry { epoch: Epoch { slot: Slot(slot), ..Epoch::ZERO }, time: Time(time), body })
    }

    fn mark(slot: u64, offset: u64) -> Mark {
        Mark { epoch: Epoch { slot: Slot(slot), ..Epoch::ZERO }, offset: Offset(offset) }
    }

    fn with_two() -> (Canons, LogId) {
        let mut canons = Canons::default();
        let log = canons.begin(Mark::default());
        canons
            .on_committed("n1", (log, mark(5, 1).epoch), mark(5, 1), &entry(5, 1, BucketBody::Tick))
            .expect("the first");
        canons
            .on_committed("n1", (log, mark(5, 2).epoch), mark(5, 2), &entry(5, 2, BucketBody::Split))
            .expect("the second");
        (canons, log)
    }

    #[test]
    fn what_is_committed_stays() {
        let (mut canons, log) = with_two();
        canons
            .on_committed("n2", (log, mark(5, 1).epoch), mark(5, 1), &entry(5, 1, BucketBody::Tick))
            .expect("the same again");
        canons
            .on_committed("n2", (log, mark(5, 1).epoch), mark(5, 1), &entry(5, 9, BucketBody::Tick))
            .expect_err("another time");
        canons
            .on_committed("n2", (log, mark(6, 4).epoch), mark(6, 4), &entry(6, 9, BucketBody::Tick))
            .expect_err("a gap");
    }

    #[test]
    fn nobody_applies_what_is_not_committed_or_otherwise() {
        let (mut canons, log) = with_two();
        canons.on_applied("n1", log, mark(5, 1), 7).expect("committed");
        canons.on_applied("n2", log, mark(5, 1), 7).expect("the same state");
        canons.on_applied("n3", log, mark(5, 1), 8).expect_err("another state");
        canons.on_applied("n1", log, mark(6, 2), 7).expect_err("another entry");
        canons.on_applied("n1", log, mark(5, 3), 7).expect_err("not committed");
    }

    #[test]
    fn a_primary_begins_with_all_that_is_committed() {
        let (mut canons, log) = with_two();
        let mut held = Log::new(Mark::default());
        held.append(&entry(5, 1, BucketBody::Tick));
        canons.on_serving("n1", (log, mark(7, 0).epoch), &held, Offset(0), Offset(1)).expect_err("one is missing");
        canons.on_serving("n1", (log, mark(5, 0).epoch), &held, Offset(0), Offset(1)).expect("it began before that");
        held.append(&entry(6, 2, BucketBody::Split));
        canons.on_serving("n1", (log, mark(7, 0).epoch), &held, Offset(0), Offset(2)).expect_err("another one");
        held.cut(Offset(1));
        held.append(&entry(5, 2, BucketBody::Split));
        held.append(&entry(6, 2, BucketBody::Tick));
        canons.on_serving("n1", (log, mark(7, 0).epoch), &held, Offset(0), Offset(3)).expect("all, and more");
    }

    #[test]
    fn halves_go_on_from_the_split() {
        let (mut canons, log) = with_two();
        canons.halve(log, Epoch { slot: Slot(4), ..Epoch::ZERO }).expect_err("the split is of another epoch");
        let upper = canons.halve(log, mark(5, 2).epoch).expect("it ends with the split");
        canons.on_applied("n1", upper, mark(5, 1), 7).expect("of the whole");
        canons.on_applied("n2", log, mark(5, 1), 8).expect_err("the same entry of the same log");
        canons.on_state("n1", upper, mark(5, 2), 3).expect("half of the state");
        canons.on_applied("n1", upper, mark(5, 2), 4).expect("the state of the whole");
        canons
            .on_committed("n1", (upper, mark(6, 3).epoch), mark(6, 3), &entry(6, 3, BucketBody::Tick))
            .expect("offsets go on");
        canons
            .on_committed("n1", (log, mark(5, 3).epoch), mark(5, 3), &entry(5, 3, BucketBody::Tick))
            .expect("apart from the other half");
    }

    #[test]
    fn after_an_operators_word_the_first_primary_says_what_is_left() {
        let (mut canons, _) = with_two();
        let log = canons.fork();
        let mut held = Log::new(Mark::default());
        held.append(&entry(5, 1, BucketBody::Tick));
        canons.on_applied("n1", log, mark(5, 2), 1).expect("nobody knows yet");
        canons.on_serving("n1", (log, mark(7, 0).epoch), &held, Offset(1), Offset(1)).expect("it is whatever it has");
        canons
            .on_committed("n1", (log, mark(9, 2).epoch), mark(9, 2), &entry(9, 3, BucketBody::Tick))
            .expect("another second entry");
        canons.on_applied("n2", log, mark(5, 2), 1).expect_err("and from now on that is the one");
    }
}
