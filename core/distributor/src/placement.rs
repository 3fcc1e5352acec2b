//! First placement, and the placing anew of a bucket that an operator revives empty.
//!
//! Bucket i belongs to the i-th node in the order of arrival, round and round, with its left and right neighbours as
//! backups. Where weights, zones or a round that does not come out even spoil that picture, the cheapest node is taken.

use crate::bucket::Bucket;
use crate::load::{Site, Sites};
use crate::state::{Decided, Distributor};
use atoll_types::{HashSlot, Offset, SlotRange, Time};
use std::collections::BTreeSet;
use std::time::Duration;

impl Distributor {
    /// The key space in equal parts over the nodes that are there. Only once: buckets are never thrown away.
    pub(crate) fn place(&mut self, at: Decided, buckets: u16, copies: u8, min_copies: u8, lease: Duration) {
        let mut sites = self.open_sites();
        let fits = buckets.is_power_of_two() && buckets <= HashSlot::COUNT;
        if !self.buckets.is_empty() || !fits || sites.is_empty() || sites.len() < usize::from(min_copies) {
            return;
        }
        self.min_copies = min_copies.max(1);
        self.copies = copies.max(self.min_copies);
        self.initial_width = HashSlot::COUNT / buckets;
        self.lease = lease;
        let even = sites.iter().all(|site| site.weight == sites[0].weight && site.zone == sites[0].zone);
        let even_rounds = if even { usize::from(buckets) / sites.len() * sites.len() } else { 0 };
        for index in 0..buckets {
            let first = index * self.initial_width;
            let range = SlotRange { first: HashSlot(first), last: HashSlot(first + self.initial_width - 1) };
            let turn = usize::from(index);
            let members = if turn < even_rounds {
                neighbours(sites.len(), turn % sites.len(), self.copies())
            } else {
                cheapest(&sites, self.copies())
            };
            self.put(at, range, &mut sites, &members, Offset::ZERO);
        }
    }

    /// A bucket begins again with nothing, above every offset it ever had.
    pub(crate) fn place_anew(&mut self, at: Decided, range: SlotRange) {
        let mut sites = self.open_sites();
        for bucket in self.buckets.values() {
            for site in &mut sites {
                site.primaries += u64::from(bucket.primary() == site.node);
                site.copies += u64::from(bucket.appointment.is_member(site.node));
            }
        }
        let members = cheapest(&sites, self.copies());
        // No log takes 2^32 entries between two slots of the cluster log.
        let base = Offset(at.slot.0.saturating_mul(1 << 32).min(Offset::MOST.0 / 2));
        self.put(at, range, &mut sites, &members, base);
    }

    fn put(&mut self, at: Decided, range: SlotRange, sites: &mut [Site], members: &[usize], base: Offset) {
        let fit = members.iter().find(|&&member| sites[member].may_lead);
        let Some(&first) = fit.or(members.first()) else { return };
        sites[first].primaries += 1;
        for &member in members {
            sites[member].copies += 1;
        }
        let nodes = members.iter().map(|&member| sites[member].node).collect();
        let revived = self.buckets.get(&range.bucket()).map_or(0, |bucket| bucket.revived);
        let bucket = Bucket::begin(range, at, revived, sites[first].node, nodes, base);
        self.buckets.insert(range.bucket(), bucket);
        self.touch(at, range.bucket());
    }

    /// Those that may be given something, in the order of arrival. A wait is for moves; here there is nothing to copy.
    fn open_sites(&self) -> Vec<Site> {
        Sites::of(self, Time::NEVER).list.into_iter().filter(|site| site.may_hold).collect()
    }
}

/// The site whose turn it is, then its neighbours right and left by turns.
fn neighbours(sites: usize, turn: usize, copies: usize) -> Vec<usize> {
    let mut members = vec![turn];
    for distance in 1..sites {
        let both = [(turn + distance) % sites, (turn + sites - distance) % sites];
        for site in both {
            if members.len() < copies && !members.contains(&site) {
                members.push(site);
            }
        }
    }
    members
}

/// The primary where it is cheapest, then backups in zones not yet used, cheapest first, nearest first.
fn cheapest(sites: &[Site], copies: usize) -> Vec<usize> {
    let lead = |&index: &usize| {
        let site = &sites[index];
        (site.lead_cost(), site.copy_cost(), index)
    };
    let Some(first) = (0..sites.len()).min_by_key(lead) else { return Vec::new() };
    let mut members = vec![first];
    let mut zones = BTreeSet::from([sites[first].zone]);
    while members.len() < copies.min(sites.len()) {
        let free = (0..sites.len()).filter(|index| !members.contains(index));
        let follow = |&index: &usize| {
            let site = &sites[index];
            let away = index.abs_diff(first);
            (zones.contains(&site.zone), site.copy_cost(), away.min(sites.len() - away), index)
        };
        let Some(next) = free.min_by_key(follow) else { break };
        zones.insert(sites[next].zone);
        members.push(next);
    }
    members
}
