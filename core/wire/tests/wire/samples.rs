//! One of everything that is ever encoded. A new variant belongs here as well.

use crate::bucket_samples;
use atoll_cluster::message as cluster;
use atoll_cluster::skew::Ahead;
use atoll_cluster::{Pulse, Vitals, Work};
use atoll_node::shard::door::RequestId;
use atoll_node::{Config, Envelope, Input, Limits, Message, Order, Timing};
use atoll_paxos::message as paxos;
use atoll_types::{
    Address, Ballot, Body, BucketId, Cause, Checkpoint, ClusterId, Cookie, Edict, Entry, Epoch, Generation, Government,
    Held, Identity, Incarnation, JournalSeq, Level, Newcomer, NodeId, Operation, Payload, Record, Report, Request,
    Sequence, Slot, Step, Submission, Time, Why,
};
use std::sync::Arc;
use std::time::Duration;

const INCARNATION: Incarnation = Incarnation { life: 2, cookie: Cookie(0xfeed_beef_feed_beef) };
const GENERATION: Generation = Generation { number: 1, by: NodeId(3) };
const BALLOT: Ballot = Ballot { generation: GENERATION, round: 300, node: NodeId(2) };
const CLUSTER: ClusterId = ClusterId(u64::MAX);

fn newcomer() -> Newcomer {
    Newcomer {
        node: NodeId(4),
        name: "n4".into(),
        address: "10.0.0.4:7000".into(),
        endpoints: atoll_types::Endpoints { http: "h:1".into(), resp: "r:1".into() },
        incarnation: INCARNATION,
        zone: "zürich".into(),
        weight: 7,
        level: Level(1),
        durable: true,
    }
}

pub(crate) fn government(cause: Cause) -> Government {
    Government {
        ballot: BALLOT,
        majority: vec![NodeId(1), NodeId(2)],
        minority: vec![NodeId(3)],
        learners: (4..300).map(NodeId).collect(),
        cause,
    }
}

fn epoch() -> Epoch {
    Epoch { generation: GENERATION, revival: 2, slot: Slot(8) }
}

fn reports() -> Vec<Report> {
    let (bucket, epoch, node) = (BucketId(16_383), epoch(), NodeId(2));
    vec![
        Report::Ready { bucket, epoch, node },
        Report::Settled { bucket, epoch },
        Report::Divided { bucket, epoch },
        Report::Complain { bucket, epoch, about: node },
        Report::Damaged { bucket, epoch },
        Report::Sought { bucket, epoch, at: node },
    ]
}

fn steps() -> Vec<Step> {
    let (bucket, epoch) = (BucketId(256), epoch());
    vec![
        Step::Place { buckets: 64, copies: 3, min_copies: 2, lease: Duration::from_millis(700) },
        Step::Expand { bucket, epoch, add: vec![NodeId(3)] },
        Step::Unite { bucket, epoch },
        Step::Abandon { bucket, epoch, drop: vec![NodeId(3)] },
        Step::Abdicate { bucket, epoch, to: NodeId(2) },
        Step::Contract { bucket, epoch, drop: vec![NodeId(1)] },
        Step::Split { bucket, epoch },
    ]
}

fn submission(request: Request) -> Submission {
    Submission { node: NodeId(1), cookie: Cookie(9), sequence: Sequence(5), floor: Sequence(3), request }
}

pub(crate) fn entries() -> Vec<Arc<Entry>> {
    let payload = Payload::from(&b"bytes"[..]);
    let causes = [
        Cause::Founded { cluster: CLUSTER, founder: newcomer(), alone: true },
        Cause::Elected,
        Cause::Arrived(newcomer()),
        Cause::Departed { node: NodeId(5), why: Why::AbsentTooLong },
        Cause::Seated,
        Cause::Rearranged,
        Cause::Recovered { generation: GENERATION },
    ];
    let edicts = [
        Edict::Absent { node: NodeId(1), incarnation: INCARNATION, why: Why::Silent },
        Edict::Present { node: NodeId(1), incarnation: INCARNATION },
        Edict::Restarted { node: NodeId(1), incarnation: INCARNATION, address: "a:1".into(), level: Level(2) },
        Edict::Skewed { node: NodeId(1), incarnation: INCARNATION, skewed: true },
        Edict::Level(Level(3)),
    ];
    let requests = [
        Request::User(payload.clone()),
        Request::Acclimated,
        Request::Broadcast(Payload::default()),
        Request::Answer { barrier: Slot(4), answer: payload },
        Request::Depart { node: NodeId(2) },
        Request::Reports(reports()),
        Request::Operate(Operation::Revive { bucket: BucketId(4), from: Some(NodeId(2)) }),
        Request::Pause,
        Request::Reached(atoll_types::Endpoints { http: "a:2".into(), resp: "a:3".into() }),
    ];
    let bodies = std::iter::once(Body::Noop)
        .chain(causes.map(|cause| Body::Government(government(cause))))
        .chain(edicts.map(Body::Edict))
        .chain([Body::Order(atoll_types::Order { number: 3, removal: Slot(2), steps: steps() })])
        .chain(requests.map(|request| Body::Submission(submission(request))));
    bodies.map(|body| Arc::new(Entry { time: Time(1_000_000), leader: NodeId(1), body })).collect()
}

fn held() -> Vec<Held> {
    entries().into_iter().map(|entry| Held { ballot: BALLOT, entry }).collect()
}

fn paxos_messages() -> Vec<paxos::Message> {
    use paxos::*;
    let refused = |refusal| Message::Refused(Refused { ballot: BALLOT, refusal });
    vec![
        Message::Canvass(Canvass { ballot: BALLOT, decided: Slot(7) }),
        Message::Support(Support { ballot: BALLOT }),
        Message::Prepare(Prepare { ballot: BALLOT, decided: Slot(7), ordered: true }),
        Message::Promise(Promise { ballot: BALLOT, decided: Slot(7), first: Slot(8), held: held() }),
        Message::Accept(Accept {
            ballot: BALLOT,
            beat: 12,
            previous: Slot(7),
            entries: entries(),
            decided: Slot(6),
            floor: Slot(2),
        }),
        Message::Accepted(Accepted { ballot: BALLOT, beat: 12, through: Slot(9) }),
        Message::Learn(Learn {
            ballot: BALLOT,
            beat: 13,
            previous: Slot(0),
            entries: entries(),
            decided: Slot(u64::MAX),
            floor: Slot(0),
        }),
        Message::Missing(Missing { position: Slot(1) }),
        Message::Stand(Stand { ballot: BALLOT }),
        refused(Refusal::Promised(BALLOT)),
        refused(Refusal::LeaderAlive { ballot: BALLOT, leader: NodeId(2) }),
        refused(Refusal::Gap { through: Slot(3) }),
    ]
}

fn cluster_messages() -> Vec<cluster::Message> {
    use cluster::*;
    let returned = Some(("b:2".into(), Level(2)));
    let ahead = Some(Ahead { of: NodeId(1), least: -3, most: i64::MAX });
    let vitals = Vitals {
        clock: Time(8),
        ahead,
        memory: 5,
        memory_limit: 1 << 40,
        shard: Duration::from_millis(1500),
        disk: Duration::ZERO,
    };
    let seen = Some(vitals.clone());
    let sighting = Sighting { node: NodeId(2), incarnation: INCARNATION, position: Slot(4), returned, vitals: seen };
    let refusals = [
        Refusal::OtherCluster { cluster: CLUSTER },
        Refusal::OldGeneration { generation: GENERATION },
        Refusal::OldIncarnation { known: INCARNATION },
        Refusal::NotMe { incarnation: INCARNATION },
        Refusal::Blank,
        Refusal::NameTaken { name: "n1".into() },
        Refusal::LevelTooLow,
        Refusal::Busy,
    ];
    let mut messages = vec![
        Message::Ask(Ask { newcomer: newcomer(), founders: vec!["n1".into(), "n2".into()], forgot: true }),
        Message::Standing(Standing { name: "n1".into(), cluster: ClusterId::NONE, founders: vec![] }),
        Message::Welcome(Welcome {
            cluster: CLUSTER,
            generation: GENERATION,
            node: NodeId(4),
            cookie: Cookie(1),
            slot: Slot(20),
            holders: vec![(NodeId(1), Address::from("a:1"))],
        }),
        Message::Fetch(Fetch { slot: Slot(20), offset: 1 << 40, stateless: true }),
        Message::Chunk(Chunk {
            slot: Slot(20),
            length: 3000,
            checksum: 0xdead_beef,
            offset: 1000,
            bytes: vec![0xab; 2000].into(),
        }),
        Message::NoSnapshot(NoSnapshot { slot: Slot(20) }),
        Message::Offer(Offer { slot: Slot(20) }),
        Message::Report(Report {
            sent: Time(9),
            position: Slot(4),
            sightings: vec![sighting; 3],
            dead: vec![(NodeId(6), INCARNATION)],
            level: Level(2),
            vitals: vitals.clone(),
        }),
        Message::Confirmed(Confirmed {
            sent: Time(9),
            age: Duration::from_millis(120),
            position: Slot(4),
            at: Time(7),
            ahead,
        }),
        Message::Ping(Ping),
        Message::Pong(Pong { position: Slot(4), vitals }),
        Message::Submit(Submit { submission: submission(Request::Acclimated) }),
        Message::Departed(Departed { node: NodeId(5), incarnation: INCARNATION, at: Slot(19) }),
    ];
    messages.extend(refusals.map(|refusal| Message::Refused(Refused { refusal })));
    messages
}

pub(crate) fn envelopes() -> Vec<Envelope> {
    let envelope = |message| Envelope {
        cluster: CLUSTER,
        generation: GENERATION,
        from: NodeId(1),
        incarnation: INCARNATION,
        to: NodeId(2),
        to_cookie: Cookie(77),
        message,
    };
    let paxos = paxos_messages().into_iter().map(Message::Paxos);
    let cluster = cluster_messages().into_iter().map(Message::Cluster);
    let shard = bucket_samples::messages().into_iter().map(Message::Shard);
    paxos.chain(cluster).chain(shard).map(envelope).collect()
}

pub(crate) fn records() -> Vec<Record> {
    let identity = Identity { cluster: CLUSTER, node: NodeId(1), incarnation: INCARNATION };
    vec![
        Record::Identity(identity.clone()),
        Record::Promised(BALLOT),
        Record::Accepted { ballot: BALLOT, first: Slot(3), entries: entries() },
        Record::Learned { first: Slot(3), entries: entries() },
        Record::Decided(Slot(9)),
        Record::Checkpoint(Checkpoint {
            identity,
            promised: BALLOT,
            snapshot: vec![7; 500].into(),
            slot: Slot(5),
            decided: Slot(6),
            tail: held(),
        }),
        Record::Fenced(GENERATION),
        Record::Unreadable,
        Record::Blank { departed: true },
    ]
    .into_iter()
    .chain(bucket_samples::records().into_iter().map(Record::Bucket))
    .collect()
}

pub(crate) fn inputs() -> Vec<Input> {
    let mut inputs = vec![
        Input::Wake,
        Input::Persisted(JournalSeq(3)),
        Input::Pulse(Pulse { memory: 9, shards: vec![Work { done: 3, waiting: true }; 2], disk: Work::default() }),
        Input::Hang { shard: 1, hangs: true },
        Input::Condense(None),
        Input::Condense(Some(BucketId(8192))),
        Input::ConnectionRefused { address: "a:2".into() },
        Input::Submit { ticket: 1, payload: vec![1; 9].into() },
        Input::Broadcast { ticket: 2, payload: vec![2; 9].into() },
        Input::Answer { barrier: Slot(2), answer: Payload::default() },
        Input::Operator { ticket: 3, order: Order::Depart(NodeId(9)) },
        Input::Operator { ticket: 4, order: Order::Recover },
        Input::Operator { ticket: 5, order: Order::Operate(Operation::Split { bucket: None }) },
        Input::Operator { ticket: 6, order: Order::Pause },
        Input::Reports(reports()),
    ];
    let ids = (1..).map(RequestId);
    inputs.extend(ids.zip(bucket_samples::requests()).map(|(id, request)| Input::Request { id, request }));
    inputs.extend(envelopes().into_iter().map(|envelope| Input::Message { from: "a:3".into(), envelope }));
    inputs
}

/// A node that founds a cluster alone, and soon.
pub(crate) fn config() -> Config {
    Config {
        name: "n1".into(),
        address: "a:1".into(),
        endpoints: atoll_types::Endpoints::default(),
        zone: "z".into(),
        weight: 1,
        join: vec![],
        bootstrap: vec!["n1".into()],
        durable: true,
        level: Level(1),
        buckets: 4,
        copies: 3,
        shards: 2,
        watched: true,
        timing: Timing { retry: Duration::from_millis(2), ..Timing::default() },
        limits: Limits::default(),
    }
}
