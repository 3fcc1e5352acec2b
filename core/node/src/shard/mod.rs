//! A shard: the replicas of some of a node's buckets, and the requests for them. One door in, one door out.
//!
//! Inputs are only taken in; what they lead to is worked out when the outputs are asked for. So whoever gives it all
//! there is before asking gets batches, without anybody waiting for one.
//!
//! | What | File |
//! |---|---|
//! | inputs and outputs | `door.rs`, `message.rs` |
//! | duties: which copies are here, and what they are to do | `duties.rs`, `bucket_map.rs` |
//! | where a request goes, and in which order | `routing.rs`, `lane.rs`, `lane_map.rs`, `tickets.rs` |
//! | which shard something is for | `place.rs` |
//! | requests passed on | `hops.rs`, `hopping.rs` |
//! | nodes vouch for each other, for all reads at once | `vouching.rs` |
//! | whose lease a new primary waits for | `tenures.rs` |
//! | at which node the requests for a bucket come in | `sought.rs` |
//!
//! Not here: who serves what (`atoll-distributor`), what a replica does (`atoll-replica`).

pub mod bucket_map;
pub mod door;
mod duties;
mod hopping;
mod hops;
mod lane;
mod lane_map;
pub mod message;
pub mod place;
mod routing;
mod sought;
mod tenures;
mod tickets;
mod vouching;

use crate::config::Config;
use crate::context::Signature;
use crate::envelope::{Envelope, Message};
use crate::store::Store;
use atoll_replica::{Action, Message as ReplicaMessage, Replica, Settings, Sink, Ticket};
use atoll_types::{
    Address, BucketId, BucketRecord, Bug, Duty, Epoch, Gauge, HashSlot, Identity, JournalSeq, Latest, NodeId, Report,
    Slot, StateMachine, Time, planted,
};
use bucket_map::BucketMap;
use door::{Contact, ShardInput, ShardOutput};
use hops::{Guest, Hops};
use lane::{LaneKey, Lanes};
use message::{ShardMessage, Vouch};
use place::Places;
use sought::Sought;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tenures::Tenures;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// So many messages are looked at in advance: what they need fits the first cache.
const FORESEEN: usize = 32;

#[derive(Debug)]
pub struct Shard {
    config: Config,
    index: usize,
    now: Time,
    /// None while this node belongs to no cluster.
    signature: Option<Signature>,
    roster: BTreeMap<NodeId, Contact>,
    /// The slot of the cluster log that the table is as of.
    version: Slot,
    /// The last change of the table that was told here, under this name and generation. None before there was any.
    table_as_of: Option<Latest>,
    /// Who wants to know what this shard has heard of: the last question of each.
    to_vouch: BTreeMap<(NodeId, u16), Vouch>,
    /// Nothing that was decided before then is missing from the table.
    current: Time,
    /// How long a primary may answer reads by itself after that.
    lease: Duration,
    tenures: Tenures,
    sought: Sought,
    /// Slots of a bucket at first placement; 0 before it.
    width: u16,
    /// Of the buckets of this shard.
    table: BucketMap<Duty>,
    replicas: BucketMap<Replica>,
    /// Later epochs that copies had heard of which are no longer here.
    fences: BTreeMap<BucketId, Epoch>,
    /// Messages for copies that are not here yet, of edicts that are not known here yet.
    early: BTreeMap<BucketId, Vec<(NodeId, ReplicaMessage)>>,
    sink: Sink,
    /// An empty state machine of the right kind.
    kind: Box<dyn StateMachine>,
    /// Replicas that may have something to send. In any order, some perhaps more than once.
    dirty: Vec<BucketId>,
    /// Copies with records on their way to the disk.
    writing: BTreeSet<BucketId>,
    /// Lanes that may go on. In any order, some perhaps more than once.
    pump: Vec<LaneKey>,
    timers: BTreeSet<(Time, BucketId)>,
    /// What `timers` has, by bucket; never where it has nothing. No later than what the copy says is due.
    timer_of: Vec<Time>,
    lanes: Lanes,
    /// Reads of a position that is not reached yet, by the bucket whose log they wait for.
    parked: BTreeMap<BucketId, Vec<Ticket>>,
    hops: Hops,
    guests: BTreeMap<(NodeId, u16), Guest>,
    /// Hops of guests that have answers to be sent.
    answered: BTreeSet<(NodeId, u16, u64)>,
    reports: Vec<Report>,
    outputs: VecDeque<ShardOutput>,
    /// Something came in since all that follows was last worked out.
    unsettled: bool,
    /// Bytes that copies may take here; zero: nobody counts them.
    memory_most: usize,
    bytes: BTreeMap<BucketId, usize>,
    bytes_total: usize,
    wake: Option<Time>,
    turned_away: u64,
}

impl Shard {
    /// `records`: of this shard's buckets, what the disk holds of an earlier life.
    pub fn start(config: &Config, index: usize, _seed: u64, records: Vec<BucketRecord>, now: Time) -> Shard {
        Shard::start_with(config, index, records, now, Box::new(Store::new()))
    }

    /// With a state machine of the user's own.
    pub fn start_with(
        config: &Config,
        index: usize,
        records: Vec<BucketRecord>,
        now: Time,
        kind: Box<dyn StateMachine>,
    ) -> Shard {
        let (timing, limits) = (&config.timing, &config.limits);
        let settings = Settings {
            durable: config.durable,
            retry: timing.replica_retry,
            ack_timeout: timing.ack_timeout,
            commit_flush: timing.commit_flush,
            commit_tick: timing.commit_tick,
            frame_bytes: limits.frame_bytes,
            window_bytes: limits.window_bytes,
            log: limits.bucket_log,
            piece_bytes: limits.piece_bytes,
            session_idle: timing.session_idle,
        };
        let mut sink = Sink::new(settings);
        sink.watched = config.watched;
        let replicas = atoll_replica::restore(records, kind.as_ref(), timing.session_idle);
        sink.latest = replicas.values().map(|replica| replica.seen().latest()).max().unwrap_or_default();
        Shard {
            config: config.clone(),
            index,
            now,
            signature: None,
            roster: BTreeMap::new(),
            version: Slot::ZERO,
            table_as_of: None,
            to_vouch: BTreeMap::new(),
            current: Time::ZERO,
            lease: Duration::ZERO,
            tenures: Tenures::default(),
            sought: Sought::default(),
            width: 0,
            table: BucketMap::default(),
            replicas: replicas.into_iter().collect(),
            fences: BTreeMap::new(),
            early: BTreeMap::new(),
            sink,
            kind,
            dirty: Vec::new(),
            writing: BTreeSet::new(),
            pump: Vec::new(),
            timers: BTreeSet::new(),
            timer_of: Vec::new(),
            lanes: Lanes::default(),
            parked: BTreeMap::new(),
            hops: Hops::default(),
            guests: BTreeMap::new(),
            answered: BTreeSet::new(),
            reports: Vec::new(),
            outputs: VecDeque::new(),
            unsettled: true,
            memory_most: limits.memory as usize / config.shards.max(1),
            bytes: BTreeMap::new(),
            bytes_total: 0,
            wake: None,
            turned_away: 0,
        }
    }

    pub fn replicas(&self) -> &BucketMap<Replica> {
        &self.replicas
    }

    pub fn table(&self) -> &BucketMap<Duty> {
        &self.table
    }

    pub fn version(&self) -> Slot {
        self.version
    }

    /// Requests that wait here, and how many were turned away because there were too many.
    pub fn backlog(&self) -> Gauge {
        let (held, limit) = (self.lanes.waiting.len(), self.config.limits.backlog);
        Gauge { held, held_at_most: held, limit, turned_away: self.turned_away }
    }

    /// Bytes that copies take; zero where no limit is set, as nobody counts them then.
    pub fn memory(&self) -> u64 {
        self.bytes_total as u64
    }

    /// How long the last entry that was committed here since the last look had waited for it.
    pub fn take_commit_time(&mut self) -> Option<Duration> {
        self.sink.commit_time.take()
    }

    fn identity(&self) -> Option<Identity> {
        let signed = |signature: &Signature| Identity {
            cluster: signature.cluster,
            node: signature.node,
            incarnation: signature.incarnation,
        };
        self.signature.as_ref().map(signed)
    }

    fn me(&self) -> NodeId {
        self.signature.as_ref().map_or(NodeId::NOBODY, |signature| signature.node)
    }

    /// The first slot of the bucket, at first placement, that this slot was in.
    fn root(&self, slot: HashSlot) -> u16 {
        slot.0 - slot.0.checked_rem(self.width).unwrap_or(slot.0)
    }

    fn owns(&self, bucket: BucketId) -> bool {
        Places::new(self.config.shards, self.width).of_slot(bucket.0) == self.index
    }

    pub fn handle(&mut self, now: Time, input: ShardInput) {
        self.now = now.max(self.now);
        self.unsettled = true;
        match input {
            ShardInput::Directive(directive) => self.on_directive(directive),
            ShardInput::Message { from: _, envelope } => self.on_envelope(*envelope),
            ShardInput::Request { id, request } => self.on_request(id, request),
            ShardInput::Persisted(seq) => self.on_persisted(seq),
            ShardInput::Condense(bucket) => {
                if let Some(replica) = self.replicas.get(&bucket) {
                    replica.condense(&mut self.sink);
                }
            }
            ShardInput::Wake => {
                self.wake = None;
                self.on_wake();
            }
            ShardInput::ConnectionRefused { address: _ } => {} // The cluster log hears of it, and tells whom to drop.
        }
    }

    pub fn poll(&mut self) -> Option<ShardOutput> {
        if self.outputs.is_empty() && std::mem::take(&mut self.unsettled) {
            self.settle();
        }
        self.outputs.pop_front()
    }

    /// Works until there is nothing left to do, then sends what is there, once to each. Replicas are flushed when no
    /// lane can go on, so that all that came for a bucket goes out in one message.
    fn settle(&mut self) {
        loop {
            self.carry_out();
            if !self.pump.is_empty() {
                let lanes = sorted_once(std::mem::take(&mut self.pump));
                lanes.iter().for_each(|lane| self.pump_lane(*lane));
                self.pump = refilled(lanes, std::mem::take(&mut self.pump));
            } else if !self.dirty.is_empty() {
                let buckets = sorted_once(std::mem::take(&mut self.dirty));
                buckets.iter().for_each(|bucket| self.flush(*bucket));
                self.dirty = refilled(buckets, std::mem::take(&mut self.dirty));
            } else {
                break;
            }
        }
        self.send_hops();
        self.send_vouches();
        self.send_letters();
        if !self.reports.is_empty() {
            let reports = std::mem::take(&mut self.reports);
            self.outputs.push_back(ShardOutput::Reports(reports));
        }
        self.ask_to_be_woken();
    }

    fn flush(&mut self, bucket: BucketId) {
        let Some(replica) = self.replicas.get_mut(&bucket) else { return };
        replica.flush(self.now, &mut self.sink);
        let (serving, due) = (replica.is_serving(), replica.due(&self.sink.settings));
        if serving {
            self.go_on(bucket);
        }
        self.note(bucket, due);
    }

    /// Something happened to a copy, which has to be looked at again by `due`.
    fn note(&mut self, bucket: BucketId, due: Time) {
        if !self.parked.is_empty() {
            self.unpark(bucket);
        }
        self.note_timer(bucket, due);
        self.note_bytes(bucket);
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.sink.actions.pop_front() {
            match action {
                Action::Persist { seq, record } => {
                    self.writing.insert(record.bucket());
                    self.outputs.push_back(ShardOutput::Persist { seq, record });
                }
                Action::Answer { ticket, outcome } => self.on_outcome(ticket, outcome),
                Action::Report(report) => self.reports.push(report),
                Action::Event(event) => {
                    let by = self.identity();
                    self.outputs.push_back(ShardOutput::Event { by, event });
                }
            }
        }
    }

    /// A replica may serve now: whoever waits for it goes on.
    fn go_on(&mut self, bucket: BucketId) {
        let root = self.root(HashSlot(bucket.0));
        if self.lanes.queued(root) == 0 {
            return;
        }
        self.pump.extend(self.lanes.waiting_lanes(root));
    }

    /// After something happened to a replica.
    fn touch(&mut self, bucket: BucketId) {
        self.dirty.push(bucket);
        self.resume(bucket);
    }

    /// Whoever waits for a replica goes on, if it serves.
    fn resume(&mut self, bucket: BucketId) {
        let waited_for = self.lanes.queued(self.root(HashSlot(bucket.0))) > 0;
        if waited_for && self.replicas.get(&bucket).is_some_and(Replica::is_serving) {
            self.go_on(bucket);
        }
    }

    /// The bucket is looked at then, or earlier: one look too many costs less than moving its timer at each message.
    fn note_timer(&mut self, bucket: BucketId, due: Time) {
        let place = usize::from(bucket.0);
        if place >= self.timer_of.len() {
            self.timer_of.resize(place + 1, Time::NEVER);
        }
        let before = self.timer_of[place];
        if due >= before {
            return;
        }
        if before != Time::NEVER {
            self.timers.remove(&(before, bucket));
        }
        self.timer_of[place] = due;
        self.timers.insert((due, bucket));
    }

    /// Its timer has rung, or it is gone.
    fn forget_timer(&mut self, bucket: BucketId) {
        let Some(noted) = self.timer_of.get_mut(usize::from(bucket.0)) else { return };
        let before = std::mem::replace(noted, Time::NEVER);
        self.timers.remove(&(before, bucket));
    }

    /// Keeps count of the memory; near the limit nothing that grows is taken any more.
    fn note_bytes(&mut self, bucket: BucketId) {
        if self.memory_most == 0 {
            return;
        }
        let held = self.replicas.get(&bucket).map_or(0, Replica::bytes);
        let before = self.bytes.insert(bucket, held).unwrap_or(0);
        self.bytes_total = self.bytes_total + held - before;
        self.sink.full = self.bytes_total > self.memory_most / 10 * 9;
    }

    fn on_persisted(&mut self, seq: JournalSeq) {
        for bucket in std::mem::take(&mut self.writing) {
            if let Some(replica) = self.replicas.get_mut(&bucket) {
                replica.on_persisted(self.now, &mut self.sink, seq);
                if replica.awaits_disk() {
                    self.writing.insert(bucket);
                }
                self.carry_out();
                self.touch(bucket);
            }
        }
    }

    fn on_wake(&mut self) {
        while let Some(&(due, bucket)) = self.timers.first()
            && due <= self.now
        {
            self.forget_timer(bucket);
            if let Some(replica) = self.replicas.get_mut(&bucket) {
                let due = replica.due(&self.sink.settings);
                if due > self.now {
                    self.note_timer(bucket, due);
                    continue;
                }
                replica.on_wake(self.now, &mut self.sink);
                self.carry_out();
                self.touch(bucket);
            }
        }
        self.expire();
        self.repeat_hops();
        self.give_up_vouches();
    }

    fn ask_to_be_woken(&mut self) {
        let timer = self.timers.first().map_or(Time::NEVER, |&(due, _)| due);
        let vouches = self.sink.vouchers.due(self.config.timing.replica_retry);
        let due = timer.min(self.lanes.next_deadline()).min(self.hops.next_retry()).min(vouches);
        if due != Time::NEVER && self.wake != Some(due) {
            self.wake = Some(due);
            self.outputs.push_back(ShardOutput::WakeAt(due.max(self.now)));
        }
    }

    /// Only what comes from the life of a node that the cluster log knows, and is meant for this life, counts.
    fn on_envelope(&mut self, envelope: Envelope) {
        let Some(signature) = &self.signature else { return };
        let Some(contact) = self.roster.get(&envelope.from) else { return };
        let same_cluster = (envelope.cluster, envelope.generation) == (signature.cluster, signature.generation);
        let for_me = (envelope.to, envelope.to_cookie) == (signature.node, signature.incarnation.cookie);
        let known_life = contact.incarnation == envelope.incarnation;
        if !same_cluster || !((for_me && known_life) || planted(Bug::OldIncarnationCounts)) {
            return;
        }
        let from = envelope.from;
        match envelope.message {
            Message::Shard(ShardMessage::Replicas(messages)) => {
                for messages in messages.chunks(FORESEEN) {
                    messages.iter().for_each(|message| self.foresee(from, message));
                    messages.iter().for_each(|message| self.on_replica_message(from, message));
                }
            }
            Message::Shard(ShardMessage::Hop(hop)) => self.on_hop(from, hop),
            Message::Shard(ShardMessage::Hopped(hopped)) => self.on_hopped(from, hopped),
            Message::Shard(ShardMessage::Vouch(vouch)) => self.on_vouch(from, vouch),
            Message::Shard(ShardMessage::Vouched(vouched)) => self.on_vouched(from, &vouched),
            Message::Paxos(_) | Message::Cluster(_) => {}
        }
    }

    /// What this message lets a copy apply is brought from memory while those before it are worked off.
    fn foresee(&self, from: NodeId, message: &ReplicaMessage) {
        if let Some(replica) = self.replicas.get(&message.bucket) {
            replica.foresee(from, message);
        }
    }

    fn on_replica_message(&mut self, from: NodeId, message: &ReplicaMessage) {
        let bucket = message.bucket;
        let generation = self.signature.as_ref().map(|signature| signature.generation).unwrap_or_default();
        if !self.owns(bucket) || message.epoch.slot > Slot::MOST || message.epoch.generation > generation {
            return;
        }
        if message.epoch.slot > self.version {
            // Of an edict that is not known here yet. A copy that is here notes the epoch at once.
            if !self.replicas.contains_key(&bucket) {
                let early = self.early.entry(bucket).or_default();
                if early.len() < self.config.limits.held {
                    early.push((from, message.clone()));
                }
                return;
            }
        }
        if let Some(replica) = self.replicas.get_mut(&bucket) {
            replica.on_message(self.now, &mut self.sink, from, message);
            // When it is due next is asked once it was flushed, if it has to be.
            let due = (!replica.is_stirred()).then(|| replica.due(&self.sink.settings));
            self.carry_out();
            match due {
                Some(due) => self.note(bucket, due),
                None => self.dirty.push(bucket),
            }
            // Also where nothing is to be sent: it may serve since now, or have room again.
            self.resume(bucket);
        } else if let Some(duty) = self.table.get(&bucket)
            && message.epoch < duty.appointment.epoch
        {
            let current = duty.appointment.epoch;
            let body = atoll_replica::message::Body::Refused(atoll_replica::message::Refused { current });
            self.sink.letters.push(from, ReplicaMessage { bucket, epoch: current, body });
        }
    }

    fn send_letters(&mut self) {
        while let Some((to, messages)) = self.sink.letters.take() {
            self.send(to, ShardMessage::Replicas(messages));
        }
        while let Some((origin, shard, number)) = self.answered.pop_first() {
            self.send_answers(origin, shard, number);
        }
    }

    fn send(&mut self, to: NodeId, message: ShardMessage) {
        let Some(signature) = &self.signature else { return };
        let Some(contact) = self.roster.get(&to) else { return };
        let envelope = Envelope {
            cluster: signature.cluster,
            generation: signature.generation,
            from: signature.node,
            incarnation: signature.incarnation,
            to,
            to_cookie: contact.incarnation.cookie,
            message: Message::Shard(message),
        };
        let to: Address = contact.address.clone();
        self.outputs.push_back(ShardOutput::Send { to, envelope: Box::new(envelope) });
    }

    /// Asserts the invariants that stand on the fields.
    pub fn check(&self) {
        self.lanes.check();
        self.replicas.values().for_each(Replica::check);
        let latest = |replica: &Replica| replica.seen().latest();
        assert!(self.replicas.values().all(|replica| latest(replica) <= self.sink.latest), "what was seen is noted");
    }

    /// Of all copies and of what waits.
    pub fn digest(&self) -> u64 {
        let mut digest = self.version.0;
        for (bucket, replica) in self.replicas.iter() {
            let last = replica.log().last();
            let parts = [
                u64::from(bucket.0),
                replica.copy().digest(),
                last.offset.0,
                last.epoch.slot.0,
                replica.committed().0,
                replica.seen().slot.0,
            ];
            digest = parts.iter().fold(digest, |digest, part| xxh3_64_with_seed(&part.to_le_bytes(), digest));
        }
        xxh3_64_with_seed(&(self.lanes.waiting.len() as u64).to_le_bytes(), digest)
    }
}

/// In order, and each once.
fn sorted_once<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list.dedup();
    list
}

/// What has come meanwhile, in the room of what is done.
fn refilled<T>(mut done: Vec<T>, mut fresh: Vec<T>) -> Vec<T> {
    done.clear();
    done.append(&mut fresh);
    done
}
