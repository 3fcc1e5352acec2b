//! What replicas may have done, in the smallest model that can contradict an appointment: logs of numbers, and the
//! numbers that were committed. Every later primary must hold all of them (rule 5).

use crate::{Bucket, Distributor};
use atoll_types::{BucketId, Epoch, NodeId, Rng};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(super) struct Ghost {
    logs: BTreeMap<(BucketId, NodeId), Vec<u64>>,
    committed: BTreeMap<BucketId, Vec<u64>>,
    /// The last epoch that each bucket's primary has opened: every member's log matches its own.
    opened: BTreeMap<BucketId, Epoch>,
    before: BTreeMap<BucketId, Bucket>,
    written: u64,
}

/// Nodes whose copies an entry took away, and buckets that an operator spoke of.
#[derive(Default)]
pub(super) struct Excuses {
    pub(super) forgotten: BTreeSet<NodeId>,
    pub(super) damaged: BTreeSet<(BucketId, NodeId)>,
    pub(super) revived: BTreeSet<BucketId>,
}

impl Ghost {
    /// After each entry.
    pub(super) fn sync(&mut self, distributor: &Distributor, excuses: &Excuses) {
        self.logs.retain(|(_, node), _| !excuses.forgotten.contains(node));
        for (&id, bucket) in distributor.buckets() {
            let origin = bucket.divided.map(|(from, _)| from).filter(|_| !self.before.contains_key(&id)).unwrap_or(id);
            let before = self.before.get(&origin).cloned();
            if origin != id {
                self.divide(origin, id, bucket);
            }
            if before.as_ref().is_none_or(|before| before.epoch() != bucket.epoch()) {
                self.on_epoch(before.as_ref(), bucket, excuses);
            }
            if let Some(before) = before {
                check_eligible(&before, bucket, distributor.min_copies(), excuses);
            }
        }
        self.before.clone_from(distributor.buckets());
    }

    fn divide(&mut self, lower: BucketId, upper: BucketId, bucket: &Bucket) {
        for &member in bucket.members() {
            let log = self.logs.get(&(lower, member)).cloned().unwrap_or_default();
            self.logs.insert((upper, member), log);
        }
        self.committed.insert(upper, self.committed.get(&lower).cloned().unwrap_or_default());
    }

    fn on_epoch(&mut self, before: Option<&Bucket>, bucket: &Bucket, excuses: &Excuses) {
        let id = bucket.id();
        if let Some(before) = before {
            assert!(bucket.epoch() > before.epoch(), "bucket {id}: epochs only grow");
            let begins_again = bucket.begins.is_some() && !excuses.revived.contains(&id);
            assert!(!begins_again, "bucket {id} was re-created empty");
        }
        if bucket.begins.is_some() {
            self.logs.retain(|(bucket, _), _| *bucket != id);
            self.committed.insert(id, Vec::new());
        } else if excuses.revived.contains(&id) {
            let log = self.logs.get(&(id, bucket.primary())).cloned().unwrap_or_default();
            self.committed.insert(id, log);
        }
        if !bucket.primary().is_nobody() {
            let log = self.logs.get(&(id, bucket.primary())).cloned().unwrap_or_default();
            let committed = &self.committed[&id];
            assert!(log.starts_with(committed), "bucket {id}: {} lacks what was committed", bucket.primary());
        }
    }

    /// The primary writes, brings others up to date, commits: any of it, or nothing.
    pub(super) fn act(&mut self, distributor: &Distributor, rng: &mut Rng) {
        let buckets: Vec<&Bucket> = distributor.buckets().values().collect();
        let Some(&bucket) = rng.pick(&buckets).filter(|bucket| !bucket.primary().is_nobody()) else { return };
        let (id, primary) = (bucket.id(), bucket.primary());
        match rng.below(6) {
            0 => self.open(bucket),
            1 if self.is_open(bucket) => {
                self.written += 1;
                self.logs.entry((id, primary)).or_default().push(self.written);
            }
            2 if self.is_open(bucket) => {
                let member = *rng.pick(bucket.members()).unwrap();
                self.feed(id, primary, member, rng);
            }
            3 => {
                if let Some(&node) = rng.pick(bucket.catching_up()) {
                    self.feed(id, primary, node, rng);
                }
            }
            4 if self.is_open(bucket) && distributor.duty(id).unwrap().may_commit => {
                self.open(bucket);
                self.committed.insert(id, self.logs.get(&(id, primary)).cloned().unwrap_or_default());
            }
            1 | 2 | 4.. => self.purge(distributor, rng),
        }
    }

    pub(super) fn is_open(&self, bucket: &Bucket) -> bool {
        self.opened.get(&bucket.id()) == Some(&bucket.epoch())
    }

    /// Every member's log becomes the primary's.
    pub(super) fn open(&mut self, bucket: &Bucket) {
        let id = bucket.id();
        let log = self.logs.get(&(id, bucket.primary())).cloned().unwrap_or_default();
        for &member in bucket.members() {
            self.logs.insert((id, member), log.clone());
        }
        self.opened.insert(id, bucket.epoch());
    }

    /// What agrees stays, what does not is cut, and some of the rest is sent.
    fn feed(&mut self, id: BucketId, from: NodeId, to: NodeId, rng: &mut Rng) {
        let source = self.logs.get(&(id, from)).cloned().unwrap_or_default();
        let held = self.logs.entry((id, to)).or_default();
        let agree = held.iter().zip(&source).take_while(|(one, other)| one == other).count();
        let more = rng.below((source.len() - agree) as u64 + 1) as usize;
        held.clone_from(&source[..agree + more].to_vec());
    }

    fn purge(&mut self, distributor: &Distributor, rng: &mut Rng) {
        let held: Vec<(BucketId, NodeId)> = self.logs.keys().copied().collect();
        if let Some(&(id, node)) = rng.pick(&held)
            && distributor.may_purge(id, node)
        {
            self.logs.remove(&(id, node));
        }
    }

    /// A copy loses its end, or all.
    pub(super) fn damage(&mut self, id: BucketId, node: NodeId, rng: &mut Rng) {
        if let Some(log) = self.logs.get_mut(&(id, node)) {
            log.truncate(rng.below(log.len() as u64 + 1) as usize);
        }
    }
}

/// Rule 6, and that nobody forgets a member.
fn check_eligible(before: &Bucket, after: &Bucket, min_copies: usize, excuses: &Excuses) {
    let id = after.id();
    if excuses.revived.contains(&id) {
        return;
    }
    for &node in before.eligible.iter().filter(|&&node| !after.is_eligible(node)) {
        let excused = excuses.forgotten.contains(&node) || excuses.damaged.contains(&(id, node));
        let settled_without = after.members().len() >= min_copies && !after.appointment.is_member(node);
        assert!(excused || settled_without, "bucket {id}: {node} is no longer eligible, of {before:?}");
    }
    let joined = after.eligible.iter().any(|&node| !before.is_eligible(node));
    assert!(!joined || after.settled, "bucket {id}: somebody became eligible without a settled epoch");
}
