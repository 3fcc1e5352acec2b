//! What a seed draws before anything runs: the nodes and their settings, the network, the load, and which faults come
//! how often. Each seed draws its own mix ("swarm"), because faults that are always on together hide each other.
//!
//! Not here: when a fault strikes and whom (`faults.rs`, drawn while the run goes on).

use crate::Shape;
use crate::clock::Moment;
use atoll_node::{Config, Limits, Timing};
use atoll_types::{Address, Level, Name, Rng};
use std::fmt::Write;
use std::time::Duration;

/// The kinds of fault that strike from outside, at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A set of hosts and the rest do not hear each other.
    Partition,
    /// A set of hosts is heard by the rest, and does not hear it, or the other way round.
    OneWay,
    /// One link between two hosts, one way or both.
    CutLink,
    /// Messages on some links are held, and released together.
    Clog,
    /// Many messages are lost for a while.
    Lossy,
    /// Every message is late for a while.
    Late,
    Crash,
    /// Two crashes, the second soon after the first.
    CrashTwice,
    /// A crash after which a durable host's disk is empty.
    Amnesia,
    /// The process stands still for a while, and then goes on as if nothing had been.
    Pause,
    /// A host's clock is set forward.
    Jump,
    SlowDisk,
    /// All hosts crash at once.
    WholeStop,
    /// An operator orders a member to depart.
    Depart,
    /// An operator wants something of the buckets: splits, drains, that they are levelled out.
    Wish,
    /// A host stops in good order, and starts again.
    Restart,
    /// One shard of a host stands still for a while; the rest of it goes on, and is heard.
    HangShard,
    /// A disk does nothing for a while.
    HangDisk,
}

impl Kind {
    pub(crate) const ALL: [Kind; 16] = [
        Kind::Partition,
        Kind::OneWay,
        Kind::CutLink,
        Kind::Clog,
        Kind::Lossy,
        Kind::Late,
        Kind::Crash,
        Kind::CrashTwice,
        Kind::Amnesia,
        Kind::Pause,
        Kind::Jump,
        Kind::SlowDisk,
        Kind::WholeStop,
        Kind::Depart,
        Kind::Wish,
        Kind::Restart,
    ];

    /// Drawn after all else, so that they change nothing where they are not drawn.
    pub(crate) const HANGS: [Kind; 2] = [Kind::HangShard, Kind::HangDisk];
}

/// What stays broken when all else heals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasting {
    Nothing,
    /// Two hosts never hear each other again.
    Link(usize, usize),
    /// This host's disk stays very slow.
    Disk(usize),
    /// This host never starts again.
    Down(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct NetPlan {
    pub(crate) latency: (Duration, Duration),
    /// Lost, per million.
    pub(crate) loss: u64,
    /// Delivered twice, per million.
    pub(crate) duplicates: u64,
    /// Messages on one link may overtake each other; this is how much later one may come.
    pub(crate) reorder: Option<Duration>,
    /// Messages in flight to a process that crashed reach its successor.
    pub(crate) survive_crash: bool,
    /// One in so many pieces of a bucket's snapshot has a wrong byte; zero for none.
    pub(crate) spoilt: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct DiskPlan {
    pub(crate) sync: (Duration, Duration),
    /// A crash may leave a part of what was not synced, torn anywhere.
    pub(crate) torn: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ClientsPlan {
    pub(crate) count: usize,
    /// Between two operations of one client, on average.
    pub(crate) pace: Duration,
    /// Sets of keys, each in a slot of its own.
    pub(crate) tags: usize,
    /// Of a message between a client and a host.
    pub(crate) latency: (Duration, Duration),
    /// Messages lost, each with its connection, per million.
    pub(crate) loss: u64,
    /// How long a client waits for an answer, about.
    pub(crate) patience: Duration,
    /// By how much a client's clock is ahead, at most.
    pub(crate) skew: Duration,
}

impl ClientsPlan {
    /// What a clock shows that is right, when a run begins.
    pub(crate) const CLOCK: u64 = 1_000_000;

    const NONE: ClientsPlan = ClientsPlan {
        count: 0,
        pace: Duration::from_secs(1),
        tags: 0,
        latency: (Duration::ZERO, Duration::ZERO),
        loss: 0,
        patience: Duration::from_secs(1),
        skew: Duration::ZERO,
    };
}

#[derive(Clone, Debug)]
pub(crate) struct LoadPlan {
    /// Between two submissions, on average.
    pub(crate) pace: Duration,
    /// One in this many submissions is a burst.
    pub(crate) burst: u64,
    /// One in this many is a broadcast.
    pub(crate) broadcast: u64,
    /// How long a node takes at most to answer a barrier.
    pub(crate) think: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) configs: Vec<Config>,
    /// When each host starts for the first time.
    pub(crate) starts: Vec<Moment>,
    pub(crate) kinds: Vec<Kind>,
    /// Between two faults, on average.
    pub(crate) fault_pace: Duration,
    /// Memory is lost even where that takes the majority from the cluster.
    pub(crate) reckless: bool,
    pub(crate) skewed: bool,
    /// Peers learn of a crash because their connection is refused.
    pub(crate) refusals: bool,
    pub(crate) net: NetPlan,
    pub(crate) disk: DiskPlan,
    pub(crate) load: LoadPlan,
    pub(crate) clients: ClientsPlan,
    pub(crate) lasting: Lasting,
    /// Faults strike until here; the run ends when the cluster is well after it.
    pub(crate) heal_at: Moment,
}

impl Plan {
    pub(crate) fn draw(rng: &mut Rng, minutes: f64, shape: Shape) -> Plan {
        let rng = &mut rng.fork();
        let all = shape == Shape::FiveNodesAllFaults;
        let count = if all { 5 } else { draw_count(rng) };
        let span = Duration::from_secs_f64(minutes * 60.0);
        let heal_at = Moment::default().after(span * 2 / 3);
        let mut configs = draw_configs(rng, count);
        let starts = configs.iter().map(|config| draw_start(rng, config, heal_at)).collect();
        let mut kinds = if all { Kind::ALL.to_vec() } else { draw_kinds(rng) };
        let lasting = draw_lasting(rng, &configs);
        let fault_pace = rng.between(Duration::from_millis(150), Duration::from_millis(2_500));
        let (reckless, skewed, refusals) = (rng.one_in(5), rng.one_in(2), !rng.one_in(3));
        let net = draw_net(rng, all);
        let disk = DiskPlan { sync: draw_sync(rng), torn: rng.one_in(2) };
        let load = draw_load(rng);
        draw_buckets(rng, &mut configs);
        let clients = draw_clients(rng, &configs, skewed);
        draw_lease(rng, &mut configs);
        draw_hangs(rng, &mut kinds);
        draw_max_skew(rng, &mut configs);
        draw_follow(rng, &mut configs);
        Plan {
            configs,
            starts,
            kinds,
            fault_pace,
            reckless,
            skewed,
            refusals,
            net,
            disk,
            load,
            clients,
            lasting,
            heal_at,
        }
    }

    /// Many nodes, one founder, no faults, no load of its own.
    pub(crate) fn large(rng: &mut Rng, count: usize) -> Plan {
        let join: Vec<Address> = (0..3).map(|host| Address::from(host_name(host).as_str())).collect();
        let config = |host: usize| Config {
            name: named(host),
            address: Address::from(host_name(host).as_str()),
            endpoints: atoll_types::Endpoints::default(),
            zone: Name::from("east"),
            weight: 1,
            join: join.clone(),
            bootstrap: if host == 0 { vec![named(0)] } else { Vec::new() },
            durable: false,
            level: Level(1),
            buckets: 0,
            copies: 3,
            shards: 1,
            watched: true,
            timing: Timing::default(),
            limits: Limits::default(),
        };
        let day = Moment(24 * 3_600_000_000);
        Plan {
            configs: (0..count).map(config).collect(),
            starts: (0..count).map(|host| if host == 0 { Moment(0) } else { Moment(rng.below(5_000_000)) }).collect(),
            kinds: Vec::new(),
            fault_pace: Duration::from_secs(1),
            reckless: false,
            skewed: false,
            refusals: true,
            net: NetPlan {
                latency: (Duration::from_micros(200), Duration::from_micros(900)),
                loss: 0,
                duplicates: 0,
                reorder: None,
                survive_crash: false,
                spoilt: 0,
            },
            disk: DiskPlan { sync: (Duration::from_micros(100), Duration::from_micros(200)), torn: false },
            load: LoadPlan {
                pace: Duration::from_secs(24 * 3600),
                burst: 0,
                broadcast: 0,
                think: Duration::from_secs(1),
            },
            clients: ClientsPlan::NONE,
            lasting: Lasting::Nothing,
            heal_at: day,
        }
    }

    /// All of it that a person wants to know, in a line.
    pub(crate) fn describe(&self) -> String {
        let durable = self.configs.iter().filter(|config| config.durable).count();
        let mut text = format!("{} nodes, {durable} durable, founders", self.configs.len());
        for name in self.configs.iter().find(|config| !config.bootstrap.is_empty()).map_or(&[][..], |c| &c.bootstrap) {
            let _ = write!(text, " {name}");
        }
        if let Some(config) = self.configs.first() {
            let _ = write!(text, ", log {}, depart after {:?}", config.limits.log, config.timing.depart_after);
        }
        let _ = write!(text, "; a fault every {:?} of {:?}", self.fault_pace, self.kinds);
        if self.reckless {
            text.push_str(", reckless");
        }
        match self.lasting {
            Lasting::Nothing => {}
            Lasting::Link(one, other) => {
                let _ = write!(text, "; n{} and n{} stay cut apart", one + 1, other + 1);
            }
            Lasting::Disk(host) => {
                let _ = write!(text, "; the disk of n{} stays slow", host + 1);
            }
            Lasting::Down(host) => {
                let _ = write!(text, "; n{} stays down", host + 1);
            }
        }
        text
    }
}

fn draw_count(rng: &mut Rng) -> usize {
    match rng.below(10) {
        0 => 1 + rng.below(2) as usize,
        1 => 7 + rng.below(3) as usize,
        2..=4 => 3,
        5 => 4,
        6..=8 => 5,
        _more => 6,
    }
}

pub(crate) fn host_name(host: usize) -> String {
    format!("n{}", host + 1)
}

/// The host that listens at `address`.
pub(crate) fn host_at(address: &Address) -> Option<usize> {
    address.0.strip_prefix('n')?.parse::<usize>().ok()?.checked_sub(1)
}

fn draw_configs(rng: &mut Rng, count: usize) -> Vec<Config> {
    let timing = draw_timing(rng);
    let limits = draw_limits(rng);
    let founders: Vec<Name> = (0..1 + rng.below(3.min(count as u64)) as usize).map(named).collect();
    let join: Vec<Address> = (0..count).map(|host| Address::from(host_name(host).as_str())).collect();
    let durability = rng.below(5);
    let mixed_levels = rng.one_in(4);
    (0..count)
        .map(|host| Config {
            name: named(host),
            address: join[host].clone(),
            endpoints: atoll_types::Endpoints::default(),
            zone: Name::from(["east", "west", "south"][rng.below(3) as usize]),
            weight: 1 + rng.below(3) as u32,
            join: join.clone(),
            bootstrap: if founders.contains(&named(host)) { founders.clone() } else { Vec::new() },
            durable: match durability {
                0 | 1 => true,
                2 | 3 => false,
                _mixed => rng.one_in(2),
            },
            level: Level(if mixed_levels { 1 + rng.below(2) as u16 } else { 1 }),
            buckets: 0,
            copies: 3,
            shards: 1,
            watched: true,
            timing: timing.clone(),
            limits: limits.clone(),
        })
        .collect()
}

fn named(host: usize) -> Name {
    Name::from(host_name(host).as_str())
}

/// The proportions of the defaults, at another pace.
fn draw_timing(rng: &mut Rng) -> Timing {
    let heartbeat = Duration::from_millis(60 + rng.below(120));
    Timing {
        heartbeat,
        election: heartbeat * (4 + rng.below(4) as u32),
        replace: heartbeat * (3 + rng.below(3) as u32),
        silence: heartbeat * (6 + rng.below(10) as u32),
        evidence: heartbeat / 2,
        depart_after: rng.between(Duration::from_secs(5), Duration::from_secs(120)),
        arrival: heartbeat * (30 + rng.below(40) as u32),
        retry: heartbeat * 2,
        retry_most: heartbeat * 30,
        ..Timing::default()
    }
}

/// Small limits in most seeds, so that snapshots, trimming, full queues and chunks really happen.
fn draw_limits(rng: &mut Rng) -> Limits {
    if rng.one_in(4) {
        return Limits::default();
    }
    Limits {
        pipeline: 1 << rng.below(7),
        submissions: 4 + rng.below(60) as usize,
        outstanding: 4 + rng.below(30) as usize,
        arrivals: 1 + rng.below(4) as usize,
        entry_bytes: 64 * 1024,
        log: 32 + rng.below(480) as usize,
        trim_step: 8 + rng.below(56) as usize,
        chunk_bytes: 64 + rng.below(960) as usize,
        snapshots: 1 + rng.below(4) as usize,
        fan_out: 1 + rng.below(4) as usize,
        ..Limits::default()
    }
}

/// Few buckets and small limits, so that they move, wait and fill up often.
fn draw_buckets(rng: &mut Rng, configs: &mut [Config]) {
    let buckets = 1 << rng.below(4);
    let shards = 1 + rng.below(2) as usize;
    let roomy = rng.one_in(4);
    let Some(Config { timing, limits, .. }) = configs.first() else { return };
    let (mut timing, mut limits) = (timing.clone(), limits.clone());
    timing.ack_timeout = timing.silence * (2 + rng.below(4) as u32) / 4;
    timing.request = rng.between(Duration::from_secs(2), Duration::from_secs(6));
    timing.replica_retry = timing.heartbeat * (1 + rng.below(3) as u32) / 4;
    timing.commit_flush = Duration::from_micros(200 + rng.below(5_000));
    // Some have ticks. Not drawn: seeds stay what they are.
    if timing.commit_flush > Duration::from_millis(2) {
        timing.commit_tick = timing.commit_flush / 4;
    }
    timing.max_stale = rng.between(Duration::from_secs(1), Duration::from_secs(6));
    timing.session_idle = rng.between(Duration::from_secs(3), Duration::from_secs(60));
    if !roomy {
        limits.backlog = 4 + rng.below(60) as usize;
        limits.held = 2 + rng.below(30) as usize;
        limits.write_bytes = 16 * 1024;
        limits.frame_bytes = 256 + rng.below(4096) as usize;
        limits.window_bytes = 512 + rng.below(8192) as usize;
        limits.bucket_log = 4 + rng.below(124) as usize;
        limits.piece_bytes = 64 + rng.below(960) as usize;
        limits.width = 1 + rng.below(3) as usize;
    }
    for config in configs {
        (config.buckets, config.shards) = (buckets, shards);
        (config.timing, config.limits) = (timing.clone(), limits.clone());
    }
}

/// Leases in some seeds, from a few heartbeats to longer than it takes to be missed.
fn draw_lease(rng: &mut Rng, configs: &mut [Config]) {
    let (drawn, eighths) = (rng.one_in(3), 3 + rng.below(14) as u32);
    for config in configs.iter_mut().filter(|_| drawn) {
        config.timing.lease = config.timing.ack_timeout * eighths / 8;
    }
}

/// Where there are faults at all.
fn draw_hangs(rng: &mut Rng, kinds: &mut Vec<Kind>) {
    for kind in Kind::HANGS {
        if rng.one_in(4) && !kinds.is_empty() {
            kinds.push(kind);
        }
    }
}

/// From less than clocks are off by in most seeds to about as much; none in some.
fn draw_max_skew(rng: &mut Rng, configs: &mut [Config]) {
    let max_skew = match rng.below(4) {
        0 => Duration::ZERO,
        1 => rng.between(Duration::from_millis(300), Duration::from_secs(3)),
        _wide => rng.between(Duration::from_secs(3), Duration::from_secs(20)),
    };
    configs.iter_mut().for_each(|config| config.timing.max_skew = max_skew);
}

/// A few clients on few keys. All of them together ask some dozen times a second, more in some seeds.
/// Primaries go where requests come in, in some seeds, and on the word of few.
fn draw_follow(rng: &mut Rng, configs: &mut [Config]) {
    let drawn = rng.one_in(3);
    let (window, enough) = (rng.between(Duration::from_millis(200), Duration::from_secs(3)), 2 + rng.below(8) as u32);
    for config in configs.iter_mut().filter(|_| drawn) {
        (config.timing.follow, config.limits.follow) = (window, enough);
    }
}

fn draw_clients(rng: &mut Rng, configs: &[Config], skewed: bool) -> ClientsPlan {
    let buckets = configs.first().map_or(1, |config| config.buckets.max(1));
    let count = 2 + rng.below(5) as usize;
    let low = Duration::from_micros(100 + rng.below(2_000));
    ClientsPlan {
        count,
        pace: Duration::from_millis(15 + rng.below(45)) * count as u32,
        tags: usize::from(buckets) * (1 + rng.below(2) as usize),
        latency: (low, low * (1 + rng.below(10) as u32)),
        loss: if rng.one_in(2) { rng.below(20_000) } else { 0 },
        patience: rng.between(Duration::from_millis(500), Duration::from_secs(6)),
        skew: if skewed { Duration::from_secs(30) } else { Duration::from_secs(1) },
    }
}

fn draw_start(rng: &mut Rng, config: &Config, heal_at: Moment) -> Moment {
    // One in four arrives when the cluster has a past. Founders do not: without all of them there is no cluster.
    if config.bootstrap.is_empty() && rng.one_in(4) {
        return Moment(rng.below(heal_at.0));
    }
    Moment(rng.below(1_000_000).min(heal_at.0))
}

fn draw_kinds(rng: &mut Rng) -> Vec<Kind> {
    if rng.one_in(20) {
        return Vec::new();
    }
    let odds = 2 + rng.below(2);
    Kind::ALL.into_iter().filter(|_| rng.one_in(odds)).collect()
}

fn draw_lasting(rng: &mut Rng, configs: &[Config]) -> Lasting {
    let count = configs.len() as u64;
    let one = rng.below(count) as usize;
    let other = rng.below(count) as usize;
    match rng.below(8) {
        0 if one != other && count >= 3 => Lasting::Link(one, other),
        1 if configs[one].durable && count >= 3 => Lasting::Disk(one),
        2 if count >= 4 && configs[one].bootstrap.is_empty() => Lasting::Down(one),
        _none => Lasting::Nothing,
    }
}

fn draw_net(rng: &mut Rng, all: bool) -> NetPlan {
    let near = Duration::from_micros(100 + rng.below(1_000));
    let low = if rng.one_in(4) { near * 20 } else { near };
    let sometimes = |rng: &mut Rng, most: u64| if all || rng.one_in(2) { rng.below(most) } else { 0 };
    NetPlan {
        latency: (low, low * (1 + rng.below(4) as u32)),
        loss: sometimes(rng, 40_000),
        duplicates: sometimes(rng, 40_000),
        reorder: (all || rng.one_in(2)).then(|| rng.between(Duration::from_millis(1), Duration::from_millis(200))),
        survive_crash: rng.one_in(2),
        spoilt: if rng.one_in(4) { 4 + rng.below(40) } else { 0 },
    }
}

fn draw_sync(rng: &mut Rng) -> (Duration, Duration) {
    let low = Duration::from_micros(50 + rng.below(2_000));
    (low, low * (1 + rng.below(8) as u32))
}

fn draw_load(rng: &mut Rng) -> LoadPlan {
    LoadPlan {
        pace: rng.between(Duration::from_millis(20), Duration::from_millis(400)),
        burst: 8 + rng.below(40),
        broadcast: 10 + rng.below(60),
        think: rng.between(Duration::from_millis(10), Duration::from_secs(4)),
    }
}
