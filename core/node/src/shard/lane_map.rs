//! Lanes by their keys: open addressing, since every request looks for its lane.
//!
//! ```text
//!   words   │ hash, place │ free │ hash, place │ …       a key's word stands where its hash says, or after that,
//!   lanes   │ key, lane │ key, lane │ gone │ …           with no free place in between
//! ```
//!
//! A lane in which nothing is is as good as none. It stays for a while, since the next request of its connection mostly
//! needs it again; when too many are idle all of them go.
//!
//! Nothing of the order in here shows outside: only look-ups, never a walk, but for checks.

use super::lane::{Lane, LaneKey};
use std::collections::VecDeque;

const SMALLEST: usize = 64;
/// So many idle lanes may stay; more, where as many are not.
const IDLE_MOST: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct LaneMap {
    /// The upper half of a key's hash above its place plus one; zero is free. Their number is a power of two, or none.
    words: Vec<u64>,
    lanes: Vec<(LaneKey, Lane)>,
    /// Places in `lanes` that no key has.
    free: Vec<u32>,
    /// Lanes with nothing in them.
    idle: usize,
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

    fn find(&self, key: LaneKey) -> Option<usize> {
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
            if word >> 32 == hash >> 32 && self.lanes[place_of(word)].0 == key {
                return Some(place_of(word));
            }
            at = self.after(at);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lanes.len() - self.free.len()
    }

    pub(crate) fn get(&self, key: LaneKey) -> Option<&Lane> {
        self.find(key).map(|place| &self.lanes[place].1)
    }

    /// Where the lane of this key is, which stays there until it is idle; a new one, where there is none.
    pub(crate) fn place(&mut self, key: LaneKey) -> u32 {
        match self.find(key) {
            Some(place) => place as u32,
            None => self.insert(key),
        }
    }

    pub(crate) fn at(&self, place: u32) -> &Lane {
        &self.lanes[place as usize].1
    }

    /// Something comes into the lane or leaves it.
    pub(crate) fn change<T>(&mut self, place: u32, change: impl FnOnce(&mut Lane) -> T) -> T {
        let lane = &mut self.lanes[place as usize].1;
        let was_idle = lane.is_idle();
        let changed = change(lane);
        match (was_idle, lane.is_idle()) {
            (true, false) => self.idle -= 1,
            (false, true) => self.idle += 1,
            (true, true) | (false, false) => {}
        }
        changed
    }

    /// Lets idle lanes go where there are too many. What `place` said of them before is void.
    pub(crate) fn tidy(&mut self) {
        if self.idle <= IDLE_MOST || self.idle <= self.len() / 2 {
            return;
        }
        // Those that stay are where they were: whoever waits in one knows its place.
        for (key, lane) in self.lanes.iter_mut().filter(|(_, lane)| lane.is_idle()) {
            *key = LaneKey::NONE;
            lane.queue = VecDeque::new();
        }
        let end = self.lanes.iter().rposition(|(key, _)| *key != LaneKey::NONE).map_or(0, |last| last + 1);
        self.lanes.truncate(end);
        self.lanes.shrink_to(2 * IDLE_MOST);
        let is_free = |place: &u32| self.lanes[*place as usize].0 == LaneKey::NONE;
        self.free = (0..end as u32).filter(is_free).collect();
        self.idle = 0;
        // As many will come again, mostly.
        self.spread(self.words.len().min(4 * IDLE_MOST));
    }

    fn insert(&mut self, key: LaneKey) -> u32 {
        if (self.len() + 1) * 4 > self.words.len() * 3 {
            self.grow();
        }
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.lanes.push((LaneKey::NONE, Lane::new()));
                (self.lanes.len() - 1) as u32
            }
        };
        self.lanes[place as usize] = (key, Lane { place, ..Lane::new() });
        self.idle += 1;
        self.settle(word(key, place));
        place
    }

    /// Makes room for one more, and for as many as there are.
    fn grow(&mut self) {
        self.spread(SMALLEST);
    }

    /// Puts every key where it belongs, with room for twice as many, and for `least` words in any case.
    fn spread(&mut self, least: usize) {
        let length = ((self.len() + 1) * 2).next_power_of_two().max(least);
        self.words.clear();
        self.words.resize(length, 0);
        self.words.shrink_to(length);
        for place in 0..self.lanes.len() {
            let key = self.lanes[place].0;
            if key != LaneKey::NONE {
                self.settle(word(key, place as u32));
            }
        }
    }

    fn settle(&mut self, word: u64) {
        let mut at = self.home(word);
        while self.words[at] != 0 {
            at = self.after(at);
        }
        self.words[at] = word;
    }

    /// In no order: only for sums and for what holds of each.
    pub(crate) fn each(&self) -> impl Iterator<Item = &(LaneKey, Lane)> {
        self.lanes.iter().filter(|(key, _)| *key != LaneKey::NONE)
    }

    pub(crate) fn check(&self) {
        assert_eq!(self.idle, self.each().filter(|(_, lane)| lane.is_idle()).count(), "idle lanes are counted");
        assert!(self.each().all(|(key, lane)| self.find(*key) == Some(lane.place as usize)), "each is where it says");
    }
}

fn word(key: LaneKey, place: u32) -> u64 {
    (key.hash() & !0xffff_ffff) | (u64::from(place) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{NodeId, Rng};
    use std::collections::BTreeMap;

    #[test]
    fn it_finds_what_is_in_and_nothing_else_and_gives_its_room_back() {
        let (mut rng, mut map) = (Rng::new(1), LaneMap::default());
        // What is under way in each lane, and where it is.
        let mut model: BTreeMap<LaneKey, (u32, usize)> = BTreeMap::new();
        let key = |rng: &mut Rng| LaneKey::new(rng.below(4) as u16 * 256, NodeId(0), 0, rng.below(20_000));
        for round in 1..100_000 {
            // More and more, then fewer and fewer.
            let key = if round < 50_000 { key(&mut rng) } else { *model.keys().next().unwrap_or(&key(&mut rng)) };
            if let Some((place, _)) = model.remove(&key) {
                map.change(place, |lane| lane.under_way = 0);
                map.tidy();
            } else {
                let place = map.place(key);
                map.change(place, |lane| lane.under_way = round);
                model.insert(key, (place, round));
            }
            let asked = LaneKey::new(0, NodeId(0), 0, rng.below(2000));
            let found = map.get(asked).filter(|lane| !lane.is_idle()).map(|lane| (lane.place, lane.under_way));
            assert_eq!(found, model.get(&asked).copied());
            if round % 5000 == 0 {
                map.check();
                assert!(model.iter().all(|(key, (place, _))| map.place(*key) == *place), "places stay");
            }
            assert!(map.len() <= model.len() * 2 + IDLE_MOST + 1, "idle lanes do not stay for ever");
        }
    }
}
