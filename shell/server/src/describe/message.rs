//! Messages between nodes, as a person reads them. What each means stands where it is defined.

use super::{bucket, entry, incarnation, list};
use atoll_cluster::message as cluster;
use atoll_node::{Envelope, Message};
use atoll_paxos::message as paxos;

pub(super) fn envelope(envelope: &Envelope) -> String {
    let from = if envelope.from.is_nobody() { "a blank node".to_owned() } else { envelope.from.to_string() };
    let to = if envelope.to.is_nobody() { "whoever is there".to_owned() } else { envelope.to.to_string() };
    format!("{from} → {to} {}", message(&envelope.message))
}

fn message(message: &Message) -> String {
    match message {
        Message::Paxos(message) => of_paxos(message),
        Message::Cluster(message) => of_cluster(message),
        Message::Shard(message) => bucket::message(message),
    }
}

fn of_paxos(message: &paxos::Message) -> String {
    use paxos::Message;
    match message {
        Message::Canvass(canvass) => format!("Canvass {}, decided {}", canvass.ballot, canvass.decided),
        Message::Support(support) => format!("Support {}", support.ballot),
        Message::Prepare(prepare) => {
            let ordered = if prepare.ordered { ", told to stand" } else { "" };
            format!("Prepare {}, decided {}{ordered}", prepare.ballot, prepare.decided)
        }
        Message::Promise(promise) => {
            let paxos::Promise { ballot, decided, first, held } = promise;
            format!("Promise {ballot}, decided {decided}, {} entries held from {first} on", held.len())
        }
        Message::Accept(accept) => {
            let paxos::Accept { ballot, beat, previous, entries, decided, floor } = accept;
            let entries = entry::range(previous.next(), entries);
            format!("Accept {ballot} beat {beat}, {entries}, decided {decided}, floor {floor}")
        }
        Message::Accepted(accepted) => {
            format!("Accepted {} beat {}, through {}", accepted.ballot, accepted.beat, accepted.through)
        }
        Message::Learn(learn) => {
            let paxos::Learn { ballot, beat, previous, entries, decided, floor } = learn;
            let entries = entry::range(previous.next(), entries);
            format!("Learn {ballot} beat {beat}, {entries}, decided {decided}, floor {floor}")
        }
        Message::Missing(missing) => format!("Missing what follows {}", missing.position),
        Message::Stand(stand) => format!("Stand, {} steps down", stand.ballot),
        Message::Refused(refused) => format!("Refused {}: {}", refused.ballot, paxos_refusal(&refused.refusal)),
    }
}

fn paxos_refusal(refusal: &paxos::Refusal) -> String {
    use paxos::Refusal;
    match refusal {
        Refusal::Promised(ballot) => format!("promised {ballot}"),
        Refusal::LeaderAlive { ballot, leader } => format!("hears {leader}, which leads in {ballot}"),
        Refusal::Gap { through } => format!("holds only up to {through}"),
    }
}

fn of_cluster(message: &cluster::Message) -> String {
    use cluster::Message;
    match message {
        Message::Ask(ask) => {
            let founders = if ask.founders.is_empty() { "none".to_owned() } else { list(&ask.founders) };
            format!("Ask to let in {}, founders: {founders}", entry::newcomer(&ask.newcomer))
        }
        Message::Standing(standing) => format!("Standing: {} of cluster {}", standing.name, standing.cluster),
        Message::Welcome(welcome) => {
            let cluster::Welcome { cluster, generation, node, slot, holders, .. } = welcome;
            let holders = list(holders.iter().map(|(holder, _)| holder));
            format!(
                "Welcome {node} to cluster {cluster}, generation {generation}, by slot {slot}; snapshot from {holders}"
            )
        }
        Message::Fetch(fetch) => format!("Fetch snapshot of slot {} from byte {}", fetch.slot, fetch.offset),
        Message::Chunk(chunk) => {
            let (from, to) = (chunk.offset, chunk.offset + chunk.bytes.len() as u64);
            format!("Chunk of the snapshot of slot {}: bytes {from} to {to} of {}", chunk.slot, chunk.length)
        }
        Message::NoSnapshot(none) => format!("NoSnapshot of slot {}", none.slot),
        Message::Offer(offer) => format!("Offer snapshot of slot {}", offer.slot),
        Message::Report(report) => {
            let (heard, dead) = (report.sightings.len(), report.dead.len());
            format!("Report: at {}, heard {heard}, knows {dead} dead", report.position)
        }
        Message::Confirmed(confirmed) => {
            format!("Confirmed: {:?} ago all that was decided was up to {}", confirmed.age, confirmed.position)
        }
        Message::Ping(cluster::Ping) => "Ping".to_owned(),
        Message::Pong(pong) => format!("Pong: at {}", pong.position),
        Message::Submit(submit) => format!("Submit {}", entry::submission(&submit.submission)),
        Message::Departed(departed) => format!("Departed: {} at slot {}", departed.node, departed.at),
        Message::Refused(refused) => format!("Refused: {}", cluster_refusal(&refused.refusal)),
    }
}

fn cluster_refusal(refusal: &cluster::Refusal) -> String {
    use cluster::Refusal;
    match refusal {
        Refusal::OtherCluster { cluster } => format!("belongs to another cluster, {cluster}"),
        Refusal::OldGeneration { generation } => format!("belongs to generation {generation}"),
        Refusal::OldIncarnation { known } => format!("knows {} of the sender", incarnation(*known)),
        Refusal::NotMe { incarnation } => {
            format!("meant for another life; this is {}", super::incarnation(*incarnation))
        }
        Refusal::Blank => "a blank process".to_owned(),
        Refusal::NameTaken { name } => format!("the name {name} belongs to a node that is alive"),
        Refusal::LevelTooLow => "the feature level is too low".to_owned(),
        Refusal::Busy => "busy".to_owned(),
    }
}
