//! Three copies of a bucket, side by side, and whatever they say to each other.

#![allow(dead_code, reason = "each test uses a part")]

use atoll_replica::{Action, Event, Message, Outcome, Replica, Settings, Sink, Ticket};
use atoll_types::{
    Appointment, At, BucketId, BucketRecord, Duty, Epoch, HashSlot, JournalSeq, Malformed, Mark, NodeId, Payload,
    Report, SessionUse, Slot, SlotRange, StateMachine, Time,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Remembers every command, and answers with how many there were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) commands: Vec<Vec<u8>>,
    digest: u64,
}

impl StateMachine for Tally {
    fn empty(&self) -> Box<dyn StateMachine> {
        Box::new(Tally::default())
    }
    fn apply(&mut self, _at: At, command: &[u8], answer: &mut Vec<u8>) {
        self.digest = xxh3_64_with_seed(command, self.digest);
        self.commands.push(command.to_vec());
        answer.push(self.commands.len() as u8);
    }
    fn advance(&mut self, _at: At) {}
    fn due(&self) -> Option<Time> {
        None
    }
    fn read(&self, _at: At, _query: &[u8], answer: &mut Vec<u8>) {
        answer.push(self.commands.len() as u8);
    }
    fn grows(&self, _command: &[u8]) -> bool {
        true
    }
    fn bytes(&self) -> usize {
        self.commands.iter().map(Vec::len).sum()
    }
    fn count(&self) -> usize {
        self.commands.len()
    }
    fn snapshot(&self) -> Vec<u8> {
        postcard::to_allocvec(&self.commands).expect("it has bytes")
    }
    fn install(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.commands = postcard::from_bytes(bytes).map_err(|_| Malformed)?;
        self.digest = self.commands.iter().fold(0, |digest, command| xxh3_64_with_seed(command, digest));
        Ok(())
    }
    fn split(&mut self, _first: HashSlot) -> Box<dyn StateMachine> {
        Box::new(self.clone())
    }
    fn digest(&self) -> u64 {
        self.digest
    }
}

pub(crate) const BUCKET: BucketId = BucketId(0);

pub(crate) fn settings(durable: bool) -> Settings {
    Settings {
        durable,
        retry: Duration::from_millis(50),
        ack_timeout: Duration::from_secs(1),
        commit_flush: Duration::from_millis(2),
        commit_tick: Duration::ZERO,
        frame_bytes: 64 * 1024,
        window_bytes: 8 << 20,
        log: 8,
        piece_bytes: 16,
        session_idle: Duration::from_secs(60),
    }
}

pub(crate) fn epoch(slot: u64) -> Epoch {
    Epoch { slot: Slot(slot), ..Epoch::ZERO }
}

pub(crate) struct Side {
    pub(crate) replica: Replica,
    pub(crate) sink: Sink,
    pub(crate) unsafe_through: JournalSeq,
    /// What was ordered to be written.
    pub(crate) records: Vec<BucketRecord>,
}

/// Copies by node, and what is on its way between them.
pub(crate) struct Trio {
    pub(crate) sides: BTreeMap<NodeId, Side>,
    pub(crate) flying: VecDeque<(NodeId, NodeId, Message)>,
    pub(crate) answers: Vec<(Ticket, Outcome)>,
    pub(crate) reports: Vec<(NodeId, Report)>,
    pub(crate) events: Vec<(NodeId, Event)>,
    pub(crate) now: Time,
    durable: bool,
}

impl Trio {
    pub(crate) fn new(nodes: u32, durable: bool) -> Trio {
        let side = |node| {
            let mut sink = Sink::new(settings(durable));
            sink.watched = true;
            let machine = Box::new(Tally::default());
            let replica = Replica::empty(BUCKET, SlotRange::ALL, Mark::default(), Duration::from_secs(60), machine);
            (NodeId(node), Side { replica, sink, unsafe_through: JournalSeq(0), records: Vec::new() })
        };
        Trio {
            sides: (1..=nodes).map(side).collect(),
            flying: VecDeque::new(),
            answers: Vec::new(),
            reports: Vec::new(),
            events: Vec::new(),
            now: Time(1_000_000),
            durable,
        }
    }

    pub(crate) fn duty(slot: u64, primary: u32, members: &[u32], catching_up: &[u32]) -> Duty {
        let nodes = |ids: &[u32]| ids.iter().copied().map(NodeId).collect();
        Duty {
            range: SlotRange::ALL,
            appointment: Appointment {
                epoch: epoch(slot),
                primary: NodeId(primary),
                members: nodes(members),
                catching_up: nodes(catching_up),
            },
            may_commit: members.len() >= 2,
            settled: false,
            splitting: false,
            lost: false,
            short: false,
            begins: Mark::default(),
            divided: None,
            sought_at: NodeId::NOBODY,
        }
    }

    pub(crate) fn appoint(&mut self, node: u32, duty: &Duty) {
        let now = self.now;
        let side = self.sides.get_mut(&NodeId(node)).expect("the node is there");
        side.replica.appoint(now, &mut side.sink, NodeId(node), duty.clone());
        self.flush(NodeId(node));
    }

    pub(crate) fn appoint_all(&mut self, duty: &Duty) {
        for node in self.sides.keys().copied().collect::<Vec<_>>() {
            self.appoint(node.0, duty);
        }
    }

    pub(crate) fn write(&mut self, node: u32, ticket: u64, usage: Option<SessionUse>, command: &str) -> bool {
        let now = self.now;
        let side = self.sides.get_mut(&NodeId(node)).expect("the node is there");
        let command = command.as_bytes();
        let taken = side.replica.write(now, &mut side.sink, Ticket(ticket), HashSlot(0), usage, command);
        self.flush(NodeId(node));
        taken
    }

    pub(crate) fn read(&mut self, node: u32, ticket: u64) -> bool {
        let now = self.now;
        let side = self.sides.get_mut(&NodeId(node)).expect("the node is there");
        let taken = side.replica.read(now, &mut side.sink, Ticket(ticket), Payload::default());
        self.flush(NodeId(node));
        taken
    }

    pub(crate) fn flush(&mut self, node: NodeId) {
        let now = self.now;
        let side = self.sides.get_mut(&node).expect("the node is there");
        side.replica.flush(now, &mut side.sink);
        while let Some((to, messages)) = side.sink.letters.take() {
            self.flying.extend(messages.into_iter().map(|message| (node, to, message)));
        }
        while let Some(action) = side.sink.actions.pop_front() {
            match action {
                Action::Persist { seq, record } => {
                    side.unsafe_through = seq;
                    side.records.push(*record);
                }
                Action::Answer { ticket, outcome } => self.answers.push((ticket, outcome)),
                Action::Report(report) => self.reports.push((node, report)),
                Action::Event(event) => self.events.push((node, *event)),
            }
        }
        side.replica.check();
    }

    pub(crate) fn sync(&mut self, node: u32) {
        let now = self.now;
        let side = self.sides.get_mut(&NodeId(node)).expect("the node is there");
        let through = side.unsafe_through;
        side.replica.on_persisted(now, &mut side.sink, through);
        self.flush(NodeId(node));
    }

    pub(crate) fn deliver(&mut self, from: NodeId, to: NodeId, message: Message) {
        let now = self.now;
        if let Some(side) = self.sides.get_mut(&to) {
            side.replica.on_message(now, &mut side.sink, from, &message);
            self.flush(to);
        }
    }

    /// Delivers everything that is on its way, and what comes of it; disks are fast.
    pub(crate) fn run(&mut self) {
        self.run_without(&[]);
    }

    /// Nothing reaches or leaves these.
    pub(crate) fn run_without(&mut self, cut: &[u32]) {
        for _ in 0..100_000 {
            if self.durable {
                for node in self.sides.keys().copied().collect::<Vec<_>>() {
                    self.sync(node.0);
                }
            }
            let Some((from, to, message)) = self.flying.pop_front() else { return };
            if !cut.contains(&from.0) && !cut.contains(&to.0) {
                self.deliver(from, to, message);
            }
        }
        panic!("they never stop talking");
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        for node in self.sides.keys().copied().collect::<Vec<_>>() {
            let now = self.now;
            let side = self.sides.get_mut(&node).expect("the node is there");
            side.replica.on_wake(now, &mut side.sink);
            self.flush(node);
        }
    }

    pub(crate) fn replica(&self, node: u32) -> &Replica {
        &self.sides[&NodeId(node)].replica
    }

    pub(crate) fn last(&self, node: u32) -> u64 {
        self.replica(node).log().last().offset.0
    }

    pub(crate) fn outcome(&self, ticket: u64) -> Option<&Outcome> {
        self.answers.iter().find(|(known, _)| known.0 == ticket).map(|(_, outcome)| outcome)
    }
}
