//! A node that belongs to no cluster: it asks to be let in, answers others that ask, and founds if that falls to it.

use crate::context::{Context, Recipient, Signature};
use crate::door::{Event, Input, Rejection};
use crate::envelope::{Envelope, Message};
use crate::machine::Turn;
use atoll_cluster::arrival::{Arrival, Waiting};
use atoll_cluster::message::{Ask, Message as ClusterMessage, Refusal, Standing, Welcome};
use atoll_types::{Address, ClusterId, Identity, Incarnation, Newcomer, NodeId, Time};

#[derive(Debug)]
pub(crate) struct Blank {
    /// Boxed: it is the largest part of a phase that is soon over.
    arrival: Box<Arrival>,
    signature: Signature,
}

impl Blank {
    /// `departed`: it has belonged to a cluster, and founds no other, whatever `--bootstrap` says.
    pub(crate) fn new(context: &mut Context, departed: bool) -> Blank {
        let incarnation = Incarnation { life: 1, cookie: context.new_cookie() };
        let config = &context.config;
        let newcomer = Newcomer {
            node: NodeId::NOBODY,
            name: config.name.clone(),
            address: config.address.clone(),
            endpoints: config.endpoints.clone(),
            incarnation,
            zone: config.zone.clone(),
            weight: config.weight,
            level: config.level,
            durable: config.durable,
        };
        let founders = if departed { Vec::new() } else { config.bootstrap.clone() };
        let ask = Ask { newcomer, founders, forgot: departed };
        let (join, timing) = (config.join.clone(), &config.timing);
        let arrival = Arrival::new(context.now, ask, join, timing.retry, timing.retry_most);
        Blank { arrival: Box::new(arrival), signature: Signature::blank(incarnation) }
    }

    pub(crate) fn newcomer(&self) -> &Newcomer {
        self.arrival.newcomer()
    }

    pub(crate) fn due(&self) -> Time {
        self.arrival.due()
    }

    pub(crate) fn waiting(&self) -> &Waiting {
        self.arrival.waiting()
    }

    pub(crate) fn handle(&mut self, context: &mut Context, input: Input) -> Turn {
        match input {
            Input::Message { from, envelope } => self.receive(context, &from, envelope),
            Input::Wake => {
                // Founding is decided at the end of a round, when whoever has something to say has said it.
                if context.now >= self.arrival.due() && self.arrival.may_found() {
                    return Turn::Found;
                }
                for (address, ask) in self.arrival.take_due(context.now, &mut context.rng) {
                    context.send_cluster(&self.signature, Recipient::at(address), ClusterMessage::Ask(ask));
                }
                Turn::Stay
            }
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

    fn receive(&mut self, context: &mut Context, from: &Address, envelope: Envelope) -> Turn {
        let sender = Recipient::sender(from, &envelope);
        match envelope.message {
            Message::Cluster(ClusterMessage::Ask(_)) => {
                let name = context.config.name.clone();
                let founders = self.arrival.founders().to_vec();
                let standing = Standing { name, cluster: ClusterId::NONE, founders };
                context.send_cluster(&self.signature, sender, ClusterMessage::Standing(standing));
            }
            Message::Cluster(ClusterMessage::Standing(standing)) => {
                self.arrival.on_heard(from);
                // It may know itself by a name of its own address that it does not know to be its own.
                let twin = envelope.incarnation != self.newcomer().incarnation
                    && standing.cluster == ClusterId::NONE
                    && standing.name == self.newcomer().name;
                let twin = twin.then(|| self.arrival.on_twin(from));
                for complaint in twin.into_iter().chain(self.arrival.on_standing(standing)) {
                    context.event(Event::Alarm(complaint));
                }
            }
            Message::Cluster(ClusterMessage::Welcome(welcome)) => return self.on_welcome(context, welcome),
            Message::Cluster(ClusterMessage::Refused(refused)) => {
                self.arrival.on_heard(from);
                on_refused(context, from, &refused.refusal);
            }
            Message::Cluster(
                ClusterMessage::Fetch(_)
                | ClusterMessage::Chunk(_)
                | ClusterMessage::NoSnapshot(_)
                | ClusterMessage::Offer(_)
                | ClusterMessage::Report(_)
                | ClusterMessage::Confirmed(_)
                | ClusterMessage::Ping(_)
                | ClusterMessage::Pong(_)
                | ClusterMessage::Submit(_)
                | ClusterMessage::Departed(_),
            )
            | Message::Paxos(_)
            | Message::Shard(_) => {
                // Meant for whoever was here before: tell that it is gone.
                if !envelope.to.is_nobody() {
                    context.refuse(&self.signature, sender, Refusal::Blank);
                }
            }
        }
        Turn::Stay
    }

    /// Only a government that names this very process counts.
    fn on_welcome(&mut self, context: &Context, welcome: Welcome) -> Turn {
        let incarnation = self.newcomer().incarnation;
        if welcome.cookie != incarnation.cookie {
            return Turn::Stay;
        }
        let identity = Identity { cluster: welcome.cluster, node: welcome.node, incarnation };
        let mut holders: Vec<Address> = welcome.holders.into_iter().map(|(_, address)| address).collect();
        if holders.is_empty() {
            holders.clone_from(&context.config.join);
        }
        Turn::Named { identity, generation: welcome.generation, slot: welcome.slot, holders }
    }
}

fn on_refused(context: &mut Context, from: &Address, refusal: &Refusal) {
    let alarm = match refusal {
        Refusal::NameTaken { name } => {
            format!(
                "{from} knows a node named {name} that is alive or keeps its data: give this node another --name, \
                 start that one from its data directory, or remove it"
            )
        }
        Refusal::LevelTooLow => format!("{from} speaks a feature level this version does not know: upgrade this node"),
        Refusal::Busy
        | Refusal::Blank
        | Refusal::OtherCluster { .. }
        | Refusal::OldGeneration { .. }
        | Refusal::OldIncarnation { .. }
        | Refusal::NotMe { .. } => return,
    };
    context.event(Event::Alarm(alarm));
}
