//! What the leader proposes: recovery, leveling, drains, splits; that it ends, and ends level.

use super::harness::{Cluster, node, standing};
use crate::{Alarm, Hypothesis, Move, Settings};
use atoll_types::{Name, Operation, Step};
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn first_placement_is_level_and_by_neighbours() {
    let cluster = Cluster::of(5, 64, 3, 2);
    assert_eq!(cluster.picture(0), "1* 2 5");
    assert_eq!(cluster.picture(256), "1 2* 3");
    for nodes in 1..=9 {
        let mut cluster = Cluster::of(nodes, 64, 3, 1);
        cluster.assert_level();
        assert!(cluster.distributor.is_quiet(), "{nodes} nodes");
        assert_eq!(cluster.calm(10), 0);
    }
}

#[test]
fn first_placement_spreads_over_zones_and_heeds_weights() {
    let mut cluster = Cluster::blank(0);
    for number in 1..=6 {
        let zone = ["a", "a", "b", "b", "c", "c"][number as usize - 1];
        cluster.roster.insert(node(number), standing(zone, if number == 1 { 2 } else { 1 }));
    }
    cluster.on_roster();
    cluster.order(vec![Step::Place { buckets: 64, copies: 3, min_copies: 2, lease: Duration::ZERO }]);
    for bucket in cluster.distributor.buckets().values() {
        let zones: BTreeSet<&Name> = bucket.members().iter().map(|member| &cluster.roster[member].zone).collect();
        assert_eq!(zones.len(), 3, "{bucket:?}");
    }
    let loads = cluster.loads();
    assert!(loads[&node(1)].1 >= 2 * loads[&node(2)].1 - 1, "weights count: {loads:?}");
    let before = loads.clone();
    assert!(cluster.calm(40) <= 40);
    assert_eq!(cluster.loads()[&node(1)].0, before[&node(1)].0);
}

#[test]
fn an_arrival_is_levelled_with_the_fewest_moves() {
    let mut cluster = Cluster::of(4, 64, 3, 2);
    cluster.arrive(5);
    let orders = cluster.calm(1000);
    cluster.assert_level();
    assert!(cluster.distributor.is_quiet());
    // 192 copies on five nodes: 38 of them on the newcomer. Each takes an expand, a unite and a contract.
    assert!(orders <= 38 * 4 + 20, "{orders}");
    let cluster = Cluster::of(4, 64, 3, 2);
    let plan = cluster.distributor.plan(&Hypothesis::Arrival { zone: Name::from("z"), weight: 1 });
    let copies = plan.moves.iter().filter(|step| matches!(step, Move::Copy { .. })).count();
    assert_eq!((copies, plan.alarms), (38, vec![]));
}

#[test]
fn a_removal_is_recovered_and_a_return_levelled() {
    let mut cluster = Cluster::of(5, 64, 3, 2);
    cluster.absent(&[2]);
    assert!(cluster.distributor.buckets().values().all(|bucket| !bucket.primary().is_nobody()));
    cluster.calm(1000);
    cluster.assert_level();
    assert!(cluster.distributor.buckets().values().all(|bucket| bucket.members().len() == 3));
    cluster.present(&[2]);
    cluster.calm(1000);
    cluster.assert_level();
    assert!(cluster.distributor.is_quiet());
}

#[test]
fn three_nodes_lose_one_and_get_it_back() {
    let mut cluster = Cluster::of(3, 16, 3, 2);
    cluster.absent(&[1]);
    cluster.calm(100);
    assert!(!cluster.distributor.is_quiet(), "copies are missing");
    assert!(matches!(cluster.distributor.alarms()[..], [Alarm::Short { buckets: 16, nodes: 2, wanted: 3 }]));
    cluster.present(&[1]);
    cluster.calm(200);
    assert!(cluster.distributor.is_quiet());
    cluster.assert_level();
}

#[test]
fn a_drain_moves_everything_and_says_when_it_is_done() {
    let mut cluster = Cluster::of(5, 32, 3, 2);
    cluster.operate(Operation::Drain { node: node(3) }).unwrap();
    cluster.operate(Operation::Drain { node: node(4) }).unwrap();
    assert_eq!(cluster.distributor.drained(), []);
    cluster.calm(1000);
    assert_eq!(cluster.distributor.drained(), [node(3), node(4)]);
    cluster.depart(3);
    cluster.depart(4);
    cluster.calm(1000);
    assert!(cluster.distributor.is_quiet());
    cluster.assert_level();
}

#[test]
fn a_drain_without_a_spare_contracts_and_one_below_min_copies_is_refused() {
    let mut cluster = Cluster::of(3, 16, 3, 2);
    cluster.operate(Operation::Drain { node: node(3) }).unwrap();
    cluster.calm(1000);
    assert!(cluster.distributor.alarms().contains(&Alarm::DrainWithoutSpare { node: node(3) }));
    assert_eq!(cluster.distributor.drained(), [node(3)]);
    assert!(cluster.operate(Operation::Drain { node: node(2) }).is_err());
    cluster.operate(Operation::Undrain { node: node(3) }).unwrap();
    cluster.calm(1000);
    assert!(cluster.distributor.is_quiet());
}

#[test]
fn splits_double_the_buckets_and_keep_them_level() {
    let mut cluster = Cluster::of(5, 16, 3, 2);
    cluster.operate(Operation::Split { bucket: None }).unwrap();
    cluster.calm(1000);
    assert_eq!(cluster.distributor.buckets().len(), 32);
    cluster.assert_level();
    assert!(cluster.distributor.is_quiet());
}

#[test]
fn zones_are_mended_when_a_node_arrives_in_a_new_one() {
    let mut cluster = Cluster::blank(0);
    for number in 1..=4 {
        cluster.roster.insert(node(number), standing(if number < 3 { "a" } else { "b" }, 1));
    }
    cluster.on_roster();
    cluster.order(vec![Step::Place { buckets: 16, copies: 3, min_copies: 2, lease: Duration::ZERO }]);
    cluster.calm(100);
    cluster.roster.insert(node(5), standing("c", 1));
    cluster.on_roster();
    cluster.calm(1000);
    assert!(cluster.distributor.buckets().values().all(|bucket| bucket.appointment.is_member(node(5))));
}

#[test]
fn a_flapping_node_waits_before_it_is_given_anything() {
    let mut cluster = Cluster::of(4, 16, 3, 2);
    for _ in 0..3 {
        cluster.absent(&[4]);
        cluster.present(&[4]);
    }
    cluster.report_all();
    let waits = cluster.distributor.nodes()[&node(4)].waits_until;
    assert_eq!(waits.since(cluster.at.time).as_secs(), 1, "the third absence, two seconds");
    let order = cluster.distributor.next_order(cluster.at.time, &Settings::default()).unwrap();
    let gives = |step: &Step| matches!(step, Step::Expand { add, .. } if add.contains(&node(4)));
    assert!(!order.steps.iter().any(gives), "{order:?}");
    cluster.calm(1000);
    cluster.assert_level();
}

#[test]
fn a_copy_is_not_given_over_a_link_that_somebody_complained_of() {
    let mut cluster = Cluster::of(4, 1, 3, 2);
    assert_eq!(cluster.picture(0), "1* 2 4");
    cluster.complain(0, 1, 2);
    assert_eq!(cluster.picture(0), "1* 4");
    cluster.settle(0);
    let order = cluster.distributor.next_order(cluster.at.time, &Settings::default()).unwrap();
    assert!(matches!(&order.steps[..], [Step::Expand { add, .. }] if add == &[node(3)]), "{order:?}");
    cluster.expand(0, &[3]);
    cluster.complain(0, 1, 3);
    assert_eq!(cluster.picture(0), "1* 4");
    // Nobody is left whom 1 reaches, but 4 reaches them.
    let order = cluster.distributor.next_order(cluster.at.time, &Settings::default()).unwrap();
    assert!(matches!(&order.steps[..], [Step::Abdicate { to, .. }] if *to == node(4)), "{order:?}");
    cluster.calm(100);
    assert_eq!(cluster.bucket(0).members().len(), 3);
}

#[test]
fn a_transfer_that_is_wanted_goes_on_under_the_next_leader() {
    let mut cluster = Cluster::of(4, 16, 3, 2);
    cluster.arrive(5);
    let order = cluster.distributor.next_order(cluster.at.time, &Settings::default()).unwrap();
    let at = cluster.next();
    cluster.distributor.on_order(at, &order);
    assert_eq!(cluster.distributor.next_order(cluster.at.time, &Settings::default()), None, "it waits for ready");
    cluster.roster.get_mut(&node(5)).unwrap().leaving = true;
    cluster.on_roster();
    let order = cluster.distributor.next_order(cluster.at.time, &Settings::default()).unwrap();
    assert!(matches!(order.steps[..], [Step::Abandon { .. }]), "{order:?}");
}

/// Others complain while it is away and when it is back: what that moved is level again once the complaints lapse.
#[test]
fn primaries_are_level_after_a_stop_in_good_order_and_complaints() {
    for durable in [false, true] {
        let mut cluster = Cluster::of(3, 64, 3, 2);
        cluster.calm(100);
        cluster.operate(Operation::HandOver { node: node(2) }).unwrap();
        assert_eq!(cluster.loads()[&node(2)].1, 0);
        cluster.report_all();
        if durable {
            let stopped = cluster.roster.get_mut(&node(2)).unwrap();
            (stopped.durable, stopped.present, stopped.stopped) = (true, false, true);
            cluster.on_roster();
            cluster.report_all();
            let back = cluster.roster.get_mut(&node(2)).unwrap();
            (back.present, back.stopped) = (true, false);
            cluster.restart(2);
        } else {
            cluster.depart(2);
            cluster.report_all();
            cluster.arrive(4);
        }
        for _ in 0..20 {
            if let Some(order) = cluster.distributor.next_order(cluster.at.time, &Settings::default()) {
                cluster.order(order.steps);
            }
            cluster.report_all();
        }
        for id in (0..64).map(|place| place * 256) {
            if cluster.bucket(id).primary() == node(1) && id % 1024 == 0 {
                cluster.complain(id, 3, 1);
            }
        }
        let before = cluster.loads();
        cluster.calm(2000);
        cluster.assert_level();
        assert!(before.values().any(|load| load.1 > 24), "they were not: {before:?}");
        assert!(cluster.distributor.is_quiet());
    }
}
