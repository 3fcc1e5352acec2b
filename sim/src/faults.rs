//! The generator of faults: draws what strikes next, and whom, while the run goes on. Nothing is arranged beforehand.
//!
//! Not here: what a seed has switched on (`plan.rs`), the end of all faults (`healing.rs`).

use crate::Violation;
use crate::clock::Moment;
use crate::host::{Host, Life};
use crate::plan::{Kind, Lasting, host_name};
use crate::world::{Happening, World};
use atoll_node::{Config, Input, Order};
use atoll_types::{BucketId, NodeId, Operation, Rng};
use std::time::Duration;

/// Nobody wants more buckets than this.
const BUCKETS_MOST: usize = 24;

#[derive(Debug)]
pub(crate) struct Faults {
    pub(crate) rng: Rng,
    count: u64,
    /// `told[gone][host]`: the host knows that the process is gone.
    told: Vec<Vec<bool>>,
    /// The links that each fault cut.
    cuts: Vec<Vec<(usize, usize)>>,
    pub(crate) over: bool,
}

impl Faults {
    pub(crate) fn new(rng: Rng, hosts: usize) -> Faults {
        Faults { rng, count: 0, told: vec![vec![false; hosts]; hosts], cuts: Vec::new(), over: false }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Was the host told? It is now.
    pub(crate) fn told(&mut self, gone: usize, host: usize) -> bool {
        std::mem::replace(&mut self.told[gone][host], true)
    }

    pub(crate) fn forget_told(&mut self, gone: usize) {
        self.told[gone].fill(false);
    }

    /// A time between half of `span` and one and a half.
    fn about(&mut self, span: Duration) -> Duration {
        self.rng.between(span / 2, span * 3 / 2)
    }

    /// How long a fault lasts: mostly short, sometimes long.
    fn spell(&mut self) -> Duration {
        let most = [200, 1_000, 3_000, 8_000][self.rng.below(4) as usize];
        self.rng.between(Duration::from_millis(20), Duration::from_millis(most))
    }
}

impl World {
    pub(crate) fn next_fault(&mut self) -> Result<(), Violation> {
        if self.faults.over || self.plan.kinds.is_empty() {
            return Ok(());
        }
        let pause = self.faults.about(self.plan.fault_pace);
        self.push(self.now.after(pause), Happening::Fault);
        let Some(&kind) = self.faults.rng.pick(&self.plan.kinds) else { return Ok(()) };
        self.strike(kind)
    }

    fn strike(&mut self, kind: Kind) -> Result<(), Violation> {
        self.faults.count += 1;
        let host = self.draw_victim();
        let until = self.now.after(self.faults.spell());
        match kind {
            Kind::Partition => self.partition(until, true, true),
            Kind::OneWay => {
                let inward = self.faults.rng.one_in(2);
                self.partition(until, inward, !inward);
            }
            Kind::CutLink => self.cut_link(host, until),
            Kind::Clog => self.clog(host, until),
            Kind::Lossy => self.net.lossy(until),
            Kind::Late => self.net.late(until),
            Kind::Crash => self.crash(host, false, until),
            Kind::CrashTwice => {
                self.crash(host, false, until);
                let second = self.faults.rng.below(self.hosts.len() as u64) as usize;
                let until = self.now.after(self.faults.spell());
                self.crash(second, false, until);
            }
            Kind::Amnesia => self.crash(host, true, until),
            Kind::Pause => self.pause(host, until),
            Kind::Jump => self.jump(host),
            Kind::SlowDisk => {
                self.note(format!("the disk of {} is slow", host_name(host)));
                self.hosts[host].has_stalled = true;
                self.hosts[host].disk.slow(until);
            }
            Kind::HangShard => return self.hang_shard(host, until),
            Kind::HangDisk => {
                self.note(format!("the disk of {} hangs until {until:?}", host_name(host)));
                self.hosts[host].has_stalled = true;
                self.hosts[host].disk.hang(until);
            }
            Kind::WholeStop => self.whole_stop(),
            Kind::Depart => return self.order_departure(host),
            Kind::Wish => return self.wish(host),
            Kind::Restart => return self.order_restart(host),
        }
        Ok(())
    }

    /// Anybody, and the leader a little more often than the others.
    fn draw_victim(&mut self) -> usize {
        let drawn = self.faults.rng.below(self.hosts.len() as u64) as usize;
        let leads = |host: &Host| host.view().is_some_and(|view| view.leading.is_some());
        if self.faults.rng.one_in(4) { self.hosts.iter().position(leads).unwrap_or(drawn) } else { drawn }
    }

    fn note(&mut self, text: String) {
        self.trace.mix(self.now.0);
        self.trace.fault(self.now, text);
    }

    /// Cuts a random set of hosts off from the rest, in one direction or both.
    fn partition(&mut self, until: Moment, inward: bool, outward: bool) {
        let mask = self.faults.rng.next();
        let apart = |host: usize| mask >> (host % 64) & 1 == 1;
        let mut links = Vec::new();
        for one in (0..self.hosts.len()).filter(|&host| apart(host)) {
            for other in (0..self.hosts.len()).filter(|&host| !apart(host)) {
                links.extend(outward.then_some((one, other)));
                links.extend(inward.then_some((other, one)));
            }
        }
        let names: Vec<String> = (0..self.hosts.len()).filter(|&host| apart(host)).map(host_name).collect();
        let names = if names.is_empty() { "nobody".to_owned() } else { names.join(", ") };
        self.note(format!("apart until {until}: {names}, inward {inward}, outward {outward}"));
        self.cut_all(links, until);
    }

    fn cut_link(&mut self, one: usize, until: Moment) {
        let other = self.faults.rng.below(self.hosts.len() as u64) as usize;
        let mut links = vec![(one, other)];
        if self.faults.rng.one_in(2) {
            links.push((other, one));
        }
        let names = links.iter().map(|&(from, to)| format!("{} to {}", host_name(from), host_name(to)));
        let names: Vec<String> = names.collect();
        self.note(format!("cut until {until}: {}", names.join(", ")));
        self.cut_all(links, until);
    }

    fn cut_all(&mut self, links: Vec<(usize, usize)>, until: Moment) {
        for &(from, to) in &links {
            self.net.cut(from, to);
        }
        self.faults.cuts.push(links);
        self.push(until, Happening::Mend(self.faults.cuts.len() as u32 - 1));
    }

    pub(crate) fn mend(&mut self, cut: usize) {
        // Healing mends every link at once.
        if !self.faults.over {
            for (from, to) in std::mem::take(&mut self.faults.cuts[cut]) {
                self.net.mend(from, to);
            }
        }
    }

    fn clog(&mut self, host: usize, until: Moment) {
        self.note(format!("clogged until {until}: {}", host_name(host)));
        let (inward, outward) = (!self.faults.rng.one_in(3), !self.faults.rng.one_in(3));
        for other in 0..self.hosts.len() {
            if self.faults.rng.one_in(4) {
                continue;
            }
            if inward {
                self.net.clog(other, host, until);
            }
            if outward {
                self.net.clog(host, other, until);
            }
        }
    }

    fn crash(&mut self, host: usize, wipe: bool, until: Moment) {
        if !self.hosts[host].is_up() {
            return;
        }
        let loses = wipe || !self.hosts[host].config.durable;
        if loses && !self.may_lose(host) {
            return;
        }
        let durable = self.hosts[host].config.durable;
        let spoiled = if wipe && durable { self.hosts[host].disk.spoiled() } else { None };
        self.kill(host, wipe);
        if let Some(files) = spoiled {
            self.note(format!("what the disk of {} holds is damaged", host_name(host)));
            self.hosts[host].disk.put_back(files);
        }
        self.push(until, Happening::Start(host as u32));
    }

    /// The process ends; with `wipe`, or without a disk, its memory is gone for good.
    pub(crate) fn kill(&mut self, host: usize, wipe: bool) {
        let loses = wipe || !self.hosts[host].config.durable;
        self.note(format!("{} crashes{}", host_name(host), if loses { ", memory lost" } else { "" }));
        let partners = std::mem::take(&mut self.hosts[host].partners);
        self.checks.on_stop(&self.hosts, host, loses);
        if loses {
            self.hosts[host].disk.wipe();
            self.hosts[host].kept = None;
        } else {
            let survived = self.hosts[host].disk.crash();
            self.checks.on_safe(&mut self.hosts[host], host, &survived);
        }
        self.hosts[host].stop();
        self.reset_connections(host);
        self.faults.forget_told(host);
        self.notice_gone_all(host, &partners);
        self.hosts[host].partners = vec![false; partners.len()];
    }

    /// Would the cluster keep a majority of its voters if this host lost its memory?
    pub(crate) fn may_lose(&self, host: usize) -> bool {
        if self.plan.reckless {
            return true;
        }
        let Some((cluster, node)) = self.hosts[host].identity() else { return true };
        let Some(government) = self.checks.government_of(host) else { return false };
        let held =
            |voter: NodeId| voter != node && self.hosts.iter().any(|other| other.identity() == Some((cluster, voter)));
        government.is_majority(held)
    }

    fn pause(&mut self, host: usize, until: Moment) {
        match std::mem::replace(&mut self.hosts[host].life, Life::Down) {
            Life::Running(core) => {
                self.hosts[host].life = Life::Paused(core, Vec::new());
                self.note(format!("{} stands still until {until}", host_name(host)));
                let life = self.hosts[host].lives;
                self.push(until, Happening::Resume { host: host as u32, life });
            }
            other @ (Life::Idle | Life::Paused(..) | Life::Down) => self.hosts[host].life = other,
        }
    }

    pub(crate) fn resume(&mut self, host: usize, life: u32) -> Result<(), Violation> {
        if life != self.hosts[host].lives {
            return Ok(());
        }
        match std::mem::replace(&mut self.hosts[host].life, Life::Down) {
            Life::Paused(core, waiting) => {
                self.hosts[host].life = Life::Running(core);
                self.note(format!("{} goes on", host_name(host)));
                self.checks.audit.callers.on_resume(host, self.now);
                for happening in waiting {
                    // Wakes are queued anew below.
                    if happening != Happening::Wake(host as u32) {
                        self.push(self.now, happening);
                    }
                }
                self.hosts[host].wake_queued = Moment::NEVER;
                self.queue_wake(host);
            }
            other @ (Life::Idle | Life::Running(_) | Life::Down) => self.hosts[host].life = other,
        }
        Ok(())
    }

    fn hang_shard(&mut self, host: usize, until: Moment) -> Result<(), Violation> {
        let shard = self.faults.rng.below(self.hosts[host].config.shards as u64) as usize;
        if !self.hosts[host].is_running() {
            return Ok(());
        }
        self.note(format!("shard {shard} of {} hangs until {until:?}", host_name(host)));
        self.hosts[host].has_stalled = true;
        self.hosts[host].hanging.entry(shard).or_insert(self.now);
        let life = self.hosts[host].lives;
        self.push(until, Happening::GoOn { host: host as u32, life, shard: shard as u32 });
        self.step(host, Input::Hang { shard, hangs: true })
    }

    /// A shard that hung goes on.
    pub(crate) fn go_on(&mut self, host: usize, shard: usize) -> Result<(), Violation> {
        let Some(since) = self.hosts[host].hanging.remove(&shard) else { return Ok(()) };
        self.note(format!("shard {shard} of {} goes on", host_name(host)));
        self.checks.audit.callers.on_moving(host, since, self.now);
        self.step(host, Input::Hang { shard, hangs: false })
    }

    fn jump(&mut self, host: usize) {
        // Leases are for clocks that run at about the same rate; a jump is as bad as a rate without bounds.
        if !self.hosts[host].config.timing.lease.is_zero() {
            return;
        }
        let span = self.faults.rng.between(Duration::from_millis(10), Duration::from_secs(5));
        self.note(format!("the clock of {} is set forward by {span:?}", host_name(host)));
        self.checks.clocks.look(&self.hosts, self.now);
        self.hosts[host].clock.jump(span);
        self.checks.clocks.look(&self.hosts, self.now);
        self.queue_wake(host);
    }

    fn whole_stop(&mut self) {
        let loses = self.hosts.iter().any(|host| host.is_up() && !host.config.durable);
        // Without disks nothing survives that: once in a reckless while.
        if loses && !(self.plan.reckless && self.faults.rng.one_in(8)) {
            return;
        }
        self.note("all stop".to_owned());
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_up() {
                self.kill(host, false);
                let until = self.now.after(self.faults.spell());
                self.push(until, Happening::Start(host as u32));
            }
        }
    }

    fn order_departure(&mut self, host: usize) -> Result<(), Violation> {
        if !self.hosts[host].is_running() {
            return Ok(());
        }
        let Some(state) = self.hosts[host].view().and_then(|view| view.state) else { return Ok(()) };
        let members: Vec<NodeId> = state.members.keys().copied().collect();
        let Some(&node) = self.faults.rng.pick(&members) else { return Ok(()) };
        self.note(format!("an operator at {} orders {node} to depart", host_name(host)));
        let ticket = self.checks.once.order(host);
        self.step(host, Input::Operator { ticket, order: Order::Depart(node) })
    }

    /// An operator wants something of the buckets, sensible or not.
    fn wish(&mut self, host: usize) -> Result<(), Violation> {
        if !self.hosts[host].is_running() {
            return Ok(());
        }
        let Some(distributor) = self.hosts[host].view().and_then(|view| view.distributor) else { return Ok(()) };
        let buckets: Vec<BucketId> = distributor.buckets().keys().copied().collect();
        let nodes: Vec<NodeId> = distributor.nodes().keys().copied().collect();
        let draining: Vec<NodeId> = nodes.iter().copied().filter(|node| distributor.nodes()[node].draining).collect();
        let rng = &mut self.faults.rng;
        let (Some(&bucket), Some(&node)) = (rng.pick(&buckets), rng.pick(&nodes)) else { return Ok(()) };
        let operation = match rng.below(8) {
            0 | 1 if buckets.len() < BUCKETS_MOST => Operation::Split { bucket: Some(bucket) },
            2 if buckets.len() * 2 <= BUCKETS_MOST => Operation::Split { bucket: None },
            3 | 4 => Operation::Drain { node },
            5 => Operation::Undrain { node: rng.pick(&draining).copied().unwrap_or(node) },
            6 => Operation::HandOver { node },
            _level => Operation::Rebalance,
        };
        self.operate(host, operation)
    }

    pub(crate) fn operate(&mut self, host: usize, operation: Operation) -> Result<(), Violation> {
        self.note(format!("an operator at {} wants {operation:?}", host_name(host)));
        let ticket = self.checks.once.order(host);
        self.step(host, Input::Operator { ticket, order: Order::Operate(operation) })
    }

    /// A host is told to stop in good order. It has a while for it, and is started again later.
    fn order_restart(&mut self, host: usize) -> Result<(), Violation> {
        let loses = !self.hosts[host].config.durable;
        if !self.hosts[host].is_running() || (loses && !self.may_lose(host)) {
            return Ok(());
        }
        self.note(format!("{} is to stop", host_name(host)));
        let life = self.hosts[host].lives;
        let grace = self.faults.rng.between(Duration::from_millis(50), Duration::from_secs(5));
        self.push(self.now.after(grace), Happening::Stop { host: host as u32, life });
        let ticket = self.checks.once.order(host);
        self.step(host, Input::Operator { ticket, order: Order::Pause })
    }

    pub(crate) fn stop_in_order(&mut self, host: usize, life: u32) {
        let loses = !self.hosts[host].config.durable;
        if life != self.hosts[host].lives || !self.hosts[host].is_up() {
            return;
        }
        if loses && !self.may_lose(host) {
            // It is absent until it was restarted: that is only put off.
            self.push(self.now.after(Duration::from_secs(1)), Happening::Stop { host: host as u32, life });
        } else {
            self.kill(host, false);
            let until = self.now.after(self.faults.spell());
            self.push(until, Happening::Start(host as u32));
        }
    }

    /// What the process is started with. An operator does not let a founder that lost its memory found a second cluster
    /// beside one that lives, where nobody may be there to tell it so.
    pub(crate) fn config_for_start(&mut self, host: usize, blank: bool) -> Config {
        let mut config = self.hosts[host].config.clone();
        let first = config.bootstrap.first() == Some(&config.name);
        let belongs = |other: &Host| other.config.name != config.name && other.identity().is_some();
        let told = |other: &Host| belongs(other) && config.bootstrap.contains(&other.config.name);
        let keeps = !blank || !first || !self.hosts.iter().any(belongs) || self.hosts.iter().any(told);
        self.hosts[host].arrives_only = !keeps;
        if !keeps {
            config.bootstrap.clear();
        }
        config
    }

    /// When nobody is left in a cluster that was, its founders are made to found another: with their list where one was
    /// started without, and with empty disks, because whoever has departed founds nothing by itself.
    pub(crate) fn let_found_again(&mut self) {
        if self.checks.decided() == 0 || self.hosts.iter().any(|host| host.identity().is_some()) {
            return;
        }
        let again = self.operator.founds_again.is_none_or(|before| self.now > before.after(Duration::from_secs(20)));
        let first = |host: &Host| host.config.bootstrap.first() == Some(&host.config.name) && host.is_running();
        let Some(host) = self.hosts.iter().position(first) else { return };
        if self.hosts[host].arrives_only || (self.faults.over && again) {
            self.operator.founds_again = Some(self.now);
            let founders = self.hosts[host].config.bootstrap.clone();
            for founder in 0..self.hosts.len() {
                if founders.contains(&self.hosts[founder].config.name) && self.hosts[founder].is_running() {
                    self.kill(founder, true);
                    self.push(self.now.after(Duration::from_millis(100)), Happening::Start(founder as u32));
                }
            }
        }
    }

    pub(crate) fn must_stay_down(&self, host: usize) -> bool {
        self.faults.over && self.plan.lasting == Lasting::Down(host)
    }
}
