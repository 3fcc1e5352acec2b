//! Usurp: nodes are removed from a bucket, and those that remain carry on at once, by the same entry.
//!
//! ```text
//!  members  = those that remain and are eligible       (others belong to a union that has not settled: fall back)
//!  eligible = less the removed, if min_copies remain   (else they may be needed: nothing commits without them)
//!  primary  = the same if it remains, else an eligible member; else any eligible node that is present; else nobody
//! ```
//!
//! Not here: who is removed and why (`roster`, `complaint`, `reports`).

use crate::bucket::Bucket;
use crate::load::Primaries;
use crate::state::{Decided, Distributor};
use atoll_types::{BucketId, Bug, NodeId, Offset, planted};
use std::collections::BTreeSet;

/// What one entry does to nodes, of which a bucket may have any.
#[derive(Debug, Default)]
pub(crate) struct Blow {
    /// No longer members of anything.
    pub(crate) gone: BTreeSet<NodeId>,
    /// What they held is lost for good: departed, or came back without memory.
    pub(crate) forgotten: BTreeSet<NodeId>,
    /// Restarted with their copies: nothing of their old life counts.
    pub(crate) restarted: BTreeSet<NodeId>,
    /// A new generation: every epoch is of it.
    pub(crate) renews_all: bool,
}

impl Distributor {
    /// Everything the entry means for all buckets.
    pub(crate) fn strike(&mut self, at: Decided, blow: &Blow) {
        let mut primaries = Primaries::of(self);
        let ids: Vec<BucketId> = self.buckets.keys().copied().collect();
        for id in ids {
            self.strike_bucket(at, id, blow, &mut primaries);
        }
    }

    fn strike_bucket(&mut self, at: Decided, id: BucketId, blow: &Blow, primaries: &mut Primaries) {
        let min_copies = self.min_copies();
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        let mut touched = bucket.drop_catching_up(|node| blow.gone.contains(&node));
        touched |= bucket.members().iter().any(|node| blow.gone.contains(node));
        if bucket.members().iter().any(|node| blow.gone.contains(node)) {
            usurp(bucket, at, &blow.gone, min_copies, primaries);
        }
        // Afterwards, so that a member that is forgotten does not count as one that remains.
        touched |= bucket.forget(|node| blow.forgotten.contains(&node));
        let restarted = bucket.members().iter().any(|node| blow.restarted.contains(node));
        let renewed = (restarted && !planted(Bug::RestartKeepsEpoch)) || blow.renews_all;
        if renewed && !at.made(bucket.epoch()) {
            let (primary, members) = (bucket.primary(), bucket.members().to_vec());
            bucket.appoint(at, primary, members);
            touched = true;
        }
        if bucket.catching_up().iter().any(|node| blow.restarted.contains(node)) {
            bucket.ready.retain(|node| !blow.restarted.contains(node));
        }
        touched |= self.fill_vacancy(at, id, primaries);
        if touched {
            self.touch(at, id);
        }
    }

    /// A bucket that nobody serves is served by every eligible node that is there. Each of them holds all that was
    /// ever committed, so any of them can lead.
    pub(crate) fn fill_vacancy(&mut self, at: Decided, id: BucketId, primaries: &mut Primaries) -> bool {
        let (copies, min_copies) = (self.copies(), self.min_copies());
        let Some(bucket) = self.buckets.get_mut(&id).filter(|bucket| bucket.primary().is_nobody()) else {
            return false;
        };
        let is_present = |node: &NodeId| self.nodes.get(node).is_some_and(|node| node.standing.present);
        let heirs: Vec<NodeId> = bucket.eligible.iter().copied().filter(is_present).collect();
        if planted(Bug::LostRecreatedEmpty) && bucket.is_lost() {
            let anew: Vec<NodeId> = self.nodes.keys().copied().filter(is_present).take(copies).collect();
            if let Some(&primary) = anew.first().filter(|_| anew.len() >= min_copies) {
                *bucket = Bucket::begin(bucket.range, at, bucket.revived, primary, anew, Offset(0));
                return true;
            }
        }
        if heirs.is_empty() {
            return false;
        }
        let primary = primaries.fewest(&heirs);
        primaries.moved(NodeId::NOBODY, primary);
        bucket.appoint(at, primary, heirs);
        true
    }
}

/// Takes `gone` out of the members, all at once: what remains is one new set, whatever the order of their names.
pub(crate) fn usurp(
    bucket: &mut Bucket,
    at: Decided,
    gone: &BTreeSet<NodeId>,
    min_copies: usize,
    primaries: &mut Primaries,
) {
    if planted(Bug::FallsForwardUnsettled) {
        bucket.eligible.clone_from(&bucket.appointment.members);
    }
    let (stay, fallen): (Vec<NodeId>, Vec<NodeId>) = bucket
        .members()
        .iter()
        .copied()
        .filter(|node| !gone.contains(node))
        .partition(|&node| bucket.is_eligible(node) || planted(Bug::IneligibleUsurps));
    if planted(Bug::IneligibleUsurps) {
        bucket.eligible.extend(stay.iter().filter(|node| !bucket.eligible.contains(node)).copied().collect::<Vec<_>>());
        bucket.eligible.sort();
    }
    // With fewer, nothing commits without the removed, so they still hold everything and may be the last that do.
    if stay.len() >= min_copies || planted(Bug::BelowMinForgets) {
        let members = &bucket.appointment.members;
        bucket.eligible.retain(|node| !(gone.contains(node) && members.contains(node)));
    }
    let before = bucket.primary();
    let primary = if stay.contains(&before) { before } else { primaries.fewest(&stay) };
    primaries.moved(before, primary);
    let vacant = stay.is_empty();
    bucket.appoint(at, primary, stay);
    if vacant {
        // Nobody is there to catch up from.
        bucket.drop_catching_up(|_| true);
    } else {
        bucket.catch_up(fallen);
    }
}
