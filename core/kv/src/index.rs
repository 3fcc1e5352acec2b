//! From a key's hash to where its record is: open addressing, one word for each key.
//!
//! A word is the upper half of the hash above the handle plus one; zero is free. A key stands at the place its hash
//! names or after it, with no free place between, so that a search may stop at the first free one.
//!
//! Nothing of the order in here shows outside: only look-ups, never a walk.

/// Where a record is in the table.
pub(crate) type Handle = u32;

const SMALLEST: usize = 8;

#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// At least one in eight is free. Where there are many, three in four are not.
    words: Vec<u64>,
    held: usize,
}

fn word(hash: u64, handle: Handle) -> u64 {
    (hash & !0xffff_ffff) | (u64::from(handle) + 1)
}

fn handle(word: u64) -> Handle {
    (word as u32).wrapping_sub(1)
}

impl Index {
    /// The place where a search for this hash, or for the key of this word, begins. Rises with the hash, so that words
    /// stand nearly in its order, and moving all of them to a longer list runs through both from front to back.
    fn home(&self, hash_or_word: u64) -> usize {
        (((hash_or_word >> 32) * self.words.len() as u64) >> 32) as usize
    }

    fn after(&self, place: usize) -> usize {
        if place + 1 == self.words.len() { 0 } else { place + 1 }
    }

    /// How far it is from one place on to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.words.len() - from }
    }

    /// The handle with this hash that `is_it`.
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(Handle) -> bool) -> Option<Handle> {
        self.place(hash, is_it).map(|place| handle(self.words[place]))
    }

    fn place(&self, hash: u64, is_it: impl Fn(Handle) -> bool) -> Option<usize> {
        if self.words.is_empty() {
            return None;
        }
        let mut place = self.home(hash);
        loop {
            let word = self.words[place];
            if word == 0 {
                return None;
            }
            if word >> 32 == hash >> 32 && is_it(handle(word)) {
                return Some(place);
            }
            place = self.after(place);
        }
    }

    /// Adds one that is not there.
    pub(crate) fn insert(&mut self, hash: u64, handle: Handle) {
        if (self.held + 1) * 8 > self.words.len() * 7 {
            // By a quarter: a list that doubled would stand more than half empty on the average day.
            self.resize((self.words.len() + self.words.len() / 4).max(SMALLEST));
        }
        self.held += 1;
        self.settle(word(hash, handle));
    }

    fn resize(&mut self, length: usize) {
        let words = std::mem::replace(&mut self.words, vec![0; length]);
        words.into_iter().filter(|&word| word != 0).for_each(|word| self.settle(word));
    }

    /// The record has another handle from now on.
    pub(crate) fn replace(&mut self, hash: u64, before: Handle, after: Handle) {
        if let Some(place) = self.place(hash, |other| other == before) {
            self.words[place] = word(hash, after);
        }
    }

    fn settle(&mut self, word: u64) {
        let mut place = self.home(word);
        while self.words[place] != 0 {
            place = self.after(place);
        }
        self.words[place] = word;
    }

    pub(crate) fn remove(&mut self, hash: u64, handle: Handle) {
        let Some(mut free) = self.place(hash, |other| other == handle) else { return };
        self.held -= 1;
        // Whoever comes after, up to the next free place, and may stand here, moves here: a search must not stop short.
        let mut place = self.after(free);
        while self.words[place] != 0 {
            let from_home = self.distance(self.home(self.words[place]), place);
            if from_home >= self.distance(free, place) {
                self.words[free] = self.words[place];
                free = place;
            }
            place = self.after(place);
        }
        self.words[free] = 0;
        if self.words.len() > SMALLEST && self.held * 3 < self.words.len() {
            self.resize((self.held * 3 / 2).max(SMALLEST));
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn it_finds_what_is_in_and_nothing_else_however_hashes_collide() {
        let mut rng = Rng::new(1);
        let mut index = Index::default();
        let mut model: BTreeMap<Handle, u64> = BTreeMap::new();
        for _ in 0..20_000 {
            let handle = rng.below(500) as Handle;
            // Few hashes, close to each other and at both ends: runs that wrap around and share their homes.
            let hash = [rng.below(40) << 32, u64::MAX - (rng.below(5) << 32)][rng.below(2) as usize];
            if let Some(hash) = model.remove(&handle) {
                index.remove(hash, handle);
            } else {
                model.insert(handle, hash);
                index.insert(hash, handle);
            }
            let (asked, hash) = model.iter().next_back().map_or((0, 0), |(&asked, &hash)| (asked, hash));
            assert_eq!(index.find(hash, |other| other == asked).is_some(), model.contains_key(&asked));
            assert_eq!(index.held, model.len());
        }
        for (&handle, &hash) in &model {
            assert_eq!(index.find(hash, |other| other == handle), Some(handle));
        }
        let gone: Vec<Handle> = (0..500).filter(|handle| !model.contains_key(handle)).collect();
        assert!(
            gone.iter().all(|&handle| (0..40).all(|hash| index.find(hash << 32, |other| other == handle).is_none()))
        );
    }
}
