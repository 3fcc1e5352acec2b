//! What the cluster machine tells a shard: who this node is, where the others are, and its duties.

use super::Shard;
use super::door::{Contact, Directive, Table};
use super::lane::{Caller, Where};
use super::place::Places;
use crate::context::Signature;
use atoll_replica::{Event, Replica, Ticket};
use atoll_types::{BucketId, BucketRecord, Bug, Duty, HashSlot, Latest, Mark, NodeId, Slot, Time, planted};
use std::collections::BTreeMap;

impl Shard {
    pub(super) fn on_directive(&mut self, directive: Directive) {
        match directive {
            Directive::Named { cluster, generation, node, incarnation } => {
                self.begin_life();
                self.signature = Some(Signature { cluster, generation, node, incarnation });
            }
            Directive::Generation(generation) => {
                if let Some(signature) = &mut self.signature {
                    signature.generation = generation;
                }
                self.table_as_of = None; // Slots of before mean nothing any more.
            }
            Directive::Departed => self.on_departed(),
            Directive::Roster(roster) => self.on_roster(roster),
            Directive::Table(table) => self.on_table(table),
            Directive::Current { since } => return self.on_current(since),
        }
        self.carry_out();
        self.unpark_all();
    }

    /// Nothing that was decided before then deposed anybody here.
    fn on_current(&mut self, since: Time) {
        self.current = since;
        self.sink.vouchers.trust();
        self.sink.leased_until = if self.lease.is_zero() { Time::ZERO } else { since + self.lease };
    }

    /// A new life of this node: nothing that was under way counts any more. Copies stay.
    fn begin_life(&mut self) {
        for bucket in self.replicas.keys().copied().collect::<Vec<_>>() {
            if let Some(replica) = self.replicas.get_mut(&bucket) {
                replica.begin_life(&mut self.sink);
                self.dirty.push(bucket);
            }
        }
        self.carry_out();
        // What the life before had to say must not be signed by this one. A shard that hung may hear of both at once.
        while self.sink.letters.take().is_some() {}
        let lost = self.hops.abandon();
        lost.into_iter().for_each(|ticket| self.on_fate_unknown(ticket));
        self.dismiss_guests(|_| true);
        self.roster.clear();
        self.table.clear();
        self.early.clear();
        self.version = Slot::ZERO;
        (self.current, self.sink.leased_until) = (Time::ZERO, Time::ZERO);
        self.table_as_of = None;
        self.to_vouch.clear();
        self.sink.vouchers.forget();
        self.tenures.forget();
        self.sought.forget();
    }

    fn on_departed(&mut self) {
        for bucket in self.replicas.keys().copied().collect::<Vec<_>>() {
            self.drop_copy(bucket);
        }
        self.begin_life();
        self.signature = None;
        self.width = 0;
        self.fences.clear();
        self.sink.latest = Latest::default(); // Of a cluster that is none of its business any more.
        let waiting: Vec<Ticket> = self.lanes.waiting.iter().map(|(ticket, _)| ticket).collect();
        waiting.into_iter().for_each(|ticket| self.give_up(ticket, super::door::Reason::NoTable));
    }

    /// Whoever is gone, or in another life, answers no hop any more and waits for none.
    fn on_roster(&mut self, roster: BTreeMap<NodeId, Contact>) {
        let unknown = !self.is_known_life();
        let before = std::mem::replace(&mut self.roster, roster);
        let gone: Vec<NodeId> = before
            .into_iter()
            .filter(|(node, contact)| self.roster.get(node).is_none_or(|now| now.incarnation != contact.incarnation))
            .map(|(node, _)| node)
            .collect();
        self.dismiss_guests(|node| gone.contains(&node));
        self.drop_hops();
        if !gone.is_empty() || unknown {
            self.distrust(&gone);
        }
        if unknown && self.is_known_life() {
            let duties: Vec<(BucketId, Duty)> =
                self.table.iter().map(|(&bucket, duty)| (bucket, duty.clone())).collect();
            duties.into_iter().for_each(|(bucket, duty)| self.take_duty(bucket, duty));
        }
    }

    /// Requests of these guests are answered by nobody: their node has told their callers.
    fn dismiss_guests(&mut self, gone: impl Fn(NodeId) -> bool) {
        self.guests.retain(|(node, _), _| !gone(*node));
        let of_gone = |caller: &Caller| matches!(caller, Caller::Hop { origin, .. } if gone(*origin));
        let queued = self.lanes.waiting.iter().filter(|(_, waiting)| of_gone(&waiting.caller));
        let tickets: Vec<(Ticket, Where)> = queued.map(|(ticket, waiting)| (ticket, waiting.place)).collect();
        for (ticket, place) in tickets {
            if let Where::Hopped { number, place } = place {
                self.hops.forget(number, place);
            }
            if let Some(finished) = self.lanes.finish(ticket).filter(|finished| finished.others) {
                self.pump.push(finished.lane);
            }
        }
    }

    /// A record that came back without a width was given to every shard. No record tells that a copy is let go here:
    /// it would purge the one of the shard that owns it.
    fn let_go_what_is_not_ours(&mut self) {
        let (places, index) = (Places::new(self.config.shards, self.width), self.index);
        self.replicas.retain(|bucket| places.of_slot(bucket.0) == index);
    }

    fn on_table(&mut self, table: Table) {
        if table.width != 0 && self.width != table.width {
            self.width = table.width;
            self.sink.width = table.width;
            self.let_go_what_is_not_ours();
        }
        let mut duties: Vec<(BucketId, Duty)> =
            table.duties.into_iter().filter(|(bucket, _)| self.owns(*bucket)).collect();
        // A bucket before its upper half: that one comes out of its copy.
        duties.sort_by_key(|(bucket, _)| *bucket);
        (self.lease, self.sink.leases) = (table.lease, !table.lease.is_zero());
        for (bucket, duty) in &duties {
            let whole = duty.divided.map(|(whole, _)| whole);
            let before = self.table.get(bucket).or_else(|| self.table.get(&whole?));
            // What was skipped may have had other primaries.
            let before = before.filter(|before| !table.complete || before.appointment.epoch == duty.appointment.epoch);
            self.tenures.on_duty(self.now, self.lease, *bucket, duty, before);
        }
        if table.complete {
            self.table.clear();
        }
        self.version = self.version.max(table.version);
        let generation = self.signature.as_ref().map(|signature| signature.generation).unwrap_or_default();
        self.table_as_of = Some(Latest { generation, slot: table.version });
        self.sink.vouchers.trust();
        self.divide(&duties);
        for (bucket, duty) in duties {
            let epoch = duty.appointment.epoch;
            if self.table.get(&bucket).is_none_or(|before| before.appointment.epoch != epoch) {
                self.sought.begin(bucket);
            }
            self.table.insert(bucket, duty.clone());
            self.take_duty(bucket, duty);
        }
        for bucket in table.purge {
            let named = self.table.get(&bucket).is_some_and(|duty| duty.appointment.names(self.me()));
            if self.owns(bucket) && !named {
                self.drop_copy(bucket);
            }
        }
        self.take_early_messages();
        for root in self.lanes.roots_waiting() {
            self.pump.extend(self.lanes.waiting_lanes(root));
        }
        self.take_early_hops();
    }

    /// Halves the copies of buckets that the edict divided, where they end with the split it speaks of.
    fn divide(&mut self, duties: &[(BucketId, Duty)]) {
        for (_, duty) in duties {
            let Some((from, epoch)) = duty.divided else { continue };
            // The half of a damaged copy would be taken for all that this node has acknowledged.
            let Some(replica) = self.replicas.get_mut(&from).filter(|replica| !replica.is_useless()) else { continue };
            let Some((lower, upper)) = replica.range().halves() else { continue };
            // Either half tells: the other may have been split again since, or moved.
            if (duty.range == lower || duty.range == upper) && replica.ends_with_split_of(epoch) {
                let half = replica.divide(self.now, &mut self.sink, lower, upper);
                self.carry_out();
                if !self.replicas.contains_key(&half.bucket()) {
                    self.replicas.insert(half.bucket(), half);
                }
                self.touch(from);
            }
        }
    }

    fn take_duty(&mut self, bucket: BucketId, duty: Duty) {
        // Until the log knows this life the table may be older than what is on the disk, and what it gives to this node
        // it gives to the life before: no copy is begun, nor thrown away, on its word.
        if !self.is_known_life() {
            return self.take_void_duty(bucket, duty);
        }
        let me = self.me();
        let named = duty.appointment.names(me);
        let epoch = duty.appointment.epoch;
        let begins = duty.begins;
        let missing = !self.replicas.contains_key(&bucket);
        // From before an operator let the bucket begin anew.
        // A copy that is damaged, or was begun in the place of one, shows nothing of what it held: that may have been
        // of after the beginning, unless the beginning is this very duty, given to this very life. It must say so.
        let outdated = |replica: &Replica| {
            let older = begins.offset.0 > 0 && replica.copy().applied.epoch < begins.epoch;
            let shows_nothing = replica.is_useless() || replica.is_blank();
            let void = replica.is_void(epoch) && !planted(Bug::DamagedBeginsAnew);
            older && (!shows_nothing || (begins.epoch == epoch && !void))
        };
        let outdated = self.replicas.get(&bucket).is_some_and(outdated);
        let anew = outdated || (missing && begins.epoch == epoch);
        let base = if anew && begins.offset.0 > 0 { begins } else { Mark::default() };
        let blank = !anew || (outdated && !duty.appointment.is_member(me));
        if named && missing {
            let (range, idle) = (duty.range, self.config.timing.session_idle);
            let mut replica = Replica::empty(bucket, range, base, idle, self.kind.empty());
            if let Some(fence) = self.fences.remove(&bucket) {
                replica.remember(&mut self.sink, fence);
            }
            self.replicas.insert(bucket, replica);
        }
        // A copy of a bucket that was divided since cannot be of use any more. One that is damaged says so, and is kept
        // until there is a better one: it may be all that is left.
        let other_range = |replica: &Replica| replica.range() != duty.range && !replica.is_useless();
        let other_range = self.replicas.get(&bucket).is_some_and(other_range);
        if named && (missing || outdated || other_range) {
            self.begin(bucket, duty.range, base, blank);
        }
        if let Some(replica) = self.replicas.get_mut(&bucket) {
            replica.wait_for_leases(self.tenures.serves_from(bucket, &duty));
            replica.appoint(self.now, &mut self.sink, me, duty);
            self.carry_out();
            self.touch(bucket);
        }
    }

    fn take_void_duty(&mut self, bucket: BucketId, duty: Duty) {
        let me = self.me();
        let Some(replica) = self.replicas.get_mut(&bucket) else { return };
        // Also where nothing can be read of the copy, not even its range and which epochs it had seen.
        replica.void_up_to(duty.appointment.epoch);
        if replica.range() == duty.range {
            replica.appoint(self.now, &mut self.sink, me, duty);
            self.carry_out();
            self.touch(bucket);
        }
    }

    fn is_known_life(&self) -> bool {
        let known = self.roster.get(&self.me()).map(|contact| contact.incarnation);
        known.is_some() && known == self.signature.as_ref().map(|signature| signature.incarnation)
    }

    fn begin(&mut self, bucket: BucketId, range: atoll_types::SlotRange, base: Mark, blank: bool) {
        if let Some(replica) = self.replicas.get_mut(&bucket) {
            replica.begin(&mut self.sink, range, base, blank);
            self.carry_out();
        }
    }

    fn take_early_messages(&mut self) {
        let known: Vec<BucketId> = self
            .early
            .iter()
            .filter(|(bucket, messages)| {
                let known = messages.iter().all(|(_, message)| message.epoch.slot <= self.version);
                known || self.replicas.contains_key(bucket)
            })
            .map(|(&bucket, _)| bucket)
            .collect();
        for bucket in known {
            for (from, message) in self.early.remove(&bucket).unwrap_or_default() {
                self.on_replica_message(from, &message);
            }
        }
    }

    fn drop_copy(&mut self, bucket: BucketId) {
        let Some(mut replica) = self.replicas.remove(&bucket) else { return };
        replica.abandon(&mut self.sink);
        self.carry_out();
        // The copy goes; what was heard of later epochs stays.
        if self.table.get(&bucket).is_none_or(|duty| duty.appointment.epoch < replica.seen()) {
            self.fences.insert(bucket, replica.seen());
        }
        self.sink.persist(BucketRecord::Purged { bucket });
        self.carry_out();
        if self.sink.watched {
            let (by, event) = (self.identity(), Box::new(Event::Purged { bucket }));
            self.outputs.push_back(super::ShardOutput::Event { by, event });
        }
        self.forget_timer(bucket);
        self.note_bytes(bucket);
        self.go_on(bucket);
    }

    /// The bucket that this slot is in, and who serves it.
    pub(super) fn duty_of(&self, slot: HashSlot) -> Option<(BucketId, &Duty)> {
        // Most buckets are as they were placed first. Only halves have to be searched for.
        let whole = BucketId(self.root(slot));
        if let Some(duty) = self.table.get(&whole).filter(|duty| duty.range.contains(slot)) {
            return Some((whole, duty));
        }
        let (bucket, duty) = self.table.at_or_before(slot)?;
        duty.range.contains(slot).then_some((bucket, duty))
    }
}
