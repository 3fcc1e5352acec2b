//! The handles of a table in the order of their keys: a list of short sorted lists. It holds no keys but the beginning
//! of each list's first; whoever asks brings the way from a handle to its key.
//!
//! A look-up goes through the index instead; this is for scans, and changes only when keys come, go or move.

use crate::index::Handle;

const BLOCK_MOST: usize = 512;
/// A list that is full gets room for so many more: one that doubled would stand a third empty.
const BLOCK_STEP: usize = 32;
/// Two neighbours that have together no more than this become one.
const BLOCK_MERGED: usize = BLOCK_MOST / 2;

#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// None is empty, none has more than `BLOCK_MOST`.
    blocks: Vec<Vec<Handle>>,
    /// How the first key of each block begins: most searches need not look at a key to find their block.
    firsts: Vec<u128>,
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

/// Two keys stand to each other as these do, where these differ.
fn beginning(key: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    let length = key.len().min(16);
    bytes[..length].copy_from_slice(&key[..length]);
    u128::from_be_bytes(bytes)
}

impl Order {
    /// The block that has this key, or would have it.
    fn block<'a>(&self, key: &[u8], key_of: impl Fn(Handle) -> &'a [u8]) -> usize {
        let begins = beginning(key);
        let low = self.firsts.partition_point(|&first| first < begins);
        let alike = self.firsts[low..].partition_point(|&first| first == begins);
        let begins_before = |block: &Vec<Handle>| block.first().is_some_and(|&first| key_of(first) <= key);
        (low + self.blocks[low..low + alike].partition_point(begins_before)).saturating_sub(1)
    }

    /// The place of this key, or the one it would have.
    pub(crate) fn place<'a>(&self, key: &[u8], key_of: impl Fn(Handle) -> &'a [u8]) -> Place {
        let block = self.block(key, &key_of);
        let within = self.blocks.get(block).map_or(0, |block| block.partition_point(|&handle| key_of(handle) < key));
        Place { block, within }
    }

    /// The place of this key, which has this handle: looks at no other key, as a rule.
    pub(crate) fn place_of<'a>(&self, handle: Handle, key: &[u8], key_of: impl Fn(Handle) -> &'a [u8]) -> Place {
        let block = self.block(key, &key_of);
        let within = self.blocks.get(block).and_then(|block| block.iter().position(|&other| other == handle));
        Place { block, within: within.unwrap_or(BLOCK_MOST) }
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

    /// Adds one that has its key already.
    pub(crate) fn insert<'a>(&mut self, place: Place, handle: Handle, key_of: impl Fn(Handle) -> &'a [u8]) {
        let Place { block, within } = place;
        let is_last = block + 1 >= self.blocks.len();
        match self.blocks.get_mut(block) {
            Some(list) if list.len() < BLOCK_MOST => insert(list, within, handle),
            Some(list) if !is_last || within < list.len() => {
                let mut upper = list.split_off(BLOCK_MOST / 2);
                list.shrink_to(BLOCK_MOST / 2 + BLOCK_STEP);
                match within.checked_sub(list.len()) {
                    Some(above) => insert(&mut upper, above, handle),
                    None => insert(list, within, handle),
                }
                self.firsts.insert(block + 1, upper.first().map_or(0, |&first| beginning(key_of(first))));
                self.blocks.insert(block + 1, upper);
            }
            // Keys that come in order leave full blocks behind, not halves.
            Some(_) | None => {
                self.firsts.push(beginning(key_of(handle)));
                self.blocks.push(vec![handle]);
            }
        }
        if within == 0 {
            self.firsts[block] = beginning(key_of(handle));
        }
    }

    /// Takes out what is at this place.
    pub(crate) fn remove<'a>(&mut self, place: Place, key_of: impl Fn(Handle) -> &'a [u8]) {
        let Some(list) = self.blocks.get_mut(place.block) else { return };
        if place.within < list.len() {
            list.remove(place.within);
        }
        let Some(&first) = list.first() else {
            self.blocks.remove(place.block);
            self.firsts.remove(place.block);
            return;
        };
        if place.within == 0 {
            self.firsts[place.block] = beginning(key_of(first));
        }
        if let Some([list, next, ..]) = self.blocks.get_mut(place.block..)
            && list.len() + next.len() <= BLOCK_MERGED
        {
            list.append(next);
            list.shrink_to(BLOCK_MERGED + BLOCK_STEP);
            self.blocks.remove(place.block + 1);
            self.firsts.remove(place.block + 1);
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
        self.blocks.capacity() * (size_of::<Vec<Handle>>() + size_of::<u128>()) + (held + unused) * size_of::<Handle>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::Rng;
    use std::collections::BTreeMap;

    /// Keys of all handles there may be: some differ early, some only after what is held of them.
    fn keys(most: u64, long: bool) -> Vec<Vec<u8>> {
        let begins = if long { "one and the same beginning " } else { "" };
        let mut keys: Vec<String> = (0..most).map(|number| format!("{begins}{}", number * 7919 % most)).collect();
        keys.push(begins.to_owned());
        keys.push(format!("{begins}\0"));
        keys.into_iter().map(String::into_bytes).collect()
    }

    #[test]
    fn it_stays_sorted_while_keys_come_and_go() {
        let mut rng = Rng::new(3);
        for (most, odds, long) in [(50_000, 3, false), (3000, 2, true), (50_000, 1, true)] {
            let keys = keys(most, long);
            let key_of = |handle: Handle| &keys[handle as usize][..];
            let mut order = Order::default();
            let mut model = BTreeMap::new();
            for _ in 0..20_000 {
                let handle = rng.below(keys.len() as u64) as Handle;
                let place = order.place(key_of(handle), key_of);
                let is_in = order.from(place).next() == Some(handle);
                assert_eq!(is_in, model.contains_key(key_of(handle)));
                if is_in {
                    assert_eq!(order.place_of(handle, key_of(handle), key_of), place);
                    model.remove(key_of(handle));
                    order.remove(place, key_of);
                } else if rng.below(3) < odds {
                    model.insert(key_of(handle), handle);
                    order.insert(place, handle, key_of);
                }
            }
            assert!(order.iter().eq(model.values().copied()));
            assert!(order.blocks.iter().all(|block| !block.is_empty() && block.len() <= BLOCK_MOST));
            let firsts = order.blocks.iter().map(|block| beginning(key_of(block[0])));
            assert!(firsts.eq(order.firsts.iter().copied()));
            let begin = order.place(key_of(1000), key_of);
            assert!(order.from(begin).eq(model.range(key_of(1000)..).map(|(_, &handle)| handle)));
        }
    }

    #[test]
    fn keys_in_order_fill_their_blocks() {
        let keys: Vec<[u8; 4]> = (0..2048_u32).map(u32::to_be_bytes).collect();
        let key_of = |handle: Handle| &keys[handle as usize][..];
        let mut order = Order::default();
        for handle in 0..2048 {
            let place = order.place(key_of(handle), key_of);
            order.insert(place, handle, key_of);
        }
        assert_eq!(order.blocks.len(), 4);
    }
}
