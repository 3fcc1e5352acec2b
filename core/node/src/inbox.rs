//! What a member does with each message: first whether it counts at all, then what it says.

use crate::context::{Context, Recipient};
use crate::door::Event;
use crate::envelope::{Envelope, Message};
use crate::machine::Turn;
use crate::member::{Contact, Member};
use crate::replicated::Replicated;
use atoll_cluster::message::{
    Ask, Chunk, Confirmed, Departed, Fetch, Message as ClusterMessage, NoSnapshot, Offer, Pong, Refusal, Report,
    Sighting, Standing,
};
use atoll_cluster::skew::Ahead;
use atoll_cluster::snapshot::{self, Fetcher, Progress, Snapshot};
use atoll_types::{Address, Bug, ClusterId, Incarnation, NodeId, Record, Request, Slot, planted};
use std::sync::Arc;

/// Nodes that a member remembers although its log does not know them yet.
const STRANGERS_MOST: usize = 64;

impl Member {
    pub(crate) fn receive(&mut self, context: &mut Context, from: &Address, envelope: Envelope) -> Turn {
        if let Some(turn) = self.turn_away(context, from, &envelope) {
            return turn;
        }
        let (node, incarnation) = (envelope.from, envelope.incarnation);
        if !node.is_nobody() {
            self.prune_contacts();
            self.contacts.insert(node, Contact { incarnation, address: from.clone() });
            self.sight(context, Sighting::of(node, incarnation));
            if let Some(office) = &mut self.office {
                office.health.on_direct(context.now, node);
            }
        }
        match envelope.message {
            Message::Paxos(message) => {
                if !node.is_nobody() && node != self.me() {
                    self.paxos.on_message(context.now, node, message);
                }
                Turn::Stay
            }
            // For the shards, which have a door of their own.
            Message::Shard(_) => Turn::Stay,
            Message::Cluster(message) => self.on_cluster_message(context, from, node, incarnation, message),
        }
    }

    /// Contacts are of members, and of a few that this node has not heard to be any.
    fn prune_contacts(&mut self) {
        if self.contacts.len() > self.replicated.state.members.len() + STRANGERS_MOST {
            self.contacts.retain(|node, _| self.replicated.state.members.contains_key(node));
        }
    }

    /// Whether a message counts: of this cluster, this generation, a life that is not over, and meant for this life.
    /// Whoever is refused is told what it does not know.
    fn turn_away(&mut self, context: &mut Context, from: &Address, envelope: &Envelope) -> Option<Turn> {
        let sender = Recipient::sender(from, envelope);
        let signature = self.signature();
        let mine = self.identity.incarnation;
        // A refusal is never answered by a refusal: two that refuse each other would go on for ever.
        let refused = match &envelope.message {
            Message::Cluster(ClusterMessage::Refused(refused)) => Some(&refused.refusal),
            Message::Cluster(_) | Message::Paxos(_) | Message::Shard(_) => None,
        };
        if envelope.cluster == ClusterId::NONE {
            return self.turn_away_blank(context, from, envelope);
        }
        if envelope.cluster != self.identity.cluster {
            context.counters.refused_other_cluster += 1;
            match refused {
                Some(refusal) => drop(self.on_refused(context, from, refusal.clone())),
                None => {
                    let cluster = self.identity.cluster;
                    context.refuse(&signature, sender, Refusal::OtherCluster { cluster });
                }
            }
            return Some(Turn::Stay);
        }
        if envelope.generation > self.paxos.generation() {
            return Some(Turn::Fenced { generation: envelope.generation, holder: from.clone() });
        }
        if let Some(at) = self.replicated.state.departed_at(envelope.from) {
            // Not before every live node has the entry: until then the departed may be needed to find it decided. One
            // without a state has nothing that anybody needs.
            let stateless =
                matches!(&envelope.message, Message::Cluster(ClusterMessage::Fetch(fetch)) if fetch.stateless);
            if at <= self.paxos.floor() || stateless {
                context.counters.told_departed += 1;
                let departed = Departed { node: envelope.from, incarnation: envelope.incarnation, at };
                context.send_cluster(&signature, sender, ClusterMessage::Departed(departed));
                return Some(Turn::Stay);
            }
        }
        if envelope.generation < self.paxos.generation() && !planted(Bug::OldGenerationTaken) {
            context.counters.refused_old_generation += 1;
            if refused.is_none() {
                let generation = self.paxos.generation();
                context.refuse(&signature, sender, Refusal::OldGeneration { generation });
            }
            return Some(Turn::Stay);
        }
        if let Some(known) = self.later_life(envelope.from, envelope.incarnation)
            && !planted(Bug::OldIncarnationCounts)
        {
            context.counters.refused_old_incarnation += 1;
            if refused.is_none() {
                context.refuse(&signature, sender, Refusal::OldIncarnation { known });
            }
            return Some(Turn::Stay);
        }
        let for_me = envelope.to.is_nobody() || (envelope.to, envelope.to_cookie) == (self.me(), mine.cookie);
        if !for_me && !planted(Bug::OldIncarnationCounts) {
            context.counters.refused_not_me += 1;
            if refused.is_none() {
                context.refuse(&signature, sender, Refusal::NotMe { incarnation: mine });
            }
            return Some(Turn::Stay);
        }
        None
    }

    /// A process that belongs to no cluster may ask to be let in, or say that it is blank.
    fn turn_away_blank(&mut self, context: &mut Context, from: &Address, envelope: &Envelope) -> Option<Turn> {
        match &envelope.message {
            Message::Cluster(ClusterMessage::Ask(_)) => None,
            Message::Cluster(ClusterMessage::Refused(refused)) if refused.refusal == Refusal::Blank => {
                self.on_blank_process(context, from, envelope.incarnation);
                Some(Turn::Stay)
            }
            Message::Cluster(_) | Message::Paxos(_) | Message::Shard(_) => Some(Turn::Stay),
        }
    }

    /// A life of `node` that makes `incarnation` an old or a false one.
    fn later_life(&self, node: NodeId, incarnation: Incarnation) -> Option<Incarnation> {
        let recorded = self.replicated.state.members.get(&node).map(|member| member.incarnation);
        let heard = self.contacts.get(&node).map(|contact| contact.incarnation);
        [recorded, heard].into_iter().flatten().find(|known| {
            known.life > incarnation.life || (known.life == incarnation.life && known.cookie != incarnation.cookie)
        })
    }

    /// Somebody is alive. The leader notes it; everybody else passes it on with its next report.
    fn sight(&mut self, context: &Context, sighting: Sighting) {
        if sighting.node == self.me() {
            return;
        }
        self.known_dead.remove(&sighting.node);
        if let Some(office) = &mut self.office {
            return office.health.on_heard(context.now, sighting);
        }
        match self.sightings.get_mut(&sighting.node) {
            Some(known) => known.merge(sighting),
            None => drop(self.sightings.insert(sighting.node, sighting)),
        }
    }

    fn on_cluster_message(
        &mut self,
        context: &mut Context,
        from: &Address,
        node: NodeId,
        incarnation: Incarnation,
        message: ClusterMessage,
    ) -> Turn {
        let sender = Recipient { address: from.clone(), node, cookie: incarnation.cookie };
        match message {
            ClusterMessage::Ask(ask) => self.on_ask(context, sender, ask),
            ClusterMessage::Fetch(fetch) => self.on_fetch(context, sender, &fetch),
            ClusterMessage::Chunk(chunk) => return self.on_chunk(context, &chunk),
            ClusterMessage::NoSnapshot(_) => {
                if let Some(fetcher) = &mut self.fetcher {
                    fetcher.on_nothing();
                }
            }
            ClusterMessage::Offer(offer) => self.on_offer(context, from, &offer),
            ClusterMessage::Report(report) => self.on_report(context, from, node, incarnation, report),
            ClusterMessage::Confirmed(confirmed) => {
                self.currency.on_confirmed(context.now, self.replicated.state.applied, &confirmed);
                let ahead = |theirs| Ahead::through(theirs, confirmed.sent, confirmed.at, context.now);
                self.compared = confirmed.ahead.map(|theirs| (ahead(theirs), context.now));
                self.tell_current(context);
            }
            ClusterMessage::Ping(_) => {
                let pong =
                    Pong { position: self.replicated.state.applied, vitals: context.vitals(self.ahead(context)) };
                let signature = self.signature();
                context.send_cluster(&signature, sender, ClusterMessage::Pong(pong));
            }
            ClusterMessage::Pong(pong) => {
                let (position, vitals) = (pong.position, Some(pong.vitals));
                let sighting = Sighting { position, vitals, ..Sighting::of(node, incarnation) };
                self.sight(context, sighting);
            }
            ClusterMessage::Submit(submit) => {
                let leader = self.paxos.leader().filter(|&leader| leader != self.me() && leader != node);
                if self.office.is_some() {
                    self.on_submission(context, submit.submission, Some(sender));
                } else if submit.submission.node == node
                    && let Some(leader) = leader
                {
                    // Passed on once, from its submitter only, so that it cannot go in circles.
                    self.send(context, leader, Message::Cluster(ClusterMessage::Submit(submit)));
                }
            }
            ClusterMessage::Departed(departed) => {
                if departed.node == self.me() && departed.incarnation == self.identity.incarnation {
                    return Turn::Departed { at: departed.at };
                }
            }
            ClusterMessage::Refused(refused) => return self.on_refused(context, from, refused.refusal),
            ClusterMessage::Standing(_) | ClusterMessage::Welcome(_) => {}
        }
        Turn::Stay
    }

    /// Answers what this node is, and sees to it that the leader hears of the ask, over one hop at most.
    fn on_ask(&mut self, context: &mut Context, sender: Recipient, ask: Ask) {
        let signature = self.signature();
        if sender.node.is_nobody() {
            let (name, cluster) = (context.config.name.clone(), self.identity.cluster);
            let standing = Standing { name, cluster, founders: context.config.bootstrap.clone() };
            context.send_cluster(&signature, sender.clone(), ClusterMessage::Standing(standing));
        }
        if self.office.is_some() {
            return self.on_newcomer(context, ask);
        }
        if sender.node.is_nobody() && !self.asked_here.contains(&ask.newcomer.incarnation) {
            self.asked_here.push_back(ask.newcomer.incarnation);
            if self.asked_here.len() > context.config.limits.arrivals {
                self.asked_here.pop_front(); // That one asks again.
            }
        }
        // It may be named already, and out of the leader's reach.
        let named = self.replicated.state.named(&ask.newcomer.name);
        if let Some((node, _)) = named.filter(|(_, member)| member.incarnation == ask.newcomer.incarnation) {
            self.welcome(context, node);
        }
        if sender.node.is_nobody()
            && let Some(leader) = self.paxos.leader().filter(|&leader| leader != self.me())
        {
            self.send(context, leader, Message::Cluster(ClusterMessage::Ask(ask)));
        }
    }

    fn on_report(
        &mut self,
        context: &mut Context,
        from: &Address,
        node: NodeId,
        incarnation: Incarnation,
        report: Report,
    ) {
        let recorded = self.replicated.state.members.get(&node).map(|member| member.incarnation);
        let returned = (recorded != Some(incarnation)).then(|| (from.clone(), report.level));
        let vitals = Some(report.vitals);
        let own = Sighting { node, incarnation, position: report.position, returned, vitals };
        for sighting in report.sightings.into_iter().chain([own]) {
            self.sight(context, sighting);
        }
        for (dead, life) in report.dead {
            self.on_dead(context, dead, life);
        }
        self.paxos.on_position(node, report.position);
        self.note_lead();
        let (age, position) = (context.now.since(self.currency.since()), self.replicated.state.applied);
        let ahead = self.ahead(context);
        let confirmed = Confirmed { sent: report.sent, age, position, at: context.now, ahead };
        self.send(context, node, Message::Cluster(ClusterMessage::Confirmed(confirmed)));
    }

    fn on_dead(&mut self, context: &Context, node: NodeId, incarnation: Incarnation) {
        if node == self.me() {
            return;
        }
        let known = self.contacts.get(&node).map(|contact| contact.incarnation);
        if known.is_none_or(|known| known <= incarnation) {
            self.paxos.on_gone(context.now, node);
        }
        match &mut self.office {
            Some(office) => office.health.on_dead(context.now, node, incarnation),
            None => drop(self.dead.insert(node, incarnation)),
        }
    }

    /// Nobody listens where these nodes were: their process is gone.
    pub(crate) fn on_connection_refused(&mut self, context: &mut Context, address: &Address) {
        self.on_gone_from(context, address, None);
    }

    /// A blank process says that it is. Whoever was at its address before is gone; it may itself have been named since.
    fn on_blank_process(&mut self, context: &mut Context, address: &Address, blank: Incarnation) {
        self.on_gone_from(context, address, Some(blank));
    }

    fn on_gone_from(&mut self, context: &mut Context, address: &Address, except: Option<Incarnation>) {
        let there: Vec<(NodeId, Incarnation)> = self
            .replicated
            .state
            .members
            .iter()
            .filter(|(_, member)| member.address == *address && Some(member.incarnation) != except)
            .map(|(&node, member)| {
                let heard = self.contacts.get(&node).map(|contact| contact.incarnation);
                (node, heard.unwrap_or(member.incarnation).max(member.incarnation))
            })
            .filter(|(_, incarnation)| Some(*incarnation) != except)
            .collect();
        for (node, incarnation) in there {
            // The leader should know at once, and once.
            if self.known_dead.insert(node, incarnation) != Some(incarnation) && self.office.is_none() {
                self.report_due = context.now;
            }
            self.on_dead(context, node, incarnation);
        }
    }

    fn on_fetch(&mut self, context: &mut Context, sender: Recipient, fetch: &Fetch) {
        let signature = self.signature();
        if fetch.slot > self.replicated.state.applied {
            let none = NoSnapshot { slot: fetch.slot };
            return context.send_cluster(&signature, sender, ClusterMessage::NoSnapshot(none));
        }
        let trimmed = self.paxos.log().trimmed();
        let kept = self.keeper.get(fetch.slot, trimmed).is_some();
        let newest = self.keeper.newest(trimmed).map(|snapshot| snapshot.slot);
        if !kept && newest.is_none_or(|newest| newest < fetch.slot) {
            self.keep_snapshot(context);
        }
        let snapshot = self.keeper.get(fetch.slot, trimmed).or_else(|| self.keeper.newest(trimmed));
        if let Some(snapshot) = snapshot {
            let chunk = snapshot::piece(snapshot, fetch, context.config.limits.chunk_bytes);
            context.send_cluster(&signature, sender, ClusterMessage::Chunk(chunk));
        }
    }

    /// What this node misses is trimmed elsewhere.
    fn on_offer(&mut self, context: &mut Context, from: &Address, offer: &Offer) {
        if offer.slot <= self.replicated.state.applied || self.fetcher.is_some() || self.office.is_some() {
            return;
        }
        let least = self.replicated.state.applied.next();
        let retry = context.config.timing.retry;
        self.fetcher = Some(Fetcher::new(context.now, Slot::ZERO, least, vec![from.clone()], retry));
        self.on_fetch_due(context);
    }

    pub(crate) fn on_fetch_due(&mut self, context: &mut Context) {
        let Some(fetcher) = &mut self.fetcher else { return };
        // An offer that leads nowhere is dropped: whoever feeds this node makes another.
        if fetcher.is_hopeless() || context.now.since(fetcher.since()) > context.config.timing.arrival {
            self.fetcher = None;
        } else if let Some((holder, fetch)) = fetcher.take_due(context.now, &mut context.rng) {
            let signature = self.signature();
            context.send_cluster(&signature, Recipient::at(holder), ClusterMessage::Fetch(fetch));
        }
    }

    fn on_chunk(&mut self, context: &mut Context, chunk: &Chunk) -> Turn {
        let Some(fetcher) = &mut self.fetcher else { return Turn::Stay };
        match fetcher.on_chunk(context.now, chunk) {
            Progress::More => self.on_fetch_due(context),
            Progress::Bad => {
                context.counters.snapshots_refused += 1;
                self.on_fetch_due(context);
            }
            Progress::Done(snapshot) => self.install(context, snapshot),
        }
        Turn::Stay
    }

    /// Goes on from a snapshot. What this node promised and accepted stays.
    fn install(&mut self, context: &mut Context, snapshot: Snapshot) {
        let Some(replicated) = Replicated::open(snapshot.bytes.as_slice(), context.kind.as_deref())
            .filter(|replicated| replicated.state.applied == snapshot.slot)
        else {
            context.counters.snapshots_refused += 1;
            if let Some(fetcher) = &mut self.fetcher {
                fetcher.on_unsound();
            }
            return self.on_fetch_due(context);
        };
        self.fetcher = None;
        let state = &replicated.state;
        let fits = state.cluster == self.replicated.state.cluster && state.generation == self.paxos.generation();
        if !fits || state.applied <= self.replicated.state.applied {
            context.counters.snapshots_refused += u64::from(!fits);
            return;
        }
        context.counters.snapshots_installed += 1;
        context.event(Event::SnapshotInstalled { slot: snapshot.slot, digest: snapshot.digest() });
        let checkpoint = self.checkpoint(snapshot);
        self.replicated = replicated;
        let government = (self.replicated.state.government_slot, Arc::new(self.replicated.state.government.clone()));
        self.paxos.install(self.replicated.state.applied, government);
        self.paxos.persist(Record::Checkpoint(checkpoint));
        self.note_absences(context.now);
        self.settle_skipped(context);
        self.tell_open_barriers(context);
        self.tell_all(context);
        self.currency.on_applied(self.replicated.state.applied);
        self.tell_current(context);
    }

    /// Some of what this node submitted was decided in the part it never saw.
    fn settle_skipped(&mut self, context: &mut Context) {
        let (slot, me) = (self.replicated.state.applied, self.me());
        let submitted = self.replicated.state.submitted.get(&me);
        let cookie = self.identity.incarnation.cookie;
        let taken = |sequence| submitted.is_some_and(|taken| taken.cookie == cookie && taken.has(sequence));
        for (ticket, request) in self.submitter.on_skipped(taken) {
            match request {
                Request::User(_) => context.submitted(ticket, slot),
                // In the log, and whether it could be done is not known here.
                Request::Broadcast(_)
                | Request::Depart { .. }
                | Request::Acclimated
                | Request::Answer { .. }
                | Request::Reports(_)
                | Request::Operate(_)
                | Request::Reached(_)
                | Request::Pause => {
                    context.event(Event::Unknown { ticket });
                }
            }
        }
    }

    fn on_refused(&mut self, context: &mut Context, from: &Address, refusal: Refusal) -> Turn {
        match refusal {
            Refusal::OldGeneration { generation } if generation > self.paxos.generation() => {
                return Turn::Fenced { generation, holder: from.clone() };
            }
            Refusal::OldIncarnation { known } if known.life >= self.identity.incarnation.life => {
                let life = known.life;
                let alarm = format!("{from} knows another process as this node, in life {life}: is it running twice?");
                context.event(Event::Alarm(alarm));
            }
            Refusal::OtherCluster { cluster } => {
                let alarm = format!("{from} belongs to another cluster, {cluster}: check --join");
                context.event(Event::Alarm(alarm));
            }
            // What the refuser is was learnt from its envelope; a submission that found a full queue is due again.
            Refusal::OldGeneration { .. }
            | Refusal::OldIncarnation { .. }
            | Refusal::NotMe { .. }
            | Refusal::Blank
            | Refusal::NameTaken { .. }
            | Refusal::LevelTooLow
            | Refusal::Busy => {}
        }
        Turn::Stay
    }
}
