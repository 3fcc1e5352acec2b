//! A blank node: it asks to be let in, again and again, and founds a cluster if that falls to it.
//!
//! Only the first-named of `--bootstrap` founds, and only when every founder answers blank with the same list and
//! nobody that was asked answers with a cluster.

use crate::message::{Ask, Standing};
use atoll_types::{Address, Bug, ClusterId, Name, Newcomer, Rng, Time, planted};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Rounds of asking before a founder may found: time for a cluster that is there to say so.
const ROUNDS_BEFORE_FOUNDING: u32 = 3;

/// What a blank node waits for, as the last whole round of asking showed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Whoever is to found the cluster; none where this node only asks to be let in.
    pub founder: Option<Name>,
    /// Founders that did not answer that they are blank and were told the same list.
    pub missing: Vec<Name>,
    /// Addresses that were asked, and where nobody answered who is known by that address.
    pub silent: Vec<Address>,
    /// Another process of this node's name answered from there.
    pub twin: Option<Address>,
}

#[derive(Debug)]
pub struct Arrival {
    newcomer: Newcomer,
    founders: Vec<Name>,
    forgot: bool,
    join: Vec<Address>,
    rounds: u32,
    due: Time,
    /// What the others said last.
    standings: BTreeMap<Name, Standing>,
    /// Of the addresses that are asked, those that answered.
    heard: BTreeSet<Address>,
    twin: Option<Address>,
    /// Of the last round.
    waiting: Waiting,
    retry: Duration,
    retry_most: Duration,
}

impl Arrival {
    pub fn new(now: Time, ask: Ask, join: Vec<Address>, retry: Duration, retry_most: Duration) -> Arrival {
        let Ask { newcomer, founders, forgot } = ask;
        let waiting = Waiting { founder: founders.first().cloned(), ..Waiting::default() };
        Arrival {
            newcomer,
            founders,
            forgot,
            join,
            rounds: 0,
            due: now,
            standings: BTreeMap::new(),
            heard: BTreeSet::new(),
            twin: None,
            waiting,
            retry,
            retry_most,
        }
    }

    pub fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    pub fn newcomer(&self) -> &Newcomer {
        &self.newcomer
    }

    pub fn founders(&self) -> &[Name] {
        &self.founders
    }

    pub fn due(&self) -> Time {
        self.due
    }

    /// Whom to ask now, with exponential back-off. Each round begins with a clean slate: old answers do not count.
    pub fn take_due(&mut self, now: Time, rng: &mut Rng) -> Vec<(Address, Ask)> {
        if now < self.due {
            return Vec::new();
        }
        if self.rounds > 0 {
            self.waiting = self.what_is_missing();
        }
        self.standings.clear();
        self.heard.clear();
        self.twin = None;
        // Founders stay brisk: nobody can use the cluster before there is one.
        let doublings = if self.founders.is_empty() { self.rounds.min(16) } else { self.rounds.min(2) };
        let pause = (self.retry * 2u32.saturating_pow(doublings)).min(self.retry_most);
        self.rounds += 1;
        self.due = now + rng.between(pause, pause * 2);
        let ask = Ask { newcomer: self.newcomer.clone(), founders: self.founders.clone(), forgot: self.forgot };
        self.asked().map(|address| (address.clone(), ask.clone())).collect()
    }

    /// Not itself.
    fn asked(&self) -> impl Iterator<Item = &Address> {
        self.join.iter().filter(|address| **address != self.newcomer.address)
    }

    fn what_is_missing(&self) -> Waiting {
        Waiting {
            founder: self.founders.first().cloned(),
            missing: self.other_founders().filter(|name| !self.is_blank_as_well(name)).cloned().collect(),
            silent: self.asked().filter(|address| !self.heard.contains(*address)).cloned().collect(),
            twin: self.twin.clone(),
        }
    }

    fn other_founders(&self) -> impl Iterator<Item = &Name> {
        self.founders.iter().filter(|name| **name != self.newcomer.name)
    }

    fn is_blank_as_well(&self, name: &Name) -> bool {
        self.standings.get(name).is_some_and(|standing| standing.founders == self.founders)
    }

    /// Somebody at this address has something to say, whatever it is.
    pub fn on_heard(&mut self, from: &Address) {
        if self.join.contains(from) {
            self.heard.insert(from.clone());
        }
    }

    /// Another process has the same name.
    pub fn on_twin(&mut self, from: &Address) -> String {
        self.twin = Some(from.clone());
        let name = &self.newcomer.name;
        format!("{from} is named {name} as well: give each node a --name of its own")
    }

    /// Somebody answered. Tells what is wrong with the answer, if anything is.
    pub fn on_standing(&mut self, standing: Standing) -> Option<String> {
        let mut complaint = None;
        if standing.cluster == ClusterId::NONE
            && self.founders.contains(&standing.name)
            && standing.founders != self.founders
        {
            let (other, mine) = (list(&standing.founders), list(&self.founders));
            let name = &standing.name;
            complaint =
                Some(format!("{name} was started with --bootstrap {other}, this node with {mine}: make them equal"));
        }
        self.standings.insert(standing.name.clone(), standing);
        complaint
    }

    /// Does it fall to this node to found the cluster, now?
    pub fn may_found(&self) -> bool {
        let first = self.founders.first() == Some(&self.newcomer.name)
            || (planted(Bug::EveryFounderFounds) && self.founders.contains(&self.newcomer.name));
        let nobody_belongs = self.standings.values().all(|standing| standing.cluster == ClusterId::NONE);
        let all_blank = self.other_founders().all(|name| self.is_blank_as_well(name));
        // Two of one name would found two clusters.
        let alone = self.twin.is_none();
        first && alone && all_blank && nobody_belongs && self.rounds >= ROUNDS_BEFORE_FOUNDING
    }
}

fn list(names: &[Name]) -> String {
    names.iter().map(|name| &*name.0).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{Incarnation, Level, NodeId};

    fn founder(name: &str) -> Arrival {
        let newcomer = Newcomer {
            node: NodeId::NOBODY,
            name: name.into(),
            address: name.into(),
            endpoints: atoll_types::Endpoints::default(),
            incarnation: Incarnation::default(),
            zone: "".into(),
            weight: 1,
            level: Level(1),
            durable: false,
        };
        let founders = names(&["n1", "n2"]);
        let join = vec!["n1".into(), "n2".into(), "n3".into()];
        let second = Duration::from_secs(1);
        let mut arrival = Arrival::new(Time(0), Ask { newcomer, founders, forgot: false }, join, second, second);
        for _ in 0..ROUNDS_BEFORE_FOUNDING {
            let asked = arrival.take_due(arrival.due(), &mut Rng::new(1));
            assert_eq!(asked.len(), 2, "not itself");
        }
        arrival
    }

    fn names(names: &[&str]) -> Vec<Name> {
        names.iter().map(|&name| name.into()).collect()
    }

    fn standing(name: &str, cluster: u64, founders: &[&str]) -> Standing {
        Standing { name: name.into(), cluster: ClusterId(cluster), founders: names(founders) }
    }

    #[test]
    fn only_the_first_named_founds_and_only_when_all_are_blank() {
        let mut first = founder("n1");
        assert!(!first.may_found(), "n2 has not answered");
        first.on_standing(standing("n2", 0, &["n1", "n2"]));
        assert!(first.may_found());
        first.on_standing(standing("n3", 8, &[]));
        assert!(!first.may_found(), "there is a cluster");
        let mut second = founder("n2");
        second.on_standing(standing("n1", 0, &["n1", "n2"]));
        assert!(!second.may_found());
    }

    #[test]
    fn one_of_the_same_name_is_complained_of_and_nobody_founds() {
        let mut first = founder("n1");
        first.on_standing(standing("n2", 0, &["n1", "n2"]));
        let complaint = first.on_twin(&"n3".into());
        assert!(complaint.contains("n3 is named n1 as well"), "{complaint}");
        assert!(!first.may_found());
        first.take_due(first.due(), &mut Rng::new(1));
        assert_eq!(first.waiting().twin, Some("n3".into()));
        first.on_standing(standing("n2", 0, &["n1", "n2"]));
        assert!(first.may_found(), "it is gone");
    }

    #[test]
    fn what_is_waited_for_is_what_the_last_round_lacked() {
        let mut first = founder("n1");
        let missing = |arrival: &Arrival| (arrival.waiting().missing.clone(), arrival.waiting().silent.clone());
        assert_eq!(missing(&first), (names(&["n2"]), vec!["n2".into(), "n3".into()]));
        assert_eq!(first.waiting().founder, Some("n1".into()));
        first.on_heard(&"n3".into());
        first.on_heard(&"elsewhere".into());
        first.on_standing(standing("n2", 0, &["n2", "n1"]));
        first.take_due(first.due(), &mut Rng::new(1));
        assert_eq!(missing(&first), (names(&["n2"]), vec!["n2".into()]), "another list counts for nothing");
        first.on_standing(standing("n2", 0, &["n1", "n2"]));
        first.take_due(first.due(), &mut Rng::new(1));
        assert_eq!(missing(&first).0, []);
    }

    #[test]
    fn another_list_is_complained_of() {
        let mut first = founder("n1");
        let complaint = first.on_standing(standing("n2", 0, &["n2", "n1"])).unwrap();
        assert!(complaint.contains("--bootstrap n2,n1"), "{complaint}");
        assert!(!first.may_found());
    }
}
