//! Lanes by their keys: open addressing, since every request looks for its lane when it comes and when it is answered.
//!
//! ```text
//!   words   │ hash, place │ free │ hash, place │ …       a key's word stands where its hash says, or after that,
//!   lanes   │ key, lane │ key, lane │ gone │ …           with no free place in between
//! ```
//!
//! Nothing of the order in here shows outside: only look-ups, never a walk, but for checks.

use super::lane::{Lane, LaneKey};

const SMALLEST: usize = 64;
/// An empty map with more room than this gives it back.
const KEEP: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct LaneMap {
    /// The upper half of a key's hash above its place plus one; zero is free. Their number is a power of two, or none.
    words: Vec<u64>,
    lanes: Vec<Option<(LaneKey, Lane)>>,
    /// Places in `lanes` where nothing is.
    free: Vec<u32>,
}

fn place_of(word: u64) -> usize {
    (word as u32).wrapping_sub(1) as usize
}

impl LaneMap {
    fn home(&self, hash_or_word: u64) -> usize {
        (hash_or_word >> 32) as usize & (self.words.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.words.len() - 1)
    }

    /// Where the word of this key stands, and its lane.
    fn find(&self, key: LaneKey) -> Option<(usize, usize)> {
        if self.words.is_empty() {
            return None;
        }
        let hash = key.hash();
        let mut at = self.home(hash);
        loop {
            let word = self.words[at];
            if word == 0 {
                return None;
            }
            if word >> 32 == hash >> 32 {
                let place = place_of(word);
                if self.lanes[place].as_ref().is_some_and(|(other, _)| *other == key) {
                    return Some((at, place));
                }
            }
            at = self.after(at);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lanes.len() - self.free.len()
    }

    pub(crate) fn get(&self, key: LaneKey) -> Option<&Lane> {
        let (_, place) = self.find(key)?;
        self.lanes[place].as_ref().map(|(_, lane)| lane)
    }

    pub(crate) fn get_mut(&mut self, key: LaneKey) -> Option<&mut Lane> {
        let (_, place) = self.find(key)?;
        self.lanes[place].as_mut().map(|(_, lane)| lane)
    }

    /// The lane of this key; a new one, where there is none.
    pub(crate) fn get_or_begin(&mut self, key: LaneKey) -> &mut Lane {
        let place = match self.find(key) {
            Some((_, place)) => place,
            None => self.insert(key),
        };
        &mut self.lanes[place].get_or_insert_with(|| (key, Lane::new())).1
    }

    fn insert(&mut self, key: LaneKey) -> usize {
        if (self.len() + 1) * 4 > self.words.len() * 3 {
            let larger = vec![0; (self.words.len() * 2).max(SMALLEST)];
            let words = std::mem::replace(&mut self.words, larger);
            words.into_iter().filter(|&word| word != 0).for_each(|word| self.settle(word));
        }
        let place = match self.free.pop() {
            Some(place) => place as usize,
            None => {
                self.lanes.push(None);
                self.lanes.len() - 1
            }
        };
        self.lanes[place] = Some((key, Lane::new()));
        self.settle((key.hash() & !0xffff_ffff) | (place as u64 + 1));
        place
    }

    fn settle(&mut self, word: u64) {
        let mut at = self.home(word);
        while self.words[at] != 0 {
            at = self.after(at);
        }
        self.words[at] = word;
    }

    pub(crate) fn remove(&mut self, key: LaneKey) {
        let Some((mut free, place)) = self.find(key) else { return };
        self.lanes[place] = None;
        self.free.push(place as u32);
        if self.len() == 0 && self.words.len() > KEEP {
            *self = LaneMap::default();
            return;
        }
        // Whoever comes after, up to the next free place, and may stand here, moves here: a search must not stop short.
        let mut at = self.after(free);
        while self.words[at] != 0 {
            let from_home = at.wrapping_sub(self.home(self.words[at])) & (self.words.len() - 1);
            let from_free = at.wrapping_sub(free) & (self.words.len() - 1);
            if from_home >= from_free {
                self.words[free] = self.words[at];
                free = at;
            }
            at = self.after(at);
        }
        self.words[free] = 0;
    }

    /// In no order: only for sums and for what holds of each.
    pub(crate) fn each(&self) -> impl Iterator<Item = &(LaneKey, Lane)> {
        self.lanes.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{NodeId, Rng};
    use std::collections::BTreeMap;

    #[test]
    fn it_finds_what_is_in_and_nothing_else_and_gives_its_room_back() {
        let (mut rng, mut map) = (Rng::new(1), LaneMap::default());
        let mut model: BTreeMap<LaneKey, usize> = BTreeMap::new();
        let key = |rng: &mut Rng| LaneKey::new(rng.below(4) as u16 * 256, NodeId(0), 0, rng.below(2000));
        for round in 1..60_000 {
            let key = key(&mut rng);
            if model.remove(&key).is_some() {
                map.remove(key);
            } else {
                map.get_or_begin(key).under_way = round;
                model.insert(key, round);
            }
            let asked = LaneKey::new(0, NodeId(0), 0, rng.below(2000));
            assert_eq!(map.get(asked).map(|lane| lane.under_way), model.get(&asked).copied());
            assert_eq!(map.len(), model.len());
        }
        assert!(map.each().all(|(key, lane)| model.get(key) == Some(&lane.under_way)));
        model.keys().for_each(|key| map.remove(*key));
        assert_eq!((map.len(), map.words.len()), (0, 0));
    }
}
