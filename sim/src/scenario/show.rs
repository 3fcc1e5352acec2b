//! Commands that only look, and the conditions that `until` waits for.

use crate::scenario::stage::{FILL, Stage};
use crate::scenario::words::{Words, why};
use atoll_cluster::{Member, Standing, State};
use atoll_node::View;
use atoll_types::{Gauge, NodeId, Slot};

impl Stage {
    pub(super) fn leaders(&self) -> Vec<usize> {
        let leads = |host: &usize| self.view(*host).is_some_and(|view| view.leading.is_some());
        (0..self.hosts.len()).filter(leads).collect()
    }

    /// The leader of the highest ballot, or else whoever knows most.
    pub(super) fn best_informed(&self) -> Option<usize> {
        let known = |&host: &usize| {
            let view = self.view(host)?;
            view.state.map(|_| (view.leading, view.generation, view.decided))
        };
        (0..self.hosts.len()).filter(|host| known(host).is_some()).rev().max_by_key(known)
    }

    pub(super) fn show(&mut self, what: &[&str]) -> Result<(), String> {
        match what {
            ["messages", "only", kinds @ ..] => {
                self.teller.messages = true;
                self.teller.kinds = kinds.iter().map(|&kind| kind.to_owned()).collect();
            }
            ["messages", "on"] => {
                self.teller.kinds.clear();
                (self.teller.messages, self.teller.health) = (true, false);
                self.teller.only.clear();
            }
            ["messages", "off"] => (self.teller.messages, self.teller.health) = (false, false),
            ["messages", "with", "pings"] => {
                (self.teller.messages, self.teller.health) = (true, true);
                self.teller.only.clear();
            }
            ["messages", "of", names @ ..] => {
                self.teller.messages = true;
                self.teller.only = names.iter().map(|&name| name.to_owned()).collect();
            }
            ["times", "on"] => self.teller.times = true,
            ["times", "off"] => self.teller.times = false,
            ["members"] => {
                let host = self.best_informed().ok_or("nobody knows a cluster")?;
                self.show_members(host);
            }
            ["members", "on", name] => {
                let host = self.known(name)?;
                self.show_members(host);
            }
            ["government"] => {
                let host = self.best_informed().ok_or("nobody knows a cluster")?;
                self.show_government(host)?;
            }
            ["government", "on", name] => {
                let host = self.known(name)?;
                self.show_government(host)?;
            }
            ["entries", "on"] => self.teller.entries = true,
            ["entries", "off"] => self.teller.entries = false,
            ["table"] => {
                let host = self.best_informed().ok_or("nobody knows a cluster")?;
                self.show_table(host);
            }
            ["table", "on", name] => {
                let host = self.known(name)?;
                self.show_table(host);
            }
            ["copies"] => self.show_copies(),
            ["alarms"] => self.show_alarms()?,
            ["backlog", name] => {
                let host = self.known(name)?;
                self.show_backlog(host);
            }
            ["nodes"] => (0..self.hosts.len()).for_each(|host| self.show_node(host)),
            ["logs"] => (0..self.hosts.len()).for_each(|host| self.show_log(host)),
            ["queues", name] => {
                let host = self.known(name)?;
                self.show_queues(host);
            }
            ["refusals", name] => {
                let host = self.known(name)?;
                self.show_refusals(host);
            }
            ["fill"] => self.show_fill(),
            [..] => return Err("nothing of that kind to show".to_owned()),
        }
        Ok(())
    }

    fn say(&mut self, line: &str) {
        self.teller.say(self.now, line);
    }

    fn show_members(&mut self, host: usize) {
        let mut lines = Vec::new();
        if let Some(view) = self.view(host)
            && let (Some(identity), Some(state)) = (view.identity, view.state)
        {
            for (&node, member) in &state.members {
                let label = self.names.node(identity.cluster, node);
                lines.push(format!("{label}  {}", describe(state, node, member)));
            }
        }
        lines.iter().for_each(|line| self.say(line));
    }

    fn show_government(&mut self, host: usize) -> Result<(), String> {
        let view = self.view(host).ok_or("it is down")?;
        let cluster = view.identity.ok_or("it is blank")?.cluster;
        let (slot, government) = view.government.ok_or("it waits for its snapshot")?;
        let words = Words { names: &self.names, cluster };
        let line = format!("government of {slot}: {}", words.seats(government));
        self.say(&line);
        Ok(())
    }

    fn show_node(&mut self, host: usize) {
        let machine = &self.hosts[host];
        let name = &machine.name;
        let line = match self.view(host) {
            None => format!("{name}  is down"),
            Some(_) if machine.paused => format!("{name}  is paused"),
            Some(View { identity: None, .. }) => format!("{name}  is blank"),
            Some(View { state: None, .. }) => format!("{name}  waits for its snapshot"),
            Some(view) => {
                let cluster = view.identity.map(|identity| identity.cluster).unwrap_or_default();
                let role = match (view.leading, view.leader) {
                    (Some(_), _) => "leads".to_owned(),
                    (None, Some(leader)) => format!("follows {}", self.names.node(cluster, leader)),
                    (None, None) => "knows no leader".to_owned(),
                };
                let generation = match view.generation.number {
                    0 => String::new(),
                    _later => format!(" in {}", self.names.generation(cluster, view.generation)),
                };
                format!("{name}  {role} in {}{generation}, decided {}", self.names.cluster(cluster), view.decided)
            }
        };
        self.say(&line);
    }

    fn show_log(&mut self, host: usize) {
        let Some(view) = self.view(host).filter(|view| view.state.is_some()) else { return };
        let (trimmed, decided, last) = (view.trimmed, view.decided, view.last);
        let held = if last > decided { format!(", holds up to {last}") } else { String::new() };
        let line = format!("{}  trimmed {trimmed}, decided {decided}{held}", self.hosts[host].name);
        self.say(&line);
    }

    fn show_queues(&mut self, host: usize) {
        let Some(view) = self.view(host) else { return };
        let gauge = |gauge: &Gauge| {
            let Gauge { held, held_at_most, limit, turned_away } = gauge;
            format!("{held} of {limit}, at most {held_at_most}, turned away {turned_away}")
        };
        let counters = view.counters;
        let name = &self.hosts[host].name;
        let lines = [
            format!("{name}  own submissions waiting: {}", gauge(&counters.outstanding)),
            format!("{name}  submissions waiting to be proposed: {}", gauge(&counters.submissions)),
            format!("{name}  newcomers waiting: {}", gauge(&counters.arrivals)),
            format!("{name}  slots proposed and open: {}", gauge(&counters.pipeline)),
        ];
        lines.iter().for_each(|line| self.say(line));
    }

    fn show_refusals(&mut self, host: usize) {
        let Some(view) = self.view(host) else { return };
        let counters = view.counters;
        let counts = [
            ("of another cluster", counters.refused_other_cluster),
            ("of an old generation", counters.refused_old_generation),
            ("of an old life", counters.refused_old_incarnation),
            ("meant for another process", counters.refused_not_me),
            ("of a departed node", counters.told_departed),
        ];
        let told: Vec<String> =
            counts.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}")).collect();
        let told = if told.is_empty() { "nothing".to_owned() } else { told.join(", ") };
        let line = format!("{}  has refused: {told}", self.hosts[host].name);
        self.say(&line);
    }

    fn show_fill(&mut self) {
        let filled = std::mem::take(&mut self.filled);
        if let (Some(first), Some(last)) = (filled.iter().min(), filled.iter().max()) {
            let line = format!("{} entries of the {FILL}are decided, from {first} to {last}", filled.len());
            self.say(&line);
        }
    }

    pub(super) fn wait_for(&mut self, condition: &[&str], span: u64) -> Result<(), String> {
        let (end, sent, delivered) = (self.now + span, self.sent.len(), self.deliveries.len());
        while !self.holds(condition, sent, delivered)? {
            if self.now >= end {
                let line = format!("after {}s still not: {}", span / 1_000_000, condition.join(" "));
                self.say(&line);
                break;
            }
            self.turn();
        }
        Ok(())
    }

    fn holds(&self, condition: &[&str], sent: usize, delivered: usize) -> Result<bool, String> {
        let number = |text: &str| text.parse().map(Slot).map_err(|_| format!("{text} is no number"));
        Ok(match condition {
            ["healthy"] => self.is_healthy(),
            ["somebody", "leads"] => !self.leaders().is_empty(),
            ["nobody", "leads"] => self.leaders().is_empty(),
            [name, "leads"] => self.leaders().contains(&self.known(name)?),
            [name, "decided", slot] => {
                let slot = number(slot)?;
                self.view(self.known(name)?).is_some_and(|view| view.decided >= slot)
            }
            [name, "holds", slot] => {
                let slot = number(slot)?;
                self.view(self.known(name)?).is_some_and(|view| view.last >= slot)
            }
            [name, "blank"] => self.view(self.known(name)?).is_some_and(|view| view.identity.is_none()),
            [name, "named"] => self.view(self.known(name)?).is_some_and(|view| view.identity.is_some()),
            [from, "sends", kind, "to", to] => {
                let (from, to) = (self.known(from)?, self.known(to)?);
                self.sent[sent..].iter().any(|sent| (sent.from, sent.to, sent.kind) == (from, to, *kind))
            }
            [to, "gets", kind, "from", from] => {
                let (from, to) = (self.known(from)?, self.known(to)?);
                let fresh = self.deliveries[delivered..].iter().map(|&place| &self.sent[place]);
                fresh.into_iter().any(|sent| (sent.from, sent.to, sent.kind) == (from, to, *kind))
            }
            [name, standing @ ("present" | "absent" | "arriving" | "leaving" | "departed")] => {
                self.standing(name) == Some(standing)
            }
            [..] => self.bucket_holds(condition)?.ok_or("no such condition")?,
        })
    }

    /// What the leader makes of the node that had this name last.
    fn standing(&self, name: &str) -> Option<&'static str> {
        let leader = *self.leaders().last()?;
        let view = self.view(leader)?;
        let node = self.names.latest(view.identity?.cluster, name)?;
        Some(match view.state?.members.get(&node).map(|member| member.standing) {
            Some(Standing::Present) => "present",
            Some(Standing::Absent { .. }) => "absent",
            Some(Standing::Arriving) => "arriving",
            Some(Standing::Leaving) => "leaving",
            None => "departed",
        })
    }

    /// Whoever runs is a present member of the one cluster, knows all that is decided, and as many vote as can.
    fn is_healthy(&self) -> bool {
        let [leader] = self.leaders()[..] else { return false };
        let Some(leading) = self.view(leader) else { return false };
        let (Some(state), Some((_, government))) = (leading.state, leading.government) else { return false };
        let running = self.hosts.iter().filter(|host| !host.paused).filter_map(|host| host.core.as_ref());
        let well = |view: View<'_>| {
            view.decided == leading.decided
                && view.identity.is_some_and(|identity| {
                    state.members.get(&identity.node).is_some_and(|member| {
                        member.standing == Standing::Present && member.incarnation == identity.incarnation
                    })
                })
        };
        let present = state.members.values().filter(|member| member.standing == Standing::Present).count();
        let wanted = match present {
            0..=2 => government.voter_count(),
            3 | 4 => 3,
            _more => 5,
        };
        running.map(atoll_node::Node::view).all(well) && government.voter_count() == wanted
    }
}

fn describe(state: &State, node: NodeId, member: &Member) -> String {
    let government = &state.government;
    let seat = if government.leader() == node {
        "leader"
    } else if government.majority.contains(&node) {
        "majority"
    } else if government.minority.contains(&node) {
        "minority"
    } else {
        "learner"
    };
    let standing = match member.standing {
        Standing::Arriving => "arriving".to_owned(),
        Standing::Present => "present".to_owned(),
        Standing::Absent { why: reason, at } => format!("absent since {at} ({})", why(reason)),
        Standing::Leaving => "leaving".to_owned(),
    };
    let durable = if member.durable { ", durable" } else { "" };
    let life = if member.incarnation.life > 1 { format!(", life {}", member.incarnation.life) } else { String::new() };
    format!("{seat}, {standing}{durable}{life}")
}
