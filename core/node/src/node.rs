//! A whole node behind one door: one `Cluster` and its `Shard`s, joined as the shell joins them that runs each on a
//! thread of its own. For the simulator, replays, and nodes that need no threads.
//!
//! ```text
//!   Input ──▶ ┌ Cluster ──directives──▶ Shard 0 … Shard W-1 ┐ ──▶ Output
//!             └    ▲                        │               ┘
//!                  └────────reports─────────┘
//! ```
//!
//! Invariants (`Node::check`): records are numbered without gaps over all machines, in the order in which they leave;
//! nothing is left to be passed between the machines when `handle` returns; a machine is woken only when its own time
//! has come.
//!
//! Not here: which shard something is for (`shard/place.rs`).

use crate::config::Config;
use crate::door::{Input, Output};
use crate::envelope::{Envelope, Message};
use crate::machine::Cluster;
use crate::shard::Shard;
use crate::shard::door::{Directive, ShardInput, ShardOutput};
use crate::shard::place::Places;
use crate::view::View;
use atoll_cluster::{Pulse, Work};
use atoll_types::{Address, BucketId, BucketRecord, JournalSeq, Record, Rng, StateMachine, Time};
use std::collections::VecDeque;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// One of the machines of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machine {
    Cluster,
    Shard(usize),
}

/// A record that was ordered and is not known to be safe.
#[derive(Clone, Copy, Debug)]
struct Ordered {
    seq: JournalSeq,
    machine: Machine,
    /// The machine's own number for it.
    own: JournalSeq,
}

/// How a shard is driven.
#[derive(Debug, Default)]
struct Drive {
    /// Inputs that it has taken.
    done: u64,
    /// It stands still: what came for it since waits, as it would for a thread that hangs.
    hangs: bool,
    waiting: Vec<ShardInput>,
}

#[derive(Debug)]
pub struct Node {
    cluster: Cluster,
    shards: Vec<Shard>,
    /// By shard.
    drives: Vec<Drive>,
    /// Hash slots of a bucket at the first placement; 0 until that is known.
    width: u16,
    /// The last record ordered, over all machines.
    journal: JournalSeq,
    /// Numbered without gaps, up to `journal`.
    ordered: VecDeque<Ordered>,
    /// When each machine wants to be woken: the cluster machine, then the shards.
    wakes: Vec<Time>,
    /// The time last asked for.
    wake: Option<Time>,
    now: Time,
    outputs: VecDeque<Output>,
}

impl Node {
    /// `records`: what the disk holds of an earlier life, in order; none for a blank node.
    pub fn start(config: Config, seed: u64, records: Vec<Record>, now: Time) -> Node {
        Node::start_with(config, seed, records, now, None)
    }

    /// With a machine to which everything is applied that is submitted to the cluster log.
    pub fn start_with(
        config: Config,
        seed: u64,
        records: Vec<Record>,
        now: Time,
        machine: Option<Box<dyn StateMachine>>,
    ) -> Node {
        let count = config.shards.max(1);
        let Sorted { cluster: records, buckets, width } = Sorted::from(records, count);
        let mut seeds = Rng::new(seed).fork();
        let shards = buckets.into_iter().enumerate();
        let shards = shards.map(|(index, records)| Shard::start(&config, index, seeds.next(), records, now)).collect();
        let mut node = Node {
            cluster: Cluster::start_with(config, seed, records, now, machine),
            shards,
            drives: (0..count).map(|_| Drive::default()).collect(),
            width,
            journal: JournalSeq(0),
            ordered: VecDeque::new(),
            wakes: vec![Time::NEVER; count + 1],
            wake: None,
            now,
            outputs: VecDeque::new(),
        };
        node.settle();
        node
    }

    pub fn handle(&mut self, now: Time, input: Input) {
        self.now = now.max(self.now);
        match input {
            Input::Message { from, envelope } => self.on_message(from, envelope),
            Input::Wake => self.on_wake(),
            Input::Persisted(seq) => self.on_persisted(seq),
            Input::ConnectionRefused { address } => {
                for shard in 0..self.shards.len() {
                    self.tell_shard(shard, ShardInput::ConnectionRefused { address: address.clone() });
                }
                self.cluster.handle(self.now, Input::ConnectionRefused { address });
            }
            Input::Condense(Some(bucket)) => {
                let shard = self.places().of_slot(bucket.0);
                self.tell_shard(shard, ShardInput::Condense(bucket));
            }
            Input::Request { id, request } => {
                let shard = self.places().of_slot(request.slot.0);
                self.tell_shard(shard, ShardInput::Request { id, request });
            }
            Input::Hang { shard, hangs } => self.on_hang(shard, hangs),
            Input::Submit { .. }
            | Input::Broadcast { .. }
            | Input::Answer { .. }
            | Input::Operator { .. }
            | Input::Condense(None)
            | Input::Pulse(_)
            | Input::Reports(_) => self.cluster.handle(self.now, input),
        }
        self.settle();
    }

    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn tell_shard(&mut self, shard: usize, input: ShardInput) {
        let (Some(machine), Some(drive)) = (self.shards.get_mut(shard), self.drives.get_mut(shard)) else { return };
        if drive.hangs {
            return drive.waiting.push(input);
        }
        drive.done += 1;
        machine.handle(self.now, input);
    }

    fn on_hang(&mut self, shard: usize, hangs: bool) {
        let Some(drive) = self.drives.get_mut(shard) else { return };
        drive.hangs = hangs;
        if !hangs {
            for input in std::mem::take(&mut drive.waiting) {
                self.tell_shard(shard, input);
            }
        }
    }

    /// What the machines and the disk have done: a shell with threads counts the same.
    fn pulse(&self) -> Pulse {
        let shard = |(drive, wake): (&Drive, &Time)| {
            let waiting = drive.hangs && (!drive.waiting.is_empty() || *wake <= self.now);
            Work { done: drive.done, waiting }
        };
        let waiting = self.ordered.front();
        let safe = waiting.map_or(self.journal.0, |ordered| ordered.seq.0 - 1);
        Pulse {
            memory: self.shards.iter().map(Shard::memory).sum(),
            shards: self.drives.iter().zip(&self.wakes[1..]).map(shard).collect(),
            disk: Work { done: safe, waiting: waiting.is_some() },
        }
    }

    fn places(&self) -> Places {
        Places::new(self.shards.len(), self.width)
    }

    fn on_message(&mut self, from: Address, envelope: Envelope) {
        match &envelope.message {
            Message::Paxos(_) | Message::Cluster(_) => {
                self.cluster.handle(self.now, Input::Message { from, envelope });
            }
            Message::Shard(_) => self.places().divide(Box::new(envelope), |shard, envelope| {
                self.tell_shard(shard, ShardInput::Message { from: from.clone(), envelope });
            }),
        }
    }

    fn on_wake(&mut self) {
        self.wake = None;
        for index in 0..self.wakes.len() {
            let hangs = index.checked_sub(1).is_some_and(|shard| self.drives[shard].hangs);
            if self.wakes[index] > self.now || hangs {
                continue;
            }
            self.wakes[index] = Time::NEVER;
            match index.checked_sub(1) {
                None => {
                    self.cluster.handle(self.now, Input::Pulse(self.pulse()));
                    self.cluster.handle(self.now, Input::Wake);
                }
                Some(shard) => self.tell_shard(shard, ShardInput::Wake),
            }
        }
    }

    /// Each machine is told the highest of its own records that is safe.
    fn on_persisted(&mut self, through: JournalSeq) {
        let mut cluster = None;
        let mut shards = vec![None; self.shards.len()];
        while let Some(ordered) = self.ordered.pop_front_if(|ordered| ordered.seq <= through) {
            match ordered.machine {
                Machine::Cluster => cluster = Some(ordered.own),
                Machine::Shard(shard) => shards[shard] = Some(ordered.own),
            }
        }
        if let Some(own) = cluster {
            self.cluster.handle(self.now, Input::Persisted(own));
        }
        for (shard, own) in shards.into_iter().enumerate() {
            if let Some(own) = own {
                self.tell_shard(shard, ShardInput::Persisted(own));
            }
        }
    }

    /// Passes on what the machines have for each other, until there is nothing left.
    fn settle(&mut self) {
        loop {
            let mut passed = false;
            while let Some(output) = self.cluster.poll() {
                passed = true;
                self.on_cluster_output(output);
            }
            for shard in 0..self.shards.len() {
                while let Some(output) = self.shards[shard].poll() {
                    passed = true;
                    self.on_shard_output(shard, output);
                }
            }
            if !passed {
                break;
            }
        }
        self.ask_to_be_woken();
    }

    fn on_cluster_output(&mut self, output: Output) {
        match output {
            Output::Persist { seq, record } => self.persist(Machine::Cluster, seq, record),
            Output::WakeAt(time) => self.wakes[0] = time,
            Output::Directive(directive) => {
                if let Directive::Table(table) = &directive {
                    self.width = table.width;
                }
                for shard in 0..self.shards.len() {
                    self.tell_shard(shard, ShardInput::Directive(directive.clone()));
                }
            }
            Output::Send { .. } | Output::Event(_) | Output::Answer { .. } | Output::Bucket { .. } => {
                self.outputs.push_back(output);
            }
        }
    }

    fn on_shard_output(&mut self, shard: usize, output: ShardOutput) {
        match output {
            ShardOutput::Send { to, envelope } => self.outputs.push_back(Output::Send { to, envelope: *envelope }),
            ShardOutput::Persist { seq, record } => self.persist(Machine::Shard(shard), seq, Record::Bucket(*record)),
            ShardOutput::WakeAt(time) => self.wakes[shard + 1] = time,
            ShardOutput::Answer { id, answer } => self.outputs.push_back(Output::Answer { id, answer }),
            ShardOutput::Reports(reports) => self.cluster.handle(self.now, Input::Reports(reports)),
            ShardOutput::Event { by, event } => self.outputs.push_back(Output::Bucket { by, event: *event }),
        }
    }

    fn persist(&mut self, machine: Machine, own: JournalSeq, record: Record) {
        self.journal.0 += 1;
        self.ordered.push_back(Ordered { seq: self.journal, machine, own });
        self.outputs.push_back(Output::Persist { seq: self.journal, record });
    }

    fn ask_to_be_woken(&mut self) {
        let hangs = |index: usize| index.checked_sub(1).is_some_and(|shard| self.drives[shard].hangs);
        let awake = self.wakes.iter().enumerate().filter(|(index, _)| !hangs(*index)).map(|(_, wake)| *wake);
        let earliest = awake.min().unwrap_or(Time::NEVER);
        if earliest != Time::NEVER && self.wake != Some(earliest) {
            self.wake = Some(earliest);
            self.outputs.push_back(Output::WakeAt(earliest));
        }
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// Of the cluster machine.
    pub fn view(&self) -> View<'_> {
        self.cluster.view()
    }

    /// Asserts the invariants that stand on the fields, of every machine.
    pub fn check(&self) {
        self.cluster.check();
        self.shards.iter().for_each(Shard::check);
        let first = self.journal.0 + 1 - self.ordered.len() as u64;
        let numbered = self.ordered.iter().zip(first..).all(|(ordered, seq)| ordered.seq.0 == seq);
        assert!(numbered, "records are numbered without gaps");
        let awake = self.drives.iter().zip(&self.wakes[1..]).filter(|(drive, _)| !drive.hangs).map(|(_, own)| own);
        let in_time = |wake| awake.chain(&self.wakes[..1]).all(|&own| own >= wake);
        assert!(self.wake.is_none_or(in_time), "nobody is woken late");
    }

    pub fn digest(&self) -> u64 {
        let shards = self.shards.iter().map(Shard::digest);
        shards.fold(self.cluster.digest(), |digest, shard| xxh3_64_with_seed(&shard.to_le_bytes(), digest))
    }
}

/// The records of a disk, each for the machine that ordered it.
#[derive(Debug)]
pub struct Sorted {
    pub cluster: Vec<Record>,
    /// By shard.
    pub buckets: Vec<Vec<BucketRecord>>,
    /// Hash slots of a bucket at the first placement; 0 where no copy was ever begun.
    pub width: u16,
}

impl Sorted {
    pub fn from(records: Vec<Record>, shards: usize) -> Sorted {
        let mut sorted = Sorted { cluster: Vec::new(), buckets: vec![Vec::new(); shards], width: 0 };
        // A copy that a node had before it was blank belongs to somebody who is gone.
        let blank = records.iter().rposition(|record| matches!(record, Record::Blank { .. }));
        let counts = |index: usize| blank.is_none_or(|blank| index > blank);
        for (index, record) in records.iter().enumerate() {
            if let Record::Bucket(
                BucketRecord::Began { width, .. }
                | BucketRecord::Copied { width, .. }
                | BucketRecord::Image { width, .. },
            ) = record
                && counts(index)
            {
                sorted.width = *width;
            }
        }
        for (index, record) in records.into_iter().enumerate() {
            match record {
                Record::Bucket(record) => {
                    if counts(index) {
                        sorted.give(record);
                    }
                }
                Record::Identity(_)
                | Record::Promised(_)
                | Record::Accepted { .. }
                | Record::Learned { .. }
                | Record::Decided(_)
                | Record::Checkpoint(_)
                | Record::Fenced(_)
                | Record::Unreadable
                | Record::Blank { .. } => sorted.cluster.push(record),
            }
        }
        sorted
    }

    fn give(&mut self, record: BucketRecord) {
        let BucketId(slot) = record.bucket();
        if self.width == 0 {
            // No copy was ever begun here: only epochs were seen. Any of the shards may turn out to be theirs.
            return self.buckets.iter_mut().for_each(|records| records.push(record.clone()));
        }
        let shard = Places::new(self.buckets.len(), self.width).of_slot(slot);
        self.buckets[shard].push(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{Epoch, HashSlot, Mark, Slot, SlotRange};

    fn began(bucket: u16) -> BucketRecord {
        let range = SlotRange { first: HashSlot(bucket), last: HashSlot(bucket + 4095) };
        BucketRecord::Began { bucket: BucketId(bucket), range, width: 4096, base: Mark::default(), blank: false }
    }

    fn seen(bucket: u16) -> BucketRecord {
        BucketRecord::Seen { bucket: BucketId(bucket), epoch: Epoch::ZERO }
    }

    fn sorted(records: Vec<Record>) -> Sorted {
        Sorted::from(records, 2)
    }

    #[test]
    fn records_go_to_the_shard_of_their_first_bucket_whatever_it_was_split_into() {
        let records = [seen(4096 + 2048), began(0), seen(2048), began(4096), seen(8192)].map(Record::Bucket);
        let sorted = sorted(records.into_iter().chain([Record::Decided(Slot(3))]).collect());
        assert_eq!(sorted.buckets, [vec![began(0), seen(2048), seen(8192)], vec![seen(4096 + 2048), began(4096)]]);
        assert_eq!((sorted.cluster, sorted.width), (vec![Record::Decided(Slot(3))], 4096));
    }

    #[test]
    fn a_blank_voids_the_copies_before_it() {
        let blank = Record::Blank { departed: true };
        let records = vec![Record::Bucket(began(0)), blank.clone(), Record::Bucket(seen(0))];
        let sorted = sorted(records);
        assert_eq!(sorted.buckets, [vec![seen(0)], vec![seen(0)]], "of no known width: for whoever it concerns");
        assert_eq!((sorted.cluster, sorted.width), (vec![blank], 0));
    }
}
