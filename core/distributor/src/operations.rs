//! What operators want of buckets.

use crate::bucket::Bucket;
use crate::state::{Decided, Distributor};
use atoll_types::{BucketId, Bug, Mark, NodeId, Operation, Time, planted};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a wish cannot be granted. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Impossible {
    NotPlaced,
    UnknownNode {
        node: NodeId,
    },
    UnknownBucket {
        bucket: BucketId,
    },
    NotPresent {
        node: NodeId,
    },
    NotDraining {
        node: NodeId,
    },
    /// Without this node too few are left to commit anything.
    TooFewNodes {
        remain: usize,
        needed: usize,
    },
    /// One hash slot cannot be halved.
    TooNarrow {
        bucket: BucketId,
    },
    /// A bucket that has an eligible copy present is not revived from another one.
    NotLost {
        bucket: BucketId,
    },
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Impossible::NotPlaced => write!(f, "there are no buckets yet"),
            Impossible::UnknownNode { node } => write!(f, "{node} is not a member of the cluster"),
            Impossible::UnknownBucket { bucket } => write!(f, "there is no bucket {bucket}"),
            Impossible::NotPresent { node } => write!(f, "{node} is not there"),
            Impossible::NotDraining { node } => write!(f, "{node} is not being drained"),
            Impossible::TooFewNodes { remain, needed } => {
                write!(f, "{remain} nodes would remain, and {needed} are needed to commit anything")
            }
            Impossible::TooNarrow { bucket } => write!(f, "bucket {bucket} is one hash slot and cannot be halved"),
            Impossible::NotLost { bucket } => write!(f, "bucket {bucket} is not lost"),
        }
    }
}

impl std::error::Error for Impossible {}

impl Distributor {
    pub fn on_operation(&mut self, at: Decided, operation: &Operation) -> Result<(), Impossible> {
        self.enter_generation(at);
        match *operation {
            Operation::Drain { node } => self.drain(node),
            Operation::Undrain { node } => self.undrain(node),
            Operation::HandOver { node } => self.hand_over(at, node),
            Operation::Split { bucket: Some(bucket) } => self.want_split(bucket),
            Operation::Split { bucket: None } => self.want_all_split(),
            Operation::Rebalance => {
                self.nodes.values_mut().for_each(|node| node.waits_until = Time::ZERO);
                Ok(())
            }
            Operation::Revive { bucket, from } => self.revive(at, bucket, from),
        }
    }

    fn drain(&mut self, node: NodeId) -> Result<(), Impossible> {
        if !self.nodes.contains_key(&node) {
            return Err(Impossible::UnknownNode { node });
        }
        let remain = self.nodes.iter().filter(|&(&id, other)| id != node && other.may_hold()).count();
        let needed = self.min_copies().max(1);
        if remain < needed {
            return Err(Impossible::TooFewNodes { remain, needed });
        }
        self.nodes.get_mut(&node).into_iter().for_each(|node| node.draining = true);
        Ok(())
    }

    fn undrain(&mut self, node: NodeId) -> Result<(), Impossible> {
        let known = self.nodes.get_mut(&node).ok_or(Impossible::UnknownNode { node })?;
        if !known.draining {
            return Err(Impossible::NotDraining { node });
        }
        known.draining = false;
        Ok(())
    }

    /// The node is about to stop for a while. What it leads in a settled epoch moves now; the rest moves as it settles,
    /// or is usurped when the node is gone.
    fn hand_over(&mut self, at: Decided, node: NodeId) -> Result<(), Impossible> {
        let known = self.nodes.get_mut(&node).ok_or(Impossible::UnknownNode { node })?;
        if !known.standing.present {
            return Err(Impossible::NotPresent { node });
        }
        known.stepped_back = true;
        let mut primaries = crate::load::Primaries::of(self);
        let led: Vec<BucketId> =
            self.buckets.values().filter(|bucket| bucket.primary() == node && bucket.settled).map(Bucket::id).collect();
        for id in led {
            let Some(bucket) = self.buckets.get(&id) else { continue };
            let may_lead =
                |heir: &NodeId| self.nodes.get(heir).is_some_and(|heir| heir.may_hold() && !heir.stepped_back);
            let heirs: Vec<NodeId> =
                bucket.eligible_members().into_iter().filter(|&heir| heir != node && may_lead(&heir)).collect();
            let heir = primaries.fewest(&heirs);
            if !heir.is_nobody() {
                primaries.moved(node, heir);
                self.abdicate(at, id, bucket.epoch(), heir);
            }
        }
        Ok(())
    }

    fn want_split(&mut self, bucket: BucketId) -> Result<(), Impossible> {
        let found = self.buckets.get_mut(&bucket).ok_or(Impossible::UnknownBucket { bucket })?;
        if found.range.width() < 2 {
            return Err(Impossible::TooNarrow { bucket });
        }
        found.split_wanted = true;
        Ok(())
    }

    fn want_all_split(&mut self) -> Result<(), Impossible> {
        if self.buckets.is_empty() {
            return Err(Impossible::NotPlaced);
        }
        if let Some(narrow) = self.buckets.values().find(|bucket| bucket.range.width() < 2) {
            return Err(Impossible::TooNarrow { bucket: narrow.id() });
        }
        self.buckets.values_mut().for_each(|bucket| bucket.split_wanted = true);
        Ok(())
    }

    /// Only by an operator's word, and only where nothing better is there: acknowledged writes may be missing. What
    /// comes after is of another generation, so that no position of before is taken for one of now.
    fn revive(&mut self, at: Decided, id: BucketId, from: Option<NodeId>) -> Result<(), Impossible> {
        let bucket = self.buckets.get(&id).ok_or(Impossible::UnknownBucket { bucket: id })?;
        if bucket.eligible.iter().any(|&node| self.is_present(node)) {
            return Err(Impossible::NotLost { bucket: id });
        }
        match from {
            Some(node) if !self.nodes.contains_key(&node) => return Err(Impossible::UnknownNode { node }),
            Some(node) if !self.is_present(node) => return Err(Impossible::NotPresent { node }),
            Some(_) => {} // Whether it has a copy it knows itself: one that has not says so, and the bucket stays lost.
            None => {
                let remain = self.nodes.values().filter(|node| node.may_hold()).count();
                let needed = self.min_copies();
                if remain < needed {
                    return Err(Impossible::TooFewNodes { remain, needed });
                }
            }
        }
        let Some(bucket) = self.buckets.get_mut(&id) else { return Ok(()) };
        if !planted(Bug::RevivedSameGeneration) {
            bucket.revived = bucket.revived.saturating_add(1);
        }
        if let Some(node) = from {
            bucket.eligible = vec![node];
            bucket.beginning = Mark::default(); // Whatever it holds is the bucket now.
            bucket.appoint(at, node, vec![node]);
        } else {
            let (range, split_wanted) = (bucket.range, bucket.split_wanted);
            self.place_anew(at, range);
            self.buckets.get_mut(&id).into_iter().for_each(|bucket| bucket.split_wanted = split_wanted);
        }
        self.removal = at.slot;
        self.touch(at, id);
        Ok(())
    }
}
