//! What the decided entries add up to. A function of the log alone: the same at the same slot on every node.

use crate::barrier::{BARRIERS_MOST, Barrier};
use crate::member::{Member, Standing};
use crate::submissions::Submitted;
use atoll_types::{
    Body, Bug, Cause, ClusterId, Cookie, Edict, Entry, Generation, Government, Level, NodeId, Operation, Payload,
    Report, Request, Sequence, Slot, Submission, Time, Why, planted,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Departed nodes remembered by name, so that they can be told at which slot; older ones are told without it.
const DEPARTED_MOST: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub cluster: ClusterId,
    pub generation: Generation,
    /// Founded as a cluster of one: may have a single voter.
    pub alone: bool,
    pub level: Level,
    pub members: BTreeMap<NodeId, Member>,
    pub departed: BTreeMap<NodeId, Slot>,
    /// The id the next newcomer gets.
    pub next_node: NodeId,
    pub government: Government,
    pub government_slot: Slot,
    pub submitted: BTreeMap<NodeId, Submitted>,
    /// Open barriers, by the slot of their broadcast.
    pub barriers: BTreeMap<Slot, Barrier>,
    /// A hash chain over all entries applied: equal histories, equal logs.
    pub history: u64,
    pub applied: Slot,
    pub time: Time,
}

/// What an entry brought about, for this node to act on or tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A submission took effect, whatever it asked for.
    Taken {
        node: NodeId,
        cookie: Cookie,
        sequence: Sequence,
    },
    /// A submission was taken and cannot be done.
    NotPossible {
        node: NodeId,
        cookie: Cookie,
        sequence: Sequence,
    },
    Delivered {
        node: NodeId,
        cookie: Cookie,
        sequence: Sequence,
        payload: Payload,
    },
    BarrierOpened {
        barrier: Slot,
    },
    BarrierReduced {
        barrier: Slot,
        answers: BTreeMap<NodeId, Payload>,
    },
    Arrived {
        node: NodeId,
    },
    Departed {
        node: NodeId,
    },
    StandingChanged,
    LevelRaised {
        level: Level,
    },
    /// A node's replicas have something to tell.
    Reports {
        node: NodeId,
        reports: Vec<Report>,
    },
    /// An operator's wish about buckets. Whether it can be done is not for this state to say.
    Operation {
        node: NodeId,
        cookie: Cookie,
        sequence: Sequence,
        operation: Operation,
    },
}

impl State {
    /// Before the first entry.
    pub fn new() -> State {
        State {
            cluster: ClusterId::NONE,
            generation: Generation::default(),
            alone: false,
            level: Level(1),
            members: BTreeMap::new(),
            departed: BTreeMap::new(),
            next_node: NodeId(1),
            government: Government::of(&[], std::iter::empty(), Cause::Elected),
            government_slot: Slot::ZERO,
            submitted: BTreeMap::new(),
            barriers: BTreeMap::new(),
            history: 0,
            applied: Slot::ZERO,
            time: Time::ZERO,
        }
    }

    pub fn apply(&mut self, slot: Slot, entry: &Entry) -> Vec<Effect> {
        assert_eq!(slot, self.applied.next(), "entries are applied in order");
        self.applied = slot;
        self.time = entry.time;
        let bytes = postcard::to_allocvec(entry).expect("an entry always has bytes");
        self.history = xxh3_64_with_seed(&bytes, self.history);
        let mut effects = Vec::new();
        match &entry.body {
            Body::Noop => {}
            Body::Government(government) => self.on_government(slot, government, &mut effects),
            Body::Edict(edict) => self.on_edict(slot, edict, &mut effects),
            Body::Order(_) => {} // Of buckets this state knows nothing.
            Body::Submission(submission) => self.on_submission(slot, submission, &mut effects),
        }
        effects
    }

    fn on_government(&mut self, slot: Slot, government: &Government, effects: &mut Vec<Effect>) {
        self.government = government.clone();
        self.government_slot = slot;
        match &government.cause {
            Cause::Founded { cluster, founder, alone } => {
                self.cluster = *cluster;
                self.alone = *alone;
                self.members.insert(founder.node, Member::new(founder, slot, Standing::Present));
                self.next_node = NodeId(founder.node.0.saturating_add(1));
            }
            Cause::Elected | Cause::Seated | Cause::Rearranged => {}
            Cause::Arrived(newcomer) => {
                self.members.insert(newcomer.node, Member::new(newcomer, slot, Standing::Arriving));
                self.next_node = self.next_node.max(NodeId(newcomer.node.0.saturating_add(1)));
                effects.push(Effect::Arrived { node: newcomer.node });
            }
            Cause::Departed { node, .. } => self.depart(slot, *node, effects),
            Cause::Recovered { generation } => {
                self.generation = *generation;
                let leader = government.leader();
                let others: Vec<NodeId> = self.members.keys().copied().filter(|&node| node != leader).collect();
                for node in others {
                    self.set_absent(slot, node, Why::Silent, effects);
                }
                // Whoever the operator chose is wanted, whatever was said of it before.
                if let Some(member) = self.members.get_mut(&leader) {
                    (member.standing, member.ordered_out) = (Standing::Present, None);
                }
                effects.push(Effect::StandingChanged);
            }
        }
    }

    fn depart(&mut self, slot: Slot, node: NodeId, effects: &mut Vec<Effect>) {
        if self.members.remove(&node).is_none() {
            return;
        }
        self.departed.insert(node, slot);
        while self.departed.len() > DEPARTED_MOST {
            self.departed.pop_first();
        }
        self.submitted.remove(&node);
        self.remove_from_barriers(node, effects);
        effects.push(Effect::Departed { node });
    }

    fn set_absent(&mut self, slot: Slot, node: NodeId, why: Why, effects: &mut Vec<Effect>) {
        let Some(member) = self.members.get_mut(&node) else { return };
        if member.is_active() {
            member.standing = Standing::Absent { why, at: slot };
            self.remove_from_barriers(node, effects);
            effects.push(Effect::StandingChanged);
        }
    }

    fn remove_from_barriers(&mut self, node: NodeId, effects: &mut Vec<Effect>) {
        self.barriers.values_mut().for_each(|barrier| barrier.remove(node));
        self.reduce_barriers(effects);
    }

    fn reduce_barriers(&mut self, effects: &mut Vec<Effect>) {
        let complete = |(&slot, barrier): (&Slot, &Barrier)| barrier.is_complete().then_some(slot);
        while let Some(slot) = self.barriers.iter().find_map(complete) {
            let answers = self.barriers.remove(&slot).map(|barrier| barrier.answers).unwrap_or_default();
            effects.push(Effect::BarrierReduced { barrier: slot, answers });
        }
    }

    /// An edict that no longer fits, because it speaks of another life or of a standing that has changed, does nothing.
    fn on_edict(&mut self, slot: Slot, edict: &Edict, effects: &mut Vec<Effect>) {
        match edict {
            Edict::Absent { node, incarnation, why } => {
                if self.members.get(node).is_some_and(|member| member.incarnation == *incarnation) {
                    self.set_absent(slot, *node, *why, effects);
                }
            }
            Edict::Present { node, incarnation } => {
                if let Some(member) = self.members.get_mut(node)
                    && member.incarnation == *incarnation
                    && member.may_return()
                    && member.level >= self.level
                {
                    member.standing = member.once_present();
                    effects.push(Effect::StandingChanged);
                }
            }
            Edict::Restarted { node, incarnation, address, level } => {
                if let Some(member) = self.members.get_mut(node)
                    && incarnation.life > member.incarnation.life
                {
                    member.incarnation = *incarnation;
                    member.address = address.clone();
                    member.level = *level;
                    if member.is_absent() && !member.may_return() {
                        member.standing = Standing::Absent { why: Why::Silent, at: slot };
                    }
                    self.submitted.remove(node);
                    effects.push(Effect::StandingChanged);
                    // Whoever does not understand the cluster's level takes no part until it does.
                    if *level < self.level {
                        self.set_absent(slot, *node, Why::LevelTooLow, effects);
                    }
                }
            }
            Edict::Skewed { node, incarnation, skewed } => {
                if let Some(member) = self.members.get_mut(node)
                    && member.incarnation == *incarnation
                    && member.skewed != *skewed
                {
                    member.skewed = *skewed;
                    effects.push(Effect::StandingChanged);
                }
            }
            Edict::Level(level) => {
                if *level > self.level && self.understood() >= *level {
                    self.level = *level;
                    effects.push(Effect::LevelRaised { level: *level });
                }
            }
        }
    }

    fn on_submission(&mut self, slot: Slot, submission: &Submission, effects: &mut Vec<Effect>) {
        let Submission { node, cookie, sequence, floor: _, request } = submission;
        let (node, cookie, sequence) = (*node, *cookie, *sequence);
        // Of a node that is not, or no longer, what it was when it submitted: nothing of an old life counts.
        if self.members.get(&node).is_none_or(|member| member.incarnation.cookie != cookie) {
            return;
        }
        let submitted = self.submitted.entry(node).or_insert_with(|| Submitted::new(cookie));
        if !submitted.take(submission) {
            return;
        }
        if let Request::Operate(operation) = request {
            return effects.push(Effect::Operation { node, cookie, sequence, operation: operation.clone() });
        }
        if !self.on_request(slot, submission, request, effects) {
            return effects.push(Effect::NotPossible { node, cookie, sequence });
        }
        effects.push(Effect::Taken { node, cookie, sequence });
    }

    /// Does what a submission asks for, where it can be done.
    fn on_request(&mut self, slot: Slot, from: &Submission, request: &Request, effects: &mut Vec<Effect>) -> bool {
        let node = from.node;
        match request {
            Request::User(payload) => {
                let (cookie, sequence, payload) = (from.cookie, from.sequence, payload.clone());
                effects.push(Effect::Delivered { node, cookie, sequence, payload });
            }
            Request::Acclimated => {
                if let Some(member) = self.members.get_mut(&node)
                    && member.is_arriving()
                {
                    member.standing = member.once_present();
                    effects.push(Effect::StandingChanged);
                }
            }
            Request::Broadcast(payload) => {
                if self.barriers.len() >= BARRIERS_MOST {
                    return false;
                }
                self.barriers.insert(slot, Barrier::new(payload.clone(), self.active()));
                effects.push(Effect::BarrierOpened { barrier: slot });
                self.reduce_barriers(effects); // Nobody may be there to answer.
            }
            Request::Answer { barrier, answer } => {
                if let Some(open) = self.barriers.get_mut(barrier) {
                    open.answer(node, answer.clone());
                    self.reduce_barriers(effects);
                }
            }
            Request::Reports(reports) => effects.push(Effect::Reports { node, reports: reports.clone() }),
            Request::Operate(_) => {} // Answered by whoever can do it.
            Request::Pause => self.set_absent(slot, node, Why::Stopped, effects),
            Request::Reached(endpoints) => {
                if let Some(member) = self.members.get_mut(&node) {
                    member.endpoints = endpoints.clone();
                }
            }
            Request::Depart { node } => {
                if !self.can_spare(*node) {
                    return false;
                }
                if let Some(member) = self.members.get_mut(node) {
                    member.ordered_out = Some(member.incarnation);
                    if member.standing == Standing::Present {
                        member.standing = Standing::Leaving;
                    }
                    effects.push(Effect::StandingChanged);
                }
            }
        }
        true
    }

    /// May an operator remove this node? Not if fewer voters than two would be left, or none in a cluster founded as
    /// one node. Whoever is to go as well is not counted; but for one that is absent it is, since it stays until it can
    /// be spared: or else neither could ever go.
    pub fn can_spare(&self, node: NodeId) -> bool {
        let Some(absent) = self.members.get(&node).map(Member::is_absent) else { return false };
        let counts = |member: &Member| member.standing == Standing::Present || (absent && member.is_active());
        let left = self.members.iter().filter(|&(&other, member)| other != node && counts(member)).count();
        let needed = match (self.alone, self.government.voter_count()) {
            (true, _) => 1,
            (false, 1) if !self.government.is_voter(node) => 1,
            (false, _) => 2,
        };
        left >= needed
    }

    /// The feature level that every member understands. An absent one counts: it must be able to come back.
    pub fn understood(&self) -> Level {
        self.members.values().map(|member| member.level).min().unwrap_or(self.level)
    }

    /// Acclimated nodes that are not absent.
    pub fn active(&self) -> BTreeSet<NodeId> {
        self.members.iter().filter(|(_, member)| member.is_active()).map(|(&node, _)| node).collect()
    }

    pub fn absent(&self) -> BTreeSet<NodeId> {
        self.members.iter().filter(|(_, member)| member.is_absent()).map(|(&node, _)| node).collect()
    }

    pub fn named(&self, name: &atoll_types::Name) -> Option<(NodeId, &Member)> {
        self.members.iter().find(|(_, member)| member.name == *name).map(|(&node, member)| (node, member))
    }

    /// Was this id given once and taken away? Tells the slot, where it is still remembered.
    pub fn departed_at(&self, node: NodeId) -> Option<Slot> {
        let gone = !node.is_nobody() && node < self.next_node && !self.members.contains_key(&node);
        gone.then(|| self.departed.get(&node).copied().unwrap_or(Slot::ZERO))
    }

    /// Can this be a state at all? What comes from elsewhere is not believed to be.
    pub fn is_sound(&self) -> bool {
        let governed = self.applied == Slot::ZERO || self.government.is_lawful();
        governed && self.government_slot <= self.applied && self.applied <= Slot::MOST
    }

    /// As it stands in a snapshot.
    pub fn for_snapshot(&self) -> State {
        let mut state = self.clone();
        if planted(Bug::SnapshotWithoutSubmissions) {
            state.submitted.clear();
        }
        state
    }
}

impl Default for State {
    fn default() -> Self {
        State::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{Endpoints, Incarnation, Newcomer};

    fn life(life: u32) -> Incarnation {
        Incarnation { life, cookie: Cookie(life.into()) }
    }

    fn member(node: u32) -> Member {
        let newcomer = Newcomer {
            node: NodeId(node),
            name: format!("n{node}").as_str().into(),
            address: format!("n{node}").as_str().into(),
            endpoints: Endpoints::default(),
            incarnation: life(1),
            zone: "".into(),
            weight: 1,
            level: Level(1),
            durable: true,
        };
        Member::new(&newcomer, Slot(1), Standing::Present)
    }

    #[test]
    fn an_absent_node_can_be_removed_although_another_is_still_to_go() {
        let mut state = State::new();
        state.members = (1..=3).map(|node| (NodeId(node), member(node))).collect();
        let going = state.members.get_mut(&NodeId(2)).expect("a member");
        (going.standing, going.ordered_out) = (Standing::Leaving, Some(life(1)));
        assert!(!state.can_spare(NodeId(3)), "two of three are not spared");
        state.set_absent(Slot(2), NodeId(3), Why::Dead, &mut Vec::new());
        assert!(state.can_spare(NodeId(3)), "and the other stays until somebody has come");
        assert!(!state.can_spare(NodeId(2)) && !state.can_spare(NodeId(7)));
    }

    #[test]
    fn an_order_to_depart_is_for_the_life_it_was_given_to_and_stays_with_the_member() {
        let mut state = State::new();
        state.members = (1..=3).map(|node| (NodeId(node), member(node))).collect();
        let (node, mut effects) = (NodeId(3), Vec::new());
        state.set_absent(Slot(2), node, Why::Dead, &mut effects);
        let request = Request::Depart { node };
        let from = Submission {
            node: NodeId(1),
            cookie: Cookie(1),
            sequence: Sequence(1),
            floor: Sequence(1),
            request: request.clone(),
        };
        assert!(state.on_request(Slot(3), &from, &request, &mut effects));
        let address = state.members[&node].address.clone();
        let restarted = Edict::Restarted { node, incarnation: life(2), address, level: Level(1) };
        state.on_edict(Slot(4), &restarted, &mut effects);
        let member = &state.members[&node];
        assert_eq!((member.incarnation, member.ordered_out), (life(2), Some(life(1))));
        assert!(member.is_to_go(), "it departs all the same");
    }
}
