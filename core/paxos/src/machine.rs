//! The machine: fields, dispatch, ticks.
//!
//! ```text
//!              silence             supported by a majority          promises, restored, government decided
//!   Follower ──────────▶ Canvassing ────────────────▶ Preparing ─────────────────────────────▶ Leader
//!      ▲                     │ a leader is alive          │ higher ballot                        │
//!      └─────────────────────┴────────────────────────────┴──────────────────────────────────────┘
//! ```

use crate::election::Campaign;
use crate::leader::Leader;
use crate::log::Log;
use crate::message::{Accepted, Learn, Message, Missing, Promise};
use atoll_types::{
    Ballot, Bug, Entry, Gauge, Generation, Government, JournalSeq, NodeId, Record, Rng, Slot, Time, planted,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    pub heartbeat: Duration,
    pub election: Duration,
    pub replace: Duration,
    pub pipeline: usize,
    /// Decided entries kept for nodes that are behind.
    pub log: usize,
    pub trim_step: usize,
    pub fan_out: usize,
}

/// What a node knows when it begins to take part.
#[derive(Clone, Debug)]
pub struct Start {
    pub me: NodeId,
    pub generation: Generation,
    pub promised: Ballot,
    pub log: Log,
    /// The latest decided government and its slot.
    pub government: (Slot, Arc<Government>),
    pub seed: u64,
    /// The last journal record ordered before.
    pub journal: JournalSeq,
}

/// What the machine wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Send {
        to: NodeId,
        message: Message,
    },
    Persist {
        seq: JournalSeq,
        record: Record,
    },
    Decided {
        slot: Slot,
        entry: Arc<Entry>,
    },
    Leading {
        ballot: Ballot,
        slot: Slot,
    },
    SteppedDown {
        ballot: Ballot,
    },
    /// This node asks for entries that are trimmed here: it needs a snapshot.
    TooOld {
        node: NodeId,
    },
    Trimmed {
        slot: Slot,
    },
}

#[derive(Debug)]
pub(crate) enum Role {
    Follower,
    Canvassing { ballot: Ballot, support: BTreeSet<NodeId> },
    Preparing(Campaign),
    Leader(Box<Leader>),
}

/// What waits until the journal is safe up to a record.
#[derive(Debug)]
pub(crate) enum Withheld {
    Accepted {
        to: NodeId,
        accepted: Accepted,
    },
    Promise {
        to: NodeId,
        promise: Promise,
    },
    /// This leader's own vote.
    Own {
        ballot: Ballot,
        through: Slot,
    },
    OwnPromise {
        promise: Promise,
    },
}

/// A leader that went silent. Whoever canvasses asks it as well: if it does not answer that, it was asked.
#[derive(Clone, Copy, Debug)]
pub struct Forerunner {
    pub node: NodeId,
    /// When it was last heard.
    pub heard: Time,
    /// When it was first asked since then.
    pub asked: Time,
}

#[derive(Debug)]
pub struct Paxos {
    pub(crate) me: NodeId,
    pub(crate) settings: Settings,
    pub(crate) rng: Rng,
    pub(crate) now: Time,
    pub(crate) generation: Generation,
    /// Nothing below is accepted. Not lower than the ballot of any entry held.
    pub(crate) promised: Ballot,
    /// The highest promise ordered to the journal: a heartbeat raises the promise in memory only.
    pub(crate) recorded: Ballot,
    pub(crate) log: Log,
    /// In this ballot all up to this slot is held: what an acknowledgement may say.
    pub(crate) run: (Ballot, Slot),
    /// What was acknowledged last: safe on the disk.
    pub(crate) acknowledged: (Ballot, Slot),
    pub(crate) government: Arc<Government>,
    pub(crate) government_slot: Slot,
    pub(crate) absent: BTreeSet<NodeId>,
    pub(crate) role: Role,
    /// The highest ballot heard of, so that a candidate stands above it.
    pub(crate) highest: Ballot,
    /// The ballot of the leader that is followed, its last beat, and when that was heard.
    pub(crate) leader: Ballot,
    pub(crate) beat: u64,
    pub(crate) heard: Time,
    /// The leader's process is known to be gone.
    pub(crate) leader_gone: bool,
    /// Whom this node stands against, while it has not answered.
    pub(crate) forerunner: Option<Forerunner>,
    /// A new beat was heard that those below have not heard.
    pub(crate) beat_due: bool,
    /// Who fed this node last something new, and when.
    pub(crate) feeder: NodeId,
    pub(crate) fed: Time,
    /// Every live node has all up to here.
    pub(crate) floor: Slot,
    /// The highest decided mark heard of.
    pub(crate) known: Slot,
    /// Whom this node passes decided entries on to, and what was sent so far.
    pub(crate) children: BTreeMap<NodeId, Slot>,
    /// The position last asked for with `Missing`, so that one gap is asked for once a heartbeat.
    pub(crate) asked: Option<Slot>,
    pub(crate) election_due: Time,
    /// How often this node stood since it heard a leader: its patience grows with it.
    pub(crate) attempts: u32,
    /// How often this node led in vain: it gave up before anything but its government was decided.
    pub(crate) cut_short: u32,
    pub(crate) tick_due: Time,
    /// The last record ordered, and the last known to be safe.
    pub(crate) journal: JournalSeq,
    pub(crate) safe: JournalSeq,
    pub(crate) withheld: VecDeque<(JournalSeq, Withheld)>,
    pub(crate) hinted: Slot,
    pub(crate) actions: VecDeque<Action>,
    pub(crate) elections: u64,
    pub(crate) open_at_most: usize,
    pub(crate) kept_at_most: usize,
}

impl Paxos {
    pub fn new(now: Time, settings: Settings, start: Start) -> Paxos {
        // Without a seed of its own two candidates would draw the same back-offs and duel for ever.
        let seed = if planted(Bug::EqualSeeds) { 7 } else { start.seed };
        let (government_slot, government) = start.government;
        let mut paxos = Paxos {
            me: start.me,
            settings,
            rng: Rng::new(seed),
            now,
            generation: start.generation,
            promised: start.promised,
            recorded: start.promised,
            run: start.log.run(),
            acknowledged: (Ballot::default(), Slot::ZERO),
            government,
            government_slot,
            absent: BTreeSet::new(),
            role: Role::Follower,
            highest: start.promised,
            leader: Ballot::default(),
            beat: 0,
            heard: now,
            leader_gone: false,
            forerunner: None,
            beat_due: false,
            feeder: NodeId::NOBODY,
            fed: now,
            floor: Slot::ZERO,
            known: Slot::ZERO,
            children: BTreeMap::new(),
            asked: None,
            election_due: now,
            attempts: 0,
            cut_short: 0,
            tick_due: now,
            journal: start.journal,
            safe: start.journal,
            withheld: VecDeque::new(),
            hinted: start.log.decided(),
            log: start.log,
            actions: VecDeque::new(),
            elections: 0,
            open_at_most: 0,
            kept_at_most: 0,
        };
        paxos.postpone_election();
        paxos.lay_tree();
        paxos
    }

    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub fn on_message(&mut self, now: Time, from: NodeId, message: Message) {
        self.now = now;
        if !message.is_sane(self.generation) {
            return; // Nobody sends that: a bug elsewhere must not become one here.
        }
        self.forerunner.take_if(|forerunner| forerunner.node == from);
        match message {
            Message::Canvass(canvass) => self.on_canvass(from, canvass),
            Message::Support(support) => self.on_support(from, support),
            Message::Prepare(prepare) => self.on_prepare(from, prepare),
            Message::Promise(promise) => self.on_promise(from, promise),
            Message::Accept(accept) => self.on_accept(from, accept),
            Message::Accepted(accepted) => self.on_accepted(from, accepted),
            Message::Learn(learn) => self.on_learn(from, learn),
            Message::Missing(missing) => self.on_missing(from, missing),
            Message::Stand(stand) => self.on_stand(stand),
            Message::Refused(refused) => self.on_refused(from, refused),
        }
        self.flush();
    }

    pub fn on_persisted(&mut self, now: Time, through: JournalSeq) {
        self.now = now;
        self.safe = self.safe.max(through);
        while self.withheld.front().is_some_and(|(seq, _)| *seq <= self.safe) {
            let Some((_, withheld)) = self.withheld.pop_front() else { break };
            self.release(withheld);
        }
        self.flush();
    }

    /// To be called when `due` has come.
    pub fn on_wake(&mut self, now: Time) {
        self.now = now;
        if now >= self.tick_due {
            self.tick_due = now + self.settings.heartbeat;
            self.on_tick();
        }
        if now >= self.election_due {
            self.on_election_due();
        }
        self.flush();
    }

    pub fn due(&self) -> Time {
        self.tick_due.min(self.election_due)
    }

    /// This node was not running for a while: what it did not hear in that time says nothing about the others.
    pub fn start_afresh(&mut self, now: Time) {
        self.now = now;
        self.heard = now;
        self.fed = now;
        self.forerunner = None;
        self.postpone_election();
        if let Role::Leader(leader) = &mut self.role {
            leader.start_afresh(now);
        }
    }

    /// The process of `node` is known to be gone.
    pub fn on_gone(&mut self, now: Time, node: NodeId) {
        self.now = now;
        if node == self.leader.node && !self.leader_gone && !matches!(self.role, Role::Leader(_)) {
            self.leader_gone = true;
            self.election_due = now + self.rng.between(Duration::ZERO, self.settings.heartbeat / 2);
        }
    }

    pub fn set_absent(&mut self, absent: BTreeSet<NodeId>) {
        if self.absent != absent {
            self.absent = absent;
            self.lay_tree();
        }
    }

    /// Orders a record. What depends on it is withheld until `journal` is safe.
    pub fn persist(&mut self, record: Record) {
        self.journal.0 += 1;
        self.actions.push_back(Action::Persist { seq: self.journal, record });
    }

    pub(crate) fn withhold(&mut self, withheld: Withheld) {
        // A promise asked for again while the disk is busy waits once.
        if let Withheld::Promise { to, .. } = &withheld {
            self.withheld.retain(|(_, other)| !matches!(other, Withheld::Promise { to: same, .. } if same == to));
        }
        if self.safe >= self.journal {
            self.release(withheld);
        } else {
            self.withheld.push_back((self.journal, withheld));
        }
    }

    fn release(&mut self, withheld: Withheld) {
        match withheld {
            Withheld::Accepted { to, accepted } => {
                self.acknowledged = (accepted.ballot, accepted.through);
                self.send(to, Message::Accepted(accepted));
            }
            Withheld::Promise { to, promise } => self.send(to, Message::Promise(promise)),
            Withheld::Own { ballot, through } => self.on_own_vote(ballot, through),
            Withheld::OwnPromise { promise } => self.on_promise(self.me, promise),
        }
    }

    pub(crate) fn send(&mut self, to: NodeId, message: Message) {
        debug_assert_ne!(to, self.me, "nobody sends to itself: {message:?}");
        self.actions.push_back(Action::Send { to, message });
    }

    fn on_tick(&mut self) {
        self.asked = None;
        if self.hinted < self.log.decided() {
            self.hinted = self.log.decided();
            self.persist(Record::Decided(self.hinted));
        }
        match &self.role {
            Role::Leader(_) => self.on_leader_tick(),
            Role::Preparing(_) => self.on_campaign_tick(),
            Role::Follower | Role::Canvassing { .. } => self.on_follower_tick(),
        }
    }

    /// Nobody feeds this node: it asks the leader, or else anybody.
    fn on_follower_tick(&mut self) {
        if self.now.since(self.fed) < self.settings.heartbeat * 3 {
            return;
        }
        let nodes: Vec<NodeId> = self.government.nodes().filter(|&node| node != self.me).collect();
        let leader = self.leader.node;
        let target = if !leader.is_nobody() && leader != self.me && self.rng.one_in(2) {
            Some(leader)
        } else {
            let voters: Vec<NodeId> = self.government.voters().filter(|&node| node != self.me).collect();
            if voters.is_empty() || self.rng.one_in(4) {
                self.rng.pick(&nodes).copied()
            } else {
                self.rng.pick(&voters).copied()
            }
        };
        if let Some(target) = target {
            self.send(target, Message::Missing(Missing { position: self.log.decided() }));
        }
    }

    pub(crate) fn become_follower(&mut self) {
        if let Role::Leader(leader) = &self.role {
            self.actions.push_back(Action::SteppedDown { ballot: leader.ballot });
        }
        self.role = Role::Follower;
        self.postpone_election();
        self.lay_tree();
    }

    pub(crate) fn postpone_election(&mut self) {
        if planted(Bug::EqualSeeds) && self.attempts > 0 {
            self.election_due = self.now + self.settings.heartbeat / 2; // All in step, for ever.
            return;
        }
        // Promises wait for disks: a candidate that always stands again too early never hears them.
        let least = self.settings.election * 2u32.pow(self.attempts.min(3));
        self.election_due = self.now + self.rng.between(least, least * 2);
    }

    /// A leader shows that it is alive.
    pub(crate) fn hear(&mut self, ballot: Ballot, beat: u64, from: NodeId) {
        self.highest = self.highest.max(ballot);
        let newer = (ballot, beat) > (self.leader, self.beat);
        // A node that only repeats what is known feeds nobody: two that are left behind would be content with each
        // other.
        if newer {
            (self.feeder, self.fed, self.beat_due) = (from, self.now, true);
        }
        match &self.role {
            Role::Follower => {}
            Role::Canvassing { .. } if newer => self.become_follower(),
            Role::Preparing(campaign) if ballot > campaign.ballot => self.become_follower(),
            Role::Leader(leader) if ballot > leader.ballot => self.become_follower(),
            Role::Canvassing { .. } | Role::Preparing(_) | Role::Leader(_) => {}
        }
        if newer {
            let changed = ballot.node != self.leader.node;
            (self.leader, self.beat, self.heard, self.leader_gone) = (ballot, beat, self.now, false);
            self.forerunner = None;
            self.attempts = 0;
            if matches!(self.role, Role::Follower) {
                self.postpone_election();
            }
            if changed {
                self.lay_tree();
            }
        }
    }

    /// Is there a leader, other than `except`, that this node hears?
    pub(crate) fn hears_a_leader(&self, except: NodeId) -> bool {
        match &self.role {
            Role::Leader(leader) => leader.is_serving(),
            Role::Follower | Role::Canvassing { .. } | Role::Preparing(_) => {
                !self.leader.node.is_nobody()
                    && self.leader.node != except
                    && !self.leader_gone
                    && self.now.since(self.heard) < self.settings.election
            }
        }
    }

    pub(crate) fn learn_message(&self, previous: Slot, entries: Vec<Arc<Entry>>) -> Message {
        let (ballot, beat) = match &self.role {
            Role::Leader(leader) => (leader.ballot, leader.beat),
            Role::Follower | Role::Canvassing { .. } | Role::Preparing(_) => (self.leader, self.beat),
        };
        let (decided, floor) = (self.log.decided(), self.floor);
        Message::Learn(Learn { ballot, beat, previous, entries, decided, floor })
    }

    pub fn is_leading(&self) -> Option<Ballot> {
        match &self.role {
            Role::Leader(leader) if leader.is_serving() => Some(leader.ballot),
            Role::Leader(_) | Role::Follower | Role::Canvassing { .. } | Role::Preparing(_) => None,
        }
    }

    /// The ballot this node leads in or restores a log for.
    pub fn proposing(&self) -> Option<Ballot> {
        match &self.role {
            Role::Leader(leader) => Some(leader.ballot),
            Role::Follower | Role::Canvassing { .. } | Role::Preparing(_) => None,
        }
    }

    /// Whom this node takes for the leader.
    /// The leader before, as whoever stood against it saw it.
    pub fn forerunner(&self) -> Option<Forerunner> {
        self.forerunner
    }

    pub fn leader(&self) -> Option<NodeId> {
        match &self.role {
            Role::Leader(leader) => leader.is_serving().then_some(self.me),
            Role::Follower | Role::Canvassing { .. } | Role::Preparing(_) => {
                let known = !self.leader.node.is_nobody() && self.leader.node != self.me;
                known.then_some(self.leader.node)
            }
        }
    }

    /// Who feeds this node, if somebody does.
    pub fn feeder(&self) -> Option<NodeId> {
        let fed = self.now.since(self.fed) < self.settings.heartbeat * 3;
        (fed && !self.feeder.is_nobody()).then_some(self.feeder)
    }

    /// The last record ordered.
    pub fn journal(&self) -> JournalSeq {
        self.journal
    }

    pub fn log(&self) -> &Log {
        &self.log
    }

    pub fn promised(&self) -> Ballot {
        self.promised
    }

    pub fn generation(&self) -> Generation {
        self.generation
    }

    pub fn government(&self) -> (Slot, &Arc<Government>) {
        (self.government_slot, &self.government)
    }

    /// Does this node have all that it has heard of?
    pub fn is_in_step(&self) -> bool {
        self.known > Slot::ZERO && self.log.decided() >= self.known
    }

    /// The leader knows that every live node has all up to `floor`.
    pub fn set_floor(&mut self, floor: Slot) {
        self.raise_floor(floor);
    }

    pub fn floor(&self) -> Slot {
        self.floor
    }

    pub fn elections(&self) -> u64 {
        self.elections
    }

    pub fn pipeline_gauge(&self) -> Gauge {
        let held = match &self.role {
            Role::Leader(_) => self.open(),
            Role::Follower | Role::Canvassing { .. } | Role::Preparing(_) => 0,
        };
        Gauge { held, held_at_most: self.open_at_most, limit: self.settings.pipeline, turned_away: 0 }
    }

    /// The invariants that stand on the fields.
    pub fn check(&self) {
        self.log.check();
        self.government.check();
        assert!(self.government_slot <= self.log.decided());
        assert!(self.safe <= self.journal);
        for slot in self.log.decided().0 + 1..=self.log.last().0 {
            let held = self.log.get(Slot(slot)).expect("no gaps");
            assert!(held.ballot <= self.promised || planted(Bug::AcceptBelowPromise), "{held:?} above the promise");
        }
        if let Role::Leader(leader) = &self.role {
            assert_eq!(leader.ballot.node, self.me);
            assert!(leader.ballot <= self.promised);
        }
    }
}
