//! Who belongs to the cluster and how it stands with them, and which barriers are open: worked out from the canonical
//! log alone, by code that shares nothing with the core's.
//!
//! Not here: the rules about it (`government.rs`, `barrier.rs`).

use atoll_types::{
    Body, Cause, Cookie, Edict, Entry, Government, Incarnation, Level, NodeId, Payload, Request, Sequence, Slot,
    Submission,
};
use std::collections::{BTreeMap, BTreeSet};

const BARRIERS_MOST: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    Arriving,
    Present,
    Absent,
    Leaving,
}

#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) incarnation: Incarnation,
    pub(crate) level: Level,
    pub(crate) stands: Stands,
    /// Since which slot it has been neither absent nor out.
    pub(crate) since: Slot,
    /// An operator wants it gone.
    ordered_out: bool,
    /// It said that it stops: it does not come back in this life.
    stopped: bool,
}

impl Listed {
    fn come(&mut self) {
        self.stands = if self.ordered_out { Stands::Leaving } else { Stands::Present };
    }

    fn is_active(&self) -> bool {
        matches!(self.stands, Stands::Present | Stands::Leaving)
    }
}

/// A barrier that is reduced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reduced {
    pub(crate) barrier: Slot,
    pub(crate) at: Slot,
    pub(crate) answers: BTreeMap<NodeId, Payload>,
}

#[derive(Debug, Default)]
struct Open {
    waiting: BTreeSet<NodeId>,
    answers: BTreeMap<NodeId, Payload>,
}

#[derive(Debug, Default)]
pub(crate) struct Roll {
    pub(crate) members: BTreeMap<NodeId, Listed>,
    /// Every id that was ever given.
    pub(crate) given: BTreeSet<NodeId>,
    pub(crate) alone: bool,
    /// The cluster's feature level: every member understood it when it was raised.
    level: Level,
    government: Option<Government>,
    taken: BTreeSet<(NodeId, Cookie, Sequence)>,
    floors: BTreeMap<(NodeId, Cookie), Sequence>,
    open: BTreeMap<Slot, Open>,
    /// In the order in which they were.
    pub(crate) reduced: Vec<Reduced>,
}

impl Roll {
    pub(crate) fn apply(&mut self, slot: Slot, entry: &Entry) {
        match &entry.body {
            Body::Noop => {}
            Body::Government(government) => self.on_government(slot, government),
            Body::Edict(edict) => self.on_edict(slot, edict),
            Body::Order(_) => {}
            Body::Submission(submission) => self.on_submission(slot, submission),
        }
    }

    fn on_government(&mut self, slot: Slot, government: &Government) {
        self.government = Some(government.clone());
        match &government.cause {
            Cause::Founded { founder, alone, .. } => {
                self.alone = *alone;
                self.list(slot, founder, Stands::Present);
            }
            Cause::Arrived(newcomer) => self.list(slot, newcomer, Stands::Arriving),
            Cause::Departed { node, .. } => {
                self.members.remove(node);
                self.remove(slot, *node);
            }
            Cause::Recovered { .. } => {
                let others: Vec<NodeId> = self.members.keys().copied().collect();
                for node in others.into_iter().filter(|&node| node != government.leader()) {
                    self.absent(slot, node);
                }
                // Whoever the operator chose is present, even if it was on its way in or thought gone.
                if let Some(listed) = self.members.get_mut(&government.leader()) {
                    (listed.stands, listed.since, listed.ordered_out) = (Stands::Present, slot, false);
                    listed.stopped = false;
                }
            }
            Cause::Elected | Cause::Seated | Cause::Rearranged => {}
        }
    }

    fn list(&mut self, since: Slot, newcomer: &atoll_types::Newcomer, stands: Stands) {
        self.given.insert(newcomer.node);
        let listed = Listed {
            incarnation: newcomer.incarnation,
            level: newcomer.level,
            stands,
            since,
            ordered_out: false,
            stopped: false,
        };
        self.members.insert(newcomer.node, listed);
    }

    fn absent(&mut self, slot: Slot, node: NodeId) {
        if let Some(listed) = self.members.get_mut(&node)
            && listed.is_active()
        {
            listed.stands = Stands::Absent;
            self.remove(slot, node);
        }
    }

    /// A node that is removed is not waited for any more.
    fn remove(&mut self, slot: Slot, node: NodeId) {
        for open in self.open.values_mut() {
            open.waiting.remove(&node);
        }
        self.reduce(slot);
    }

    fn reduce(&mut self, slot: Slot) {
        let complete: Vec<Slot> =
            self.open.iter().filter(|(_, open)| open.waiting.is_empty()).map(|(&barrier, _)| barrier).collect();
        for barrier in complete {
            if let Some(open) = self.open.remove(&barrier) {
                self.reduced.push(Reduced { barrier, at: slot, answers: open.answers });
            }
        }
    }

    fn on_edict(&mut self, slot: Slot, edict: &Edict) {
        match edict {
            Edict::Absent { node, incarnation, .. } => {
                if self.members.get(node).is_some_and(|listed| listed.incarnation == *incarnation) {
                    self.absent(slot, *node);
                }
            }
            Edict::Present { node, incarnation } => {
                if let Some(listed) = self.members.get_mut(node)
                    && listed.incarnation == *incarnation
                    && listed.stands == Stands::Absent
                    && !listed.stopped
                    && listed.level >= self.level
                {
                    listed.since = slot;
                    listed.come();
                }
            }
            Edict::Restarted { node, incarnation, level, .. } => {
                if let Some(listed) = self.members.get_mut(node)
                    && listed.incarnation.life < incarnation.life
                {
                    listed.incarnation = *incarnation;
                    listed.stopped = false;
                    listed.level = *level;
                    if *level < self.level {
                        self.absent(slot, *node);
                    }
                }
            }
            Edict::Skewed { .. } => {}
            Edict::Level(level) => {
                if self.members.values().all(|listed| listed.level >= *level) {
                    self.level = self.level.max(*level);
                }
            }
        }
    }

    /// Does this submission take effect at the end of the log, or is it one that did, or of another life?
    fn counts(&self, submission: &Submission) -> bool {
        let Submission { node, cookie, sequence, .. } = submission;
        let same_life = self.members.get(node).is_some_and(|listed| listed.incarnation.cookie == *cookie);
        let floor = self.floors.get(&(*node, *cookie)).copied().unwrap_or_default();
        same_life && *sequence >= floor && !self.taken.contains(&(*node, *cookie, *sequence))
    }

    fn on_submission(&mut self, slot: Slot, submission: &Submission) {
        if !self.counts(submission) {
            return;
        }
        let Submission { node, cookie, sequence, floor, request } = submission;
        self.taken.insert((*node, *cookie, *sequence));
        let known = self.floors.entry((*node, *cookie)).or_default();
        *known = (*known).max(*floor);
        match request {
            Request::User(_) => {}
            Request::Acclimated => {
                if let Some(listed) = self.members.get_mut(node)
                    && listed.stands == Stands::Arriving
                {
                    listed.come();
                }
            }
            Request::Broadcast(_) => {
                if self.open.len() < BARRIERS_MOST {
                    let waiting = self.active().collect();
                    self.open.insert(slot, Open { waiting, answers: BTreeMap::new() });
                    self.reduce(slot);
                }
            }
            Request::Answer { barrier, answer } => {
                if let Some(open) = self.open.get_mut(barrier)
                    && open.waiting.remove(node)
                {
                    open.answers.insert(*node, answer.clone());
                }
                self.reduce(slot);
            }
            Request::Reports(_) | Request::Operate(_) | Request::Reached(_) => {}
            Request::Pause => {
                let was_active = self.members.get(node).is_some_and(Listed::is_active);
                self.absent(slot, *node);
                if let Some(listed) = self.members.get_mut(node).filter(|_| was_active) {
                    listed.stopped = true;
                }
            }
            Request::Depart { node } => self.order_departure(*node),
        }
    }

    fn order_departure(&mut self, node: NodeId) {
        let absent = self.stands(node) == Some(Stands::Absent);
        let counts = |listed: &Listed| listed.stands == Stands::Present || (absent && listed.is_active());
        let stays = |(other, listed): (&NodeId, &Listed)| *other != node && counts(listed);
        let left = self.members.iter().filter(|&entry| stays(entry)).count();
        let voters = self.government.as_ref().map_or(0, Government::voter_count);
        let votes = self.government.as_ref().is_some_and(|government| government.is_voter(node));
        let needed = if self.alone || (voters == 1 && !votes) { 1 } else { 2 };
        if let Some(listed) = self.members.get_mut(&node)
            && left >= needed
        {
            listed.ordered_out = true;
            if listed.stands == Stands::Present {
                listed.stands = Stands::Leaving;
            }
        }
    }

    /// Acclimated, and not absent.
    pub(crate) fn active(&self) -> impl Iterator<Item = NodeId> {
        self.members.iter().filter(|(_, listed)| listed.is_active()).map(|(&node, _)| node)
    }

    pub(crate) fn stands(&self, node: NodeId) -> Option<Stands> {
        self.members.get(&node).map(|listed| listed.stands)
    }
}
