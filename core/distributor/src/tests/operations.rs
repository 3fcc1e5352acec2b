//! What operators want.

use super::harness::{Cluster, node};
use crate::{Hypothesis, Impossible, Move};
use atoll_types::{BucketId, Operation};

#[test]
fn a_hand_over_moves_every_primary_at_once_and_none_comes_back() {
    let mut cluster = Cluster::of(3, 16, 3, 2);
    cluster.operate(Operation::HandOver { node: node(1) }).unwrap();
    assert_eq!(cluster.loads()[&node(1)], (16, 0));
    cluster.calm(100);
    assert_eq!(cluster.loads()[&node(1)], (16, 0));
    cluster.restart(1);
    cluster.calm(100);
    cluster.assert_level();
    assert!(cluster.distributor.is_quiet());
}

#[test]
fn wishes_that_cannot_be_granted_say_why() {
    let mut blank = Cluster::blank(3);
    assert_eq!(blank.operate(Operation::Split { bucket: None }), Err(Impossible::NotPlaced));
    let mut cluster = Cluster::of(2, 16, 3, 2);
    let refused = cluster.operate(Operation::Drain { node: node(1) }).unwrap_err();
    assert_eq!(refused.to_string(), "1 nodes would remain, and 2 are needed to commit anything");
    assert!(cluster.operate(Operation::Drain { node: node(9) }).is_err());
    assert!(cluster.operate(Operation::Undrain { node: node(1) }).is_err());
    assert!(cluster.operate(Operation::Split { bucket: Some(BucketId(3)) }).is_err());
}

#[test]
fn a_dry_run_tells_what_a_departure_moves_and_changes_nothing() {
    let cluster = Cluster::of(4, 16, 3, 2);
    let before = cluster.distributor.clone();
    let plan = cluster.distributor.plan(&Hypothesis::Departure { node: node(2) });
    let copies = plan.moves.iter().filter(|step| matches!(step, Move::Copy { .. })).count();
    assert_eq!(copies, 12, "{plan:?}");
    assert_eq!(cluster.distributor, before);
    let plan = cluster.distributor.plan(&Hypothesis::Split { bucket: Some(BucketId(0)) });
    assert!(plan.moves.contains(&Move::Halve { bucket: BucketId(0) }));
    assert!(!cluster.distributor.plan(&Hypothesis::Drain { node: node(2) }).moves.is_empty());
    assert_eq!(cluster.distributor.plan(&Hypothesis::Nothing).moves, []);
}
