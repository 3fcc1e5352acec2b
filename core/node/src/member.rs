//! A node in step with the log: applies what is decided, tells it, submits, reports.

use crate::context::{Context, Recipient, Signature};
use crate::currency::Currency;
use crate::door::{Event, Input, Order, Rejection};
use crate::envelope::Message;
use crate::machine::Turn;
use crate::office::Office;
use crate::outbox::Outbox;
use crate::replicated::{Applied, Replicated};
use crate::view::{Counters, View};
use atoll_cluster::Effect;
use atoll_cluster::message::{Message as ClusterMessage, Offer, Report, Sighting, Submit};
use atoll_cluster::skew::Ahead;
use atoll_cluster::snapshot::{Fetcher, Keeper, Snapshot};
use atoll_cluster::submitter::Submitter;
use atoll_paxos::{Action, Paxos};
use atoll_types::{
    Address, Body, Cause, Checkpoint, Entry, Generation, Identity, Incarnation, JournalSeq, NodeId, Payload, Record,
    Request, Slot, Time,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Where a node was heard last, and in which life.
#[derive(Clone, Debug)]
pub(crate) struct Contact {
    pub(crate) incarnation: Incarnation,
    pub(crate) address: Address,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) identity: Identity,
    pub(crate) paxos: Paxos,
    /// Everything decided is applied.
    pub(crate) replicated: Replicated,
    pub(crate) submitter: Submitter,
    /// Reports of the shards, on their way into the log.
    pub(crate) outbox: Outbox,
    pub(crate) contacts: BTreeMap<NodeId, Contact>,
    /// Whom this node heard since its last report.
    pub(crate) sightings: BTreeMap<NodeId, Sighting>,
    /// Whose process is known to be gone, to be reported.
    pub(crate) dead: BTreeMap<NodeId, Incarnation>,
    /// Whose death was reported, until they are heard again.
    pub(crate) known_dead: BTreeMap<NodeId, Incarnation>,
    /// Newcomers that asked here: this node can reach them, and welcomes them once they are named.
    pub(crate) asked_here: VecDeque<Incarnation>,
    /// Since when, by this node's own clock, others are absent: whoever leads next knows how long it has been.
    pub(crate) absent_since: BTreeMap<NodeId, Time>,
    pub(crate) keeper: Keeper,
    /// Set while this node is so far behind that it fetches a snapshot.
    pub(crate) fetcher: Option<Fetcher>,
    pub(crate) report_due: Time,
    pub(crate) currency: Currency,
    /// By how much this node's clock was ahead of the leader's, and when that was measured.
    pub(crate) compared: Option<(Ahead, Time)>,
    /// Set while this node leads.
    pub(crate) office: Option<Office>,
    /// The leader that submissions went to.
    pub(super) leader: Option<NodeId>,
    /// An operator's order to recover, to be answered once this node leads.
    pub(super) recovery: Option<u64>,
}

impl Member {
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn paxos(&self) -> &Paxos {
        &self.paxos
    }

    pub(crate) fn journal(&self) -> JournalSeq {
        self.paxos.journal()
    }

    pub(crate) fn me(&self) -> NodeId {
        self.identity.node
    }

    pub(crate) fn signature(&self) -> Signature {
        Signature::of(&self.identity, self.paxos.generation())
    }

    pub(crate) fn due(&self) -> Time {
        let fetch = self.fetcher.as_ref().map_or(Time::NEVER, Fetcher::due);
        let orders = self.office.as_ref().map_or(Time::NEVER, |office| office.orders.due);
        self.paxos.due().min(self.submitter.due()).min(self.report_due).min(fetch).min(orders)
    }

    /// By how much this node's clock is ahead of the leader's, if that was measured lately: clocks drift.
    pub(crate) fn ahead(&self, context: &Context) -> Option<Ahead> {
        if self.office.is_some() {
            return Some(Ahead::leader(self.me()));
        }
        let (ahead, at) = self.compared?;
        (context.now.since(at) < context.config.timing.silence).then_some(ahead)
    }

    pub(crate) fn start_afresh(&mut self, context: &Context) {
        self.paxos.start_afresh(context.now);
        self.compared = None; // This node's own clock may have been set.
        if let Some(office) = &mut self.office {
            office.health.start_afresh(context.now);
        }
    }

    pub(crate) fn handle(&mut self, context: &mut Context, input: Input) -> Turn {
        let turn = match input {
            Input::Message { from, envelope } => self.receive(context, &from, envelope),
            Input::Wake => {
                self.on_wake(context);
                Turn::Stay
            }
            Input::Persisted(seq) => {
                self.paxos.on_persisted(context.now, seq);
                Turn::Stay
            }
            Input::Condense(_) => {
                self.condense();
                Turn::Stay
            }
            Input::ConnectionRefused { address } => {
                self.on_connection_refused(context, &address);
                Turn::Stay
            }
            Input::Submit { ticket, payload } => {
                self.on_request(context, ticket, &payload.clone(), Request::User(payload));
                Turn::Stay
            }
            Input::Broadcast { ticket, payload } => {
                self.on_request(context, ticket, &payload.clone(), Request::Broadcast(payload));
                Turn::Stay
            }
            Input::Answer { barrier, answer } => {
                self.on_answer(context, barrier, answer);
                Turn::Stay
            }
            Input::Operator { ticket, order } => self.on_order(context, ticket, order),
            Input::Reports(reports) => {
                self.on_reports(reports);
                Turn::Stay
            }
            Input::Pulse(_) | Input::Hang { .. } => Turn::Stay,
            Input::Request { id, .. } => {
                context.answer_no_table(id);
                Turn::Stay
            }
        };
        if matches!(turn, Turn::Stay) {
            self.settle(context);
        }
        turn
    }

    fn on_request(&mut self, context: &mut Context, ticket: u64, payload: &Payload, request: Request) {
        if payload.len() > context.config.limits.entry_bytes {
            return context.reject(ticket, Rejection::TooLarge);
        }
        if !self.replicated.state.members.contains_key(&self.me()) {
            return context.reject(ticket, Rejection::Blank);
        }
        if !self.submitter.submit(context.now, request, Some(ticket)) {
            return context.reject(ticket, Rejection::Busy);
        }
        self.send_due_submissions(context);
    }

    fn on_answer(&mut self, context: &mut Context, barrier: Slot, answer: Payload) {
        let me = self.me();
        let wanted = self.replicated.state.barriers.get(&barrier).is_some_and(|open| open.waiting.contains(&me));
        let same = |request: &Request| matches!(request, Request::Answer { barrier: other, .. } if *other == barrier);
        if wanted && !self.submitter.is_waiting_for(same) {
            self.submitter.submit(context.now, Request::Answer { barrier, answer }, None);
            self.send_due_submissions(context);
        }
    }

    fn on_order(&mut self, context: &mut Context, ticket: u64, order: Order) -> Turn {
        match order {
            Order::Depart(node) => self.on_request(context, ticket, &Payload::default(), Request::Depart { node }),
            Order::Operate(wish) => self.on_request(context, ticket, &Payload::default(), Request::Operate(wish)),
            Order::Pause => self.on_request(context, ticket, &Payload::default(), Request::Pause),
            Order::Recover => {
                if self.paxos.is_leading().is_none() && self.replicated.state.members.contains_key(&self.me()) {
                    return Turn::Recover { ticket };
                }
                context.reject(ticket, Rejection::NotPossible);
            }
        }
        Turn::Stay
    }

    /// Goes on alone, in a new generation, once the disk has that. Until then nothing is said.
    pub(crate) fn recover(&mut self, context: &mut Context, ticket: u64) {
        let number = self.paxos.generation().number.saturating_add(1);
        let generation = Generation { number, by: self.me() };
        self.recovery = Some(ticket);
        self.settle(context);
        self.paxos.lead_alone(context.now, generation, Cause::Recovered { generation });
        while let Some(action) = self.paxos.poll() {
            if !matches!(action, Action::Send { .. }) {
                self.on_action(context, action);
            }
        }
    }

    /// The record that everything waited for is safe.
    pub(crate) fn on_gate(&mut self, context: &mut Context, gate: JournalSeq) {
        self.paxos.on_persisted(context.now, gate);
        self.settle(context);
    }

    fn on_wake(&mut self, context: &mut Context) {
        if context.now >= self.paxos.due() {
            self.paxos.on_wake(context.now);
        }
        self.send_due_submissions(context);
        self.on_fetch_due(context);
        if context.now >= self.report_due {
            self.report_due = context.now + context.config.timing.heartbeat;
            self.report(context);
            self.acclimate(context);
            self.say_where(context);
            self.trim(context);
            self.judge(context);
            self.tell_current(context);
        }
    }

    pub(crate) fn send_due_submissions(&mut self, context: &mut Context) {
        if context.now < self.submitter.due() {
            return;
        }
        for (attempts, submission) in self.submitter.take_due(context.now, &mut context.rng) {
            let leader = self.paxos.leader();
            if leader == Some(self.me()) {
                self.on_submission(context, submission, None);
                continue;
            }
            // The link to the leader may be the one that is cut: every other try goes through whoever feeds this node.
            let around = self.paxos.feeder().filter(|_| attempts % 2 == 1);
            if let Some(node) = around.or(leader) {
                self.send(context, node, Message::Cluster(ClusterMessage::Submit(Submit { submission })));
            }
        }
    }

    /// Tells whoever feeds this node how far it is and whom it has heard.
    fn report(&mut self, context: &mut Context) {
        if self.paxos.is_leading().is_some() {
            return;
        }
        let leader = self.paxos.leader().unwrap_or(self.replicated.state.government.leader());
        let likely = self.paxos.feeder().into_iter().chain([leader]).chain(self.replicated.state.government.voters());
        let able = |node: &NodeId| *node != self.me() && !self.known_dead.contains_key(node);
        if let Some(target) = likely.into_iter().find(able) {
            let report = Report {
                sent: context.now,
                position: self.replicated.state.applied,
                level: context.config.level,
                vitals: context.vitals(self.ahead(context)),
                sightings: std::mem::take(&mut self.sightings).into_values().collect(),
                dead: std::mem::take(&mut self.dead).into_iter().collect(),
            };
            self.send(context, target, Message::Cluster(ClusterMessage::Report(report)));
        }
        if self.paxos.feeder().is_none() {
            self.ask_around(context);
        }
    }

    /// Nobody feeds this node. Everybody it knows may be gone, or cut off; whoever it was told to join may know more.
    fn ask_around(&mut self, context: &mut Context) {
        let others: Vec<Address> =
            context.config.join.iter().filter(|address| **address != context.config.address).cloned().collect();
        if let Some(address) = context.rng.pick(&others).cloned() {
            let missing = atoll_paxos::message::Missing { position: self.replicated.state.applied };
            let message = Message::Paxos(atoll_paxos::Message::Missing(missing));
            context.send(&self.signature(), Recipient::at(address), message);
        }
    }

    fn acclimate(&mut self, context: &mut Context) {
        let arriving = self
            .replicated
            .state
            .members
            .get(&self.me())
            .is_some_and(|member| member.is_arriving() && member.incarnation == self.identity.incarnation);
        let asked = self.submitter.is_waiting_for(|request| matches!(request, Request::Acclimated));
        if arriving && !asked && self.paxos.is_in_step() {
            self.submitter.submit(context.now, Request::Acclimated, None);
            self.send_due_submissions(context);
        }
    }

    /// This life listens elsewhere for clients than the one before it did.
    fn say_where(&mut self, context: &mut Context) {
        let mine = |member: &&atoll_cluster::Member| member.incarnation == self.identity.incarnation;
        let recorded = self.replicated.state.members.get(&self.me()).filter(mine);
        let moved = recorded.is_some_and(|member| member.endpoints != context.config.endpoints);
        if moved && !self.submitter.is_waiting_for(|request| matches!(request, Request::Reached(_))) {
            self.submitter.submit(context.now, Request::Reached(context.config.endpoints.clone()), None);
            self.send_due_submissions(context);
        }
    }

    fn trim(&mut self, context: &mut Context) {
        let Some(slot) = self.paxos.trimmable() else { return };
        if context.config.durable {
            let checkpoint = self.checkpoint(self.replicated.snapshot());
            self.paxos.persist(Record::Checkpoint(checkpoint));
        }
        self.paxos.trim(slot);
    }

    /// The journal is long.
    fn condense(&mut self) {
        let checkpoint = self.checkpoint(self.replicated.snapshot());
        self.paxos.persist(Record::Checkpoint(checkpoint));
    }

    pub(crate) fn checkpoint(&self, snapshot: Snapshot) -> Checkpoint {
        Checkpoint {
            identity: self.identity.clone(),
            promised: self.paxos.promised(),
            tail: self.paxos.log().tail(snapshot.slot),
            slot: snapshot.slot,
            decided: snapshot.slot,
            snapshot: snapshot.bytes,
        }
    }

    /// Where and in which life `node` is, as far as this node knows.
    pub(crate) fn recipient(&self, node: NodeId) -> Option<Recipient> {
        if let Some(contact) = self.contacts.get(&node) {
            return Some(Recipient { address: contact.address.clone(), node, cookie: contact.incarnation.cookie });
        }
        let member = self.replicated.state.members.get(&node)?;
        Some(Recipient { address: member.address.clone(), node, cookie: member.incarnation.cookie })
    }

    pub(crate) fn send(&self, context: &mut Context, node: NodeId, message: Message) {
        if let Some(recipient) = self.recipient(node) {
            context.send(&self.signature(), recipient, message);
        }
    }

    /// Does what Paxos wants done, and what a leader has to do, until there is nothing left.
    pub(crate) fn settle(&mut self, context: &mut Context) {
        loop {
            while let Some(action) = self.paxos.poll() {
                self.on_action(context, action);
            }
            if self.leader != self.paxos.leader() {
                self.leader = self.paxos.leader();
                self.submitter.on_new_leader(context.now);
                self.send_due_submissions(context);
            }
            self.submit_reports(context);
            if !self.serve(context) {
                break;
            }
            self.paxos.flush();
        }
    }

    fn on_action(&mut self, context: &mut Context, action: Action) {
        match action {
            Action::Send { to, message } => self.send(context, to, Message::Paxos(message)),
            Action::Persist { seq, record } => context.persist(seq, record),
            Action::Decided { slot, entry } => self.apply(context, slot, &entry),
            Action::Leading { ballot, slot } => {
                let mut office = Office::new(context, &self.replicated.state);
                if let Some(silent) = self.paxos.forerunner() {
                    office.health.on_forerunner(silent.node, silent.heard, silent.asked);
                }
                self.office = Some(office);
                context.event(Event::Leading { ballot, slot });
                if let Some(ticket) = self.recovery.take() {
                    context.submitted(ticket, slot);
                }
            }
            Action::SteppedDown { ballot } => {
                if self.office.take().is_some() {
                    context.event(Event::SteppedDown { ballot });
                }
            }
            Action::TooOld { node } => {
                let offer = Offer { slot: self.replicated.state.applied };
                self.send(context, node, Message::Cluster(ClusterMessage::Offer(offer)));
            }
            Action::Trimmed { slot } => context.event(Event::Trimmed { slot }),
        }
    }

    fn apply(&mut self, context: &mut Context, slot: Slot, entry: &Arc<Entry>) {
        let Applied { effects, roster_changed, answer } = self.replicated.apply(slot, entry);
        context.event(Event::Decided { slot, entry: entry.clone() });
        if let Body::Government(government) = &entry.body {
            context.event(Event::Government { slot, government: government.clone() });
            self.look_again();
            if let Cause::Recovered { .. } = government.cause {
                self.keeper = Keeper::new(context.config.limits.snapshots); // Those of the old generation are void.
            }
        }
        for effect in effects {
            self.on_effect(context, slot, effect, &answer);
        }
        self.tell_changes(context, roster_changed);
        self.currency.on_applied(slot);
        self.tell_current(context);
        if let Some(office) = &mut self.office {
            office.orders.think = true;
        }
    }

    fn on_effect(&mut self, context: &mut Context, slot: Slot, effect: Effect, answer: &Payload) {
        let mine = |node, cookie| node == self.me() && cookie == self.identity.incarnation.cookie;
        match effect {
            Effect::Taken { node, cookie, sequence } => {
                if mine(node, cookie)
                    && let Some(Some(ticket)) = self.submitter.on_taken(sequence)
                {
                    context.event(Event::Submitted { ticket, slot, answer: answer.clone() });
                }
            }
            Effect::NotPossible { node, cookie, sequence } => {
                if mine(node, cookie)
                    && let Some(Some(ticket)) = self.submitter.on_taken(sequence)
                {
                    context.reject(ticket, Rejection::NotPossible);
                }
            }
            Effect::Delivered { node, cookie, sequence, payload } => {
                context.event(Event::Delivered { slot, node, cookie, sequence, payload });
            }
            Effect::BarrierOpened { barrier } => self.tell_barrier(context, barrier),
            Effect::BarrierReduced { barrier, answers } => {
                context.event(Event::BarrierReduced { barrier, slot, answers });
            }
            Effect::Arrived { node } => {
                self.note_absences(context.now);
                self.on_arrived(context, node);
            }
            Effect::Departed { node } => {
                self.contacts.remove(&node);
                self.known_dead.remove(&node);
                self.note_absences(context.now);
            }
            Effect::StandingChanged => self.note_absences(context.now),
            Effect::Reports { .. } | Effect::Operation { .. } => {} // Done already.
            Effect::LevelRaised { level } => context.event(Event::LevelRaised { level }),
        }
    }

    /// Whoever is absent or has no state yet passes nothing on.
    pub(crate) fn note_absences(&mut self, now: Time) {
        let absent = self.replicated.state.absent();
        self.absent_since.retain(|node, _| absent.contains(node));
        for node in absent {
            self.absent_since.entry(node).or_insert(now);
        }
        self.look_again();
        let active = self.replicated.state.active();
        let idle = self.replicated.state.members.keys().copied().filter(|node| !active.contains(node)).collect();
        self.paxos.set_absent(idle);
    }

    /// If this node leads: another government may be called for.
    fn look_again(&mut self) {
        if let Some(office) = &mut self.office {
            office.look_again = true;
        }
    }

    fn tell_barrier(&self, context: &mut Context, barrier: Slot) {
        if let Some(open) = self.replicated.state.barriers.get(&barrier)
            && open.waiting.contains(&self.me())
        {
            context.event(Event::BarrierOpened { barrier, payload: open.payload.clone() });
        }
    }

    pub(crate) fn tell_open_barriers(&self, context: &mut Context) {
        let open: Vec<Slot> = self.replicated.state.barriers.keys().copied().collect();
        open.into_iter().for_each(|barrier| self.tell_barrier(context, barrier));
    }

    /// This node loses its place: nobody here will learn what becomes of what it submitted.
    pub(crate) fn abandon(&mut self, context: &mut Context) {
        if let Some(ballot) = self.paxos.is_leading() {
            context.event(Event::SteppedDown { ballot });
        }
        for ticket in self.submitter.abandon().into_iter().chain(self.recovery.take()) {
            context.event(Event::Unknown { ticket });
        }
    }

    pub(crate) fn view<'a>(&'a self, counters: &'a Counters) -> View<'a> {
        let log = self.paxos.log();
        let (slot, government) = self.paxos.government();
        View {
            identity: Some(&self.identity),
            generation: self.paxos.generation(),
            promised: self.paxos.promised(),
            trimmed: log.trimmed(),
            decided: log.decided(),
            last: log.last(),
            leading: self.paxos.is_leading(),
            leader: self.paxos.leader(),
            government: Some((slot, government)),
            state: Some(&self.replicated.state),
            distributor: Some(&self.replicated.distributor),
            waiting: None,
            counters,
        }
    }

    pub(crate) fn count(&self, counters: &mut Counters) {
        counters.elections = self.paxos.elections();
        counters.outstanding = self.submitter.gauge();
        counters.pipeline = self.paxos.pipeline_gauge();
        counters.log = self.paxos.log_gauge();
        if let Some(office) = &self.office {
            counters.submissions = office.submissions.gauge();
            counters.arrivals = office.arrivals.gauge();
        }
    }

    pub(crate) fn check(&self) {
        self.paxos.check();
        self.replicated.check();
        assert_eq!(self.replicated.state.applied, self.paxos.log().decided(), "everything decided is applied");
        assert_eq!(self.office.is_some(), self.paxos.is_leading().is_some(), "an office goes with the lead");
    }
}
