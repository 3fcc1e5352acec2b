//! Large clusters: everybody arrives, and the leader's work per entry does not grow with the cluster.

use atoll_sim::{Census, grow};

/// Messages of the leader per decided entry, beyond what it sends when nothing happens: to the followers of a majority
/// of three, with the mark that it is decided, and answers to submitters.
const PER_ENTRY: u64 = 12;

fn check(census: &Census, nodes: usize) {
    println!("{nodes} nodes: {census:?}");
    assert!(census.violation.is_none(), "{:?}", census.violation);
    assert_eq!(census.present, nodes);
    assert!(census.entries >= 400, "{census:?}");
    let busy = census.leader_messages.saturating_sub(census.idle_messages);
    assert!(busy <= PER_ENTRY * census.entries, "{census:?}");
}

#[test]
fn a_hundred_nodes_arrive_and_the_leader_stays_bounded() {
    check(&grow(1, 100), 100);
}

#[test]
fn three_hundred_nodes_arrive_and_the_leader_stays_bounded() {
    check(&grow(1, 300), 300);
}
