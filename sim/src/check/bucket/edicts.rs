//! Every appointment that ever was, by cluster, bucket and epoch, and which log it goes on with. Rule 2: membership is
//! a function of the cluster log; whatever a node believes of an epoch is what the log made of it first.
//!
//! The canonical cluster logs are run through a distributor of the checkers' own, entry by entry, because an epoch may
//! begin and end within one step of every node. Whether what that distributor does is lawful, `eligible.rs` says.

use super::broken;
use super::canon::{Canons, LogId};
use super::eligible::{Cause, Eligible};
use crate::Violation;
use crate::check::logs::Lineage;
use atoll_cluster::{Effect, State};
use atoll_distributor::{Bucket, Decided, Distributor, Roster};
use atoll_node::{changes_standings, roster};
use atoll_types::{
    Body, BucketId, Cause as Why, ClusterId, Entry, Epoch, Generation, Incarnation, Mark, NodeId, Slot, SlotRange,
};
use std::collections::{BTreeMap, BTreeSet};

const RULE: &str = "appointment";

/// One appointment.
#[derive(Clone, Debug)]
pub(crate) struct Office {
    pub(crate) range: SlotRange,
    pub(crate) primary: NodeId,
    /// With the life that each was appointed in.
    pub(crate) members: BTreeMap<NodeId, Incarnation>,
    pub(crate) log: LogId,
    pub(crate) min_copies: usize,
    /// Since when the primary may commit.
    pub(crate) may_commit: Option<Slot>,
}

impl Office {
    fn is_of(&self, bucket: &Bucket) -> bool {
        let members = self.members.keys().eq(bucket.members());
        members && (self.range, self.primary) == (bucket.range, bucket.primary())
    }
}

/// One cluster log, run through a distributor.
#[derive(Debug)]
struct Shadow {
    cluster: ClusterId,
    state: State,
    distributor: Distributor,
    eligible: Eligible,
}

#[derive(Debug, Default)]
pub(crate) struct Edicts {
    /// One per canonical log.
    shadows: Vec<Shadow>,
    offices: BTreeMap<(ClusterId, BucketId, Epoch), Office>,
}

impl Edicts {
    pub(crate) fn get(&self, cluster: ClusterId, bucket: BucketId, epoch: Epoch) -> Option<&Office> {
        self.offices.get(&(cluster, bucket, epoch))
    }

    fn shadow(&self, cluster: ClusterId, generation: Generation) -> Option<&Shadow> {
        let mut shadows = self.shadows.iter().filter(|shadow| shadow.cluster == cluster);
        shadows.find(|shadow| shadow.state.generation == generation)
    }

    /// Has everybody gone who could serve the bucket?
    pub(crate) fn is_lost(&self, cluster: ClusterId, generation: Generation, bucket: BucketId) -> bool {
        self.shadow(cluster, generation).is_some_and(|shadow| shadow.eligible.is_lost(bucket))
    }

    /// With which log the bucket goes on now, if this node may serve it.
    pub(crate) fn log_of_eligible(
        &self,
        (cluster, generation): (ClusterId, Generation),
        bucket: BucketId,
        node: NodeId,
    ) -> Option<LogId> {
        let shadow = self.shadow(cluster, generation).filter(|shadow| shadow.eligible.is_eligible(bucket, node))?;
        let epoch = shadow.distributor.buckets().get(&bucket)?.epoch();
        Some(self.get(cluster, bucket, epoch)?.log)
    }

    /// The next entry of the log `lineage`. A log that began as a copy of another is run through from its beginning.
    pub(crate) fn on_decided(
        &mut self,
        canons: &mut Canons,
        lineage: usize,
        log: &Lineage,
        slot: Slot,
        entry: &Entry,
    ) -> Result<(), Violation> {
        while self.shadows.len() <= lineage {
            let (state, distributor, eligible) = (State::new(), Distributor::new(), Eligible::default());
            self.shadows.push(Shadow { cluster: log.cluster, state, distributor, eligible });
        }
        let known = self.shadows[lineage].state.applied;
        for (slot, entry) in log.up_to(slot.previous()).filter(|(slot, _)| *slot > known) {
            self.apply(canons, lineage, slot, entry)?;
        }
        self.apply(canons, lineage, slot, entry)
    }

    fn apply(&mut self, canons: &mut Canons, lineage: usize, slot: Slot, entry: &Entry) -> Result<(), Violation> {
        let shadow = &mut self.shadows[lineage];
        shadow.cluster = if shadow.cluster == ClusterId::NONE { shadow.state.cluster } else { shadow.cluster };
        let before = shadow.distributor.buckets().clone();
        shadow.apply(slot, entry)?;
        if shadow.distributor.take_changed().is_empty() && before.len() == shadow.distributor.buckets().len() {
            return Ok(());
        }
        let (cluster, min_copies) = (shadow.cluster, shadow.distributor.min_copies());
        for (&id, after) in shadow.distributor.buckets() {
            let key = (cluster, id, after.epoch());
            if before.get(&id).is_none_or(|before| before.epoch() != after.epoch()) && !self.offices.contains_key(&key)
            {
                let log = find_log(&self.offices, canons, cluster, &before, after)?;
                let life = |node: &NodeId| {
                    let member = shadow.state.members.get(node);
                    (*node, member.map(|member| member.incarnation).unwrap_or_default())
                };
                let members = after.members().iter().map(life).collect();
                let (range, primary) = (after.range, after.primary());
                let office = Office { range, primary, members, log, min_copies, may_commit: None };
                self.offices.insert(key, office);
            }
            if let Some(office) = self.offices.get_mut(&key)
                && office.may_commit.is_none()
                && shadow.eligible.may_commit(id, min_copies)
            {
                office.may_commit = Some(slot);
            }
        }
        Ok(())
    }

    /// What a node has made of the log is what was made of it here.
    pub(crate) fn must_agree(&self, who: &str, cluster: ClusterId, table: &Distributor) -> Result<(), Violation> {
        for (&id, bucket) in table.buckets() {
            let office = self.get(cluster, id, bucket.epoch());
            if !office.is_some_and(|office| office.is_of(bucket)) {
                let detail = format!("{who} has bucket {id} as {bucket:?}; by the log it is {office:?}");
                return Err(broken(RULE, detail));
            }
        }
        Ok(())
    }
}

/// With which log an epoch goes on.
fn find_log(
    offices: &BTreeMap<(ClusterId, BucketId, Epoch), Office>,
    canons: &mut Canons,
    cluster: ClusterId,
    before: &BTreeMap<BucketId, Bucket>,
    after: &Bucket,
) -> Result<LogId, Violation> {
    let id = after.id();
    if let Some(offset) = after.begins {
        let epoch = if offset.0 == 0 { Epoch::ZERO } else { after.epoch() };
        return Ok(canons.begin(Mark { epoch, offset }));
    }
    // Only the entry that divides it changes this.
    let known = before.get(&id).and_then(|before| before.divided);
    let divided = after.divided.filter(|divided| known != Some(*divided));
    let origin = divided.map_or(id, |(whole, _)| whole);
    let whole = before.get(&origin).and_then(|whole| Some((whole, offices.get(&(cluster, origin, whole.epoch()))?)));
    let Some((whole, office)) = whole else {
        return Err(broken(RULE, format!("bucket {id} comes out of nothing: {after:?}")));
    };
    match divided {
        Some((_, epoch)) => canons.halve(office.log, epoch),
        None if whole.revived != after.revived || whole.epoch().generations() != after.epoch().generations() => {
            Ok(canons.fork())
        }
        None => Ok(office.log),
    }
}

impl Shadow {
    fn apply(&mut self, slot: Slot, entry: &Entry) -> Result<(), Violation> {
        let generation = self.state.generation;
        let effects = self.state.apply(slot, entry);
        let at = Decided { slot, generation: self.state.generation, time: self.state.time };
        let founded =
            matches!(&entry.body, Body::Government(government) if matches!(government.cause, Why::Founded { .. }));
        if generation != at.generation || founded || effects.iter().any(changes_standings) {
            let roster = roster(&self.state);
            let forgotten = self.forgotten(&roster);
            self.distributor.on_roster(at, &roster);
            self.eligible.on_change(&self.distributor, &Cause::Roster { forgotten })?;
        }
        if let Body::Order(order) = &entry.body {
            self.distributor.on_order(at, order);
            self.eligible.on_change(&self.distributor, &Cause::Order(order))?;
        }
        for effect in &effects {
            match effect {
                Effect::Reports { node, reports } => {
                    // One that was removed before its report was decided has nothing to say.
                    let present = self.distributor.nodes().get(node).is_some_and(|node| node.standing.present);
                    for report in reports.iter().filter(|_| present) {
                        self.distributor.on_reports(at, *node, std::slice::from_ref(report));
                        self.eligible.on_change(&self.distributor, &Cause::Report { from: *node, report })?;
                    }
                }
                Effect::Operation { operation, .. } => {
                    let _impossible = self.distributor.on_operation(at, operation);
                    self.eligible.on_change(&self.distributor, &Cause::Operation(operation))?;
                }
                Effect::Taken { .. }
                | Effect::NotPossible { .. }
                | Effect::Delivered { .. }
                | Effect::BarrierOpened { .. }
                | Effect::BarrierReduced { .. }
                | Effect::Arrived { .. }
                | Effect::Departed { .. }
                | Effect::StandingChanged
                | Effect::LevelRaised { .. } => {}
            }
        }
        Ok(())
    }

    /// Those that departed, and those that came back without what they held.
    fn forgotten(&self, roster: &Roster) -> BTreeSet<NodeId> {
        let known = self.distributor.nodes().iter();
        let forgot = known.filter(|(node, known)| match roster.get(node) {
            None => true,
            Some(now) => !now.durable && now.incarnation != known.standing.incarnation,
        });
        forgot.map(|(&node, _)| node).collect()
    }
}
