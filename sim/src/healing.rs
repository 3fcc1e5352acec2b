//! The end of all faults, and what must become true after it (liveness): every host that runs is a present member of
//! one cluster with one leader, there are as many voters as there can be, all have the same log, nothing waits for
//! ever, and a new submission from every host is decided. Every bucket is served by as many members as there can be,
//! nothing is under way, and every client can write to and read from every bucket.
//!
//! Where a link, a disk or a node stays broken, the buckets must be served by at least `min_copies` members; whether
//! the distributor comes to rest is not looked at, since a member that is complained of may come and go.

use crate::Violation;
use crate::clock::Moment;
use crate::host::Life;
use crate::plan::{Kind, Lasting, host_name};
use crate::world::{End, Happening, World};
use atoll_cluster::{Member, Standing, State};
use atoll_distributor::Alarm;
use atoll_node::View;
use atoll_types::{ClusterId, NodeId, SlotRange, Why};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

/// How long a cluster may take once nothing fails any more.
const PATIENCE: Duration = Duration::from_secs(60);
/// A node that came and went too often is given nothing for so long at most.
const FLAPPING_WAIT_MOST: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Healing {
    healed: Moment,
    /// When a member was last seen that nobody runs as: it has to depart first.
    dead_seen: Option<Moment>,
    /// When a node was last seen that has to wait, because it came and went too often.
    flapped_seen: Option<Moment>,
    /// One submission per host, made when all else was well.
    probes: Vec<Option<u64>>,
}

impl World {
    pub(crate) fn heal(&mut self) -> Result<(), Violation> {
        self.trace.fault(self.now, "everything heals".to_owned());
        self.faults.over = true;
        self.healing.healed = self.now;
        self.net.heal();
        self.clients.heal();
        match self.plan.lasting {
            Lasting::Nothing => {}
            Lasting::Link(one, other) if !self.can_do_without(one, other) => self.plan.lasting = Lasting::Nothing,
            Lasting::Link(one, other) => {
                self.net.cut(one, other);
                self.net.cut(other, one);
            }
            Lasting::Disk(host) => {
                self.hosts[host].has_stalled = true;
                self.hosts[host].disk.slow(Moment::NEVER);
            }
            Lasting::Down(host) => self.keep_down(host),
        }
        for host in 0..self.hosts.len() {
            match self.hosts[host].life {
                Life::Idle | Life::Down => {
                    let delay = Duration::from_micros(self.faults.rng.below(1_000_000));
                    self.push(self.now.after(delay), Happening::Start(host as u32));
                }
                Life::Paused(..) => {
                    let life = self.hosts[host].lives;
                    self.resume(host, life)?;
                }
                Life::Running(_) => {}
            }
            for shard in self.hosts[host].hanging.clone().into_keys() {
                self.go_on(host, shard)?;
            }
        }
        Ok(())
    }

    /// Is there a voter that reaches a majority without this link? Founders that do not hear each other found nothing,
    /// and the last two voters of three decide nothing: nor should they.
    fn can_do_without(&self, one: usize, other: usize) -> bool {
        let Some((cluster, government)) = self.checks.newest_government(&self.hosts) else { return false };
        let bearer = |voter: NodeId| self.hosts.iter().position(|host| host.identity() == Some((cluster, voter)));
        let apart = |from: usize, to: usize| (from, to) == (one, other) || (to, from) == (one, other);
        let leads = |from: usize| government.is_majority(|voter| bearer(voter).is_some_and(|to| !apart(from, to)));
        // A departure that is under way waits for ever where it would leave two voters that do not hear each other.
        let leaving = government.voter_count() <= 3 && self.plan.kinds.contains(&Kind::Depart);
        !leaving && government.voters().filter_map(bearer).any(leads)
    }

    /// Where a departure that was ordered before has left two voters that cannot hear each other, somebody sees to the
    /// link.
    fn mend_if_needed(&mut self) {
        if let Lasting::Link(one, other) = self.plan.lasting
            && !self.can_do_without(one, other)
        {
            self.plan.lasting = Lasting::Nothing;
            self.healing.healed = self.now;
            self.net.heal();
            self.trace.say(self.now, "the last link heals: no majority can do without it".to_owned());
        }
    }

    fn keep_down(&mut self, host: usize) {
        // The last majority must not depend on it.
        let spared = std::mem::replace(&mut self.plan.reckless, false);
        let may = self.may_lose(host);
        self.plan.reckless = spared;
        if !may {
            self.plan.lasting = Lasting::Nothing;
        } else if self.hosts[host].is_up() {
            self.kill(host, false);
        }
    }

    /// The leader knows of a node that has to wait before it is given anything.
    fn somebody_flapped(&self) -> bool {
        let Some((host, view)) = self.leader() else { return false };
        let now = self.hosts[host].clock.read(self.now);
        view.distributor.is_some_and(|distributor| distributor.nodes().values().any(|node| node.waits_until > now))
    }

    pub(crate) fn look_at_health(&mut self) -> Result<(), Violation> {
        if self.dead_member().is_some() {
            self.healing.dead_seen = Some(self.now);
        }
        if self.somebody_flapped() {
            self.healing.flapped_seen = Some(self.now);
        }
        self.upgrade();
        self.mend_if_needed();
        self.call_off_drains()?;
        let clusters: BTreeSet<ClusterId> =
            self.hosts.iter().filter_map(|host| host.identity()).map(|(cluster, _)| cluster).collect();
        if clusters.len() > 1 {
            // Only founders that lost their memory can do that, and those who knew better were out of reach.
            self.ended = Some(End::Lost("its founders lost their memory and founded another".to_owned()));
            return Ok(());
        }
        let missing = match self.what_is_missing().or_else(|| self.what_is_missing_of_buckets()) {
            None if self.healing.probes.is_empty() => {
                self.probe()?;
                Some("the answers to the last submissions".to_owned())
            }
            None => match self.unanswered_probe()? {
                None => self.unfinished_clients(&self.ranges()),
                Some(missing) => Some(missing),
            },
            Some(missing) => Some(missing),
        };
        match missing {
            None => {
                self.checks.at_the_end(&self.hosts)?;
                self.checks.buckets.at_the_end(&self.hosts, self.plan.lasting != Lasting::Nothing)?;
                self.ended = Some(End::Healthy);
                Ok(())
            }
            Some(missing) if self.now > self.deadline() => {
                Err(Violation::of("liveness", format!("{missing}; {}", self.describe_hosts())))
            }
            Some(_) => Ok(()),
        }
    }

    fn deadline(&self) -> Moment {
        let from = self.healing.healed.max(self.operator.recovered.unwrap_or_default());
        // A node that never comes back is waited for as long as it was configured.
        let waits = self.hosts.first().map_or(Duration::ZERO, |host| host.config.timing.depart_after * 11 / 10);
        let dead_until = self.healing.dead_seen.unwrap_or_default().min(from.after(waits));
        let flapped_until = self.healing.flapped_seen.unwrap_or_default().min(from.after(FLAPPING_WAIT_MOST));
        from.max(dead_until).max(flapped_until).after(PATIENCE)
    }

    /// A node that does not understand what the cluster speaks is started again with a newer version.
    fn upgrade(&mut self) {
        let Some(level) = self.leader().and_then(|(_, view)| Some(view.state?.level)) else { return };
        for host in 0..self.hosts.len() {
            if self.hosts[host].config.level < level && self.hosts[host].identity().is_none() {
                self.hosts[host].config.level = level;
                if self.hosts[host].is_up() {
                    self.kill(host, false);
                    self.push(self.now.after(Duration::from_millis(100)), Happening::Start(host as u32));
                }
            }
        }
    }

    pub(crate) fn leader(&self) -> Option<(usize, View<'_>)> {
        let views = self.hosts.iter().enumerate().filter_map(|(host, machine)| Some((host, machine.view()?)));
        views.filter(|(_, view)| view.leading.is_some()).max_by_key(|(_, view)| view.leading)
    }

    /// A member that no host is.
    fn dead_member(&self) -> Option<String> {
        let (_, view) = self.leader()?;
        let cluster = view.identity?.cluster;
        let dead = view.state?.members.keys().find(|&&node| !self.is_somewhere(cluster, node))?;
        Some(format!("{dead} is still a member, and nobody runs as it"))
    }

    fn what_is_missing(&self) -> Option<String> {
        for (host, machine) in self.hosts.iter().enumerate() {
            if !machine.is_running() && !self.must_stay_down(host) {
                return Some(format!("{} does not run", host_name(host)));
            }
        }
        let leaders = self.hosts.iter().filter(|host| host.view().is_some_and(|view| view.leading.is_some())).count();
        if leaders != 1 {
            return Some(format!("{leaders} nodes lead"));
        }
        let (_, leading) = self.leader()?;
        let Some(state) = leading.state else {
            return Some("the leader has no state".to_owned());
        };
        for (host, machine) in self.hosts.iter().enumerate() {
            if let Some(view) = machine.view()
                && let Some(missing) = self.what_is_missing_of(host, &view, &leading, state)
            {
                return Some(missing);
            }
        }
        if let Some(dead) = self.dead_member() {
            return Some(dead);
        }
        let present = state.members.values().filter(|member| member.standing == Standing::Present).count();
        let voters = leading.government.map_or(0, |(_, government)| government.voter_count());
        let expected = match present {
            0..=2 => voters.min(present),
            3 | 4 => 3,
            _more => 5,
        };
        if voters != expected {
            return Some(format!("{voters} voters of {present} present nodes in {:?}", leading.government));
        }
        // Where something stays broken the leader may not know all clocks.
        let clocks = self.checks.clocks.what_is_missing(&self.hosts, state, self.now);
        if let Some(missing) = clocks.filter(|_| self.plan.lasting == Lasting::Nothing) {
            return Some(missing);
        }
        if !state.barriers.is_empty() {
            return Some(format!("barriers still open: {:?}", state.barriers.keys().collect::<Vec<_>>()));
        }
        self.checks.once.waiting(&self.hosts)
    }

    /// The buckets, by the leader's table.
    fn ranges(&self) -> Vec<SlotRange> {
        let distributor = self.leader().and_then(|(_, view)| view.distributor);
        distributor
            .map_or(Vec::new(), |distributor| distributor.buckets().values().map(|bucket| bucket.range).collect())
    }

    fn what_is_missing_of_buckets(&self) -> Option<String> {
        let (_, view) = self.leader()?;
        let distributor = view.distributor?;
        let placed = self.hosts.first().is_none_or(|host| host.config.buckets == 0);
        if distributor.buckets().is_empty() && !placed {
            return Some("no buckets are placed".to_owned());
        }
        let broken = self.plan.lasting != Lasting::Nothing;
        if let Some((id, bucket)) = distributor.buckets().iter().find(|(_, bucket)| bucket.primary().is_nobody()) {
            return Some(format!("nobody serves bucket {id}: {bucket:?}"));
        }
        if let Some(missing) = self.checks.buckets.what_is_missing(&self.hosts, broken) {
            return Some(missing);
        }
        if broken {
            return None;
        }
        let alarms = distributor.alarms();
        let expected = |alarm: &&Alarm| matches!(alarm, Alarm::Short { .. } | Alarm::Skewed { .. });
        if let Some(alarm) = alarms.iter().find(|alarm| !expected(alarm)) {
            return Some(format!("an alarm: {alarm}"));
        }
        (!distributor.is_quiet()).then(|| "the distributor has something to do".to_owned())
    }

    fn what_is_missing_of(&self, host: usize, view: &View<'_>, leading: &View<'_>, state: &State) -> Option<String> {
        let name = host_name(host);
        let Some(identity) = view.identity else { return Some(format!("{name} belongs to no cluster")) };
        if view.state.is_none() {
            return Some(format!("{name} has no state"));
        }
        if leading.identity.is_some_and(|leader| leader.cluster != identity.cluster) {
            return Some(format!("{name} belongs to another cluster than the leader"));
        }
        if view.generation != leading.generation {
            return Some(format!("{name} is in generation {}, the leader in {}", view.generation, leading.generation));
        }
        match state.members.get(&identity.node) {
            None => return Some(format!("{name} is {}, which the leader does not know", identity.node)),
            // A disk that is too slow for its node to be of use stays so.
            Some(Member { standing: Standing::Absent { why: Why::Stalled, .. }, .. })
                if self.plan.lasting == Lasting::Disk(host) => {}
            Some(member) if member.standing != Standing::Present => {
                return Some(format!("{name} is {}, which the leader has as {:?}", identity.node, member.standing));
            }
            Some(member) if member.incarnation != identity.incarnation => {
                return Some(format!("the leader knows another life of {name}"));
            }
            Some(_) => {}
        }
        if view.decided != leading.decided {
            return Some(format!("{name} knows {} decided, the leader {}", view.decided, leading.decided));
        }
        None
    }

    /// Who is where, for a person who wants to know why the cluster does not become healthy.
    fn describe_hosts(&self) -> String {
        let mut text = String::new();
        for (host, machine) in self.hosts.iter().enumerate() {
            let _ = write!(text, "{}: ", host_name(host));
            match machine.view() {
                None => text.push_str("down"),
                Some(view) => match (view.identity, view.government) {
                    (None, _) => text.push_str("blank"),
                    (Some(me), None) => {
                        let _ = write!(text, "{} generation {} without a state", me.node, view.generation);
                    }
                    (Some(me), Some((at, government))) => {
                        let voters: Vec<NodeId> = government.voters().collect();
                        let _ = write!(
                            text,
                            "{} generation {} promised {} decided {} of {}, voters {voters:?} since {at}",
                            me.node, view.generation, view.promised, view.decided, view.last
                        );
                    }
                },
            }
            text.push_str("; ");
        }
        text
    }

    fn probe(&mut self) -> Result<(), Violation> {
        for host in 0..self.hosts.len() {
            let ticket = self.submit(host)?;
            self.healing.probes.push(ticket);
        }
        Ok(())
    }

    /// A probe that was turned away because much was waiting is made again.
    fn unanswered_probe(&mut self) -> Result<Option<String>, Violation> {
        for host in 0..self.hosts.len() {
            let Some(ticket) = self.healing.probes[host] else { continue };
            if !self.checks.once.is_submitted(ticket) {
                self.healing.probes[host] = self.submit(host)?;
                return Ok(Some(format!("the submission of {} was turned away", host_name(host))));
            }
        }
        Ok(None)
    }
}
