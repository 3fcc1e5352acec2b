//! The last entries of the cluster log that this node has seen decided, for people.

use atoll_types::{Entry, NodeId, Slot};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Entries kept.
const KEPT_MOST: usize = 10_000;

#[derive(Clone, Debug)]
pub struct Logged {
    pub slot: Slot,
    /// Who led when it was decided, as far as this node knew.
    pub leader: NodeId,
    pub entry: Arc<Entry>,
}

#[derive(Debug, Default)]
pub struct Log {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: VecDeque<Logged>,
    leader: NodeId,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn append(&self, slot: Slot, entry: Arc<Entry>) {
        let mut kept = self.lock();
        let leader = kept.leader;
        kept.entries.push_back(Logged { slot, leader, entry });
        if kept.entries.len() > KEPT_MOST {
            kept.entries.pop_front();
        }
    }

    pub(crate) fn government(&self, leader: NodeId) {
        self.lock().leader = leader;
    }

    /// What comes next does not follow on what is here.
    pub(crate) fn clear(&self) {
        self.lock().entries.clear();
    }

    /// From this slot on, at most so many.
    pub fn from(&self, slot: Slot, most: usize) -> Vec<Logged> {
        let kept = self.lock();
        let first = kept.entries.partition_point(|logged| logged.slot < slot);
        kept.entries.range(first..).take(most).cloned().collect()
    }

    /// The last so many.
    pub fn last(&self, most: usize) -> Vec<Logged> {
        let kept = self.lock();
        let first = kept.entries.len().saturating_sub(most);
        kept.entries.range(first..).cloned().collect()
    }
}
