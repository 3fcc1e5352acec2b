//! The ways to become a member: by founding, from a disk, with a snapshot.

use crate::config::Config;
use crate::context::Context;
use crate::door::Event;
use crate::envelope::Message;
use crate::member::Member;
use crate::outbox::Outbox;
use crate::replicated::Replicated;
use atoll_cluster::snapshot::Keeper;
use atoll_cluster::submitter::Submitter;
use atoll_paxos::{Log, Paxos, Settings, Start};
use atoll_types::{
    Address, Ballot, Cause, Checkpoint, ClusterId, Generation, Government, Identity, JournalSeq, Newcomer, NodeId,
    Record, Slot,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

fn settings(config: &Config) -> Settings {
    let (timing, limits) = (&config.timing, &config.limits);
    Settings {
        heartbeat: timing.heartbeat,
        election: timing.election,
        replace: timing.replace,
        pipeline: limits.pipeline,
        log: limits.log,
        trim_step: limits.trim_step,
        fan_out: limits.fan_out,
    }
}

impl Member {
    fn new(context: &mut Context, identity: Identity, start: Start, replicated: Replicated) -> Member {
        let (timing, limits) = (&context.config.timing, &context.config.limits);
        let cookie = identity.incarnation.cookie;
        let submitter = Submitter::new(identity.node, cookie, limits.outstanding, timing.retry, timing.retry_most);
        let mut member = Member {
            submitter,
            keeper: Keeper::new(limits.snapshots),
            paxos: Paxos::new(context.now, settings(&context.config), start),
            identity,
            replicated,
            outbox: Outbox::default(),
            contacts: BTreeMap::new(),
            sightings: BTreeMap::new(),
            dead: BTreeMap::new(),
            known_dead: BTreeMap::new(),
            asked_here: VecDeque::new(),
            absent_since: BTreeMap::new(),
            fetcher: None,
            report_due: context.now,
            currency: Default::default(),
            compared: None,
            office: None,
            leader: None,
            recovery: None,
        };
        member.note_absences(context.now);
        member
    }

    /// The first node of a new cluster.
    pub(crate) fn founding(
        context: &mut Context,
        mut newcomer: Newcomer,
        alone: bool,
        journal: JournalSeq,
    ) -> (Member, Identity) {
        let cluster = ClusterId(context.rng.next() | 1);
        let node = NodeId(1);
        newcomer.node = node;
        let identity = Identity { cluster, node, incarnation: newcomer.incarnation };
        let government = Government::of(&[node], [node].into_iter(), Cause::Elected);
        let start = Start {
            me: node,
            generation: Generation::default(),
            promised: Ballot::default(),
            log: Log::default(),
            government: (Slot::ZERO, Arc::new(government)),
            seed: context.rng.next(),
            journal,
        };
        let mut member = {
            let replicated = Replicated::new(context.kind.as_deref());
            Member::new(context, identity.clone(), start, replicated)
        };
        member.paxos.persist(Record::Identity(identity.clone()));
        let cause = Cause::Founded { cluster, founder: newcomer, alone };
        member.paxos.lead_alone(context.now, Generation::default(), cause);
        (member, identity)
    }

    /// Back from its disk.
    pub(crate) fn restored(
        context: &mut Context,
        identity: Identity,
        generation: Generation,
        promised: Ballot,
        log: Log,
        mut replicated: Replicated,
        journal: JournalSeq,
    ) -> Member {
        for (slot, entry) in (log.trimmed().0 + 1..).zip(log.entries(log.trimmed(), log.decided(), usize::MAX)) {
            replicated.apply(Slot(slot), &entry);
        }
        let state = &replicated.state;
        let government = if state.government_slot == Slot::ZERO {
            // A founder that crashed before its first entry was known decided: it is the only voter.
            Government::of(&[identity.node], [identity.node].into_iter(), Cause::Elected)
        } else {
            state.government.clone()
        };
        let start = Start {
            me: identity.node,
            generation,
            promised,
            log,
            government: (state.government_slot, Arc::new(government)),
            seed: context.rng.next(),
            journal,
        };
        Member::new(context, identity, start, replicated)
    }

    /// With the snapshot it was waiting for, and the record that is to be safe before it speaks.
    pub(crate) fn installed(
        context: &mut Context,
        identity: Identity,
        generation: Generation,
        replicated: Replicated,
        journal: JournalSeq,
        from: Option<Address>,
    ) -> (Member, Checkpoint) {
        let (snapshot, state) = (replicated.snapshot(), &replicated.state);
        context.counters.snapshots_installed += 1;
        context.event(Event::SnapshotInstalled { slot: snapshot.slot, digest: snapshot.digest() });
        let start = Start {
            me: identity.node,
            generation,
            promised: Ballot::default(),
            log: Log::after(snapshot.slot, state.time),
            government: (state.government_slot, Arc::new(state.government.clone())),
            seed: context.rng.next(),
            journal,
        };
        let checkpoint = Checkpoint {
            identity: identity.clone(),
            promised: Ballot::default(),
            slot: snapshot.slot,
            decided: snapshot.slot,
            snapshot: snapshot.bytes,
            tail: Vec::new(),
        };
        let member = Member::new(context, identity, start, replicated);
        // Whoever had the snapshot has what follows.
        let holder = member.replicated.state.members.iter().find(|(_, other)| Some(&other.address) == from.as_ref());
        if let Some((&holder, _)) = holder {
            let position = member.replicated.state.applied;
            let missing = atoll_paxos::message::Missing { position };
            member.send(context, holder, Message::Paxos(atoll_paxos::Message::Missing(missing)));
        }
        (member, checkpoint)
    }
}
