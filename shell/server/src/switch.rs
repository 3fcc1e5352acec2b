//! Which thread something is for.

use crate::call::Call;
use crate::cluster::ToCluster;
use crate::inbox::Inbox;
use crate::shard::ToShard;
use atoll_node::shard::message::ShardMessage;
use atoll_node::{Envelope, Input, Message};
use atoll_types::{Address, HashSlot, SlotRange};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) cluster: Arc<Inbox<ToCluster>>,
    pub(crate) shards: Vec<Arc<Inbox<ToShard>>>,
    /// Hash slots of a bucket at the first placement; 0 until that is known.
    width: AtomicU16,
}

impl Switch {
    pub(crate) fn new(shards: usize) -> Switch {
        let shards = (0..shards.max(1)).map(|_| Arc::default()).collect();
        Switch { cluster: Arc::default(), shards, width: AtomicU16::new(0) }
    }

    pub(crate) fn set_width(&self, width: u16) {
        self.width.store(width, Ordering::Relaxed);
    }

    /// The same rule as inside of `atoll_node::Node`: what was one bucket at first stays on one shard.
    fn place(&self, slot: u16, width: u16) -> usize {
        slot.checked_div(width).map_or(0, |root| usize::from(root) % self.shards.len())
    }

    fn place_of_root(&self, root: SlotRange) -> usize {
        let own = self.width.load(Ordering::Relaxed);
        let told = root.last.0.checked_sub(root.first.0).map_or(0, |more| more.saturating_add(1));
        self.place(root.first.0, if own == 0 { told } else { own })
    }

    pub(crate) fn shard_of(&self, slot: HashSlot) -> usize {
        self.place(slot.0, self.width.load(Ordering::Relaxed))
    }

    pub(crate) fn call(&self, call: Call) {
        self.shards[self.shard_of(call.slot)].push(ToShard::Call(call));
    }

    /// A message that came from a peer.
    pub(crate) fn deliver(&self, from: Address, mut envelope: Envelope) {
        match &mut envelope.message {
            Message::Paxos(_) | Message::Cluster(_) => {
                self.cluster.push(ToCluster::Input(Input::Message { from, envelope }));
            }
            Message::Shard(ShardMessage::Hop(hop)) => {
                self.shards[self.place_of_root(hop.root)].push(ToShard::Message { from, envelope });
            }
            Message::Shard(ShardMessage::Hopped(hopped)) => {
                self.shards[self.place_of_root(hopped.root)].push(ToShard::Message { from, envelope });
            }
            Message::Shard(ShardMessage::Replicas(_)) if self.shards.len() == 1 => {
                self.shards[0].push(ToShard::Message { from, envelope });
            }
            Message::Shard(ShardMessage::Replicas(messages)) => {
                let messages = std::mem::take(messages);
                self.divide(&from, &envelope, messages);
            }
        }
    }

    /// One frame holds everything there is for this node: each shard gets its part.
    fn divide(&self, from: &Address, envelope: &Envelope, messages: Vec<atoll_replica::Message>) {
        let width = self.width.load(Ordering::Relaxed);
        if width == 0 {
            // Before there is a table nobody can say whose they are. They are said again.
            return;
        }
        let mut parts: Vec<Vec<atoll_replica::Message>> = vec![Vec::new(); self.shards.len()];
        for message in messages {
            parts[self.place(message.bucket.0, width)].push(message);
        }
        for (shard, part) in parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty()) {
            let message = Message::Shard(ShardMessage::Replicas(part));
            let envelope = Envelope { message, ..envelope.clone() };
            self.shards[shard].push(ToShard::Message { from: from.clone(), envelope });
        }
    }

    /// The longest of the queues.
    pub(crate) fn waiting(&self) -> usize {
        let shards = self.shards.iter().map(|inbox| inbox.len()).max().unwrap_or(0);
        shards.max(self.cluster.len())
    }
}
