//! Gray failure: somebody waits in vain for somebody whom the cluster hears. A cut link or a hung disk must not stop a
//! bucket for good.
//!
//! | About | By | Then |
//! |---|---|---|
//! | one that catches up | the primary or a member | it no longer does |
//! | a backup | the primary | removed, if `min_copies` remain |
//! | a backup, too few remain | the primary | removed if this epoch never settled and another could take its place |
//! | the primary | a member, or itself | another eligible one leads; the old one goes if `min_copies` remain |
//!
//! The third line is for a bucket that can go neither forward nor back: its members do not reach each other, so the
//! epoch never settles, so nobody can join it. Nothing commits in what remains, and nobody loses eligibility: it is
//! what an absence would do.

use crate::load::Primaries;
use crate::node::{Shun, shunned};
use crate::removal::usurp;
use crate::state::{Decided, Distributor};
use atoll_types::{BucketId, Bug, Epoch, NodeId, planted};
use std::collections::BTreeSet;

/// `from` waits in vain for `about`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Complaint {
    pub(crate) from: NodeId,
    pub(crate) bucket: BucketId,
    pub(crate) epoch: Epoch,
    pub(crate) about: NodeId,
}

impl Distributor {
    pub(crate) fn on_complain(&mut self, at: Decided, complaint: Complaint, primaries: &mut Primaries) {
        let Complaint { from, bucket: id, epoch, about } = complaint;
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        if bucket.epoch() != epoch || !bucket.appointment.is_member(from) || !bucket.appointment.names(about) {
            return;
        }
        let primary = bucket.primary();
        if bucket.drop_catching_up(|node| node == about) {
            self.shun(at, from, about);
            self.touch(at, id);
        } else if about == primary {
            self.shun(at, from, about);
            self.move_primary(at, from, id, primaries);
        } else if from == primary {
            self.shun(at, from, about);
            self.remove_backup(at, id, about, primaries);
        }
    }

    fn remove_backup(&mut self, at: Decided, id: BucketId, about: NodeId, primaries: &mut Primaries) {
        let min_copies = self.min_copies();
        let Some(bucket) = self.buckets.get(&id) else { return };
        let remain = bucket.eligible_members().iter().filter(|&&node| node != about).count();
        let unsettled_joiner = !bucket.is_eligible(about);
        let stuck = !bucket.settled && self.has_replacement(at, bucket.primary(), bucket.members());
        if remain < min_copies && !unsettled_joiner && !stuck && !planted(Bug::ComplaintBelowMin) {
            return;
        }
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        usurp(bucket, at, &BTreeSet::from([about]), min_copies, primaries);
        if planted(Bug::ComplaintBelowMin) {
            bucket.forget(|node| node == about);
        }
        self.removal = at.slot;
        self.touch(at, id);
    }

    /// Is there a node, not one of these, that the primary could give a copy to?
    fn has_replacement(&self, at: Decided, primary: NodeId, members: &[NodeId]) -> bool {
        self.nodes
            .iter()
            .any(|(&id, node)| node.may_hold() && !members.contains(&id) && !shunned(&self.shuns, at.time, primary, id))
    }

    fn move_primary(&mut self, at: Decided, from: NodeId, id: BucketId, primaries: &mut Primaries) {
        let min_copies = self.min_copies();
        let Some(bucket) = self.buckets.get_mut(&id) else { return };
        let before = bucket.primary();
        let stay = bucket.eligible_members();
        let heirs: Vec<NodeId> = stay.iter().copied().filter(|&node| node != before).collect();
        let best = primaries.fewest(&heirs);
        // Who complains is there for sure. But nobody leads whose clock is off, if another can.
        let fit = heirs.contains(&from) && primaries.is_skewed(from) <= primaries.is_skewed(best);
        let heir = if fit { from } else { best };
        if heir.is_nobody() {
            return;
        }
        let fallen: Vec<NodeId> = bucket.members().iter().copied().filter(|node| !stay.contains(node)).collect();
        if heirs.len() >= min_copies {
            usurp(bucket, at, &BTreeSet::from([before]), min_copies, primaries);
            primaries.moved(bucket.primary(), heir);
            bucket.appointment.primary = heir;
        } else {
            primaries.moved(before, heir);
            // Those who are eligible hold everything that was committed, so any of them can lead the same set.
            bucket.appoint(at, heir, stay);
            bucket.catch_up(fallen);
        }
        self.removal = at.slot;
        self.touch(at, id);
    }

    fn shun(&mut self, at: Decided, by: NodeId, about: NodeId) {
        self.shuns.retain(|shun| shun.until > at.time && (shun.by, shun.about) != (by, about));
        if self.shuns.len() == Shun::MOST {
            self.shuns.remove(0);
        }
        self.shuns.push(Shun { by, about, until: at.time + Shun::LASTS });
    }
}
