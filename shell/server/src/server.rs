//! One node: its listeners, its threads, and how it stops.

use crate::clients;
use crate::clock::Clock;
use crate::cluster::{ClusterThread, Ordered, ToCluster};
use crate::disk::{self, Desk, Directory, Machine, Opened, Writer};
use crate::events::{Book, Chronicle};
use crate::gateway::{Gateway, Seen};
use crate::gauge::Gauge;
use crate::home::Home;
use crate::http::{self, Handed, Web};
use crate::log::Log;
use crate::peers::{self, Accepted, Evidence, Lane, Links};
use crate::recording::{Recordings, Reel, Taped};
use crate::refused::Refused;
use crate::scheduling::schedule;
use crate::settings::Settings;
use crate::shard::{Callers, ShardThread};
use crate::status::{Board, Gone};
use crate::switch::Switch;
use atoll_node::{Config, Input, Order, Sorted};
use atoll_types::{Address, BucketRecord, NodeId, Operation, Record, Rng, Time};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::panic::resume_unwind;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tracing::{error, info};

/// A node that stops in good order goes after this long, come what may.
const STOP: Duration = Duration::from_secs(5);
/// The longest value that still travels in one frame, together with others.
const VALUE_MOST: usize = 8 * 1024 * 1024;

#[derive(Debug, Error)]
pub enum StartError {
    #[error("cannot listen on {address} for {purpose}: {error}; is another node running there?")]
    Listen { purpose: &'static str, address: String, error: io::Error },
    #[error(
        "{address} for {purpose} can be reached from other machines, and nothing there is encrypted; \
         say --insecure-listen if that is meant"
    )]
    Insecure { purpose: &'static str, address: String },
    #[error(transparent)]
    Disk(#[from] disk::DiskError),
    #[error("{0}")]
    Wrong(String),
    #[error("cannot record in {folder}: {error}; give --record a folder that can be written to")]
    Record { folder: String, error: io::Error },
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A node that runs. Dropping it is as good as killing it.
#[derive(Debug)]
pub struct Server {
    pub gateway: Gateway,
    pub peer: SocketAddr,
    pub http: SocketAddr,
    pub resp: SocketAddr,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    writer: Option<Writer>,
    recordings: Option<Recordings>,
}

fn listen(purpose: &'static str, address: &str, insecure: bool) -> Result<TcpListener, StartError> {
    let failed = |error| StartError::Listen { purpose, address: address.to_owned(), error };
    let places: Vec<SocketAddr> = address.to_socket_addrs().map_err(failed)?.collect();
    if !insecure && places.iter().any(|place| !place.ip().is_loopback()) {
        return Err(StartError::Insecure { purpose, address: address.to_owned() });
    }
    let listener = TcpListener::bind(&places[..]).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// Runs `work` on a thread with a runtime of its own, until the node stops.
fn thread<W, F>(name: String, mut stop: watch::Receiver<bool>, work: W) -> Result<JoinHandle<()>, StartError>
where
    W: FnOnce() -> F + Send + 'static,
    F: Future<Output = ()> + 'static,
{
    // The runtime belongs to its thread and is made there; whether that went well is told here.
    let (made, made_well) = sync_channel(1);
    let run = move || {
        let runtime = match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
            Ok(runtime) => runtime,
            Err(error) => return drop(made.send(Err(error))),
        };
        let _ = made.send(Ok(()));
        let ended = runtime.block_on(async {
            // A task like the others, in line with them: by its turn everything that was ready has been read.
            let work = spawn_local(work());
            tokio::select! {
                ended = work => ended,
                _ = stop.wait_for(|stop| *stop) => Ok(()),
            }
        });
        // A name that is still being looked up would hold up the end for as long as the resolver likes.
        runtime.shutdown_background();
        if let Err(error) = ended
            && error.is_panic()
        {
            resume_unwind(error.into_panic());
        }
    };
    let thread = std::thread::Builder::new().name(name).spawn(run).map_err(StartError::Thread)?;
    made_well.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())).map_err(StartError::Thread)?;
    Ok(thread)
}

async fn accepted(
    mut incoming: mpsc::UnboundedReceiver<Accepted>,
    switch: Arc<Switch>,
    home: Option<Rc<Home>>,
    refused: Arc<Refused>,
) {
    while let Some(accepted) = incoming.recv().await {
        spawn_local(peers::read(accepted, switch.clone(), home.clone(), refused.clone()));
    }
}

fn tokio_listener(listener: TcpListener) -> tokio::net::TcpListener {
    tokio::net::TcpListener::from_std(listener).expect("a listener made for this runtime")
}

impl Server {
    /// Returns as soon as the node listens; whether it serves is for its status to say.
    pub fn start(settings: Settings) -> Result<Server, StartError> {
        if settings.max_value > VALUE_MOST {
            let message = format!("--max-value {}: at most {VALUE_MOST}", settings.max_value);
            return Err(StartError::Wrong(message));
        }
        if !settings.buckets.is_power_of_two() || settings.buckets > 16_384 {
            let message = format!("--buckets {}: a power of two, at most 16384", settings.buckets);
            return Err(StartError::Wrong(message));
        }
        let insecure = settings.insecure_listen;
        let peers = listen("peers", &settings.peer, insecure)?;
        let http = listen("HTTP", &settings.http, insecure)?;
        let resp = listen("RESP", &settings.resp, insecure)?;
        Server::start_on(settings, peers, http, resp)
    }

    fn start_on(
        settings: Settings,
        peers: TcpListener,
        http: TcpListener,
        resp: TcpListener,
    ) -> Result<Server, StartError> {
        let place = |listener: &TcpListener| listener.local_addr().map_err(StartError::Thread);
        let (peer_at, http_at, resp_at) = (place(&peers)?, place(&http)?, place(&resp)?);
        if settings.advertise.is_none() && [peer_at, http_at, resp_at].iter().any(|place| place.ip().is_unspecified()) {
            let message = "listening on every address: say --advertise HOST, where others reach this node".to_owned();
            return Err(StartError::Wrong(message));
        }
        let told = |place: SocketAddr| Address::from(advertised(&settings, place).as_str());
        let peer = settings.advertise_peer.as_deref().map_or_else(|| told(peer_at), Address::from);
        let config = settings.config(peer, told(http_at), told(resp_at));
        let (name, scheduling, busy_poll) = (settings.name.clone(), settings.scheduling, settings.busy_poll);
        let clock = Clock::start();
        let mut rng = Rng::new(seed());
        let opened =
            settings.data_dir.as_deref().map(|path| disk::open(path, &name, settings.log_bytes)).transpose()?;
        let switch = Arc::new(Switch::new(config.shards));
        let (board, log, refused) = (Arc::<Board>::default(), Arc::<Log>::default(), Arc::<Refused>::default());
        let book = Arc::<Book>::default();
        let (stop, stopping) = watch::channel(false);
        let (mut records, mut writer) = (Sorted::from(Vec::new(), config.shards), None);
        if let Some(Opened { taken, journal, recovered }) = opened {
            records = Sorted::from(recovered.records, config.shards);
            switch.set_width(records.width);
            let (board, stop) = (board.clone(), stop.clone());
            let failed = move |error: io::Error| {
                board.say_gone(Gone::Broken(format!("the disk failed: {error}")));
                let _ = stop.send(true);
                error!(%error, "the disk failed: this node stops, so that the others go on without it");
            };
            let files = Directory::of(&taken.path);
            let started = Writer::start(&name, scheduling, taken, journal, files, switch.clone(), failed);
            writer = Some(started.map_err(StartError::Thread)?);
        }
        let recordings = match &settings.record {
            Some(folder) => Some(record(folder, &settings, clock.now())?),
            None => None,
        };
        let reel = |machine| recordings.as_ref().map(|recordings| reel(recordings, machine)).transpose();
        let desk = |machine| writer.as_ref().map(|writer| writer.desk(machine));
        let cluster_inbox = switch.cluster.clone();
        let evidence: Evidence =
            Arc::new(move |address| cluster_inbox.push(ToCluster::Input(Input::ConnectionRefused { address })));
        let seen = Seen { board: board.clone(), log: log.clone(), book: book.clone(), refused: refused.clone() };
        let gateway = Gateway::new(settings, clock, switch.clone(), seen, rng.next());
        let web = Web::new(gateway.clone());
        let (to_cluster, for_cluster) = mpsc::unbounded_channel();
        let (mut to_shards, mut handed_to_shards) = (Vec::new(), Vec::new());
        let mut threads = Vec::new();
        for index in 0..config.shards {
            let (to_shard, for_shard) = mpsc::unbounded_channel();
            to_shards.push(to_shard);
            let (hand_over, handed) = mpsc::unbounded_channel();
            handed_to_shards.push(hand_over);
            let shard = ShardStart {
                config: config.clone(),
                index,
                seed: rng.next(),
                clock,
                switch: switch.clone(),
                evidence: evidence.clone(),
                refused: refused.clone(),
                accepted: for_shard,
                resp: resp.try_clone().map_err(StartError::Thread)?,
                gateway: gateway.clone(),
                web: web.clone(),
                handed,
                records: std::mem::take(&mut records.buckets[index]),
                desk: desk(Machine::Shard(index)),
                reel: reel(atoll_wire::Machine::Shard(index as u16))?,
                busy_poll,
            };
            let work = move || {
                schedule(scheduling);
                shard.run()
            };
            threads.push(thread(format!("{name} shard {index}"), stopping.clone(), work)?);
        }
        {
            let work = move || {
                schedule(scheduling);
                http::serve(tokio_listener(http), web, handed_to_shards)
            };
            threads.push(thread(format!("{name} http"), stopping.clone(), work)?);
        }
        let cluster = ClusterStart {
            config,
            seed: rng.next(),
            clock,
            switch,
            evidence,
            refused,
            board,
            log,
            book,
            accepted: for_cluster,
            to_cluster,
            to_shards,
            peers,
            records: records.cluster,
            desk: desk(Machine::Cluster),
            reel: reel(atoll_wire::Machine::Cluster)?,
        };
        threads.push(thread(format!("{name} cluster"), stopping, move || cluster.run())?);
        Ok(Server { gateway, peer: peer_at, http: http_at, resp: resp_at, stop, threads, writer, recordings })
    }

    /// Hands over what this node is primary of and says that it goes, so that nobody has to wait for it; then stops.
    /// `STOP` later it stops anyway.
    pub async fn stop_in_good_order(self) {
        let _ = timeout(STOP, self.say_goodbye()).await;
        self.kill();
    }

    async fn say_goodbye(&self) {
        let me = self.gateway.board().routes().me;
        if me.is_nobody() {
            return;
        }
        let others =
            self.gateway.board().routes().places.iter().filter(|(node, place)| **node != me && place.present).count();
        if others == 0 {
            return;
        }
        let handed = self.gateway.order(Order::Operate(Operation::HandOver { node: me })).await;
        if matches!(handed, Ordered::Taken(_)) {
            while self.leads(me) {
                sleep(Duration::from_millis(20)).await;
            }
        }
        info!("primaries are handed over");
        let _ = self.gateway.order(Order::Pause).await;
    }

    fn leads(&self, me: NodeId) -> bool {
        self.gateway.board().routes().ranges.iter().any(|range| range.primary == me && range.members.len() > 1)
    }

    /// Stops at once: to the others it is as if the process had died.
    pub fn kill(mut self) {
        let _ = self.stop.send(true);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        drop(self.writer.take());
        self.recordings.take().into_iter().for_each(Recordings::finish);
    }
}

fn record(folder: &Path, settings: &Settings, now: Time) -> Result<Recordings, StartError> {
    let failed = |error| StartError::Record { folder: folder.display().to_string(), error };
    Recordings::start(folder, &settings.name, settings.record_bytes, now).map_err(failed)
}

/// A file for one machine.
fn reel(recordings: &Recordings, machine: atoll_wire::Machine) -> Result<Reel, StartError> {
    let failed = |error| StartError::Record { folder: recordings.folder().display().to_string(), error };
    recordings.reel(machine).map_err(failed)
}

/// Where others reach a place that is listened on.
fn advertised(settings: &Settings, place: SocketAddr) -> String {
    match &settings.advertise {
        Some(host) => format!("{host}:{}", place.port()),
        None => place.to_string(),
    }
}

/// Different in each process and for each node of one.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

struct ShardStart {
    config: Config,
    index: usize,
    seed: u64,
    clock: Clock,
    switch: Arc<Switch>,
    evidence: Evidence,
    refused: Arc<Refused>,
    accepted: mpsc::UnboundedReceiver<Accepted>,
    resp: TcpListener,
    gateway: Gateway,
    web: Web,
    handed: mpsc::UnboundedReceiver<Handed>,
    records: Vec<BucketRecord>,
    desk: Option<Desk>,
    reel: Option<Reel>,
    busy_poll: Duration,
}

impl ShardStart {
    async fn run(self) {
        let lane = self.index as u8;
        let address = self.config.address.clone();
        let links = |lane, seed| Links::new(lane, address.clone(), self.evidence.clone(), self.refused.clone(), seed);
        let shard = ShardThread {
            core: Taped::shard(&self.config, self.index, self.seed, self.records, self.clock.now(), self.reel),
            index: self.index,
            clock: self.clock,
            switch: self.switch.clone(),
            links: links(Lane::Shard(lane), self.seed),
            bulk: links(Lane::Bulk(lane), self.seed ^ 1),
            callers: Callers::new(self.switch.latencies[self.index].clone(), self.switch.meters[self.index].clone()),
            meters: self.switch.meters[self.index].clone(),
            hops: BTreeMap::new(),
            desk: self.desk,
            gauge: self.switch.gauges[self.index].clone(),
            wake: Time::NEVER,
            taken_since: None,
        };
        let home = Rc::new(Home::new(self.index, self.switch.clone(), shard, self.busy_poll));
        spawn_local(accepted(self.accepted, self.switch, Some(home.clone()), self.refused));
        spawn_local(clients::accept(tokio_listener(self.resp), self.gateway, home.clone()));
        spawn_local(http::take_over(self.handed, self.web));
        home.run().await;
    }
}

struct ClusterStart {
    config: Config,
    seed: u64,
    clock: Clock,
    switch: Arc<Switch>,
    evidence: Evidence,
    refused: Arc<Refused>,
    board: Arc<Board>,
    log: Arc<Log>,
    book: Arc<Book>,
    accepted: mpsc::UnboundedReceiver<Accepted>,
    to_cluster: mpsc::UnboundedSender<Accepted>,
    to_shards: Vec<mpsc::UnboundedSender<Accepted>>,
    peers: TcpListener,
    records: Vec<Record>,
    desk: Option<Desk>,
    reel: Option<Reel>,
}

impl ClusterStart {
    async fn run(self) {
        let address = self.config.address.clone();
        let memory_limit = self.config.limits.memory;
        let cluster = ClusterThread {
            core: Taped::cluster(self.config, self.seed, self.records, self.clock.now(), self.reel),
            clock: self.clock,
            switch: self.switch.clone(),
            links: Links::new(Lane::Cluster, address, self.evidence, self.refused.clone(), self.seed),
            board: self.board,
            log: self.log,
            chronicle: Chronicle::default(),
            book: self.book,
            desk: self.desk,
            gauge: Gauge::default(),
            memory_limit,
            askers: BTreeMap::new(),
            tickets: 0,
            wake: Time::ZERO,
            changed: Some(Time::ZERO),
            shown: None,
            heard: self.clock.now(),
            ordered_out: false,
            reminder: None,
            complaint: None,
        };
        spawn_local(accepted(self.accepted, self.switch, None, self.refused.clone()));
        let listener = tokio_listener(self.peers);
        spawn_local(peers::accept(listener, self.to_cluster, self.to_shards, self.refused, peers::PEERS_MOST));
        cluster.run().await;
    }
}
