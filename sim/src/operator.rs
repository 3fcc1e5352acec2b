//! The operator: looks at the cluster now and then, and when the majority of its voters is gone for good says so, on
//! the member that knows most. Then the cluster goes on in a new generation.
//!
//! Not here: departures that an operator orders for no reason (`faults.rs`).

use crate::Violation;
use crate::clock::Moment;
use crate::plan::host_name;
use crate::world::{End, Happening, World};
use atoll_node::{Input, Order};
use atoll_types::{ClusterId, Generation, NodeId, Rng};
use std::time::Duration;

/// After more recoveries than this nobody is given more time to become healthy.
const ORDERS_MOST: u32 = 8;

const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct Operator {
    rng: Rng,
    /// Since when the majority is seen to be gone, and how long the operator waits before acting on it.
    gone_since: Option<(Moment, Duration)>,
    /// When the last order to recover was given.
    pub(crate) recovered: Option<Moment>,
    orders: u32,
    /// When the founder was last made to found a cluster anew.
    pub(crate) founds_again: Option<Moment>,
}

impl Operator {
    pub(crate) fn new(rng: Rng) -> Operator {
        Operator { rng, gone_since: None, recovered: None, orders: 0, founds_again: None }
    }
}

impl World {
    pub(crate) fn look_after(&mut self) -> Result<(), Violation> {
        self.push(self.now.after(LOOK), Happening::Operator);
        self.recover_if_lost()?;
        self.let_found_again();
        if self.faults.over && self.ended.is_none() {
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

    /// Of the newest government that is decided, fewer voters than it takes to decide are anywhere to be found; or so
    /// it is with the one that the survivors know, where only the lost knew that a newer one was decided.
    fn majority_gone(&self) -> bool {
        let Some((cluster, newest)) = self.checks.newest_government(&self.hosts) else { return false };
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
