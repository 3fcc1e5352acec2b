//! The network: when a message that is sent arrives, once, twice or never.
//!
//! Links are directed. A link may be cut by several faults at once, so cuts are counted.

use crate::clock::Moment;
use crate::plan::NetPlan;
use atoll_types::Rng;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
struct Link {
    cuts: u32,
    /// Messages are held until then.
    clogged_until: Moment,
    /// When the last message arrives: without reordering none arrives before it.
    last: Moment,
    /// The way itself: added to every message.
    distance: Duration,
}

#[derive(Debug)]
pub(crate) struct Net {
    plan: NetPlan,
    rng: Rng,
    hosts: usize,
    links: Vec<Link>,
    lossy_until: Moment,
    late_until: Moment,
    calm: bool,
}

impl Net {
    pub(crate) fn new(mut rng: Rng, plan: NetPlan, hosts: usize) -> Net {
        let (low, high) = plan.latency;
        let links = (0..hosts * hosts).map(|_| Link { distance: rng.between(low, high), ..Link::default() }).collect();
        Net { plan, rng, hosts, links, lossy_until: Moment(0), late_until: Moment(0), calm: false }
    }

    fn link(&mut self, from: usize, to: usize) -> &mut Link {
        &mut self.links[from * self.hosts + to]
    }

    pub(crate) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.links[from * self.hosts + to].cuts > 0
    }

    pub(crate) fn cut(&mut self, from: usize, to: usize) {
        self.link(from, to).cuts += 1;
    }

    pub(crate) fn mend(&mut self, from: usize, to: usize) {
        let link = self.link(from, to);
        link.cuts = link.cuts.saturating_sub(1);
    }

    pub(crate) fn clog(&mut self, from: usize, to: usize, until: Moment) {
        let link = self.link(from, to);
        link.clogged_until = link.clogged_until.max(until);
    }

    pub(crate) fn lossy(&mut self, until: Moment) {
        self.lossy_until = until;
    }

    pub(crate) fn late(&mut self, until: Moment) {
        self.late_until = until;
    }

    /// Everything works from now on. What is in flight still arrives as it was to.
    pub(crate) fn heal(&mut self) {
        self.calm = true;
        for link in &mut self.links {
            link.cuts = 0;
            link.clogged_until = Moment(0);
        }
    }

    pub(crate) fn survives_crash(&self) -> bool {
        self.plan.survive_crash
    }

    /// When the message arrives; twice if it is duplicated.
    pub(crate) fn send(&mut self, now: Moment, from: usize, to: usize) -> [Option<Moment>; 2] {
        if self.is_cut(from, to) || self.loses(now) {
            return [None, None];
        }
        let first = self.arrival(now, from, to);
        let twice = !self.calm && self.rng.below(1_000_000) < self.plan.duplicates;
        let second = twice.then(|| self.arrival(now, from, to));
        [Some(first), second]
    }

    fn loses(&mut self, now: Moment) -> bool {
        if self.calm {
            return false;
        }
        let loss = if now < self.lossy_until { 300_000 } else { self.plan.loss };
        loss > 0 && self.rng.below(1_000_000) < loss
    }

    fn arrival(&mut self, now: Moment, from: usize, to: usize) -> Moment {
        let jitter = Duration::from_micros(self.rng.below(100));
        let late = if now < self.late_until && !self.calm {
            self.rng.between(Duration::from_millis(20), Duration::from_millis(400))
        } else {
            Duration::ZERO
        };
        // A few messages wander off: most keep close to each other.
        let wander = match self.plan.reorder {
            Some(most) if !self.calm && self.rng.one_in(8) => self.rng.between(Duration::ZERO, most),
            Some(_) | None => Duration::ZERO,
        };
        let ordered = self.plan.reorder.is_none() || self.calm;
        let link = self.link(from, to);
        let mut arrival = now.max(link.clogged_until).after(link.distance + jitter + late + wander);
        if ordered {
            arrival = arrival.max(link.last);
            link.last = arrival;
        }
        arrival
    }
}
