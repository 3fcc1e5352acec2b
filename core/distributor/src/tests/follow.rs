//! Primaries go where requests come in, and come back.

use super::harness::{Cluster, node};
use crate::Hypothesis;
use atoll_types::{BucketId, NodeId, Operation, Report};

impl Cluster {
    /// The primary says that requests come in at this node.
    pub(super) fn sought(&mut self, id: u16, at: u32) {
        let (bucket, epoch, from) = (BucketId(id), self.bucket(id).epoch(), self.bucket(id).primary());
        self.report(from, Report::Sought { bucket, epoch, at: NodeId(at) });
    }

    fn all_sought(&mut self, at: u32) {
        for id in self.distributor.buckets().keys().map(|id| id.0).collect::<Vec<_>>() {
            self.sought(id, at);
        }
        self.calm(200);
    }

    fn led_by(&self, number: u32) -> usize {
        self.distributor.buckets().values().filter(|bucket| bucket.primary() == node(number)).count()
    }

    fn lent(&self) -> usize {
        self.distributor.buckets().values().filter(|bucket| !bucket.home.is_nobody()).count()
    }
}

#[test]
fn primaries_go_where_requests_come_in_and_come_back() {
    let mut cluster = Cluster::of(3, 64, 3, 2);
    let before: Vec<NodeId> = cluster.distributor.buckets().values().map(|bucket| bucket.primary()).collect();
    cluster.all_sought(2);
    assert_eq!((cluster.led_by(2), cluster.lent()), (64, 43), "21 were there already");
    assert!(cluster.distributor.is_quiet(), "what is lent needs no leveling");
    cluster.all_sought(3);
    assert_eq!((cluster.led_by(3), cluster.lent()), (64, 43), "where it came from is still its home");
    cluster.all_sought(0);
    let after: Vec<NodeId> = cluster.distributor.buckets().values().map(|bucket| bucket.primary()).collect();
    assert_eq!((after, cluster.lent()), (before, 0));
}

#[test]
fn what_is_said_of_it_counts_only_from_its_primary_now_and_of_a_member() {
    let mut cluster = Cluster::of(4, 64, 3, 2);
    assert_eq!(cluster.picture(0), "1* 2 4");
    let (bucket, epoch) = (BucketId(0), cluster.bucket(0).epoch());
    cluster.report(node(2), Report::Sought { bucket, epoch, at: node(2) });
    cluster.sought(0, 3);
    assert!(cluster.distributor.is_quiet(), "one is not the primary, the other no member");
    cluster.abdicate(0, 2);
    cluster.settle(0);
    cluster.report(node(1), Report::Sought { bucket, epoch, at: node(4) });
    cluster.calm(10);
    assert_eq!(cluster.picture(0), "1* 2 4", "levelled again: it was of an epoch before");
}

#[test]
fn a_newcomer_is_given_its_share_of_what_is_lent() {
    let mut cluster = Cluster::of(3, 64, 3, 2);
    cluster.all_sought(1);
    cluster.arrive(4);
    cluster.calm(1000);
    let home = |number| cluster.distributor.buckets().values().filter(|b| b.steady_leader() == node(number)).count();
    assert!((1..=4).all(|number| home(number) == 16), "level by whom they belong to");
    assert!(cluster.led_by(1) > 16, "and what nobody had to give away is still lent");
}

#[test]
fn whoever_goes_keeps_nothing_that_was_lent() {
    let mut cluster = Cluster::of(4, 64, 3, 2);
    cluster.all_sought(1);
    cluster.absent(&[1]);
    cluster.calm(1000);
    assert_eq!((cluster.led_by(1), cluster.lent()), (0, 0));
    cluster.present(&[1]);
    cluster.calm(1000);
    cluster.assert_level();
    cluster.all_sought(2);
    cluster.operate(Operation::Drain { node: node(2) }).unwrap();
    cluster.calm(1000);
    assert_eq!(cluster.led_by(2), 0);
    cluster.sought(0, 2);
    assert!(cluster.distributor.is_quiet(), "nobody goes to one that is to go");
}

#[test]
fn one_that_is_lent_can_be_halved() {
    let mut cluster = Cluster::of(3, 1, 3, 2);
    cluster.sought(0, 2);
    cluster.calm(10);
    assert_eq!(cluster.picture(0), "1 2* 3");
    cluster.operate(Operation::Split { bucket: None }).unwrap();
    cluster.calm(20);
    let homes: Vec<NodeId> = cluster.distributor.buckets().values().map(|bucket| bucket.home).collect();
    assert_eq!(homes.len(), 2);
    assert!(cluster.distributor.is_quiet());
    let plan = cluster.distributor.plan(&Hypothesis::Nothing);
    assert!(plan.moves.is_empty(), "{plan:?}");
}
