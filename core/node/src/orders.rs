//! The leader's orders about buckets: the first placement, and then whatever its distributor wants done next.
//!
//! One order at a time: the next is thought out when the last is decided. A new leader asks its own distributor, which
//! knows what the last order came to.
//!
//! Not here: what an order does, and which one is wise (`atoll-distributor`).

use crate::context::Context;
use crate::member::Member;
use atoll_cluster::Standing;
use atoll_distributor::Settings;
use atoll_types::{Body, HashSlot, Name, Order, Request, Slot, Step, Time};
use std::time::Duration;

/// Steps in one order: far below what an entry may hold.
const STEPS_MOST: usize = 256;
/// After a copy that was made to level out, none is begun for so many times what it took, and at most this long: to
/// make and to take one holds up a shard for a moment, and nobody waits for it.
const REST: u32 = 2;
const REST_MOST: Duration = Duration::from_millis(100);

/// What a leader remembers of its orders.
#[derive(Debug)]
pub(crate) struct Orders {
    /// Since when it could have given one.
    since: Time,
    /// The last one proposed, where, and when.
    last: Option<(Order, Time)>,
    through: Slot,
    /// Something was applied, or time went by, since the distributor was last asked.
    pub(crate) think: bool,
    /// When the distributor may want something although nothing is applied.
    pub(crate) due: Time,
    /// Since when a copy is being made to level out.
    levelling_since: Option<Time>,
    rests_until: Time,
}

impl Orders {
    pub(crate) fn new(now: Time) -> Orders {
        Orders {
            since: now,
            last: None,
            through: Slot::ZERO,
            think: true,
            due: Time::NEVER,
            levelling_since: None,
            rests_until: Time::ZERO,
        }
    }

    /// Tells whether to rest.
    fn note_levelling(&mut self, now: Time, is_levelling: bool) -> bool {
        if is_levelling {
            self.levelling_since.get_or_insert(now);
        } else if let Some(since) = self.levelling_since.take() {
            self.rests_until = now + (now.since(since) * REST).min(REST_MOST);
        }
        now < self.rests_until
    }
}

impl Member {
    /// Proposes the next order, if there is one and none is on its way.
    pub(crate) fn propose_order(&mut self, context: &Context) -> bool {
        let (now, decided) = (context.now, self.paxos.log().decided());
        let Some(orders) = self.office.as_mut().map(|office| &mut office.orders) else { return false };
        if now >= orders.due {
            // Whether or not it can be done now: a time that has come is not waited for again.
            (orders.think, orders.due) = (true, Time::NEVER);
        }
        if !orders.think || orders.through > decided || !self.paxos.can_propose() {
            return false;
        }
        let rests = orders.note_levelling(now, self.replicated.distributor.is_levelling());
        let (since, rests_until) = (orders.since, orders.rests_until);
        let wanted = if self.replicated.distributor.buckets().is_empty() {
            self.first_placement(context, since)
        } else {
            let settings = Settings { width: context.config.limits.width, steps_most: STEPS_MOST, rests };
            self.replicated.distributor.next_order(now, &settings)
        };
        let due = self.replicated.distributor.next_due(now).filter(|due| *due > now).unwrap_or(Time::NEVER);
        let due = if rests { due.min(rests_until) } else { due };
        let Some(orders) = self.office.as_mut().map(|office| &mut office.orders) else { return false };
        (orders.think, orders.due) = (false, due);
        let Some(order) = wanted else { return false };
        // An order that came to nothing and is wanted again is given again, but not as fast as the log takes it.
        let again = orders
            .last
            .as_ref()
            .filter(|(last, _)| *last == order)
            .map(|(_, at)| *at + context.config.timing.heartbeat);
        if let Some(again) = again.filter(|again| now < *again) {
            orders.due = due.min(again);
            return false;
        }
        orders.last = Some((order.clone(), now));
        orders.through = self.paxos.propose(now, Body::Order(order));
        true
    }

    /// The key space is divided once all founders are there; without them, once there are enough to keep copies.
    fn first_placement(&self, context: &Context, since: Time) -> Option<Order> {
        let config = &context.config;
        let (state, buckets) = (&self.replicated.state, config.buckets);
        if !buckets.is_power_of_two() || buckets > HashSlot::COUNT {
            return None;
        }
        let min_copies = if state.alone { 1 } else { 2 };
        let is_present = |standing: &Standing| *standing == Standing::Present;
        let present = state.members.values().filter(|member| is_present(&member.standing)).count();
        let here = |name: &Name| state.named(name).is_some_and(|(_, member)| is_present(&member.standing));
        let complete = !config.bootstrap.is_empty() && config.bootstrap.iter().all(here);
        let waited = config.bootstrap.is_empty() || context.now.since(since) >= config.timing.arrival;
        let ready = present >= usize::from(min_copies) && (complete || waited);
        let place = Step::Place { buckets, copies: config.copies, min_copies, lease: config.timing.lease };
        ready.then(|| self.replicated.distributor.order(vec![place]))
    }

    /// Whoever was drained departs like one that an operator removes, if the cluster can spare it.
    pub(crate) fn let_drained_go(&mut self, context: &mut Context) {
        for node in self.replicated.distributor.drained() {
            let state = &self.replicated.state;
            let stays = state.members.get(&node).is_some_and(|member| !member.is_to_go());
            let same = |request: &Request| matches!(request, Request::Depart { node: other } if *other == node);
            if stays && state.can_spare(node) && !self.submitter.is_waiting_for(same) {
                self.submitter.submit(context.now, Request::Depart { node }, None);
                self.send_due_submissions(context);
            }
        }
    }
}
