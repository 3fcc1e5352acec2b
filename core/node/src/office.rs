//! What a leader does beyond Paxos: takes submissions, lets newcomers in, watches health, changes the government.

use crate::context::{Context, Recipient};
use crate::envelope::Message;
use crate::member::Member;
use crate::orders::Orders;
use atoll_cluster::State;
use atoll_cluster::health::{Health, Patience};
use atoll_cluster::message::{Ask, Message as ClusterMessage, Ping, Refusal, Welcome};
use atoll_cluster::seats::{self, Sight};
use atoll_types::{
    Address, Body, Bounded, Bug, Edict, Entry, Government, Incarnation, Name, Newcomer, NodeId, Slot, Submission, Time,
    Why, planted,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Office {
    pub(crate) health: Health,
    pub(crate) submissions: Bounded<Submission>,
    pub(crate) arrivals: Bounded<Newcomer>,
    /// Newcomers that were named and never reached: how often, and until when they are not named again.
    unreachable: BTreeMap<Name, (u32, Time)>,
    /// Who is to go, and why.
    departures: BTreeMap<NodeId, Why>,
    edicts: Vec<Edict>,
    /// The last edict proposed: until it is applied nothing new is concluded.
    edicts_through: Slot,
    /// Something changed that may call for another government.
    pub(crate) look_again: bool,
    pub(crate) orders: Orders,
}

impl Office {
    pub(crate) fn new(context: &Context, state: &State) -> Office {
        let (timing, limits) = (&context.config.timing, &context.config.limits);
        let patience = Patience {
            heartbeat: timing.heartbeat,
            silence: timing.silence,
            evidence: timing.evidence,
            depart_after: timing.depart_after,
            arrival: timing.arrival,
            max_skew: timing.max_skew,
        };
        Office {
            health: Health::new(context.now, patience, state),
            submissions: Bounded::new(limits.submissions),
            arrivals: Bounded::new(limits.arrivals),
            unreachable: BTreeMap::new(),
            departures: BTreeMap::new(),
            edicts: Vec::new(),
            edicts_through: Slot::ZERO,
            look_again: true,
            orders: Orders::new(context.now),
        }
    }
}

impl Office {
    /// A newcomer that cannot be reached is not named again at once, and each time later.
    fn hold_off(&mut self, now: Time, arrival: Duration, name: Name) {
        self.unreachable.retain(|_, (_, until)| now < *until + arrival * 8);
        let (times, until) = self.unreachable.entry(name).or_insert((0, now));
        *until = now + arrival * 2u32.pow(*times);
        *times = (*times + 1).min(3);
    }
}

impl Member {
    /// Takes a submission, from this node itself or from another, into the leader's queue.
    pub(crate) fn on_submission(&mut self, context: &mut Context, submission: Submission, from: Option<Recipient>) {
        let Some(office) = &mut self.office else { return };
        let same = |other: &Submission| {
            (other.node, other.cookie, other.sequence) == (submission.node, submission.cookie, submission.sequence)
        };
        let open = |entry: &Entry| matches!(&entry.body, Body::Submission(other) if same(other));
        if office.submissions.iter().any(same) || self.paxos.is_open(open) {
            return; // A retry that overtook its first try.
        }
        if office.submissions.push(submission).is_err()
            && let Some(from) = from
        {
            let signature = self.signature();
            context.refuse(&signature, from, Refusal::Busy);
        }
    }

    /// Proposes what is waiting, as far as Paxos takes it. True if something was proposed.
    pub(crate) fn serve(&mut self, context: &mut Context) -> bool {
        let Some(office) = &mut self.office else { return false };
        let mut proposed = false;
        while self.paxos.can_propose()
            && let Some(edict) = office.edicts.pop()
        {
            office.edicts_through = self.paxos.propose(context.now, Body::Edict(edict));
            proposed = true;
        }
        if office.look_again && self.paxos.can_change_government() {
            office.look_again = false;
            if let Some(government) = self.wanted_government(context) {
                self.paxos.propose_government(context.now, government);
                return true;
            }
        }
        proposed |= self.propose_order(context);
        let Some(office) = &mut self.office else { return proposed };
        while self.paxos.can_propose()
            && let Some(submission) = office.submissions.pop()
        {
            self.paxos.propose(context.now, Body::Submission(submission));
            proposed = true;
        }
        proposed
    }

    /// The next change of government that is called for: first whoever has to go, then whoever wants in, then seats.
    fn wanted_government(&mut self, context: &mut Context) -> Option<Government> {
        let me = self.me();
        let silent = self.paxos.silent_majority();
        let office = self.office.as_mut()?;
        let now = context.now;
        let everybody = || self.replicated.state.members.keys().copied();
        let healthy: BTreeSet<NodeId> = everybody().filter(|&node| office.health.is_healthy(now, node)).collect();
        let near: BTreeSet<NodeId> = everybody().filter(|&node| office.health.is_near(now, node)).collect();
        let sight = Sight { me, silent: &silent, near: &near, healthy: &healthy };
        while let Some((node, why)) = office.departures.pop_first() {
            if let Some(government) = seats::without(&self.replicated.state, &sight, node, why) {
                office.look_again = true;
                if let (Why::Unreachable, Some(member)) = (why, self.replicated.state.members.get(&node)) {
                    office.hold_off(now, context.config.timing.arrival, member.name.clone());
                }
                return Some(government);
            }
        }
        // An edict on its way may raise the level above what the newcomer understands: that one comes first.
        while office.edicts_through <= self.paxos.log().decided()
            && let Some(newcomer) = office.arrivals.pop()
        {
            let known = self.replicated.state.named(&newcomer.name).is_some() && !planted(Bug::NodeIdReused);
            if !known && newcomer.level >= self.replicated.state.level {
                office.look_again = true;
                return Some(seats::with_arrival(&self.replicated.state, me, newcomer));
            }
        }
        seats::improved(&self.replicated.state, &sight)
    }

    /// Once a heartbeat: whom to ask, who is absent or back, who has to go, how far the log may be trimmed.
    pub(crate) fn judge(&mut self, context: &mut Context) {
        let (me, decided) = (self.me(), self.paxos.log().decided());
        // A leader that is to go as well goes last: two such would hand the lead to each other for ever.
        let mut leaving = self.replicated.state.members.iter().filter(|(_, member)| member.is_to_go());
        let leaving = leaving.next().is_some_and(|(&node, _)| node == me) && leaving.next().is_none();
        let own = self.own_edict(context);
        let stopped = self.has_stopped();
        let stalled = self.is_stalled(context);
        let Some(office) = &mut self.office else { return };
        self.paxos.set_floor(office.health.floor(me, decided, &self.replicated.state));
        office.look_again = true;
        let verdicts = office.health.judge(context.now, me, &self.replicated.state, &self.absent_since);
        if office.edicts_through <= decided {
            office.edicts = verdicts.edicts;
            office.edicts.extend(own);
            office.edicts.extend(office.health.judge_clocks(context.now, me, &self.replicated.state));
            if self.replicated.state.understood() > self.replicated.state.level {
                office.edicts.push(Edict::Level(self.replicated.state.understood()));
            }
        }
        // What was concluded before may no longer be so; only a name that is wanted again still is.
        office.departures.retain(|_, why| *why == Why::Replaced);
        // No time-out takes the last copy of a bucket away.
        let distributor = &self.replicated.distributor;
        let may_go = |(node, why): &(NodeId, Why)| *why != Why::AbsentTooLong || distributor.may_depart_by_time(*node);
        office.departures.extend(verdicts.departures.into_iter().filter(may_go));
        office.orders.think = true;
        for node in verdicts.ask {
            self.send(context, node, Message::Cluster(ClusterMessage::Ping(Ping)));
        }
        // A leader that is to go, or has said that it stops, hands over first. Its successor removes it. One whose disk
        // or shard does not move may wait for ever to be ready for that.
        let (_, government) = self.paxos.government();
        let fit: BTreeSet<NodeId> =
            government.voters().filter(|&voter| voter != me && self.may_inherit(context.now, voter)).collect();
        let ready = stalled || ((leaving || stopped) && !fit.is_empty() && self.paxos.can_change_government());
        if ready && government.voter_count() > 1 {
            self.paxos.resign(&fit);
        }
        self.let_drained_go(context);
    }

    /// One that is to go itself, or stops, would hand the lead back, for ever; one that is not heard cannot take it. A
    /// node that is to go leads until there is another.
    fn may_inherit(&self, now: Time, voter: NodeId) -> bool {
        let stays = |member: &atoll_cluster::Member| !member.is_to_go() && !member.is_absent();
        let near = self.office.as_ref().is_some_and(|office| office.health.is_near(now, voter));
        near && self.replicated.state.members.get(&voter).is_some_and(stays)
    }

    /// This very life has said that it stops for a while.
    fn has_stopped(&self) -> bool {
        let recorded = self.replicated.state.members.get(&self.identity.node);
        recorded.is_some_and(|member| {
            member.incarnation == self.identity.incarnation && member.is_absent() && !member.may_return()
        })
    }

    /// The log still knows this leader in an earlier life, or as absent: nobody else is there to correct it.
    fn own_edict(&self, context: &Context) -> Option<Edict> {
        let (node, incarnation) = (self.identity.node, self.identity.incarnation);
        let recorded = self.replicated.state.members.get(&node)?;
        if recorded.incarnation != incarnation {
            let (address, level) = (context.config.address.clone(), context.config.level);
            return Some(Edict::Restarted { node, incarnation, address, level });
        }
        let stalled = self.is_stalled(context);
        if stalled && recorded.is_active() {
            return Some(Edict::Absent { node, incarnation, why: Why::Stalled });
        }
        (recorded.may_return() && !stalled).then_some(Edict::Present { node, incarnation })
    }

    /// A part of this node does not move, although something waits for it.
    fn is_stalled(&self, context: &Context) -> bool {
        context.vitals(None).stalled() >= context.config.timing.silence && !planted(Bug::StallUnnoticed)
    }

    /// A blank process asks to be let in.
    pub(crate) fn on_newcomer(&mut self, context: &mut Context, ask: Ask) {
        let signature = self.signature();
        let (newcomer, forgot) = (ask.newcomer, ask.forgot);
        let asker = Recipient::at(newcomer.address.clone());
        let now = context.now;
        let Some(office) = &mut self.office else { return };
        if newcomer.level < self.replicated.state.level {
            return context.refuse(&signature, asker, Refusal::LevelTooLow);
        }
        // Where a blank process listens, nobody else does.
        let here = |member: &&atoll_cluster::Member| {
            member.address == newcomer.address && member.incarnation.cookie != newcomer.incarnation.cookie
        };
        let gone: Vec<(NodeId, Incarnation)> = self
            .replicated
            .state
            .members
            .iter()
            .filter(|(_, member)| here(member))
            .map(|(&node, member)| (node, member.incarnation))
            .collect();
        for &(node, incarnation) in &gone {
            office.health.on_dead(now, node, incarnation);
        }
        if let Some((node, member)) = self.replicated.state.named(&newcomer.name)
            && !planted(Bug::NodeIdReused)
        {
            if member.incarnation.cookie == newcomer.incarnation.cookie {
                return self.welcome(context, node); // A duplicate: it was named already.
            }
            let moved = member.address != newcomer.address;
            let alive = moved && office.health.is_alive(now, node) && !member.is_absent();
            // A durable node's data may only be out of sight, on a disk that is not mounted: it departs by an
            // operator's word or by time, not because a blank process has its name. But one that looked, and knows
            // that nothing is left, cannot keep what it promised.
            let data_may_be_left = member.durable && (moved || !forgot);
            if alive || data_may_be_left {
                let name = newcomer.name.clone();
                return context.refuse(&signature, asker, Refusal::NameTaken { name });
            }
            if node == self.identity.node {
                return; // Somebody took this leader's own address: it will find out.
            }
            office.departures.insert(node, Why::Replaced);
            office.look_again = true;
            return; // It asks again, and is let in once its name is free.
        }
        if office.unreachable.get(&newcomer.name).is_some_and(|(_, until)| now < *until) {
            return context.refuse(&signature, asker, Refusal::Busy);
        }
        let waiting = |other: &Newcomer| other.incarnation == newcomer.incarnation;
        if office.arrivals.iter().any(waiting) {
            return;
        }
        office.look_again = true;
        if office.arrivals.push(newcomer).is_err() {
            context.refuse(&signature, asker, Refusal::Busy);
        }
    }

    /// A government that names a newcomer is decided: make its snapshot, and tell it.
    pub(crate) fn on_arrived(&mut self, context: &mut Context, node: NodeId) {
        if self.replicated.state.government.is_voter(self.me()) {
            self.keep_snapshot(context);
        }
        let incarnation = self.replicated.state.members.get(&node).map(|member| member.incarnation);
        let asked_here = incarnation.is_some_and(|incarnation| self.asked_here.contains(&incarnation));
        if self.office.is_some() || asked_here {
            self.welcome(context, node);
        }
    }

    pub(crate) fn keep_snapshot(&mut self, context: &mut Context) {
        let snapshot = self.replicated.snapshot();
        let event = crate::door::Event::SnapshotMade { slot: snapshot.slot, digest: snapshot.digest() };
        context.event(event);
        self.keeper.keep(snapshot);
    }

    pub(crate) fn welcome(&self, context: &mut Context, node: NodeId) {
        let Some(member) = self.replicated.state.members.get(&node).filter(|member| member.is_arriving()) else {
            return;
        };
        // Whoever has voted for it has its snapshot; so has this node, which the newcomer can reach for sure.
        let holder = |holder: NodeId| -> Option<(NodeId, Address)> {
            self.replicated.state.members.get(&holder).map(|member| (holder, member.address.clone()))
        };
        let holders = std::iter::once(self.me())
            .chain(self.replicated.state.government.voters().filter(|&node| node != self.me()));
        let welcome = Welcome {
            cluster: self.replicated.state.cluster,
            generation: self.paxos.generation(),
            node,
            cookie: member.incarnation.cookie,
            slot: member.arrived,
            holders: holders.filter_map(holder).collect(),
        };
        let to = Recipient::at(member.address.clone());
        let signature = self.signature();
        context.send_cluster(&signature, to, ClusterMessage::Welcome(welcome));
    }
}
