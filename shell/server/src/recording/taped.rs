//! A machine whose doors are listened at.

use super::Reel;
use atoll_node::shard::door::{ShardInput, ShardOutput};
use atoll_node::{Cluster, Config, Input, Output, Shard};
use atoll_types::{BucketRecord, Record, Time};
use atoll_wire::{End, Machine, Tape};
use serde::Serialize;
use std::ops::Deref;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// So much, or what has come in so long a time, is handed on at once.
const PIECE: usize = 64 << 10;
const PIECE_EVERY: Duration = Duration::from_millis(20);
/// The state is digested no more often than this, and so seldom that it takes at most a hundredth of the time.
const STATE_EVERY: Duration = Duration::from_millis(100);
const STATE_SHARE: u32 = 100;

/// What has the doors of a machine.
pub(crate) trait Doors {
    type Input: Serialize;
    type Output: Serialize;
    fn handle(&mut self, now: Time, input: Self::Input);
    fn poll(&mut self) -> Option<Self::Output>;
    fn digest(&self) -> u64;
}

impl Doors for Cluster {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        Cluster::handle(self, now, input);
    }

    fn poll(&mut self) -> Option<Output> {
        Cluster::poll(self)
    }

    fn digest(&self) -> u64 {
        Cluster::digest(self)
    }
}

impl Doors for Shard {
    type Input = ShardInput;
    type Output = ShardOutput;

    fn handle(&mut self, now: Time, input: ShardInput) {
        Shard::handle(self, now, input);
    }

    fn poll(&mut self) -> Option<ShardOutput> {
        Shard::poll(self)
    }

    fn digest(&self) -> u64 {
        Shard::digest(self)
    }
}

/// A machine, and the recording of it where one is made. Looking at the machine is free: it is dereferenced to.
#[derive(Debug)]
pub(crate) struct Taped<M: Doors> {
    machine: M,
    recorder: Option<Box<Recorder>>,
}

impl Taped<Cluster> {
    pub(crate) fn cluster(config: Config, seed: u64, records: Vec<Record>, now: Time, reel: Option<Reel>) -> Self {
        let recorder = reel.and_then(|reel| Recorder::start(reel, Machine::Cluster, &config, seed, &records, now));
        Taped { machine: Cluster::start(config, seed, records, now), recorder }
    }
}

impl Taped<Shard> {
    pub(crate) fn shard(
        config: &Config,
        index: usize,
        seed: u64,
        records: Vec<BucketRecord>,
        now: Time,
        reel: Option<Reel>,
    ) -> Self {
        let recorder = reel.and_then(|reel| {
            let records: Vec<Record> = records.iter().cloned().map(Record::Bucket).collect();
            Recorder::start(reel, Machine::Shard(index as u16), config, seed, &records, now)
        });
        Taped { machine: Shard::start(config, index, seed, records, now), recorder }
    }

    pub(crate) fn take_commit_time(&mut self) -> Option<Duration> {
        // Only for people to see: nothing that comes out later depends on it.
        self.machine.take_commit_time()
    }
}

impl<M: Doors> Taped<M> {
    pub(crate) fn handle(&mut self, now: Time, input: M::Input) {
        match &mut self.recorder {
            None => self.machine.handle(now, input),
            Some(recorder) => {
                recorder.input(now, &input);
                self.machine.handle(now, input);
                recorder.busy = false;
            }
        }
    }

    pub(crate) fn poll(&mut self) -> Option<M::Output> {
        let Some(recorder) = &mut self.recorder else { return self.machine.poll() };
        recorder.busy = true;
        let output = self.machine.poll();
        recorder.busy = false;
        match &output {
            Some(output) => recorder.tape.output(output),
            None => {
                if recorder.drained(&self.machine).is_none() {
                    self.recorder = None;
                }
            }
        }
        output
    }
}

impl<M: Doors> Deref for Taped<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.machine
    }
}

#[derive(Debug)]
struct Recorder {
    tape: Tape,
    reel: Reel,
    machine: Machine,
    /// Something was given since the machine last said that it has no more.
    open: bool,
    /// The machine is at work. One that is dropped then has failed.
    busy: bool,
    now: Time,
    /// When something was last handed on.
    sent: Time,
    /// When the state is digested next.
    state_due: Time,
    /// It has ended, for a reason that was told.
    ended: bool,
}

impl Recorder {
    fn start(
        reel: Reel,
        machine: Machine,
        config: &Config,
        seed: u64,
        records: &[Record],
        now: Time,
    ) -> Option<Box<Self>> {
        let mut tape = Tape::new(machine, config, seed, now);
        let recorder = |tape, reel| Recorder {
            tape,
            reel,
            machine,
            open: true,
            busy: false,
            now,
            sent: now,
            state_due: now,
            ended: false,
        };
        for record in records {
            tape.record(record);
            if tape.waiting() >= PIECE {
                reel.send_in_time(tape.take());
            }
            if reel.shared.is_full() {
                warn!("what the disk holds is more than may be recorded: --record-bytes must be larger than that");
                let bytes = reel.shared.limit;
                recorder(tape, reel).end(End::Limit { bytes });
                return None;
            }
        }
        Some(Box::new(recorder(tape, reel)))
    }

    fn input<I: Serialize>(&mut self, now: Time, input: &I) {
        self.now = now;
        self.open = true;
        self.busy = true;
        self.tape.input(now, input);
    }

    /// None: the recording has ended.
    fn drained<M: Doors>(&mut self, machine: &M) -> Option<()> {
        if !self.open {
            return Some(());
        }
        self.open = false;
        let due = self.now >= self.state_due;
        let state = due.then(|| {
            let begun = Instant::now();
            let digest = machine.digest();
            self.state_due = self.now + STATE_EVERY.max(begun.elapsed() * STATE_SHARE);
            digest
        });
        self.tape.drained(state);
        if self.tape.waiting() < PIECE && self.now.since(self.sent) < PIECE_EVERY {
            return Some(());
        }
        self.sent = self.now;
        let shared = &self.reel.shared;
        if shared.has_failed() {
            self.ended = true;
            return None;
        }
        if shared.is_full() {
            let (machine, bytes, path) = (self.machine, shared.limit, self.reel.path());
            warn!(bytes, "the recording of {machine} ends at its limit (--record-bytes): {path}; the node goes on");
            self.end(End::Limit { bytes });
            return None;
        }
        if shared.is_behind() {
            let (machine, path) = (self.machine, self.reel.path());
            warn!(
                "the recording of {machine} ends: {path} cannot be written as fast as things happen; the node goes on"
            );
            self.end(End::Behind);
            return None;
        }
        self.reel.send(self.tape.take());
        Some(())
    }

    fn end(&mut self, end: End) {
        self.ended = true;
        self.tape.end(end);
        self.reel.send(self.tape.take());
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if self.busy {
            // The input that it failed at is the last thing to be known.
            self.reel.send(self.tape.take());
        } else {
            info!("the recording of {} is complete: {}", self.machine, self.reel.path());
            self.end(End::Stopped);
        }
    }
}
