//! The machine: its phases and its two doors.
//!
//! ```text
//!            named by a government            snapshot installed
//!   Blank ───────────────────────▶ Fetching ────────────────────▶ Member
//!     ▲ ▲                             │  ▲                          │ │
//!     │ └──── gave up, departed ──────┘  └── a later generation ────┘ │
//!     └───────────────────────── departed ───────────────────────────┘
//! ```

use crate::blank::Blank;
use crate::config::Config;
use crate::context::Context;
use crate::directives::Told;
use crate::door::{Event, Input, Output, Rejection};
use crate::fetching::Fetching;
use crate::member::Member;
use crate::replicated::Replicated;
use crate::restore::Restored;
use crate::view::{Counters, View};
use atoll_cluster::vitals::Watch;
use atoll_types::{
    Address, Ballot, Generation, Government, Identity, Incarnation, JournalSeq, Payload, Record, Rng, Slot,
    StateMachine, Time,
};
use std::collections::VecDeque;
use xxhash_rust::xxh3::xxh3_64_with_seed;

#[derive(Debug)]
pub(crate) enum Phase {
    Blank(Blank),
    Fetching(Fetching),
    Member(Box<Member>),
}

/// What an input leads to beyond the phase it came in.
#[derive(Debug)]
pub(crate) enum Turn {
    Stay,
    /// This node founds a cluster.
    Found,
    /// A government named this node.
    Named {
        identity: Identity,
        generation: Generation,
        slot: Slot,
        holders: Vec<Address>,
    },
    /// The snapshot is here.
    Installed {
        replicated: Box<Replicated>,
        from: Option<Address>,
    },
    /// A later generation exists, where this address is.
    Fenced {
        generation: Generation,
        holder: Address,
    },
    /// An operator wants the cluster to go on from this node.
    Recover {
        ticket: u64,
    },
    /// Back to the beginning, with a new cookie.
    Departed {
        at: Slot,
    },
    GaveUp,
}

/// One node's part of the cluster log.
#[derive(Debug)]
pub struct Cluster {
    context: Context,
    phase: Phase,
    /// The last record ordered outside of Paxos.
    journal: JournalSeq,
    /// Nothing happens until this record is safe: who this node is, or what it starts from.
    gate: Option<JournalSeq>,
    /// What is told once the gate opens: before that it is not so.
    announcements: Vec<Event>,
    /// The time last asked for.
    wake: Option<Time>,
    handled: Time,
}

impl Cluster {
    /// `records`: what the disk holds of an earlier life, in order; none for a blank node.
    pub fn start(config: Config, seed: u64, records: Vec<Record>, now: Time) -> Cluster {
        Cluster::start_with(config, seed, records, now, None)
    }

    /// With a machine to which everything submitted is applied. It starts empty; which one it is tells its kind.
    pub fn start_with(
        config: Config,
        seed: u64,
        records: Vec<Record>,
        now: Time,
        machine: Option<Box<dyn StateMachine>>,
    ) -> Cluster {
        let restored = Restored::from(records, machine.as_deref());
        let mut context = Context {
            config,
            rng: Rng::new(seed),
            now,
            outputs: VecDeque::new(),
            counters: Counters::default(),
            watch: Watch::default(),
            told: Told::default(),
            kind: machine,
        };
        let phase = Phase::Blank(Blank::new(&mut context, restored.departed));
        let journal = JournalSeq(0);
        let mut cluster =
            Cluster { context, phase, journal, gate: None, announcements: Vec::new(), wake: None, handled: now };
        if restored.damaged {
            let alarm = "the checkpoint on the disk cannot be read: this node forgets all, and arrives as a new one";
            cluster.context.event(Event::Alarm(alarm.to_owned()));
            cluster.order_blank(true);
        }
        cluster.resume(restored);
        cluster.ask_to_be_woken();
        cluster
    }

    /// Takes up an earlier life: the same node, in a new incarnation.
    fn resume(&mut self, restored: Restored) {
        let Some(mut identity) = restored.identity else { return };
        let cookie = self.context.new_cookie();
        identity.incarnation = Incarnation { life: identity.incarnation.life + 1, cookie };
        self.order(Record::Identity(identity.clone()));
        self.announce_name(&identity);
        self.phase = match restored.replicated {
            Some(replicated) if restored.log.last() > Slot::ZERO => {
                let Restored { generation, promised, log, .. } = restored;
                let member =
                    Member::restored(&mut self.context, identity, generation, promised, log, replicated, self.journal);
                Phase::Member(Box::new(member))
            }
            Some(_) | None => {
                let holders = self.context.config.join.clone();
                let fetching = Fetching::new(
                    &mut self.context,
                    identity,
                    restored.generation,
                    Slot::ZERO,
                    holders,
                    restored.fenced,
                );
                Phase::Fetching(fetching)
            }
        };
    }

    /// Orders a record that everything waits for.
    fn order(&mut self, record: Record) {
        self.journal.0 += 1;
        self.context.persist(self.journal, record);
        self.gate = Some(self.journal);
    }

    /// Nothing before it counts, of the shards neither.
    fn order_blank(&mut self, departed: bool) {
        self.order(Record::Blank { departed });
        self.context.tell_departed();
    }

    pub fn poll(&mut self) -> Option<Output> {
        self.context.outputs.pop_front()
    }

    pub fn handle(&mut self, now: Time, input: Input) {
        let paused = now.since(self.handled) > self.context.config.timing.heartbeat * 3;
        self.context.now = now.max(self.context.now);
        if let Input::Pulse(pulse) = &input {
            // Looks, and does nothing: whether there was a pause is for whatever comes next to find out.
            return self.context.watch.on_pulse(self.context.now, pulse);
        }
        self.handled = self.context.now;
        if paused {
            self.context.watch.start_afresh(self.context.now);
        }
        if matches!(input, Input::Wake) {
            self.wake = None;
        }
        if let Some(gate) = self.gate {
            if !matches!(input, Input::Persisted(seq) if seq >= gate) {
                return self.turn_away(input);
            }
            self.open_gate();
            return self.after(Turn::Stay);
        }
        if paused && let Phase::Member(member) = &mut self.phase {
            member.start_afresh(&self.context);
        }
        let turn = match &mut self.phase {
            Phase::Blank(blank) => blank.handle(&mut self.context, input),
            Phase::Fetching(fetching) => fetching.handle(&mut self.context, input),
            Phase::Member(member) => member.handle(&mut self.context, input),
        };
        self.after(turn);
    }

    fn open_gate(&mut self) {
        let gate = self.gate.take();
        for event in std::mem::take(&mut self.announcements) {
            self.context.event(event);
        }
        self.tell_shards();
        if let Phase::Member(member) = &self.phase {
            member.tell_open_barriers(&mut self.context);
        }
        if let Phase::Member(member) = &mut self.phase
            && let Some(gate) = gate
        {
            member.on_gate(&mut self.context, gate);
        }
    }

    fn announce_name(&mut self, identity: &Identity) {
        self.announcements.push(Event::Named { node: identity.node, incarnation: identity.incarnation });
    }

    /// While the gate is shut: callers get an answer, messages are as good as lost.
    fn turn_away(&mut self, input: Input) {
        match input {
            Input::Submit { ticket, .. } | Input::Broadcast { ticket, .. } | Input::Operator { ticket, .. } => {
                self.context.reject(ticket, Rejection::Busy);
            }
            Input::Message { .. } => self.context.counters.dropped_not_ready += 1,
            Input::Request { id, .. } => self.context.answer_no_table(id),
            Input::Wake
            | Input::Persisted(_)
            | Input::Condense(_)
            | Input::ConnectionRefused { .. }
            | Input::Answer { .. }
            | Input::Pulse(_)
            | Input::Hang { .. }
            | Input::Reports(_) => {}
        }
        self.ask_to_be_woken();
    }

    fn after(&mut self, turn: Turn) {
        if let Phase::Member(member) = &self.phase {
            self.journal = member.journal();
            member.count(&mut self.context.counters);
        }
        match turn {
            Turn::Stay => {}
            Turn::Found => self.found(),
            Turn::Named { identity, generation, slot, holders } => {
                self.order(Record::Identity(identity.clone()));
                self.announce_name(&identity);
                let fetching = Fetching::new(&mut self.context, identity, generation, slot, holders, false);
                self.phase = Phase::Fetching(fetching);
            }
            Turn::Installed { replicated, from } => self.begin_membership(*replicated, from),
            Turn::Fenced { generation, holder } => self.fence(generation, holder),
            Turn::Recover { ticket } => {
                // Nobody hears of the generation before the disk has it: a crash could take it back.
                if let Phase::Member(member) = &mut self.phase {
                    member.recover(&mut self.context, ticket);
                    self.journal = member.journal();
                    self.gate = Some(self.journal);
                }
            }
            Turn::Departed { at } => {
                self.give_up_tickets();
                self.order_blank(true);
                self.announcements.push(Event::Departed { at });
                self.phase = Phase::Blank(Blank::new(&mut self.context, true));
            }
            Turn::GaveUp => {
                // One that never had a state may found: whatever named it may never have come about, its own founding
                // included. One that was fenced has belonged to a cluster.
                let departed = matches!(&self.phase, Phase::Fetching(fetching) if fetching.was_fenced());
                self.order_blank(departed);
                self.phase = Phase::Blank(Blank::new(&mut self.context, departed));
            }
        }
        self.ask_to_be_woken();
    }

    fn found(&mut self) {
        let Phase::Blank(blank) = &self.phase else { return };
        let (newcomer, alone) = (blank.newcomer().clone(), self.context.config.bootstrap.len() <= 1);
        let (mut member, identity) = Member::founding(&mut self.context, newcomer, alone, self.journal);
        self.context.event(Event::Named { node: identity.node, incarnation: identity.incarnation });
        self.context.tell_name(&identity, Generation::default());
        member.tell_rest(&mut self.context);
        member.settle(&mut self.context);
        self.journal = member.journal();
        self.phase = Phase::Member(Box::new(member));
    }

    fn begin_membership(&mut self, replicated: Replicated, from: Option<Address>) {
        let Phase::Fetching(fetching) = &self.phase else { return };
        let identity = fetching.identity().clone();
        let generation = replicated.state.generation;
        let (member, checkpoint) = Member::installed(
            &mut self.context,
            identity,
            generation,
            replicated,
            JournalSeq(self.journal.0 + 1),
            from,
        );
        self.order(Record::Checkpoint(checkpoint));
        self.phase = Phase::Member(Box::new(member));
    }

    /// What this node knows belongs to a generation that was given up. It keeps its id, and fetches anew.
    fn fence(&mut self, generation: Generation, holder: Address) {
        self.give_up_tickets();
        let mut identity = match &self.phase {
            Phase::Member(member) => member.identity().clone(),
            Phase::Fetching(fetching) => fetching.identity().clone(),
            Phase::Blank(_) => return,
        };
        // A new life, as after a restart: its submissions are numbered anew.
        let cookie = self.context.new_cookie();
        identity.incarnation = Incarnation { life: identity.incarnation.life + 1, cookie };
        self.order(Record::Fenced(generation));
        self.order(Record::Identity(identity.clone()));
        self.announcements.push(Event::Fenced { generation });
        self.announce_name(&identity);
        let mut holders = vec![holder];
        holders.extend(self.context.config.join.iter().cloned());
        let fetching = Fetching::new(&mut self.context, identity, generation, Slot::ZERO, holders, true);
        self.phase = Phase::Fetching(fetching);
    }

    /// Who this node is, and all that follows from it. Only while the gate is open.
    fn tell_shards(&mut self) {
        match &mut self.phase {
            Phase::Blank(_) => {}
            Phase::Fetching(fetching) => self.context.tell_name(fetching.identity(), fetching.generation()),
            Phase::Member(member) => {
                self.context.tell_name(member.identity(), member.paxos().generation());
                member.tell_rest(&mut self.context);
            }
        }
    }

    fn give_up_tickets(&mut self) {
        if let Phase::Member(member) = &mut self.phase {
            member.abandon(&mut self.context);
        }
    }

    fn ask_to_be_woken(&mut self) {
        let due = match &self.phase {
            Phase::Blank(blank) => blank.due(),
            Phase::Fetching(fetching) => fetching.due(),
            Phase::Member(member) => member.due(),
        };
        let due = due.max(self.context.now);
        if self.wake != Some(due) && self.gate.is_none() {
            self.wake = Some(due);
            self.context.outputs.push_back(Output::WakeAt(due));
        }
    }

    pub fn view(&self) -> View<'_> {
        let counters = &self.context.counters;
        let blank = View {
            identity: None,
            generation: Generation::default(),
            promised: Ballot::default(),
            trimmed: Slot::ZERO,
            decided: Slot::ZERO,
            last: Slot::ZERO,
            leading: None,
            leader: None,
            government: None,
            state: None,
            distributor: None,
            waiting: None,
            counters,
        };
        match &self.phase {
            Phase::Blank(phase) => View { waiting: Some(phase.waiting()), ..blank },
            Phase::Fetching(fetching) => {
                View { identity: Some(fetching.identity()), generation: fetching.generation(), ..blank }
            }
            Phase::Member(member) => member.view(counters),
        }
    }

    /// Asks the machine that the user of the log brought along, as this node has it now. Empty without one.
    pub fn query(&self, query: &[u8]) -> Payload {
        match &self.phase {
            Phase::Blank(_) | Phase::Fetching(_) => Payload::default(),
            Phase::Member(member) => member.replicated.query(query),
        }
    }

    /// The ballot in which this node accepted `slot`, if it holds it and does not know it decided.
    pub fn vote(&self, slot: Slot) -> Option<Ballot> {
        match &self.phase {
            Phase::Blank(_) | Phase::Fetching(_) => None,
            Phase::Member(member) => member.paxos().vote(slot),
        }
    }

    /// The ballot this node proposes in, before or after its own government is decided.
    pub fn proposing(&self) -> Option<Ballot> {
        match &self.phase {
            Phase::Blank(_) | Phase::Fetching(_) => None,
            Phase::Member(member) => member.paxos().proposing(),
        }
    }

    /// Asserts the invariants that stand on the fields.
    pub fn check(&self) {
        if let Phase::Member(member) = &self.phase {
            member.check();
        }
    }

    /// Of the replicated state and this node's positions.
    pub fn digest(&self) -> u64 {
        let view = self.view();
        let history = match &self.phase {
            Phase::Blank(_) | Phase::Fetching(_) => 0,
            Phase::Member(member) => member.replicated.snapshot().digest(),
        };
        let ballot = view.promised;
        let government: &Government = match view.government {
            Some((_, government)) => government,
            None => return xxh3_64_with_seed(b"blank", history),
        };
        let positions = [
            view.decided.0,
            view.trimmed.0,
            view.last.0,
            u64::from(ballot.generation.number),
            ballot.round,
            u64::from(ballot.node.0),
            u64::from(government.leader().0),
            self.journal.0,
        ];
        positions.iter().fold(history, |digest, position| xxh3_64_with_seed(&position.to_le_bytes(), digest))
    }
}
