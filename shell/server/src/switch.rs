//! Which thread something is for. The rule is in `atoll_node::shard::place`.

use crate::call::Call;
use crate::cluster::ToCluster;
use crate::disk::Meter;
use crate::gauge::Gauge;
use crate::inbox::Inbox;
use crate::latency::{Histogram, Latencies};
use crate::meters::{ClusterMeters, ShardMeters, Traffic};
use crate::shard::ToShard;
use atoll_cluster::{Pulse, Work};
use atoll_node::shard::place::Places;
use atoll_node::{Envelope, Input, Message};
use atoll_types::{Address, HashSlot};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

/// What may wait for a thread. Beyond that nothing more is read from peers, and they feel it.
const WAITING_MOST: usize = 16 * 1024;
/// The memory that the messages of peers may take which wait for a thread. One message may pass it.
pub(crate) const WAITING_BYTES_MOST: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) cluster: Arc<Inbox<ToCluster>>,
    pub(crate) shards: Vec<Arc<Inbox<ToShard>>>,
    /// Of each shard's thread.
    pub(crate) latencies: Vec<Arc<Latencies>>,
    /// What each shard's thread has done.
    pub(crate) gauges: Vec<Arc<Gauge>>,
    /// Where there is a disk, what it has done.
    pub(crate) disk: Meter,
    /// How long the disk took to make safe what it was handed.
    pub(crate) persist: Histogram,
    /// Of the log and images on disk, what is still needed.
    pub(crate) live_bytes: crate::meters::Meter,
    pub(crate) meters: Vec<Arc<ShardMeters>>,
    pub(crate) traffic: Traffic,
    pub(crate) decided: ClusterMeters,
    /// Hash slots of a bucket at the first placement; 0 until that is known.
    width: AtomicU16,
}

impl Switch {
    pub(crate) fn new(shards: usize) -> Switch {
        let count = shards.max(1);
        Switch {
            cluster: Arc::default(),
            shards: (0..count).map(|_| Arc::new(Inbox::timed())).collect(),
            latencies: (0..count).map(|_| Arc::default()).collect(),
            meters: (0..count).map(|_| Arc::default()).collect(),
            gauges: (0..count).map(|_| Arc::default()).collect(),
            disk: Meter::default(),
            persist: Histogram::default(),
            live_bytes: Default::default(),
            traffic: Traffic::default(),
            decided: ClusterMeters::default(),
            width: AtomicU16::new(0),
        }
    }

    pub(crate) fn set_width(&self, width: u16) {
        self.width.store(width, Ordering::Relaxed);
    }

    fn places(&self) -> Places {
        Places::new(self.shards.len(), self.width.load(Ordering::Relaxed))
    }

    pub(crate) fn shard_of(&self, slot: HashSlot) -> usize {
        self.places().of_slot(slot.0)
    }

    pub(crate) fn call(&self, call: Call) {
        self.shards[self.shard_of(call.slot)].push(ToShard::Call(call));
    }

    /// A message that came from a peer, and the memory it takes: each part to its thread, but for what `keep` keeps,
    /// which is asked with the shard that a part is for.
    pub(crate) fn divide(
        &self,
        from: &Address,
        envelope: Box<Envelope>,
        bytes: usize,
        mut keep: impl FnMut(usize, Box<Envelope>) -> Option<Box<Envelope>>,
    ) {
        match &envelope.message {
            Message::Paxos(_) | Message::Cluster(_) => {
                let input = Input::Message { from: from.clone(), envelope: *envelope };
                self.cluster.push_weighed(ToCluster::Input(input), bytes);
            }
            Message::Shard(_) => self.places().divide(envelope, |shard, envelope| {
                if let Some(envelope) = keep(shard, envelope) {
                    self.shards[shard].push_weighed(ToShard::Message { from: from.clone(), envelope }, bytes);
                }
            }),
        }
    }

    /// What the shards' threads have done, the disk for them and for the cluster machine, and the memory they take.
    pub(crate) fn pulse(&self, cluster: &Gauge) -> Pulse {
        let shards = self.gauges.iter().zip(&self.shards).map(|(gauge, inbox)| gauge.thread(inbox.load().0)).collect();
        let mut disk = cluster.disk();
        for own in self.gauges.iter().map(|gauge| gauge.disk()) {
            disk = Work { done: disk.done.wrapping_add(own.done), waiting: disk.waiting || own.waiting };
        }
        Pulse { memory: self.gauges.iter().map(|gauge| gauge.memory()).sum(), shards, disk }
    }

    /// Waits more for some thread than peers may add to?
    pub(crate) fn is_full(&self) -> bool {
        let full = |(count, bytes)| count > WAITING_MOST || bytes > WAITING_BYTES_MOST;
        full(self.cluster.load()) || self.shards.iter().any(|inbox| full(inbox.load()))
    }
}
