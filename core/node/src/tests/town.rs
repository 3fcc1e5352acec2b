//! A few nodes, a network that takes a millisecond, and disks that are safe at once or when a test says so.

use crate::{Config, Envelope, Event, Input, Limits, Node, Output, Timing};
use atoll_types::{Address, JournalSeq, Level, Name, Record, StateMachine, Time};
use std::collections::BTreeMap;

pub(super) const MILLISECOND: u64 = 1_000;

pub(super) fn config(name: &str, founders: &[&str]) -> Config {
    let names: Vec<Name> = founders.iter().map(|&name| name.into()).collect();
    Config {
        name: name.into(),
        address: name.into(),
        endpoints: atoll_types::Endpoints::default(),
        zone: "".into(),
        weight: 1,
        join: founders.iter().map(|&name| name.into()).collect(),
        bootstrap: if founders.contains(&name) { names } else { Vec::new() },
        durable: false,
        level: Level(1),
        buckets: 4,
        copies: 3,
        shards: 2,
        watched: true,
        timing: Timing::default(),
        limits: Limits::default(),
    }
}

#[derive(Debug)]
pub(super) struct House {
    pub(super) node: Option<Node>,
    config: Config,
    kind: Option<Box<dyn StateMachine>>,
    wake: Time,
    pub(super) records: Vec<Record>,
    last: JournalSeq,
    pub(super) outputs: Vec<Output>,
}

#[derive(Debug, Default)]
pub(super) struct Town {
    pub(super) now: u64,
    pub(super) houses: Vec<House>,
    flights: BTreeMap<(u64, u64), (usize, Address, Envelope)>,
    sent: u64,
}

impl Town {
    pub(super) fn founded(names: &[&str], durable: bool, kind: Option<&dyn StateMachine>) -> Town {
        let mut town = Town { now: 1_000_000, ..Town::default() };
        for name in names {
            town.add(Config { durable, ..config(name, names) }, kind);
        }
        town
    }

    pub(super) fn add(&mut self, config: Config, kind: Option<&dyn StateMachine>) {
        let kind = kind.map(StateMachine::empty);
        let (records, last, outputs) = (Vec::new(), JournalSeq(0), Vec::new());
        self.houses.push(House { node: None, config, kind, wake: Time::NEVER, records, last, outputs });
        self.start(self.houses.len() - 1);
    }

    pub(super) fn start(&mut self, house: usize) {
        let machine = &mut self.houses[house];
        let kind = machine.kind.as_ref().map(|kind| kind.empty());
        let records = machine.records.clone();
        machine.last = JournalSeq(0);
        let seed = self.sent + house as u64 + 1;
        machine.node = Some(Node::start_with(machine.config.clone(), seed, records, Time(self.now), kind));
        self.drain(house);
    }

    pub(super) fn give(&mut self, house: usize, input: Input) {
        if let Some(node) = &mut self.houses[house].node {
            node.handle(Time(self.now), input);
            self.drain(house);
        }
    }

    fn drain(&mut self, house: usize) {
        loop {
            let Some(node) = &mut self.houses[house].node else { return };
            let outputs: Vec<Output> = std::iter::from_fn(|| node.poll()).collect();
            node.check();
            let mut ordered = None;
            for output in outputs {
                match &output {
                    Output::Send { to, envelope } => {
                        let to = self.houses.iter().position(|other| other.config.address == *to);
                        let from = self.houses[house].config.address.clone();
                        self.sent += 1;
                        let at = (self.now + MILLISECOND, self.sent);
                        if let Some(to) = to {
                            self.flights.insert(at, (to, from, envelope.clone()));
                        }
                    }
                    Output::Persist { seq, record } => {
                        let machine = &mut self.houses[house];
                        assert_eq!(seq.0, machine.last.0 + 1, "one row of numbers over all machines");
                        machine.last = *seq;
                        machine.records.push(record.clone());
                        ordered = Some(*seq);
                    }
                    Output::WakeAt(time) => self.houses[house].wake = *time,
                    Output::Event(_) | Output::Answer { .. } | Output::Bucket { .. } => {
                        self.houses[house].outputs.push(output);
                    }
                    Output::Directive(directive) => panic!("{directive:?} leaves a node"),
                }
            }
            match (ordered, &mut self.houses[house].node) {
                (Some(seq), Some(node)) => node.handle(Time(self.now), Input::Persisted(seq)),
                (Some(_) | None, _) => return,
            }
        }
    }

    /// Lets everything happen until `done`, for at most so many seconds.
    pub(super) fn run(&mut self, seconds: u64, done: impl Fn(&Town) -> bool) -> bool {
        let end = self.now + seconds * 1_000_000;
        while !done(self) {
            let flight = self.flights.keys().next().map_or(u64::MAX, |(at, _)| *at);
            let awake = self.houses.iter().filter(|house| house.node.is_some()).map(|house| house.wake.0);
            let wake = awake.min().unwrap_or(u64::MAX);
            let next = flight.min(wake).max(self.now);
            if next > end {
                return false;
            }
            self.now = next;
            if flight <= wake {
                if let Some((_, (to, from, envelope))) = self.flights.pop_first() {
                    self.give(to, Input::Message { from, envelope });
                }
            } else if let Some(house) =
                self.houses.iter().position(|house| house.node.is_some() && house.wake.0 == wake)
            {
                self.houses[house].wake = Time::NEVER;
                self.give(house, Input::Wake);
            }
        }
        true
    }

    pub(super) fn node(&self, house: usize) -> &Node {
        self.houses[house].node.as_ref().expect("it runs")
    }

    pub(super) fn leader(&self) -> Option<usize> {
        let leads = |house: &House| house.node.as_ref().is_some_and(|node| node.view().leading.is_some());
        self.houses.iter().position(leads)
    }

    /// How many nodes the leader has as present.
    pub(super) fn present(&self) -> usize {
        let state = self.leader().and_then(|leader| self.node(leader).view().state);
        state.map_or(0, |state| state.active().len())
    }

    /// All that run have the same log.
    pub(super) fn is_level(&self) -> bool {
        let decided: Vec<_> =
            self.houses.iter().filter_map(|house| house.node.as_ref()).map(|node| node.view().decided).collect();
        decided.windows(2).all(|pair| pair[0] == pair[1])
    }

    pub(super) fn events(&self, house: usize) -> impl Iterator<Item = &Event> {
        self.houses[house].outputs.iter().filter_map(|output| match output {
            Output::Event(event) => Some(event),
            Output::Send { .. }
            | Output::Persist { .. }
            | Output::WakeAt(_)
            | Output::Directive(_)
            | Output::Answer { .. }
            | Output::Bucket { .. } => None,
        })
    }
}
