//! Between the core and its host: gives it an input, takes what it wants done, and does it.
//!
//! Not here: what happens next (`world.rs`).

use crate::Violation;
use crate::host::{Host, Life};
use crate::plan::{host_at, host_name};
use crate::world::{Flight, Happening, World};
use atoll_node::shard::message::ShardMessage;
use atoll_node::{Config, Envelope, Event, Input, Message, Output};
use atoll_replica::message::Body;
use atoll_types::{Address, Record, Rng, Time};
use atoll_wire::{Recorder, message};
use std::fs::File;
use std::io::Write;

/// A node that is woken more often than this within a second asks for a time that has passed, again and again.
const WAKES: u64 = 20_000;

/// More messages than this of one node within a second, and so many per node of the cluster, are a storm.
const STORM: u64 = 5_000;
const STORM_PER_NODE: u64 = 500;

impl World {
    pub(crate) fn begin_recording(&mut self, host: usize, config: &Config, seed: u64, records: &[Record], now: Time) {
        let Some(directory) = &self.record else { return };
        let path = directory.join(format!("{}-{}.rec", host_name(host), self.hosts[host].lives));
        let mut file = File::create(path).expect("a recording can be made in the directory for recordings");
        let (recorder, bytes) = Recorder::new(config, seed, records, now);
        file.write_all(&bytes).expect("a recording can be written");
        self.hosts[host].recording = Some((recorder, file));
    }

    /// Gives one input to the core on `host`, and does what the core wants done.
    pub(crate) fn step(&mut self, host: usize, input: Input) -> Result<(), Violation> {
        self.handle(host, input);
        self.drain(host)
    }

    fn handle(&mut self, host: usize, input: Input) {
        self.checks.clocks.now = self.now;
        let machine = &mut self.hosts[host];
        let now = machine.clock.read(self.now);
        if let Some((recorder, file)) = &mut machine.recording {
            file.write_all(&recorder.input(now, &input)).expect("a recording can be written");
        }
        if let Some(core) = machine.core_mut() {
            core.handle(now, input);
        }
    }

    pub(crate) fn drain(&mut self, host: usize) -> Result<(), Violation> {
        loop {
            self.drain_once(host)?;
            // A host without a disk has nothing to wait for.
            match self.hosts[host].unanswered.take() {
                Some(seq) => self.handle(host, Input::Persisted(seq)),
                None => break,
            }
        }
        if self.hosts[host].config.durable
            && let Some(done) = self.hosts[host].disk.begin_sync(self.now)
        {
            let life = self.hosts[host].lives;
            self.push(done, Happening::Synced { host: host as u32, life });
        }
        if let Some(core) = self.hosts[host].core() {
            core.check();
        }
        self.checks.after_step(&self.hosts, host)
    }

    fn drain_once(&mut self, host: usize) -> Result<(), Violation> {
        let mut outputs = std::mem::take(&mut self.outputs);
        let machine = &mut self.hosts[host];
        if let Some(core) = machine.core_mut() {
            while let Some(output) = core.poll() {
                outputs.push(output);
            }
        }
        let Host { recording, life, .. } = machine;
        if let (Some((recorder, file)), Life::Running(core) | Life::Paused(core, _)) = (recording, life) {
            file.write_all(&recorder.outcome(&outputs, core)).expect("a recording can be written");
        }
        for output in outputs.drain(..) {
            self.carry_out(host, output)?;
        }
        self.outputs = outputs;
        Ok(())
    }

    fn carry_out(&mut self, host: usize, output: Output) -> Result<(), Violation> {
        match output {
            Output::Send { to, envelope } => {
                self.checks.on_send(&self.hosts, host, &envelope)?;
                self.send(host, &to, &envelope);
                self.keep_calm(host)
            }
            Output::Persist { seq, record } => {
                self.checks.on_ordered(&self.hosts, host, &record)?;
                if self.hosts[host].config.durable {
                    self.hosts[host].disk.write(seq, record);
                } else {
                    self.hosts[host].unanswered = Some(seq);
                    self.checks.on_safe(&mut self.hosts[host], host, std::slice::from_ref(&record));
                }
                Ok(())
            }
            Output::WakeAt(time) => {
                self.hosts[host].wake = time;
                self.queue_wake(host);
                Ok(())
            }
            Output::Event(event) => self.raised(host, event),
            Output::Bucket { by, event } => {
                let checked = self.checks.on_bucket_event(&self.hosts, (host, by.as_ref()), &event, self.now);
                self.trace.of_bucket(self.now, host, event);
                checked
            }
            Output::Directive(directive) => {
                let detail = format!("{} lets out {directive:?}, which is for its shards", host_name(host));
                Err(Violation::of("door", detail))
            }
            Output::Answer { id, answer } => self.answered(host, id, answer),
        }
    }

    fn send(&mut self, from: usize, to: &Address, envelope: &Envelope) {
        self.messages += 1;
        self.hosts[from].sent += 1;
        let Some(to) = host_at(to).filter(|&to| to < self.hosts.len()) else { return };
        self.hosts[from].partners[to] = true;
        let arrivals = self.net.send(self.now, from, to);
        self.trace.sent(self.now, from, to, envelope, arrivals[0]);
        for arrival in arrivals.into_iter().flatten() {
            let place = self.free_flights.pop().unwrap_or_else(|| {
                self.flights.push(Flight::default());
                self.flights.len() as u32 - 1
            });
            let life = self.hosts[to].lives;
            let flight = &mut self.flights[place as usize];
            (flight.from, flight.to, flight.life) = (from, to, life);
            flight.bytes.clear();
            // One beyond the limits cannot be read, which is a violation.
            match spoilt(&mut self.rng, self.plan.net.spoilt, envelope) {
                Some(spoilt) => message::encode(&spoilt, &mut flight.bytes),
                None => message::encode(envelope, &mut flight.bytes),
            };
            self.push(arrival, Happening::Deliver(place));
        }
    }

    /// Rule: a node that is woken has no reason to be woken at once again, or only so often.
    pub(crate) fn count_wake(&mut self, host: usize) -> Result<(), Violation> {
        self.begin_second(host);
        self.hosts[host].woken += 1;
        if self.hosts[host].woken > WAKES {
            let detail = format!("{} wants to be woken more than {WAKES} times within a second", host_name(host));
            return Err(Violation::of("storm", detail));
        }
        Ok(())
    }

    fn begin_second(&mut self, host: usize) {
        let machine = &mut self.hosts[host];
        let second = self.now.0 / 1_000_000;
        if machine.second != second {
            (machine.second, machine.sent_before, machine.woken) = (second, machine.sent, 0);
        }
    }

    /// Rule: no node answers an answer for ever. A storm of messages would also stop this simulation.
    fn keep_calm(&mut self, host: usize) -> Result<(), Violation> {
        let most = STORM + STORM_PER_NODE * self.hosts.len() as u64;
        self.begin_second(host);
        let machine = &self.hosts[host];
        if machine.sent - machine.sent_before > most {
            let detail = format!("{} sent more than {most} messages within a second", host_name(host));
            return Err(Violation::of("storm", detail));
        }
        Ok(())
    }

    fn raised(&mut self, host: usize, event: Event) -> Result<(), Violation> {
        let fresh = match self.checks.on_event(&self.hosts, host, &event) {
            Ok(fresh) => fresh,
            Err(violation) => {
                // The event that broke the rule is the one that a person wants to see last.
                self.trace.raised(self.now, host, event, true);
                return Err(violation);
            }
        };
        if let Event::BarrierOpened { barrier, .. } = &event {
            self.plan_answers(host, *barrier);
        }
        self.trace.raised(self.now, host, event, fresh);
        Ok(())
    }
}

/// Now and then a piece of a bucket's snapshot has a wrong byte, as if its sender's memory were bad.
fn spoilt(rng: &mut Rng, one_in: u64, envelope: &Envelope) -> Option<Envelope> {
    let Message::Shard(ShardMessage::Replicas(messages)) = &envelope.message else { return None };
    let is_piece = |message: &atoll_replica::Message| matches!(message.body, Body::Piece(_));
    let place = messages.iter().position(is_piece).filter(|_| one_in > 0 && rng.one_in(one_in))?;
    let mut messages = messages.clone();
    if let Body::Piece(piece) = &mut messages[place].body {
        let mut bytes = piece.bytes.as_slice().to_vec();
        let byte = rng.below(bytes.len().max(1) as u64) as usize;
        *bytes.get_mut(byte)? ^= 1 << rng.below(8);
        piece.bytes = bytes.into();
    }
    Some(Envelope { message: Message::Shard(ShardMessage::Replicas(messages)), ..envelope.clone() })
}
