//! What people should know of.

use crate::state::Distributor;
use atoll_types::{BucketId, NodeId};
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Alarm {
    /// No eligible copy is left. Only an operator revives them.
    Lost { buckets: Vec<BucketId> },
    /// No eligible copy is there; these nodes, absent now, have one each.
    Unserved { buckets: Vec<BucketId>, waiting_for: Vec<NodeId> },
    /// Too few members: nothing commits.
    Stopped { buckets: usize, needed: usize },
    /// Fewer members than wanted, and not enough nodes to take the missing places.
    Short { buckets: usize, nodes: usize, wanted: usize },
    /// Fewer nodes than a drain needs to leave every bucket its copies.
    DrainWithoutSpare { node: NodeId },
    /// A drain that cannot go on: too few nodes would remain.
    DrainBlocked { node: NodeId },
}

/// `3, 7, 12 and 5 more`
fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
    const SHOWN: usize = 8;
    for (index, item) in items.iter().take(SHOWN).enumerate() {
        write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
    }
    match items.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => write!(f, " and {more} more"),
        Some(_) | None => Ok(()),
    }
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alarm::Lost { buckets } => {
                write!(f, "lost, no eligible copy is left: bucket ")?;
                list(f, buckets)
            }
            Alarm::Unserved { buckets, waiting_for } => {
                write!(f, "not served until one of ")?;
                list(f, waiting_for)?;
                write!(f, " returns: bucket ")?;
                list(f, buckets)
            }
            Alarm::Stopped { buckets, needed } => {
                write!(f, "{buckets} buckets have fewer than {needed} copies and commit nothing")
            }
            Alarm::Short { buckets, nodes, wanted } => {
                write!(f, "{buckets} buckets have fewer than {wanted} copies, and there are only {nodes} nodes")
            }
            Alarm::DrainWithoutSpare { node } => {
                write!(f, "the drain of {node} leaves buckets with fewer copies: there is no spare node")
            }
            Alarm::DrainBlocked { node } => write!(f, "the drain of {node} waits: too few nodes would remain"),
        }
    }
}

impl Distributor {
    pub fn alarms(&self) -> Vec<Alarm> {
        let mut alarms = Vec::new();
        let mut lost = Vec::new();
        let mut unserved = Vec::new();
        let mut waiting_for: Vec<NodeId> = Vec::new();
        let (mut stopped, mut short) = (0, 0);
        for (&id, bucket) in &self.buckets {
            if bucket.is_lost() {
                lost.push(id);
            } else if bucket.primary().is_nobody() {
                unserved.push(id);
                waiting_for.extend(&bucket.eligible);
            } else {
                stopped += usize::from(bucket.members().len() < self.min_copies());
                short += usize::from(bucket.members().len() < self.copies());
            }
        }
        waiting_for.sort();
        waiting_for.dedup();
        if !lost.is_empty() {
            alarms.push(Alarm::Lost { buckets: lost });
        }
        if !unserved.is_empty() {
            alarms.push(Alarm::Unserved { buckets: unserved, waiting_for });
        }
        if stopped > 0 {
            alarms.push(Alarm::Stopped { buckets: stopped, needed: self.min_copies() });
        }
        let nodes = self.nodes.values().filter(|node| node.may_hold()).count();
        if short > 0 && nodes < self.copies() {
            alarms.push(Alarm::Short { buckets: short, nodes, wanted: self.copies() });
        }
        for (&node, known) in self.nodes.iter().filter(|(_, known)| known.draining) {
            if nodes < self.min_copies() {
                alarms.push(Alarm::DrainBlocked { node });
            } else if nodes < self.copies() && known.standing.present {
                alarms.push(Alarm::DrainWithoutSpare { node });
            }
        }
        alarms
    }
}
