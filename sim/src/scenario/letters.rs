//! Messages in words: what one node says to another, as a sentence.

use crate::scenario::bucket_words;
use crate::scenario::words::{Words, text};
use atoll_cluster::message as cluster;
use atoll_node::{Envelope, Message};
use atoll_paxos::message as paxos;
use atoll_types::ClusterId;

/// The one word that names a kind of message in commands.
pub(super) fn kind(message: &Message) -> &'static str {
    use atoll_node::shard::message::ShardMessage as Shard;
    use cluster::Message as Cluster;
    use paxos::Message as Paxos;
    match message {
        Message::Paxos(Paxos::Canvass(_)) => "canvass",
        Message::Paxos(Paxos::Support(_)) => "support",
        Message::Paxos(Paxos::Prepare(_)) => "prepare",
        Message::Paxos(Paxos::Promise(_)) => "promise",
        Message::Paxos(Paxos::Accept(_)) => "accept",
        Message::Paxos(Paxos::Accepted(_)) => "accepted",
        Message::Paxos(Paxos::Learn(_)) => "learn",
        Message::Paxos(Paxos::Missing(_)) => "missing",
        Message::Paxos(Paxos::Stand(_)) => "stand",
        Message::Paxos(Paxos::Refused(_)) | Message::Cluster(Cluster::Refused(_)) => "refused",
        Message::Cluster(Cluster::Ask(_)) => "ask",
        Message::Cluster(Cluster::Standing(_)) => "standing",
        Message::Cluster(Cluster::Welcome(_)) => "welcome",
        Message::Cluster(Cluster::Fetch(_)) => "fetch",
        Message::Cluster(Cluster::Chunk(_)) => "chunk",
        Message::Cluster(Cluster::NoSnapshot(_)) => "nosnapshot",
        Message::Cluster(Cluster::Offer(_)) => "offer",
        Message::Cluster(Cluster::Report(_)) => "report",
        Message::Cluster(Cluster::Confirmed(_)) => "confirmed",
        Message::Cluster(Cluster::Ping(_)) => "ping",
        Message::Cluster(Cluster::Pong(_)) => "pong",
        Message::Cluster(Cluster::Submit(_)) => "submit",
        Message::Cluster(Cluster::Departed(_)) => "departed",
        // A frame is named by what it begins with.
        Message::Shard(Shard::Replicas(messages)) => messages.first().map_or("replicas", bucket_words::kind),
        Message::Shard(Shard::Hop(_)) => "hop",
        Message::Shard(Shard::Hopped(_)) => "hopped",
        Message::Shard(Shard::Vouch(_)) => "vouch",
        Message::Shard(Shard::Vouched(_)) => "vouched",
    }
}

impl Words<'_> {
    pub(super) fn letter(&self, envelope: &Envelope, piece: usize) -> String {
        match &envelope.message {
            Message::Paxos(message) => self.of_paxos(message),
            Message::Cluster(message) => self.of_cluster(message, piece as u64),
            Message::Shard(message) => self.of_shard(message),
        }
    }

    fn of_paxos(&self, message: &paxos::Message) -> String {
        use paxos::Message;
        let ballot = |ballot| self.names.ballot(self.cluster, ballot);
        match message {
            Message::Canvass(canvass) => {
                format!("would you promise {}? I know {} decided", ballot(canvass.ballot), canvass.decided)
            }
            Message::Support(support) => format!("I would promise {}", ballot(support.ballot)),
            Message::Prepare(prepare) => {
                let told = if prepare.ordered { "; the leader told me to stand" } else { "" };
                format!("prepare {}; I know {} decided{told}", ballot(prepare.ballot), prepare.decided)
            }
            Message::Promise(promise) => {
                let held = match promise.held.as_slice() {
                    [] => "hold nothing beyond".to_owned(),
                    held => {
                        let told = (promise.first.0..).zip(held).map(|(slot, held)| {
                            format!("{slot} {}, in {}", self.entry(&held.entry), ballot(held.ballot))
                        });
                        format!("hold {}", told.collect::<Vec<_>>().join("; "))
                    }
                };
                format!("I promise {}, know {} decided, {held}", ballot(promise.ballot), promise.decided)
            }
            Message::Accept(accept) if accept.entries.is_empty() => format!("decided up to {}", accept.decided),
            Message::Accept(accept) => {
                let entries = self.entries(accept.previous.next(), &accept.entries);
                format!("accept in {}: {entries}; decided up to {}", ballot(accept.ballot), accept.decided)
            }
            Message::Accepted(accepted) => format!("I hold all up to {}", accepted.through),
            Message::Learn(learn) if learn.entries.is_empty() => format!("decided up to {}", learn.decided),
            Message::Learn(learn) => format!("learn {}", self.entries(learn.previous.next(), &learn.entries)),
            Message::Missing(missing) => format!("send what follows {}", missing.position),
            Message::Stand(_) => "stand: I step down".to_owned(),
            Message::Refused(refused) => match &refused.refusal {
                paxos::Refusal::Promised(promised) => {
                    format!("refused {}: promised {}", ballot(refused.ballot), ballot(*promised))
                }
                paxos::Refusal::LeaderAlive { leader, .. } => {
                    format!("refused {}: a leader is alive ({})", ballot(refused.ballot), self.node(*leader))
                }
                paxos::Refusal::Gap { through } => format!("refused: I hold only up to {through}"),
            },
        }
    }

    fn of_cluster(&self, message: &cluster::Message, piece: u64) -> String {
        use cluster::Message;
        match message {
            Message::Ask(ask) => {
                let founders = match ask.founders.as_slice() {
                    [] => String::new(),
                    founders => format!(", founders {}", names(founders)),
                };
                format!("let {} in{founders}", ask.newcomer.name)
            }
            Message::Standing(standing) if standing.cluster == ClusterId::NONE => {
                let founders = match standing.founders.as_slice() {
                    [] => String::new(),
                    founders => format!(", founders {}", names(founders)),
                };
                format!("I am blank{founders}")
            }
            Message::Standing(standing) => format!("I belong to {}", self.names.cluster(standing.cluster)),
            Message::Welcome(welcome) => {
                let node = self.names.node(welcome.cluster, welcome.node);
                let holders: Vec<_> = welcome.holders.iter().map(|(_, address)| address.to_string()).collect();
                let holders = holders.join(" ");
                format!("welcome: you are {node}, named at {}; snapshot from {holders}", welcome.slot)
            }
            Message::Fetch(fetch) if fetch.slot.0 == 0 => "send me a snapshot".to_owned(),
            Message::Fetch(fetch) => {
                format!("send piece {} of the snapshot of {}", fetch.offset / piece + 1, fetch.slot)
            }
            Message::Chunk(chunk) => {
                let (number, of) = (chunk.offset / piece + 1, chunk.length.div_ceil(piece));
                format!("piece {number} of {of} of the snapshot of {}", chunk.slot)
            }
            Message::NoSnapshot(none) => format!("I have no snapshot of {}", none.slot),
            Message::Offer(_) => "what you miss is trimmed: fetch a snapshot".to_owned(),
            Message::Report(report) => {
                let dead = self.names.nodes(self.cluster, report.dead.iter().map(|(node, _)| *node));
                let dead = if dead.is_empty() { dead } else { format!("; gone: {dead}") };
                format!("I am at {}{dead}", report.position)
            }
            Message::Confirmed(confirmed) => {
                format!("all that was decided {:?} ago is up to {}", confirmed.age, confirmed.position)
            }
            Message::Ping(_) => "are you there?".to_owned(),
            Message::Pong(pong) => format!("I am, at {}", pong.position),
            Message::Submit(submit) => {
                let submission = &submit.submission;
                let (node, number) = (self.node(submission.node), submission.sequence.0);
                let what = match &submission.request {
                    atoll_types::Request::User(payload) => text(payload),
                    atoll_types::Request::Acclimated => "I have acclimated".to_owned(),
                    atoll_types::Request::Broadcast(payload) => format!("broadcast {}", text(payload)),
                    atoll_types::Request::Answer { barrier, answer } => {
                        format!("answer {} to barrier {barrier}", text(answer))
                    }
                    atoll_types::Request::Depart { node } => format!("{} is to depart", self.node(*node)),
                    atoll_types::Request::Reports(reports) => self.reports(reports),
                    atoll_types::Request::Operate(operation) => self.operation(operation),
                    atoll_types::Request::Pause => "I stop for a while".to_owned(),
                    atoll_types::Request::Reached(endpoints) => format!("I am reached at {}", endpoints.http),
                };
                format!("submission {number} of {node}: {what}")
            }
            Message::Departed(departed) => format!("you departed at {}", departed.at),
            Message::Refused(refused) => format!("refused: {}", self.refusal(&refused.refusal)),
        }
    }

    fn refusal(&self, refusal: &cluster::Refusal) -> String {
        use cluster::Refusal;
        match refusal {
            Refusal::OtherCluster { cluster } => format!("I belong to {}", self.names.cluster(*cluster)),
            Refusal::OldGeneration { generation } => {
                format!("there is {}", self.names.generation(self.cluster, *generation))
            }
            Refusal::OldIncarnation { known } => format!("I know you in life {}, as another process", known.life),
            Refusal::NotMe { incarnation } => {
                format!("not meant for this process, which is in life {}", incarnation.life)
            }
            Refusal::Blank => "here runs a blank process".to_owned(),
            Refusal::NameTaken { name } => format!("another node named {name} is alive"),
            Refusal::LevelTooLow => "you do not understand our feature level".to_owned(),
            Refusal::Busy => "busy, come back later".to_owned(),
        }
    }
}

fn names(names: &[atoll_types::Name]) -> String {
    names.iter().map(|name| &*name.0).collect::<Vec<_>>().join(" ")
}
