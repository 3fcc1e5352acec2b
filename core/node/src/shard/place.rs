//! Which shard of a node something is for. What was one bucket at the first placement, its root, stays on one shard
//! with all that it is split into, so a split never moves anything between shards.
//!
//! Not here: the queues and threads of the shards (the shell, or `node.rs`).

use super::message::ShardMessage;
use crate::envelope::{Envelope, Message};
use atoll_types::SlotRange;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    shards: usize,
    /// Hash slots of a bucket at the first placement; 0 until that is known.
    width: u16,
}

impl Places {
    pub fn new(shards: usize, width: u16) -> Places {
        Places { shards: shards.max(1), width }
    }

    /// The shard of a hash slot, or of the bucket named by it. The first, before there is a table.
    pub fn of_slot(self, slot: u16) -> usize {
        if self.shards == 1 {
            return 0;
        }
        slot.checked_div(self.width).map_or(0, |root| usize::from(root) % self.shards)
    }

    fn shard(self, index: u16) -> Option<usize> {
        Some(usize::from(index)).filter(|index| *index < self.shards)
    }

    /// A hop says itself where it belongs: it may come before the table that it was sent by.
    pub fn of_root(self, root: SlotRange) -> usize {
        let told = root.last.0.checked_sub(root.first.0).map_or(0, |more| more.saturating_add(1));
        let width = if self.width == 0 { told } else { self.width };
        Places { width, ..self }.of_slot(root.first.0)
    }

    /// Gives each shard what a message from a peer has for it; nothing of one that is for the cluster machine. One
    /// frame holds everything that a node has for the replicas of another.
    pub fn divide(self, mut envelope: Box<Envelope>, mut give: impl FnMut(usize, Box<Envelope>)) {
        match &mut envelope.message {
            Message::Paxos(_) | Message::Cluster(_) => {}
            Message::Shard(ShardMessage::Hop(hop)) => give(self.of_root(hop.root), envelope),
            Message::Shard(ShardMessage::Hopped(hopped)) => give(self.of_root(hopped.root), envelope),
            // One that has no such shard says so by the first.
            Message::Shard(ShardMessage::Vouch(vouch)) => give(self.shard(vouch.shard).unwrap_or(0), envelope),
            Message::Shard(ShardMessage::Vouched(vouched)) => {
                if let Some(shard) = self.shard(vouched.shard) {
                    give(shard, envelope);
                }
            }
            Message::Shard(ShardMessage::Replicas(_)) if self.shards == 1 => give(0, envelope),
            // Before there is a table nobody can say whose they are. They are said again.
            Message::Shard(ShardMessage::Replicas(_)) if self.width == 0 => {}
            Message::Shard(ShardMessage::Replicas(messages)) => {
                let mut parts = vec![Vec::new(); self.shards];
                for message in std::mem::take(messages) {
                    parts[self.of_slot(message.bucket.0)].push(message);
                }
                for (shard, part) in parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty()) {
                    let message = Message::Shard(ShardMessage::Replicas(part));
                    give(shard, Box::new(Envelope { message, ..(*envelope).clone() }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_replica::message::{Body, Refused};
    use atoll_types::{BucketId, ClusterId, Cookie, Epoch, Generation, HashSlot, Incarnation, NodeId};

    fn replicas(buckets: &[u16]) -> Envelope {
        let body = Body::Refused(Refused { current: Epoch::ZERO });
        let message =
            |&bucket| atoll_replica::Message { bucket: BucketId(bucket), epoch: Epoch::ZERO, body: body.clone() };
        Envelope {
            cluster: ClusterId(1),
            generation: Generation::default(),
            from: NodeId(1),
            incarnation: Incarnation::default(),
            to: NodeId(2),
            to_cookie: Cookie(2),
            message: Message::Shard(ShardMessage::Replicas(buckets.iter().map(message).collect())),
        }
    }

    fn divided(places: Places, buckets: &[u16]) -> Vec<(usize, Vec<u16>)> {
        let mut parts = Vec::new();
        places.divide(Box::new(replicas(buckets)), |shard, envelope| {
            let Message::Shard(ShardMessage::Replicas(messages)) = envelope.message else { panic!("another message") };
            parts.push((shard, messages.iter().map(|message| message.bucket.0).collect()));
        });
        parts
    }

    #[test]
    fn each_shard_gets_its_part_of_a_batch_in_order() {
        let places = Places::new(2, 4096);
        assert_eq!(divided(places, &[4096, 0, 2048, 8192]), [(0, vec![0, 2048, 8192]), (1, vec![4096])]);
        assert_eq!(divided(places, &[4096]), [(1, vec![4096])]);
    }

    #[test]
    fn before_there_is_a_table_only_a_single_shard_gets_anything() {
        assert_eq!(divided(Places::new(2, 0), &[4096]), []);
        assert_eq!(divided(Places::new(1, 0), &[4096]), [(0, vec![4096])]);
    }

    #[test]
    fn a_hop_is_placed_by_its_own_root_until_there_is_a_table() {
        let root = SlotRange { first: HashSlot(4096), last: HashSlot(8191) };
        assert_eq!((Places::new(2, 0).of_root(root), Places::new(2, 2048).of_root(root)), (1, 0));
    }

    #[test]
    fn nonsense_has_a_place_as_well() {
        let place = |slot, width, shards| Places::new(shards, width).of_slot(slot);
        assert_eq!((place(u16::MAX, 0, 2), place(u16::MAX, 4096, 2), place(7, u16::MAX, 3)), (0, 1, 0));
        let backwards = SlotRange { first: HashSlot(u16::MAX), last: HashSlot(0) };
        assert_eq!(Places::new(2, 0).of_root(backwards), 0);
    }
}
