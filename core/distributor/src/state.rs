//! The distributor's state: a function of the decided entries alone, the same at the same slot on every node.
//!
//! Not here: what each entry does (`roster`, `removal`, `moves`, `reports`, `operations`, `placement`), and what the
//! leader should propose next (`orders`).

use crate::bucket::Bucket;
use crate::node::{Node, Shun};
use atoll_types::{BucketId, Bug, Duty, Epoch, Generation, HashSlot, Incarnation, Name, NodeId, Slot, Time, planted};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Where and when in the cluster log the entry stands that is being applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    pub slot: Slot,
    pub generation: Generation,
    pub time: Time,
}

impl Decided {
    /// The epoch of whatever changes here, in a bucket that was revived so often.
    pub fn epoch(&self, revival: u32) -> Epoch {
        Epoch { generation: self.generation, revival, slot: self.slot }
    }

    /// Did this entry begin that epoch?
    pub(crate) fn made(&self, epoch: Epoch) -> bool {
        (epoch.generation, epoch.slot) == (self.generation, self.slot)
    }
}

/// What the cluster says of an acclimated member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    pub present: bool,
    pub incarnation: Incarnation,
    pub zone: Name,
    pub weight: u32,
    /// Keeps its copies over a restart.
    pub durable: bool,
    /// An operator wants it gone: it gets nothing, and goes soon.
    pub leaving: bool,
    /// It is away by its own word, to come back: that is no flapping.
    pub stopped: bool,
    /// Its clock is off: it leads nothing that another can lead.
    pub skewed: bool,
}

/// The acclimated members of the cluster. A node that departed is missing.
pub type Roster = BTreeMap<NodeId, Standing>;

/// Buckets whose duty changed and nobody has asked yet. Not part of the state: a snapshot is a state without it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changed(pub(crate) BTreeSet<BucketId>);

impl PartialEq for Changed {
    fn eq(&self, _: &Changed) -> bool {
        true
    }
}

impl Eq for Changed {}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distributor {
    /// Their ranges cover the key space without gap or overlap; empty before the first placement.
    pub(crate) buckets: BTreeMap<BucketId, Bucket>,
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    /// How many members a bucket should have.
    pub(crate) copies: u8,
    /// With fewer members nothing commits.
    pub(crate) min_copies: u8,
    pub(crate) initial_width: u16,
    /// Of primaries; the same for all, or a usurper would wait too short.
    pub(crate) lease: Duration,
    pub(crate) generation: Generation,
    /// Of the last order that took effect.
    pub(crate) number: u64,
    /// Where a node was last removed from anything: an older order was thought out for another cluster.
    pub(crate) removal: Slot,
    pub(crate) version: Slot,
    /// Links that somebody complained of, oldest first.
    pub(crate) shuns: Vec<Shun>,
    #[serde(skip)]
    pub(crate) changed: Changed,
}

impl Default for Distributor {
    fn default() -> Self {
        Distributor::new()
    }
}

impl Distributor {
    /// Before the first entry.
    pub fn new() -> Distributor {
        Distributor {
            buckets: BTreeMap::new(),
            nodes: BTreeMap::new(),
            copies: 0,
            min_copies: 0,
            initial_width: 0,
            lease: Duration::ZERO,
            generation: Generation::default(),
            number: 0,
            removal: Slot::ZERO,
            version: Slot::ZERO,
            shuns: Vec::new(),
            changed: Changed::default(),
        }
    }

    /// The buckets whose duty changed since this was last asked.
    pub fn take_changed(&mut self) -> BTreeSet<BucketId> {
        std::mem::take(&mut self.changed.0)
    }

    pub fn duty(&self, bucket: BucketId) -> Option<Duty> {
        self.buckets.get(&bucket).map(|bucket| bucket.duty(self.copies(), self.min_copies()))
    }

    pub fn buckets(&self) -> &BTreeMap<BucketId, Bucket> {
        &self.buckets
    }

    pub fn nodes(&self) -> &BTreeMap<NodeId, Node> {
        &self.nodes
    }

    pub fn bucket_of(&self, slot: HashSlot) -> Option<BucketId> {
        let (id, bucket) = self.buckets.range(..=BucketId(slot.0)).next_back()?;
        bucket.range.contains(slot).then_some(*id)
    }

    /// Of the routing table: the slot of the last change.
    pub fn version(&self) -> Slot {
        self.version
    }

    /// Slots per bucket at first placement; 0 before it.
    pub fn initial_width(&self) -> u16 {
        self.initial_width
    }

    /// How long a primary may answer reads by itself; zero: not at all.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    pub fn copies(&self) -> usize {
        usize::from(self.copies)
    }

    pub fn min_copies(&self) -> usize {
        usize::from(self.min_copies)
    }

    /// How many members a bucket should have, given the nodes there are. An absent node counts: that it is missing is
    /// something to mend, not a smaller cluster.
    pub fn wanted(&self) -> usize {
        let nodes = self.nodes.values().filter(|node| !node.is_going()).count();
        self.copies().min(nodes.max(self.min_copies()))
    }

    pub(crate) fn is_present(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.standing.present)
    }

    /// May this node throw away its copy of the bucket? Only of one that is whole without it.
    pub fn may_purge(&self, bucket: BucketId, node: NodeId) -> bool {
        let Some(found) = self.buckets.get(&bucket) else { return false };
        if planted(Bug::LastEligiblePurged) {
            return !found.appointment.names(node);
        }
        if found.appointment.names(node) || found.is_eligible(node) {
            return false;
        }
        // A node that was away during a split holds the whole bucket of then. So whatever came out of it must be safe.
        let width = self.initial_width.max(1);
        let end = BucketId(bucket.0 - bucket.0 % width + width);
        self.buckets.range(bucket..end).all(|(_, part)| self.is_whole(part))
    }

    /// Settled, with all the copies it should have: nobody else's copy is of use.
    fn is_whole(&self, bucket: &Bucket) -> bool {
        !bucket.is_lost() && bucket.settled && bucket.members().len() >= self.wanted().max(self.min_copies())
    }

    /// May this node depart because it was away for too long? Not while a bucket needs its copy: there is no other
    /// eligible one present.
    pub fn may_depart_by_time(&self, node: NodeId) -> bool {
        let needs = |bucket: &Bucket| {
            let others = bucket.eligible.iter().any(|&other| other != node && self.is_present(other));
            bucket.is_eligible(node) && !others
        };
        !self.buckets.values().any(needs)
    }

    /// Drained nodes that hold nothing any more: they may depart.
    pub fn drained(&self) -> Vec<NodeId> {
        if self.buckets.is_empty() {
            return Vec::new();
        }
        let mut done: BTreeSet<NodeId> =
            self.nodes.iter().filter(|(_, node)| node.draining).map(|(&id, _)| id).collect();
        for bucket in self.buckets.values() {
            if done.is_empty() {
                break;
            }
            // Its copy stays until the set without it has settled.
            let left = |node| bucket.settled || !bucket.former.contains(&node);
            done.retain(|&node| !bucket.appointment.names(node) && !bucket.is_eligible(node) && left(node));
        }
        done.into_iter().collect()
    }

    /// This bucket's duty is another now; its routes too, if its epoch is.
    pub(crate) fn touch(&mut self, at: Decided, bucket: BucketId) {
        self.changed.0.insert(bucket);
        if self.buckets.get(&bucket).is_some_and(|bucket| at.made(bucket.epoch())) {
            self.version = at.slot;
        }
    }

    /// Asserts what stands on the fields.
    pub fn check(&self) {
        let mut next = 0;
        for (&id, bucket) in &self.buckets {
            assert_eq!(id, bucket.id(), "a bucket is named by its first slot");
            assert_eq!(id.0, next, "the ranges follow each other");
            next = bucket.range.last.0 + 1;
            bucket.check(self.min_copies());
            let named = bucket.members().iter().chain(bucket.catching_up());
            assert!(named.clone().all(|&node| self.is_present(node)), "bucket {id}: an absent node is named");
            let known = bucket.eligible.iter().chain(&bucket.former).all(|node| self.nodes.contains_key(node));
            assert!(known, "bucket {id}: a departed node is eligible or remembered");
            assert!(bucket.epoch().generation <= self.generation, "bucket {id}: an epoch of the future");
            let heir = bucket.eligible.iter().any(|&node| self.is_present(node));
            assert!(!heir || !bucket.primary().is_nobody(), "bucket {id}: nobody serves, and somebody could");
        }
        assert!(self.buckets.is_empty() || next == HashSlot::COUNT, "the key space is covered");
        assert!(self.shuns.len() <= Shun::MOST, "too many shunned links remembered");
    }
}
