//! Entries of the cluster log, as a person reads them.

use atoll_types::{Body, Cause, Edict, Entry, Newcomer, Request, Slot, Submission, Why};
use std::sync::Arc;

/// Several entries, from `first` on. One is told in full, more are counted.
pub(super) fn range(first: Slot, entries: &[Arc<Entry>]) -> String {
    match entries {
        [] => "no entries".to_owned(),
        [entry] => format!("slot {first}: {}", self::entry(entry)),
        [..] => format!("slots {first} to {}", first.0 + entries.len() as u64 - 1),
    }
}

pub(super) fn entry(entry: &Entry) -> String {
    format!("{} (by {} at {})", body(&entry.body), entry.leader, entry.time)
}

pub(super) fn body(body: &Body) -> String {
    match body {
        Body::Noop => "nothing".to_owned(),
        Body::Government(government) => format!("government, {}", super::government(government)),
        Body::Edict(edict) => self::edict(edict),
        Body::Order(order) => format!("order {}: {:?}", order.number, order.steps),
        Body::Submission(submission) => self::submission(submission),
    }
}

pub(super) fn cause(cause: &Cause) -> String {
    match cause {
        Cause::Founded { cluster, founder, alone } => {
            let how = if *alone { ", as a cluster of one" } else { "" };
            format!("cluster {cluster} founded by {}{how}", newcomer(founder))
        }
        Cause::Elected => "elected".to_owned(),
        Cause::Arrived(arrived) => format!("{} arrived", newcomer(arrived)),
        Cause::Departed { node, why } => format!("{node} departed: {}", self::why(*why)),
        Cause::Seated => "seats given or taken".to_owned(),
        Cause::Rearranged => "majority rearranged".to_owned(),
        Cause::Recovered { generation } => format!("recovered, generation {generation}"),
    }
}

pub(super) fn newcomer(newcomer: &Newcomer) -> String {
    let kept = if newcomer.durable { "durable" } else { "in memory" };
    let name = &newcomer.name;
    let who = if newcomer.node.is_nobody() { name.to_string() } else { format!("{name} as {}", newcomer.node) };
    format!("{who} at {} ({kept}, life {})", newcomer.address, newcomer.incarnation.life)
}

fn edict(edict: &Edict) -> String {
    match edict {
        Edict::Absent { node, incarnation, why } => {
            format!("{node} is absent in life {}: {}", incarnation.life, self::why(*why))
        }
        Edict::Present { node, incarnation } => format!("{node} is present in life {}", incarnation.life),
        Edict::Restarted { node, incarnation, address, level } => {
            format!("{node} restarted at {address}: life {}, feature level {}", incarnation.life, level.0)
        }
        Edict::Skewed { node, skewed: true, .. } => format!("the clock of {node} is off"),
        Edict::Skewed { node, skewed: false, .. } => format!("the clock of {node} is right again"),
        Edict::Level(level) => format!("feature level {}", level.0),
    }
}

fn why(why: Why) -> &'static str {
    match why {
        Why::Silent => "silent",
        Why::Dead => "its process is gone",
        Why::Ordered => "by an operator's word",
        Why::Replaced => "replaced by a new process of its name",
        Why::Unreachable => "never reached",
        Why::AbsentTooLong => "absent for too long",
        Why::LevelTooLow => "its version is too old",
        Why::Stopped => "it stopped in good order",
        Why::Stalled => "its disk or a shard does not move",
    }
}

pub(super) fn submission(submission: &Submission) -> String {
    let Submission { node, sequence, request, .. } = submission;
    format!("submission {} of {node}: {}", sequence.0, self::request(request))
}

fn request(request: &Request) -> String {
    match request {
        Request::User(payload) => format!("{payload:?}"),
        Request::Acclimated => "acclimated".to_owned(),
        Request::Broadcast(payload) => format!("open a barrier with {payload:?}"),
        Request::Answer { barrier, answer } => format!("answer the barrier of slot {barrier} with {answer:?}"),
        Request::Depart { node } => format!("remove {node} for good"),
        Request::Reports(reports) => format!("reports {reports:?}"),
        Request::Operate(operation) => format!("{operation:?}"),
        Request::Pause => "stops for a while".to_owned(),
        Request::Reached(endpoints) => format!("is reached at {} (HTTP) and {} (RESP)", endpoints.http, endpoints.resp),
    }
}
