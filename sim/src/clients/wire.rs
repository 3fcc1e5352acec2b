//! Between clients and hosts: requests of one connection arrive in the order in which they were sent, or not at all. A
//! message that is lost breaks its connection; nothing more comes through it, in either direction.

use super::{Operation, Outcome};
use crate::Violation;
use crate::clock::Moment;
use crate::host::Life;
use crate::plan::{Lasting, host_name};
use crate::world::{Happening, World};
use atoll_node::Input;
use atoll_node::shard::door::{Answer, Ask, Request, RequestId};
use atoll_types::Principal;

#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    number: u64,
    host: usize,
    /// Of the host, when the connection was made.
    life: u32,
    /// Nothing sent on it arrives before what was sent earlier.
    last_arrival: Moment,
    /// Requests sent on it.
    sent: u64,
    /// Nothing comes through any more, and the client does not know.
    broken: bool,
}

/// One request on its way.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) operation: usize,
    pub(super) attempt: u32,
    host: usize,
    life: u32,
    connection: u64,
    /// Its place among the requests of its connection.
    place: u64,
    usage: Option<atoll_types::SessionUse>,
    answer: Option<Answer>,
}

impl World {
    /// Sends a request for this operation, through the client's connection.
    pub(super) fn ask(&mut self, number: usize) {
        let client = self.clients.operations[number].client;
        let Some(mut connection) = self.connect(client) else {
            // Nobody is there at all.
            self.push(self.now.after(self.clients.plan.patience), Happening::AskAgain(number as u32));
            return;
        };
        let usage = self.usage_of(number);
        let rng = &mut self.clients.rng;
        let plan = &self.clients.plan;
        let delay = rng.between(plan.latency.0, plan.latency.1);
        connection.broken |= rng.below(1_000_000) < plan.loss;
        connection.last_arrival = connection.last_arrival.max(self.now.after(delay));
        connection.sent += 1;
        let impatient = self.now.after(rng.between(plan.patience / 2, plan.patience * 2));
        let request = self.clients.sent.len();
        self.clients.sent.push(Sent {
            operation: number,
            attempt: self.clients.operations[number].attempt,
            host: connection.host,
            life: connection.life,
            connection: connection.number,
            place: connection.sent,
            usage,
            answer: None,
        });
        self.clients.operations[number].request = Some(request);
        if !connection.broken {
            self.push(connection.last_arrival, Happening::Ask(request as u32));
        }
        self.push(impatient, Happening::Impatient(request as u32));
        self.clients.clients[client].connection = Some(connection);
    }

    /// The connection that a client has, or a new one to a host that runs.
    fn connect(&mut self, client: usize) -> Option<Connection> {
        let changes = self.clients.rng.one_in(40);
        // Behind a link that stays cut a node cannot reach every primary: a client that gets no answer goes elsewhere.
        let cut_off = |host: usize| match self.plan.lasting {
            Lasting::Link(one, other) => self.faults.over && (host == one || host == other),
            Lasting::Nothing | Lasting::Disk(_) | Lasting::Down(_) => false,
        };
        let may_serve = |host: &usize| self.hosts[*host].is_running() && !cut_off(*host);
        let running: Vec<usize> = (0..self.hosts.len()).filter(may_serve).collect();
        let known = self.clients.clients[client].connection.filter(|_| !changes);
        if let Some(connection) = known.filter(|connection| !cut_off(connection.host)) {
            return Some(connection);
        }
        let &host = self.clients.rng.pick(&running)?;
        self.clients.connections += 1;
        let (number, life) = (self.clients.connections, self.hosts[host].lives);
        Some(Connection { number, host, life, last_arrival: self.now, sent: 0, broken: false })
    }

    /// A request arrives.
    pub(crate) fn asked(&mut self, request: usize) -> Result<(), Violation> {
        let Sent { operation, host, life, connection, usage, .. } = self.clients.sent[request];
        if let Life::Paused(_, waiting) = &mut self.hosts[host].life {
            waiting.push(Happening::Ask(request as u32));
            return Ok(());
        }
        if !self.hosts[host].is_up() || self.hosts[host].lives != life {
            self.push(self.now, Happening::Impatient(request as u32)); // Reset.
            return Ok(());
        }
        let Operation { bytes, slot, act, stale, after, .. } = &self.clients.operations[operation];
        let bytes = bytes.clone();
        let ask = if act.is_write() {
            Ask::Write { usage, command: bytes }
        } else if *stale {
            Ask::Stale { query: bytes, after: *after }
        } else {
            Ask::Read { query: bytes }
        };
        let asked = Request { connection, slot: *slot, principal: Principal::ANONYMOUS, ask };
        let input = Input::Request { id: RequestId(request as u64), request: asked };
        self.trace.happened(self.now, host, 0x2_0000_0000 + request as u64);
        self.checks.audit.callers.on_asked(request as u64, host, life, self.now);
        if self.trace.is_aloud() {
            let line = format!("client -> {}  request {request} for {operation}: {input:?}", host_name(host));
            self.trace.say(self.now, line);
        }
        self.step(host, input)
    }

    /// A host answers.
    pub(crate) fn answered(&mut self, host: usize, id: RequestId, answer: Answer) -> Result<(), Violation> {
        let life = self.hosts[host].lives;
        self.checks.audit.callers.on_answer(id.0, host, life)?;
        let Some(sent) = self.clients.sent.get_mut(id.0 as usize) else { return Ok(()) };
        if self.trace.is_aloud() {
            self.trace.say(self.now, format!("{} answers request {}: {answer:?}", host_name(host), id.0));
        }
        self.trace.answered(host, id.0, &answer);
        let (number, attempt) = (sent.operation, sent.attempt);
        let operation = &self.clients.operations[number];
        self.checks.audit.on_answer(number, operation, attempt, &answer)?;
        if let Answer::Done { position, duplicate: false, .. } = &answer
            && attempt == 0
        {
            self.checks.audit.on_connection(sent.connection, sent.place, number, operation, *position)?;
        }
        sent.answer = Some(answer);
        let plan = &self.clients.plan;
        let rng = &mut self.clients.rng;
        if rng.below(1_000_000) >= plan.loss {
            let delay = rng.between(plan.latency.0, plan.latency.1);
            self.push(self.now.after(delay), Happening::Told(id.0 as u32));
        }
        Ok(())
    }

    /// An answer reaches its client, if that still waits for it.
    pub(crate) fn told(&mut self, request: usize) -> Result<(), Violation> {
        let number = self.clients.sent[request].operation;
        if self.clients.operations[number].request != Some(request) {
            return Ok(());
        }
        let answer = self.clients.sent[request].answer.take();
        self.resolve(number, answer)
    }

    /// A client has waited long enough, or its connection was reset.
    pub(crate) fn impatient(&mut self, request: usize) -> Result<(), Violation> {
        let Sent { operation: number, connection, .. } = self.clients.sent[request];
        if self.clients.operations[number].request != Some(request) {
            return Ok(());
        }
        let client = &mut self.clients.clients[self.clients.operations[number].client];
        if client.connection.is_some_and(|current| current.number == connection) {
            client.connection = None;
        }
        self.resolve(number, None)
    }

    /// A process is gone: those who were connected to it notice.
    pub(crate) fn reset_connections(&mut self, host: usize) {
        if !self.plan.refusals {
            return;
        }
        let clients = &self.clients;
        let open = clients.operations.iter().rev().take(1000).filter(|operation| operation.outcome == Outcome::Waiting);
        let requests = open.filter_map(|operation| operation.request);
        let there: Vec<usize> = requests.filter(|&request| clients.sent[request].host == host).collect();
        for request in there {
            let delay = self.clients.rng.between(self.clients.plan.latency.0, self.clients.plan.latency.1);
            self.push(self.now.after(delay), Happening::Impatient(request as u32));
        }
    }
}
