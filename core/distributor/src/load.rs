//! How much each node carries, relative to its weight.
//!
//! The measure is the cost of one more: `(2·held + 1) / weight`. Giving to the cheapest and taking from the dearest
//! lowers the sum of `held² / weight`, so leveling ends, and what it ends in is level to within one.

use crate::state::Distributor;
use atoll_types::{Name, NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// How many buckets each node is primary of, while an entry is applied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Primaries {
    counts: BTreeMap<NodeId, u64>,
    /// Their clocks are off: the last to be chosen.
    skewed: BTreeSet<NodeId>,
}

impl Primaries {
    pub(crate) fn of(distributor: &Distributor) -> Primaries {
        let skewed = distributor.nodes.iter().filter(|(_, node)| !node.is_on_time()).map(|(&id, _)| id).collect();
        let mut primaries = Primaries { counts: BTreeMap::new(), skewed };
        for bucket in distributor.buckets.values() {
            primaries.moved(NodeId::NOBODY, bucket.primary());
        }
        primaries
    }

    pub(crate) fn moved(&mut self, from: NodeId, to: NodeId) {
        if let Some(count) = self.counts.get_mut(&from) {
            *count = count.saturating_sub(1);
        }
        if !to.is_nobody() {
            *self.counts.entry(to).or_insert(0) += 1;
        }
    }

    pub(crate) fn count(&self, node: NodeId) -> u64 {
        self.counts.get(&node).copied().unwrap_or(0)
    }

    pub(crate) fn is_skewed(&self, node: NodeId) -> bool {
        self.skewed.contains(&node)
    }

    /// Of these, the one with the fewest, if possible with a clock that is right; nobody of none.
    pub(crate) fn fewest(&self, nodes: &[NodeId]) -> NodeId {
        let order = |&node: &NodeId| (self.is_skewed(node), self.count(node), node);
        nodes.iter().copied().min_by_key(order).unwrap_or(NodeId::NOBODY)
    }
}

/// What one more costs a node that holds so many.
pub(crate) fn cost(held: u64, weight: u64) -> u64 {
    ((2 * held + 1) << 32) / weight.max(1)
}

/// A node, as planning sees it.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) node: NodeId,
    /// Zones are numbered in the order in which they are met.
    pub(crate) zone: usize,
    pub(crate) weight: u64,
    pub(crate) may_hold: bool,
    pub(crate) may_lead: bool,
    pub(crate) may_be_given: bool,
    pub(crate) primaries: u64,
    pub(crate) copies: u64,
}

impl Site {
    /// What one more copy costs it.
    pub(crate) fn copy_cost(&self) -> u64 {
        cost(self.copies, self.weight)
    }

    /// What it would save by giving up one copy. Less than nothing is nothing.
    pub(crate) fn copy_relief(&self) -> u64 {
        self.copies.checked_sub(1).map_or(0, |fewer| cost(fewer, self.weight))
    }

    pub(crate) fn lead_cost(&self) -> u64 {
        cost(self.primaries, self.weight)
    }

    pub(crate) fn lead_relief(&self) -> u64 {
        self.primaries.checked_sub(1).map_or(0, |fewer| cost(fewer, self.weight))
    }
}

/// Every node of the roster, in the order of arrival. A node is named by its place in here.
#[derive(Clone, Debug)]
pub(crate) struct Sites {
    pub(crate) list: Vec<Site>,
    /// The place of each node whose number is not too high; `NOWHERE` of others.
    table: Vec<u32>,
}

const NOWHERE: u32 = u32::MAX;
/// Numbers are given in the order of arrival and never again: a table for all of them would grow for ever.
const TABLE_MOST: usize = 1 << 16;

impl Sites {
    pub(crate) fn of(distributor: &Distributor, now: Time) -> Sites {
        let mut zones: Vec<&Name> = Vec::new();
        let sites = distributor.nodes.iter().map(|(&node, known)| {
            let zone = zones.iter().position(|zone| **zone == known.standing.zone).unwrap_or_else(|| {
                zones.push(&known.standing.zone);
                zones.len() - 1
            });
            Site {
                node,
                zone,
                weight: known.weight(),
                may_hold: known.may_hold(),
                may_lead: known.may_lead(),
                may_be_given: known.may_be_given(now),
                primaries: 0,
                copies: 0,
            }
        });
        Sites::from(sites.collect())
    }

    fn from(list: Vec<Site>) -> Sites {
        let highest = list.last().map_or(0, |site| site.node.0 as usize);
        let mut table = vec![NOWHERE; (highest + 1).min(TABLE_MOST)];
        for (place, site) in list.iter().enumerate() {
            if let Some(entry) = table.get_mut(site.node.0 as usize) {
                *entry = place as u32;
            }
        }
        Sites { list, table }
    }

    /// Where this node stands. Members are always in the roster; a stranger would be nobody's copy.
    pub(crate) fn find(&self, node: NodeId) -> Option<usize> {
        match self.table.get(node.0 as usize) {
            Some(&place) => (place != NOWHERE).then_some(place as usize),
            None => self.list.binary_search_by_key(&node, |site| site.node).ok(),
        }
    }

    pub(crate) fn places(&self, nodes: &[NodeId]) -> Vec<usize> {
        nodes.iter().filter_map(|&node| self.find(node)).collect()
    }

    /// How many of these stand in a zone that one before them stands in.
    pub(crate) fn crowding(&self, places: impl Iterator<Item = usize> + Clone) -> usize {
        let crowded = |(index, place): &(usize, usize)| {
            places.clone().take(*index).any(|earlier| self.list[earlier].zone == self.list[*place].zone)
        };
        places.clone().enumerate().filter(crowded).count()
    }
}
