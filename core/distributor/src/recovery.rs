//! Missing copies: which bucket first, and who takes the place. Also the places of nodes that are drained.

use crate::bucket::Bucket;
use crate::node::shunned;
use crate::orders::Survey;
use atoll_types::{NodeId, Step};

impl Survey<'_> {
    /// Buckets with the fewest copies first, so many at a time.
    pub(crate) fn recover(&mut self, most: usize) -> Vec<Step> {
        let is_short = |bucket: &Bucket, target: &[NodeId]| {
            bucket.members().len() < self.size && target.len() < self.size && !bucket.splitting
        };
        let mut short: Vec<usize> =
            (0..self.busy.len()).filter(|&index| is_short(self.busy[index].0, &self.busy[index].1)).collect();
        short.sort_by_key(|&index| (self.busy[index].0.members().len(), index));
        self.fill(&short, most)
    }

    /// The same for buckets that have their copies, some of them on nodes that are going.
    pub(crate) fn drain(&mut self, most: usize) -> Vec<Step> {
        let is_leaving = |bucket: &Bucket, target: &[NodeId]| {
            bucket.settled
                && bucket.catching_up().is_empty()
                && bucket.members().len() >= self.size
                && target.len() < self.size
                && !bucket.splitting
        };
        let leaving = (0..self.busy.len()).filter(|&index| is_leaving(self.busy[index].0, &self.busy[index].1));
        // A union that still lacks somebody is under way already: it must not wait for itself.
        let (unions, others): (Vec<usize>, Vec<usize>) =
            leaving.partition(|&index| self.busy[index].0.members().len() > self.size);
        let mut steps = self.fill(&unions, unions.len());
        steps.extend(self.fill(&others, most));
        steps
    }

    fn fill(&mut self, indices: &[usize], most: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        for &index in indices {
            if steps.len() >= most {
                break;
            }
            let (bucket, mut target) = self.busy[index].clone();
            let mut add = Vec::new();
            while target.len() < self.size {
                let Some(place) = self.place_for(bucket, &target, bucket.primary()) else { break };
                self.sites.list[place].copies += 1;
                target.push(self.sites.list[place].node);
                add.push(self.sites.list[place].node);
            }
            if !add.is_empty() {
                add.sort();
                steps.push(Step::Expand { bucket: bucket.id(), epoch: bucket.epoch(), add });
            } else if target.len() < self.size {
                steps.extend(self.step_round(bucket, &target));
            }
            target.sort();
            self.busy[index].1 = target;
        }
        steps
    }

    /// The best node for one more copy: reached by all, in a zone of its own, carrying least, with an old copy.
    fn place_for(&self, bucket: &Bucket, target: &[NodeId], primary: NodeId) -> Option<usize> {
        let zones: Vec<usize> = self.sites.places(target).iter().map(|&place| self.sites.list[place].zone).collect();
        let shuns = &self.distributor.shuns;
        let free = self.sites.list.iter().enumerate().filter(|(_, site)| {
            let named = target.contains(&site.node) || bucket.appointment.names(site.node);
            site.may_be_given && !named && !shunned(shuns, self.now, primary, site.node)
        });
        let best = free.min_by_key(|(place, site)| {
            let cut_off = self.is_cut_off(site.node, target);
            (cut_off, zones.contains(&site.zone), site.copy_cost(), !bucket.former.contains(&site.node), *place)
        });
        best.map(|(place, _)| place)
    }

    /// The primary reaches nobody who could take the place: let one lead who does.
    fn step_round(&self, bucket: &Bucket, target: &[NodeId]) -> Option<Step> {
        if self.distributor.shuns.is_empty() {
            return None;
        }
        let few = bucket.members().len() < self.distributor.min_copies();
        let may_lead = |node: &NodeId| {
            let present = self.sites.find(*node).is_some_and(|place| self.sites.list[place].may_lead);
            let reached = !shunned(&self.distributor.shuns, self.now, *node, *node);
            present && reached && *node != bucket.primary() && (few || bucket.appointment.is_member(*node))
        };
        if !few && !bucket.settled {
            return None;
        }
        // Of too small a set, the old primary is left behind and can be given a copy again.
        let without: Vec<NodeId> = target.iter().copied().filter(|&node| !few || node != bucket.primary()).collect();
        let helps = |node: &NodeId| {
            let kept: Vec<NodeId> = without.iter().copied().chain([*node]).collect();
            self.place_for(bucket, &kept, *node).is_some()
        };
        let to = bucket.eligible.iter().copied().filter(may_lead).find(helps)?;
        Some(Step::Abdicate { bucket: bucket.id(), epoch: bucket.epoch(), to })
    }
}
