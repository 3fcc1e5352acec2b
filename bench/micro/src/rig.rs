//! Nodes with a shard each in one thread, which pass their frames to each other as they are, without bytes in between.

use atoll_kv::{Action, Command, Ttl};
use atoll_node::shard::Shard;
use atoll_node::shard::door::{Answer, Ask, Contact, Directive, Request, RequestId, ShardInput, ShardOutput, Table};
use atoll_node::{Config, Envelope, Limits, Timing, store};
use atoll_types::{
    Address, Appointment, BucketId, ClusterId, Cookie, Duty, Epoch, Generation, HashSlot, Incarnation, Level, Mark,
    Name, NodeId, Offset, Principal, Report, Slot, SlotRange, Time,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Bucket, primary, members, catching up; and whether the epoch goes on.
pub(crate) type Post<'a> = (u16, u32, &'a [u32], &'a [u32], bool);

/// Nodes with a shard each, and the frames between them.
pub(crate) struct Rig {
    pub(crate) shards: Vec<Shard>,
    pub(crate) now: Time,
    pub(crate) latency: Duration,
    addresses: Vec<Address>,
    /// When it arrives, to whom, from whom. All take the same time, so they arrive in the order of their sending.
    flying: VecDeque<(Time, usize, usize, Envelope)>,
    pub(crate) sent: u64,
    wakes: Vec<Time>,
    version: u64,
    pub(crate) answers: Vec<(Time, RequestId, Answer)>,
    pub(crate) reports: Vec<Report>,
}

pub(crate) fn address(node: usize) -> Address {
    Address::from(format!("n{}", node + 1).as_str())
}

pub(crate) fn config(node: usize) -> Config {
    Config {
        name: Name::from(format!("n{}", node + 1).as_str()),
        address: address(node),
        endpoints: atoll_types::Endpoints::default(),
        zone: Name::from("east"),
        weight: 1,
        join: Vec::new(),
        bootstrap: Vec::new(),
        durable: false,
        level: Level(1),
        buckets: 64,
        copies: 3,
        shards: 1,
        watched: false,
        timing: Timing::default(),
        limits: Limits::default(),
    }
}

impl Rig {
    pub(crate) fn new(nodes: usize, latency: Duration) -> Rig {
        let now = Time(1_000_000_000);
        let incarnation = |node: usize| Incarnation { life: 1, cookie: Cookie(node as u64 + 1) };
        let contact = |node: usize| Contact { address: address(node), incarnation: incarnation(node), present: true };
        let roster: BTreeMap<NodeId, Contact> =
            (0..nodes).map(|node| (NodeId(node as u32 + 1), contact(node))).collect();
        let shards = (0..nodes).map(|node| {
            let mut shard = Shard::start(&config(node), 0, 0, Vec::new(), now);
            let (cluster, generation, id) = (ClusterId(1), Generation::default(), NodeId(node as u32 + 1));
            let named = Directive::Named { cluster, generation, node: id, incarnation: incarnation(node) };
            shard.handle(now, ShardInput::Directive(named));
            shard.handle(now, ShardInput::Directive(Directive::Roster(roster.clone())));
            shard
        });
        Rig {
            shards: shards.collect(),
            now,
            latency,
            addresses: (0..nodes).map(address).collect(),
            flying: VecDeque::new(),
            sent: 0,
            wakes: vec![Time::NEVER; nodes],
            version: 0,
            answers: Vec::new(),
            reports: Vec::new(),
        }
    }

    /// One edict for all of these buckets, known everywhere after a latency each.
    pub(crate) fn appoint(&mut self, width: u16, appointments: &[Post<'_>]) {
        self.version += 1;
        let version = Slot(self.version);
        let nodes = |ids: &[u32]| ids.iter().copied().map(NodeId).collect::<Vec<_>>();
        let duties = appointments.iter().map(|(bucket, primary, members, catching_up, same)| {
            let range = SlotRange { first: HashSlot(*bucket), last: HashSlot(bucket + width - 1) };
            // `same`: only who catches up changes, and the epoch goes on.
            let slot = if *same { Slot(self.version - 1) } else { version };
            let appointment = Appointment {
                epoch: Epoch { slot, ..Epoch::ZERO },
                primary: NodeId(*primary),
                members: nodes(members),
                catching_up: nodes(catching_up),
            };
            let begins = Mark { epoch: Epoch { slot: Slot(1), ..Epoch::ZERO }, offset: Offset(0) };
            let duty = Duty {
                range,
                appointment,
                may_commit: true,
                settled: true,
                splitting: false,
                lost: false,
                short: false,
                begins,
                divided: None,
                sought_at: NodeId::NOBODY,
            };
            (BucketId(*bucket), duty)
        });
        let table = Table {
            version,
            width,
            lease: Duration::ZERO,
            complete: false,
            duties: duties.collect(),
            purge: Vec::new(),
        };
        if appointments.iter().all(|post| post.4) {
            self.version -= 1;
        }
        for node in 0..self.shards.len() {
            let directive = ShardInput::Directive(Directive::Table(table.clone()));
            self.shards[node].handle(self.now, directive);
            self.drain(node);
        }
    }

    pub(crate) fn drain(&mut self, node: usize) {
        while let Some(output) = self.shards[node].poll() {
            match output {
                ShardOutput::Send { to, envelope } => {
                    self.sent += 1;
                    let place = self.addresses.iter().position(|known| *known == to).expect("a node of the rig");
                    self.flying.push_back((self.now + self.latency, place, node, *envelope));
                }
                ShardOutput::Answer { id, answer } => self.answers.push((self.now, id, answer)),
                ShardOutput::WakeAt(time) => self.wakes[node] = time,
                ShardOutput::Reports(reports) => self.reports.extend(reports),
                ShardOutput::Persist { .. } | ShardOutput::Event { .. } => {}
            }
        }
    }

    pub(crate) fn request(&mut self, node: usize, id: u64, key: &[u8], command: &[u8]) {
        let ask = Ask::Write { usage: None, command: command.into() };
        let request = Request { connection: id % 64, slot: HashSlot::of(key), principal: Principal::ANONYMOUS, ask };
        self.shards[node].handle(self.now, ShardInput::Request { id: RequestId(id), request });
    }

    /// Delivers whatever is on its way now, and what comes of it at once.
    pub(crate) fn run_flying(&mut self) {
        while self.deliver() {}
    }

    /// Delivers the next frame, if there is one.
    pub(crate) fn deliver(&mut self) -> bool {
        let Some((at, to, from, envelope)) = self.flying.pop_front() else { return false };
        self.now = self.now.max(at);
        let from = self.addresses[from].clone();
        self.shards[to].handle(self.now, ShardInput::Message { from, envelope: Box::new(envelope) });
        self.drain(to);
        true
    }

    /// What is delivered next, and what was sent last.
    pub(crate) fn next_frame(&self) -> Option<Envelope> {
        self.flying.front().map(|(_, _, _, envelope)| envelope.clone())
    }

    pub(crate) fn last_frame(&self) -> Option<Envelope> {
        self.flying.back().map(|(_, _, _, envelope)| envelope.clone())
    }

    /// Lets the time pass until `end`: frames arrive, shards are woken.
    pub(crate) fn pass_until(&mut self, end: Time) {
        loop {
            let frame = self.flying.front().map_or(Time::NEVER, |(at, ..)| *at);
            let (node, wake) =
                (0..self.wakes.len()).map(|node| (node, self.wakes[node])).min_by_key(|w| w.1).expect("one");
            let next = frame.min(wake);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if frame <= wake {
                self.deliver();
            } else {
                self.wakes[node] = Time::NEVER;
                self.shards[node].handle(self.now, ShardInput::Wake);
                self.drain(node);
            }
        }
    }
}

/// A command that puts this value.
pub(crate) fn put(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![store::KV];
    Command::one(key, Action::Put { value, ttl: Ttl::Never }).encode(&mut bytes);
    bytes
}
