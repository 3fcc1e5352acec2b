//! The operator: looks at the cluster now and then, and when the majority of its voters is gone for good says so, on
//! the member that knows most. Then the cluster goes on in a new generation. And gives up, once all is healed, what
//! only a node held that never comes back. Buckets of which no eligible copy is left are revived, from the best copy
//! that is, or empty; drains that cannot end are called off.
//!
//! Not here: departures that an operator orders for no reason (`faults.rs`).

use crate::Violation;
use crate::clock::Moment;
use crate::plan::host_name;
use crate::world::{End, Happening, World};
use atoll_distributor::Alarm;
use atoll_node::{Input, Order};
use atoll_types::{BucketId, ClusterId, Generation, Mark, NodeId, Operation, Rng};
use std::collections::BTreeMap;
use std::time::Duration;

/// After more recoveries than this nobody is given more time to become healthy.
const ORDERS_MOST: u32 = 8;

const LOOK: Duration = Duration::from_millis(500);

/// How long an operator hopes that a lost bucket comes back by itself.
const REVIVE_AFTER: Duration = Duration::from_secs(3);

/// After more revivals than this nobody is given more time to become healthy.
const REVIVALS_MOST: u32 = 64;

#[derive(Debug)]
pub(crate) struct Operator {
    rng: Rng,
    /// Since when the majority is seen to be gone, and how long the operator waits before acting on it.
    gone_since: Option<(Moment, Duration)>,
    /// When the last order to recover was given.
    pub(crate) recovered: Option<Moment>,
    orders: u32,
    /// Since when each of these buckets is seen to be lost.
    lost_since: BTreeMap<BucketId, Moment>,
    revivals: u32,
    /// When the founder was last made to found a cluster anew.
    pub(crate) founds_again: Option<Moment>,
}

impl Operator {
    pub(crate) fn new(rng: Rng) -> Operator {
        Operator {
            rng,
            gone_since: None,
            recovered: None,
            orders: 0,
            lost_since: BTreeMap::new(),
            revivals: 0,
            founds_again: None,
        }
    }
}

impl World {
    pub(crate) fn look_after(&mut self) -> Result<(), Violation> {
        self.push(self.now.after(LOOK), Happening::Operator);
        self.recover_if_lost()?;
        self.let_found_again();
        self.revive_if_lost()?;
        self.checks.audit.callers.check(&self.hosts, self.now)?;
        if self.faults.over && self.ended.is_none() {
            self.give_up_lost_copies()?;
            self.look_at_health()?;
        }
        Ok(())
    }

    fn recover_if_lost(&mut self) -> Result<(), Violation> {
        if !self.majority_gone() {
            self.operator.gone_since = None;
            return Ok(());
        }
        let (since, grace) = *self.operator.gone_since.get_or_insert_with(|| {
            let grace = self.operator.rng.between(Duration::from_secs(2), Duration::from_secs(6));
            (self.now, grace)
        });
        if self.now < since.after(grace) {
            return Ok(());
        }
        self.operator.gone_since = None;
        let mut candidates = self.survivors();
        if candidates.is_empty() {
            // Somebody who is down, or stands still, may still have it all.
            if !self.hosts.iter().enumerate().any(|(host, _)| self.checks.has_state(&self.hosts, host)) {
                let why = "every holder of its state lost its memory".to_owned();
                self.ended = Some(End::Lost(why));
            }
            return Ok(());
        }
        candidates.sort_unstable();
        self.operator.orders += 1;
        if self.operator.orders <= ORDERS_MOST {
            self.operator.recovered = Some(self.now);
        }
        if let Some((_, _, host)) = candidates.pop() {
            self.order_recovery(host)?;
        }
        // Now and then two operators do not know of each other.
        if self.operator.rng.one_in(8)
            && let Some((_, _, host)) = candidates.pop()
        {
            self.order_recovery(host)?;
        }
        Ok(())
    }

    /// The running hosts that could go on, the best one greatest: by generation, then by how much they know.
    fn survivors(&self) -> Vec<(Generation, u64, usize)> {
        self.hosts
            .iter()
            .enumerate()
            .filter(|(_, host)| host.is_running())
            .filter_map(|(index, host)| {
                let view = host.view()?;
                view.state?.members.get(&view.identity?.node)?;
                Some((view.generation, view.decided.0, index))
            })
            .collect()
    }

    fn order_recovery(&mut self, host: usize) -> Result<(), Violation> {
        self.trace.say(self.now, format!("an operator recovers the cluster from {}", host_name(host)));
        let ticket = self.checks.once.order(host);
        self.step(host, Input::Operator { ticket, order: Order::Recover })
    }

    /// No time-out lets a node depart that may hold the last copy of a bucket. A person does, who knows that its data
    /// is gone for good.
    fn give_up_lost_copies(&mut self) -> Result<(), Violation> {
        let Some((leader, view)) = self.leader() else { return Ok(()) };
        let (Some(me), Some(state), Some(table)) = (view.identity, view.state, view.distributor) else { return Ok(()) };
        let needed = |node: NodeId| !table.may_depart_by_time(node) && !self.is_somewhere(me.cluster, node);
        let mut members = state.members.iter().filter(|(_, member)| !member.is_to_go()).map(|(&node, _)| node);
        let Some(node) = members.find(|&node| needed(node)) else { return Ok(()) };
        self.trace.say(self.now, format!("an operator gives up {node} and what it held"));
        let ticket = self.checks.once.order(leader);
        self.step(leader, Input::Operator { ticket, order: Order::Depart(node) })
    }

    /// Buckets of which nobody who could serve them is anywhere to be found.
    fn lost_buckets(&self) -> Vec<BucketId> {
        let Some((_, view)) = self.leader() else { return Vec::new() };
        let (Some(identity), Some(distributor)) = (view.identity, view.distributor) else { return Vec::new() };
        let gone = |node: &NodeId| !self.is_somewhere(identity.cluster, *node);
        let buckets = distributor.buckets().iter();
        let lost = buckets.filter(|(_, bucket)| bucket.primary().is_nobody() && bucket.eligible.iter().all(gone));
        lost.map(|(&id, _)| id).collect()
    }

    fn revive_if_lost(&mut self) -> Result<(), Violation> {
        let lost = self.lost_buckets();
        let now = self.now;
        self.operator.lost_since.retain(|bucket, _| lost.contains(bucket));
        for bucket in lost {
            let since = *self.operator.lost_since.entry(bucket).or_insert(now);
            if now < since.after(REVIVE_AFTER) {
                continue;
            }
            self.operator.lost_since.remove(&bucket);
            let Some((host, view)) = self.leader() else { continue };
            let Some(identity) = view.identity else { continue };
            let cluster = identity.cluster;
            let best = self.best_copy(cluster, bucket);
            self.operator.revivals += 1;
            if self.operator.revivals <= REVIVALS_MOST {
                self.operator.recovered = Some(now);
            }
            self.operate(host, Operation::Revive { bucket, from: best })?;
        }
        Ok(())
    }

    /// The present node with the longest copy of this bucket.
    fn best_copy(&self, cluster: ClusterId, bucket: BucketId) -> Option<NodeId> {
        let (_, view) = self.leader()?;
        let members = &view.state?.members;
        let copies = self.hosts.iter().filter(|host| host.is_running()).filter_map(|host| {
            let (of, node) = host.identity()?;
            let present = members.get(&node).is_some_and(|member| !member.is_absent());
            let shards = host.core()?.shards();
            let replica = shards.iter().find_map(|shard| shard.replicas().get(&bucket))?;
            let last: Mark = replica.log().last();
            let sound = last != Mark::default() && !replica.is_useless() && !replica.is_blank();
            (of == cluster && present && sound).then_some((last, node))
        });
        copies.max().map(|(_, node)| node)
    }

    /// A drain for which there are too few nodes waits for ever: somebody calls it off.
    pub(crate) fn call_off_drains(&mut self) -> Result<(), Violation> {
        let Some((host, view)) = self.leader() else { return Ok(()) };
        let Some(distributor) = view.distributor else { return Ok(()) };
        let stuck = distributor.alarms().into_iter().find_map(|alarm| match alarm {
            Alarm::DrainWithoutSpare { node } | Alarm::DrainBlocked { node } => Some(node),
            Alarm::Lost { .. } | Alarm::Unserved { .. } | Alarm::Stopped { .. } | Alarm::Short { .. } => None,
            Alarm::Skewed { .. } => None,
        });
        match stuck.filter(|_| self.operator.rng.one_in(4)) {
            Some(node) => self.operate(host, Operation::Undrain { node }),
            None => Ok(()),
        }
    }

    /// Of the newest government that is decided, fewer voters than it takes to decide are anywhere to be found; or so
    /// it is with the one that the survivors know, where only the lost knew that a newer one was decided.
    fn majority_gone(&self) -> bool {
        let Some((cluster, newest)) = self.checks.newest_government(&self.hosts) else {
            // Who was told of a later generation knows no log any more, and perhaps nobody is left who does.
            let has_state = |host| self.checks.has_state(&self.hosts, host);
            let belongs = self.hosts.iter().any(|host| host.identity().is_some());
            return belongs && !(0..self.hosts.len()).any(has_state);
        };
        let found = |voter: NodeId| self.is_somewhere(cluster, voter);
        if !newest.is_majority(found) {
            return true;
        }
        let all_here = self.hosts.iter().all(|host| host.is_running() || host.identity().is_none());
        let best = self.survivors().into_iter().max().filter(|_| all_here);
        let known = best.and_then(|(_, _, host)| self.hosts[host].view()?.government);
        known.is_some_and(|(_, government)| !government.is_majority(found))
    }

    pub(crate) fn is_somewhere(&self, cluster: ClusterId, node: NodeId) -> bool {
        self.hosts.iter().enumerate().any(|(index, host)| {
            host.identity() == Some((cluster, node)) && (host.is_up() || !self.must_stay_down(index))
        })
    }
}
