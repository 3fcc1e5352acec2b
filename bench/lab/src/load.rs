//! The load generator: connections in a closed loop, each with one batch under way, in one thread. It tells rates and
//! latencies, and what processor time the servers, it itself and everybody else took meanwhile.
//!
//! Not here: who is measured (`peers`), how runs are repeated and compared (`measure`).

mod amqp;
mod connection;
mod etcd;
pub(crate) mod http;
pub(crate) mod nats;
mod protocol;
mod resp;
pub(crate) mod usage;
mod zookeeper;

use crate::servers::signal;
use connection::{Shared, Tally};
use protocol::Protocol;
pub(crate) use protocol::Work;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;
use tokio::time::sleep;
use usage::Usage;

/// Different keys of a load that does not write each once.
pub(crate) const KEYS: u64 = 10_000;

/// Answers at the beginning of a run that do not count.
const WARM_UP: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Resp,
    /// With `WAIT 2` after each batch of writes.
    RespWait,
    /// With `WAITAOF 1 2`.
    RespWaitaof,
    /// With `WAIT 1`: what is left to wait for once a master is dead.
    RespWaitOne,
    Etcd,
    Nats,
    Zookeeper,
    Amqp,
    AtollHttp,
    Consul,
    Rqlite,
    EtcdJson,
}

impl Kind {
    fn protocol(self, number: u64) -> Box<dyn Protocol> {
        use http::{Dialect, Http};
        use resp::{Promise, Resp};
        match self {
            Kind::Resp => Box::new(Resp::new(Promise::Plain)),
            Kind::RespWait => Box::new(Resp::new(Promise::Replicas(2))),
            Kind::RespWaitOne => Box::new(Resp::new(Promise::Replicas(1))),
            Kind::RespWaitaof => Box::new(Resp::new(Promise::Disks(2))),
            Kind::Etcd => Box::new(etcd::Etcd::default()),
            Kind::Nats => Box::new(nats::Nats::new(number)),
            Kind::Zookeeper => Box::new(zookeeper::ZooKeeper::default()),
            Kind::Amqp => Box::new(amqp::Amqp::default()),
            Kind::AtollHttp => Box::new(Http::new(Dialect::Atoll)),
            Kind::Consul => Box::new(Http::new(Dialect::Consul)),
            Kind::Rqlite => Box::new(Http::new(Dialect::Rqlite)),
            Kind::EtcdJson => Box::new(Http::new(Dialect::EtcdJson)),
        }
    }
}

/// Where a connection goes, and the keys it asks for there.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) addresses: Vec<String>,
    pub(crate) keys: Rc<Vec<String>>,
}

impl Target {
    /// Any key, at these addresses.
    pub(crate) fn any(addresses: &[String]) -> Target {
        Target { addresses: addresses.to_vec(), keys: Rc::new((0..KEYS).map(key).collect()) }
    }

    /// No more keys than so many.
    pub(crate) fn keep(&mut self, keys: usize) {
        Rc::make_mut(&mut self.keys).truncate(keys);
    }
}

/// Twelve bytes.
pub(crate) fn key(number: u64) -> String {
    format!("k{number:011}")
}

#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) kind: Kind,
    /// Connections take them in turn.
    pub(crate) targets: Vec<Target>,
    pub(crate) work: Work,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    pub(crate) value_size: usize,
    pub(crate) seconds: f64,
    /// Instead of a time: so many keys, each once.
    pub(crate) count: Option<u64>,
    /// After which a request counts as failed.
    pub(crate) timeout: Duration,
    /// The servers.
    pub(crate) pids: Vec<u32>,
    /// A process that is sent a signal meanwhile.
    pub(crate) strike: Option<Strike>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Strike {
    /// Into the time that counts.
    pub(crate) after: Duration,
    pub(crate) pid: u32,
    /// `KILL` or `STOP`.
    pub(crate) signal: &'static str,
}

impl Load {
    pub(crate) fn new(kind: Kind, targets: Vec<Target>, pids: &[u32]) -> Load {
        Load {
            kind,
            targets,
            work: Work::Put,
            connections: 64,
            depth: 1,
            value_size: 100,
            seconds: 3.0,
            count: None,
            timeout: Duration::from_secs(5),
            pids: pids.to_vec(),
            strike: None,
        }
    }
}

/// What came of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Report {
    pub(crate) operations: u64,
    pub(crate) per_second: f64,
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) longest: u64,
    pub(crate) errors: u64,
    pub(crate) first_error: String,
    /// Microseconds of processor time of all servers per operation.
    pub(crate) server_us: f64,
    pub(crate) client_us: f64,
    /// The part of the machine that others took, from 0 to 1.
    pub(crate) others: f64,
    /// The longest time in which nothing was answered; since the strike, if there was one.
    pub(crate) gap: Duration,
    /// From the strike to the beginning of the longest gap.
    pub(crate) gap_after: Duration,
}

pub(crate) fn run(load: Load) -> anyhow::Result<Report> {
    anyhow::ensure!(load.targets.iter().all(|target| !target.addresses.is_empty()), "nowhere to go");
    anyhow::ensure!(load.count.is_some() || load.targets.iter().all(|target| !target.keys.is_empty()), "no keys");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shared = Rc::new(Shared {
        value: vec![b'x'; load.value_size],
        load,
        arrived: Cell::new(0),
        recording: Cell::new(false),
        stopped: Cell::new(false),
        given: Cell::new(0),
        tally: RefCell::new(Tally::new()),
    });
    Ok(LocalSet::new().block_on(&runtime, measure(shared)))
}

async fn measure(shared: Rc<Shared>) -> Report {
    let load = &shared.load;
    let workers: Vec<_> = (0..load.connections)
        .map(|number| {
            let target = load.targets[number % load.targets.len()].clone();
            // Connections of one target spread over its addresses, whatever number they have among all.
            let own = number / load.targets.len();
            tokio::task::spawn_local(connection::run(shared.clone(), own as u64, target))
        })
        .collect();
    if load.count.is_none() {
        while shared.arrived.get() < load.connections {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(WARM_UP).await;
        shared.tally.replace(Tally::new());
    }
    let (before, begun) = (Usage::now(&load.pids), Instant::now());
    shared.recording.set(true);
    let mut struck = Instant::now();
    if let Some(strike) = load.strike {
        sleep(strike.after).await;
        // Starting a program takes a moment, in which answers must go on.
        let sender = std::thread::spawn(move || signal(strike.pid, strike.signal));
        while !sender.is_finished() {
            sleep(Duration::from_millis(1)).await;
        }
        struck = Instant::now();
        shared.tally.borrow_mut().begin_gap();
    }
    if load.count.is_none() {
        sleep(Duration::from_secs_f64(load.seconds)).await;
    } else {
        for worker in workers {
            let _ = worker.await;
        }
    }
    shared.recording.set(false);
    let (took, used) = (begun.elapsed().as_secs_f64(), Usage::now(&load.pids).since(before));
    shared.stopped.set(true);
    shared.tally.borrow_mut().look_at_gap(Instant::now());
    let tally = shared.tally.borrow();
    let operations = tally.latency.len();
    let per = |seconds: f64| seconds * 1e6 / (operations.max(1) as f64);
    Report {
        operations,
        per_second: operations as f64 / took,
        p50: tally.latency.value_at_quantile(0.5),
        p99: tally.latency.value_at_quantile(0.99),
        longest: tally.latency.max(),
        errors: tally.errors,
        first_error: tally.first_error.clone(),
        server_us: per(used.servers),
        client_us: per(used.own),
        others: used.others / took / usage::cores() as f64,
        gap: tally.gap,
        gap_after: tally.gap_began.map_or(Duration::ZERO, |began| began.saturating_duration_since(struck)),
    }
}
