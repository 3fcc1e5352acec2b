//! The entries one node holds.
//!
//! ```text
//!   dropped │ decided and kept │ accepted, fate not known │
//!           trimmed            decided                    last
//! ```
//! Invariant: trimmed ≤ decided ≤ last, without gaps: an acceptor takes a slot only when it holds all below it.

use atoll_types::{Ballot, Entry, Held, Slot, Time};
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct Log {
    trimmed: Slot,
    decided: Slot,
    /// The entry of slot `trimmed + 1` first.
    held: VecDeque<Held>,
    /// Of the latest entry seen: entries' times never go back.
    time: Time,
}

impl Log {
    /// A log that begins after a snapshot made at `slot`.
    pub fn after(slot: Slot, time: Time) -> Log {
        Log { trimmed: slot, decided: slot, held: VecDeque::new(), time }
    }

    pub fn trimmed(&self) -> Slot {
        self.trimmed
    }

    pub fn decided(&self) -> Slot {
        self.decided
    }

    pub fn last(&self) -> Slot {
        Slot(self.trimmed.0 + self.held.len() as u64)
    }

    pub fn time(&self) -> Time {
        self.time
    }

    pub fn get(&self, slot: Slot) -> Option<&Held> {
        let index = slot.0.checked_sub(self.trimmed.0 + 1)?;
        self.held.get(index as usize)
    }

    /// Puts an entry above the decided ones: over one that is there, or right after the last.
    pub fn put(&mut self, slot: Slot, held: Held) {
        assert!(slot > self.decided, "slot {slot} is decided and cannot change");
        assert!(slot <= self.last().next(), "slot {slot} would leave a gap after {}", self.last());
        self.time = self.time.max(held.entry.time);
        let index = (slot.0 - self.trimmed.0 - 1) as usize;
        match self.held.get_mut(index) {
            Some(place) => *place = held,
            None => self.held.push_back(held),
        }
    }

    /// Marks the next entry decided and gives it.
    pub fn decide_next(&mut self) -> (Slot, Arc<Entry>) {
        let slot = self.decided.next();
        let entry = self.get(slot).expect("only a held entry is decided").entry.clone();
        self.decided = slot;
        (slot, entry)
    }

    /// Up to `most` entries after `position`, not beyond `through`. Nothing if they are trimmed.
    pub fn entries(&self, position: Slot, through: Slot, most: usize) -> Vec<Arc<Entry>> {
        if position < self.trimmed {
            return Vec::new();
        }
        let from = position.above(self.trimmed) as usize;
        let count = (through.above(position) as usize).min(most);
        self.held.iter().skip(from).take(count).map(|held| held.entry.clone()).collect()
    }

    /// What is held above `slot`.
    pub fn tail(&self, slot: Slot) -> Vec<Held> {
        self.held.iter().skip(slot.above(self.trimmed) as usize).cloned().collect()
    }

    /// What is held above the decided entries.
    pub fn undecided(&self) -> impl Iterator<Item = &Held> {
        self.held.iter().skip(self.kept())
    }

    /// The ballot of the first entry that is not decided, and how far entries of that ballot reach without a break.
    pub fn run(&self) -> (Ballot, Slot) {
        let ballot = self.undecided().next().map_or(Ballot::default(), |held| held.ballot);
        let count = self.undecided().take_while(|held| held.ballot == ballot).count();
        (ballot, Slot(self.decided.0 + count as u64))
    }

    /// How many decided entries are kept.
    pub fn kept(&self) -> usize {
        self.decided.above(self.trimmed) as usize
    }

    /// Drops decided entries up to `slot`.
    pub fn trim(&mut self, slot: Slot) {
        assert!(slot <= self.decided, "only decided entries are trimmed");
        let count = slot.above(self.trimmed) as usize;
        self.held.drain(..count);
        self.trimmed = self.trimmed.max(slot);
    }

    /// A snapshot made at `slot` takes the place of all up to it. What was accepted above stays: it is a vote.
    pub fn install(&mut self, slot: Slot) {
        let covered = (slot.above(self.trimmed) as usize).min(self.held.len());
        self.held.drain(..covered);
        self.trimmed = slot;
        self.decided = self.decided.max(slot);
    }

    pub fn check(&self) {
        assert!(self.trimmed <= self.decided && self.decided <= self.last(), "{self:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{Body, NodeId};

    fn noop(time: u64) -> Held {
        let entry = Entry { time: Time(time), leader: NodeId(1), body: Body::Noop };
        Held { ballot: Ballot::default(), entry: Arc::new(entry) }
    }

    fn log_of(count: u64) -> Log {
        let mut log = Log::default();
        (1..=count).for_each(|slot| log.put(Slot(slot), noop(slot)));
        log
    }

    #[test]
    fn entries_come_from_a_position_up_to_a_mark() {
        let mut log = log_of(10);
        (0..6).for_each(|_| drop(log.decide_next()));
        log.trim(Slot(4));
        let times = |entries: Vec<Arc<Entry>>| entries.iter().map(|entry| entry.time.0).collect::<Vec<_>>();
        assert_eq!(times(log.entries(Slot(4), Slot(6), 9)), [5, 6]);
        assert_eq!(times(log.entries(Slot(5), Slot(10), 2)), [6, 7]);
        assert_eq!(times(log.entries(Slot(3), Slot(6), 9)), [], "what is trimmed cannot be given");
        assert_eq!(log.tail(Slot(6)).len(), 4);
    }

    #[test]
    fn a_snapshot_keeps_the_votes_above_it() {
        let mut log = log_of(10);
        log.install(Slot(7));
        assert_eq!((log.trimmed(), log.decided(), log.last()), (Slot(7), Slot(7), Slot(10)));
        log.install(Slot(20));
        assert_eq!((log.trimmed(), log.decided(), log.last()), (Slot(20), Slot(20), Slot(20)));
        log.check();
    }

    #[test]
    #[should_panic(expected = "decided and cannot change")]
    fn a_decided_slot_cannot_be_overwritten() {
        let mut log = log_of(2);
        log.decide_next();
        log.put(Slot(1), noop(9));
    }
}
