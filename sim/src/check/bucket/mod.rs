//! The rules of the bucket log, one file each or a few that need the same knowledge.
//!
//! | Rule | File |
//! |---|---|
//! | 1 epochs only grow, and are written down first; 2 one primary; acknowledged means held | `epochs.rs` |
//! | 2 membership is a function of the cluster log | `edicts.rs` |
//! | 3 every member; 6 not below `min_copies` | `commit.rs`; for reads that members vouch for `vouched.rs` |
//! | 4, 6, 9 who is eligible, what needs `settled`, what is lost | `eligible.rs` |
//! | 9 nobody throws away a copy that may have to serve | here |
//! | 5, 10, 11, 13, 14 what is committed stands, is all that is shown, gives one state | `canon.rs` |
//! | 7 nobody answers by a lease when another serves | here |
//! | 8 old lives | `lives.rs`, and in `epochs.rs` for acknowledgements |
//! | 15 a copy that cannot follow | here |
//! | placement, after all has healed | `placement.rs` |
//!
//! `copies.rs` is what the rules share: what the disks hold, and what was acknowledged.
//!
//! Events come while a host's outputs are carried out. Its core is then already as it is after all of them; what
//! an event says is compared with what was told before it, and with the cores of others, which stand still meanwhile.
//!
//! Not here: what clients see (histories), rule 12 (`check/mod.rs`: whatever is decided is applied).

mod canon;
mod commit;
mod copies;
mod edicts;
mod eligible;
mod epochs;
mod lives;
mod placement;
mod vouched;

pub(crate) use lives::Arriving;

use super::logs::Lineage;
use crate::Violation;
use crate::host::Host;
use crate::plan::host_name;
use atoll_node::shard::message::ShardMessage;
use atoll_node::{Envelope, Message};
use atoll_replica::Event;
use atoll_replica::message::Body;
use atoll_types::{BucketId, BucketRecord, ClusterId, Entry, Epoch, Identity, Incarnation, NodeId, Offset, Slot};
use canon::{Canons, LogId};
use copies::{Copies, is_known_damaged, replica};
use edicts::Edicts;
use epochs::Primaries;
use std::collections::BTreeSet;
use vouched::Vouched;

fn broken(rule: &str, detail: String) -> Violation {
    Violation::of(rule, detail)
}

/// Who does something.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(crate) host: usize,
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
}

impl Actor {
    fn of(host: usize, identity: &Identity) -> Actor {
        let Identity { cluster, node, incarnation } = *identity;
        Actor { host, cluster, node, incarnation }
    }
}

#[derive(Debug)]
pub(crate) struct BucketChecks {
    edicts: Edicts,
    canons: Canons,
    copies: Copies,
    primaries: Primaries,
    vouched: Vouched,
    /// Who each host was at the end of its last step: an event may be told by one that has departed since.
    actors: Vec<Option<Actor>>,
    /// How far each host's table was compared.
    compared: Vec<(ClusterId, Slot)>,
    /// Epochs that were served.
    served: BTreeSet<(ClusterId, BucketId, Epoch)>,
    /// Nodes that lost their memory for good with a disk that may have lost something before.
    rotten: BTreeSet<(ClusterId, NodeId)>,
    /// Found at the start of a process, told at its first step.
    found: Option<Violation>,
}

impl BucketChecks {
    pub(crate) fn new(hosts: usize) -> BucketChecks {
        BucketChecks {
            edicts: Edicts::default(),
            canons: Canons::default(),
            copies: Copies::new(hosts),
            primaries: Primaries::default(),
            vouched: Vouched::default(),
            actors: vec![None; hosts],
            compared: vec![(ClusterId::NONE, Slot::ZERO); hosts],
            served: BTreeSet::new(),
            rotten: BTreeSet::new(),
            found: None,
        }
    }

    /// Something new was decided in this cluster log. Comes before anything that any replica makes of it.
    pub(crate) fn on_decided(
        &mut self,
        lineage: usize,
        log: &Lineage,
        slot: Slot,
        entry: &Entry,
    ) -> Result<(), Violation> {
        self.edicts.on_decided(&mut self.canons, lineage, log, slot, entry)
    }

    pub(crate) fn on_start(&mut self, hosts: &[Host], host: usize, blank: bool) {
        if blank {
            self.copies.forget(host);
        }
        self.compared[host] = (ClusterId::NONE, Slot::ZERO);
        if let Some(missing) = self.copies.on_start(hosts, host) {
            let detail = format!("{} comes back without {missing}", host_name(host));
            self.found = Some(broken("restart", detail));
        }
    }

    pub(crate) fn on_stop(&mut self, hosts: &[Host], host: usize, loses: bool) {
        self.copies.on_stop(host);
        if loses {
            self.copies.forget(host);
            self.rotten.extend(hosts[host].identity().filter(|_| hosts[host].disk.is_rotten()));
        }
    }

    /// May the disk of this node have lost something? It may be gone, and its word still on its way.
    fn is_rotten(&self, hosts: &[Host], cluster: ClusterId, node: NodeId) -> bool {
        let is_its = |host: &Host| host.identity() == Some((cluster, node)) && host.disk.is_rotten();
        self.rotten.contains(&(cluster, node)) || hosts.iter().any(is_its)
    }

    /// The host has ordered this record.
    pub(crate) fn on_record(&mut self, hosts: &[Host], host: usize, record: &BucketRecord) {
        let (bucket, name) = (record.bucket(), host_name(host));
        let base = match record {
            BucketRecord::Began { base, .. } => base.offset,
            BucketRecord::Purged { .. } => return, // Told by an event as well, with a disk or without.
            BucketRecord::Seen { epoch, .. } => {
                let seen = self.copies.safely_seen(host, bucket);
                if *epoch < seen {
                    let detail = format!("{name} writes that it saw {epoch} of bucket {bucket}, after {seen}");
                    self.found = Some(broken("epoch", detail));
                }
                return;
            }
            BucketRecord::Appended { .. }
            | BucketRecord::Cut { .. }
            | BucketRecord::Copied { .. }
            | BucketRecord::Image { .. }
            | BucketRecord::Unreadable { .. }
            | BucketRecord::Divided { .. } => return,
        };
        let copy = self.copies.safely_held(host, bucket);
        // Of a whole that is damaged no half can be made.
        let whole = copy.map(|copy| copy.range.bucket()).filter(|whole| *whole != bucket);
        if whole.is_some_and(|whole| is_known_damaged(&hosts[host], whole)) {
            return;
        }
        let held = copy.map_or(Offset::ZERO, |held| held.last());
        if held > base && self.is_needed(hosts, host, bucket) {
            let detail = format!("{name} throws away {held} entries of bucket {bucket}, and may have to serve it");
            self.found = Some(broken("needed", detail));
        }
    }

    /// Rule 9: may this host be the next to serve the bucket, with what it holds?
    fn is_needed(&self, hosts: &[Host], host: usize, bucket: BucketId) -> bool {
        let (Some(actor), Some(view)) = (self.actor(hosts, host), hosts[host].view()) else { return false };
        if view.identity.is_none() {
            return false; // It departed: it never will.
        }
        let log = self.edicts.log_of_eligible((actor.cluster, view.generation), bucket, actor.node);
        log.is_some_and(|log| !self.canons.is_lossy(log))
    }

    /// This record is on the host's disk now.
    pub(crate) fn on_safe(&mut self, host: usize, record: &BucketRecord) {
        self.copies.on_safe(host, record);
    }

    /// The disk knows that this host has forgotten all.
    pub(crate) fn on_blank(&mut self, host: usize) {
        self.copies.forget_held(host);
    }

    pub(crate) fn on_send(&mut self, hosts: &[Host], host: usize, envelope: &Envelope) -> Result<(), Violation> {
        if let Message::Shard(ShardMessage::Vouched(answer)) = &envelope.message {
            self.vouched.on_send(envelope, answer);
        }
        let Message::Shard(ShardMessage::Replicas(messages)) = &envelope.message else { return Ok(()) };
        for message in messages {
            let serves = matches!(&message.body, Body::Write(write) if write.serving);
            if serves && !self.served.contains(&(envelope.cluster, message.bucket, message.epoch)) {
                let (name, epoch) = (host_name(host), message.epoch);
                let detail =
                    format!("{name} says that epoch {epoch} of bucket {} serves, and it does not", message.bucket);
                return Err(broken("epoch", detail));
            }
            epochs::on_send(&self.edicts, &mut self.copies, hosts, host, envelope, message)?;
        }
        Ok(())
    }

    /// A message was handled, of which `Arriving::of` told before what it must lead to.
    pub(crate) fn after_arrival(&self, hosts: &[Host], host: usize, arriving: &Arriving) -> Result<(), Violation> {
        lives::after_arrival(&hosts[host], host, arriving)
    }

    pub(crate) fn on_event(
        &mut self,
        hosts: &[Host],
        (host, by): (usize, Option<&Identity>),
        event: &Event,
    ) -> Result<(), Violation> {
        let name = host_name(host);
        // Copies that are thrown away before the process is anybody are those of whoever it was last.
        let Some(actor) = by.map(|by| Actor::of(host, by)).or_else(|| self.actor(hosts, host)) else {
            return Err(broken("epoch", format!("{name} raises {event:?} and belongs to no cluster")));
        };
        match event {
            Event::Serving { bucket, epoch, inherited } => {
                let (bucket, epoch, inherited) = (*bucket, *epoch, *inherited);
                self.served.insert((actor.cluster, bucket, epoch));
                epochs::may_act(&self.copies, hosts, host, bucket, epoch, "serves")?;
                let office = self.primaries.on_act(&self.edicts, hosts, &actor, bucket, epoch)?;
                commit::all_acknowledged(&self.copies, hosts, &actor, office, (bucket, epoch), inherited)?;
                if let Some(replica) = replica(&hosts[host], bucket) {
                    let (held, committed) = (replica.log(), replica.committed());
                    self.canons.on_serving(&name, (office.log, epoch), held, committed, inherited)?;
                }
            }
            Event::Committed { bucket, epoch, mark, entry } => {
                let (bucket, epoch) = (*bucket, *epoch);
                epochs::may_act(&self.copies, hosts, host, bucket, epoch, "commits")?;
                let office = self.primaries.on_act(&self.edicts, hosts, &actor, bucket, epoch)?;
                commit::all_acknowledged(&self.copies, hosts, &actor, office, (bucket, epoch), mark.offset)?;
                commit::all_hold(&self.copies, hosts, &actor, office, (bucket, epoch), (mark.offset, entry))?;
                self.canons.on_committed(&name, (office.log, epoch), *mark, entry)?;
            }
            Event::Confirmed { bucket, epoch, mark, round } => {
                let (bucket, epoch) = (*bucket, *epoch);
                epochs::may_act(&self.copies, hosts, host, bucket, epoch, "confirms a read")?;
                let office = self.primaries.on_act(&self.edicts, hosts, &actor, bucket, epoch)?;
                commit::all_acknowledged(&self.copies, hosts, &actor, office, (bucket, epoch), mark.offset)?;
                commit::all_saw_round(&self.copies, &actor, office, (bucket, epoch), *round)?;
                self.canons.must_be_committed(&format!("{name} answers a read from"), office.log, *mark)?;
            }
            Event::VouchedFor { bucket, epoch, mark, number } => {
                let (bucket, epoch) = (*bucket, *epoch);
                epochs::may_act(&self.copies, hosts, host, bucket, epoch, "confirms a read")?;
                let office = match self.edicts.get(actor.cluster, bucket, epoch) {
                    Some(office) if office.primary != actor.node => {
                        let serves = self.served.contains(&(actor.cluster, bucket, epoch));
                        epochs::may_answer_beside(&actor, office, (bucket, epoch), serves)?;
                        office
                    }
                    Some(_) | None => self.primaries.on_act(&self.edicts, hosts, &actor, bucket, epoch)?,
                };
                commit::all_acknowledged(&self.copies, hosts, &actor, office, (bucket, epoch), mark.offset)?;
                let shards = hosts[host].core().into_iter().flat_map(|core| core.shards());
                let shard = (0..).zip(shards).find(|(_, shard)| shard.replicas().contains_key(&bucket));
                let shard = shard.map_or(0, |(index, _)| index);
                let by = (&actor, hosts[host].view().map(|view| view.generation).unwrap_or_default());
                self.vouched.all_had_seen_nothing_later(by, office, (bucket, epoch), (shard, *number))?;
                self.canons.must_be_committed(&format!("{name} answers a read from"), office.log, *mark)?;
            }
            Event::Leased { bucket, epoch } => {
                let later = (actor.cluster, *bucket, Epoch { slot: Slot(epoch.slot.0 + 1), ..*epoch });
                let end = (actor.cluster, BucketId(bucket.0.saturating_add(1)), Epoch::ZERO);
                if let Some((_, _, served)) = self.served.range(later..end).next() {
                    let detail = format!("{name} answers by its lease of {epoch} in bucket {bucket}; {served} serves");
                    return Err(broken("lease", detail));
                }
            }
            Event::Applied { bucket, mark, digest } => {
                if let Some(log) = self.log_of(hosts, &actor, *bucket) {
                    let who = format!("{name} applied, in bucket {bucket},");
                    self.canons.on_applied(&who, log, *mark, *digest)?;
                }
            }
            Event::Installed { bucket, mark, digest } => {
                if let Some(log) = self.log_of(hosts, &actor, *bucket) {
                    let who = format!("{name} installed, in bucket {bucket},");
                    self.canons.on_state(&who, log, *mark, *digest)?;
                }
            }
            Event::Divided { bucket, at, .. } => {
                if let Some(log) = self.log_of(hosts, &actor, *bucket) {
                    self.canons.must_be_committed(&format!("{name} divided bucket {bucket} at"), log, *at)?;
                }
            }
            Event::Diverged { bucket, about, .. } => {
                // After an operator's word some copies may have more than the one that was chosen. And one that joined
                // may have fallen behind since it was said to be ready: it is not eligible, and catches up again. A
                // damaged one says so itself, and its primary may hear of it first. A bucket that begins anew while a
                // member restarts begins in its life before: it has no beginning then, and lacks nothing that counts.
                let lossy = |log| self.canons.is_lossy(log) || self.canons.is_empty(log);
                let lossy = self.log_of(hosts, &actor, *bucket).is_some_and(lossy);
                let generation = hosts[host].view().map(|view| view.generation).unwrap_or_default();
                let eligible = self.edicts.log_of_eligible((actor.cluster, generation), *bucket, *about).is_some();
                if !lossy && eligible && !self.is_rotten(hosts, actor.cluster, *about) {
                    return Err(broken("diverged", format!("{name}: {event:?}")));
                }
            }
            Event::Purged { bucket } => {
                if self.is_needed(hosts, host, *bucket) {
                    return Err(broken("needed", format!("{name} purges bucket {bucket}, and may have to serve it")));
                }
                self.copies.forget_purged(host, *bucket);
            }
            Event::Cut { .. } => {} // What was cut and should not have been is missing when the next primary serves.
        }
        Ok(())
    }

    pub(crate) fn after_step(&mut self, hosts: &[Host], host: usize) -> Result<(), Violation> {
        if let Some(violation) = self.found.take() {
            return Err(violation);
        }
        self.actors[host] = self.actor(hosts, host);
        let (Some(actor), Some(core)) = (&self.actors[host], hosts[host].core()) else { return Ok(()) };
        let view = core.view();
        if let Some(table) = view.distributor
            && self.compared[host] != (actor.cluster, view.decided)
        {
            self.compared[host] = (actor.cluster, view.decided);
            self.edicts.must_agree(&host_name(host), actor.cluster, table)?;
        }
        for (&bucket, replica) in core.shards().iter().flat_map(|shard| shard.replicas().iter()) {
            let changed = self.copies.note(host, bucket, replica);
            self.vouched.note(actor, view.generation, bucket, replica.seen());
            let Some(duty) = replica.duty().filter(|_| changed) else { continue };
            let appointment = &duty.appointment;
            let office = self.edicts.get(actor.cluster, bucket, appointment.epoch);
            let same = office.is_some_and(|office| {
                office.primary == appointment.primary && office.members.keys().eq(&appointment.members)
            });
            if !same {
                let detail =
                    format!("{} has {duty:?} for bucket {bucket}; by the log it is {office:?}", host_name(host));
                return Err(broken("appointment", detail));
            }
        }
        Ok(())
    }

    fn actor(&self, hosts: &[Host], host: usize) -> Option<Actor> {
        let identity = hosts[host].view().and_then(|view| view.identity);
        identity.map(|identity| Actor::of(host, identity)).or_else(|| self.actors[host].clone())
    }

    /// The log that this host's copy of the bucket belongs to, by its duty, or by the last one it had.
    fn log_of(&self, hosts: &[Host], actor: &Actor, bucket: BucketId) -> Option<LogId> {
        let duty = replica(&hosts[actor.host], bucket).and_then(|replica| replica.duty());
        let epoch = duty.map_or(self.copies.last(actor.host, bucket).epoch, |duty| duty.appointment.epoch);
        (epoch != Epoch::ZERO).then(|| self.edicts.get(actor.cluster, bucket, epoch)).flatten().map(|office| office.log)
    }
}
