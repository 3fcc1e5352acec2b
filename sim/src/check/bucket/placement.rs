//! After everything has healed and nothing is under way: every bucket has its copies, on the nodes that should have
//! them and on no others, all of them up to date and equal; primaries and copies are level to within one.
//!
//! | Relaxed | When |
//! |---|---|
//! | the bucket is not looked at | nobody eligible is present: it is lost, or its copies are away |
//! | as many copies as can be | fewer nodes can hold copies than a bucket should have |
//! | `min_copies` are enough, and nothing needs to be level | something stays broken: a link, a disk, a node |
//! | copies that nobody names may still be there | some bucket has fewer copies than it should: they may be needed |
//! | a node whose clock is off leads | nobody else can |
//! | level | relative to weight; a move that would crowd a zone is not asked for; a primary can only move to a member |
//! | a bucket that is lent to where its requests come in | counts as led by whom it was lent by |
//!
//! And a bucket is led where its requests come in, or by whom it was lent, as far as these can.
//!
//! Not here: how long that may take (`healing.rs`).

use super::copies::replica;
use super::{BucketChecks, broken};
use crate::Violation;
use crate::host::Host;
use crate::plan::host_name;
use atoll_distributor::{Bucket, Distributor};
use atoll_node::View;
use atoll_types::{ClusterId, NodeId};
use std::collections::BTreeMap;

/// What one node carries.
#[derive(Clone, Debug)]
struct Load {
    zone: atoll_types::Name,
    weight: u64,
    copies: u64,
    primaries: u64,
}

/// Would both be better off if `from` gave one to `to`? The measure is the cost of one more, relative to the weight.
fn is_uneven((from, from_weight): (u64, u64), (to, to_weight): (u64, u64)) -> bool {
    from > 0 && (2 * from - 1) * to_weight > (2 * to + 1) * from_weight
}

impl BucketChecks {
    pub(crate) fn at_the_end(&self, hosts: &[Host], something_is_broken: bool) -> Result<(), Violation> {
        match self.what_is_missing(hosts, something_is_broken) {
            Some(missing) => Err(broken("placement", missing)),
            None => Ok(()),
        }
    }

    /// What is not yet as it should be in the end, by the table of the node that knows most.
    pub(crate) fn what_is_missing(&self, hosts: &[Host], something_is_broken: bool) -> Option<String> {
        let views = hosts.iter().filter(|host| host.is_running()).filter_map(Host::view);
        let view =
            views.filter(|view| view.distributor.is_some()).max_by_key(|view| (view.generation, view.decided))?;
        let (cluster, table) = (view.identity?.cluster, view.distributor?);
        let loads = loads(table);
        for (id, bucket) in table.buckets() {
            let lost = self.edicts.is_lost(cluster, view.generation, *id);
            if bucket.primary().is_nobody() || lost {
                continue;
            }
            let missing = size_is_wrong(table, bucket, loads.len(), something_is_broken)
                .or_else(|| self.copies_differ(hosts, cluster, bucket));
            if let Some(missing) = missing {
                return Some(format!("bucket {id}: {missing}: {bucket:?}"));
            }
        }
        if something_is_broken {
            return None;
        }
        is_late(table, &loads)
            .or_else(|| is_crooked(table, &loads))
            .or_else(|| is_astray(table))
            .or_else(|| stray_copy(hosts, cluster, table))
    }

    /// Every member has applied everything that is committed, and is in the same state; the primary serves.
    fn copies_differ(&self, hosts: &[Host], cluster: ClusterId, bucket: &Bucket) -> Option<String> {
        let office = self.edicts.get(cluster, bucket.id(), bucket.epoch())?;
        let mut first = None;
        for &member in bucket.members() {
            let Some(host) = hosts.iter().position(|host| host.identity() == Some((cluster, member))) else {
                return Some(format!("nobody is {member}"));
            };
            let name = host_name(host);
            let Some(replica) = replica(&hosts[host], bucket.id()) else {
                return Some(format!("{name} has no copy"));
            };
            if member == bucket.primary() && !replica.is_serving() {
                return Some(format!("{name} does not serve it"));
            }
            let copy = replica.copy();
            if self.canons.last(office.log).is_some_and(|last| copy.applied.offset != last) {
                let last = self.canons.last(office.log);
                return Some(format!("{name} has applied {} of {last:?}", copy.applied));
            }
            let state = (replica.range(), copy.applied, copy.digest());
            if state != *first.get_or_insert(state) {
                return Some(format!("{name} is in state {state:x?}, another in {first:x?}"));
            }
        }
        None
    }
}

/// Those that may hold copies, with nothing counted yet for others.
fn loads(table: &Distributor) -> BTreeMap<NodeId, Load> {
    let may_hold = table.nodes().iter().filter(|(_, node)| {
        let standing = &node.standing;
        standing.present && !standing.leaving && !node.draining
    });
    let mut loads: BTreeMap<NodeId, Load> = may_hold
        .map(|(&id, node)| {
            let (zone, weight) = (node.standing.zone.clone(), u64::from(node.standing.weight.max(1)));
            (id, Load { zone, weight, copies: 0, primaries: 0 })
        })
        .collect();
    for bucket in table.buckets().values() {
        for member in bucket.members() {
            if let Some(load) = loads.get_mut(member) {
                load.copies += 1;
                load.primaries += u64::from(counts_for(bucket) == *member);
            }
        }
    }
    loads
}

fn size_is_wrong(table: &Distributor, bucket: &Bucket, holders: usize, something_is_broken: bool) -> Option<String> {
    let members = bucket.members().len();
    let possible = table.copies().min(holders);
    if something_is_broken {
        let least = possible.min(table.min_copies());
        return (members < least).then(|| format!("{members} members, and it needs {least}"));
    }
    // A node that is to go stays where the others are too few.
    let right = members == possible.max(table.min_copies().min(members));
    if !right {
        return Some(format!("{members} members, and {possible} are possible"));
    }
    let under_way = !bucket.catching_up().is_empty() || bucket.splitting || bucket.split_wanted || !bucket.settled;
    under_way.then(|| "something is under way".to_owned())
}

fn is_crooked(table: &Distributor, loads: &BTreeMap<NodeId, Load>) -> Option<String> {
    for bucket in table.buckets().values() {
        for (from, laden) in loads.iter().filter(|(node, _)| bucket.appointment.is_member(**node)) {
            for (to, free) in loads.iter().filter(|(node, _)| *node != from) {
                let member = bucket.appointment.is_member(*to);
                let copies = is_uneven((laden.copies, laden.weight), (free.copies, free.weight));
                if !member && copies && !crowds(bucket, loads, *from, *to) {
                    return Some(format!("bucket {} could move from {from} to {to}: {loads:?}", bucket.id()));
                }
                let primaries = is_uneven((laden.primaries, laden.weight), (free.primaries, free.weight));
                let movable = counts_for(bucket) == *from && bucket.primary() != *to;
                if member && primaries && movable && may_lead(table, *to) {
                    return Some(format!("bucket {} could be led by {to}, not {from}: {loads:?}", bucket.id()));
                }
            }
        }
    }
    None
}

/// Whose primary it is where these are compared.
fn counts_for(bucket: &Bucket) -> NodeId {
    let returns = bucket.members().contains(&bucket.home) && bucket.eligible.contains(&bucket.home);
    if returns { bucket.home } else { bucket.primary() }
}

/// A bucket that is not led where it is sought, or was not given back, and could be.
fn is_astray(table: &Distributor) -> Option<String> {
    let present = |node: NodeId| {
        table.nodes().get(&node).is_some_and(|node| node.standing.present && !node.standing.leaving && !node.draining)
    };
    table.buckets().values().find_map(|bucket| {
        let to = if bucket.sought_at.is_nobody() { bucket.home } else { bucket.sought_at };
        let could = bucket.members().contains(&to) && present(to) && may_lead(table, to);
        let astray = could && bucket.primary() != to;
        astray.then(|| format!("bucket {} could be led by {to}, where it belongs: {bucket:?}", bucket.id()))
    })
}

fn may_lead(table: &Distributor, node: NodeId) -> bool {
    table.nodes().get(&node).is_some_and(|node| !node.stepped_back && !node.standing.skewed)
}

/// A node whose clock is off leads a bucket that another could lead.
fn is_late(table: &Distributor, loads: &BTreeMap<NodeId, Load>) -> Option<String> {
    let skewed = |node: NodeId| table.nodes().get(&node).is_some_and(|node| node.standing.skewed);
    for bucket in table.buckets().values().filter(|bucket| skewed(bucket.primary())) {
        let fit = |node: &&NodeId| loads.contains_key(*node) && bucket.is_eligible(**node) && may_lead(table, **node);
        if let Some(other) = bucket.members().iter().find(fit) {
            let (id, primary) = (bucket.id(), bucket.primary());
            return Some(format!("bucket {id} is led by {primary}, whose clock is off, and not by {other}"));
        }
    }
    None
}

/// Would more members share a zone?
fn crowds(bucket: &Bucket, loads: &BTreeMap<NodeId, Load>, from: NodeId, to: NodeId) -> bool {
    let others = || bucket.members().iter().filter(|&&node| node != from).filter_map(|node| loads.get(node));
    let shared = |node: NodeId| loads.get(&node).is_some_and(|load| others().any(|other| other.zone == load.zone));
    shared(to) && !shared(from)
}

/// A copy where nobody is appointed to have one.
fn stray_copy(hosts: &[Host], cluster: ClusterId, table: &Distributor) -> Option<String> {
    let whole = |bucket: &Bucket| bucket.settled && bucket.members().len() >= table.wanted().max(table.min_copies());
    if !table.buckets().values().all(whole) {
        return None;
    }
    let inhabited = hosts.iter().enumerate().filter(|(_, host)| host.is_running());
    for (index, host) in inhabited {
        let me = host.view().and_then(|view: View<'_>| view.identity.map(|me| (me.cluster, me.node)));
        let Some((_, node)) = me.filter(|(of, _)| *of == cluster) else { continue };
        for bucket in host.core()?.shards().iter().flat_map(|shard| shard.replicas().keys()) {
            if !table.buckets().get(bucket).is_some_and(|bucket| bucket.appointment.names(node)) {
                return Some(format!("{} ({node}) still has a copy of bucket {bucket}", host_name(index)));
            }
        }
    }
    None
}
