//! What listeners need of the node behind them. Cheap to clone, usable from any thread.

use crate::call::{Call, Caller};
use crate::clock::Clock;
use crate::cluster::{Ordered, ToCluster};
use crate::disk::Meter;
use crate::events::Book;
use crate::latency::{Kind, Protocol, Sum};
use crate::log::Log;
use crate::refused::Refused;
use crate::settings::Settings;
use crate::shard::{SnapshotFound, SnapshotWanted, ToShard};
use crate::status::{Board, CopyStatus};
use crate::switch::Switch;
use atoll_distributor::{Hypothesis, Plan};
use atoll_node::shard::door::{Answer, Ask, Reason};
use atoll_node::{Order, Rejection};
use atoll_types::{Counter, HashSlot, Payload, Position, Rng, SessionId, SessionUse};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, oneshot};

#[derive(Clone, Debug)]
pub struct Gateway {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: Settings,
    clock: Clock,
    switch: Arc<Switch>,
    seen: Seen,
    clients: Arc<Semaphore>,
    connections: AtomicU64,
    rng: Mutex<Rng>,
}

/// What can be seen of the node, from any thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) board: Arc<Board>,
    pub(crate) log: Arc<Log>,
    pub(crate) book: Arc<Book>,
    pub(crate) refused: Arc<Refused>,
}

/// A place among the clients of a node; free again when this is dropped.
#[derive(Debug)]
pub struct ClientPlace {
    _permit: tokio::sync::OwnedSemaphorePermit,
}

impl Gateway {
    pub(crate) fn new(settings: Settings, clock: Clock, switch: Arc<Switch>, seen: Seen, seed: u64) -> Gateway {
        let clients = Arc::new(Semaphore::new(settings.max_clients));
        let (connections, rng) = (AtomicU64::new(1), Mutex::new(Rng::new(seed)));
        let inner = Inner { settings, clock, switch, seen, clients, connections, rng };
        Gateway { inner: Arc::new(inner) }
    }

    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    pub fn board(&self) -> &Board {
        &self.inner.seen.board
    }

    pub fn log(&self) -> &Log {
        &self.inner.seen.log
    }

    /// What happened, in words.
    pub fn book(&self) -> &Book {
        &self.inner.seen.book
    }

    pub fn refused(&self) -> &Refused {
        &self.inner.seen.refused
    }

    pub(crate) fn switch(&self) -> &Switch {
        &self.inner.switch
    }

    /// How long requests took so far.
    pub(crate) fn latencies(&self, protocol: Protocol, kind: Kind) -> Sum {
        Sum::of(self.inner.switch.latencies.iter().map(|own| own.of(protocol, kind)))
    }

    /// What the disk has done.
    pub(crate) fn disk(&self) -> &Meter {
        &self.inner.switch.disk
    }

    /// None: there are too many clients already.
    pub fn admit(&self) -> Option<ClientPlace> {
        let permit = self.inner.clients.clone().try_acquire_owned().ok()?;
        Some(ClientPlace { _permit: permit })
    }

    /// Clients that are connected now.
    pub fn clients(&self) -> usize {
        self.inner.settings.max_clients - self.inner.clients.available_permits()
    }

    /// A number for a connection, or for anything else whose requests are to take effect in their order.
    pub fn new_connection(&self) -> u64 {
        self.inner.connections.fetch_add(1, Ordering::Relaxed)
    }

    pub fn random(&self) -> u64 {
        self.inner.rng.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    pub fn new_session(&self, counter: Counter) -> SessionId {
        SessionId { opened: self.inner.clock.now(), token: self.random(), counter }
    }

    /// Passes it on; the caller in it is answered exactly once.
    pub(crate) fn call(&self, call: Call) {
        self.inner.switch.call(call);
    }

    /// For HTTP, which asks one thing after the other.
    pub async fn ask(&self, connection: u64, slot: HashSlot, ask: Ask) -> Answer {
        let (caller, answer) = oneshot::channel();
        let caller = Caller::Once(caller);
        let lost = match &ask {
            Ask::Write { .. } => Answer::Unknown,
            Ask::Read { .. } | Ask::Stale { .. } => Answer::NotApplied(Reason::Paused),
        };
        self.call(Call { protocol: Protocol::Http, connection, slot, ask, caller });
        // Only a node that stops drops a caller.
        answer.await.unwrap_or(lost)
    }

    pub async fn write(&self, connection: u64, slot: HashSlot, command: Payload, usage: Option<SessionUse>) -> Answer {
        self.ask(connection, slot, Ask::Write { usage, command }).await
    }

    pub async fn read(&self, connection: u64, slot: HashSlot, query: Payload) -> Answer {
        self.ask(connection, slot, Ask::Read { query }).await
    }

    pub async fn read_stale(&self, connection: u64, slot: HashSlot, query: Payload, after: Option<Position>) -> Answer {
        self.ask(connection, slot, Ask::Stale { query, after }).await
    }

    /// An operator's word, into the cluster log.
    pub async fn order(&self, order: Order) -> Ordered {
        let (asker, answer) = oneshot::channel();
        self.inner.switch.cluster.push(ToCluster::Order { order, asker });
        answer.await.unwrap_or(Ordered::Unknown)
    }

    /// What would happen if. None: this node belongs to no cluster yet.
    pub async fn plan(&self, what: Hypothesis) -> Option<Plan> {
        let (asker, answer) = oneshot::channel();
        self.inner.switch.cluster.push(ToCluster::Plan { what, asker });
        answer.await.ok().flatten()
    }

    /// Returns once each thread that owns some of the core has done a round of its work.
    pub async fn all_threads_answer(&self) {
        let (asker, answer) = oneshot::channel();
        self.inner.switch.cluster.push(ToCluster::Ping(asker));
        let shards = self.inner.switch.shards.iter().map(|shard| {
            let (asker, answer) = oneshot::channel();
            shard.push(ToShard::Ping(asker));
            answer
        });
        let shards: Vec<_> = shards.collect();
        let _ = answer.await;
        for answer in shards {
            let _ = answer.await;
        }
    }

    /// The bucket of this slot as this node has it, if that is as new as `after`.
    pub(crate) async fn snapshot(
        &self,
        slot: HashSlot,
        after: Position,
        known: Option<Position>,
    ) -> Option<SnapshotFound> {
        let (asker, answer) = oneshot::channel();
        let shard = self.inner.switch.shard_of(slot);
        self.inner.switch.shards[shard].push(ToShard::Snapshot(SnapshotWanted { slot, after, known, asker }));
        answer.await.ok().flatten()
    }

    /// The copies on this node.
    pub async fn copies(&self) -> Vec<CopyStatus> {
        let mut copies = Vec::new();
        for shard in &self.inner.switch.shards {
            let (asker, answer) = oneshot::channel();
            shard.push(ToShard::Look(asker));
            copies.extend(answer.await.unwrap_or_default());
        }
        copies.sort_by_key(|copy| copy.bucket);
        copies
    }
}

impl Ordered {
    /// In words, where it was not taken.
    pub fn complaint(&self) -> Option<&'static str> {
        match self {
            Ordered::Taken(_) => None,
            Ordered::Rejected(Rejection::Busy) => Some("too much is waiting for the cluster log; try again"),
            Ordered::Rejected(Rejection::Blank) => Some("this node belongs to no cluster yet"),
            Ordered::Rejected(Rejection::TooLarge) => Some("the order is too large"),
            Ordered::Rejected(Rejection::NotPossible) => {
                Some("that cannot be done: no such node or bucket, or too few nodes or copies would be left")
            }
            Ordered::Unknown => Some("this node has lost its place in the cluster and cannot say whether it was taken"),
        }
    }
}
