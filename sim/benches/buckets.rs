//! What the bucket log costs, without any IO: `cargo bench -p atoll-sim --bench buckets [NAME]`.
//!
//! Shards of several nodes in one thread pass their frames to each other as they are. Times are of one core. `write`
//! takes numbers, how many at a time, how many in all, and of how many keys: for counts of instructions, of which
//! docs/performance.md tells.

use atoll_kv::{Action, Command, Ttl};
use atoll_node::shard::Shard;
use atoll_node::shard::door::{Answer, Ask, Contact, Directive, Request, RequestId, ShardInput, ShardOutput, Table};
use atoll_node::{Config, Envelope, Limits, Timing, store};
use atoll_types::{
    Address, Appointment, BucketId, ClusterId, Cookie, Duty, Epoch, Generation, HashSlot, Incarnation, Level, Mark,
    Name, NodeId, Offset, Payload, Report, Slot, SlotRange, Time,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |name: &str| words.first().is_none_or(|wanted| wanted == name);
    let number = |place: usize| words.get(place).and_then(|word| word.parse::<u64>().ok());
    if wanted("write") {
        match (number(1), number(2)) {
            (Some(batch), Some(all)) => writes(number(3).unwrap_or(KEYS), &[(batch, all)]),
            _ => writes(KEYS, &[(1, 200_000), (16, 1_000_000), (256, 1_000_000)]),
        }
    }
    let parts: [(&str, fn()); 3] = [("usurp", usurp), ("memory", memory), ("move", move_a_large_bucket)];
    parts.iter().filter(|(name, _)| wanted(name)).for_each(|(_, part)| part());
}

const KEYS: u64 = 100_000;

/// Bucket, primary, members, catching up; and whether the epoch goes on.
type Post<'a> = (u16, u32, &'a [u32], &'a [u32], bool);

/// Nodes with a shard each, and the frames between them.
struct Rig {
    shards: Vec<Shard>,
    now: Time,
    latency: Duration,
    addresses: Vec<Address>,
    /// When it arrives, to whom, from whom. All take the same time, so they arrive in the order of their sending.
    flying: VecDeque<(Time, usize, usize, Envelope)>,
    sent: u64,
    wakes: Vec<Time>,
    version: u64,
    answers: Vec<(Time, RequestId, Answer)>,
    reports: Vec<Report>,
}

fn address(node: usize) -> Address {
    Address::from(format!("n{}", node + 1).as_str())
}

fn config(node: usize) -> Config {
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
    fn new(nodes: usize, latency: Duration) -> Rig {
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
    fn appoint(&mut self, width: u16, appointments: &[Post<'_>]) {
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
                begins,
                divided: None,
            };
            (BucketId(*bucket), duty)
        });
        let table = Table { version, width, complete: false, duties: duties.collect(), purge: Vec::new() };
        if appointments.iter().all(|post| post.4) {
            self.version -= 1;
        }
        for node in 0..self.shards.len() {
            let directive = ShardInput::Directive(Directive::Table(table.clone()));
            self.shards[node].handle(self.now, directive);
            self.drain(node);
        }
    }

    fn drain(&mut self, node: usize) {
        while let Some(output) = self.shards[node].poll() {
            match output {
                ShardOutput::Send { to, envelope } => {
                    self.sent += 1;
                    let place = self.addresses.iter().position(|known| *known == to).expect("a node of the rig");
                    self.flying.push_back((self.now + self.latency, place, node, envelope));
                }
                ShardOutput::Answer { id, answer } => self.answers.push((self.now, id, answer)),
                ShardOutput::WakeAt(time) => self.wakes[node] = time,
                ShardOutput::Reports(reports) => self.reports.extend(reports),
                ShardOutput::Persist { .. } | ShardOutput::Event(_) => {}
            }
        }
    }

    fn request(&mut self, node: usize, id: u64, key: &[u8], command: &[u8]) {
        let ask = Ask::Write { usage: None, command: command.into() };
        let request = Request { connection: id % 64, slot: HashSlot::of(key), ask };
        self.shards[node].handle(self.now, ShardInput::Request { id: RequestId(id), request });
    }

    /// Delivers whatever is on its way now, and what comes of it at once.
    fn run_flying(&mut self) {
        while self.deliver() {}
    }

    /// Delivers the next frame, if there is one.
    fn deliver(&mut self) -> bool {
        let Some((at, to, from, envelope)) = self.flying.pop_front() else { return false };
        self.now = self.now.max(at);
        let from = self.addresses[from].clone();
        self.shards[to].handle(self.now, ShardInput::Message { from, envelope });
        self.drain(to);
        true
    }

    /// Lets the time pass until `end`: frames arrive, shards are woken.
    fn pass_until(&mut self, end: Time) {
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

fn put(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![store::KV];
    Command::one(key, Action::Put { value, ttl: Ttl::Never }).encode(&mut bytes);
    bytes
}

/// Puts of 100 bytes through three replicas on one core, in batches as large as the load makes them.
fn writes(keys: u64, runs: &[(u64, u64)]) {
    let commands: Vec<(Vec<u8>, Payload)> = (0..keys)
        .map(|key| {
            let key = format!("key:{key:08}").into_bytes();
            let command = put(&key, &[7; 100]).into();
            (key, command)
        })
        .collect();
    for &(batch, writes) in runs {
        let mut rig = Rig::new(3, Duration::ZERO);
        let width = 256;
        let all: Vec<Post<'_>> = (0..64).map(|bucket| (bucket * width, 1, &[1, 2, 3][..], &[][..], false)).collect();
        rig.appoint(width, &all);
        rig.run_flying();
        let began = Instant::now();
        let (mut id, mut answered) = (0, 0);
        while id < writes {
            for _ in 0..batch {
                id += 1;
                let (key, command) = &commands[(id % keys) as usize];
                let ask = Ask::Write { usage: None, command: command.clone() };
                let request = Request { connection: id % 64, slot: HashSlot::of(key), ask };
                rig.shards[0].handle(rig.now, ShardInput::Request { id: RequestId(id), request });
            }
            rig.drain(0);
            rig.run_flying();
            assert!(rig.answers.iter().all(|(_, _, answer)| matches!(answer, Answer::Done { .. })));
            answered += rig.answers.len() as u64;
            rig.answers.clear();
        }
        let spent = began.elapsed();
        assert_eq!(answered, id, "every write is answered");
        let rate = id as f64 / spent.as_secs_f64();
        println!(
            "write   {batch:>4} at a time, 64 buckets: {:>9.0} a second, {:.0} ns each, {:.3} frames each",
            rate,
            1e9 / rate,
            rig.sent as f64 / id as f64
        );
    }
}

/// A node that was primary of 1,000 buckets is gone: how long until all of them serve again.
fn usurp() {
    let mut rig = Rig::new(3, Duration::ZERO);
    let all: Vec<Post<'_>> = (0..1000).map(|bucket| (bucket * 16, 1, &[1, 2, 3][..], &[][..], false)).collect();
    rig.appoint(16, &all);
    rig.run_flying();
    for id in 0..20_000 {
        let key = format!("key:{id:08}").into_bytes();
        if HashSlot::of(&key).0 < 16_000 {
            rig.request(0, id, &key, &put(&key, &[7; 100]));
        }
    }
    rig.drain(0);
    rig.run_flying();
    let began = Instant::now();
    let next: Vec<Post<'_>> = (0..1000).map(|bucket| (bucket * 16, 2, &[2, 3][..], &[][..], false)).collect();
    rig.appoint(16, &next);
    rig.run_flying();
    let spent = began.elapsed();
    let serving = rig.shards[1].replicas().values().filter(|replica| replica.is_serving()).count();
    assert_eq!(serving, 1000);
    println!("usurp   1,000 buckets serve again after {:.1} ms of one core for all nodes", spent.as_secs_f64() * 1e3);
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

/// What 16,384 empty buckets cost on one node.
fn memory() {
    let before = resident();
    let mut rig = Rig::new(1, Duration::ZERO);
    let all: Vec<Post<'_>> = (0..16_384).map(|bucket| (bucket, 1, &[1][..], &[][..], false)).collect();
    rig.appoint(1, &all);
    rig.run_flying();
    let cost = resident().saturating_sub(before);
    assert_eq!(rig.shards[0].replicas().len(), 16_384);
    println!("memory  16,384 empty buckets: {:.1} MB, {} bytes each", cost as f64 / 1e6, cost / 16_384);
}

/// A bucket of 100,000 keys moves to another node while it is written to: the longest pause between two answers.
fn move_a_large_bucket() {
    const LATENCY: Duration = Duration::from_micros(500);
    const PACE: Duration = Duration::from_micros(250);
    let mut rig = Rig::new(4, LATENCY);
    let width = 16_384;
    rig.appoint(width, &[(0, 1, &[1, 2, 3], &[], false)]);
    rig.pass_until(rig.now + Duration::from_millis(10));
    let mut id = 0;
    for _ in 0..100_000 {
        id += 1;
        let key = format!("key:{id:08}").into_bytes();
        rig.request(0, id, &key, &put(&key, &[7; 100]));
        if id % 500 == 0 {
            rig.drain(0);
            rig.pass_until(rig.now + LATENCY * 3);
        }
    }
    rig.pass_until(rig.now + Duration::from_millis(20));
    rig.answers.clear();
    rig.reports.clear();
    let began = (rig.now, Instant::now());
    let mut longest = (Duration::ZERO, rig.now);
    let mut last = rig.now;
    let mut step = 0u32;
    // Each step is taken when the one before has been reported done, and a round of the cluster log later.
    let mut due = rig.now;
    let mut took = Vec::new();
    while step < 5 || rig.now.since(due) < Duration::from_millis(20) {
        id += 1;
        let key = format!("key:{:08}", id % 100_000).into_bytes();
        rig.request(3, id, &key, &put(&key, &[8; 100]));
        rig.drain(3);
        rig.pass_until(rig.now + PACE);
        for (at, _, answer) in rig.answers.drain(..) {
            assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
            if at.since(last) > longest.0 {
                longest = (at.since(last), last);
            }
            last = at;
        }
        let ready = rig.reports.iter().any(|report| matches!(report, Report::Ready { .. }));
        let next = match step {
            0 => true,
            1 => ready,
            2.. => rig.now.since(due) > Duration::from_millis(5),
        };
        if next && step < 5 {
            rig.reports.clear();
            rig.pass_until(rig.now + LATENCY * 2);
            match step {
                0 => rig.appoint(width, &[(0, 1, &[1, 2, 3], &[4], true)]),
                1 => rig.appoint(width, &[(0, 1, &[1, 2, 3, 4], &[], false)]),
                2 => rig.appoint(width, &[(0, 4, &[1, 2, 3, 4], &[], false)]),
                3 => rig.appoint(width, &[(0, 4, &[2, 3, 4], &[], false)]),
                _done => {}
            }
            took.push(rig.now.since(began.0));
            due = rig.now;
            step += 1;
        }
    }
    println!(
        "move    100,000 keys: {:.0} simulated ms in all, longest pause of writes {:.2} ms, {:.0} ms of one core",
        took.last().copied().unwrap_or_default().as_secs_f64() * 1e3,
        longest.0.as_secs_f64() * 1e3,
        began.1.elapsed().as_secs_f64() * 1e3,
    );
}
