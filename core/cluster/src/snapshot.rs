//! Snapshots of the replicated state: cut into pieces, kept, fetched from any holder, checked before use.
//!
//! The bytes are a function of the state, so two holders of the same slot have the same bytes and a fetch may go on
//! with another holder where it stopped. A bad snapshot is refused whole; a failed fetch is never an empty state.
//!
//! Not here: what the bytes mean. Whoever joins the machines makes and opens them (`atoll-node`, `replicated.rs`).

use crate::message::{Chunk, Fetch};
use atoll_types::{Address, Payload, Rng, Slot, Time};
use std::collections::BTreeMap;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Useless answers after which a fetch is given up.
const FAILURES_MOST: u32 = 20;
/// Larger claims are refused before anything is allocated.
const LENGTH_MOST: u64 = 256 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub slot: Slot,
    pub bytes: Payload,
    pub checksum: u32,
}

impl Snapshot {
    /// Of the state at `slot`, as these bytes.
    pub fn new(slot: Slot, bytes: Vec<u8>) -> Snapshot {
        Snapshot { slot, checksum: crc32c::crc32c(&bytes), bytes: bytes.into() }
    }

    pub fn digest(&self) -> u64 {
        xxh3_64(self.bytes.as_slice())
    }
}

/// Snapshots kept for those that fetch them.
#[derive(Debug)]
pub struct Keeper {
    kept: BTreeMap<Slot, Snapshot>,
    limit: usize,
}

impl Keeper {
    pub fn new(limit: usize) -> Keeper {
        Keeper { kept: BTreeMap::new(), limit }
    }

    /// Keeps one more; beyond the limit the oldest goes, and whoever was fetching it is given a newer one.
    pub fn keep(&mut self, snapshot: Snapshot) {
        self.kept.insert(snapshot.slot, snapshot);
        while self.kept.len() > self.limit {
            self.kept.pop_first();
        }
    }

    /// The newest one, if the log still has everything after it.
    pub fn newest(&self, trimmed: Slot) -> Option<&Snapshot> {
        self.kept.last_key_value().map(|(_, snapshot)| snapshot).filter(|snapshot| snapshot.slot >= trimmed)
    }

    pub fn get(&self, slot: Slot, trimmed: Slot) -> Option<&Snapshot> {
        self.kept.get(&slot).filter(|_| slot >= trimmed)
    }
}

/// The piece of `snapshot` that was asked for; its beginning, if another snapshot was.
pub fn piece(snapshot: &Snapshot, fetch: &Fetch, most: usize) -> Chunk {
    let bytes = snapshot.bytes.as_slice();
    let offset = if fetch.slot == snapshot.slot { (fetch.offset as usize).min(bytes.len()) } else { 0 };
    let end = (offset + most).min(bytes.len());
    Chunk {
        slot: snapshot.slot,
        length: bytes.len() as u64,
        checksum: snapshot.checksum,
        offset: offset as u64,
        bytes: bytes[offset..end].into(),
    }
}

/// What came of a piece.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    /// All of it is here and matches its checksum. Whoever cannot open it says so with `on_unsound`.
    Done(Snapshot),
    /// The whole does not match its checksum; the fetch begins anew.
    Bad,
}

/// One fetch under way.
#[derive(Debug)]
pub struct Fetcher {
    /// What is fetched; slot 0 until a holder has said which it has.
    slot: Slot,
    /// Nothing older is of use.
    least: Slot,
    bytes: Vec<u8>,
    holders: Vec<Address>,
    turn: usize,
    tries: u32,
    due: Time,
    began: Time,
    retry: Duration,
    /// How often a holder had nothing of use.
    failures: u32,
}

impl Fetcher {
    pub fn new(now: Time, slot: Slot, least: Slot, holders: Vec<Address>, retry: Duration) -> Fetcher {
        Fetcher { slot, least, bytes: Vec::new(), holders, turn: 0, tries: 0, due: now, began: now, retry, failures: 0 }
    }

    /// When this fetch last got on: from its beginning, or its last piece.
    pub fn since(&self) -> Time {
        self.began
    }

    pub fn due(&self) -> Time {
        self.due
    }

    /// Does nobody have what is needed?
    pub fn is_hopeless(&self) -> bool {
        self.failures >= FAILURES_MOST
    }

    /// Nobody has helped so far: all are asked again, for whatever they have.
    pub fn begin_again(&mut self, now: Time) {
        self.bytes.clear();
        (self.slot, self.failures, self.began) = (Slot::ZERO, 0, now);
    }

    /// Was a holder asked that has not answered?
    pub fn is_waiting(&self) -> bool {
        self.tries > 0
    }

    /// The holder to ask now. Where one does not answer, the next is asked for the same place.
    pub fn take_due(&mut self, now: Time, rng: &mut Rng) -> Option<(Address, Fetch)> {
        if now < self.due {
            return None;
        }
        if self.tries > 0 {
            self.turn += 1;
        }
        self.tries += 1;
        // Also where there is nobody to ask: what is due again at once would never let its node rest.
        self.due = now + rng.between(self.retry, self.retry * 2);
        let holder = self.holders.get(self.turn % self.holders.len().max(1))?;
        Some((holder.clone(), self.next()))
    }

    pub fn next(&self) -> Fetch {
        Fetch { slot: self.slot, offset: self.bytes.len() as u64, stateless: false }
    }

    pub fn on_chunk(&mut self, now: Time, chunk: &Chunk) -> Progress {
        if chunk.slot != self.slot && chunk.offset == 0 && chunk.slot >= self.least {
            // The holder has another one: from its beginning, then.
            self.slot = chunk.slot;
            self.bytes.clear();
        }
        let fits = chunk.slot == self.slot && chunk.offset == self.bytes.len() as u64 && chunk.length <= LENGTH_MOST;
        if !fits {
            return Progress::More; // A duplicate, or late: the next try asks for the right place.
        }
        self.bytes.extend_from_slice(chunk.bytes.as_slice());
        (self.began, self.tries) = (now, 0);
        if (self.bytes.len() as u64) < chunk.length {
            self.due = now;
            return Progress::More;
        }
        self.due = now + self.retry;
        let whole = self.bytes.len() as u64 == chunk.length;
        let snapshot = Snapshot::new(chunk.slot, std::mem::take(&mut self.bytes));
        if whole && snapshot.checksum == chunk.checksum {
            return Progress::Done(snapshot);
        }
        self.on_unsound();
        Progress::Bad
    }

    /// What was fetched is no state: from the beginning, then, from another holder.
    pub fn on_unsound(&mut self) {
        self.failures += 1;
        self.turn += 1;
        self.bytes.clear();
    }

    /// The holder has nothing to give.
    pub fn on_nothing(&mut self) {
        self.failures += 1;
        self.bytes.clear();
        self.slot = Slot::ZERO;
        self.turn += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(slot: u64) -> Snapshot {
        Snapshot::new(Slot(slot), (0..40).map(|byte| byte ^ slot as u8).collect())
    }

    fn fetcher(slot: u64) -> Fetcher {
        Fetcher::new(Time(0), Slot(slot), Slot(slot), vec!["a".into(), "b".into()], Duration::from_secs(1))
    }

    #[test]
    fn a_snapshot_arrives_piece_by_piece() {
        let snapshot = snapshot(3);
        let mut fetcher = fetcher(3);
        let mut pieces = 0;
        loop {
            let chunk = piece(&snapshot, &fetcher.next(), 7);
            pieces += 1;
            match fetcher.on_chunk(Time(1), &chunk) {
                Progress::More => assert_eq!(fetcher.on_chunk(Time(1), &chunk), Progress::More, "a duplicate"),
                Progress::Done(whole) => break assert_eq!(whole, snapshot),
                Progress::Bad => panic!("it is sound"),
            }
        }
        assert!(pieces > 2);
    }

    #[test]
    fn a_damaged_snapshot_is_refused_whole() {
        let snapshot = snapshot(3);
        let mut chunk = piece(&snapshot, &Fetch { slot: Slot(3), offset: 0, stateless: false }, 1000);
        chunk.checksum ^= 1;
        let mut fetcher = fetcher(3);
        assert_eq!(fetcher.on_chunk(Time(1), &chunk), Progress::Bad);
        assert_eq!(
            fetcher.next(),
            Fetch { slot: Slot(3), offset: 0, stateless: false },
            "from the beginning, elsewhere"
        );
    }

    #[test]
    fn what_cannot_be_opened_is_fetched_again_and_given_up_in_the_end() {
        let snapshot = snapshot(3);
        let mut fetcher = fetcher(3);
        for _ in 0..FAILURES_MOST {
            assert!(!fetcher.is_hopeless());
            let chunk = piece(&snapshot, &fetcher.next(), 1000);
            assert_eq!(fetcher.on_chunk(Time(1), &chunk), Progress::Done(snapshot.clone()), "from the beginning");
            fetcher.on_unsound();
        }
        assert!(fetcher.is_hopeless());
    }

    #[test]
    fn a_holder_with_a_newer_snapshot_is_followed_to_it() {
        let mut fetcher = fetcher(3);
        let old = piece(&snapshot(3), &fetcher.next(), 7);
        assert_eq!(fetcher.on_chunk(Time(1), &old), Progress::More);
        let newer = piece(&snapshot(5), &fetcher.next(), 1000);
        assert_eq!(fetcher.on_chunk(Time(1), &newer), Progress::Done(snapshot(5)));
        let older = piece(&snapshot(2), &fetcher.next(), 1000);
        assert_eq!(fetcher.on_chunk(Time(1), &older), Progress::More, "an older one is of no use");
    }

    #[test]
    fn another_holder_is_asked_where_one_is_silent() {
        let mut fetcher = fetcher(3);
        let mut rng = Rng::new(1);
        let asked: Vec<Address> =
            (0..3).filter_map(|_| fetcher.take_due(fetcher.due(), &mut rng).map(|(holder, _)| holder)).collect();
        assert_eq!(asked, ["a".into(), "b".into(), "a".into()]);
    }
}
