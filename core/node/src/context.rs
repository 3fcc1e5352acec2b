//! What every phase of a node works with: its settings, the time, its dice, the way out.

use crate::config::Config;
use crate::directives::Told;
use crate::door::{Event, Output, Rejection};
use crate::envelope::{Envelope, Message};
use crate::shard::door::{Answer, Reason, RequestId};
use crate::view::Counters;
use atoll_cluster::Vitals;
use atoll_cluster::message::{Refusal, Refused};
use atoll_cluster::skew::Ahead;
use atoll_cluster::vitals::Watch;
use atoll_types::{
    Address, ClusterId, Cookie, Generation, Identity, Incarnation, JournalSeq, NodeId, Payload, Record, Rng, Slot,
    StateMachine, Time,
};
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) rng: Rng,
    pub(crate) now: Time,
    pub(crate) outputs: VecDeque<Output>,
    pub(crate) counters: Counters,
    /// What the parts of this node do.
    pub(crate) watch: Watch,
    /// What the shards were told.
    pub(crate) told: Told,
    /// The kind of machine that the user of the cluster log brought along; an empty one.
    pub(crate) kind: Option<Box<dyn StateMachine>>,
}

/// How a node signs its messages.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    pub(crate) cluster: ClusterId,
    pub(crate) generation: Generation,
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
}

impl Signature {
    pub(crate) fn of(identity: &Identity, generation: Generation) -> Signature {
        Signature { cluster: identity.cluster, generation, node: identity.node, incarnation: identity.incarnation }
    }

    /// Of a process that belongs to no cluster.
    pub(crate) fn blank(incarnation: Incarnation) -> Signature {
        let (cluster, generation, node) = (ClusterId::NONE, Generation::default(), NodeId::NOBODY);
        Signature { cluster, generation, node, incarnation }
    }
}

/// Whom a message is for.
#[derive(Clone, Debug)]
pub(crate) struct Recipient {
    pub(crate) address: Address,
    pub(crate) node: NodeId,
    pub(crate) cookie: Cookie,
}

impl Recipient {
    /// Whoever is at this address.
    pub(crate) fn at(address: Address) -> Recipient {
        Recipient { address, node: NodeId::NOBODY, cookie: Cookie::UNKNOWN }
    }

    /// Whoever sent this.
    pub(crate) fn sender(address: &Address, envelope: &Envelope) -> Recipient {
        Recipient { address: address.clone(), node: envelope.from, cookie: envelope.incarnation.cookie }
    }
}

impl Context {
    pub(crate) fn send(&mut self, signature: &Signature, to: Recipient, message: Message) {
        let envelope = Envelope {
            cluster: signature.cluster,
            generation: signature.generation,
            from: signature.node,
            incarnation: signature.incarnation,
            to: to.node,
            to_cookie: to.cookie,
            message,
        };
        self.outputs.push_back(Output::Send { to: to.address, envelope });
    }

    pub(crate) fn send_cluster(&mut self, signature: &Signature, to: Recipient, message: atoll_cluster::Message) {
        self.send(signature, to, Message::Cluster(message));
    }

    pub(crate) fn refuse(&mut self, signature: &Signature, to: Recipient, refusal: Refusal) {
        self.send_cluster(signature, to, atoll_cluster::Message::Refused(Refused { refusal }));
    }

    /// How this node is.
    pub(crate) fn vitals(&self, ahead: Option<Ahead>) -> Vitals {
        self.watch.vitals(self.now, ahead, self.config.limits.memory)
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    pub(crate) fn reject(&mut self, ticket: u64, rejection: Rejection) {
        self.event(Event::Rejected { ticket, rejection });
    }

    pub(crate) fn submitted(&mut self, ticket: u64, slot: Slot) {
        self.event(Event::Submitted { ticket, slot, answer: Payload::default() });
    }

    /// A request that came to a machine without buckets.
    pub(crate) fn answer_no_table(&mut self, id: RequestId) {
        self.outputs.push_back(Output::Answer { id, answer: Answer::NotApplied(Reason::NoTable) });
    }

    pub(crate) fn persist(&mut self, seq: JournalSeq, record: Record) {
        self.outputs.push_back(Output::Persist { seq, record });
    }

    pub(crate) fn new_cookie(&mut self) -> Cookie {
        Cookie(self.rng.next() | 1)
    }
}
