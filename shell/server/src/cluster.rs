//! The thread that owns the cluster machine: the cluster log, who belongs to the cluster, who serves what.

use crate::advice;
use crate::clock::Clock;
use crate::disk::Desk;
use crate::events::{Book, Chronicle};
use crate::gauge::Gauge;
use crate::inbox::Inbox;
use crate::log::Log;
use crate::peers::Links;
use crate::recording::Taped;
use crate::shard::ToShard;
use crate::status::{Basis, Board, Gone, Snapshot};
use crate::switch::Switch;
use crate::waiting;
use atoll_distributor::{Hypothesis, Plan};
use atoll_node::shard::door::Directive;
use atoll_node::{Cluster, Event, Input, Order, Output, Rejection};
use atoll_types::{NodeId, Slot, Time};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::select;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

/// What people see is worked out at most this often.
const LOOK: Duration = Duration::from_millis(20);
/// A node that belongs to no cluster says what it waits for: first after so long, then every so often.
const FIRST_REMINDER: Duration = Duration::from_secs(3);
const REMINDER: Duration = Duration::from_secs(10);
/// A node that has heard nobody for this long is cut off, and says so. Far longer than between two heartbeats.
const SILENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) enum ToCluster {
    Input(Input),
    Order {
        order: Order,
        asker: oneshot::Sender<Ordered>,
    },
    /// What would happen if.
    Plan {
        what: Hypothesis,
        asker: oneshot::Sender<Option<Plan>>,
    },
    /// Is this thread at work?
    Ping(oneshot::Sender<()>),
}

/// What became of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordered {
    /// It stands in the log.
    Taken(Slot),
    Rejected(Rejection),
    /// It may be in the log, or not.
    Unknown,
}

pub(crate) struct ClusterThread {
    pub(crate) core: Taped<Cluster>,
    pub(crate) clock: Clock,
    pub(crate) switch: Arc<Switch>,
    pub(crate) links: Links,
    pub(crate) board: Arc<Board>,
    pub(crate) log: Arc<Log>,
    /// What happened, and where it is written.
    pub(crate) chronicle: Chronicle,
    pub(crate) book: Arc<Book>,
    /// Where there is a disk.
    pub(crate) desk: Option<Desk>,
    pub(crate) gauge: Gauge,
    /// Bytes that buckets may take; zero: no limit.
    pub(crate) memory_limit: u64,
    pub(crate) askers: BTreeMap<u64, oneshot::Sender<Ordered>>,
    pub(crate) tickets: u64,
    pub(crate) wake: Time,
    /// Something may look different, since then.
    pub(crate) changed: Option<Time>,
    /// What the last thing shown was worked out from.
    pub(crate) shown: Option<Basis>,
    /// When a peer was last heard.
    pub(crate) heard: Time,
    /// An operator wants this node gone.
    pub(crate) ordered_out: bool,
    /// While blank: when to say next what is waited for.
    pub(crate) reminder: Option<Time>,
    /// What was last complained of, and when: the core says it again with every answer.
    pub(crate) complaint: Option<(String, Time)>,
}

impl ClusterThread {
    /// For as long as the thread lives.
    pub(crate) async fn run(mut self) {
        let mut batch = Vec::new();
        let inbox: Arc<Inbox<ToCluster>> = self.switch.cluster.clone();
        let mut alarm = pin!(sleep_until(Instant::now()));
        loop {
            inbox.take(&mut batch);
            let now = self.clock.now();
            batch.drain(..).for_each(|item| self.give(now, item));
            if self.wake <= now {
                self.wake = Time::NEVER;
                self.core.handle(now, Input::Pulse(self.switch.pulse(&self.gauge)));
                self.core.handle(now, Input::Wake);
                // A cluster of one node changes by its own alarms only: nobody sends it anything.
                self.changed.get_or_insert(now);
            }
            self.carry_out(now);
            self.desk.iter_mut().for_each(Desk::send);
            self.note_orders();
            self.links.flush();
            self.switch.decided.to_peers.set(self.links.sent());
            let (shown, reminded) = (self.show(now), self.remind(now));
            alarm.as_mut().reset(Instant::from_std(self.clock.instant(self.wake.min(shown).min(reminded))));
            select! {
                () = inbox.filled() => {}
                () = &mut alarm => {}
            }
        }
    }

    fn give(&mut self, now: Time, item: ToCluster) {
        match item {
            ToCluster::Input(input) => {
                if matches!(input, Input::Message { .. }) {
                    self.heard = now;
                }
                if let Input::Persisted(seq) = input {
                    self.gauge.on_safe(seq);
                }
                self.core.handle(now, input);
            }
            ToCluster::Order { order, asker } => {
                self.tickets += 1;
                self.askers.insert(self.tickets, asker);
                self.core.handle(now, Input::Operator { ticket: self.tickets, order });
            }
            ToCluster::Plan { what, asker } => {
                let plan = self.core.view().distributor.map(|distributor| distributor.plan(&what));
                let _ = asker.send(plan);
            }
            ToCluster::Ping(asker) => drop(asker.send(())),
        }
        self.changed.get_or_insert(now);
    }

    fn carry_out(&mut self, now: Time) {
        while let Some(output) = self.core.poll() {
            match output {
                Output::Send { to, envelope } => self.links.send(&to, &envelope),
                Output::Persist { seq, record } => match &mut self.desk {
                    Some(desk) => {
                        self.gauge.on_ordered(seq);
                        desk.add(seq, &record);
                    }
                    // Nothing outlives this process, so there is nothing to wait for.
                    None => self.core.handle(now, Input::Persisted(seq)),
                },
                Output::WakeAt(time) => self.wake = time,
                Output::Directive(directive) => {
                    if let Directive::Table(table) = &directive {
                        self.switch.set_width(table.width);
                    }
                    for shard in &self.switch.shards {
                        shard.push(ToShard::Directive(directive.clone()));
                    }
                }
                Output::Event(event) => self.on_event(now, event),
                // Of shards, which are on threads of their own.
                Output::Answer { .. } | Output::Bucket { .. } => {}
            }
        }
    }

    fn on_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Decided { slot, entry } => {
                self.switch.decided.count(&entry);
                self.log.append(slot, entry.clone());
                self.chronicle.note(slot, entry);
            }
            Event::Submitted { ticket, slot, .. } => self.tell(ticket, Ordered::Taken(slot)),
            Event::Rejected { ticket, rejection } => self.tell(ticket, Ordered::Rejected(rejection)),
            Event::Unknown { ticket } => self.tell(ticket, Ordered::Unknown),
            Event::Government { slot, government } => {
                info!(%slot, leader = self.name(government.leader()), "a government is in effect");
                self.log.government(government.leader());
            }
            Event::Named { node, .. } => info!(id = node.0, "this node belongs to the cluster"),
            Event::Departed { at } => {
                self.clear();
                if self.ordered_out {
                    warn!(%at, "this node departed, as an operator wanted");
                    self.board.say_gone(Gone::Departed);
                } else {
                    warn!(%at, "this node departed; it arrives anew");
                }
            }
            Event::Fenced { generation } => {
                warn!(%generation, "a later generation exists");
                self.clear();
            }
            Event::SnapshotInstalled { .. } => self.clear(),
            Event::Alarm(alarm) => self.complain(now, alarm),
            Event::Leading { ballot, .. } => info!(?ballot, "this node leads"),
            Event::SteppedDown { .. } => info!("this node no longer leads"),
            Event::Delivered { .. }
            | Event::BarrierOpened { .. }
            | Event::BarrierReduced { .. }
            | Event::SnapshotMade { .. }
            | Event::Trimmed { .. }
            | Event::LevelRaised { .. } => {}
        }
    }

    /// What comes next does not follow on what was.
    fn clear(&mut self) {
        self.log.clear();
        self.chronicle.forget();
    }

    fn name(&self, node: NodeId) -> String {
        let member = self.core.view().state.and_then(|state| state.members.get(&node));
        member.map_or_else(|| node.to_string(), |member| member.name.to_string())
    }

    fn complain(&mut self, now: Time, alarm: String) {
        let known = self.complaint.as_ref().filter(|(known, at)| *known == alarm && now < *at + REMINDER);
        if known.is_none() {
            warn!("{alarm}");
            self.complaint = Some((alarm, now));
        }
    }

    /// Says what a blank node waits for, now and then. Returns when to do so again.
    fn remind(&mut self, now: Time) -> Time {
        let Some(waiting) = self.core.view().waiting else {
            self.reminder = None;
            return Time::NEVER;
        };
        let due = self.reminder.unwrap_or(now + FIRST_REMINDER);
        let due = if due <= now {
            warn!("{}", waiting::words(waiting));
            now + REMINDER
        } else {
            due
        };
        self.reminder = Some(due);
        due
    }

    fn tell(&mut self, ticket: u64, ordered: Ordered) {
        if let Some(asker) = self.askers.remove(&ticket) {
            let _ = asker.send(ordered);
        }
    }

    /// One that an operator drained or removed must not come back by itself: that would undo it.
    fn note_orders(&mut self) {
        let view = self.core.view();
        let (Some(state), Some(distributor), Some(me)) = (view.state, view.distributor, view.identity) else { return };
        // Nothing is left of either once the entry that lets it depart is applied here: what was so before counts. An
        // order for a former life does not: whoever started this one wants it here.
        let member = state.members.get(&me.node).filter(|member| member.incarnation == me.incarnation);
        if let Some(member) = member {
            let drained = distributor.nodes().get(&me.node).is_some_and(|node| node.draining);
            self.ordered_out = drained || member.ordered_out == Some(me.incarnation);
        }
    }

    /// Shows how things are, if that may have changed and some time has passed. Returns when to look again.
    fn show(&mut self, now: Time) -> Time {
        let Some(since) = self.changed else { return Time::NEVER };
        if now < since + LOOK {
            return since + LOOK;
        }
        self.changed = None;
        let silent = Some(now.since(self.heard)).filter(|silent| *silent > SILENCE);
        let view = self.core.view();
        self.board.count(view.counters);
        let memory = self.switch.pulse(&self.gauge).memory;
        let full = (self.memory_limit > 0 && memory > self.memory_limit / 10 * 9).then_some(memory);
        let basis = Basis::of(&view, silent, full);
        if basis.is_none() || basis != self.shown {
            let mut snapshot = Snapshot::of(&view, silent);
            self.chronicle.look(&view, snapshot.is_healthy(), now, &self.book);
            if let Some(memory) = full {
                let limit = self.memory_limit;
                let alarm = format!("this node's buckets take {memory} of {limit} bytes: growing writes are refused");
                snapshot.status.alarms.push(alarm);
                snapshot.status.advice.push(advice::OUT_OF_MEMORY.to_owned());
            }
            self.board.show(snapshot);
            self.shown = basis;
        }
        Time::NEVER
    }
}
