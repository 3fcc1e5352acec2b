//! What every message carries, so that nothing of another cluster, generation or life counts.

use crate::shard::message::ShardMessage;
use atoll_types::{ClusterId, Cookie, Generation, Incarnation, NodeId};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    pub cluster: ClusterId,
    pub generation: Generation,
    /// Nobody, while the sender is blank.
    pub from: NodeId,
    pub incarnation: Incarnation,
    /// Nobody, where the sender only knows an address.
    pub to: NodeId,
    /// Of the receiver's incarnation as the sender knows it.
    pub to_cookie: Cookie,
    pub message: Message,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    Paxos(atoll_paxos::Message),
    Cluster(atoll_cluster::Message),
    Shard(ShardMessage),
}
