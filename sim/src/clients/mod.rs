//! Clients of the buckets: each with a session of its own or none, a few writes outstanding, a connection to some host
//! that it changes when it is let down.
//!
//! ```text
//!              answer: done ───────────────────────────────────────────────▶ Done
//!   Waiting ───answer: not applied ──▶ with a session: again, later  or ──▶ NotApplied
//!              answer: unknown, none ──▶ with a session: again, elsewhere or ──▶ Unknown
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `act.rs` | what can be asked, and its bytes |
//! | `draw.rs` | what is asked next |
//! | `session.rs` | a client's numbers, and when it opens a new session |
//! | `wire.rs` | connections: requests on their way to a host, answers on their way back |
//! | `probe.rs` | what every client must be able to do in the end |
//!
//! Not here: whether the answers are right (`check/audit.rs` and what it joins).

pub(crate) mod act;
pub(crate) mod draw;
mod probe;
mod session;
mod wire;

use crate::Violation;
use crate::clock::Moment;
use crate::plan::ClientsPlan;
use crate::world::{Happening, World};
use act::Act;
use atoll_node::shard::door::{Answer, Reason};
use atoll_types::{BucketId, HashSlot, Payload, Position, Rng};
use draw::Seen;
use session::{Kind, Session, Usage};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use wire::{Connection, Sent};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Waiting,
    Done,
    NotApplied,
    Unknown,
}

/// One thing that a client wants, however often it has to ask for it.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) client: usize,
    pub(crate) act: Act,
    pub(crate) bytes: Payload,
    pub(crate) slot: HashSlot,
    /// Of a write in a session.
    pub(crate) usage: Option<Usage>,
    /// A read that may be answered by any member, at or after a position if one is named.
    pub(crate) stale: bool,
    pub(crate) after: Option<Position>,
    pub(crate) began: Moment,
    /// Counts from 0.
    pub(crate) attempt: u32,
    /// An attempt ended without word of its fate.
    maybe: bool,
    pub(crate) outcome: Outcome,
    /// The request that it waits for.
    request: Option<usize>,
    /// Part of the last test of health.
    probe: bool,
}

#[derive(Debug)]
struct Client {
    kind: Kind,
    session: Option<Session>,
    /// Writes and reads outstanding at most.
    window: usize,
    connection: Option<Connection>,
    outstanding: BTreeSet<usize>,
    /// What it saw, for compare-and-set.
    seen: Seen,
    /// The last position it was told, by slot, for stale reads.
    told: BTreeMap<HashSlot, Position>,
    /// What it has to do in the last test of health.
    todo: VecDeque<Act>,
}

/// What became of the operations of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) done: u64,
    pub(crate) unknown: u64,
    pub(crate) not_applied: u64,
}

#[derive(Debug)]
pub(crate) struct Clients {
    rng: Rng,
    plan: ClientsPlan,
    tags: Vec<String>,
    clients: Vec<Client>,
    pub(crate) operations: Vec<Operation>,
    sent: Vec<Sent>,
    connections: u64,
    /// How often each key was given up for a new one.
    ages: BTreeMap<String, u32>,
    /// Nothing new is begun but what is on a list.
    winding_down: bool,
    probed: Option<BTreeSet<BucketId>>,
    /// Probes thought out so far: no two are the same.
    probes: u64,
    pub(crate) tally: Tally,
}

impl Clients {
    pub(crate) fn new(mut rng: Rng, plan: ClientsPlan) -> Clients {
        let tags = draw::tags(plan.tags);
        let clients = (0..plan.count).map(|_| Client::draw(&mut rng, &tags, plan.skew)).collect();
        Clients {
            rng,
            plan,
            tags,
            clients,
            operations: Vec::new(),
            sent: Vec::new(),
            connections: 0,
            ages: BTreeMap::new(),
            winding_down: false,
            probed: None,
            probes: 0,
            tally: Tally::default(),
        }
    }

    /// Nothing that they send or are told is lost any more.
    pub(crate) fn heal(&mut self) {
        self.plan.loss = 0;
    }

    pub(crate) fn count(&self) -> usize {
        self.clients.len()
    }
}

impl Client {
    fn draw(rng: &mut Rng, tags: &[String], skew: Duration) -> Client {
        let kind = Kind::draw(rng, tags, skew);
        Client {
            // A device's counter is small: what is late must not be late by a whole turn of it.
            window: 1 + rng.below(if kind.is_device() { 4 } else { 8 }) as usize,
            kind,
            session: None,
            connection: None,
            outstanding: BTreeSet::new(),
            seen: Seen::new(),
            told: BTreeMap::new(),
            todo: VecDeque::new(),
        }
    }
}

impl World {
    /// A client looks whether there is something to do.
    pub(crate) fn client_turn(&mut self, client: usize) -> Result<(), Violation> {
        let pace = self.clients.plan.pace * if self.clients.clients[client].kind.is_device() { 8 } else { 1 };
        let pause = self.clients.rng.between(pace / 4, pace * 7 / 4);
        self.push(self.now.after(pause), Happening::Client(client as u32));
        let Clients { rng, clients, .. } = &mut self.clients;
        let burst = if rng.one_in(8) { clients[client].window } else { 1 };
        for _ in 0..burst {
            if self.clients.clients[client].outstanding.len() >= self.clients.clients[client].window {
                break;
            }
            let act = match self.clients.clients[client].todo.pop_front() {
                Some(act) => Some((act, true)),
                None if self.clients.winding_down => None,
                None => Some((self.draw_act(client), false)),
            };
            let Some((act, probe)) = act else { break };
            self.begin(client, act, probe);
        }
        Ok(())
    }

    fn draw_act(&mut self, client: usize) -> Act {
        let Clients { rng, tags, clients, ages, operations, .. } = &mut self.clients;
        let linear = &self.checks.audit.linear;
        let own = clients[client].kind.tag();
        let drawn = rng.below(tags.len() as u64) as usize;
        let tag = own.unwrap_or_else(|| tags.get(drawn).map_or("", String::as_str));
        // A key of which too much is unknown is given up for a new one.
        for family in ["r", "s", "c", "a", "f", "m"] {
            let age = ages.entry(draw::key(family, 0, tag)).or_default();
            if linear.is_tired(&draw::key(family, *age, tag)) {
                *age += 1;
            }
        }
        let name = |family: &str| {
            let age = ages.get(&draw::key(family, 0, tag)).copied().unwrap_or(0);
            draw::key(family, age, tag)
        };
        let number = operations.len();
        if own.is_some() && !rng.one_in(4) {
            return Act::Publish { stream: name("m"), message: format!("v{number}") };
        }
        draw::act(rng, tag, number, &clients[client].seen, name)
    }

    fn begin(&mut self, client: usize, act: Act, probe: bool) {
        let number = self.clients.operations.len();
        let is_write = act.is_write();
        let slot = act.slot();
        let usage = if is_write { self.number_write(client) } else { None };
        let Clients { rng, clients, .. } = &mut self.clients;
        let stale = !is_write && !probe && rng.one_in(4);
        let mut after = if stale && rng.one_in(2) { clients[client].told.get(&slot).copied() } else { None };
        if let Some(after) = after.as_mut().filter(|_| rng.one_in(4)) {
            // Like somebody who follows the bucket: what comes next, whenever it comes.
            after.mark.offset = after.mark.offset.next();
        }
        let operation = Operation {
            client,
            bytes: act.bytes(),
            slot,
            usage,
            stale,
            after,
            began: self.now,
            attempt: 0,
            maybe: false,
            outcome: Outcome::Waiting,
            request: None,
            probe,
            act,
        };
        if self.trace.is_aloud() {
            self.trace.say(self.now, format!("client {client} begins {number}: {:?}", operation.act));
        }
        self.checks.audit.on_begin(number, &operation);
        self.clients.operations.push(operation);
        self.clients.clients[client].outstanding.insert(number);
        self.ask(number);
    }

    /// An operation that came to nothing is asked for again.
    pub(crate) fn ask_again(&mut self, number: usize) -> Result<(), Violation> {
        let operation = &mut self.clients.operations[number];
        if operation.outcome == Outcome::Waiting && operation.request.is_none() {
            operation.attempt += 1;
            self.ask(number);
        }
        Ok(())
    }

    /// What a client makes of an answer, or of none.
    fn resolve(&mut self, number: usize, answer: Option<Answer>) -> Result<(), Violation> {
        let operation = &mut self.clients.operations[number];
        operation.request = None;
        let is_write = operation.act.is_write();
        let repeats = operation.usage.is_some();
        match answer {
            Some(Answer::Done { payload, position, .. }) => self.done(number, &payload, position),
            Some(Answer::NotApplied(reason)) => match reason {
                Reason::BelowFloor | Reason::BeyondWindow => {
                    let detail = format!("operation {number} is refused by {reason:?}: {operation:?}");
                    Err(Violation::of("series", detail))
                }
                Reason::SessionExpired | Reason::BadSession => {
                    let outcome = if operation.maybe { Outcome::Unknown } else { Outcome::NotApplied };
                    self.renew_session(number);
                    self.end(number, outcome)
                }
                Reason::Busy
                | Reason::Paused
                | Reason::Lost
                | Reason::NoTable
                | Reason::TooManyHops
                | Reason::OutOfMemory
                | Reason::TooStale
                | Reason::TooLarge => {
                    if repeats {
                        self.back_off(number);
                        return Ok(());
                    }
                    self.end(number, Outcome::NotApplied)
                }
            },
            Some(Answer::Unknown) | None if repeats => {
                operation.maybe = true;
                self.back_off(number);
                Ok(())
            }
            Some(Answer::Unknown) | None => {
                self.end(number, if is_write { Outcome::Unknown } else { Outcome::NotApplied })
            }
        }
    }

    fn back_off(&mut self, number: usize) {
        let attempt = self.clients.operations[number].attempt.min(6);
        let most = Duration::from_millis(20 << attempt);
        let pause = self.clients.rng.between(most / 4, most);
        self.push(self.now.after(pause), Happening::AskAgain(number as u32));
        // Some other host may know better.
        let client = self.clients.operations[number].client;
        if self.clients.rng.one_in(2) {
            self.clients.clients[client].connection = None;
        }
    }

    fn done(&mut self, number: usize, payload: &Payload, position: Position) -> Result<(), Violation> {
        let operation = &self.clients.operations[number];
        let client = &mut self.clients.clients[operation.client];
        client.told.insert(operation.slot, position);
        if let Act::Get { key } = &operation.act
            && let Some(atoll_kv::Answer::Value(found)) = atoll_kv::Answer::decode(payload.as_slice())
        {
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            client.seen.insert(key.clone(), found.map(|found| (found.version, text(found.value))));
        }
        let (client, operation) = (operation.client, &self.clients.operations[number]);
        self.checks.audit.on_done(number, operation, payload, position, self.now)?;
        self.clients.tally.done += 1;
        self.close(client, number, Outcome::Done);
        Ok(())
    }

    fn end(&mut self, number: usize, outcome: Outcome) -> Result<(), Violation> {
        let operation = &self.clients.operations[number];
        let client = operation.client;
        if outcome == Outcome::Unknown {
            self.clients.tally.unknown += 1;
            self.checks.audit.on_unknown(number, operation);
        } else {
            self.clients.tally.not_applied += 1;
            self.checks.audit.on_not_applied(number, operation)?;
        }
        if operation.probe {
            self.clients.probes += 1;
            let act = probe::again(&operation.act, self.clients.probes);
            // At once: a new session was opened by the clock of this very bucket.
            self.clients.clients[client].todo.push_front(act);
        }
        self.close(client, number, outcome);
        Ok(())
    }

    fn close(&mut self, client: usize, number: usize, outcome: Outcome) {
        if self.trace.is_aloud() {
            self.trace.say(self.now, format!("client {client} ends {number}: {outcome:?}"));
        }
        self.clients.operations[number].outcome = outcome;
        self.clients.clients[client].outstanding.remove(&number);
    }
}
