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
    /// Its clock is far from the others'. It leads so many buckets all the same, because nobody else can.
    Skewed { node: NodeId, leads: usize },
}

/// `3, 7, 12 and 5 more`
fn list(items: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN: usize = 8;
    let more = items.len().saturating_sub(SHOWN);
    let shown = items.take(SHOWN).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// `1 bucket has`, `2 buckets have`
fn buckets_have(count: usize) -> String {
    if count == 1 { "1 bucket has".to_owned() } else { format!("{count} buckets have") }
}

impl Alarm {
    /// With nodes by their names.
    pub fn words(&self, name: impl Fn(NodeId) -> String) -> String {
        let buckets = |buckets: &[BucketId]| list(buckets.iter().map(ToString::to_string));
        match self {
            Alarm::Lost { buckets: lost } => format!("lost, no eligible copy is left: bucket {}", buckets(lost)),
            Alarm::Unserved { buckets: unserved, waiting_for } => {
                let nodes = list(waiting_for.iter().map(|&node| name(node)));
                format!("not served until one of {nodes} returns: bucket {}", buckets(unserved))
            }
            Alarm::Stopped { buckets, needed } => {
                format!("{} fewer than {needed} copies and can commit nothing", buckets_have(*buckets))
            }
            Alarm::Short { buckets, nodes, wanted } => {
                let nodes = if *nodes == 1 { "is only 1 node".to_owned() } else { format!("are only {nodes} nodes") };
                format!("{} fewer than {wanted} copies, and there {nodes}", buckets_have(*buckets))
            }
            Alarm::DrainWithoutSpare { node } => {
                format!("the drain of {} leaves buckets with fewer copies: there is no spare node", name(*node))
            }
            Alarm::Skewed { node, leads: 0 } => {
                format!("the clock of {} is off: it leads no bucket until it is right", name(*node))
            }
            Alarm::Skewed { node, leads } => {
                format!("the clock of {} is off, and nobody else can lead {leads} of its buckets", name(*node))
            }
            Alarm::DrainBlocked { node } => format!("the drain of {} waits: too few nodes would remain", name(*node)),
        }
    }
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(|node| node.to_string()))
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
        for (&node, _) in self.nodes.iter().filter(|(_, known)| known.standing.present && known.standing.skewed) {
            let leads = self.buckets.values().filter(|bucket| bucket.primary() == node).count();
            alarms.push(Alarm::Skewed { node, leads });
        }
        alarms
    }
}
