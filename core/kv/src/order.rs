//! The handles of a table in the order of their keys: a list of short sorted lists. It knows no keys; whoever asks
//! brings the comparison.
//!
//! A look-up goes through the index instead; this is for scans, and changes only when keys come and go.

use crate::index::Handle;
use std::cmp::Ordering;

const BLOCK_MOST: usize = 512;
/// A list that is full gets room for so many more: one that doubled would stand a third empty.
const BLOCK_STEP: usize = 32;
/// Two neighbours that have together no more than this become one.
const BLOCK_MERGED: usize = BLOCK_MOST / 2;

#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// None is empty, none has more than `BLOCK_MOST`.
    blocks: Vec<Vec<Handle>>,
}

/// Before which handle: that one of that block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    block: usize,
    within: usize,
}

fn insert(list: &mut Vec<Handle>, within: usize, handle: Handle) {
    if list.len() == list.capacity() {
        list.reserve_exact(BLOCK_STEP.min(list.len().max(4)));
    }
    list.insert(within, handle);
}

impl Order {
    /// The place of the key that is `Equal`, or the one it would have. `compare` tells how a handle's key stands to it.
    pub(crate) fn place(&self, compare: impl Fn(Handle) -> Ordering) -> Place {
        let begins_before = |block: &Vec<Handle>| block.first().is_some_and(|&first| compare(first).is_le());
        let block = self.blocks.partition_point(begins_before).saturating_sub(1);
        let within = self.blocks.get(block).map_or(0, |block| block.partition_point(|&handle| compare(handle).is_lt()));
        Place { block, within }
    }

    /// After all.
    pub(crate) fn end(&self) -> Place {
        let block = self.blocks.len().saturating_sub(1);
        Place { block, within: self.blocks.last().map_or(0, Vec::len) }
    }

    /// The key at this place has another handle from now on.
    pub(crate) fn replace(&mut self, place: Place, handle: Handle) {
        if let Some(held) = self.blocks.get_mut(place.block).and_then(|block| block.get_mut(place.within)) {
            *held = handle;
        }
    }

    pub(crate) fn insert(&mut self, place: Place, handle: Handle) {
        let Place { block, within } = place;
        let is_last = block + 1 >= self.blocks.len();
        match self.blocks.get_mut(block) {
            None => self.blocks.push(vec![handle]),
            Some(list) if list.len() < BLOCK_MOST => insert(list, within, handle),
            // Keys that come in order leave full blocks behind, not halves.
            Some(list) if is_last && within == list.len() => self.blocks.push(vec![handle]),
            Some(list) => {
                let mut upper = list.split_off(BLOCK_MOST / 2);
                list.shrink_to(BLOCK_MOST / 2 + BLOCK_STEP);
                match within.checked_sub(list.len()) {
                    Some(above) => insert(&mut upper, above, handle),
                    None => insert(list, within, handle),
                }
                self.blocks.insert(block + 1, upper);
            }
        }
    }

    pub(crate) fn remove(&mut self, place: Place) {
        let Some(list) = self.blocks.get_mut(place.block) else { return };
        if place.within < list.len() {
            list.remove(place.within);
        }
        if list.is_empty() {
            self.blocks.remove(place.block);
        } else if let Some([list, next, ..]) = self.blocks.get_mut(place.block..)
            && list.len() + next.len() <= BLOCK_MERGED
        {
            list.append(next);
            list.shrink_to(BLOCK_MERGED + BLOCK_STEP);
            self.blocks.remove(place.block + 1);
        }
    }

    /// All from there on, in order.
    pub(crate) fn from(&self, place: Place) -> impl Iterator<Item = Handle> {
        let first = self.blocks.get(place.block).and_then(|block| block.get(place.within..)).unwrap_or_default();
        let rest = self.blocks.get(place.block + 1..).unwrap_or_default();
        first.iter().chain(rest.iter().flatten()).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Handle> {
        self.blocks.iter().flatten().copied()
    }

    /// About what it takes up in memory, with so many handles in it.
    pub(crate) fn bytes(&self, held: usize) -> usize {
        let unused = self.blocks.len() * BLOCK_STEP / 2;
        self.blocks.capacity() * size_of::<Vec<Handle>>() + (held + unused) * size_of::<Handle>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn it_stays_sorted_while_keys_come_and_go() {
        let mut rng = Rng::new(3);
        for (most, odds) in [(50_000, 3), (3000, 2), (50_000, 1)] {
            let mut order = Order::default();
            let mut model = BTreeSet::new();
            for _ in 0..20_000 {
                let handle = rng.below(most) as Handle;
                let place = order.place(|other| other.cmp(&handle));
                let is_in = order.from(place).next() == Some(handle);
                assert_eq!(is_in, model.contains(&handle));
                if is_in {
                    model.remove(&handle);
                    order.remove(place);
                } else if rng.below(3) < odds {
                    model.insert(handle);
                    order.insert(place, handle);
                }
            }
            assert!(order.iter().eq(model.iter().copied()));
            assert!(order.blocks.iter().all(|block| !block.is_empty() && block.len() <= BLOCK_MOST));
            let begin = order.place(|other| other.cmp(&1000));
            assert!(order.from(begin).eq(model.range(1000..).copied()));
        }
    }

    #[test]
    fn keys_in_order_fill_their_blocks() {
        let mut order = Order::default();
        for handle in 0..2048 {
            let place = order.place(|other| other.cmp(&handle));
            order.insert(place, handle);
        }
        assert_eq!(order.blocks.len(), 4);
    }
}
