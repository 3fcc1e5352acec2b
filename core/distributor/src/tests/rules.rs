//! The rules of appointments, one by one.

use super::harness::{Cluster, node};
use crate::Alarm;
use atoll_types::{BucketId, Generation, NodeId, Offset, Operation, Report, Step};
use std::time::Duration;

/// Bucket 0 on 1*, 2 and 5 of five nodes; settled.
fn five() -> Cluster {
    Cluster::of(5, 1, 3, 2)
}

/// The same in the midst of a union with 3.
fn union() -> Cluster {
    let mut cluster = five();
    cluster.expand(0, &[3]);
    cluster.ready(0, 3);
    cluster.unite(0);
    assert_eq!(cluster.picture(0), "1* 2 3? 5");
    cluster
}

#[test]
fn a_move_goes_step_by_step_and_each_waits_for_settled() {
    let mut cluster = union();
    cluster.abdicate(0, 2);
    cluster.contract(0, &[5]);
    assert_eq!(cluster.picture(0), "1* 2 3? 5", "not settled");
    cluster.settle(0);
    assert_eq!(cluster.picture(0), "1* 2 3 5");
    cluster.abdicate(0, 3);
    assert_eq!(cluster.picture(0), "1 2 3* 5");
    cluster.contract(0, &[1]);
    assert_eq!(cluster.picture(0), "1 2 3* 5", "not settled");
    cluster.settle(0);
    cluster.contract(0, &[3]);
    assert_eq!(cluster.picture(0), "1 2 3* 5", "the primary is not dropped");
    cluster.contract(0, &[1]);
    assert_eq!(cluster.picture(0), "2 3* 5");
    assert!(!cluster.distributor.may_purge(BucketId(0), node(1)), "not before the smaller set has settled");
    cluster.settle(0);
    assert!(cluster.distributor.may_purge(BucketId(0), node(1)));
    cluster.contract(0, &[2, 5]);
    assert_eq!(cluster.picture(0), "2 3* 5", "not below min_copies");
}

#[test]
fn ready_and_settled_of_another_epoch_or_another_node_count_for_nothing() {
    let mut cluster = five();
    cluster.expand(0, &[3]);
    let epoch = cluster.bucket(0).epoch();
    cluster.report(node(2), Report::Ready { bucket: BucketId(0), epoch, node: node(3) });
    cluster.unite(0);
    assert_eq!(cluster.picture(0), "1* 2 5 +3");
    cluster.ready(0, 3);
    cluster.restart(2);
    cluster.settle(0);
    cluster.unite(0);
    assert_eq!(cluster.picture(0), "1* 2 5 +3", "ready was of the epoch before");
    cluster.ready(0, 3);
    cluster.unite(0);
    cluster.report(node(1), Report::Settled { bucket: BucketId(0), epoch });
    assert!(!cluster.bucket(0).settled);
    let epoch = cluster.bucket(0).epoch();
    cluster.report(node(2), Report::Settled { bucket: BucketId(0), epoch });
    assert!(!cluster.bucket(0).settled);
}

#[test]
fn a_removal_before_a_union_has_settled_falls_back_and_after_it_forward() {
    let mut cluster = union();
    cluster.absent(&[1]);
    assert_eq!(cluster.picture(0), "2* 5 +3");
    let mut cluster = union();
    cluster.absent(&[3]);
    assert_eq!(cluster.picture(0), "1* 2 5");
    let mut cluster = union();
    cluster.settle(0);
    cluster.absent(&[1]);
    assert_eq!(cluster.picture(0), "2* 3 5");
}

#[test]
fn below_min_copies_nobody_loses_eligibility_and_nothing_commits() {
    let mut cluster = five();
    cluster.absent(&[2]);
    assert_eq!(cluster.picture(0), "1* 5");
    assert!(cluster.bucket(0).may_commit(2), "an ordinary usurp commits at once");
    cluster.absent(&[5]);
    assert_eq!(cluster.picture(0), "1* !5");
    assert!(!cluster.bucket(0).may_commit(2));
    cluster.expand(0, &[3]);
    cluster.ready(0, 3);
    cluster.unite(0);
    assert_eq!(cluster.picture(0), "1* 3? !5");
    assert!(!cluster.bucket(0).may_commit(2), "5 could still become primary");
    let mut fails =
        Cluster { distributor: cluster.distributor.clone(), roster: cluster.roster.clone(), at: cluster.at };
    cluster.settle(0);
    assert_eq!(cluster.picture(0), "1* 3");
    assert!(cluster.bucket(0).may_commit(2));
    fails.absent(&[1]);
    assert_eq!(fails.picture(0), "!1 !5");
    assert!(!fails.distributor.may_depart_by_time(node(1)));
    fails.present(&[5]);
    assert_eq!(fails.picture(0), "5* !1");
    assert!(fails.distributor.may_depart_by_time(node(1)), "5 is there");
}

#[test]
fn those_removed_by_one_entry_are_one_removal() {
    let mut cluster = five();
    cluster.absent(&[2, 5]);
    assert_eq!(cluster.picture(0), "1* !2 !5");
    cluster.absent(&[1]);
    assert_eq!(cluster.picture(0), "!1 !2 !5");
    assert!(!cluster.bucket(0).is_lost());
    cluster.present(&[2, 5]);
    assert_eq!(cluster.picture(0), "2* 5 !1", "each of them holds everything");
    assert!(!cluster.bucket(0).may_commit(2));
    cluster.settle(0);
    assert_eq!(cluster.picture(0), "2* 5");
}

#[test]
fn an_eligible_node_that_catches_up_leads_when_the_primary_goes() {
    let mut cluster = five();
    cluster.absent(&[2, 5]);
    cluster.present(&[2]);
    assert_eq!(cluster.picture(0), "1* !2 !5");
    cluster.expand(0, &[2]);
    cluster.absent(&[1]);
    assert_eq!(cluster.picture(0), "2* !1 !5");
}

#[test]
fn a_departed_node_is_never_eligible_and_a_bucket_without_any_is_lost() {
    let mut cluster = five();
    cluster.absent(&[2, 5]);
    cluster.depart(2);
    assert_eq!(cluster.picture(0), "1* !5");
    cluster.depart(5);
    assert_eq!(cluster.picture(0), "1*");
    cluster.depart(1);
    assert!(cluster.bucket(0).is_lost());
    assert!(cluster.distributor.duty(BucketId(0)).unwrap().lost);
    cluster.calm(10);
    assert!(cluster.bucket(0).is_lost(), "never re-created");
    assert!(!cluster.distributor.may_purge(BucketId(0), node(3)));
}

#[test]
fn a_lost_bucket_is_revived_only_by_an_operator() {
    let mut cluster = five();
    let revive = |from| Operation::Revive { bucket: BucketId(0), from };
    assert!(cluster.operate(revive(None)).is_err(), "not lost");
    for number in [1, 2, 5] {
        cluster.depart(number);
    }
    assert!(cluster.operate(revive(Some(node(1)))).is_err(), "not there");
    let before = cluster.bucket(0).epoch();
    let mut empty =
        Cluster { distributor: cluster.distributor.clone(), roster: cluster.roster.clone(), at: cluster.at };
    cluster.operate(revive(Some(node(3)))).unwrap();
    assert_eq!((cluster.picture(0).as_str(), cluster.bucket(0).revived), ("3*", 1));
    assert!(cluster.bucket(0).epoch().generations() > before.generations());
    empty.operate(revive(None)).unwrap();
    assert_eq!((empty.picture(0).as_str(), empty.bucket(0).revived), ("3* 4", 1));
    assert_eq!(empty.bucket(0).begins, Some(Offset(empty.at.slot.0 << 32)), "offsets never repeat");
    assert!(empty.bucket(0).settled);
    assert_eq!(empty.bucket(0).epoch().revival, 1);
    cluster.calm(20);
    assert_eq!(cluster.bucket(0).epoch().revival, 1, "and stays so");
}

#[test]
fn a_restart_gives_every_bucket_of_the_node_a_new_epoch() {
    let mut cluster = five();
    let before = cluster.bucket(0).epoch();
    cluster.restart(3);
    assert_eq!(cluster.bucket(0).epoch(), before);
    cluster.restart(2);
    assert!(cluster.bucket(0).epoch() > before && !cluster.bucket(0).settled);
    assert_eq!(cluster.picture(0), "1* 2 5");
    cluster.roster.get_mut(&node(1)).unwrap().durable = false;
    cluster.restart(1);
    assert_eq!(cluster.picture(0), "2* 5", "it cannot have kept its copy");
}

#[test]
fn a_new_generation_renews_every_epoch() {
    let mut cluster = Cluster::of(5, 4, 3, 2);
    cluster.at.generation = Generation { number: 1, by: node(1) };
    cluster.roster.remove(&node(5));
    cluster.on_roster();
    let of_now = |cluster: &Cluster| {
        cluster.distributor.buckets().values().all(|bucket| bucket.epoch().generation == cluster.at.generation)
    };
    assert!(of_now(&cluster));
    cluster.at.generation = Generation { number: 2, by: node(1) };
    cluster.order(vec![]);
    assert!(of_now(&cluster), "whatever entry is the first of it");
}

#[test]
fn an_order_counts_once_and_not_after_a_removal() {
    let mut cluster = five();
    let epoch = cluster.bucket(0).epoch();
    let step = |add: u32| vec![Step::Expand { bucket: BucketId(0), epoch, add: vec![node(add)] }];
    let first = cluster.distributor.order(step(3));
    let rival = cluster.distributor.order(step(4));
    for order in [&first, &rival, &first] {
        let at = cluster.next();
        cluster.distributor.on_order(at, order);
    }
    assert_eq!(cluster.picture(0), "1* 2 5 +3");
    let late = cluster.distributor.order(step(4));
    cluster.complain(0, 1, 3);
    cluster.absent(&[3]);
    let at = cluster.next();
    cluster.distributor.on_order(at, &late);
    assert_eq!(cluster.picture(0), "1* 2 5");
}

#[test]
fn complaints_remove_a_backup_or_move_the_primary() {
    let mut cluster = five();
    cluster.complain(0, 2, 5);
    cluster.complain(0, 3, 1);
    assert_eq!(cluster.picture(0), "1* 2 5", "a backup about a backup, a stranger");
    cluster.complain(0, 1, 5);
    assert_eq!(cluster.picture(0), "1* 2");
    cluster.settle(0);
    cluster.complain(0, 1, 2);
    assert_eq!(cluster.picture(0), "1* 2", "too few would remain");
    cluster.complain(0, 2, 1);
    assert_eq!(cluster.picture(0), "1 2*", "it leads, and both stay");
    let mut cluster = five();
    cluster.complain(0, 5, 1);
    assert_eq!(cluster.picture(0), "2 5*");
    let mut cluster = five();
    cluster.complain(0, 1, 1);
    assert_eq!(cluster.picture(0), "2* 5");
}

#[test]
fn two_members_that_never_reach_each_other_let_a_third_in() {
    let mut cluster = five();
    cluster.complain(0, 1, 5);
    cluster.complain(0, 1, 2);
    assert_eq!(cluster.picture(0), "1* !2", "the epoch never settled: it could not have gone on");
    assert!(!cluster.bucket(0).may_commit(2));
    cluster.calm(100);
    assert_eq!(cluster.bucket(0).members().len(), 3);
}

#[test]
fn a_lone_primary_that_reaches_nobody_makes_way_for_another_eligible_node() {
    let mut cluster = Cluster::of(3, 1, 3, 2);
    cluster.absent(&[2, 3]);
    cluster.present(&[2, 3]);
    cluster.expand(0, &[2, 3]);
    cluster.complain(0, 1, 2);
    cluster.complain(0, 1, 3);
    assert_eq!(cluster.picture(0), "1* !2 !3");
    cluster.abdicate(0, 2);
    assert_eq!(cluster.picture(0), "2* !1 !3");
}

#[test]
fn a_damaged_copy_is_neither_member_nor_eligible() {
    let mut cluster = five();
    let epoch = cluster.bucket(0).epoch();
    cluster.report(node(1), Report::Damaged { bucket: BucketId(0), epoch });
    assert_eq!(cluster.picture(0), "2* 5 +1");
    cluster.report(node(2), Report::Damaged { bucket: BucketId(0), epoch });
    assert_eq!(cluster.picture(0), "2* 5 +1", "said of an epoch that is over");
    let epoch = cluster.bucket(0).epoch();
    cluster.report(node(2), Report::Damaged { bucket: BucketId(0), epoch });
    assert_eq!(cluster.picture(0), "5* +1 +2");
    let epoch = cluster.bucket(0).epoch();
    cluster.report(node(5), Report::Damaged { bucket: BucketId(0), epoch });
    assert!(cluster.bucket(0).is_lost());
    assert_eq!(cluster.picture(0), "");
}

#[test]
fn a_split_is_one_entry_for_both_halves_and_a_removal_calls_it_off() {
    let split = |cluster: &mut Cluster| {
        let epoch = cluster.bucket(0).epoch();
        cluster.order(vec![Step::Split { bucket: BucketId(0), epoch }]);
    };
    let mut cluster = five();
    cluster.divide(0);
    assert_eq!(cluster.distributor.buckets().len(), 1, "nobody asked for it");
    split(&mut cluster);
    assert!(cluster.bucket(0).splitting);
    cluster.expand(0, &[3]);
    cluster.absent(&[5]);
    assert!(!cluster.bucket(0).splitting && cluster.bucket(0).split_wanted);
    assert_eq!(cluster.picture(0), "1* 2");
    split(&mut cluster);
    assert!(!cluster.bucket(0).splitting, "not settled");
    cluster.settle(0);
    split(&mut cluster);
    cluster.divide(0);
    assert_eq!((cluster.picture(0).as_str(), cluster.picture(8192).as_str()), ("1* 2", "1 2*"));
    let (lower, upper) = (cluster.bucket(0), cluster.bucket(8192));
    assert_eq!(lower.divided.map(|(from, _)| from), Some(BucketId(0)));
    assert_eq!(lower.divided, upper.divided);
    assert_eq!((lower.epoch(), lower.settled, upper.settled), (upper.epoch(), false, false));
    assert_eq!(cluster.distributor.bucket_of(atoll_types::HashSlot(8191)), Some(BucketId(0)));
    assert_eq!(cluster.distributor.bucket_of(atoll_types::HashSlot(8192)), Some(BucketId(8192)));
}

#[test]
fn an_old_copy_of_a_whole_bucket_is_kept_until_both_halves_are_safe() {
    let mut cluster = Cluster::of(4, 1, 3, 2);
    assert!(cluster.distributor.may_purge(BucketId(0), node(3)));
    let epoch = cluster.bucket(0).epoch();
    cluster.order(vec![Step::Split { bucket: BucketId(0), epoch }]);
    cluster.divide(0);
    cluster.settle(0);
    assert!(!cluster.distributor.may_purge(BucketId(0), node(3)));
    cluster.settle(8192);
    assert!(cluster.distributor.may_purge(BucketId(0), node(3)));
    assert!(!cluster.distributor.may_purge(BucketId(77), node(3)), "no such bucket");
}

#[test]
fn changed_duties_are_told_once_and_a_snapshot_is_the_state() {
    let mut cluster = five();
    assert_eq!(cluster.distributor.take_changed().len(), 1);
    assert!(cluster.distributor.take_changed().is_empty());
    cluster.expand(0, &[3]);
    let bytes = postcard::to_allocvec(&cluster.distributor).unwrap();
    let mut copy: crate::Distributor = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(copy, cluster.distributor);
    assert!(copy.take_changed().is_empty());
    assert_eq!(NodeId::NOBODY, NodeId(0));
}

/// One step of a move of bucket 0 from 1, 2, 5 to 2, 3, 5.
type Stage = fn(&mut Cluster);

#[test]
fn any_node_may_be_removed_at_any_step_of_a_move() {
    let stages: [Stage; 9] = [
        |cluster| cluster.expand(0, &[3]),
        |cluster| cluster.ready(0, 3),
        |cluster| cluster.unite(0),
        |cluster| cluster.settle(0),
        |cluster| cluster.abdicate(0, 3),
        |cluster| cluster.settle(0),
        |cluster| cluster.contract(0, &[1]),
        |cluster| cluster.settle(0),
        |_| {},
    ];
    // A union that has not settled falls back; whoever is left serves at once.
    let expected = ["2* 5 +3", "2* 5 +3", "2* 5 +3", "2* 3 5", "2 3* 5", "2 3* 5", "2 3* 5", "2 3* 5", "2 3* 5"];
    for gone in 1..=5 {
        for stage in 0..stages.len() {
            let mut cluster = five();
            stages[..=stage].iter().for_each(|step| step(&mut cluster));
            cluster.absent(&[gone]);
            let bucket = cluster.bucket(0);
            assert!(!bucket.primary().is_nobody() && bucket.may_commit(2), "{gone} at {stage}: {bucket:?}");
            if gone == 1 {
                assert_eq!(cluster.picture(0), expected[stage], "at {stage}");
            }
            stages[stage + 1..].iter().for_each(|step| step(&mut cluster));
            cluster.present(&[gone]);
            cluster.calm(100);
            assert!(cluster.distributor.is_quiet());
        }
    }
}

fn off(cluster: &mut Cluster, number: u32, skewed: bool) {
    cluster.roster.get_mut(&node(number)).unwrap().skewed = skewed;
    cluster.on_roster();
}

#[test]
fn a_node_whose_clock_is_off_is_chosen_last() {
    let mut cluster = five();
    off(&mut cluster, 2, true);
    cluster.absent(&[1]);
    assert_eq!(cluster.picture(0), "2 5*", "the other has no fewer, and its clock is right");
    let mut cluster = five();
    off(&mut cluster, 2, true);
    cluster.complain(0, 2, 1);
    assert_eq!(cluster.picture(0), "2 5*", "even if it is the one that complains");
    let mut cluster = five();
    off(&mut cluster, 2, true);
    cluster.absent(&[1, 5]);
    assert_eq!(cluster.bucket(0).primary(), node(2), "but it leads where nobody else can");
    assert_eq!(cluster.distributor.alarms().last(), Some(&Alarm::Skewed { node: node(2), leads: 1 }));
    let mut cluster = Cluster::blank(3);
    off(&mut cluster, 1, true);
    let (buckets, copies, min_copies) = (16, 3, 2);
    cluster.order(vec![Step::Place { buckets, copies, min_copies, lease: Duration::ZERO }]);
    assert_eq!(cluster.loads()[&node(1)].1, 0, "nor is it placed first");
}

#[test]
fn a_node_whose_clock_is_off_hands_over_and_leads_again_when_it_is_right() {
    let mut cluster = Cluster::of(3, 16, 3, 2);
    cluster.calm(100);
    off(&mut cluster, 2, true);
    cluster.calm(100);
    let primaries = |cluster: &Cluster| [1, 2, 3].map(|number| cluster.loads()[&node(number)].1);
    assert_eq!(primaries(&cluster), [8, 0, 8]);
    cluster.operate(Operation::HandOver { node: node(3) }).unwrap();
    assert_eq!(primaries(&cluster), [16, 0, 0]);
    off(&mut cluster, 2, false);
    cluster.calm(100);
    assert_eq!(primaries(&cluster)[1], 8);
}
