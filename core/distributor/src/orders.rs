//! What the leader should propose next. A function of the state: a new leader goes on where the last one stopped.
//!
//! ```text
//!  every bucket ──▶ what it should be (target) ──▶ the next step towards it
//!  1. finish what is under way   2. recovery   3. splits   4. leveling: copies, then primaries
//!  5. primaries go where requests come in
//! ```
//!
//! A bucket that is under way has no plan written down anywhere: its target follows from who holds it, who is being
//! given it, and from the loads of the nodes. A transfer is begun only if the target, worked out again with the
//! newcomer catching up, keeps the newcomer; so what one order begins the next one does not take back.
//!
//! Not here: where a missing copy goes (`recovery`), which copies and primaries move to level out (`level`), which
//! primaries go where requests come in (`follow`).

use crate::bucket::Bucket;
use crate::load::Sites;
use crate::moves::{may_move_on, may_split, may_unite};
use crate::node::shunned;
use crate::state::Distributor;
use atoll_types::{Bug, NodeId, Order, Step, Time, planted};

/// Recovery moves so many times as many buckets at a time as leveling does.
const RECOVERY_WIDTH: usize = 4;

/// How much is moved at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Buckets that are moved at a time to level out. Recovery may use four times as many.
    pub width: usize,
    /// Steps in one order.
    pub steps_most: usize,
    /// No copy is begun to level out: the last one was made just now.
    pub rests: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { width: 1, steps_most: 256, rests: false }
    }
}

/// All that planning looks at, gathered in one pass over the buckets.
#[derive(Debug)]
pub(crate) struct Survey<'a> {
    pub(crate) distributor: &'a Distributor,
    pub(crate) now: Time,
    /// With the loads as they will be when everything under way is done.
    pub(crate) sites: Sites,
    /// How many members a bucket can have with the nodes that are there.
    pub(crate) size: usize,
    /// Buckets that are as they should be, but for leveling.
    pub(crate) idle: Vec<&'a Bucket>,
    /// The others that are served, with the nodes that should be members when all is done.
    pub(crate) busy: Vec<(&'a Bucket, Vec<NodeId>)>,
}

impl Distributor {
    /// These steps, as an order that fits now.
    pub fn order(&self, steps: Vec<Step>) -> Order {
        Order { number: self.number + 1, removal: self.removal, steps }
    }

    /// What should be done next, if anything. `now` is the leader's clock.
    pub fn next_order(&self, now: Time, settings: &Settings) -> Option<Order> {
        let mut steps = self.next_steps(now, settings);
        steps.truncate(settings.steps_most.max(1));
        (!steps.is_empty()).then(|| self.order(steps))
    }

    fn next_steps(&self, now: Time, settings: &Settings) -> Vec<Step> {
        if self.buckets.is_empty() {
            return Vec::new();
        }
        let width = settings.width.max(1);
        let mut survey = Survey::of(self, now);
        let mut steps: Vec<Step> =
            survey.busy.iter().filter_map(|(bucket, target)| survey.onward(bucket, target)).collect();
        steps.extend(survey.relieve_leaders());
        let transfers = survey.busy.iter().filter(|(bucket, _)| !bucket.catching_up().is_empty()).count();
        let recovery = survey.recover((RECOVERY_WIDTH * width).saturating_sub(transfers));
        steps.extend(recovery);
        steps.extend(survey.splits(RECOVERY_WIDTH * width));
        if !steps.is_empty() {
            return steps;
        }
        let free = width.saturating_sub(survey.under_way());
        steps.extend(survey.drain(free));
        let free = free.saturating_sub(steps.len());
        if settings.rests {
            return steps;
        }
        steps.extend(survey.level_copies(free));
        if steps.is_empty() && free > 0 {
            steps.extend(survey.level_primaries());
        }
        if steps.is_empty() && free > 0 {
            steps.extend(survey.follow());
        }
        steps
    }

    /// When `next_order` may have something new although nothing was decided: a wait or a complaint runs out.
    pub fn next_due(&self, now: Time) -> Option<Time> {
        let waits = self.nodes.values().map(|node| node.waits_until);
        waits.chain(self.shuns.iter().map(|shun| shun.until)).filter(|&time| time > now).min()
    }

    /// A copy is being made of a bucket that has all it should have.
    pub fn is_levelling(&self) -> bool {
        let wanted = self.wanted();
        let is_given_more = |bucket: &Bucket| !bucket.catching_up().is_empty() && bucket.members().len() >= wanted;
        self.buckets.values().any(is_given_more)
    }

    /// Nothing is to be done: every bucket has its copies, everything is settled and level.
    pub fn is_quiet(&self) -> bool {
        let wanted = self.wanted();
        let at_rest = |bucket: &Bucket| {
            bucket.settled
                && bucket.members().len() == wanted
                && bucket.catching_up().is_empty()
                && !bucket.splitting
                && !bucket.split_wanted
        };
        !self.buckets.is_empty()
            && self.buckets.values().all(at_rest)
            && self.next_order(Time::NEVER, &Settings::default()).is_none()
    }
}

impl<'a> Survey<'a> {
    pub(crate) fn of(distributor: &'a Distributor, now: Time) -> Survey<'a> {
        let sites = Sites::of(distributor, now);
        let holders = sites.list.iter().filter(|site| site.may_hold).count();
        let size = distributor.copies().min(holders.max(distributor.min_copies()));
        let mut survey = Survey { distributor, now, sites, size, idle: Vec::new(), busy: Vec::new() };
        let mut places: Vec<usize> = Vec::with_capacity(distributor.copies());
        for bucket in distributor.buckets.values().filter(|bucket| !bucket.primary().is_nobody()) {
            if let Some(leader) = survey.sites.find(bucket.steady_leader()) {
                survey.sites.list[leader].primaries += 1;
            }
            places.clear();
            places.extend(bucket.members().iter().filter_map(|&node| survey.sites.find(node)));
            let stays = places.iter().all(|&place| survey.sites.list[place].may_hold);
            if stays && bucket.members().len() == size && bucket.catching_up().is_empty() {
                survey.idle.push(bucket);
                places.iter().for_each(|&place| survey.sites.list[place].copies += 1);
            } else {
                survey.busy.push((bucket, Vec::new()));
            }
        }
        survey.aim();
        survey
    }

    /// Gives every busy bucket its target. First those that have no choice; then the others, each again once all the
    /// others have theirs: a target that came of half the loads would drop what a transfer was begun for.
    fn aim(&mut self) {
        let (clear, open): (Vec<usize>, Vec<usize>) = (0..self.busy.len()).partition(|&index| {
            let bucket = self.busy[index].0;
            bucket.members().len() + bucket.catching_up().len() <= self.size
        });
        let again = if open.len() > 1 { open.clone() } else { Vec::new() };
        for index in clear.into_iter().chain(open).chain(again) {
            let before = std::mem::take(&mut self.busy[index].1);
            for place in self.sites.places(&before) {
                self.sites.list[place].copies -= 1;
            }
            let target = self.target(self.busy[index].0);
            for place in self.sites.places(&target) {
                self.sites.list[place].copies += 1;
            }
            self.busy[index].1 = target;
        }
    }

    /// Of those who hold or are being given the bucket, the ones to keep: as many as it should have, first those in
    /// zones of their own, then those that carry least; of equals the members, because they need no transfer.
    fn target(&self, bucket: &Bucket) -> Vec<NodeId> {
        let named: Vec<NodeId> = bucket.members().iter().chain(bucket.catching_up()).copied().collect();
        let mut places = self.sites.places(&named);
        let site = |place: usize| &self.sites.list[place];
        places.retain(|&place| site(place).may_hold);
        while places.len() > self.size {
            let worst = places.iter().copied().enumerate().max_by_key(|&(_, place)| {
                let crowded = places.iter().any(|&other| other != place && site(other).zone == site(place).zone);
                let joins = bucket.catching_up().contains(&site(place).node);
                (crowded, site(place).copy_cost(), joins, place)
            });
            let Some((index, _)) = worst else { break };
            places.remove(index);
        }
        let mut target: Vec<NodeId> = places.iter().map(|&place| site(place).node).collect();
        // A drain does not take a bucket below what it needs to commit.
        let leaving = bucket.members().iter().filter(|&node| !target.contains(node)).copied();
        let missing = self.distributor.min_copies().saturating_sub(target.len());
        let kept: Vec<NodeId> = leaving.take(missing).collect();
        target.extend(kept);
        target.sort();
        target
    }

    /// The next step of a bucket towards its target, by those already named. None while it waits for a report.
    fn onward(&self, bucket: &Bucket, target: &[NodeId]) -> Option<Step> {
        let (id, epoch) = (bucket.id(), bucket.epoch());
        if bucket.splitting {
            return None;
        }
        let unwanted: Vec<NodeId> =
            bucket.catching_up().iter().copied().filter(|node| !target.contains(node)).collect();
        if !unwanted.is_empty() {
            return Some(Step::Abandon { bucket: id, epoch, drop: unwanted });
        }
        if !bucket.ready.is_empty() && may_unite(bucket, self.distributor.min_copies()) {
            return Some(Step::Unite { bucket: id, epoch });
        }
        let extra: Vec<NodeId> = bucket.members().iter().copied().filter(|node| !target.contains(node)).collect();
        let complete = bucket.catching_up().is_empty() && target.len() >= self.size;
        if extra.is_empty() || !complete || !may_move_on(bucket) || target.len() < self.distributor.min_copies() {
            return None;
        }
        if !extra.contains(&bucket.primary()) {
            return Some(Step::Contract { bucket: id, epoch, drop: extra });
        }
        self.heir(bucket, target).map(|to| Step::Abdicate { bucket: id, epoch, to })
    }

    /// Who of these should lead next: eligible; if possible one that reaches the others, and may lead; leading least.
    fn heir(&self, bucket: &Bucket, among: &[NodeId]) -> Option<NodeId> {
        let places = self.sites.places(among).into_iter().filter(|&place| {
            let node = self.sites.list[place].node;
            node != bucket.primary() && (bucket.is_eligible(node) || planted(Bug::AbdicateUnsettled))
        });
        let best = places.min_by_key(|&place| {
            let site = &self.sites.list[place];
            (self.is_cut_off(site.node, bucket.members()), !site.may_lead, site.lead_cost(), place)
        });
        best.map(|place| self.sites.list[place].node)
    }

    /// Does a complaint stand between this node and one of those? It would have to give the bucket back.
    pub(crate) fn is_cut_off(&self, node: NodeId, others: &[NodeId]) -> bool {
        let shuns = &self.distributor.shuns;
        !shuns.is_empty() && others.iter().any(|&other| shunned(shuns, self.now, other, node))
    }

    /// Nodes that should not lead hand over what they lead, as far as it has settled.
    fn relieve_leaders(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        let busy = self.busy.iter().map(|(bucket, _)| *bucket).filter(|bucket| bucket.catching_up().is_empty());
        let candidates: Vec<&Bucket> = self.idle.iter().copied().chain(busy).collect();
        for bucket in candidates {
            let Some(place) = self.sites.find(bucket.primary()) else { continue };
            if self.sites.list[place].may_lead || !bucket.settled || bucket.splitting {
                continue;
            }
            let willing: Vec<NodeId> = bucket
                .members()
                .iter()
                .copied()
                .filter(|&node| self.sites.find(node).is_some_and(|place| self.sites.list[place].may_lead))
                .filter(|&node| !self.is_cut_off(node, bucket.members()))
                .collect();
            let Some(to) = self.heir(bucket, &willing) else { continue };
            self.lead_moves(bucket.steady_leader(), to);
            steps.push(Step::Abdicate { bucket: bucket.id(), epoch: bucket.epoch(), to });
        }
        steps
    }

    pub(crate) fn lead_moves(&mut self, from: NodeId, to: NodeId) {
        if let Some(place) = self.sites.find(from) {
            self.sites.list[place].primaries = self.sites.list[place].primaries.saturating_sub(1);
        }
        if let Some(place) = self.sites.find(to) {
            self.sites.list[place].primaries += 1;
        }
    }

    /// Wished-for splits, so many at a time.
    fn splits(&self, most: usize) -> Vec<Step> {
        let served = self.idle.iter().copied().chain(self.busy.iter().map(|(bucket, _)| *bucket));
        let under_way = served.clone().filter(|bucket| bucket.splitting).count();
        let may_begin = |bucket: &&Bucket| bucket.split_wanted && may_split(bucket, self.distributor.min_copies());
        // Copies that are missing come first: there are none while a bucket is being split.
        let whole = |bucket: &&Bucket| bucket.members().len() == self.size;
        let begins = served.filter(may_begin).filter(whole).take(most.saturating_sub(under_way));
        begins.map(|bucket| Step::Split { bucket: bucket.id(), epoch: bucket.epoch() }).collect()
    }

    /// Buckets in motion: leveling begins nothing new beyond its width.
    fn under_way(&self) -> usize {
        let min_copies = self.distributor.min_copies();
        let moving = |bucket: &Bucket| {
            !bucket.catching_up().is_empty()
                || bucket.members().len() > self.size
                || bucket.splitting
                || (!bucket.settled && bucket.members().len() >= min_copies)
        };
        self.idle
            .iter()
            .copied()
            .chain(self.busy.iter().map(|(bucket, _)| *bucket))
            .filter(|bucket| moving(bucket))
            .count()
    }
}
