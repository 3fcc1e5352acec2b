//! A leader: proposes, decides, replaces itself.
//!
//! ```text
//!   Restoring ──▶ Inaugurating ──▶ Serving
//!   what may be      its own        submissions and
//!   decided          government     changes of government, one at a time
//! ```
//! A slot is decided when a majority of the voters of the government before it hold it in this ballot. A government
//! this leader proposes also needs *all of its own majority*, and nothing is proposed beyond it until then: whoever is
//! removed by it may vanish at that moment, and the log with them.

use crate::election::Campaign;
use crate::machine::{Action, Paxos, Role, Withheld};
use crate::message::{Accept, Accepted, Message, Stand};
use atoll_types::{Ballot, Body, Bug, Cause, Entry, Generation, Government, Held, NodeId, Record, Slot, Time, planted};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Beats that are remembered. A leader that waits longer for its majority steps down anyway.
const BEATS_MOST: usize = 64;
/// A leader that gave up so often in vain is not more patient after that.
const CUT_SHORT_MOST: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Has proposed again what it adopted, up to `through`.
    Restoring {
        through: Slot,
    },
    /// Has proposed its own government at `slot`.
    Inaugurating {
        slot: Slot,
    },
    Serving,
}

/// What the leader knows of a node it proposes to.
#[derive(Debug)]
struct Peer {
    /// Holds all up to here in this ballot.
    matched: Slot,
    /// What to send next. Beyond `matched`, unless a peer that restarted asks for less.
    next: Slot,
    /// The decided mark it was told.
    told: Slot,
    /// The last beat it acknowledged.
    beat: u64,
    answered: Time,
    /// Since when it owes a vote and has not got on: its disk may hang.
    stalled: Option<Time>,
    /// A gap that was filled since the last heartbeat.
    filled: Option<Slot>,
}

#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) ballot: Ballot,
    pub(crate) stage: Stage,
    pub(crate) beat: u64,
    /// When the last beats were sent.
    beats: VecDeque<(u64, Time)>,
    pub(crate) campaign: Campaign,
    /// Set while an operator's recovery decides, by its own voice, what was accepted before.
    pub(crate) recovering_until: Option<Slot>,
    peers: BTreeMap<NodeId, Peer>,
    /// This node's own vote, once its disk has it.
    own: Slot,
    /// Since when the own vote lags behind what is proposed.
    own_lags: Option<Time>,
    /// The slot of its first government, once that is decided.
    inaugurated: Slot,
    /// A government that is proposed and not in effect.
    pending: Option<(Slot, Arc<Government>, Time)>,
    /// The government before the present one. Only a planted bug looks at it.
    before: Option<Arc<Government>>,
}

impl Leader {
    pub(crate) fn new(now: Time, me: NodeId, campaign: Campaign) -> Leader {
        let mut leader = Leader {
            ballot: campaign.ballot,
            stage: Stage::Restoring { through: Slot::ZERO },
            beat: 0,
            beats: VecDeque::new(),
            peers: BTreeMap::new(),
            recovering_until: None,
            own: Slot::ZERO,
            own_lags: None,
            inaugurated: Slot::ZERO,
            pending: None,
            before: None,
            campaign,
        };
        let others = leader.campaign.promises.iter().filter(|&(&node, _)| node != me);
        let known: Vec<(NodeId, Slot)> = others.map(|(&node, promise)| (node, promise.decided)).collect();
        known.into_iter().for_each(|(node, decided)| leader.propose_to(now, node, decided));
        leader
    }

    /// From now on proposals go to `node` too, which has all up to `decided`.
    pub(crate) fn propose_to(&mut self, now: Time, node: NodeId, decided: Slot) {
        self.peers.entry(node).or_insert(Peer {
            matched: Slot::ZERO,
            next: decided.next(),
            told: Slot::ZERO,
            beat: 0,
            answered: now,
            stalled: None,
            filled: None,
        });
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.stage == Stage::Serving
    }

    pub(crate) fn feeds(&self, node: NodeId) -> bool {
        self.peers.contains_key(&node)
    }

    pub(crate) fn start_afresh(&mut self, now: Time) {
        self.peers.values_mut().for_each(|peer| (peer.answered, peer.stalled) = (now, None));
        self.own_lags = None;
        if let Some((_, _, since)) = &mut self.pending {
            *since = now;
        }
    }

    pub(crate) fn on_government(&mut self, slot: Slot, before: &Arc<Government>) {
        if self.pending.as_ref().is_some_and(|(pending, _, _)| *pending == slot) {
            self.pending = None;
        }
        self.before = Some(before.clone());
    }

    /// When the last beat was sent that a majority of the voters has acknowledged in this ballot.
    fn confirmed(&self, me: NodeId, government: &Government) -> Option<Time> {
        let acknowledged = |voter, beat| voter == me || self.peers.get(&voter).is_some_and(|peer| peer.beat >= beat);
        let confirmed = |beat| government.is_majority(|voter| acknowledged(voter, beat));
        self.beats.iter().rev().find(|(beat, _)| confirmed(*beat)).map(|(_, sent)| *sent)
    }

    fn holds(&self, me: NodeId, node: NodeId, slot: Slot) -> bool {
        if node == me { self.own >= slot } else { self.peers.get(&node).is_some_and(|peer| peer.matched >= slot) }
    }

    /// Is `slot`, the lowest that is open, decided?
    fn decides(&self, me: NodeId, government: &Government, slot: Slot) -> bool {
        let holds = |node| self.holds(me, node, slot);
        let votes = government.voters().filter(|&voter| holds(voter)).count();
        let enough = if planted(Bug::HalfDecides) {
            votes * 2 >= government.voter_count()
        } else {
            votes >= government.quorum()
        };
        let removed_decide = (planted(Bug::DepartedStillVotes) || planted(Bug::BeyondUndecidedGovernment))
            && self.before.as_ref().is_some_and(|before| before.is_majority(holds));
        let in_effect = match &self.pending {
            Some((pending, proposed, _)) if *pending == slot => {
                planted(Bug::InEffectTooEarly)
                    || planted(Bug::BeyondUndecidedGovernment)
                    || proposed.majority.iter().all(|&node| holds(node))
            }
            Some(_) | None => true,
        };
        (enough || removed_decide) && in_effect
    }
}

impl Paxos {
    /// Leads a cluster of which this node is the only voter: a founding, or an operator's recovery.
    pub fn lead_alone(&mut self, now: Time, generation: Generation, cause: Cause) {
        self.now = now;
        self.become_follower();
        self.generation = generation;
        let ballot = Ballot { generation, round: self.promised.round.max(self.highest.round) + 1, node: self.me };
        let tail = self.own_tail();
        // The last government in the tail, if there is one, names everybody; else the present one does.
        let last = tail.iter().rev().find_map(|entry| match &entry.body {
            Body::Government(government) => Some(government.nodes().collect::<BTreeSet<NodeId>>()),
            Body::Noop | Body::Edict(_) | Body::Order(_) | Body::Submission(_) => None,
        });
        let everybody = last.unwrap_or_else(|| self.government.nodes().collect());
        self.promised = ballot;
        self.highest = self.highest.max(ballot);
        self.run = (ballot, self.log.decided());
        let alone = Government::of(&[self.me], everybody.iter().copied(), Cause::Elected);
        self.government = Arc::new(alone);
        let began_under = self.government.clone();
        let campaign = Campaign {
            ballot,
            ordered: false,
            promises: BTreeMap::new(),
            asked_under: self.government_slot,
            began_under,
        };
        let mut leader = Leader::new(now, self.me, campaign);
        let slot = Slot(self.log.decided().0 + tail.len() as u64 + 1);
        leader.recovering_until = Some(slot);
        leader.stage = Stage::Inaugurating { slot };
        let mut government = Government::of(&[self.me], everybody.into_iter(), cause);
        government.ballot = ballot;
        leader.pending = Some((slot, Arc::new(government.clone()), now));
        (self.leader, self.beat) = (ballot, 0);
        self.role = Role::Leader(Box::new(leader));
        self.lay_tree();
        // All in one record, the promise with it: a crash leaves either the old generation or the new one whole.
        let entry = Entry { time: now.max(self.log.time()), leader: self.me, body: Body::Government(government) };
        let entries = tail.into_iter().chain([Arc::new(entry)]).collect();
        self.propose_entries(entries);
    }

    /// What this node accepted and may be decided, up to a government that would remove it: nobody else is left to
    /// lead.
    fn own_tail(&self) -> Vec<Arc<Entry>> {
        let mut least = self.government.ballot;
        let mut tail = Vec::new();
        for held in self.log.tail(self.log.decided()) {
            if held.ballot < least {
                break; // Void, as is whatever follows.
            }
            if let Body::Government(government) = &held.entry.body {
                if !government.nodes().any(|node| node == self.me) {
                    break;
                }
                least = government.ballot;
            }
            tail.push(held.entry);
        }
        tail
    }

    pub(crate) fn inaugurate_with(&mut self, government: Government) {
        let slot = self.through(self.promised).next();
        if let Role::Leader(leader) = &mut self.role {
            leader.stage = Stage::Inaugurating { slot };
        }
        self.propose_government_entry(government);
    }

    /// Slots proposed and not decided.
    pub(crate) fn open(&self) -> usize {
        match &self.role {
            Role::Leader(leader) => self.through(leader.ballot).above(self.log.decided()) as usize,
            Role::Follower | Role::Canvassing { .. } | Role::Preparing(_) => 0,
        }
    }

    /// Is an entry like this proposed and not decided?
    pub fn is_open(&self, wanted: impl Fn(&Entry) -> bool) -> bool {
        self.log.undecided().any(|held| wanted(&held.entry))
    }

    /// May an entry be proposed now?
    pub fn can_propose(&self) -> bool {
        let Role::Leader(leader) = &self.role else { return false };
        let serving = match leader.stage {
            Stage::Serving => true,
            Stage::Inaugurating { .. } => planted(Bug::ServeBeforeOwnGovernment),
            Stage::Restoring { .. } => false,
        };
        let settled = leader.pending.is_none()
            || planted(Bug::BeyondUndecidedGovernment)
            || planted(Bug::ServeBeforeOwnGovernment);
        serving && settled && self.open() < self.settings.pipeline
    }

    /// May a change of government be proposed now?
    pub fn can_change_government(&self) -> bool {
        matches!(&self.role, Role::Leader(leader) if leader.is_serving() && leader.pending.is_none())
    }

    /// Proposes an entry and tells its slot. Nothing is sent before `flush`, so that many share a message.
    pub fn propose(&mut self, now: Time, body: Body) -> Slot {
        self.now = now;
        assert!(self.can_propose(), "the caller asks first");
        self.propose_entry(body)
    }

    pub fn propose_government(&mut self, now: Time, government: Government) {
        self.now = now;
        assert!(self.can_change_government(), "the caller asks first");
        self.propose_government_entry(government);
        self.flush();
    }

    fn propose_government_entry(&mut self, mut government: Government) {
        government.check();
        government.ballot = self.promised;
        let slot = self.propose_entry(Body::Government(government.clone()));
        let (now, decided) = (self.now, self.log.decided());
        let Role::Leader(leader) = &mut self.role else { return };
        for &node in government.majority.iter().filter(|&&node| node != self.me) {
            leader.propose_to(now, node, decided);
        }
        leader.pending = Some((slot, Arc::new(government), now));
    }

    fn propose_entry(&mut self, body: Body) -> Slot {
        let entry = Entry { time: self.now.max(self.log.time()), leader: self.me, body };
        self.propose_entries(vec![Arc::new(entry)]);
        self.run.1
    }

    /// Takes entries into the own log, in the own ballot, after what is proposed already.
    pub(crate) fn propose_entries(&mut self, entries: Vec<Arc<Entry>>) {
        let Role::Leader(leader) = &mut self.role else { return };
        let ballot = leader.ballot;
        if entries.is_empty() {
            return;
        }
        leader.own_lags.get_or_insert(self.now);
        let first = self.through(ballot).next();
        for (offset, entry) in entries.iter().enumerate() {
            let slot = Slot(first.0 + offset as u64);
            self.log.put(slot, Held { ballot, entry: entry.clone() });
            self.run = (ballot, slot);
        }
        self.open_at_most = self.open_at_most.max(self.open());
        self.persist(Record::Accepted { ballot, first, entries });
        let through = self.run.1;
        self.withhold(Withheld::Own { ballot, through });
    }

    pub(crate) fn on_own_vote(&mut self, ballot: Ballot, through: Slot) {
        let proposed = self.run.1;
        if let Role::Leader(leader) = &mut self.role
            && leader.ballot == ballot
        {
            leader.own = leader.own.max(through);
            leader.own_lags = (leader.own < proposed).then_some(self.now);
            self.try_decide();
        }
    }

    pub(crate) fn on_accepted(&mut self, from: NodeId, accepted: Accepted) {
        let proposed = self.run.1;
        let Role::Leader(leader) = &mut self.role else { return };
        if accepted.ballot != leader.ballot {
            return;
        }
        let Some(peer) = leader.peers.get_mut(&from) else { return };
        let accepted = Accepted { through: accepted.through.min(proposed), ..accepted };
        peer.answered = self.now;
        peer.beat = peer.beat.max(accepted.beat);
        if accepted.through >= proposed {
            peer.stalled = None;
        } else if accepted.through > peer.matched {
            peer.stalled = Some(self.now);
        } else {
            peer.stalled.get_or_insert(self.now);
        }
        if accepted.through > peer.matched {
            peer.matched = accepted.through;
            peer.next = peer.next.max(accepted.through.next());
            self.try_decide();
        }
    }

    /// A peer lacks what precedes the entries it was sent.
    pub(crate) fn on_gap(&mut self, from: NodeId, through: Slot) {
        let trimmed = self.log.trimmed();
        let Role::Leader(leader) = &mut self.role else { return };
        let Some(peer) = leader.peers.get_mut(&from) else { return };
        peer.answered = self.now;
        if peer.filled == Some(through) {
            return;
        }
        peer.filled = Some(through);
        if through < trimmed {
            return self.actions.push_back(Action::TooOld { node: from });
        }
        peer.next = through.next();
        peer.told = Slot::ZERO;
    }

    fn try_decide(&mut self) {
        loop {
            let Role::Leader(leader) = &self.role else { return };
            let slot = self.log.decided().next();
            if slot > self.through(leader.ballot) || !leader.decides(self.me, &self.government, slot) {
                break;
            }
            self.decide_through(slot);
        }
        self.on_progress();
    }

    /// After a decision: on to the next stage, if it was the last of this one.
    fn on_progress(&mut self) {
        let decided = self.log.decided();
        let Role::Leader(leader) = &mut self.role else { return };
        if leader.recovering_until.is_some_and(|until| until <= decided) {
            leader.recovering_until = None;
        }
        match leader.stage {
            Stage::Restoring { through } if through <= decided => self.advance(),
            // What was decided there may be another's, learnt from a node that knows a later leader.
            Stage::Inaugurating { slot } if slot <= decided && self.government.ballot != leader.ballot => {
                self.become_follower();
            }
            Stage::Inaugurating { slot } if slot <= decided => {
                (leader.stage, leader.inaugurated) = (Stage::Serving, slot);
                self.attempts = 0;
                let ballot = leader.ballot;
                self.lay_tree();
                self.actions.push_back(Action::Leading { ballot, slot });
            }
            Stage::Restoring { .. } | Stage::Inaugurating { .. } => {}
            Stage::Serving => {
                if decided > leader.inaugurated {
                    self.cut_short = 0;
                }
                self.retire_peers();
            }
        }
    }

    /// Proposals go to the majority only. Who left it is fed by the tree from now on.
    fn retire_peers(&mut self) {
        let Role::Leader(leader) = &mut self.role else { return };
        let pending = leader.pending.as_ref().map(|(_, government, _)| government.clone());
        let government = self.government.clone();
        let before = leader
            .before
            .clone()
            .filter(|_| planted(Bug::DepartedStillVotes) || planted(Bug::BeyondUndecidedGovernment));
        leader.peers.retain(|node, _| {
            let proposed_to = |government: &Arc<Government>| government.majority.contains(node);
            proposed_to(&government)
                || pending.as_ref().is_some_and(proposed_to)
                || before.as_ref().is_some_and(proposed_to)
        });
        for &node in government.majority.iter().filter(|&&node| node != self.me) {
            debug_assert!(leader.peers.contains_key(&node), "a majority member that was never proposed to");
        }
    }

    /// Sends whatever is new: entries and the decided mark to the majority, decided entries down the tree.
    pub fn flush(&mut self) {
        let decided = self.log.decided();
        if let Role::Leader(leader) = &self.role {
            let last = self.through(leader.ballot);
            let due: Vec<NodeId> = leader
                .peers
                .iter()
                .filter(|(_, peer)| peer.next <= last || peer.told < decided)
                .map(|(&node, _)| node)
                .collect();
            due.into_iter().for_each(|node| self.send_accept(node));
        }
        let beat = std::mem::take(&mut self.beat_due);
        self.feed_children(beat);
    }

    fn send_accept(&mut self, node: NodeId) {
        let decided = self.log.decided();
        let (trimmed, floor) = (self.log.trimmed(), self.floor);
        let Role::Leader(leader) = &mut self.role else { return };
        let last = if self.run.0 == leader.ballot { self.run.1.max(decided) } else { decided };
        let Some(peer) = leader.peers.get_mut(&node) else { return };
        // What is trimmed cannot be sent: the gap it leaves tells the peer, and its answer gets it a snapshot.
        let previous = peer.next.previous().max(trimmed);
        let entries = self.log.entries(previous, last, self.settings.pipeline);
        peer.next = Slot(previous.0 + entries.len() as u64 + 1);
        peer.told = decided;
        let accept = Accept { ballot: leader.ballot, beat: leader.beat, previous, entries, decided, floor };
        self.send(node, Message::Accept(accept));
    }

    pub(crate) fn on_leader_tick(&mut self) {
        // A disk or a voter may be slow, and the next leader as dependent on it: then only more patience gets anywhere.
        let patience = self.settings.election * 2 * 2u32.pow(self.cut_short.min(CUT_SHORT_MOST));
        let Role::Leader(leader) = &mut self.role else { return };
        leader.beat += 1;
        if leader.beats.len() == BEATS_MOST {
            leader.beats.pop_front();
        }
        leader.beats.push_back((leader.beat, self.now));
        leader.peers.values_mut().for_each(|peer| peer.filled = None);
        let peers: Vec<NodeId> = leader.peers.keys().copied().collect();
        let stuck = leader.pending.as_ref().is_some_and(|(_, _, since)| self.now.since(*since) > patience);
        let cut_off = leader.is_serving()
            && self
                .government
                .majority
                .iter()
                .any(|node| leader.peers.get(node).is_some_and(|peer| self.now.since(peer.answered) > patience));
        let disk_hangs = leader.own_lags.is_some_and(|since| self.now.since(since) > patience);
        let serving = leader.is_serving();
        for node in peers {
            self.send_accept(node);
        }
        self.feed_children(true);
        if serving && (disk_hangs || cut_off || stuck) {
            self.cut_short = (self.cut_short + 1).min(CUT_SHORT_MOST);
        }
        if disk_hangs {
            self.resign(&BTreeSet::new());
        } else if cut_off {
            // It cannot decide, and as long as it is heard nobody else may try.
            self.become_follower();
        } else if stuck && serving {
            // The only way past a government that cannot take effect is a new ballot.
            self.stand(false);
        } else if !serving {
            self.on_campaign_tick();
        }
    }

    /// By this leader's clock: everything that anybody decided before then is in its log. A later leader would have
    /// had a promise of one of those that acknowledged the beat sent then.
    pub fn confirmed(&self) -> Option<Time> {
        match &self.role {
            Role::Leader(leader) if leader.is_serving() => leader.confirmed(self.me, &self.government),
            Role::Leader(_) | Role::Follower | Role::Canvassing { .. } | Role::Preparing(_) => None,
        }
    }

    /// Members of the majority that have not answered for `replace`, or have not got on for twice as long.
    pub fn silent_majority(&self) -> Vec<NodeId> {
        let Role::Leader(leader) = &self.role else { return Vec::new() };
        let replace = self.settings.replace;
        let silent = |peer: &Peer| {
            let stalled = peer.stalled.is_some_and(|since| self.now.since(since) > replace * 2);
            stalled || self.now.since(peer.answered) > replace
        };
        let majority = self.government.majority.iter();
        majority.filter(|node| leader.peers.get(node).is_some_and(silent)).copied().collect()
    }

    /// Hands the lead to the voter that answered last and holds most; to one of these, where they are voters.
    pub fn resign(&mut self, rather: &BTreeSet<NodeId>) {
        let Role::Leader(leader) = &self.role else { return };
        let ballot = leader.ballot;
        let voters = leader.peers.iter().filter(|(node, _)| self.government.is_voter(**node));
        let rank = |node: &NodeId, peer: &Peer| (rather.contains(node), peer.answered, peer.matched);
        let heir = voters.max_by_key(|(node, peer)| rank(node, peer)).map(|(&node, _)| node);
        self.become_follower();
        // Time for the heir: this node does not stand again before it.
        self.election_due = self.now + self.settings.election * 3;
        if let Some(heir) = heir {
            self.send(heir, Message::Stand(Stand { ballot }));
        }
    }
}
