//! Leveling: copies first, by replacing one member; then primaries, along paths of members.
//!
//! A copy moves where that spreads a bucket over more zones, or, with zones no worse, where the one relieved carries
//! more than the one given it would then. Primaries move from the node that leads most to the one that leads least, not
//! always in one bucket: `H → X → L` means that X takes over a bucket of H, and L one of X. With copies level to within
//! one and all buckets complete, such a path exists whenever two nodes of equal weight differ by more than one: the
//! nodes that cannot reach L lead only buckets that lie wholly among themselves, and there are too few of those.

use crate::bucket::Bucket;
use crate::orders::Survey;
use atoll_types::{BucketId, NodeId, Step};

/// A replacement, and what it gains: zones first, then load.
type Gain = (usize, u64);

impl Survey<'_> {
    /// The best replacements, so many at a time.
    pub(crate) fn level_copies(&mut self, most: usize) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut taken: Vec<BucketId> = Vec::new();
        while steps.len() < most {
            let Some((bucket, from, to)) = self.best_replacement(&taken) else { break };
            let (id, epoch, node) = (bucket.id(), bucket.epoch(), self.sites.list[to].node);
            self.sites.list[from].copies = self.sites.list[from].copies.saturating_sub(1);
            self.sites.list[to].copies += 1;
            taken.push(id);
            steps.push(Step::Expand { bucket: id, epoch, add: vec![node] });
        }
        steps
    }

    fn best_replacement(&self, taken: &[BucketId]) -> Option<(&Bucket, usize, usize)> {
        let zones = self.cheapest_by_zone();
        let floor = zones.first().and_then(|zone| zone.first()).map(|&place| self.sites.list[place].copy_cost())?;
        let one_zone = self.sites.list.iter().all(|site| site.zone == self.sites.list[0].zone);
        let ceiling = self.sites.list.iter().map(|site| site.copy_relief()).max()?;
        if one_zone && ceiling <= floor {
            return None;
        }
        let mut best: Option<(Gain, &Bucket, usize, usize)> = None;
        for bucket in self.idle.iter().copied() {
            if !bucket.settled || bucket.splitting || bucket.split_wanted || taken.contains(&bucket.id()) {
                continue;
            }
            let places = self.sites.places(bucket.members());
            let crowding = self.sites.crowding(places.iter().copied());
            for &from in &places {
                let relief = self.sites.list[from].copy_relief();
                if crowding == 0 && relief <= floor {
                    continue;
                }
                for zone in &zones {
                    let Some(to) = self.cheapest_for(bucket, zone) else { continue };
                    let price = self.sites.list[to].copy_cost();
                    // Zones come by their cheapest node, which may be a member already: a later one may still do.
                    if crowding == 0 && relief <= price {
                        continue;
                    }
                    let after = places.iter().map(|&place| if place == from { to } else { place });
                    let Some(spread) = crowding.checked_sub(self.sites.crowding(after)) else { continue };
                    let gain = (spread, relief.saturating_sub(price));
                    let improves = spread > 0 || relief > price;
                    if improves && best.as_ref().is_none_or(|(known, ..)| gain > *known) {
                        best = Some((gain, bucket, from, to));
                    }
                }
            }
        }
        best.map(|(_, bucket, from, to)| (bucket, from, to))
    }

    /// Of each zone the nodes that may be given something, cheapest first, and the zones by their cheapest. A bucket
    /// excludes its members, and those that one of them does not reach.
    fn cheapest_by_zone(&self) -> Vec<Vec<usize>> {
        let count = self.sites.list.iter().map(|site| site.zone + 1).max().unwrap_or(0);
        let mut zones: Vec<Vec<usize>> = vec![Vec::new(); count];
        for (place, site) in self.sites.list.iter().enumerate().filter(|(_, site)| site.may_be_given) {
            zones[site.zone].push(place);
        }
        let price = |place: usize| (self.sites.list[place].copy_cost(), place);
        zones.iter_mut().for_each(|zone| zone.sort_by_key(|&place| price(place)));
        zones.retain(|zone| !zone.is_empty());
        zones.sort_by_key(|zone| price(zone[0]));
        zones
    }

    fn cheapest_for(&self, bucket: &Bucket, zone: &[usize]) -> Option<usize> {
        zone.iter().copied().find(|&place| {
            let node = self.sites.list[place].node;
            !bucket.appointment.is_member(node) && !self.is_cut_off(node, bucket.members())
        })
    }

    /// One path from a node that leads too much to one that leads too little.
    pub(crate) fn level_primaries(&self) -> Vec<Step> {
        let leaders = || self.sites.list.iter().filter(|site| site.may_lead);
        let Some(ceiling) = leaders().map(|site| site.lead_relief()).max() else { return Vec::new() };
        let mut low: Vec<usize> = (0..self.sites.list.len()).filter(|&place| self.sites.list[place].may_lead).collect();
        low.retain(|&place| self.sites.list[place].lead_cost() < ceiling);
        low.sort_by_key(|&place| (self.sites.list[place].lead_cost(), place));
        if low.is_empty() {
            return Vec::new();
        }
        let offers = self.offers();
        low.into_iter().find_map(|place| self.path_to(place, &offers)).unwrap_or_default()
    }

    /// For each node: the buckets it could take over, and from whom.
    fn offers(&self) -> Vec<Vec<(usize, &Bucket)>> {
        let mut offers: Vec<Vec<(usize, &Bucket)>> = vec![Vec::new(); self.sites.list.len()];
        let movable = |bucket: &&Bucket| bucket.settled && !bucket.splitting && !bucket.split_wanted;
        for bucket in self.idle.iter().copied().filter(movable) {
            let Some(from) = self.sites.find(bucket.steady_leader()) else { continue };
            for to in self.sites.places(bucket.members()) {
                let site = &self.sites.list[to];
                let cut_off = || self.is_cut_off(site.node, bucket.members());
                // One that leads it already cannot be given it, although another counts as its leader.
                if to != from
                    && site.node != bucket.primary()
                    && site.may_lead
                    && bucket.is_eligible(site.node)
                    && !cut_off()
                {
                    offers[to].push((from, bucket));
                }
            }
        }
        offers
    }

    /// Searches backwards from the node that leads too little; the shortest path from the one that leads most.
    fn path_to(&self, low: usize, offers: &[Vec<(usize, &Bucket)>]) -> Option<Vec<Step>> {
        let mut onward: Vec<Option<(usize, &Bucket)>> = vec![None; self.sites.list.len()];
        let mut queue = vec![low];
        let mut next = 0;
        while let Some(&to) = queue.get(next) {
            next += 1;
            for &(from, bucket) in &offers[to] {
                if from != low && onward[from].is_none() {
                    onward[from] = Some((to, bucket));
                    queue.push(from);
                }
            }
        }
        let price = self.sites.list[low].lead_cost();
        let relief = |place: usize| self.sites.list[place].lead_relief();
        let laden = queue.iter().copied().skip(1).filter(|&place| relief(place) > price);
        // The first of equals is the nearest.
        let mut at = laden.reduce(|best, place| if relief(place) > relief(best) { place } else { best })?;
        let mut steps = Vec::new();
        while let Some((to, bucket)) = onward[at] {
            let to_node: NodeId = self.sites.list[to].node;
            steps.push(Step::Abdicate { bucket: bucket.id(), epoch: bucket.epoch(), to: to_node });
            at = to;
        }
        Some(steps)
    }
}
