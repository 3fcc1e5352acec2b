//! What the cluster machine tells the shards of its node: who it is, who the others are, and the table.
//!
//! | Directive | Told when |
//! |---|---|
//! | `Named`, `Generation` | it is so, and the record that makes it so is safe |
//! | `Departed` | the record is ordered that ends the membership, and with it the copies |
//! | `Roster` | somebody's standing, life or address changed |
//! | `Table` | all of it after a start or a snapshot; then what each entry changes, entry by entry |
//! | `Current` | it is known that nothing else was decided before some later moment |
//!
//! Entry by entry, because a shard must see each epoch that divides a bucket.

use crate::context::Context;
use crate::door::Output;
use crate::member::Member;
use crate::shard::door::{Contact, Directive, Table};
use atoll_types::{BucketId, Generation, Identity, NodeId, Slot, Time};
use std::collections::{BTreeMap, BTreeSet};

/// What the shards know.
#[derive(Debug, Default)]
pub(crate) struct Told {
    name: Option<(Identity, Generation)>,
    /// None, until all of it was told under this name.
    roster: Option<BTreeMap<NodeId, Contact>>,
    /// The version of the routes. None, until the whole table was told under this name.
    routes: Option<Slot>,
    /// Buckets that this node is not named for, and may still have a copy of.
    leftover: BTreeSet<BucketId>,
    /// The log knew this life as present when the table was told last.
    present: bool,
    /// As of when the shards know that the table is current.
    current: Time,
}

impl Context {
    fn direct(&mut self, directive: Directive) {
        self.outputs.push_back(Output::Directive(directive));
    }

    /// Who this node is. Only once that is safe: a shard that acts under a name which a crash takes back would have
    /// promised in nobody's name.
    pub(crate) fn tell_name(&mut self, identity: &Identity, generation: Generation) {
        match &self.told.name {
            Some((known, of)) if known == identity && *of == generation => {}
            Some((known, _)) if known == identity => {
                self.told.name = Some((identity.clone(), generation));
                self.direct(Directive::Generation(generation));
            }
            Some(_) | None => {
                self.told = Told { name: Some((identity.clone(), generation)), ..Told::default() };
                let (cluster, node, incarnation) = (identity.cluster, identity.node, identity.incarnation);
                self.direct(Directive::Named { cluster, generation, node, incarnation });
            }
        }
    }

    /// At once, before the record is safe: what a shard writes behind it would look like a copy of the next life.
    pub(crate) fn tell_departed(&mut self) {
        self.told = Told::default();
        self.direct(Directive::Departed);
    }
}

impl Member {
    /// Everything, to shards that know nothing but the name.
    pub(crate) fn tell_all(&mut self, context: &mut Context) {
        context.told.roster = None;
        context.told.routes = None;
        self.tell_roster(context);
        self.tell_table(context);
    }

    /// Tells what is still to be told under this name.
    pub(crate) fn tell_rest(&mut self, context: &mut Context) {
        if context.told.roster.is_none() {
            self.tell_all(context);
        }
    }

    /// An entry was applied.
    pub(crate) fn tell_changes(&mut self, context: &mut Context, roster_changed: bool) {
        if context.told.roster.is_none() {
            return; // All of it is told once the name is.
        }
        if roster_changed {
            self.tell_roster(context);
        }
        self.tell_table(context);
    }

    fn tell_roster(&self, context: &mut Context) {
        let contact = |member: &atoll_cluster::Member| Contact {
            address: member.address.clone(),
            incarnation: member.incarnation,
            present: !member.is_absent(),
        };
        let members = self.replicated.state.members.iter();
        let roster: BTreeMap<NodeId, Contact> = members.map(|(&node, member)| (node, contact(member))).collect();
        if context.told.roster.as_ref() != Some(&roster) {
            context.told.roster = Some(roster.clone());
            context.direct(Directive::Roster(roster));
        }
    }

    fn tell_table(&mut self, context: &mut Context) {
        let distributor = &mut self.replicated.distributor;
        let changed = distributor.take_changed();
        if distributor.buckets().is_empty() {
            return;
        }
        let (complete, routes) = (context.told.routes.is_none(), Some(distributor.version()));
        let present = self.is_known_present();
        let returned = present && !context.told.present;
        let distributor = &self.replicated.distributor;
        if changed.is_empty() && routes == context.told.routes && !returned {
            context.told.present = present;
            return;
        }
        (context.told.routes, context.told.present) = (routes, present);
        let all = || distributor.buckets().keys().copied().collect::<BTreeSet<BucketId>>();
        let concerned = if complete { all() } else { changed };
        let duties = concerned.iter().filter_map(|&bucket| Some((bucket, distributor.duty(bucket)?))).collect();
        // Whether a copy may go can depend on other buckets: those that may not go yet are asked about again.
        for bucket in concerned {
            let named = distributor.duty(bucket).is_some_and(|duty| duty.appointment.names(self.me()));
            if named {
                context.told.leftover.remove(&bucket)
            } else {
                context.told.leftover.insert(bucket)
            };
        }
        let purge: Vec<BucketId> = if present {
            let leftover = context.told.leftover.iter().copied();
            leftover.filter(|&bucket| distributor.may_purge(bucket, self.me())).collect()
        } else {
            Vec::new()
        };
        context.told.leftover.retain(|bucket| !purge.contains(bucket));
        // The slot of the last change, not of now: the same on every node that has the same table, or a hop from one
        // that started later would wait for a version that never comes.
        let (version, width, lease) = (distributor.version(), distributor.initial_width(), distributor.lease());
        context.direct(Directive::Table(Table { version, width, lease, complete, duties, purge }));
    }

    /// A leader is current as of the last beat that its majority acknowledged.
    pub(crate) fn note_lead(&mut self) {
        if let Some(confirmed) = self.paxos.confirmed() {
            self.currency.on_leading(confirmed);
        }
    }

    /// Only behind the table that it speaks of.
    pub(crate) fn tell_current(&mut self, context: &mut Context) {
        self.note_lead();
        let since = self.currency.since();
        if context.told.routes.is_some() && since > context.told.current {
            context.told.current = since;
            context.direct(Directive::Current { since });
        }
    }

    /// The log has recorded this very life as present. Until then it may hold entries that gave this node its copies
    /// back, and that it has forgotten to be decided: nothing is purged on the word of an older table.
    fn is_known_present(&self) -> bool {
        let known = self.replicated.state.members.get(&self.me());
        known.is_some_and(|member| member.is_active() && member.incarnation == self.identity.incarnation)
    }
}
