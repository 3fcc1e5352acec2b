//! The event loop: what happens next, to which host, and what comes of it.
//!
//! Everything is in one queue, ordered by time and then by the order in which it was put there, so that a run never
//! depends on anything but its seed.
//!
//! Not here: what a core's outputs lead to (`door.rs`), which faults strike (`faults.rs`), what is submitted
//! (`workload.rs`), when all is well (`healing.rs`).

use crate::check::{Arriving, BucketArriving, Checks};
use crate::clients::Clients;
use crate::clock::{Clock, Moment};
use crate::disk::{Disk, is_damaged};
use crate::host::{Host, Life};
use crate::net::Net;
use crate::plan::{Plan, host_name};
use crate::trace::Trace;
use crate::workload::Workload;
use crate::{Buckets, Options, Report, Violation};
use atoll_node::{Input, Node, Output};
use atoll_types::{Rng, Slot, Time};
use atoll_wire::message;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Something that is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Happening {
    /// The message in this place of `flights` arrives.
    Deliver(u32),
    Wake(u32),
    /// The sync under way on this host's disk is done.
    Synced {
        host: u32,
        life: u32,
    },
    /// `host` finds that nobody listens at `gone`, if that is still so.
    Refused {
        host: u32,
        gone: u32,
        life: u32,
    },
    /// The application on `host` answers a barrier.
    Answer {
        host: u32,
        life: u32,
        barrier: Slot,
    },
    Start(u32),
    /// A process that said that it would stop stops.
    Stop {
        host: u32,
        life: u32,
    },
    Resume {
        host: u32,
        life: u32,
    },
    /// A shard that hung goes on.
    GoOn {
        host: u32,
        life: u32,
        shard: u32,
    },
    /// The links that one fault cut work again.
    Mend(u32),
    /// The next fault is drawn.
    Fault,
    /// The next submission is drawn.
    Load,
    /// This client looks whether there is something to do.
    Client(u32),
    /// A client's request reaches its host.
    Ask(u32),
    /// The answer to a request reaches its client.
    Told(u32),
    /// A client no longer waits for the answer to this request.
    Impatient(u32),
    /// A client asks again for what it wants.
    AskAgain(u32),
    /// The operator looks at the cluster.
    Operator,
    Heal,
}

/// A message on its way.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Of the receiver, when the message was sent.
    pub(crate) life: u32,
    pub(crate) bytes: Vec<u8>,
}

/// How a run came to its end without a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Healthy,
    /// Nobody is left that holds the cluster's state. Nothing can be expected of it any more.
    Lost(String),
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) plan: Plan,
    pub(crate) rng: Rng,
    pub(crate) now: Moment,
    queue: BinaryHeap<Reverse<(Moment, u64, Happening)>>,
    sequence: u64,
    pub(crate) hosts: Vec<Host>,
    pub(crate) net: Net,
    pub(crate) flights: Vec<Flight>,
    pub(crate) free_flights: Vec<u32>,
    pub(crate) checks: Checks,
    pub(crate) workload: Workload,
    pub(crate) clients: Clients,
    pub(crate) trace: Trace,
    pub(crate) faults: crate::faults::Faults,
    pub(crate) operator: crate::operator::Operator,
    pub(crate) healing: crate::healing::Healing,
    pub(crate) record: Option<PathBuf>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) messages: u64,
    pub(crate) ended: Option<End>,
}

impl World {
    pub(crate) fn new(seed: u64, mut rng: Rng, plan: Plan, options: &Options) -> World {
        let count = plan.configs.len();
        let hosts: Vec<Host> = plan
            .configs
            .iter()
            .map(|config| {
                let clock = Clock::draw(&mut rng, plan.skewed);
                Host::new(config.clone(), clock, Disk::new(rng.fork(), plan.disk.clone()), count)
            })
            .collect();
        if let Some(directory) = &options.record {
            fs::create_dir_all(directory).expect("the directory for recordings can be made");
        }
        let mut world = World {
            seed,
            net: Net::new(rng.fork(), plan.net.clone(), count),
            workload: Workload::new(rng.fork(), plan.load.clone()),
            clients: Clients::new(rng.fork(), plan.clients.clone()),
            faults: crate::faults::Faults::new(rng.fork(), count),
            operator: crate::operator::Operator::new(rng.fork()),
            healing: crate::healing::Healing::default(),
            checks: Checks::new(&plan.configs),
            trace: Trace::new(seed, options.trace),
            rng,
            now: Moment(0),
            queue: BinaryHeap::new(),
            sequence: 0,
            hosts,
            flights: Vec::new(),
            free_flights: Vec::new(),
            record: options.record.clone(),
            outputs: Vec::new(),
            messages: 0,
            ended: None,
            plan,
        };
        for host in 0..count {
            world.push(world.plan.starts[host], Happening::Start(host as u32));
        }
        world.push(Moment(0), Happening::Fault);
        world.push(Moment(0), Happening::Load);
        for client in 0..world.clients.count() {
            world.push(Moment(0), Happening::Client(client as u32));
        }
        world.push(Moment(1_000_000), Happening::Operator);
        world.push(world.plan.heal_at, Happening::Heal);
        world
    }

    pub(crate) fn push(&mut self, at: Moment, happening: Happening) {
        self.sequence += 1;
        self.queue.push(Reverse((at, self.sequence, happening)));
    }

    /// When the next thing happens.
    pub(crate) fn next_at(&self) -> Moment {
        self.queue.peek().map_or(Moment::NEVER, |Reverse((at, _, _))| *at)
    }

    pub(crate) fn run(&mut self) -> Result<End, Violation> {
        while self.ended.is_none() {
            self.turn()?;
        }
        Ok(self.ended.clone().unwrap_or(End::Healthy))
    }

    /// Takes the next happening from the queue.
    pub(crate) fn turn(&mut self) -> Result<(), Violation> {
        let Some(Reverse((at, _, happening))) = self.queue.pop() else {
            self.ended = Some(End::Healthy);
            return Ok(());
        };
        self.now = at;
        match happening {
            Happening::Deliver(flight) => self.deliver(flight),
            Happening::Wake(host) => self.wake(host as usize),
            Happening::Synced { host, life } => self.synced(host as usize, life),
            Happening::Refused { host, gone, life } => self.refused(host as usize, gone as usize, life),
            Happening::Answer { host, life, barrier } => self.answer(host as usize, life, barrier),
            Happening::Start(host) => self.start(host as usize),
            Happening::Stop { host, life } => {
                self.stop_in_order(host as usize, life);
                Ok(())
            }
            Happening::Resume { host, life } => self.resume(host as usize, life),
            Happening::GoOn { host, life, shard } => self.may_go_on(host as usize, life, shard as usize),
            Happening::Mend(cut) => {
                self.mend(cut as usize);
                Ok(())
            }
            Happening::Fault => self.next_fault(),
            Happening::Load => self.next_load(),
            Happening::Client(client) => self.client_turn(client as usize),
            Happening::Ask(request) => self.asked(request as usize),
            Happening::Told(request) => self.told(request as usize),
            Happening::Impatient(request) => self.impatient(request as usize),
            Happening::AskAgain(operation) => self.ask_again(operation as usize),
            Happening::Operator => self.look_after(),
            Happening::Heal => self.heal(),
        }
    }

    /// Puts it back until the host resumes, if the host is paused.
    fn set_aside(&mut self, host: usize, happening: Happening) -> bool {
        match &mut self.hosts[host].life {
            Life::Paused(_, waiting) => {
                waiting.push(happening);
                true
            }
            Life::Running(_) | Life::Idle | Life::Down => false,
        }
    }

    fn deliver(&mut self, place: u32) -> Result<(), Violation> {
        let (from, to, life) = {
            let flight = &self.flights[place as usize];
            (flight.from, flight.to, flight.life)
        };
        if self.set_aside(to, Happening::Deliver(place)) {
            return Ok(());
        }
        let void = self.net.is_cut(from, to) || (life != self.hosts[to].lives && !self.net.survives_crash());
        if void || !self.hosts[to].is_up() {
            self.free_flights.push(place);
            if !void {
                self.notice_gone(from, to);
            }
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.flights[place as usize].bytes);
        self.trace.delivered(self.now, to, &bytes);
        let decoded = message::decode(&bytes);
        self.flights[place as usize].bytes = bytes;
        self.free_flights.push(place);
        let envelope = decoded.map_err(|error| Violation::of("wire", format!("a message cannot be read: {error}")))?;
        self.hosts[to].partners[from] = true;
        if self.trace.is_aloud() {
            let line = format!("{} -> {}  {:?}", host_name(from), host_name(to), envelope);
            self.trace.say(self.now, line);
        }
        let machine = &self.hosts[to];
        let arriving = (Arriving::of(machine, &envelope), BucketArriving::of(machine, &envelope));
        let address = self.hosts[from].config.address.clone();
        self.step(to, Input::Message { from: address, envelope })?;
        self.checks.after_arrival(&self.hosts, to, &arriving)
    }

    fn wake(&mut self, host: usize) -> Result<(), Violation> {
        if self.hosts[host].wake_queued != self.now {
            return Ok(()); // Replaced by an earlier one, or of an earlier life.
        }
        if self.set_aside(host, Happening::Wake(host as u32)) {
            return Ok(());
        }
        self.hosts[host].wake_queued = Moment::NEVER;
        let now = self.hosts[host].clock.read(self.now);
        if now < self.hosts[host].wake {
            self.queue_wake(host);
            return Ok(());
        }
        self.hosts[host].wake = Time::NEVER;
        self.count_wake(host)?;
        self.step(host, Input::Wake)
    }

    /// Makes sure that the queue holds a wake no later than the host wants one.
    pub(crate) fn queue_wake(&mut self, host: usize) {
        let wanted = self.hosts[host].clock.moment(self.hosts[host].wake).max(self.now);
        if self.hosts[host].wake != Time::NEVER && wanted < self.hosts[host].wake_queued {
            self.hosts[host].wake_queued = wanted;
            self.push(wanted, Happening::Wake(host as u32));
        }
    }

    fn synced(&mut self, host: usize, life: u32) -> Result<(), Violation> {
        if life != self.hosts[host].lives || self.set_aside(host, Happening::Synced { host: host as u32, life }) {
            return Ok(());
        }
        let Some(synced) = self.hosts[host].disk.finish_sync() else { return Ok(()) };
        self.checks.on_safe(&mut self.hosts[host], host, &synced.records);
        self.trace.happened(self.now, host, 1);
        self.step(host, Input::Persisted(synced.through))?;
        while let Some(bucket) = self.hosts[host].disk.ask() {
            self.step(host, Input::Condense(bucket))?;
        }
        Ok(())
    }

    fn may_go_on(&mut self, host: usize, life: u32, shard: usize) -> Result<(), Violation> {
        let happening = Happening::GoOn { host: host as u32, life, shard: shard as u32 };
        if life != self.hosts[host].lives || self.set_aside(host, happening) {
            return Ok(());
        }
        self.go_on(host, shard)
    }

    /// A process that sends to a machine where nobody listens is told so, once for each time that nobody does.
    fn notice_gone(&mut self, host: usize, gone: usize) {
        if !self.plan.refusals || self.faults.told(gone, host) {
            return;
        }
        let (host, gone) = (host as u32, gone as u32);
        let life = self.hosts[host as usize].lives;
        let delay = self.rng.between(Duration::from_millis(1), Duration::from_millis(50));
        self.push(self.now.after(delay), Happening::Refused { host, gone, life });
    }

    pub(crate) fn notice_gone_all(&mut self, gone: usize, partners: &[bool]) {
        for (host, _) in partners.iter().enumerate().filter(|(_, partner)| **partner) {
            self.notice_gone(host, gone);
        }
    }

    fn refused(&mut self, host: usize, gone: usize, life: u32) -> Result<(), Violation> {
        let happening = Happening::Refused { host: host as u32, gone: gone as u32, life };
        if life != self.hosts[host].lives || self.set_aside(host, happening) {
            return Ok(());
        }
        // Restarted meanwhile, or behind a cut: then there is no refusal to be had.
        let heard = !self.net.is_cut(host, gone) && !self.net.is_cut(gone, host);
        if !self.hosts[host].is_up() || self.hosts[gone].is_up() || !heard {
            return Ok(());
        }
        self.trace.happened(self.now, host, 2 + gone as u64);
        let address = self.hosts[gone].config.address.clone();
        self.step(host, Input::ConnectionRefused { address })
    }

    fn answer(&mut self, host: usize, life: u32, barrier: Slot) -> Result<(), Violation> {
        let happening = Happening::Answer { host: host as u32, life, barrier };
        if life != self.hosts[host].lives || self.set_aside(host, happening) {
            return Ok(());
        }
        self.trace.happened(self.now, host, 0x1_0000 + barrier.0);
        let answer = self.workload.answer(host, life, barrier);
        self.step(host, Input::Answer { barrier, answer })
    }

    /// Starts the process on `host`, from what its disk holds.
    pub(crate) fn start(&mut self, host: usize) -> Result<(), Violation> {
        if self.hosts[host].is_up() || self.must_stay_down(host) {
            return Ok(());
        }
        let records = if self.hosts[host].config.durable {
            self.hosts[host].disk.recover().map_err(|problem| Violation::of("disk", problem))?
        } else {
            Vec::new()
        };
        let seed = self.rng.next();
        // Whoever cannot read what it promised begins as if it had never promised anything.
        let blank = records.is_empty() || is_damaged(&records);
        let config = self.config_for_start(host, blank);
        self.trace.say(self.now, format!("{} starts, from {} records", host_name(host), records.len()));
        self.trace.happened(self.now, host, seed);
        self.faults.forget_told(host);
        let now = self.hosts[host].clock.read(self.now);
        self.hosts[host].lives += 1;
        self.begin_recording(host, &config, seed, &records, now);
        let core = Node::start(config, seed, records, now);
        self.hosts[host].life = Life::Running(Box::new(core));
        self.checks.on_start(&self.hosts, host, blank)?;
        self.drain(host)
    }

    /// What became of the clients' operations and of the buckets.
    fn tell_buckets(&self) -> Buckets {
        let tally = self.clients.tally;
        Buckets {
            done: tally.done,
            unknown: tally.unknown,
            not_applied: tally.not_applied,
            moves: self.checks.moves,
            splits: self.checks.audit.divided(),
        }
    }

    pub(crate) fn report(self, ended: Result<Result<End, Violation>, String>) -> Report {
        let violation = match &ended {
            Ok(Ok(_)) => None,
            Ok(Err(violation)) => Some(violation.clone()),
            Err(panic) => Some(Violation::of("assertion", panic.clone())),
        };
        let mut shape = self.plan.describe();
        if let Ok(Ok(End::Lost(why))) = &ended {
            shape.push_str("; cluster lost: ");
            shape.push_str(why);
        }
        Report {
            seed: self.seed,
            digest: self.trace.digest(),
            simulated: self.now.elapsed(),
            decided: self.checks.decided(),
            messages: self.messages,
            faults: self.faults.count(),
            buckets: self.tell_buckets(),
            shape,
            violation: violation.map(|violation| Violation {
                at: self.now.elapsed(),
                last_events: self.trace.last_events(),
                ..violation
            }),
        }
    }
}
