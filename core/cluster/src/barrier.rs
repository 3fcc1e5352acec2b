//! A barrier: a broadcast, and the count of answers still missing.
//!
//! The set of nodes is frozen when the broadcast is decided. A removal takes a node out of it; an arrival never adds
//! one. All of it happens in the log, so every node sees the reduction at the same slot.

use atoll_types::{Bug, NodeId, Payload, planted};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Open barriers at a time; a broadcast beyond it is refused.
pub const BARRIERS_MOST: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Barrier {
    pub payload: Payload,
    /// Whose answer is missing.
    pub waiting: BTreeSet<NodeId>,
    pub answers: BTreeMap<NodeId, Payload>,
}

impl Barrier {
    pub fn new(payload: Payload, present: BTreeSet<NodeId>) -> Barrier {
        Barrier { payload, waiting: present, answers: BTreeMap::new() }
    }

    /// The first answer of a node that is waited for counts; any other does nothing.
    pub fn answer(&mut self, node: NodeId, answer: Payload) {
        let late = planted(Bug::BarrierCountsLateArrival) && !self.answers.contains_key(&node);
        if self.waiting.remove(&node) || late {
            self.answers.insert(node, answer);
        }
    }

    pub fn remove(&mut self, node: NodeId) {
        if !planted(Bug::BarrierWaitsForRemoved) {
            self.waiting.remove(&node);
        }
    }

    pub fn is_complete(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Payload {
        text.as_bytes().into()
    }

    #[test]
    fn only_first_answers_of_the_frozen_set_count() {
        let mut barrier = Barrier::new(answer("?"), BTreeSet::from([NodeId(1), NodeId(2)]));
        barrier.answer(NodeId(1), answer("a"));
        barrier.answer(NodeId(1), answer("b"));
        barrier.answer(NodeId(3), answer("late"));
        assert!(!barrier.is_complete());
        barrier.remove(NodeId(2));
        barrier.answer(NodeId(2), answer("removed"));
        assert!(barrier.is_complete());
        assert_eq!(barrier.answers, BTreeMap::from([(NodeId(1), answer("a"))]));
    }
}
