//! CLUSTER: the table of buckets as clients of a cluster read it.

use super::options::is;
use super::parse::Arguments;
use super::reply::{Fault, Protocol, Reply, bytes};
use super::table::wrong_number;
use crate::routes::{Place, Range, Routes};
use atoll_types::{HashSlot, NodeId};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Forty hexadecimal digits, as clients expect.
pub(crate) fn id(node: NodeId) -> String {
    format!("{:040x}", node.0)
}

/// Host and port of a place where clients are listened for.
fn host_and_port(place: &Place) -> (&str, u16) {
    let (host, port) = place.resp.rsplit_once(':').unwrap_or((&place.resp, "0"));
    (host.trim_start_matches('[').trim_end_matches(']'), port.parse().unwrap_or(0))
}

/// Where to go with this slot, if that is not here.
pub(crate) fn moved(routes: &Routes, slot: HashSlot) -> Option<Fault> {
    if routes.is_mine(slot) {
        return None;
    }
    // Where nobody serves it, it waits here for somebody who does.
    let place = routes.place_of(slot).filter(|place| place.present)?;
    let (host, port) = host_and_port(place);
    Some(Fault::new(format!("MOVED {} {host}:{port}", slot.0)))
}

/// The reply, and whether this client routes itself from now on.
pub(crate) fn reply(arguments: Arguments<'_>, routes: &Routes, protocol: Protocol) -> Result<(Vec<u8>, bool), Fault> {
    let what = arguments.get(1);
    let say = |write: &dyn Fn(&mut Reply<'_>)| bytes(protocol, |reply| write(reply));
    if is(what, "KEYSLOT") {
        if arguments.len() != 3 {
            return Err(wrong_number("cluster|keyslot"));
        }
        let slot = HashSlot::of(arguments.get(2));
        return Ok((say(&|reply| reply.integer(i64::from(slot.0))), false));
    }
    if arguments.len() != 2 {
        return Err(Fault::new("ERR unknown subcommand or wrong number of arguments for CLUSTER"));
    }
    if is(what, "SLOTS") {
        Ok((say(&|reply| slots(routes, reply)), true))
    } else if is(what, "SHARDS") {
        Ok((say(&|reply| shards(routes, reply)), true))
    } else if is(what, "NODES") {
        let text = nodes(routes);
        Ok((say(&|reply| reply.bulk(text.as_bytes())), true))
    } else if is(what, "INFO") {
        let text = info(routes);
        Ok((say(&|reply| reply.bulk(text.as_bytes())), false))
    } else if is(what, "MYID") {
        Ok((say(&|reply| reply.bulk(id(routes.me).as_bytes())), false))
    } else {
        let what = String::from_utf8_lossy(&what[..what.len().min(64)]).into_owned();
        Err(Fault::new(format!(
            "ERR unknown subcommand '{what}'. Try CLUSTER SLOTS, SHARDS, NODES, INFO, KEYSLOT, MYID."
        )))
    }
}

/// The members of a range that can be reached, the primary first; nobody where it is not served.
fn reachable<'a>(routes: &'a Routes, range: &'a Range) -> Vec<(NodeId, &'a Place)> {
    let Some(primary) = routes.places.get(&range.primary) else { return Vec::new() };
    let mut nodes = vec![(range.primary, primary)];
    let others = range.members.iter().filter(|&&node| node != range.primary);
    nodes.extend(others.filter_map(|&node| Some((node, routes.places.get(&node)?))).filter(|(_, place)| place.present));
    nodes
}

fn slots(routes: &Routes, reply: &mut Reply<'_>) {
    let served: Vec<_> = routes.ranges.iter().map(|range| (range, reachable(routes, range))).collect();
    let served: Vec<_> = served.into_iter().filter(|(_, nodes)| !nodes.is_empty()).collect();
    reply.array(served.len());
    for (range, nodes) in served {
        reply.array(2 + nodes.len());
        reply.integer(i64::from(range.first.0));
        reply.integer(i64::from(range.last.0));
        for (node, place) in nodes {
            let (host, port) = host_and_port(place);
            reply.array(4);
            reply.bulk(host.as_bytes());
            reply.integer(i64::from(port));
            reply.bulk(id(node).as_bytes());
            reply.array(0);
        }
    }
}

/// Ranges with the same nodes are one shard.
fn shards(routes: &Routes, reply: &mut Reply<'_>) {
    let mut shards: BTreeMap<Vec<NodeId>, Vec<&Range>> = BTreeMap::new();
    for range in &routes.ranges {
        let nodes = reachable(routes, range).into_iter().map(|(node, _)| node).collect::<Vec<_>>();
        if !nodes.is_empty() {
            shards.entry(nodes).or_default().push(range);
        }
    }
    reply.array(shards.len());
    for (nodes, ranges) in shards {
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(ranges.len() * 2);
        for range in ranges {
            reply.integer(i64::from(range.first.0));
            reply.integer(i64::from(range.last.0));
        }
        reply.bulk(b"nodes");
        reply.array(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let Some(place) = routes.places.get(node) else { continue };
            let (host, port) = host_and_port(place);
            reply.map(7);
            reply.bulk(b"id");
            reply.bulk(id(*node).as_bytes());
            reply.bulk(b"port");
            reply.integer(i64::from(port));
            reply.bulk(b"ip");
            reply.bulk(host.as_bytes());
            reply.bulk(b"endpoint");
            reply.bulk(host.as_bytes());
            reply.bulk(b"role");
            reply.bulk(if index == 0 { b"master" } else { b"replica" });
            reply.bulk(b"replication-offset");
            reply.integer(0);
            reply.bulk(b"health");
            reply.bulk(if place.present { b"online" } else { b"fail" });
        }
    }
}

/// Every node is a master here: each is primary of some buckets and holds copies of others.
fn nodes(routes: &Routes) -> String {
    let mut text = String::new();
    for (&node, place) in &routes.places {
        let (host, port) = host_and_port(place);
        let peer = place.peer.rsplit_once(':').map_or("0", |(_, port)| port);
        let myself = if node == routes.me { "myself," } else { "" };
        let (state, link) = if place.present { ("master", "connected") } else { ("master,fail", "disconnected") };
        let version = routes.version;
        let _ = write!(text, "{} {host}:{port}@{peer} {myself}{state} - 0 0 {version} {link}", id(node));
        for range in routes.ranges.iter().filter(|range| range.primary == node) {
            let _ = match range.first == range.last {
                true => write!(text, " {}", range.first.0),
                false => write!(text, " {}-{}", range.first.0, range.last.0),
            };
        }
        text.push('\n');
    }
    text
}

fn info(routes: &Routes) -> String {
    let width = |range: &Range| usize::from(range.last.0 - range.first.0) + 1;
    let assigned: usize = routes.ranges.iter().map(width).sum();
    let served = routes.ranges.iter().filter(|range| !reachable(routes, range).is_empty());
    let served: usize = served.map(width).sum();
    let primaries: std::collections::BTreeSet<NodeId> = routes.ranges.iter().map(|range| range.primary).collect();
    let state = if served == usize::from(HashSlot::COUNT) { "ok" } else { "fail" };
    format!(
        "cluster_enabled:1\r\ncluster_state:{state}\r\ncluster_slots_assigned:{assigned}\r\n\
         cluster_slots_ok:{served}\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:{}\r\n\
         cluster_known_nodes:{}\r\ncluster_size:{}\r\ncluster_current_epoch:{}\r\ncluster_my_epoch:{}\r\n",
        assigned - served,
        routes.places.len(),
        primaries.len(),
        routes.version,
        routes.version,
    )
}
