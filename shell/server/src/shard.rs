//! What one shard's thread does in a turn: takes all that waits for it, lets the core work, sends once.
//!
//! Not here: who gives it something in between, and when the next turn is (`home.rs`).

use crate::call::{Call, Caller};
use crate::clock::Clock;
use crate::cluster::ToCluster;
use crate::disk::Desk;
use crate::gauge::Gauge;
use crate::home::{ClientId, Clients};
use crate::latency::{Kind, Latencies, Protocol};
use crate::meters::{Pieces, ShardMeters};
use crate::peers::Links;
use crate::recording::Taped;
use crate::status::CopyStatus;
use crate::switch::Switch;
use atoll_node::shard::door::{Answer, Directive, Request, RequestId, ShardInput, ShardOutput};
use atoll_node::shard::message::ShardMessage;
use atoll_node::{Envelope, Input, Message, Shard};
use atoll_replica::message::Body;
use atoll_types::{Address, BucketSnapshot, HashSlot, Position, Principal, Record, SlotRange, Time};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The time of one hop in so many is taken.
const HOPS_PER_SAMPLE: u64 = 16;
/// And of no more than so many at a time: of some nobody ever hears.
const HOPS_MOST: usize = 256;

#[derive(Debug)]
pub(crate) enum ToShard {
    Directive(Directive),
    Message {
        from: Address,
        envelope: Box<Envelope>,
    },
    Call(Call),
    /// For a client of this thread, from the thread whose shard carried it out.
    Answer {
        client: ClientId,
        number: u64,
        answer: Answer,
    },
    /// From the disk.
    Input(ShardInput),
    /// What is here, for people.
    Look(oneshot::Sender<Vec<CopyStatus>>),
    /// Is this thread at work?
    Ping(oneshot::Sender<()>),
    /// A bucket as it is here, for a backup.
    Snapshot(SnapshotWanted),
}

#[derive(Debug)]
pub(crate) struct SnapshotWanted {
    /// Of the bucket that has this slot.
    pub(crate) slot: HashSlot,
    /// It must have come as far as this.
    pub(crate) after: Position,
    /// Whoever asks has it as of here.
    pub(crate) known: Option<Position>,
    pub(crate) asker: oneshot::Sender<Option<SnapshotFound>>,
}

#[derive(Debug)]
pub(crate) struct SnapshotFound {
    pub(crate) range: SlotRange,
    pub(crate) position: Position,
    /// None: it is as the asker knows it.
    pub(crate) snapshot: Option<BucketSnapshot>,
}

pub(crate) struct ShardThread {
    pub(crate) core: Taped<Shard>,
    pub(crate) index: usize,
    pub(crate) clock: Clock,
    pub(crate) switch: Arc<Switch>,
    pub(crate) links: Links,
    /// For what is large and not urgent.
    pub(crate) bulk: Links,
    pub(crate) callers: Callers,
    /// Where there is a disk.
    pub(crate) desk: Option<Desk>,
    pub(crate) gauge: Arc<Gauge>,
    pub(crate) wake: Time,
    pub(crate) meters: Arc<ShardMeters>,
    /// When some of the hops that are under way began: those whose time is taken.
    pub(crate) hops: BTreeMap<u64, Time>,
    /// When the first of what was given straight to the core since its last turn came.
    pub(crate) taken_since: Option<Time>,
}

/// What a turn says of itself.
pub(crate) struct Turn {
    pub(crate) begun: Time,
    /// The next one is then, if nothing happens before.
    pub(crate) wake: Time,
    /// Requests that were taken and are not answered.
    pub(crate) under_way: usize,
}

impl ShardThread {
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A request of a client of this thread, as of now.
    pub(crate) fn take_call(&mut self, now: Time, call: Call) {
        self.note_taken(now);
        self.give_call(now, call);
    }

    /// A frame that was read by this thread.
    pub(crate) fn take_message(&mut self, from: &Address, envelope: Box<Envelope>) {
        let now = self.clock.now();
        self.note_taken(now);
        self.give_message(now, from.clone(), envelope);
    }

    fn note_taken(&mut self, now: Time) {
        if self.taken_since.is_none() {
            self.taken_since = Some(now);
            self.gauge.begin_round();
        }
    }

    /// Takes what other threads have put into the inbox, of which the oldest has waited so long, lets the core work off
    /// all there is, and sends what comes of it, once to each.
    pub(crate) fn turn(&mut self, batch: &mut Vec<ToShard>, waited: Option<Duration>, clients: &mut Clients) -> Turn {
        self.gauge.begin_round();
        let now = self.clock.now();
        let taken = self.taken_since.take().map(|since| now.since(since));
        if let Some(waited) = waited.max(taken) {
            self.meters.queue.count(waited);
        }
        batch.drain(..).for_each(|item| self.give(now, item, clients));
        if self.wake <= now {
            self.wake = Time::NEVER;
            self.core.handle(now, ShardInput::Wake);
        }
        self.carry_out(clients);
        self.note(now);
        self.desk.iter_mut().for_each(Desk::send);
        self.links.flush();
        self.bulk.flush();
        clients.flush();
        self.gauge.end_round(self.core.memory());
        Turn { begun: now, wake: self.wake, under_way: self.core.backlog().held }
    }

    fn give_call(&mut self, now: Time, call: Call) {
        let counts = Kind::of(&call.ask).map(|kind| (call.protocol, kind));
        let id = self.callers.keep(Waiting { caller: call.caller, since: now, counts });
        let Call { connection, slot, ask, .. } = call;
        // Nobody says who he is yet: the listeners will, once credentials are looked at.
        let request = Request { connection, slot, principal: Principal::ANONYMOUS, ask };
        self.core.handle(now, ShardInput::Request { id, request });
    }

    fn give_message(&mut self, now: Time, from: Address, envelope: Box<Envelope>) {
        self.look_at(now, &envelope);
        self.core.handle(now, ShardInput::Message { from, envelope });
    }

    fn give(&mut self, now: Time, item: ToShard, clients: &mut Clients) {
        match item {
            ToShard::Directive(directive) => self.core.handle(now, ShardInput::Directive(directive)),
            ToShard::Message { from, envelope } => self.give_message(now, from, envelope),
            ToShard::Call(call) => self.give_call(now, call),
            ToShard::Answer { client, number, answer } => clients.answer(client, number, answer),
            ToShard::Input(input) => {
                if let ShardInput::Persisted(seq) = input {
                    self.gauge.on_safe(seq);
                }
                self.core.handle(now, input);
            }
            ToShard::Look(asker) => drop(asker.send(self.look())),
            ToShard::Ping(asker) => drop(asker.send(())),
            ToShard::Snapshot(wanted) => {
                let found = self.snapshot(&wanted);
                let _ = wanted.asker.send(found);
            }
        }
    }

    fn carry_out(&mut self, clients: &mut Clients) {
        let now = self.clock.now();
        while let Some(output) = self.core.poll() {
            match output {
                ShardOutput::Send { to, envelope } => self.send(&to, envelope),
                ShardOutput::Answer { id, answer } => {
                    if let Some(caller) = self.callers.found(now, id, &answer) {
                        self.answer(caller, answer, clients);
                    }
                }
                ShardOutput::WakeAt(time) => self.wake = time,
                ShardOutput::Reports(reports) => self.switch.cluster.push(ToCluster::Input(Input::Reports(reports))),
                ShardOutput::Persist { seq, record } => match &mut self.desk {
                    Some(desk) => {
                        self.gauge.on_ordered(seq);
                        desk.add(seq, &Record::Bucket(*record));
                    }
                    // Nothing outlives this process, so there is nothing to wait for.
                    None => self.core.handle(self.clock.now(), ShardInput::Persisted(seq)),
                },
                ShardOutput::Event { .. } => {}
            }
        }
    }

    fn answer(&self, caller: Caller, answer: Answer, clients: &mut Clients) {
        match caller {
            Caller::Client { thread, client, number } if thread == self.index => clients.answer(client, number, answer),
            Caller::Client { thread, client, number } => {
                self.switch.shards[thread].push(ToShard::Answer { client, number, answer });
            }
            // One who is gone misses nothing.
            Caller::Once(caller) => drop(caller.send(answer)),
            Caller::Mailbox(mailbox, number) => mailbox.put(number, answer),
        }
    }

    /// Once a round, for people.
    fn note(&mut self, begun: Time) {
        let meters = &self.meters;
        meters.apply.count(self.clock.now().since(begun));
        if let Some(time) = self.core.take_commit_time() {
            meters.replicate.count(time);
        }
        let backlog = self.core.backlog();
        meters.backlog.set(backlog.held as u64);
        meters.backlog_full.set(backlog.turned_away);
        meters.to_peers.set(self.links.sent() + self.bulk.sent());
    }

    /// What came from a peer, for people.
    fn look_at(&mut self, now: Time, envelope: &Envelope) {
        match &envelope.message {
            Message::Shard(ShardMessage::Hopped(hopped)) => {
                if let Some(since) = self.hops.remove(&hopped.number) {
                    self.meters.hop.count(now.since(since));
                }
            }
            Message::Shard(ShardMessage::Replicas(messages)) => count_pieces(&self.meters.received, messages),
            Message::Shard(ShardMessage::Hop(_) | ShardMessage::Vouch(_) | ShardMessage::Vouched(_))
            | Message::Paxos(_)
            | Message::Cluster(_) => {}
        }
    }

    /// Pieces of snapshots go their own way: whatever else there is must not wait behind them.
    fn send(&mut self, to: &Address, mut envelope: Box<Envelope>) {
        if let Message::Shard(ShardMessage::Replicas(messages)) = &mut envelope.message
            && messages.iter().any(is_bulky)
        {
            let (bulky, rest): (Vec<_>, Vec<_>) = std::mem::take(messages).into_iter().partition(is_bulky);
            count_pieces(&self.meters.sent, &bulky);
            *messages = rest;
            let others = !messages.is_empty();
            let message = Message::Shard(ShardMessage::Replicas(bulky));
            self.bulk.send(to, &Envelope { message, ..(*envelope).clone() });
            if !others {
                return;
            }
        }
        if let Message::Shard(ShardMessage::Hop(hop)) = &envelope.message
            && hop.number % HOPS_PER_SAMPLE == 0
            && self.hops.len() < HOPS_MOST
        {
            // One that is sent again is still the same.
            let now = self.clock.now();
            self.hops.entry(hop.number).or_insert(now);
        }
        self.links.send(to, &envelope);
    }

    /// Only of a copy that is in step: what a former member still holds may be of a line that was given up.
    fn snapshot(&self, wanted: &SnapshotWanted) -> Option<SnapshotFound> {
        let replicas = self.core.replicas();
        let (&bucket, replica) = replicas.iter().find(|(_, replica)| replica.range().contains(wanted.slot))?;
        let (copy, in_step) = (replica.copy(), replica.is_serving() || replica.is_following());
        if !in_step || bucket != wanted.after.bucket || copy.applied.offset < wanted.after.mark.offset {
            return None;
        }
        let position = Position { bucket, mark: copy.applied };
        let snapshot = (wanted.known != Some(position)).then(|| copy.snapshot());
        Some(SnapshotFound { range: copy.range, position, snapshot })
    }

    fn look(&self) -> Vec<CopyStatus> {
        let replicas = self.core.replicas().iter().filter(|(_, replica)| !replica.is_blank() && !replica.is_useless());
        let look = replicas.map(|(&bucket, replica)| CopyStatus {
            bucket: bucket.0,
            serving: replica.is_serving(),
            offset: replica.committed().0,
            last_epoch: replica.log().last().epoch.to_string(),
            last_offset: replica.log().last().offset.0,
            keys: replica.copy().machine.count() as u64,
            bytes: replica.bytes() as u64,
            sessions: replica.copy().sessions.len() as u64,
            log_entries: replica.log().len() as u64,
        });
        look.collect()
    }
}

fn is_bulky(message: &atoll_replica::Message) -> bool {
    matches!(message.body, Body::Piece(_))
}

fn count_pieces(pieces: &Pieces, messages: &[atoll_replica::Message]) {
    for message in messages {
        if let Body::Piece(piece) = &message.body {
            let length = piece.bytes.len() as u64;
            pieces.bytes.add(length);
            pieces.snapshots.add(u64::from(piece.at + length == piece.length));
        }
    }
}

/// Who waits for which answer. Numbers are given again once they are free.
#[derive(Debug)]
pub(crate) struct Callers {
    waiting: Vec<Option<Waiting>>,
    free: Vec<usize>,
    latencies: Arc<Latencies>,
    meters: Arc<ShardMeters>,
}

#[derive(Debug)]
struct Waiting {
    caller: Caller,
    since: Time,
    /// As what its time is counted, if it is.
    counts: Option<(Protocol, Kind)>,
}

impl Callers {
    pub(crate) fn new(latencies: Arc<Latencies>, meters: Arc<ShardMeters>) -> Callers {
        Callers { waiting: Vec::new(), free: Vec::new(), latencies, meters }
    }

    fn keep(&mut self, waiting: Waiting) -> RequestId {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.waiting.push(None);
                self.waiting.len() - 1
            }
        };
        self.waiting[place] = Some(waiting);
        RequestId(place as u64)
    }

    /// Who waits for this answer, which is counted.
    fn found(&mut self, now: Time, id: RequestId, answer: &Answer) -> Option<Caller> {
        let place = id.0 as usize;
        let Waiting { caller, since, counts } = self.waiting.get_mut(place)?.take()?;
        self.free.push(place);
        if let Some((protocol, kind)) = counts {
            self.latencies.of(protocol, kind).count(now.since(since));
            self.meters.count(protocol, kind, answer);
        }
        Some(caller)
    }
}
