//! What replicas tell. A report counts only for the bucket's present epoch, and only from whom it concerns: a node
//! that lags behind the log speaks of a past that may contradict what was decided since.

use crate::complaint::Complaint;
use crate::load::Primaries;
use crate::removal::usurp;
use crate::state::{Decided, Distributor};
use atoll_types::{BucketId, Bug, Epoch, NodeId, Report, planted};
use std::collections::BTreeSet;

impl Distributor {
    pub fn on_reports(&mut self, at: Decided, from: NodeId, reports: &[Report]) {
        // A node that was removed before its report was decided has nothing to say.
        if !self.is_present(from) {
            return;
        }
        self.enter_generation(at);
        let counts = |report: &Report| match report {
            Report::Divided { .. } | Report::Complain { .. } | Report::Damaged { .. } => true,
            Report::Ready { .. } | Report::Settled { .. } | Report::Sought { .. } => false,
        };
        // Counting goes through all buckets; most reports need none of it.
        let mut primaries = if reports.iter().any(counts) { Primaries::of(self) } else { Primaries::default() };
        for report in reports {
            match *report {
                Report::Ready { bucket, epoch, node } => self.on_ready(from, bucket, epoch, node),
                Report::Settled { bucket, epoch } => self.on_settled(at, from, bucket, epoch),
                Report::Divided { bucket, epoch } => self.on_divided(at, from, bucket, epoch, &mut primaries),
                Report::Complain { bucket, epoch, about } => {
                    self.on_complain(at, Complaint { from, bucket, epoch, about }, &mut primaries);
                }
                Report::Damaged { bucket, epoch } => self.on_damaged(at, from, bucket, epoch, &mut primaries),
                Report::Sought { bucket, epoch, at: node } => self.on_sought(at, from, bucket, epoch, node),
            }
        }
    }

    fn on_ready(&mut self, from: NodeId, id: BucketId, epoch: Epoch, node: NodeId) {
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        let counts = bucket.epoch() == epoch || planted(Bug::StaleReportCounts);
        let known = bucket.catching_up().contains(&node) && !bucket.ready.contains(&node);
        if counts && from == bucket.primary() && known {
            bucket.ready.push(node);
            bucket.ready.sort();
        }
    }

    fn on_settled(&mut self, at: Decided, from: NodeId, id: BucketId, epoch: Epoch) {
        let (min_copies, wanted) = (self.min_copies(), self.wanted());
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        let counts = (bucket.epoch() == epoch && from == bucket.primary()) || planted(Bug::StaleReportCounts);
        if counts && !bucket.settled && !bucket.primary().is_nobody() {
            bucket.settle(min_copies, wanted);
            self.touch(at, id);
        }
    }

    fn on_sought(&mut self, at: Decided, from: NodeId, id: BucketId, epoch: Epoch, node: NodeId) {
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        let counts = bucket.epoch() == epoch && from == bucket.primary();
        let may_lead = node.is_nobody() || bucket.appointment.is_member(node);
        if counts && may_lead && bucket.sought_at != node {
            bucket.sought_at = node;
            self.touch(at, id);
        }
    }

    /// Its own copy is damaged: it may have lost anything, so it is neither member nor eligible before anything else.
    /// Said of an earlier epoch it may have been given another copy since; if not, it says so again.
    fn on_damaged(&mut self, at: Decided, from: NodeId, id: BucketId, epoch: Epoch, primaries: &mut Primaries) {
        let min_copies = self.min_copies();
        let Some(bucket) = self.buckets.get_mut(&id).filter(|bucket| bucket.epoch() == epoch) else { return };
        if bucket.appointment.is_member(from) {
            usurp(bucket, at, &BTreeSet::from([from]), min_copies, primaries);
            self.removal = at.slot;
        }
        bucket.forget(|node| node == from);
        bucket.ready.retain(|&node| node != from);
        self.fill_vacancy(at, id, primaries);
        if let Some(bucket) = self.buckets.get_mut(&id).filter(|bucket| !bucket.primary().is_nobody())
            && at.made(bucket.epoch())
        {
            bucket.catch_up([from]);
        }
        self.touch(at, id);
    }
}
