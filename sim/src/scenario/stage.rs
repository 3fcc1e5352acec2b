//! The hosts on which a scenario plays, and the queue of what happens next.
//!
//! Messages go through the wire codec and take a millisecond, records take one to be safe; both can be changed by a
//! command. What happens at the same moment happens in the order in which it was caused.

use crate::scenario::bucket_words;
use crate::scenario::buckets::Callers;
use crate::scenario::letters;
use crate::scenario::names::Names;
use crate::scenario::teller::Teller;
use crate::scenario::words::{self, Words};
use atoll_node::shard::message::ShardMessage;
use atoll_node::{Config, Envelope, Event, Input, Limits, Message, Node, Output, Timing, View};
use atoll_types::{
    Body, ClusterId, Cookie, Entry, JournalSeq, NodeId, Payload, Record, Request, Sequence, Slot, Submission, Time,
};
use atoll_wire::message;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) const MILLISECOND: u64 = 1_000;
/// Clocks do not start at zero, which the core takes for "before all".
const DAWN: u64 = 1_000_000;
/// How long after a crash the others find that nobody listens.
const NOTICED: u64 = 5 * MILLISECOND;

#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) config: Config,
    pub(super) core: Option<Node>,
    pub(super) paused: bool,
    /// Down without a sign: nobody is told that nobody listens.
    pub(super) unplugged: bool,
    /// Counts the starts: what was meant for an earlier life is void.
    pub(super) life: u32,
    wake: Time,
    /// What is safe on the disk, and what is ordered and not yet safe.
    pub(super) safe: Vec<Record>,
    ordered: Vec<(JournalSeq, Record)>,
    /// How long a sync takes; None while the disk hangs.
    pub(super) sync: Option<u64>,
    syncing: bool,
    aside: Vec<Happening>,
    /// The cluster this host was last seen in.
    cluster: ClusterId,
    /// The barriers it was asked to answer.
    pub(super) asked: Vec<Slot>,
    /// By how much its clock is ahead.
    pub(super) ahead: u64,
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    Deliver {
        sent: usize,
        life: u32,
        told: bool,
    },
    Synced {
        host: usize,
        life: u32,
        through: JournalSeq,
    },
    /// `host` finds that nobody listens where `gone` was.
    Refused {
        host: usize,
        gone: usize,
    },
}

/// A message that was sent once, to be delivered, or delivered again.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: &'static str,
    bytes: Vec<u8>,
    pub(super) delivered: bool,
}

#[derive(Debug)]
pub(super) struct Stage {
    pub(super) now: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    pub(super) hosts: Vec<Host>,
    pub(super) cuts: BTreeSet<(usize, usize)>,
    pub(super) delays: BTreeMap<(usize, usize), u64>,
    pub(super) sent: Vec<Sent>,
    /// Deliveries so far, as places in `sent`.
    pub(super) deliveries: Vec<usize>,
    /// The next message of this kind on this link is lost.
    pub(super) losing: Vec<(usize, usize, String)>,
    pub(super) names: Names,
    pub(super) teller: Teller,
    pub(super) timing: Timing,
    pub(super) limits: Limits,
    pub(super) seed: u64,
    /// What stands behind each ticket.
    pub(super) tickets: Vec<String>,
    pub(super) callers: Callers,
    /// Entries told as decided, whoever told them first.
    told: BTreeMap<(ClusterId, Slot), Vec<Arc<Entry>>>,
    /// Submissions that took effect, other than users' entries.
    taken: BTreeSet<(ClusterId, NodeId, Cookie, Sequence)>,
    /// Decided entries of a fill, which are counted and not told.
    pub(super) filled: Vec<Slot>,
    /// While an injected message is handled: its answers are told, whatever else is.
    telling: bool,
}

/// Entries of a fill begin with this.
pub(super) const FILL: &str = "fill ";

impl Stage {
    pub(super) fn new() -> Stage {
        Stage {
            now: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            hosts: Vec::new(),
            cuts: BTreeSet::new(),
            delays: BTreeMap::new(),
            sent: Vec::new(),
            deliveries: Vec::new(),
            losing: Vec::new(),
            names: Names::default(),
            teller: Teller::default(),
            timing: Timing::default(),
            limits: Limits::default(),
            seed: 1,
            tickets: Vec::new(),
            callers: Callers::default(),
            told: BTreeMap::new(),
            taken: BTreeSet::new(),
            filled: Vec::new(),
            telling: false,
        }
    }

    pub(super) fn time(&self) -> Time {
        Time(DAWN + self.now)
    }

    /// By the clock of this host.
    fn time_of(&self, host: usize) -> Time {
        Time(DAWN + self.now + self.hosts[host].ahead)
    }

    pub(super) fn add_host(&mut self, name: &str, config: Config) -> usize {
        self.hosts.push(Host {
            name: name.to_owned(),
            config,
            core: None,
            paused: false,
            unplugged: false,
            life: 0,
            wake: Time::NEVER,
            safe: Vec::new(),
            ordered: Vec::new(),
            sync: Some(MILLISECOND),
            syncing: false,
            aside: Vec::new(),
            cluster: ClusterId::NONE,
            asked: Vec::new(),
            ahead: 0,
        });
        self.hosts.len() - 1
    }

    fn push(&mut self, at: u64, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), happening);
    }

    pub(super) fn start(&mut self, host: usize) {
        let (now, seed) = (self.time_of(host), self.seed);
        let machine = &mut self.hosts[host];
        machine.life += 1;
        let seed = seed * 1_000_000 + host as u64 * 1_000 + u64::from(machine.life);
        let records = if machine.config.durable { machine.safe.clone() } else { Vec::new() };
        machine.core = Some(Node::start(machine.config.clone(), seed, records, now));
        (machine.wake, machine.paused, machine.unplugged) = (now, false, false);
        self.drain(host);
    }

    /// The process ends. Whoever sends to it finds that nobody listens, unless the whole machine is gone.
    pub(super) fn stop(&mut self, host: usize, unplugged: bool) {
        let machine = &mut self.hosts[host];
        (machine.core, machine.unplugged, machine.wake) = (None, unplugged, Time::NEVER);
        (machine.syncing, machine.paused) = (false, false);
        machine.ordered.clear();
        machine.aside.clear();
        machine.asked.clear();
        for other in (0..self.hosts.len()).filter(|&other| other != host && !unplugged) {
            self.push(self.now + NOTICED, Happening::Refused { host: other, gone: host });
        }
    }

    pub(super) fn resume(&mut self, host: usize) {
        self.hosts[host].paused = false;
        for happening in std::mem::take(&mut self.hosts[host].aside) {
            self.push(self.now, happening);
        }
    }

    /// When the next thing happens.
    fn next_at(&self) -> u64 {
        let queued = self.queue.keys().next().map_or(u64::MAX, |&(at, _)| at);
        let awake = self.hosts.iter().filter(|host| host.core.is_some() && !host.paused);
        let wake = awake.map(|host| host.wake.0.saturating_sub(DAWN + host.ahead)).min().unwrap_or(u64::MAX);
        queued.min(wake).max(self.now)
    }

    pub(super) fn run_until(&mut self, end: u64) {
        while self.next_at() <= end {
            self.turn();
        }
        self.now = end;
    }

    /// Lets the next thing happen.
    pub(super) fn turn(&mut self) {
        self.now = self.next_at();
        if let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let happening = entry.remove();
            return self.happen(happening);
        }
        let time = self.time().0;
        let due = |host: &Host| host.core.is_some() && !host.paused && host.wake.0 <= time + host.ahead;
        if let Some(host) = self.hosts.iter().position(due) {
            self.hosts[host].wake = Time::NEVER;
            self.step(host, Input::Wake);
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Deliver { sent, life, told } => {
                let to = self.sent[sent].to;
                if self.hosts[to].paused {
                    return self.hosts[to].aside.push(happening);
                }
                self.deliver(sent, life, told);
            }
            Happening::Synced { host, life, through } => {
                if self.hosts[host].paused {
                    return self.hosts[host].aside.push(happening);
                }
                let machine = &mut self.hosts[host];
                if machine.life != life || machine.core.is_none() {
                    return;
                }
                machine.syncing = false;
                let safe = machine.ordered.iter().take_while(|(seq, _)| *seq <= through).count();
                machine.safe.extend(machine.ordered.drain(..safe).map(|(_, record)| record));
                self.step(host, Input::Persisted(through));
            }
            Happening::Refused { host, gone } => {
                let heard = !self.cuts.contains(&(host, gone)) && !self.cuts.contains(&(gone, host));
                let (there, here) = (&self.hosts[gone], &self.hosts[host]);
                if there.core.is_none() && !there.unplugged && here.core.is_some() && !here.paused && heard {
                    let address = there.config.address.clone();
                    self.step(host, Input::ConnectionRefused { address });
                }
            }
        }
    }

    fn deliver(&mut self, place: usize, life: u32, told: bool) {
        let Sent { from, to, kind, .. } = self.sent[place];
        let envelope = message::decode(&self.sent[place].bytes).expect("what was encoded can be decoded");
        let lost = self.losing.iter().position(|(one, other, what)| (*one, *other) == (from, to) && what == kind);
        if let Some(lost) = lost {
            self.losing.remove(lost);
        }
        let cut = lost.is_some() || self.cuts.contains(&(from, to)) || life != self.hosts[to].life;
        let gone = self.hosts[to].core.is_none();
        let (one, other) = (self.hosts[from].name.clone(), self.hosts[to].name.clone());
        let wanted = self.teller.wants((from, &one), (to, &other), &envelope) || told;
        if wanted {
            for line in self.letters(from, to, &envelope) {
                match (cut, gone) {
                    (true, _) => self.teller.say_once(self.now, &format!("{line} (lost)")),
                    (false, true) => self.teller.say_once(self.now, &format!("{line} (nobody there)")),
                    (false, false) => self.teller.say(self.now, &line),
                }
            }
        }
        if cut {
            return;
        }
        if gone {
            return self.push(self.now, Happening::Refused { host: from, gone: to });
        }
        self.sent[place].delivered = true;
        self.deliveries.push(place);
        let address = self.hosts[from].config.address.clone();
        self.step(to, Input::Message { from: address, envelope });
    }

    /// Delivers a message once more, or elsewhere, and tells what is answered.
    pub(super) fn inject(&mut self, place: usize, at: usize) {
        let from = self.sent[place].from;
        let envelope = message::decode(&self.sent[place].bytes).expect("what was encoded can be decoded");
        let line = self.letter(from, at, &envelope);
        self.teller.say(self.now, &format!("{line} (injected)"));
        let address = self.hosts[from].config.address.clone();
        self.telling = true;
        self.step(at, Input::Message { from: address, envelope });
        self.telling = false;
    }

    /// What replicas say to each other shares a frame, and is told one by one.
    fn letters(&self, from: usize, to: usize, envelope: &Envelope) -> Vec<String> {
        let words = Words { names: &self.names, cluster: envelope.cluster };
        let (one, other) = (&self.hosts[from].name, &self.hosts[to].name);
        match &envelope.message {
            Message::Shard(ShardMessage::Replicas(messages)) => {
                let wanted = messages.iter().filter(|message| self.teller.wants_kind(bucket_words::kind(message)));
                wanted.map(|message| format!("{one} -> {other}  {}", words.of_replica(message))).collect()
            }
            message @ Message::Shard(
                ShardMessage::Hop(_) | ShardMessage::Hopped(_) | ShardMessage::Vouch(_) | ShardMessage::Vouched(_),
            ) => {
                let wanted = self.teller.wants_kind(letters::kind(message));
                wanted.then(|| self.letter(from, to, envelope)).into_iter().collect()
            }
            Message::Paxos(_) | Message::Cluster(_) => vec![self.letter(from, to, envelope)],
        }
    }

    fn letter(&self, from: usize, to: usize, envelope: &Envelope) -> String {
        let known = [envelope.cluster, self.hosts[to].cluster, self.hosts[from].cluster];
        let cluster = known.into_iter().find(|cluster| *cluster != ClusterId::NONE).unwrap_or(ClusterId::NONE);
        let words = Words { names: &self.names, cluster };
        let words = words.letter(envelope, self.limits.chunk_bytes);
        format!("{} -> {}  {words}", self.hosts[from].name, self.hosts[to].name)
    }

    /// Gives one input to the core on `host`, and does what the core wants done.
    pub(super) fn step(&mut self, host: usize, input: Input) {
        let time = self.time_of(host);
        if let Some(core) = &mut self.hosts[host].core {
            core.handle(time, input);
            self.drain(host);
        }
    }

    fn drain(&mut self, host: usize) {
        loop {
            let Some(core) = &mut self.hosts[host].core else { return };
            let outputs: Vec<Output> = std::iter::from_fn(|| core.poll()).collect();
            core.check();
            if let Some(identity) = core.view().identity {
                self.hosts[host].cluster = identity.cluster;
            }
            self.learn_names(host, &outputs);
            for output in &outputs {
                self.carry_out(host, output, &outputs);
            }
            // A host without a disk has nothing to wait for.
            let machine = &mut self.hosts[host];
            let last = machine.ordered.last().map(|(seq, _)| *seq);
            match (last, machine.config.durable, &mut machine.core) {
                (Some(seq), false, Some(core)) => {
                    machine.ordered.clear();
                    core.handle(Time(DAWN + self.now + machine.ahead), Input::Persisted(seq));
                }
                (Some(_), true, _) => return self.sync(host),
                (Some(_) | None, _, _) => return,
            }
        }
    }

    /// Lets the disk begin to write what is ordered, if it does not write already.
    pub(super) fn sync(&mut self, host: usize) {
        let machine = &mut self.hosts[host];
        if let (Some(delay), Some((through, _)), false) = (machine.sync, machine.ordered.last(), machine.syncing) {
            let happening = Happening::Synced { host, life: machine.life, through: *through };
            machine.syncing = true;
            self.push(self.now + delay, happening);
        }
    }

    fn learn_names(&mut self, host: usize, outputs: &[Output]) {
        let cluster = self.hosts[host].cluster;
        for output in outputs {
            match output {
                Output::Persist {
                    record: Record::Accepted { entries, .. } | Record::Learned { entries, .. }, ..
                } => {
                    entries.iter().for_each(|entry| self.names.learn(cluster, entry));
                }
                Output::Event(Event::Decided { entry, .. }) => self.names.learn(cluster, entry),
                Output::Persist { .. }
                | Output::Event(_)
                | Output::Send { .. }
                | Output::WakeAt(_)
                | Output::Directive(_)
                | Output::Answer { .. }
                | Output::Bucket { .. } => {}
            }
        }
    }

    fn carry_out(&mut self, host: usize, output: &Output, all: &[Output]) {
        match output {
            Output::Send { to, envelope } => self.send(host, &to.0, envelope),
            Output::Persist { seq, record } => self.hosts[host].ordered.push((*seq, record.clone())),
            Output::WakeAt(time) => self.hosts[host].wake = *time,
            Output::Event(event) => self.tell(host, event, all),
            Output::Answer { id, answer } => self.tell_answer(host, *id, answer),
            Output::Bucket { event, .. } => self.tell_bucket(host, event),
            // Of no concern outside of a node.
            Output::Directive(_) => {}
        }
    }

    fn send(&mut self, from: usize, to: &str, envelope: &Envelope) {
        let Some(to) = self.host(to) else { return };
        let mut bytes = Vec::new();
        message::encode(envelope, &mut bytes);
        let kind = letters::kind(&envelope.message);
        self.sent.push(Sent { from, to, kind, bytes, delivered: false });
        let delay = self.delays.get(&(from, to)).copied().unwrap_or(MILLISECOND);
        let (sent, life, told) = (self.sent.len() - 1, self.hosts[to].life, self.telling);
        self.push(self.now + delay, Happening::Deliver { sent, life, told });
    }

    pub(super) fn host(&self, name: &str) -> Option<usize> {
        self.hosts.iter().position(|host| host.name == name)
    }

    /// The cluster this host was last seen in.
    pub(super) fn cluster_of(&self, host: usize) -> ClusterId {
        self.hosts[host].cluster
    }

    pub(super) fn view(&self, host: usize) -> Option<View<'_>> {
        self.hosts[host].core.as_ref().map(Node::view)
    }

    fn tell(&mut self, host: usize, event: &Event, all: &[Output]) {
        let name = self.hosts[host].name.clone();
        let ticket = |ticket: &u64| self.tickets[*ticket as usize].clone();
        let words = Words { names: &self.names, cluster: self.hosts[host].cluster };
        match event {
            Event::Decided { slot, entry } => self.tell_decided(host, *slot, entry, all),
            Event::Submitted { ticket: number, slot, .. } => {
                let what = ticket(number);
                if !what.starts_with(FILL) {
                    self.teller.say(self.now, &format!("{name}  hears that its {what} is in the log at {slot}"));
                }
            }
            Event::Rejected { ticket: number, rejection } => {
                let what = ticket(number);
                let what = if what.starts_with(FILL) { "one more" } else { what.as_str() };
                let line = format!("{name}  answers {what} with: {}", words::rejection(*rejection));
                self.teller.say(self.now, &line);
            }
            Event::Unknown { ticket: number } => {
                let line = format!("{name}  cannot say what became of its {}", ticket(number));
                self.teller.say(self.now, &line);
            }
            Event::Alarm(_) => {
                let line = words.event(event).unwrap_or_default();
                self.teller.say_once(self.now, &format!("{name}  {line}"));
            }
            Event::BarrierOpened { barrier, .. } => {
                let line = words.event(event).unwrap_or_default();
                self.hosts[host].asked.push(*barrier);
                self.teller.say(self.now, &format!("{name}  {line}"));
            }
            Event::Named { .. }
            | Event::Delivered { .. }
            | Event::BarrierReduced { .. }
            | Event::Leading { .. }
            | Event::SteppedDown { .. }
            | Event::Government { .. }
            | Event::SnapshotInstalled { .. }
            | Event::SnapshotMade { .. }
            | Event::Trimmed { .. }
            | Event::Departed { .. }
            | Event::Fenced { .. }
            | Event::LevelRaised { .. } => {
                if let Some(line) = words.event(event) {
                    self.teller.say(self.now, &format!("{name}  {line}"));
                }
            }
        }
    }

    /// A decided entry is told by whoever knows it first. Where two differ, both are told.
    fn tell_decided(&mut self, host: usize, slot: Slot, entry: &Arc<Entry>, all: &[Output]) {
        let cluster = self.hosts[host].cluster;
        let told = self.told.entry((cluster, slot)).or_default();
        if told.contains(entry) {
            return;
        }
        told.push(entry.clone());
        let mut without_effect = "";
        if let Body::Submission(submission) = &entry.body {
            let fill = |payload: &Payload| payload.as_slice().starts_with(FILL.as_bytes());
            if matches!(&submission.request, Request::User(payload) if fill(payload)) {
                return self.filled.push(slot);
            }
            if !self.takes_effect(host, slot, submission, all) {
                without_effect = " (it has no effect)";
            }
        }
        let words = Words { names: &self.names, cluster };
        let line = format!("{}  decided {slot}: {}{without_effect}", self.hosts[host].name, words.entry(entry));
        self.teller.say(self.now, &line);
    }

    /// Users' entries are delivered where they count. Of the others, the first one of a life that the log knows does.
    fn takes_effect(&mut self, host: usize, slot: Slot, submission: &Submission, all: &[Output]) -> bool {
        let Submission { node, cookie, sequence, .. } = submission;
        if let Request::User(_) = submission.request {
            let delivered = |event: &Event| matches!(event, Event::Delivered { slot: at, .. } if *at == slot);
            return all.iter().any(|output| matches!(output, Output::Event(event) if delivered(event)));
        }
        let state = self.hosts[host].core.as_ref().and_then(|core| core.view().state);
        let member = state.and_then(|state| state.members.get(node));
        let known = member.is_some_and(|member| member.incarnation.cookie == *cookie);
        known && self.taken.insert((self.hosts[host].cluster, *node, *cookie, *sequence))
    }
}
