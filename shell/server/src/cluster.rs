//! The thread that owns the cluster machine: the cluster log, who belongs to the cluster, who serves what.

use crate::clock::Clock;
use crate::inbox::Inbox;
use crate::log::Log;
use crate::peers::Links;
use crate::shard::ToShard;
use crate::status::{Board, Snapshot};
use crate::switch::Switch;
use atoll_distributor::{Hypothesis, Plan};
use atoll_node::shard::door::Directive;
use atoll_node::{Cluster, Event, Input, Order, Output, Rejection};
use atoll_types::{Slot, Time};
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
    pub(crate) core: Cluster,
    pub(crate) clock: Clock,
    pub(crate) switch: Arc<Switch>,
    pub(crate) links: Links,
    pub(crate) board: Arc<Board>,
    pub(crate) log: Arc<Log>,
    pub(crate) askers: BTreeMap<u64, oneshot::Sender<Ordered>>,
    pub(crate) tickets: u64,
    pub(crate) wake: Time,
    /// Something may look different, since then.
    pub(crate) changed: Option<Time>,
    /// When a peer was last heard.
    pub(crate) heard: Time,
    /// An operator wants this node gone.
    pub(crate) ordered_out: bool,
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
                self.core.handle(now, Input::Wake);
                // A cluster of one node changes by its own alarms only: nobody sends it anything.
                self.changed.get_or_insert(now);
            }
            self.carry_out(now);
            self.note_orders();
            self.links.flush();
            let shown = self.show(now);
            alarm.as_mut().reset(Instant::from_std(self.clock.instant(self.wake.min(shown))));
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
        }
        self.changed.get_or_insert(now);
    }

    fn carry_out(&mut self, now: Time) {
        while let Some(output) = self.core.poll() {
            match output {
                Output::Send { to, envelope } => self.links.send(&to, &envelope),
                // Nothing outlives this process, so there is nothing to wait for.
                Output::Persist { seq, .. } => self.core.handle(now, Input::Persisted(seq)),
                Output::WakeAt(time) => self.wake = time,
                Output::Directive(directive) => {
                    if let Directive::Table(table) = &directive {
                        self.switch.set_width(table.width);
                    }
                    for shard in &self.switch.shards {
                        shard.push(ToShard::Directive(directive.clone()));
                    }
                }
                Output::Event(event) => self.on_event(event),
                // Of shards, which are on threads of their own.
                Output::Answer { .. } | Output::Bucket(_) => {}
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Decided { slot, entry } => self.log.append(slot, entry),
            Event::Submitted { ticket, slot, .. } => self.tell(ticket, Ordered::Taken(slot)),
            Event::Rejected { ticket, rejection } => self.tell(ticket, Ordered::Rejected(rejection)),
            Event::Unknown { ticket } => self.tell(ticket, Ordered::Unknown),
            Event::Government { slot, government } => {
                info!(%slot, leader = %government.leader(), "a government is in effect");
                self.log.government(government.leader());
            }
            Event::Named { node, .. } => info!(%node, "this node belongs to the cluster"),
            Event::Departed { at } => {
                self.log.clear();
                if self.ordered_out {
                    warn!(%at, "this node departed, as an operator wanted");
                    self.board.say_gone();
                } else {
                    warn!(%at, "this node departed; it arrives anew");
                }
            }
            Event::Fenced { generation } => {
                warn!(%generation, "a later generation exists");
                self.log.clear();
            }
            Event::SnapshotInstalled { .. } => self.log.clear(),
            Event::Alarm(alarm) => warn!(alarm, "alarm"),
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

    fn tell(&mut self, ticket: u64, ordered: Ordered) {
        if let Some(asker) = self.askers.remove(&ticket) {
            let _ = asker.send(ordered);
        }
    }

    /// One that an operator drained or removed must not come back by itself: that would undo it.
    fn note_orders(&mut self) {
        let view = self.core.view();
        let (Some(state), Some(distributor), Some(me)) = (view.state, view.distributor, view.identity) else { return };
        let drained = distributor.nodes().get(&me.node).is_some_and(|node| node.draining);
        self.ordered_out = drained || state.members.get(&me.node).is_some_and(|member| member.ordered_out);
    }

    /// Shows how things are, if that may have changed and some time has passed. Returns when to look again.
    fn show(&mut self, now: Time) -> Time {
        let Some(since) = self.changed else { return Time::NEVER };
        if now < since + LOOK {
            return since + LOOK;
        }
        self.changed = None;
        let silent = Some(now.since(self.heard)).filter(|silent| *silent > SILENCE);
        self.board.show(Snapshot::of(&self.core.view(), silent));
        Time::NEVER
    }
}
