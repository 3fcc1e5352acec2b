//! What the distributor knows of a node, and of links between nodes that somebody complained of.

use crate::state::Standing;
use atoll_types::{Bug, NodeId, Time, planted};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Absences within this time count as flapping.
const FLAPPING: Duration = Duration::from_secs(600);
const WAIT_MOST: Duration = Duration::from_secs(60);
const ABSENCES_MOST: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub standing: Standing,
    /// Log times of its last absences, oldest first.
    pub absences: Vec<Time>,
    /// It is given nothing before: a node that comes and goes would have everything copied to it again and again.
    pub waits_until: Time,
    /// Everything moves off it.
    pub draining: bool,
    /// It handed over its primaries and gets none, until it was away or begins a new life.
    pub stepped_back: bool,
}

impl Node {
    pub(crate) fn new(standing: Standing) -> Node {
        Node { standing, absences: Vec::new(), waits_until: Time::ZERO, draining: false, stepped_back: false }
    }

    pub(crate) fn is_going(&self) -> bool {
        self.draining || self.standing.leaving
    }

    /// May hold copies, and keep those it has.
    pub(crate) fn may_hold(&self) -> bool {
        self.standing.present && !self.is_going()
    }

    pub(crate) fn may_lead(&self) -> bool {
        self.may_hold() && !self.stepped_back && self.is_on_time()
    }

    /// Its clock is near the others'. One that is not leads where nobody else can: better late than not at all.
    pub(crate) fn is_on_time(&self) -> bool {
        !self.standing.skewed || planted(Bug::SkewedLeads)
    }

    pub(crate) fn may_be_given(&self, now: Time) -> bool {
        self.may_hold() && self.waits_until <= now
    }

    pub(crate) fn weight(&self) -> u64 {
        u64::from(self.standing.weight.max(1))
    }

    pub(crate) fn on_absent(&mut self, time: Time) {
        self.stepped_back = false;
        self.absences.retain(|&absence| time.since(absence) < FLAPPING);
        if self.absences.len() == ABSENCES_MOST {
            self.absences.remove(0);
        }
        self.absences.push(time);
    }

    /// The first return is free; then the wait doubles.
    pub(crate) fn on_return(&mut self, time: Time) {
        let recent = self.absences.iter().filter(|&&absence| time.since(absence) < FLAPPING).count();
        self.waits_until = match recent.checked_sub(2) {
            Some(doublings) => time + Duration::from_secs(1 << doublings).min(WAIT_MOST),
            None => Time::ZERO,
        };
    }
}

/// Somebody waited in vain for somebody. Whoever is to be given a copy should be reached by the primary that gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shun {
    pub by: NodeId,
    pub about: NodeId,
    pub until: Time,
}

impl Shun {
    /// Links remembered; the oldest is forgotten first.
    pub(crate) const MOST: usize = 256;
    pub(crate) const LASTS: Duration = Duration::from_secs(10);

    /// A link that does not carry one way carries nothing: acknowledgements go the other.
    pub(crate) fn is_between(&self, one: NodeId, other: NodeId) -> bool {
        (self.by, self.about) == (one, other) || (self.by, self.about) == (other, one)
    }
}

/// Of the links in `shuns`, is one of these in force?
pub(crate) fn shunned(shuns: &[Shun], now: Time, one: NodeId, other: NodeId) -> bool {
    let in_force = |shun: &&Shun| shun.until > now;
    // A node that complained of itself is shunned by everybody.
    let applies = |shun: &Shun| shun.is_between(one, other) || shun.is_between(other, other);
    shuns.iter().filter(in_force).any(applies)
}
