//! A cluster of well-behaved nodes around a distributor: decides entries, and reports what the distributor waits for.

use crate::{Decided, Distributor, Roster, Settings, Standing};
use atoll_types::{BucketId, Cookie, Generation, Incarnation, Name, NodeId, Operation, Report, Slot, Step, Time};
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) struct Cluster {
    pub(super) distributor: Distributor,
    pub(super) roster: Roster,
    pub(super) at: Decided,
}

pub(super) fn standing(zone: &str, weight: u32) -> Standing {
    let incarnation = Incarnation { life: 1, cookie: Cookie(1) };
    Standing {
        present: true,
        incarnation,
        zone: Name::from(zone),
        weight,
        durable: true,
        leaving: false,
        stopped: false,
        skewed: false,
    }
}

pub(super) fn node(number: u32) -> NodeId {
    NodeId(number)
}

impl Cluster {
    /// Nodes 1 to `nodes`, in one zone, without buckets.
    pub(super) fn blank(nodes: u32) -> Cluster {
        let roster = (1..=nodes).map(|number| (NodeId(number), standing("z", 1))).collect();
        let at = Decided { slot: Slot(0), generation: Generation::default(), time: Time(1_000_000_000) };
        let mut cluster = Cluster { distributor: Distributor::new(), roster, at };
        cluster.on_roster();
        cluster
    }

    pub(super) fn of(nodes: u32, buckets: u16, copies: u8, min_copies: u8) -> Cluster {
        let mut cluster = Cluster::blank(nodes);
        cluster.order(vec![Step::Place { buckets, copies, min_copies, lease: Duration::ZERO }]);
        cluster
    }

    pub(super) fn next(&mut self) -> Decided {
        self.at.slot = self.at.slot.next();
        self.at.time = Time(self.at.time.0 + 1000);
        self.at
    }

    pub(super) fn on_roster(&mut self) {
        let at = self.next();
        self.distributor.on_roster(at, &self.roster);
        self.distributor.check();
    }

    pub(super) fn order(&mut self, steps: Vec<Step>) {
        let order = self.distributor.order(steps);
        let at = self.next();
        self.distributor.on_order(at, &order);
        self.distributor.check();
    }

    pub(super) fn report(&mut self, from: NodeId, report: Report) {
        let at = self.next();
        self.distributor.on_reports(at, from, &[report]);
        self.distributor.check();
    }

    pub(super) fn operate(&mut self, operation: Operation) -> Result<(), crate::Impossible> {
        let at = self.next();
        let result = self.distributor.on_operation(at, &operation);
        self.distributor.check();
        result
    }

    pub(super) fn absent(&mut self, nodes: &[u32]) {
        for &number in nodes {
            self.roster.get_mut(&NodeId(number)).unwrap().present = false;
        }
        self.on_roster();
    }

    pub(super) fn present(&mut self, nodes: &[u32]) {
        for &number in nodes {
            self.roster.get_mut(&NodeId(number)).unwrap().present = true;
        }
        self.on_roster();
    }

    pub(super) fn depart(&mut self, number: u32) {
        self.roster.remove(&NodeId(number));
        self.on_roster();
    }

    pub(super) fn arrive(&mut self, number: u32) {
        self.roster.insert(NodeId(number), standing("z", 1));
        self.on_roster();
    }

    pub(super) fn restart(&mut self, number: u32) {
        let known = self.roster.get_mut(&NodeId(number)).unwrap();
        known.incarnation = Incarnation { life: known.incarnation.life + 1, cookie: Cookie(self.at.slot.0 + 7) };
        self.on_roster();
    }

    pub(super) fn bucket(&self, id: u16) -> &crate::Bucket {
        &self.distributor.buckets()[&BucketId(id)]
    }

    /// `1* 2 3 +4 !5`: the primary with a star, others that catch up with a plus, eligible strangers with a mark.
    pub(super) fn picture(&self, id: u16) -> String {
        let bucket = self.bucket(id);
        let mut words = Vec::new();
        for &member in bucket.members() {
            let star = if member == bucket.primary() { "*" } else { "" };
            let doubt = if bucket.is_eligible(member) { "" } else { "?" };
            words.push(format!("{}{star}{doubt}", member.0));
        }
        words.extend(bucket.catching_up().iter().map(|node| format!("+{}", node.0)));
        let strangers = bucket.eligible.iter().filter(|&&node| !bucket.appointment.is_member(node));
        words.extend(strangers.map(|node| format!("!{}", node.0)));
        words.join(" ")
    }

    pub(super) fn expand(&mut self, id: u16, add: &[u32]) {
        let epoch = self.bucket(id).epoch();
        let add = add.iter().map(|&number| NodeId(number)).collect();
        self.order(vec![Step::Expand { bucket: BucketId(id), epoch, add }]);
    }

    pub(super) fn unite(&mut self, id: u16) {
        let epoch = self.bucket(id).epoch();
        self.order(vec![Step::Unite { bucket: BucketId(id), epoch }]);
    }

    pub(super) fn abdicate(&mut self, id: u16, to: u32) {
        let epoch = self.bucket(id).epoch();
        self.order(vec![Step::Abdicate { bucket: BucketId(id), epoch, to: NodeId(to) }]);
    }

    pub(super) fn contract(&mut self, id: u16, drop: &[u32]) {
        let epoch = self.bucket(id).epoch();
        let drop = drop.iter().map(|&number| NodeId(number)).collect();
        self.order(vec![Step::Contract { bucket: BucketId(id), epoch, drop }]);
    }

    pub(super) fn ready(&mut self, id: u16, who: u32) {
        let (bucket, epoch, from) = (BucketId(id), self.bucket(id).epoch(), self.bucket(id).primary());
        self.report(from, Report::Ready { bucket, epoch, node: NodeId(who) });
    }

    pub(super) fn settle(&mut self, id: u16) {
        let (bucket, epoch, from) = (BucketId(id), self.bucket(id).epoch(), self.bucket(id).primary());
        self.report(from, Report::Settled { bucket, epoch });
    }

    pub(super) fn divide(&mut self, id: u16) {
        let (bucket, epoch, from) = (BucketId(id), self.bucket(id).epoch(), self.bucket(id).primary());
        self.report(from, Report::Divided { bucket, epoch });
    }

    pub(super) fn complain(&mut self, id: u16, from: u32, about: u32) {
        let (bucket, epoch) = (BucketId(id), self.bucket(id).epoch());
        self.report(NodeId(from), Report::Complain { bucket, epoch, about: NodeId(about) });
    }

    /// Everything that the distributor waits for is reported. Was there anything?
    pub(super) fn report_all(&mut self) -> bool {
        let mut reports: BTreeMap<NodeId, Vec<Report>> = BTreeMap::new();
        for (&bucket, known) in self.distributor.buckets() {
            let epoch = known.epoch();
            let from = reports.entry(known.primary()).or_default();
            if !known.settled {
                from.push(Report::Settled { bucket, epoch });
            }
            if known.splitting {
                from.push(Report::Divided { bucket, epoch });
            }
            let waits = known.catching_up().iter().filter(|node| !known.ready.contains(node));
            from.extend(waits.map(|&node| Report::Ready { bucket, epoch, node }));
        }
        reports.retain(|from, reports| !from.is_nobody() && !reports.is_empty());
        for (&from, reports) in &reports {
            let at = self.next();
            self.distributor.on_reports(at, from, reports);
        }
        !reports.is_empty()
    }

    /// The same while two nodes do not reach each other: whoever waits for the other complains.
    pub(super) fn report_over_cut_link(&mut self, ends: (NodeId, NodeId), backups_first: bool) {
        let is_cut = |one, other| (one, other) == ends || (other, one) == ends;
        let mut reports: Vec<(NodeId, Report)> = Vec::new();
        for (&bucket, known) in self.distributor.buckets() {
            let (epoch, primary) = (known.epoch(), known.primary());
            let mut reached = true;
            for &member in known.members().iter().filter(|&&member| member != primary && is_cut(primary, member)) {
                let (from, about) = if backups_first { (member, primary) } else { (primary, member) };
                reports.push((from, Report::Complain { bucket, epoch, about }));
                reached = false;
            }
            for &node in known.catching_up() {
                if is_cut(primary, node) {
                    reports.push((primary, Report::Complain { bucket, epoch, about: node }));
                } else {
                    reports.push((primary, Report::Ready { bucket, epoch, node }));
                }
            }
            if reached {
                reports.push((primary, Report::Settled { bucket, epoch }));
            }
            if reached && known.splitting {
                reports.push((primary, Report::Divided { bucket, epoch }));
            }
        }
        for (from, report) in reports {
            self.report(from, report);
        }
    }

    /// Orders and reports by turns until all is quiet. How many orders that took.
    pub(super) fn calm(&mut self, orders_most: usize) -> usize {
        self.calm_with(orders_most, &Settings::default())
    }

    pub(super) fn calm_with(&mut self, orders_most: usize, settings: &Settings) -> usize {
        for orders in 0..orders_most {
            while self.report_all() {}
            let Some(order) = self.distributor.next_order(self.at.time, settings) else {
                match self.distributor.next_due(self.at.time) {
                    Some(due) => self.at.time = due,
                    None => return orders,
                }
                continue;
            };
            let at = self.next();
            self.distributor.on_order(at, &order);
            self.distributor.check();
        }
        panic!("not calm after {orders_most} orders: {:?}", self.distributor.next_order(self.at.time, settings));
    }

    /// Copies and primaries of each node that is present and stays.
    pub(super) fn loads(&self) -> BTreeMap<NodeId, (u64, u64)> {
        let stays = self.distributor.nodes().iter().filter(|(_, node)| node.may_hold());
        let mut loads: BTreeMap<NodeId, (u64, u64)> = stays.map(|(&node, _)| (node, (0, 0))).collect();
        for bucket in self.distributor.buckets().values() {
            for member in bucket.members() {
                loads.entry(*member).or_default().0 += 1;
            }
            loads.entry(bucket.primary()).or_default().1 += 1;
        }
        loads
    }

    pub(super) fn assert_level(&self) {
        let loads = self.loads();
        let spread = |values: Vec<u64>| values.iter().max().unwrap() - values.iter().min().unwrap();
        assert!(spread(loads.values().map(|load| load.0).collect()) <= 1, "copies are level: {loads:?}");
        assert!(spread(loads.values().map(|load| load.1).collect()) <= 1, "primaries are level: {loads:?}");
    }
}
