//! Entries, governments and events in words, as short as they can be read aloud.
//!
//! Not here: messages (`letters.rs`).

use crate::scenario::names::Names;
use atoll_node::{Event, Rejection};
use atoll_types::{Body, Cause, ClusterId, Edict, Entry, Government, Payload, Request, Slot, Why};
use std::sync::Arc;

/// Names, and the cluster whose ids are meant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    pub(super) names: &'a Names,
    pub(super) cluster: ClusterId,
}

pub(super) fn text(payload: &Payload) -> String {
    format!("{payload:?}")
}

impl Words<'_> {
    pub(super) fn node(&self, node: atoll_types::NodeId) -> String {
        self.names.node(self.cluster, node)
    }

    pub(super) fn nodes(&self, nodes: &[atoll_types::NodeId]) -> String {
        self.names.nodes(self.cluster, nodes.iter().copied())
    }

    pub(super) fn entry(&self, entry: &Entry) -> String {
        match &entry.body {
            Body::Noop => "nothing, to fill a gap".to_owned(),
            Body::Government(government) => {
                format!("government {} ({})", self.seats(government), self.cause(&government.cause))
            }
            Body::Edict(edict) => self.edict(edict),
            Body::Order(order) => self.order(order),
            Body::Submission(submission) => {
                let node = self.node(submission.node);
                match &submission.request {
                    Request::User(payload) => format!("{} of {node}", text(payload)),
                    Request::Acclimated => format!("{node} has acclimated"),
                    Request::Broadcast(payload) => format!("broadcast {} of {node}", text(payload)),
                    Request::Answer { barrier, answer } => {
                        format!("answer {} of {node} to barrier {barrier}", text(answer))
                    }
                    Request::Depart { node: leaving } => format!("{} is to depart, says {node}", self.node(*leaving)),
                    Request::Reports(reports) => format!("{node} reports: {}", self.reports(reports)),
                    Request::Operate(operation) => format!("{}, says {node}", self.operation(operation)),
                    Request::Pause => format!("{node} stops for a while"),
                    Request::Reached(endpoints) => format!("{node} is reached at {}", endpoints.http),
                }
            }
        }
    }

    /// Several entries from `first` on: few are told, many are counted.
    pub(super) fn entries(&self, first: Slot, entries: &[Arc<Entry>]) -> String {
        const TOLD: usize = 3;
        match entries {
            few if few.len() <= TOLD => {
                let told = (first.0..).zip(few).map(|(slot, entry)| format!("{slot} {}", self.entry(entry)));
                told.collect::<Vec<_>>().join(", ")
            }
            many => format!("{} to {}", first, first.0 + many.len() as u64 - 1),
        }
    }

    pub(super) fn seats(&self, government: &Government) -> String {
        let mut words = format!("led by {}", self.node(government.leader()));
        let lists = [
            ("majority", &government.majority),
            ("minority", &government.minority),
            ("learners", &government.learners),
        ];
        for (list, nodes) in lists.into_iter().filter(|(_, nodes)| !nodes.is_empty()) {
            words += &format!(", {list} {}", self.nodes(nodes));
        }
        words
    }

    fn cause(&self, cause: &Cause) -> String {
        match cause {
            Cause::Founded { alone, .. } if *alone => "founded as one node".to_owned(),
            Cause::Founded { .. } => "founded".to_owned(),
            Cause::Elected => "elected".to_owned(),
            Cause::Arrived(newcomer) => format!("{} arrives", self.node(newcomer.node)),
            Cause::Departed { node, why } => format!("{} departs: {}", self.node(*node), self::why(*why)),
            Cause::Seated => "seated".to_owned(),
            Cause::Rearranged => "rearranged".to_owned(),
            Cause::Recovered { generation } => {
                format!("recovered, {}", self.names.generation(self.cluster, *generation))
            }
        }
    }

    fn edict(&self, edict: &Edict) -> String {
        match edict {
            Edict::Absent { node, why, .. } => format!("{} is absent: {}", self.node(*node), self::why(*why)),
            Edict::Present { node, .. } => format!("{} is present again", self.node(*node)),
            Edict::Restarted { node, incarnation, .. } => {
                format!("{} was restarted: life {}", self.node(*node), incarnation.life)
            }
            Edict::Skewed { node, skewed: true, .. } => format!("the clock of {} is off", self.node(*node)),
            Edict::Skewed { node, skewed: false, .. } => format!("the clock of {} is right again", self.node(*node)),
            Edict::Level(level) => format!("feature level {}", level.0),
        }
    }

    /// None for what another line tells already.
    pub(super) fn event(&self, event: &Event) -> Option<String> {
        let names = self.names;
        Some(match event {
            Event::Named { node, incarnation } => {
                format!("is {} of {}, life {}", self.node(*node), names.cluster(self.cluster), incarnation.life)
            }
            Event::BarrierOpened { barrier, payload } => format!("is asked {} (barrier {barrier})", text(payload)),
            Event::BarrierReduced { barrier, slot, answers } => {
                let told = answers.iter().map(|(node, answer)| format!("{} {}", self.node(*node), text(answer)));
                let told = told.collect::<Vec<_>>().join(", ");
                format!("barrier {barrier} complete at {slot}: {told}")
            }
            Event::Leading { ballot, .. } => format!("leads in {}", names.ballot(self.cluster, *ballot)),
            Event::SteppedDown { .. } => "leads no longer".to_owned(),
            Event::SnapshotInstalled { slot, .. } => format!("installed the snapshot of {slot}"),
            Event::Trimmed { slot } => format!("trimmed its log up to {slot}"),
            Event::Departed { at } => format!("learns that it departed at {at}, and is blank"),
            Event::Fenced { generation } => {
                format!("gives up its log: there is {}", names.generation(self.cluster, *generation))
            }
            Event::LevelRaised { level } => format!("speaks feature level {}", level.0),
            Event::Alarm(alarm) => format!("alarm: {}", names.in_words(alarm)),
            Event::Decided { .. }
            | Event::Delivered { .. }
            | Event::Government { .. }
            | Event::SnapshotMade { .. }
            | Event::Submitted { .. }
            | Event::Rejected { .. }
            | Event::Unknown { .. } => return None,
        })
    }
}

pub(super) fn why(why: Why) -> &'static str {
    match why {
        Why::Silent => "silent",
        Why::Dead => "its process is gone",
        Why::Ordered => "an operator's word",
        Why::Replaced => "a new process has its name",
        Why::Unreachable => "never reached",
        Why::AbsentTooLong => "absent for too long",
        Why::LevelTooLow => "its version is too old",
        Why::Stopped => "it stopped in good order",
        Why::Stalled => "its disk or a shard does not move",
    }
}

pub(super) fn rejection(rejection: Rejection) -> &'static str {
    match rejection {
        Rejection::Busy => "busy, too much is waiting",
        Rejection::Blank => "belongs to no cluster yet",
        Rejection::TooLarge => "larger than an entry may be",
        Rejection::NotPossible => "not possible",
    }
}
