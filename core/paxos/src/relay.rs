//! The relay tree: leader → majority → minority → learners, with at most `fan_out` children below the majority.
//!
//! ```text
//!              leader                    The majority gets proposals from the leader itself.
//!             /      \                   Everybody else gets decided entries from the node above,
//!           m1        m2                 in the order: minority, then learners as they arrived.
//!         / | \      / | \
//!       s1 s2 l1   l2 l3 l4
//! ```
//! Every node computes the tree by itself. Two nodes that know different governments may disagree for a moment; a node
//! that nobody feeds asks for itself (`Missing`), so a wrong tree costs time, never an entry.

use atoll_types::{Government, NodeId};
use std::collections::BTreeSet;

/// Whom `me` passes decided entries on to. Absent nodes are left out: they ask when they are back.
pub fn children_of(me: NodeId, government: &Government, absent: &BTreeSet<NodeId>, fan_out: usize) -> Vec<NodeId> {
    let relays: &[NodeId] = match government.majority.as_slice() {
        [leader] => std::slice::from_ref(leader),
        [_, followers @ ..] => followers,
        [] => return Vec::new(),
    };
    let rest: Vec<NodeId> =
        government.minority.iter().chain(&government.learners).copied().filter(|node| !absent.contains(node)).collect();
    let place = match relays.iter().position(|&node| node == me) {
        Some(place) => place,
        None => match rest.iter().position(|&node| node == me) {
            Some(place) => relays.len() + place,
            None => return Vec::new(),
        },
    };
    rest.iter().copied().skip(place * fan_out).take(fan_out).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::Cause;

    fn government(voters: u32, nodes: u32) -> Government {
        let voters: Vec<NodeId> = (1..=voters).map(NodeId).collect();
        Government::of(&voters, (1..=nodes).map(NodeId), Cause::Elected)
    }

    #[test]
    fn every_node_but_the_majority_has_exactly_one_parent() {
        for (voters, nodes) in [(1, 1), (1, 9), (2, 2), (3, 3), (3, 40), (5, 300)] {
            let government = government(voters, nodes);
            let absent = BTreeSet::new();
            let mut fed: Vec<NodeId> =
                (1..=nodes).flat_map(|me| children_of(NodeId(me), &government, &absent, 4)).collect();
            fed.sort_unstable();
            let expected: Vec<NodeId> =
                (1..=nodes).map(NodeId).filter(|node| !government.majority.contains(node)).collect();
            assert_eq!(fed, expected, "{voters} voters, {nodes} nodes");
        }
    }

    #[test]
    fn the_leader_of_several_voters_feeds_nobody_itself() {
        assert_eq!(children_of(NodeId(1), &government(3, 9), &BTreeSet::new(), 4), []);
        assert_eq!(children_of(NodeId(2), &government(3, 9), &BTreeSet::new(), 2), [NodeId(3), NodeId(4)]);
    }

    #[test]
    fn an_absent_node_is_left_out_and_its_children_move_up() {
        let absent = BTreeSet::from([NodeId(3)]);
        assert_eq!(children_of(NodeId(2), &government(3, 9), &absent, 2), [NodeId(4), NodeId(5)]);
        assert_eq!(children_of(NodeId(3), &government(3, 9), &absent, 2), []);
    }
}
