//! The operations that are counted. Each is prepared once and then done as often as asked, in whole batches: the
//! difference of two counts is what it costs.

use crate::rig::{Post, Rig, put};
use atoll_kv::Query;
use atoll_node::shard::door::{Answer, Ask, Request, RequestId, ShardInput};
use atoll_node::{Envelope, store};
use atoll_types::{
    At, Counter, HashSlot, Offset, Payload, Principal, Series, SessionId, SessionUse, StateMachine, Time,
};
use atoll_wire::message;
use std::time::Duration;

pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// How often, where the clock counts.
    pub(crate) by_the_clock: u64,
    pub(crate) prepare: fn() -> Prepared,
}

/// Does it so often, or a few times more; gives something to be said of it.
type Prepared = Box<dyn FnMut(u64) -> String>;

const fn operation(name: &'static str, by_the_clock: u64, prepare: fn() -> Prepared) -> Operation {
    Operation { name, by_the_clock, prepare }
}

/// All with values of 100 bytes; 64 buckets with three members in memory; instructions of all nodes together.
pub(crate) const ALL: &[Operation] = &[
    operation("write-1", 200_000, || load(Load { batch: 1, ..WRITES })),
    operation("write-16", 1_000_000, || load(Load { batch: 16, ..WRITES })),
    operation("write-256", 1_000_000, || load(WRITES)),
    operation("write-new", 500_000, || load(Load { keys: 1 << 40, ..WRITES })),
    operation("write-session", 500_000, || load(Load { sessions: true, ..WRITES })),
    operation("read-1", 200_000, || load(Load { batch: 1, reads: 1, ..WRITES })),
    operation("read-256", 1_000_000, || load(Load { reads: 1, ..WRITES })),
    operation("mixed-256", 1_000_000, || load(Load { reads: 2, ..WRITES })),
    operation("hop-1", 200_000, || load(Load { batch: 1, node: 1, ..WRITES })),
    operation("hop-256", 500_000, || load(Load { node: 1, ..WRITES })),
    operation("kv-put", 2_000_000, kv_put),
    operation("kv-get", 5_000_000, kv_get),
    operation("frame-encode", 200_000, frame_encode),
    operation("frame-decode", 200_000, frame_decode),
    operation("ack-encode", 200_000, ack_encode),
    operation("ack-decode", 200_000, ack_decode),
];

#[derive(Clone, Copy)]
struct Load {
    /// So many at a time.
    batch: u64,
    keys: u64,
    /// Every which one is a read; none where this is 0.
    reads: u64,
    /// Whom clients talk to. The first is primary of everything.
    node: usize,
    /// Writes have sessions: one for each connection.
    sessions: bool,
}

const WRITES: Load = Load { batch: 256, keys: 1000, reads: 0, node: 0, sessions: false };
/// Keys whose commands are made in advance.
const MADE_MOST: u64 = 100_000;
const CONNECTIONS: u64 = 64;

fn key(number: u64) -> Vec<u8> {
    format!("key:{number:08}").into_bytes()
}

fn get(key: &[u8]) -> Payload {
    let mut bytes = vec![store::KV];
    Query::Get { key }.encode(&mut bytes);
    bytes.into()
}

/// Three nodes whose first is primary of all 64 buckets.
fn three() -> Rig {
    let mut rig = Rig::new(3, Duration::ZERO);
    let width = 256;
    let all: Vec<Post<'_>> = (0..64).map(|bucket| (bucket * width, 1, &[1, 2, 3][..], &[][..], false)).collect();
    rig.appoint(width, &all);
    rig.run_flying();
    rig
}

struct Made {
    slot: HashSlot,
    command: Payload,
    query: Payload,
}

fn made(number: u64) -> Made {
    let key = key(number);
    Made { slot: HashSlot::of(&key), command: put(&key, &[7; 100]).into(), query: get(&key) }
}

impl Load {
    fn ask(&self, id: u64, now: Time, made: &Made) -> Ask {
        if self.reads > 0 && id.is_multiple_of(self.reads) {
            return Ask::Read { query: made.query.clone() };
        }
        let usage = self.sessions.then(|| {
            let session = SessionId { opened: now, token: id % CONNECTIONS, counter: Counter::Full };
            let (series, floor) = (Series(id), Series(id.saturating_sub(CONNECTIONS * 4)));
            SessionUse { session, series, attempt: 1, floor }
        });
        Ask::Write { usage, command: made.command.clone() }
    }
}

/// Requests in batches; each batch is answered before the next.
fn load(load: Load) -> Prepared {
    let mut rig = three();
    let ready: Vec<Made> = (0..load.keys.min(MADE_MOST)).map(made).collect();
    let opened = rig.now;
    let mut id = 0;
    Box::new(move |count| {
        let (mut answered, mut asked, sent) = (0, 0, rig.sent);
        while asked < count {
            for _ in 0..load.batch {
                (id, asked) = (id + 1, asked + 1);
                let fresh;
                let made = match ready.get((id % load.keys) as usize) {
                    Some(made) => made,
                    None => {
                        fresh = made(id);
                        &fresh
                    }
                };
                let request = Request {
                    connection: id % CONNECTIONS,
                    slot: made.slot,
                    principal: Principal::ANONYMOUS,
                    ask: load.ask(id, opened, made),
                };
                rig.shards[load.node].handle(rig.now, ShardInput::Request { id: RequestId(id), request });
            }
            rig.drain(load.node);
            rig.run_flying();
            assert!(rig.answers.iter().all(|(_, _, answer)| matches!(answer, Answer::Done { .. })));
            answered += rig.answers.len() as u64;
            rig.answers.clear();
        }
        assert_eq!(answered, asked, "every request is answered");
        format!(", {:.3} frames each", (rig.sent - sent) as f64 / asked as f64)
    })
}

fn at(offset: u64) -> At {
    At { offset: Offset(offset), time: Time(offset) }
}

/// A store with a thousand keys, and the commands that put them.
fn filled() -> (store::Store, Vec<Made>) {
    let all: Vec<Made> = (0..1000).map(made).collect();
    let mut store = store::Store::new();
    let mut answer = Vec::new();
    for (offset, made) in (1..).zip(&all) {
        answer.clear();
        store.apply(at(offset), made.command.as_slice(), &mut answer);
    }
    (store, all)
}

fn kv_put() -> Prepared {
    let (mut store, all) = filled();
    let mut answer = Vec::new();
    let mut offset = all.len() as u64;
    Box::new(move |count| {
        for number in 0..count {
            offset += 1;
            answer.clear();
            store.advance(at(offset));
            store.apply(at(offset), all[number as usize % all.len()].command.as_slice(), &mut answer);
        }
        String::new()
    })
}

fn kv_get() -> Prepared {
    let (store, all) = filled();
    let mut answer = Vec::new();
    Box::new(move |count| {
        for number in 0..count {
            answer.clear();
            store.read(at(1000), all[number as usize % all.len()].query.as_slice(), &mut answer);
        }
        String::new()
    })
}

/// The first frame to a member that 256 writes lead to, and the answer to it.
fn frames() -> (Envelope, Envelope) {
    let mut rig = three();
    for id in 0..256 {
        let made = made(id);
        let ask = Ask::Write { usage: None, command: made.command };
        let request = Request { connection: id % CONNECTIONS, slot: made.slot, principal: Principal::ANONYMOUS, ask };
        rig.shards[0].handle(rig.now, ShardInput::Request { id: RequestId(id), request });
    }
    rig.drain(0);
    let write = rig.next_frame().expect("writes are sent");
    rig.deliver();
    let ack = rig.last_frame().expect("writes are acknowledged");
    (write, ack)
}

/// Of 256 writes to 64 buckets: counted for each frame.
fn frame_encode() -> Prepared {
    encode(frames().0)
}

fn frame_decode() -> Prepared {
    decode(&frames().0)
}

fn ack_encode() -> Prepared {
    encode(frames().1)
}

fn ack_decode() -> Prepared {
    decode(&frames().1)
}

fn encode(envelope: Envelope) -> Prepared {
    let mut bytes = Vec::new();
    Box::new(move |count| {
        for _ in 0..count {
            bytes.clear();
            assert!(message::encode(&envelope, &mut bytes));
        }
        format!(", {} bytes", bytes.len())
    })
}

fn decode(envelope: &Envelope) -> Prepared {
    let mut bytes = Vec::new();
    message::encode(envelope, &mut bytes);
    let envelope = envelope.clone();
    Box::new(move |count| {
        for number in 0..count {
            let decoded = message::decode(&bytes);
            assert!(number > 0 || decoded.as_ref() == Ok(&envelope), "what was sent arrives");
            drop(decoded);
        }
        format!(", {} bytes", bytes.len())
    })
}
