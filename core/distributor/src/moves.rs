//! The steps of an order. A step that does not fit does nothing; so an order may be decided twice, late, or beside
//! another leader's.
//!
//! ```text
//!  idle ──Expand──▶ catching up ──Unite──▶ union ──(settled)──▶ ──Abdicate──▶ ──(settled)──▶ ──Contract──▶ idle
//!   ▲                    │Abandon            │ removal
//!   └────────────────────┴───────────────────┘
//! ```
//!
//! | Step | Needs |
//! |---|---|
//! | Expand | nodes that may hold something and are not named; the epoch settled, or copies missing; no split |
//! | Unite | somebody ready; the epoch settled, or too few members to commit anything |
//! | Abandon | nothing |
//! | Abdicate | the epoch settled, an eligible member; or too few members, any eligible node that is present |
//! | Contract | the epoch settled; the primary and `min_copies` remain |
//! | Split | the epoch settled and able to commit, nobody catching up, more than one slot |
//!
//! Not here: which steps are wise (`orders`).

use crate::bucket::Bucket;
use crate::state::{Decided, Distributor};
use atoll_types::{BucketId, Bug, Epoch, NodeId, Order, Step, planted};

impl Distributor {
    pub fn on_order(&mut self, at: Decided, order: &Order) {
        self.enter_generation(at);
        let fits = order.number == self.number + 1 && order.removal == self.removal;
        if !fits && !planted(Bug::OldOrderTaken) {
            return;
        }
        self.number += 1;
        for step in &order.steps {
            self.take_step(at, step);
        }
    }

    fn take_step(&mut self, at: Decided, step: &Step) {
        match step {
            Step::Place { buckets, copies, min_copies, lease } => {
                self.place(at, *buckets, *copies, *min_copies, *lease)
            }
            Step::Expand { bucket, epoch, add } => self.expand(at, *bucket, *epoch, add),
            Step::Unite { bucket, epoch } => self.unite(at, *bucket, *epoch),
            Step::Abandon { bucket, epoch, drop } => self.abandon(at, *bucket, *epoch, drop),
            Step::Abdicate { bucket, epoch, to } => self.abdicate(at, *bucket, *epoch, *to),
            Step::Contract { bucket, epoch, drop } => self.contract(at, *bucket, *epoch, drop),
            Step::Split { bucket, epoch } => self.split(at, *bucket, *epoch),
        }
    }

    /// The bucket, if somebody serves it in this epoch.
    fn served(&mut self, id: BucketId, epoch: Epoch) -> Option<&mut Bucket> {
        let bucket = self.buckets.get_mut(&id)?;
        let counts = bucket.epoch() == epoch || planted(Bug::OldOrderTaken);
        (counts && !bucket.primary().is_nobody()).then_some(bucket)
    }

    fn expand(&mut self, at: Decided, id: BucketId, epoch: Epoch, add: &[NodeId]) {
        let copies = self.copies();
        let may_join = |node: &NodeId| self.nodes.get(node).is_some_and(|node| node.may_hold());
        let mut add: Vec<NodeId> = add.iter().copied().filter(may_join).collect();
        let Some(bucket) = self.served(id, epoch) else { return };
        add.retain(|&node| !bucket.appointment.names(node));
        let may_begin = may_move_on(bucket) || bucket.members().len() < copies;
        let fits = !add.is_empty() && bucket.catching_up().len() + add.len() <= copies && !bucket.splitting;
        if fits && may_begin {
            bucket.catch_up(add);
            self.touch(at, id);
        }
    }

    fn unite(&mut self, at: Decided, id: BucketId, epoch: Epoch) {
        let min_copies = self.min_copies();
        let Some(bucket) = self.served(id, epoch) else { return };
        if bucket.ready.is_empty() || !may_unite(bucket, min_copies) {
            return;
        }
        let members: Vec<NodeId> = bucket.members().iter().chain(&bucket.ready).copied().collect();
        let primary = bucket.primary();
        bucket.appoint(at, primary, members);
        self.touch(at, id);
    }

    fn abandon(&mut self, at: Decided, id: BucketId, epoch: Epoch, drop: &[NodeId]) {
        let Some(bucket) = self.served(id, epoch) else { return };
        if bucket.drop_catching_up(|node| drop.contains(&node)) {
            self.touch(at, id);
        }
    }

    pub(crate) fn abdicate(&mut self, at: Decided, id: BucketId, epoch: Epoch, to: NodeId) {
        let min_copies = self.min_copies();
        let present = self.is_present(to);
        let Some(bucket) = self.served(id, epoch) else { return };
        let early = planted(Bug::AbdicateUnsettled) && bucket.appointment.is_member(to);
        if !present || to == bucket.primary() || !(bucket.is_eligible(to) || early) {
            return;
        }
        if early && !bucket.is_eligible(to) {
            bucket.eligible.clone_from(&bucket.appointment.members);
        }
        let members = bucket.members().to_vec();
        if may_move_on(bucket) && bucket.appointment.is_member(to) {
            let home = if bucket.home.is_nobody() { bucket.primary() } else { bucket.home };
            bucket.appoint(at, to, members);
            if to == bucket.sought_at && to != home {
                bucket.home = home;
            }
        } else if members.len() < min_copies {
            // Nothing can have been committed in so small a set: whoever is eligible can begin again without it.
            bucket.appoint(at, to, vec![to]);
        } else {
            return;
        }
        self.touch(at, id);
    }

    fn contract(&mut self, at: Decided, id: BucketId, epoch: Epoch, drop: &[NodeId]) {
        let min_copies = self.min_copies();
        let Some(bucket) = self.served(id, epoch) else { return };
        let (dropped, left): (Vec<NodeId>, Vec<NodeId>) =
            bucket.members().iter().copied().partition(|node| drop.contains(node));
        let primary = bucket.primary();
        let fits = !dropped.is_empty() && left.contains(&primary) && left.len() >= min_copies;
        if !fits || !may_move_on(bucket) {
            return;
        }
        // They keep their copies until the smaller set has settled, and may not lead any more: what commits from now on
        // commits without them.
        bucket.eligible.retain(|node| !dropped.contains(node));
        if planted(Bug::AbdicateUnsettled) {
            bucket.eligible.clone_from(&left);
        }
        bucket.appoint(at, primary, left);
        self.touch(at, id);
    }

    fn split(&mut self, at: Decided, id: BucketId, epoch: Epoch) {
        let min_copies = self.min_copies();
        let Some(bucket) = self.served(id, epoch) else { return };
        if may_split(bucket, min_copies) {
            bucket.splitting = true;
            bucket.split_wanted = true;
            self.touch(at, id);
        }
    }
}

/// Another change of this bucket waits until every member acknowledged the last one: else two sets that do not know
/// each other could both commit.
pub(crate) fn may_move_on(bucket: &Bucket) -> bool {
    bucket.settled || planted(Bug::AbdicateUnsettled)
}

pub(crate) fn may_unite(bucket: &Bucket, min_copies: usize) -> bool {
    may_move_on(bucket) || bucket.members().len() < min_copies
}

/// Both halves take over the eligible of the whole, so these must be exactly the members that divide their copies. And
/// the split must be able to commit: else it would wait for copies that it keeps from coming.
pub(crate) fn may_split(bucket: &Bucket, min_copies: usize) -> bool {
    let whole = bucket.settled && bucket.eligible == bucket.members() && bucket.catching_up().is_empty();
    whole && bucket.may_commit(min_copies) && !bucket.splitting && bucket.range.width() > 1
}
