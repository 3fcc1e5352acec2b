//! The rules, one file each, and what they share: the canonical logs, the ledger of votes, the roll of members.
//!
//! Each rule is a struct, or a function where it needs no memory, that is told what happens and says when it is broken.
//! The checkers see everything: they know what a host's disk holds, who is alive, and what was decided first.

mod agreement;
mod audit;
mod barrier;
mod bucket;
mod callers;
mod clocks;
mod founding;
mod government;
mod identity;
mod leader;
mod ledger;
mod linear;
mod lines;
mod logs;
mod model;
mod once;
mod positions;
mod quorum;
mod roll;
mod series;
mod snapshot;
mod stale;
mod trim;

pub(crate) use bucket::Arriving as BucketArriving;
pub(crate) use identity::Arriving;

use crate::Violation;
use crate::clock::Moment;
use crate::host::Host;
use crate::plan::host_name;
use agreement::Agreement;
use atoll_node::{BucketEvent, Config, Envelope, Event, Message};
use atoll_types::{Body, ClusterId, Entry, Government, Identity, Record, Slot};
use roll::{Reduced, Roll};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Checks {
    logs: logs::Logs,
    /// One per log.
    rolls: Vec<Roll>,
    ledger: ledger::Ledger,
    agreement: Agreement,
    quorum: quorum::Quorum,
    leaders: leader::Leaders,
    pub(crate) once: once::Once,
    barriers: barrier::Barriers,
    identities: identity::Identities,
    snapshots: snapshot::Snapshots,
    foundings: founding::Foundings,
    pub(crate) buckets: bucket::BucketChecks,
    pub(crate) audit: audit::Audit,
    pub(crate) clocks: clocks::Clocks,
    decided: u64,
    /// Steps of orders that changed who serves a bucket.
    pub(crate) moves: u64,
}

impl Checks {
    pub(crate) fn new(configs: &[Config]) -> Checks {
        let hosts = configs.len();
        Checks {
            logs: logs::Logs::default(),
            rolls: Vec::new(),
            ledger: ledger::Ledger::new(hosts),
            agreement: Agreement::new(hosts),
            quorum: quorum::Quorum::new(hosts),
            leaders: leader::Leaders::default(),
            once: once::Once::default(),
            barriers: barrier::Barriers::new(hosts),
            identities: identity::Identities::new(hosts),
            snapshots: snapshot::Snapshots::default(),
            foundings: founding::Foundings::new(configs),
            buckets: bucket::BucketChecks::new(hosts),
            audit: audit::Audit::new(&configs.first().map(|config| config.timing.clone()).unwrap_or_default()),
            clocks: clocks::Clocks::new(configs),
            decided: 0,
            moves: 0,
        }
    }

    /// Entries decided, in all logs.
    pub(crate) fn decided(&self) -> u64 {
        self.decided
    }

    pub(crate) fn on_start(&mut self, hosts: &[Host], host: usize, blank: bool) -> Result<(), Violation> {
        if let Some(view) = hosts[host].view() {
            self.agreement.on_start(&self.logs, host, &view, blank);
            self.identities.on_start(&hosts[host], &view);
        }
        self.quorum.on_start(&self.ledger, host);
        self.buckets.on_start(hosts, host, blank);
        self.barriers.begin_after(host, Slot::ZERO);
        Ok(())
    }

    pub(crate) fn on_stop(&mut self, hosts: &[Host], host: usize, loses: bool) {
        self.agreement.on_stop(host, loses);
        self.once.on_stop(host);
        self.buckets.on_stop(hosts, host, loses);
        self.audit.callers.on_stop(host);
        if loses {
            self.identities.retire(host);
            self.ledger.forget_writer(host);
            self.foundings.forget(hosts, host);
        }
    }

    /// These records of the host are safe now.
    pub(crate) fn on_safe(&mut self, machine: &mut Host, host: usize, records: &[Record]) {
        for record in records {
            self.ledger.apply(host, record);
            match record {
                Record::Bucket(record) => self.buckets.on_safe(host, record),
                // Also where a shard that hangs has not thrown away its copies yet.
                Record::Blank { .. } => self.buckets.on_blank(host),
                Record::Identity(_)
                | Record::Checkpoint(_)
                | Record::Promised(_)
                | Record::Accepted { .. }
                | Record::Learned { .. }
                | Record::Decided(_)
                | Record::Fenced(_)
                | Record::Unreadable => {}
            }
        }
        machine.kept = self.ledger.writer(host);
    }

    pub(crate) fn on_ordered(&mut self, hosts: &[Host], host: usize, record: &Record) -> Result<(), Violation> {
        self.quorum.on_ordered(host, record)?;
        if let Record::Bucket(record) = record {
            self.buckets.on_record(hosts, host, record);
        }
        if let Record::Accepted { ballot, first, entries } = record
            && let Some(writer) = hosts[host].identity()
        {
            self.leaders.on_vote(writer, host, *ballot, *first, entries)?;
        }
        Ok(())
    }

    pub(crate) fn on_send(&mut self, hosts: &[Host], host: usize, envelope: &Envelope) -> Result<(), Violation> {
        self.buckets.on_send(hosts, host, envelope)?;
        match &envelope.message {
            Message::Paxos(atoll_paxos::Message::Prepare(prepare)) => {
                quorum::Quorum::on_prepare(&self.ledger, host, envelope, prepare.ballot)?;
            }
            Message::Paxos(atoll_paxos::Message::Accept(accept)) => {
                if let Some(lineage) = self.agreement.lineage(host) {
                    self.leaders.on_mark(self.logs.get(lineage), host, accept.ballot, accept.decided)?;
                }
            }
            Message::Paxos(_) | Message::Cluster(_) | Message::Shard(_) => {}
        }
        self.identities.on_send(host, envelope)
    }

    pub(crate) fn after_arrival(
        &mut self,
        hosts: &[Host],
        host: usize,
        (arriving, of_bucket): &(Arriving, BucketArriving),
    ) -> Result<(), Violation> {
        self.buckets.after_arrival(hosts, host, of_bucket)?;
        self.identities.after_arrival(hosts, host, arriving)
    }

    pub(crate) fn on_bucket_event(
        &mut self,
        hosts: &[Host],
        (host, by): (usize, Option<&Identity>),
        event: &BucketEvent,
        now: Moment,
    ) -> Result<(), Violation> {
        self.buckets.on_event(hosts, (host, by), event)?;
        self.audit.on_event(hosts, host, event, now)
    }

    /// Gives whether the event tells something that nobody knew.
    pub(crate) fn on_event(&mut self, hosts: &[Host], host: usize, event: &Event) -> Result<bool, Violation> {
        let lineage = self.agreement.lineage(host);
        match event {
            Event::Decided { slot, entry } => return self.on_decided(hosts, host, *slot, entry),
            Event::Named { .. } => {
                if let Some(view) = hosts[host].view() {
                    self.identities.on_named(hosts, host, &view)?;
                }
            }
            Event::Delivered { slot, payload, .. } => {
                let Some(lineage) = lineage else { return Err(stray(host, event)) };
                self.once.on_delivered(lineage, host, *slot, payload)?;
            }
            Event::BarrierReduced { barrier, slot, answers } => {
                let reduced = Reduced { barrier: *barrier, at: *slot, answers: answers.clone() };
                self.barriers.on_reduced(host, reduced);
            }
            Event::Submitted { ticket, slot, .. } => {
                let skipped = self.agreement.installed(host) == *slot;
                self.once.on_submitted(&self.logs, lineage, host, *ticket, *slot, skipped)?;
            }
            Event::Rejected { ticket, .. } => self.once.on_rejected(host, *ticket)?,
            Event::Unknown { ticket } => self.once.on_unknown(host, *ticket)?,
            Event::Leading { ballot, slot } => {
                let Some((cluster, node)) = hosts[host].identity() else { return Err(stray(host, event)) };
                self.leaders.on_leading(cluster, host, node, *ballot, *slot)?;
            }
            Event::SnapshotInstalled { slot, digest } => {
                let Some(view) = hosts[host].view() else { return Err(stray(host, event)) };
                let lineage = self.agreement.on_snapshot(&self.logs, host, &view, *slot)?;
                self.snapshots.on_installed(lineage, host, *slot, *digest)?;
                self.barriers.begin_after(host, *slot);
            }
            Event::SnapshotMade { slot, digest } => {
                let Some(lineage) = lineage else { return Err(stray(host, event)) };
                self.snapshots.on_made(lineage, host, *slot, *digest)?;
            }
            Event::Trimmed { slot } => {
                let Some(lineage) = lineage else { return Err(stray(host, event)) };
                trim::on_trimmed(&self.rolls[lineage], hosts, host, *slot)?;
            }
            Event::Departed { .. } => {
                self.identities.retire(host);
                self.foundings.forget(hosts, host);
                self.agreement.on_void(host);
                self.barriers.begin_after(host, Slot::ZERO);
            }
            Event::Fenced { .. } => {
                self.agreement.on_void(host);
                self.barriers.begin_after(host, Slot::ZERO);
            }
            Event::BarrierOpened { .. }
            | Event::SteppedDown { .. }
            | Event::Government { .. }
            | Event::LevelRaised { .. }
            | Event::Alarm(_) => {}
        }
        Ok(true)
    }

    fn on_decided(&mut self, hosts: &[Host], host: usize, slot: Slot, entry: &Arc<Entry>) -> Result<bool, Violation> {
        let Some(view) = hosts[host].view() else { return Ok(false) };
        // A life that begins in the middle has nothing to tell of what was reduced before.
        if self.agreement.position(host) == Slot::ZERO && slot > Slot(1) {
            self.barriers.begin_after(host, slot.previous());
        }
        let placed = self.agreement.on_decided(&mut self.logs, host, &view, slot, entry)?;
        if let Some((parent, fork)) = placed.forked {
            self.once.on_fork(parent, fork, placed.lineage);
            self.snapshots.on_fork(parent, fork, placed.lineage);
        }
        while self.rolls.len() <= placed.lineage {
            self.rolls.push(Roll::default());
            if let Some((parent, fork)) = placed.forked {
                let roll = &mut self.rolls[placed.lineage];
                self.logs.get(parent).up_to(fork).for_each(|(slot, entry)| roll.apply(slot, entry));
            }
        }
        if !placed.fresh {
            return Ok(false);
        }
        self.decided += 1;
        let log = self.logs.get(placed.lineage);
        if slot == Slot(1) {
            self.foundings.on_founded(hosts, host, log.cluster)?;
        }
        self.quorum.on_decided(&self.ledger, log, host, &view, slot)?;
        let roll = &mut self.rolls[placed.lineage];
        // A recovery takes over what was accepted before, governments that were never decided with it.
        if !log.is_recovering_at(slot) || log.recovered == Some(slot) {
            government::on_entry(log, roll, slot, entry)?;
        }
        self.identities.on_entry(log.cluster, log.generation, entry)?;
        if let Body::Edict(edict) = &entry.body {
            self.clocks.on_edict(hosts, log.cluster, edict)?;
        }
        roll.apply(slot, entry);
        self.buckets.on_decided(placed.lineage, log, slot, entry)?;
        if let Body::Order(order) = &entry.body {
            self.moves += order.steps.len() as u64;
        }
        self.leaders.forget_below(log.cluster, slot);
        Ok(true)
    }

    pub(crate) fn after_step(&mut self, hosts: &[Host], host: usize) -> Result<(), Violation> {
        self.buckets.after_step(hosts, host)?;
        let Some(view) = hosts[host].view() else { return Ok(()) };
        if view.identity.is_none() && self.identities.is_named(host) {
            // It gave up its place without a word; the id is as gone as after a departure.
            self.identities.retire(host);
            self.foundings.forget(hosts, host);
        }
        self.identities.after_step(host, &view);
        self.quorum.after_step(host, &view);
        let lineage = self.agreement.lineage(host);
        if let Some(identity) = view.identity {
            self.leaders.after_step(&self.logs, &self.ledger, identity.cluster, lineage)?;
        }
        let Some(lineage) = lineage else { return Ok(()) };
        let position = self.agreement.position(host);
        self.barriers.after_step(host, &self.rolls[lineage].reduced, position)?;
        if let Some(state) = view.state {
            if position != Slot::ZERO && view.decided != position {
                let detail = format!("{} told {position} and knows {} decided", host_name(host), view.decided);
                return Err(Violation::of("agreement", detail));
            }
            self.snapshots.on_history(lineage, host, view.decided, state.history)?;
        }
        Ok(())
    }

    /// After everything has healed: nothing that was decided is missing.
    pub(crate) fn at_the_end(&self, hosts: &[Host]) -> Result<(), Violation> {
        for (host, machine) in hosts.iter().enumerate() {
            let (Some(view), Some(lineage)) = (machine.view(), self.agreement.lineage(host)) else { continue };
            if view.decided < self.logs.get(lineage).newest() {
                let newest = self.logs.get(lineage).newest();
                let detail = format!("{} has {} of {newest} decided entries", host_name(host), view.decided);
                return Err(Violation::of("agreement", detail));
            }
        }
        Ok(())
    }

    /// The latest decided government of the log that this host is in.
    pub(crate) fn government_of(&self, host: usize) -> Option<&Government> {
        Some(self.logs.get(self.agreement.lineage(host)?).latest_government()?.1)
    }

    /// The latest decided government of the newest generation that anybody is in.
    pub(crate) fn newest_government(&self, hosts: &[Host]) -> Option<(ClusterId, &Government)> {
        let inhabited = (0..hosts.len()).filter(|&host| hosts[host].identity().is_some());
        let lineages = inhabited.filter_map(|host| self.agreement.lineage(host));
        let newest = lineages.max_by_key(|&lineage| self.logs.get(lineage).generation)?;
        let log = self.logs.get(newest);
        Some((log.cluster, log.latest_government()?.1))
    }

    /// Does the host, up or down, have a copy of the cluster's state, and a place in it?
    pub(crate) fn has_state(&self, hosts: &[Host], host: usize) -> bool {
        match hosts[host].view() {
            Some(view) => {
                let place = view.identity.and_then(|me| view.state?.members.get(&me.node));
                place.is_some()
            }
            None => {
                let votes = hosts[host].kept.and_then(|(cluster, node)| self.ledger.of(cluster, node));
                votes.is_some_and(|votes| votes.knows() > Slot::ZERO)
            }
        }
    }
}

fn stray(host: usize, event: &Event) -> Violation {
    Violation::of("agreement", format!("{} raises {event:?} and belongs to no log", host_name(host)))
}
