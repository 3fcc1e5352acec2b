//! Which records and images are still needed. The log is cut at its beginning up to the first of them.

use crate::frame::{Effect, Lsn, Owner};
use atoll_types::BucketId;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
struct Need {
    /// The first record of this owner that is not covered by anything later.
    from: Lsn,
    /// The latest image, and its length.
    image: Option<(Lsn, u64)>,
    /// The copy is gone: only what another one began with is still of use.
    gone: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    needs: BTreeMap<Owner, Need>,
    /// The upper halves of splits that have nothing of their own yet: they begin with what the lower half had, of
    /// which nothing may be forgotten so long.
    founded_on: BTreeMap<BucketId, BucketId>,
    /// Images that are of no use once the log is safe up to here.
    obsolete: Vec<(Lsn, BucketId, Lsn)>,
}

impl Ledger {
    pub(crate) fn note(&mut self, lsn: Lsn, owner: Owner, effect: Effect) {
        match effect {
            Effect::Adds => {
                self.needs.entry(owner).or_insert(Need { from: lsn, image: None, gone: false }).gone = false;
            }
            // While another begins with what this one had, that is needed still, and with it what this one began with.
            Effect::Whole => {
                if self.is_founded_on(owner) {
                    self.needs.entry(owner).and_modify(|need| need.gone = false);
                } else {
                    self.stands_alone(lsn, owner);
                    self.forget(lsn, owner);
                    self.needs.insert(owner, Need { from: lsn, image: None, gone: false });
                }
            }
            Effect::Image => {} // It counts once it is safe.
            Effect::Gone => {
                if self.is_founded_on(owner) {
                    self.needs.entry(owner).and_modify(|need| need.gone = true);
                } else {
                    self.stands_alone(lsn, owner);
                    self.forget(lsn, owner);
                }
            }
            Effect::Divides(upper) => {
                let from = self.needs.get(&owner).map_or(lsn, |need| need.from);
                self.forget(lsn, Owner::Bucket(upper));
                self.needs.insert(Owner::Bucket(upper), Need { from, image: None, gone: false });
                if let Owner::Bucket(lower) = owner {
                    self.founded_on.insert(upper, lower);
                }
            }
            Effect::Blank => {
                self.founded_on.clear();
                let all: Vec<Owner> = self.needs.keys().copied().collect();
                all.into_iter().for_each(|owner| self.forget(lsn, owner));
                self.needs.insert(owner, Need { from: lsn, image: None, gone: false });
            }
        }
    }

    fn is_founded_on(&self, owner: Owner) -> bool {
        self.founded_on.values().any(|&lower| Owner::Bucket(lower) == owner)
    }

    /// Nothing of it is needed any more, once the log is safe up to `lsn`.
    fn forget(&mut self, lsn: Lsn, owner: Owner) {
        if let (Some(Need { image: Some((image, _)), .. }), Owner::Bucket(bucket)) = (self.needs.remove(&owner), owner)
        {
            self.obsolete.push((lsn, bucket, image));
        }
    }

    /// It no longer begins with what another one had.
    fn stands_alone(&mut self, lsn: Lsn, owner: Owner) {
        let Owner::Bucket(bucket) = owner else { return };
        let Some(lower) = self.founded_on.remove(&bucket) else { return };
        let lower = Owner::Bucket(lower);
        if !self.is_founded_on(lower) && self.needs.get(&lower).is_some_and(|need| need.gone) {
            self.forget(lsn, lower);
            self.stands_alone(lsn, lower);
        }
    }

    /// May an image of this bucket stand for its records? Not while another one begins with them.
    pub(crate) fn takes_image(&self, bucket: BucketId) -> bool {
        let owner = Owner::Bucket(bucket);
        self.needs.get(&owner).is_some_and(|need| !need.gone) && !self.is_founded_on(owner)
    }

    /// The image is safe, and so is the log up to it.
    pub(crate) fn on_image(&mut self, bucket: BucketId, lsn: Lsn, length: u64) {
        let owner = Owner::Bucket(bucket);
        // Meanwhile it may have begun anew, or be gone, or be halved.
        let fits = self.needs.get(&owner).is_some_and(|need| need.from <= lsn) && self.takes_image(bucket);
        let Some(need) = self.needs.get_mut(&owner).filter(|_| fits) else {
            return self.obsolete.push((lsn, bucket, lsn));
        };
        need.from = lsn.next();
        if let Some((before, _)) = need.image.replace((lsn, length)) {
            self.obsolete.push((lsn, bucket, before));
        }
        self.stands_alone(lsn, owner);
    }

    /// Everything before this is covered.
    pub(crate) fn floor(&self) -> Option<Lsn> {
        self.needs.values().map(|need| need.from).min()
    }

    /// Everything of this owner before this is covered.
    pub(crate) fn floor_of(&self, owner: Owner) -> Option<Lsn> {
        self.needs.get(&owner).map(|need| need.from)
    }

    /// Whose records keep the log from being cut before this, the oldest first; none of those `under_way`.
    pub(crate) fn oldest(&self, cut: Lsn, under_way: &BTreeSet<Owner>) -> Option<Owner> {
        let before = self.needs.iter().filter(|(_, need)| need.from < cut).map(|(&owner, need)| (need.from, owner));
        let mut before: Vec<(Lsn, Owner)> = before.collect();
        before.sort();
        before.into_iter().map(|(_, owner)| self.first_of(owner)).find(|owner| !under_way.contains(owner))
    }

    /// An upper half goes before the bucket that it came from.
    fn first_of(&self, owner: Owner) -> Owner {
        let Owner::Bucket(bucket) = owner else { return owner };
        let mut upper = bucket;
        while let Some((&above, _)) = self.founded_on.iter().find(|&(_, &lower)| lower == upper) {
            upper = above;
        }
        Owner::Bucket(upper)
    }

    /// Images that nobody needs, the log being safe up to `synced`.
    pub(crate) fn take_obsolete(&mut self, synced: Lsn) -> Vec<(BucketId, Lsn)> {
        let (done, rest) = self.obsolete.drain(..).partition(|&(by, _, _)| by <= synced);
        self.obsolete = rest;
        let done: Vec<(Lsn, BucketId, Lsn)> = done;
        done.into_iter().map(|(_, bucket, lsn)| (bucket, lsn)).collect()
    }

    /// About how much there is, without its history.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.needs.values().filter_map(|need| need.image).map(|(_, length)| length).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOWER: BucketId = BucketId(0);
    const UPPER: BucketId = BucketId(8192);

    fn oldest(ledger: &Ledger) -> Option<Owner> {
        ledger.oldest(Lsn(u64::MAX), &BTreeSet::new())
    }

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.note(Lsn(1), Owner::Cluster, Effect::Whole);
        ledger.note(Lsn(2), Owner::Bucket(LOWER), Effect::Whole);
        ledger.note(Lsn(3), Owner::Bucket(LOWER), Effect::Adds);
        ledger
    }

    #[test]
    fn an_image_stands_for_all_before_it() {
        let mut ledger = ledger();
        ledger.note(Lsn(5), Owner::Cluster, Effect::Whole);
        assert_eq!((ledger.floor(), oldest(&ledger)), (Some(Lsn(2)), Some(Owner::Bucket(LOWER))));
        ledger.on_image(LOWER, Lsn(4), 100);
        assert_eq!((ledger.floor(), oldest(&ledger), ledger.live_bytes()), (Some(Lsn(5)), Some(Owner::Cluster), 100));
        ledger.on_image(LOWER, Lsn(6), 100);
        assert_eq!(ledger.take_obsolete(Lsn(6)), [(LOWER, Lsn(4))]);
    }

    #[test]
    fn nothing_of_a_bucket_is_forgotten_while_another_begins_with_it() {
        let mut ledger = ledger();
        ledger.note(Lsn(4), Owner::Bucket(LOWER), Effect::Divides(UPPER));
        assert!(!ledger.takes_image(LOWER) && ledger.takes_image(UPPER));
        ledger.note(Lsn(5), Owner::Bucket(LOWER), Effect::Gone);
        ledger.note(Lsn(6), Owner::Cluster, Effect::Whole);
        assert_eq!((ledger.floor(), oldest(&ledger)), (Some(Lsn(2)), Some(Owner::Bucket(UPPER))));
        ledger.on_image(UPPER, Lsn(7), 1);
        assert_eq!(ledger.floor(), Some(Lsn(6)));
    }

    /// The middle one is gone, and what it began with is still the beginning of the last one.
    #[test]
    fn nothing_is_forgotten_of_what_the_beginning_of_another_began_with() {
        const LAST: BucketId = BucketId(12_288);
        for middle_is in [Effect::Gone, Effect::Whole] {
            let mut ledger = ledger();
            ledger.on_image(LOWER, Lsn(3), 100);
            ledger.note(Lsn(5), Owner::Bucket(LOWER), Effect::Divides(UPPER));
            ledger.note(Lsn(6), Owner::Bucket(UPPER), Effect::Divides(LAST));
            ledger.note(Lsn(7), Owner::Bucket(UPPER), middle_is);
            ledger.note(Lsn(8), Owner::Cluster, Effect::Whole);
            assert!(!ledger.takes_image(LOWER), "{middle_is:?}: it would stand for less than is needed");
            ledger.note(Lsn(9), Owner::Bucket(LOWER), Effect::Gone);
            assert_eq!(ledger.take_obsolete(Lsn(9)), [], "{middle_is:?}: its image is what the last one begins with");
            assert_eq!(oldest(&ledger), Some(Owner::Bucket(LAST)));
            ledger.on_image(LAST, Lsn(10), 1);
            if middle_is == Effect::Whole {
                assert_eq!(oldest(&ledger), Some(Owner::Bucket(UPPER)));
                ledger.on_image(UPPER, Lsn(11), 1);
            }
            assert_eq!(ledger.take_obsolete(Lsn(11)), [(LOWER, Lsn(3))], "{middle_is:?}: nobody needs it any more");
            assert_eq!(ledger.floor(), Some(Lsn(8)));
        }
    }

    #[test]
    fn several_are_asked_for_and_none_that_is_not_in_the_way() {
        let mut ledger = ledger();
        ledger.note(Lsn(5), Owner::Bucket(UPPER), Effect::Whole);
        let mut under_way = BTreeSet::new();
        for expected in [Some(Owner::Cluster), Some(Owner::Bucket(LOWER)), None] {
            let owner = ledger.oldest(Lsn(5), &under_way);
            assert_eq!(owner, expected);
            under_way.extend(owner);
        }
    }

    #[test]
    fn an_image_that_comes_too_late_is_thrown_away() {
        let mut ledger = ledger();
        ledger.note(Lsn(9), Owner::Bucket(LOWER), Effect::Gone);
        ledger.on_image(LOWER, Lsn(4), 100);
        assert_eq!(ledger.take_obsolete(Lsn(9)), [(LOWER, Lsn(4))]);
        assert_eq!(ledger.floor(), Some(Lsn(1)));
    }
}
