//! Decided entries: learning them, passing them on, dropping those that everybody has.

use crate::machine::{Action, Paxos, Role};
use crate::message::{Learn, Message, Missing};
use crate::relay::children_of;
use atoll_types::{Ballot, Body, Bug, Entry, Gauge, Government, Held, NodeId, Record, Slot, planted};
use std::sync::Arc;

/// Entries in one message to a node that is behind.
const LEARN_MOST: usize = 64;

impl Paxos {
    pub(crate) fn on_learn(&mut self, from: NodeId, learn: Learn) {
        self.hear(learn.ballot, learn.beat, from);
        self.raise_floor(learn.floor);
        self.known = self.known.max(learn.decided);
        let serving = matches!(&self.role, Role::Leader(leader) if leader.is_serving());
        // A leader that serves decides for itself; what it does not know it was deposed over, and will hear.
        if serving {
            return;
        }
        if learn.previous > self.log.decided() {
            return self.ask_for_missing(from);
        }
        self.yield_to_others(&learn);
        if self.learn_entries(&learn) {
            (self.feeder, self.fed) = (from, self.now);
        }
        if learn.decided > self.log.decided() {
            self.ask_for_missing(from);
        }
        self.advance();
    }

    /// A leader that is not in office yet may learn that one of its proposals lost: a later leader has decided something
    /// else there. From then on its decided mark would vouch for what it proposed.
    fn yield_to_others(&mut self, learn: &Learn) {
        let Role::Leader(leader) = &self.role else { return };
        let proposed = self.through(leader.ballot);
        let differs = |(offset, entry): (usize, &Arc<Entry>)| {
            let slot = Slot(learn.previous.0 + 1 + offset as u64);
            let held = self.log.get(slot).filter(|_| slot > self.log.decided() && slot <= proposed);
            held.is_some_and(|held| held.entry != *entry)
        };
        if learn.entries.iter().enumerate().any(differs) && !planted(Bug::LeaderKeepsLostProposals) {
            self.become_follower();
        }
    }

    /// Takes what is new; true if anything was.
    fn learn_entries(&mut self, learn: &Learn) -> bool {
        let known = self.log.decided().above(learn.previous) as usize;
        let Some(fresh) = learn.entries.get(known..).filter(|fresh| !fresh.is_empty()) else { return false };
        let first = self.log.decided().next();
        for (offset, entry) in fresh.iter().enumerate() {
            let slot = Slot(first.0 + offset as u64);
            // Under the ballot it may have been accepted in: a decided entry's ballot no longer matters.
            let ballot = self.log.get(slot).map_or(Ballot::default(), |held| held.ballot);
            self.log.put(slot, Held { ballot, entry: entry.clone() });
            self.decide_through(slot);
        }
        self.persist(Record::Learned { first, entries: fresh.to_vec() });
        true
    }

    pub(crate) fn ask_for_missing(&mut self, from: NodeId) {
        let position = self.log.decided();
        if self.asked != Some(position) {
            self.asked = Some(position);
            self.send(from, Message::Missing(Missing { position }));
        }
    }

    pub(crate) fn on_missing(&mut self, from: NodeId, missing: Missing) {
        self.feed(from, missing.position);
    }

    /// A child or an orphan says how far it is. Whoever is not fed by the tree is answered.
    pub fn on_position(&mut self, node: NodeId, position: Slot) {
        if let Some(sent) = self.children.get_mut(&node) {
            // What was sent and lost leaves a gap at the next heartbeat, which the child then asks for.
            *sent = (*sent).max(position);
        } else if !self.is_fed_by_leader(node) {
            self.feed(node, position);
        }
    }

    fn is_fed_by_leader(&self, node: NodeId) -> bool {
        matches!(&self.role, Role::Leader(leader) if leader.feeds(node))
    }

    pub(crate) fn feed(&mut self, node: NodeId, position: Slot) {
        if position < self.log.trimmed() {
            return self.actions.push_back(Action::TooOld { node });
        }
        let entries = self.log.entries(position, self.log.decided(), LEARN_MOST);
        let sent = Slot(position.0 + entries.len() as u64);
        let message = self.learn_message(position.min(self.log.decided()), entries);
        self.send(node, message);
        if let Some(child) = self.children.get_mut(&node) {
            *child = sent;
        }
    }

    /// Passes on what is new; with `beat`, also that nothing is.
    pub(crate) fn feed_children(&mut self, beat: bool) {
        let decided = self.log.decided();
        let due: Vec<(NodeId, Slot)> = self
            .children
            .iter()
            .filter(|&(_, &sent)| beat || sent < decided)
            .map(|(&node, &sent)| (node, sent.max(self.log.trimmed())))
            .collect();
        due.into_iter().for_each(|(node, sent)| self.feed(node, sent));
    }

    /// Lays the relay tree anew: after a change of government, of absences, or of this node's role.
    pub(crate) fn lay_tree(&mut self) {
        let decided = self.log.decided();
        let leads = matches!(self.role, Role::Leader(_));
        let mut children = children_of(self.me, &self.government, &self.absent, self.settings.fan_out);
        // Between two governments the tree hangs from the leader that was; the new one feeds by its proposals.
        children.retain(|&child| child != self.me && (leads || child != self.leader.node));
        let known = std::mem::take(&mut self.children);
        self.children = children.into_iter().map(|node| (node, *known.get(&node).unwrap_or(&decided))).collect();
    }

    /// Takes all up to `mark` for decided. The caller knows that the entries held there are the decided ones.
    pub(crate) fn decide_through(&mut self, mark: Slot) {
        while self.log.decided() < mark {
            let (slot, entry) = self.log.decide_next();
            if let Body::Government(government) = &entry.body {
                self.govern(slot, government);
            }
            self.actions.push_back(Action::Decided { slot, entry });
        }
        self.kept_at_most = self.kept_at_most.max(self.log.kept());
    }

    fn govern(&mut self, slot: Slot, government: &Government) {
        if let Role::Leader(leader) = &mut self.role {
            leader.on_government(slot, &self.government);
            // An operator's recovery decides what was accepted before, governments too, by its own voice alone.
            if leader.recovering_until.is_some_and(|until| slot < until) {
                return;
            }
        }
        self.government = Arc::new(government.clone());
        self.government_slot = slot;
        self.lay_tree();
    }

    pub(crate) fn raise_floor(&mut self, floor: Slot) {
        self.floor = self.floor.max(floor);
    }

    /// The slot up to which the log may be dropped now, if that is worth a step.
    pub fn trimmable(&self) -> Option<Slot> {
        let decided = self.log.decided();
        let floor = if planted(Bug::TrimPastLaggard) { decided } else { self.floor.min(decided) };
        // Beyond its limit the log no longer waits for a laggard: that one gets a snapshot.
        let bound = Slot(decided.0.saturating_sub(self.settings.log as u64));
        let target = floor.max(bound);
        (target.above(self.log.trimmed()) as usize >= self.settings.trim_step).then_some(target)
    }

    /// Drops the log up to `slot`. The caller has ordered a checkpoint that stands for it.
    pub fn trim(&mut self, slot: Slot) {
        self.log.trim(slot);
        self.actions.push_back(Action::Trimmed { slot });
    }

    /// A snapshot made at `slot` was installed.
    pub fn install(&mut self, slot: Slot, government: (Slot, Arc<Government>)) {
        if !matches!(self.role, Role::Follower) {
            self.become_follower();
        }
        self.log.install(slot);
        (self.government_slot, self.government) = government;
        self.run.1 = self.run.1.max(slot);
        self.asked = None;
        self.lay_tree();
    }

    pub fn log_gauge(&self) -> Gauge {
        let held = self.log.kept();
        Gauge {
            held,
            held_at_most: self.kept_at_most,
            limit: self.settings.log + self.settings.trim_step,
            turned_away: 0,
        }
    }

    /// The ballot in which this node accepted `slot`, if it does not know it decided.
    pub fn vote(&self, slot: Slot) -> Option<Ballot> {
        if slot <= self.log.decided() { None } else { self.log.get(slot).map(|held| held.ballot) }
    }

    /// The decided entries kept after `slot`.
    pub fn decided_after(&self, slot: Slot, most: usize) -> Vec<Arc<Entry>> {
        self.log.entries(slot, self.log.decided(), most)
    }
}
