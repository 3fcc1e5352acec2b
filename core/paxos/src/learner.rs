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

    /// A leader not in office yet may learn that one of its proposals lost: a later leader has decided something else
    /// there. From then on its decided mark would vouch for what it proposed.
    fn yield_to_others(&mut self, learn: &Learn) {
        let Role::Leader(leader) = &self.role else { return };
        let proposed = self.through(leader.ballot);
        let differs = |(offset, entry): (usize, &Arc<Entry>)| {
            let slot = Slot(learn.previous.0 + 1 + offset as u64);
            let held = self.log.get(slot).filter(|_| slot > self.log.decided() && slot <= proposed);
            held.is_some_and(|held| held.entry != *entry)
        };
        if learn.entries.iter().enumerate().any(differs) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Promise, Refusal, Refused, Support};
    use crate::{Log, Settings, Start};
    use atoll_types::{Cause, Generation, JournalSeq, Time};
    use std::time::Duration;

    fn entry(time: u64) -> Arc<Entry> {
        Arc::new(Entry { time: Time(time), leader: NodeId(2), body: Body::Noop })
    }

    /// Node 1 of the voters 1, 2, 3, whose log holds slot 1.
    fn voter() -> Paxos {
        let mut log = Log::default();
        log.put(Slot(1), Held { ballot: Ballot::default(), entry: entry(1) });
        log.decide_next();
        let voters = [NodeId(1), NodeId(2), NodeId(3)];
        let government = Government::of(&voters, voters.into_iter(), Cause::Seated);
        let settings = Settings {
            heartbeat: Duration::from_millis(100),
            election: Duration::from_millis(500),
            replace: Duration::from_millis(400),
            pipeline: 8,
            log: 64,
            trim_step: 8,
            fan_out: 4,
        };
        let start = Start {
            me: NodeId(1),
            generation: Generation::default(),
            promised: Ballot::default(),
            log,
            government: (Slot(1), Arc::new(government)),
            seed: 1,
            journal: JournalSeq(0),
        };
        Paxos::new(Time(0), settings, start)
    }

    /// Does all that is wanted, with a disk that is always done; gives what is sent.
    fn sent(paxos: &mut Paxos, now: Time) -> Vec<Message> {
        let mut sent = Vec::new();
        while let Some(action) = paxos.poll() {
            match action {
                Action::Send { message, .. } => sent.push(message),
                Action::Persist { seq, .. } => paxos.on_persisted(now, seq),
                Action::Decided { .. }
                | Action::Leading { .. }
                | Action::SteppedDown { .. }
                | Action::TooOld { .. }
                | Action::Trimmed { .. } => {}
            }
        }
        sent
    }

    /// Node 1 has taken office in a ballot of its own and proposed its government at slot 2.
    fn leader_elect() -> (Paxos, Ballot, Time) {
        let mut paxos = voter();
        let now = Time(2_000_000);
        paxos.on_wake(now);
        sent(&mut paxos, now);
        let ballot = Ballot { generation: Generation::default(), round: 1, node: NodeId(1) };
        paxos.on_message(now, NodeId(2), Message::Support(Support { ballot }));
        sent(&mut paxos, now);
        let promise = Promise { ballot, decided: Slot(1), first: Slot(2), held: vec![] };
        paxos.on_message(now, NodeId(2), Message::Promise(promise));
        assert_eq!(paxos.proposing(), Some(ballot));
        sent(&mut paxos, now);
        (paxos, ballot, now)
    }

    #[test]
    fn a_leader_whose_proposal_lost_vouches_for_nothing() {
        let (mut paxos, ballot, now) = leader_elect();
        // A later leader has decided another entry at slot 2, told by a node that remembers no leader at all.
        let entries = vec![entry(9)];
        let (previous, decided, floor) = (Slot(1), Slot(2), Slot::ZERO);
        let learn = Learn { ballot: Ballot::default(), beat: 0, previous, entries, decided, floor };
        paxos.on_message(now, NodeId(3), Message::Learn(learn));
        assert_eq!(paxos.proposing(), None, "it proposed something else there");
        let vouches = |message: &Message| matches!(message, Message::Accept(accept) if accept.ballot == ballot);
        assert!(!sent(&mut paxos, now).iter().any(vouches));
    }

    #[test]
    fn a_leader_that_learns_its_own_proposal_goes_on() {
        let (mut paxos, ballot, now) = leader_elect();
        let entries = paxos.log().undecided().map(|held| held.entry.clone()).collect();
        let (previous, decided, floor) = (Slot(1), Slot(2), Slot::ZERO);
        let learn = Learn { ballot: Ballot::default(), beat: 0, previous, entries, decided, floor };
        paxos.on_message(now, NodeId(3), Message::Learn(learn));
        assert_eq!(paxos.proposing(), Some(ballot));
    }

    #[test]
    fn nonsense_is_dropped_and_breaks_nothing() {
        let (mut paxos, ballot, now) = leader_elect();
        let huge = Slot(u64::MAX);
        let absurd = Ballot { round: u64::MAX, ..ballot };
        let foreign = Ballot { generation: Generation { number: 9, by: NodeId(2) }, ..ballot };
        let twice = vec![NodeId(3), NodeId(3)];
        let unlawful = Government { majority: twice, ..(*paxos.government).clone() };
        let body = Body::Government(unlawful);
        let entries = vec![Arc::new(Entry { time: Time(1), leader: NodeId(2), body })];
        let learn = |ballot, previous, entries| {
            Message::Learn(Learn { ballot, beat: 1, previous, entries, decided: Slot(2), floor: Slot::ZERO })
        };
        let nonsense = [
            Message::Refused(Refused { ballot, refusal: Refusal::Gap { through: huge } }),
            Message::Refused(Refused { ballot, refusal: Refusal::Promised(absurd) }),
            Message::Accepted(crate::message::Accepted { ballot, beat: 0, through: huge }),
            Message::Promise(Promise { ballot, decided: huge, first: huge, held: vec![] }),
            Message::Canvass(crate::message::Canvass { ballot: absurd, decided: Slot(1) }),
            Message::Missing(Missing { position: huge }),
            learn(foreign, Slot(1), vec![]),
            learn(ballot, huge, vec![entry(3)]),
            learn(ballot, Slot(1), entries),
        ];
        for message in nonsense {
            paxos.on_message(now, NodeId(2), message);
        }
        sent(&mut paxos, now);
        paxos.on_wake(Time(60_000_000));
        sent(&mut paxos, Time(60_000_000));
        paxos.check();
        assert_eq!(paxos.log().decided(), Slot(1));
    }
}
