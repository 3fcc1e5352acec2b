//! Random walks: everything that can happen, in any order, with the ghost looking on; then everything heals, and the
//! distributor must come to rest, level.

use super::ghost::{Excuses, Ghost};
use super::harness::{Cluster, standing};
use crate::Settings;
use atoll_types::{BucketId, Bug, Cookie, Generation, NodeId, Operation, Order, Report, Rng, Step};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

struct Walk {
    rng: Rng,
    cluster: Cluster,
    ghost: Ghost,
    excuses: Excuses,
    next_node: u32,
    even: bool,
    /// Orders and reports of the past, to be decided again.
    orders: Vec<Order>,
    reports: Vec<(NodeId, Report)>,
}

impl Walk {
    fn new(seed: u64) -> Walk {
        let mut rng = Rng::new(seed);
        let nodes = 1 + rng.below(6) as u32;
        let even = rng.one_in(2);
        let copies = 1 + rng.below(4) as u8;
        let any = 1 + rng.below(u64::from(copies)) as u8;
        let min_copies = if rng.one_in(2) { any } else { copies.min(2) }.min(nodes as u8);
        let mut cluster = Cluster::blank(0);
        for number in 1..=nodes {
            let standing = Walk::newcomer(&mut rng, even);
            cluster.roster.insert(NodeId(number), standing);
        }
        cluster.on_roster();
        let buckets = 1 << rng.below(4);
        cluster.order(vec![Step::Place { buckets, copies, min_copies, lease: Duration::ZERO }]);
        let (ghost, excuses) = (Ghost::default(), Excuses::default());
        let (orders, reports) = (Vec::new(), Vec::new());
        let mut walk = Walk { rng, cluster, ghost, excuses, next_node: nodes + 1, even, orders, reports };
        walk.look();
        walk
    }

    fn newcomer(rng: &mut Rng, even: bool) -> crate::Standing {
        let zone = if even { "z" } else { ["a", "b", "c"][rng.below(3) as usize] };
        let weight = if even { 1 } else { 1 + rng.below(3) as u32 };
        crate::Standing { durable: !rng.one_in(3), ..standing(zone, weight) }
    }

    /// After each entry.
    fn look(&mut self) {
        self.cluster.distributor.check();
        let excuses = std::mem::take(&mut self.excuses);
        self.ghost.sync(&self.cluster.distributor, &excuses);
    }

    fn any_node(&mut self) -> NodeId {
        let nodes: Vec<NodeId> = self.cluster.roster.keys().copied().collect();
        self.rng.pick(&nodes).copied().unwrap_or(NodeId(1))
    }

    fn any_bucket(&mut self) -> BucketId {
        let buckets: Vec<BucketId> = self.cluster.distributor.buckets().keys().copied().collect();
        self.rng.pick(&buckets).copied().unwrap_or_default()
    }

    fn step(&mut self) {
        match self.rng.below(40) {
            0..=2 => self.standings(),
            3 => self.restart(),
            4..=9 => self.order(),
            10..=12 => self.random_order(),
            13..=22 => self.report(),
            23 => self.complain(),
            24 => self.operate(),
            25.. => self.ghost.act(&self.cluster.distributor, &mut self.rng),
        }
        self.look();
    }

    /// One or several nodes come and go by one entry.
    fn standings(&mut self) {
        for _ in 0..1 + self.rng.below(2) {
            let node = self.any_node();
            match self.rng.below(8) {
                0 if self.cluster.roster.len() > 2 => {
                    self.cluster.roster.remove(&node);
                    self.excuses.forgotten.insert(node);
                }
                1 if self.cluster.roster.len() < 7 => {
                    let standing = Walk::newcomer(&mut self.rng, self.even);
                    self.cluster.roster.insert(NodeId(self.next_node), standing);
                    self.next_node += 1;
                }
                2 if self.rng.one_in(4) => {
                    let number = self.cluster.at.generation.number + 1;
                    self.cluster.at.generation = Generation { number, by: node };
                }
                3 | 4 => self.cluster.roster.values_mut().for_each(|standing| standing.present = true),
                0..=2 | 5.. => {
                    let Some(standing) = self.cluster.roster.get_mut(&node) else { continue };
                    standing.present = !standing.present;
                }
            }
        }
        self.cluster.at.time.0 += self.rng.below(3_000_000);
        self.cluster.on_roster();
    }

    fn restart(&mut self) {
        let node = self.any_node();
        let Some(standing) = self.cluster.roster.get_mut(&node) else { return };
        standing.incarnation.life += 1;
        standing.incarnation.cookie = Cookie(self.rng.next());
        standing.present = !self.rng.one_in(4);
        if !standing.durable {
            self.excuses.forgotten.insert(node);
        }
        let served = self.cluster.distributor.buckets().values().filter(|bucket| bucket.appointment.is_member(node));
        let served: Vec<BucketId> = served.map(|bucket| bucket.id()).collect();
        self.cluster.on_roster();
        for id in served {
            let epoch = self.cluster.distributor.buckets()[&id].epoch();
            assert_eq!(epoch, self.cluster.at.epoch(epoch.revival), "a restart gives its buckets a new epoch");
        }
    }

    fn order(&mut self) {
        let order = match self.rng.below(6) {
            0 => self.rng.pick(&self.orders).cloned(),
            1.. => self
                .cluster
                .distributor
                .next_order(self.cluster.at.time, &Settings { width: 2, steps_most: 8, rests: self.rng.one_in(4) }),
        };
        order.into_iter().for_each(|order| self.decide(order));
    }

    fn decide(&mut self, order: Order) {
        let fresh = self.cluster.distributor.order(order.steps.clone()) == order;
        let before = self.cluster.distributor.clone();
        let at = self.cluster.next();
        self.cluster.distributor.on_order(at, &order);
        let changed = self.cluster.distributor != before && at.generation == before.generation;
        assert!(fresh || !changed, "an order of the past was taken");
        self.orders.push(order);
    }

    /// Steps that no leader in its right mind would propose.
    fn random_order(&mut self) {
        let id = self.any_bucket();
        let (one, other) = (self.any_node(), self.any_node());
        let Some(bucket) = self.cluster.distributor.buckets().get(&id) else { return };
        let (bucket, epoch) = (id, bucket.epoch());
        let step = match self.rng.below(7) {
            0 | 1 => Step::Expand { bucket, epoch, add: vec![one, other] },
            2 => Step::Unite { bucket, epoch },
            3 => Step::Abandon { bucket, epoch, drop: vec![one] },
            4 => Step::Abdicate { bucket, epoch, to: one },
            5 => Step::Contract { bucket, epoch, drop: vec![one, other] },
            6.. => Step::Split { bucket, epoch },
        };
        if self.cluster.distributor.buckets().len() < 24 || !matches!(step, Step::Split { .. }) {
            let order = self.cluster.distributor.order(vec![step]);
            self.decide(order);
        }
    }

    fn report(&mut self) {
        if self.rng.one_in(4)
            && let Some((from, report)) = self.rng.pick(&self.reports).cloned()
        {
            return self.cluster.report(from, report);
        }
        let id = self.any_bucket();
        let Some(known) = self.cluster.distributor.buckets().get(&id).cloned() else { return };
        let (bucket, epoch, from) = (id, known.epoch(), known.primary());
        let joining = self.rng.pick(known.catching_up()).copied();
        let report = match (self.rng.below(4), joining) {
            (0, Some(node)) => Report::Ready { bucket, epoch, node },
            (3.., _) => Report::Sought { bucket, epoch, at: self.any_node() },
            (1, _) if known.splitting && self.ghost.is_open(&known) => Report::Divided { bucket, epoch },
            (0..=2, _) => {
                // Settled is said only of what is so.
                if !from.is_nobody() {
                    self.ghost.open(&known);
                }
                Report::Settled { bucket, epoch }
            }
        };
        self.reports.push((from, report.clone()));
        if !from.is_nobody() {
            self.cluster.report(from, report);
        }
    }

    fn complain(&mut self) {
        let id = self.any_bucket();
        let (from, about) = (self.any_node(), self.any_node());
        let Some(known) = self.cluster.distributor.buckets().get(&id) else { return };
        let present = self.cluster.roster.get(&from).is_some_and(|standing| standing.present);
        let report = if present && self.rng.one_in(5) {
            self.excuses.damaged.insert((id, from));
            self.ghost.damage(id, from, &mut self.rng);
            Report::Damaged { bucket: id, epoch: known.epoch() }
        } else {
            Report::Complain { bucket: id, epoch: known.epoch(), about }
        };
        self.cluster.report(from, report);
    }

    fn operate(&mut self) {
        let (node, bucket) = (self.any_node(), self.any_bucket());
        let few = self.cluster.distributor.buckets().len() < 24;
        let operation = match self.rng.below(7) {
            0 => Operation::Drain { node },
            1 => Operation::Undrain { node },
            2 | 3 => Operation::HandOver { node },
            4 if few => Operation::Split { bucket: Some(bucket) },
            5 => Operation::Revive { bucket, from: Some(node).filter(|_| self.rng.one_in(2)) },
            4 | 6.. => Operation::Rebalance,
        };
        if self.cluster.operate(operation.clone()).is_ok() && matches!(operation, Operation::Revive { .. }) {
            self.excuses.revived.insert(bucket);
        }
    }

    /// Everybody is there and does its part.
    fn heal(&mut self) {
        let stays = self.rng.one_in(2);
        let draining: Vec<NodeId> = self.cluster.distributor.nodes().keys().copied().collect();
        for node in draining.into_iter().filter(|_| stays) {
            let _ = self.cluster.operate(Operation::Undrain { node });
        }
        self.cluster.roster.values_mut().for_each(|standing| standing.present = true);
        self.cluster.on_roster();
        self.look();
        if stays {
            // What is sought nowhere comes back: then primaries are level as well.
            let ids: Vec<BucketId> = self.cluster.distributor.buckets().keys().copied().collect();
            ids.into_iter().for_each(|id| self.cluster.sought(id.0, 0));
        }
        let buckets = self.cluster.distributor.buckets().len();
        let (width, steps_most) = (1 + self.rng.below(4) as usize, 1 + self.rng.below(20) as usize);
        let settings = Settings { width, steps_most, rests: false };
        self.cluster.calm_with(200 + 40 * buckets, &settings);
        let distributor = &self.cluster.distributor;
        assert_eq!(distributor.next_order(self.cluster.at.time, &Settings::default()), None);
        let lost = distributor.buckets().values().any(|bucket| bucket.is_lost());
        if !lost && stays && distributor.nodes().len() >= distributor.min_copies() {
            assert!(distributor.is_quiet(), "{distributor:?}");
            let led = distributor.nodes().values().all(|node| node.may_lead());
            if self.even && led {
                self.cluster.assert_level();
            }
        }
    }
}

fn walk(seed: u64) {
    let mut walk = Walk::new(seed);
    for _ in 0..300 {
        walk.step();
    }
    walk.heal();
}

fn fails(seed: u64) -> bool {
    catch_unwind(AssertUnwindSafe(|| walk(seed))).is_err()
}

#[test]
fn random_walks_keep_every_rule_and_come_to_rest() {
    for seed in 1..=2000 {
        assert!(!fails(seed), "seed {seed}");
    }
}

#[test]
#[ignore = "takes minutes"]
fn many_random_walks() {
    for seed in 2001..=60_000 {
        assert!(!fails(seed), "seed {seed}");
    }
}

/// Whatever happened before: with one link cut for good, every bucket whose members could reach each other is served.
#[test]
fn a_cut_link_stops_no_bucket_for_good() {
    for seed in 1..=300 {
        let mut walk = Walk::new(seed);
        for _ in 0..100 {
            walk.step();
        }
        let spare = 3 + walk.cluster.distributor.min_copies() as u32;
        while walk.cluster.roster.len() < spare as usize {
            let standing = Walk::newcomer(&mut walk.rng, walk.even);
            walk.cluster.roster.insert(NodeId(walk.next_node), standing);
            walk.next_node += 1;
        }
        let nodes: Vec<NodeId> = walk.cluster.distributor.nodes().keys().copied().collect();
        for node in nodes {
            let _ = walk.cluster.operate(Operation::Undrain { node });
        }
        walk.cluster.roster.values_mut().for_each(|standing| standing.present = true);
        walk.cluster.on_roster();
        let ends = (walk.any_node(), walk.any_node());
        let mut served: BTreeMap<BucketId, u32> = BTreeMap::new();
        for round in 0..400 {
            walk.cluster.at.time.0 += 500_000;
            walk.cluster.report_over_cut_link(ends, round % 2 == 0);
            let order = walk.cluster.distributor.next_order(walk.cluster.at.time, &Settings::default());
            order.into_iter().for_each(|order| walk.decide(order));
            walk.cluster.distributor.check();
            for (&id, bucket) in walk.cluster.distributor.buckets().iter().filter(|_| round >= 300) {
                let duty = walk.cluster.distributor.duty(id).unwrap();
                *served.entry(id).or_default() += u32::from(bucket.is_lost() || (duty.settled && duty.may_commit));
            }
        }
        let starved: Vec<_> = served.iter().filter(|&(_, &rounds)| rounds < 60).collect();
        assert!(starved.is_empty(), "seed {seed}, cut {ends:?}: {starved:?} of 100 rounds");
    }
}

#[test]
fn every_planted_bug_of_the_distributor_is_caught() {
    const BUGS: [Bug; 12] = [
        Bug::AbdicateUnsettled,
        Bug::IneligibleUsurps,
        Bug::FallsForwardUnsettled,
        Bug::LostRecreatedEmpty,
        Bug::LastEligiblePurged,
        Bug::StaleReportCounts,
        Bug::BelowMinForgets,
        Bug::CommitBeforeSettledUnion,
        Bug::OldOrderTaken,
        Bug::RestartKeepsEpoch,
        Bug::UpperHalfForgetsMember,
        Bug::ComplaintBelowMin,
    ];
    for bug in BUGS {
        atoll_types::bugs::plant(Some(bug));
        let caught = (1..=5000).find(|&seed| fails(seed));
        atoll_types::bugs::plant(None);
        assert!(caught.is_some(), "{bug:?} was not caught: {}", bug.describe());
        println!("{bug:?} at seed {caught:?}");
    }
}
