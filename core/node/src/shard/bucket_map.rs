//! Things by bucket: found with one look, since every request and every message looks for some, and walked in order.
//!
//! ```text
//!   places   │ 2 │ - │ - │ 1 │ - │ …      by the bucket's first slot: where its thing is
//!   things   │ … │ … │ gone │ …           in no order
//!   buckets  │ 0 │ 3 │ …                  in order
//! ```

use atoll_types::{BucketId, HashSlot};

const NOWHERE: u16 = u16::MAX;

#[derive(Debug)]
pub struct BucketMap<T> {
    /// As many as there are slots, or none where there is no bucket.
    places: Vec<u16>,
    things: Vec<Option<T>>,
    /// Places in `things` where nothing is.
    free: Vec<u16>,
    buckets: Vec<BucketId>,
}

impl<T> Default for BucketMap<T> {
    fn default() -> Self {
        BucketMap { places: Vec::new(), things: Vec::new(), free: Vec::new(), buckets: Vec::new() }
    }
}

impl<T> BucketMap<T> {
    fn place(&self, bucket: BucketId) -> Option<usize> {
        let place = *self.places.get(usize::from(bucket.0))?;
        (place != NOWHERE).then_some(usize::from(place))
    }

    pub fn get(&self, bucket: &BucketId) -> Option<&T> {
        self.things[self.place(*bucket)?].as_ref()
    }

    pub(crate) fn get_mut(&mut self, bucket: &BucketId) -> Option<&mut T> {
        let place = self.place(*bucket)?;
        self.things[place].as_mut()
    }

    pub fn contains_key(&self, bucket: &BucketId) -> bool {
        self.place(*bucket).is_some()
    }

    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// One for which there is no such slot is left out.
    pub(crate) fn insert(&mut self, bucket: BucketId, thing: T) {
        if bucket.0 >= HashSlot::COUNT {
            return;
        }
        if let Some(held) = self.get_mut(&bucket) {
            *held = thing;
            return;
        }
        if self.places.is_empty() {
            self.places = vec![NOWHERE; usize::from(HashSlot::COUNT)];
        }
        let place = self.free.pop().unwrap_or(self.things.len() as u16);
        if usize::from(place) == self.things.len() {
            self.things.push(None);
        }
        self.things[usize::from(place)] = Some(thing);
        self.places[usize::from(bucket.0)] = place;
        let order = self.buckets.partition_point(|other| *other < bucket);
        self.buckets.insert(order, bucket);
    }

    pub(crate) fn remove(&mut self, bucket: &BucketId) -> Option<T> {
        let place = self.place(*bucket)?;
        self.places[usize::from(bucket.0)] = NOWHERE;
        self.free.push(place as u16);
        let order = self.buckets.partition_point(|other| other < bucket);
        self.buckets.remove(order);
        self.things[place].take()
    }

    pub(crate) fn clear(&mut self) {
        *self = BucketMap::default();
    }

    pub(crate) fn retain(&mut self, stays: impl Fn(BucketId) -> bool) {
        for bucket in self.buckets.clone() {
            if !stays(bucket) {
                self.remove(&bucket);
            }
        }
    }

    /// In order.
    pub fn keys(&self) -> impl Iterator<Item = &BucketId> {
        self.buckets.iter()
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = (&BucketId, &T)> {
        self.buckets.iter().filter_map(|bucket| Some((bucket, self.get(bucket)?)))
    }

    /// In order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, thing)| thing)
    }

    /// The last whose bucket begins at or before this slot.
    pub(crate) fn at_or_before(&self, slot: HashSlot) -> Option<(BucketId, &T)> {
        let order = self.buckets.partition_point(|bucket| bucket.0 <= slot.0).checked_sub(1)?;
        let bucket = self.buckets[order];
        Some((bucket, self.get(&bucket)?))
    }
}

impl<T> std::ops::Index<&BucketId> for BucketMap<T> {
    type Output = T;

    fn index(&self, bucket: &BucketId) -> &T {
        self.get(bucket).expect("a bucket of which there is one")
    }
}

impl<T> FromIterator<(BucketId, T)> for BucketMap<T> {
    fn from_iter<I: IntoIterator<Item = (BucketId, T)>>(things: I) -> Self {
        let mut map = BucketMap::default();
        things.into_iter().for_each(|(bucket, thing)| map.insert(bucket, thing));
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn it_is_a_sorted_map() {
        let (mut rng, mut map, mut model) = (Rng::new(3), BucketMap::default(), BTreeMap::new());
        for round in 0..20_000 {
            let bucket = BucketId(rng.below(200) as u16 * 80);
            if rng.one_in(3) {
                assert_eq!(map.remove(&bucket), model.remove(&bucket));
            } else {
                map.insert(bucket, round);
                model.insert(bucket, round);
            }
            let slot = rng.below(16_384) as u16;
            let before = model.range(..=BucketId(slot)).next_back();
            assert_eq!(map.at_or_before(HashSlot(slot)), before.map(|(bucket, thing)| (*bucket, thing)));
            assert_eq!(map.get(&BucketId(slot)), model.get(&BucketId(slot)));
        }
        assert!(map.iter().eq(&model) && map.keys().eq(model.keys()) && map.len() == model.len());
        map.retain(|bucket| bucket.0 < 8000);
        model.retain(|bucket, _| bucket.0 < 8000);
        assert!(map.iter().eq(&model));
        map.insert(BucketId(u16::MAX), 1);
        assert!(!map.contains_key(&BucketId(u16::MAX)), "there is no such slot");
    }
}
