//! A node that a government has named, and that waits for its snapshot.

use crate::context::{Context, Recipient, Signature};
use crate::door::{Input, Rejection};
use crate::envelope::{Envelope, Message};
use crate::machine::Turn;
use crate::replicated::Replicated;
use atoll_cluster::State;
use atoll_cluster::message::{Chunk, Fetch, Message as ClusterMessage, Pong, Refusal, Standing};
use atoll_cluster::snapshot::{Fetcher, Progress};
use atoll_types::{Address, Bug, ClusterId, Generation, Government, Identity, NodeId, Slot, Time, planted};

#[derive(Debug)]
pub(crate) struct Fetching {
    identity: Identity,
    generation: Generation,
    fetcher: Fetcher,
    /// The slot of the government that named this node; zero if it only knows that there is one.
    slot: Slot,
    /// A later generation may have given this node's id to another: until the snapshot tells, it speaks as nobody.
    fenced: bool,
}

impl Fetching {
    pub(crate) fn new(
        context: &mut Context,
        identity: Identity,
        generation: Generation,
        slot: Slot,
        holders: Vec<Address>,
        fenced: bool,
    ) -> Fetching {
        let own = &context.config.address;
        let holders: Vec<Address> = holders.into_iter().filter(|holder| holder != own).collect();
        let fetcher = Fetcher::new(context.now, slot, slot, holders, context.config.timing.retry);
        Fetching { identity, generation, fetcher, slot, fenced }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    pub(crate) fn was_fenced(&self) -> bool {
        self.fenced
    }

    pub(crate) fn due(&self) -> Time {
        self.fetcher.due()
    }

    fn signature(&self) -> Signature {
        let signature = Signature::of(&self.identity, self.generation);
        if self.fenced { Signature { node: NodeId::NOBODY, ..signature } } else { signature }
    }

    pub(crate) fn handle(&mut self, context: &mut Context, input: Input) -> Turn {
        match input {
            Input::Message { from, envelope } => self.receive(context, &from, envelope),
            Input::Wake => self.on_wake(context),
            Input::Submit { ticket, .. } | Input::Broadcast { ticket, .. } | Input::Operator { ticket, .. } => {
                context.reject(ticket, Rejection::Blank);
                Turn::Stay
            }
            Input::Request { id, .. } => {
                context.answer_no_table(id);
                Turn::Stay
            }
            Input::Persisted(_)
            | Input::Condense(_)
            | Input::ConnectionRefused { .. }
            | Input::Answer { .. }
            | Input::Pulse(_)
            | Input::Hang { .. }
            | Input::Reports(_) => Turn::Stay,
        }
    }

    fn on_wake(&mut self, context: &mut Context) -> Turn {
        // The cluster that named this node may be gone, or have given it up. It has no state: it can start over. One
        // that was fenced has copies of buckets, maybe the last ones: it keeps asking.
        let since = context.now.since(self.fetcher.since());
        if self.fetcher.is_hopeless() || since > context.config.timing.arrival * 2 {
            if !self.fenced {
                return Turn::GaveUp;
            }
            self.fetcher.begin_again(context.now);
        }
        if planted(Bug::EmptySnapshot) && self.fetcher.is_waiting() && context.now >= self.fetcher.due() {
            return self.start_empty(context);
        }
        if let Some((holder, fetch)) = self.fetcher.take_due(context.now, &mut context.rng) {
            context.send_cluster(
                &self.signature(),
                Recipient::at(holder),
                ClusterMessage::Fetch(Fetch { stateless: true, ..fetch }),
            );
        }
        Turn::Stay
    }

    fn receive(&mut self, context: &mut Context, from: &Address, envelope: Envelope) -> Turn {
        let sender = Recipient::sender(from, &envelope);
        if let Message::Cluster(ClusterMessage::Ask(_)) = envelope.message
            && envelope.from.is_nobody()
        {
            let (name, cluster) = (context.config.name.clone(), self.identity.cluster);
            let standing = Standing { name, cluster, founders: context.config.bootstrap.clone() };
            context.send_cluster(&self.signature(), sender, ClusterMessage::Standing(standing));
            return Turn::Stay;
        }
        if envelope.cluster == ClusterId::NONE {
            return Turn::Stay;
        }
        // A refusal is never answered by a refusal.
        let answer = !matches!(envelope.message, Message::Cluster(ClusterMessage::Refused(_)));
        if envelope.cluster != self.identity.cluster {
            context.counters.refused_other_cluster += 1;
            if answer {
                context.refuse(&self.signature(), sender, Refusal::OtherCluster { cluster: self.identity.cluster });
            }
            return Turn::Stay;
        }
        let for_me = envelope.to.is_nobody()
            || (envelope.to == self.identity.node && envelope.to_cookie == self.identity.incarnation.cookie);
        if !for_me {
            context.counters.refused_not_me += 1;
            if answer {
                let incarnation = self.identity.incarnation;
                context.refuse(&self.signature(), sender, Refusal::NotMe { incarnation });
            }
            return Turn::Stay;
        }
        if envelope.generation < self.generation {
            context.counters.refused_old_generation += 1;
            if answer {
                context.refuse(&self.signature(), sender, Refusal::OldGeneration { generation: self.generation });
            }
            return Turn::Stay;
        }
        // Of the log nothing is of use before the snapshot is here.
        let Message::Cluster(message) = envelope.message else { return Turn::Stay };
        match message {
            ClusterMessage::Chunk(chunk) => return self.on_chunk(context, from, &chunk),
            ClusterMessage::NoSnapshot(_) => self.fetcher.on_nothing(),
            ClusterMessage::Ping(_) => {
                let pong = Pong { position: Slot::ZERO, vitals: context.vitals(None) };
                context.send_cluster(&self.signature(), sender, ClusterMessage::Pong(pong));
            }
            ClusterMessage::Departed(departed) => {
                if departed.node == self.identity.node && departed.incarnation == self.identity.incarnation {
                    return Turn::Departed { at: departed.at };
                }
            }
            ClusterMessage::Refused(refused) => {
                if let Refusal::OldGeneration { generation } = refused.refusal
                    && generation > self.generation
                {
                    return Turn::Fenced { generation, holder: from.clone() };
                }
            }
            ClusterMessage::Ask(_)
            | ClusterMessage::Standing(_)
            | ClusterMessage::Welcome(_)
            | ClusterMessage::Fetch(_)
            | ClusterMessage::Offer(_)
            | ClusterMessage::Report(_)
            | ClusterMessage::Confirmed(_)
            | ClusterMessage::Pong(_)
            | ClusterMessage::Submit(_) => {}
        }
        Turn::Stay
    }

    fn on_chunk(&mut self, context: &mut Context, from: &Address, chunk: &Chunk) -> Turn {
        match self.fetcher.on_chunk(context.now, chunk) {
            Progress::More => {}
            Progress::Bad => context.counters.snapshots_refused += 1,
            Progress::Done(snapshot) => {
                let Some(replicated) = Replicated::open(snapshot.bytes.as_slice(), context.kind.as_deref())
                    .filter(|replicated| replicated.state.applied == snapshot.slot)
                else {
                    context.counters.snapshots_refused += 1;
                    self.fetcher.on_unsound();
                    return self.on_wake(context);
                };
                let state = &replicated.state;
                let same_cluster = state.cluster == self.identity.cluster && state.generation >= self.generation;
                if same_cluster && self.is_in(context, state) {
                    return Turn::Installed { replicated: Box::new(replicated), from: Some(from.clone()) };
                }
                if same_cluster && self.fenced {
                    return Turn::Departed { at: state.applied };
                }
                context.counters.snapshots_refused += 1;
                self.fetcher.on_nothing();
            }
        }
        self.on_wake(context)
    }

    /// Is the member of this id this node?
    fn is_in(&self, context: &Context, state: &State) -> bool {
        let mine = self.identity.incarnation;
        state.members.get(&self.identity.node).is_some_and(|member| {
            member.name == context.config.name && (member.incarnation.life < mine.life || member.incarnation == mine)
        })
    }

    /// A planted bug: nobody sent the state in time, so there was none.
    fn start_empty(&self, context: &Context) -> Turn {
        let leader = NodeId(1);
        let mut replicated = Replicated::new(context.kind.as_deref());
        let state = &mut replicated.state;
        state.cluster = self.identity.cluster;
        state.applied = self.slot;
        state.government = Government::of(&[leader], [leader].into_iter(), atoll_types::Cause::Elected);
        Turn::Installed { replicated: Box::new(replicated), from: None }
    }
}
