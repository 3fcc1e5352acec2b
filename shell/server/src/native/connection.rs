//! One client after its hello: frames in, answers out, on one task.
//!
//! ```text
//!            frames                        calls
//!   socket ─────────▶ input ──check──▶ gateway ──▶ core
//!     ▲                                              │ in any order
//!     └──── one write ◀── output ◀── mailbox ◀───────┘
//! ```
//!
//! Every round takes all answers that are there and all requests that there is room for, and writes once. Nothing more
//! is read while too much is under way or too much waits to be written, so that what one client costs is bounded.
//!
//! Not here: what a frame is (`atoll-protocol`); whether a request may go to its slot (`check.rs`).

use super::calls::{Call, Calls};
use super::{check, cluster, open, request_most};
use crate::call::{self, Caller, Mailbox};
use crate::clients::arrived;
use crate::data::words;
use crate::gateway::Gateway;
use crate::latency::Protocol;
use crate::refused::Why;
use crate::routes::Routes;
use atoll_node::shard::door;
use atoll_protocol::frame::{self, HEADER, Next};
use atoll_protocol::{Answer, Ask, Node, Outcome, Range, Reason, Request, Table};
use atoll_types::{HashSlot, Position, SessionId, SessionUse};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::select;
use tokio::time::{Instant, sleep_until};

/// Room for what arrives at once.
const CHUNK: usize = 32 << 10;
/// Bytes of answers that wait to be written. Beyond that no more is read.
const OUTPUT_MOST: usize = 4 << 20;
/// Room that an empty buffer keeps.
const KEEP: usize = 256 << 10;
/// Nobody waits for so long.
const FAR: Duration = Duration::from_secs(86_400);

pub(super) struct Connection {
    stream: TcpStream,
    gateway: Gateway,
    /// Bytes that came and are not done with.
    input: Vec<u8>,
    /// So many bytes must be there before the next frame is whole.
    needed: usize,
    output: Vec<u8>,
    /// So many of them were written.
    sent: usize,
    session: SessionId,
    /// For requests that take effect in their order.
    ordered: u64,
    mailbox: Arc<Mailbox>,
    calls: Calls,
    /// Something is wrong with this client: it is told, and let go.
    ending: bool,
    /// When it last said something.
    heard: Instant,
    /// When the request began that is not whole yet: a byte now and then buys no time.
    begun: Instant,
    /// When it last took something of what waits for it.
    took: Instant,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, gateway: Gateway, input: Vec<u8>, session: SessionId) -> Connection {
        let now = Instant::now();
        Connection {
            ordered: gateway.new_connection(),
            stream,
            gateway,
            input,
            needed: HEADER,
            output: Vec::new(),
            sent: 0,
            session,
            mailbox: Mailbox::new(),
            calls: Calls::default(),
            ending: false,
            heard: now,
            begun: now,
            took: now,
        }
    }

    pub(super) async fn run(mut self) -> io::Result<()> {
        let mut answers = Vec::new();
        let mailbox = self.mailbox.clone();
        let mut alarm_at = Instant::now() + FAR;
        let mut alarm = pin!(sleep_until(alarm_at));
        loop {
            mailbox.take(&mut answers);
            answers.drain(..).for_each(|(number, answer)| self.answer(number, answer));
            self.take_requests();
            self.flush()?;
            if self.ending && self.is_flushed() {
                return Ok(());
            }
            // An alarm that is too early costs one idle round; setting it anew for every request would cost more.
            let due = self.due();
            if due < alarm_at {
                alarm_at = due;
                alarm.as_mut().reset(due);
            }
            let (reading, writing) = (self.is_reading(), !self.is_flushed());
            let stream = &self.stream;
            select! {
                ready = poll_fn(|context| stream.poll_read_ready(context)), if reading => {
                    ready?;
                    if !self.read()? {
                        return Ok(());
                    }
                }
                ready = poll_fn(|context| stream.poll_write_ready(context)), if writing => ready?,
                () = mailbox.filled() => {}
                () = &mut alarm => {
                    if self.due() <= Instant::now() {
                        self.gateway.refused().count(Why::TooSlow);
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    alarm_at = self.due();
                    alarm.as_mut().reset(alarm_at);
                }
            }
        }
    }

    fn is_flushed(&self) -> bool {
        self.sent == self.output.len()
    }

    fn is_reading(&self) -> bool {
        !self.ending && self.calls.has_room() && self.output.len() - self.sent < OUTPUT_MOST
    }

    /// When patience with this client ends, if nothing happens before.
    fn due(&self) -> Instant {
        let settings = self.gateway.settings();
        if !self.is_flushed() {
            self.took + settings.slow
        } else if !self.input.is_empty() && self.is_reading() {
            self.begun + settings.slow
        } else if !settings.idle.is_zero() && self.calls.is_empty() {
            self.heard + settings.idle
        } else {
            self.heard + FAR
        }
    }

    /// False once the client is gone.
    fn read(&mut self) -> io::Result<bool> {
        // Room for the rest of what has begun to come; a length alone makes room for a few chunks at most.
        self.input.reserve(self.needed.saturating_sub(self.input.len()).clamp(CHUNK / 4, CHUNK * 8));
        if self.input.is_empty() {
            self.begun = Instant::now();
        }
        match arrived(&mut self.stream, &mut self.input) {
            None => Ok(true),
            Some(Ok(0)) => Ok(false),
            Some(Ok(length)) => {
                self.gateway.switch().traffic.from(Protocol::Native).add_shared(length as u64);
                self.heard = Instant::now();
                Ok(true)
            }
            Some(Err(error)) => Err(error),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.output.len() {
            match self.stream.try_write(&self.output[self.sent..]) {
                Ok(written) => {
                    self.gateway.switch().traffic.to(Protocol::Native).add_shared(written as u64);
                    self.sent += written;
                    self.took = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        self.output.shrink_to(KEEP);
        self.sent = 0;
        Ok(())
    }

    /// As many as there are, and is room for.
    fn take_requests(&mut self) {
        if self.input.is_empty() {
            return;
        }
        let routes = self.gateway.board().routes();
        let most = request_most(&self.gateway);
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        while self.is_reading() {
            match frame::next(&input[at..], most) {
                Next::Whole(body) => {
                    match Request::decode(body) {
                        Some(request) => self.request(&request, &routes, body.len()),
                        None => self.goodbye(Why::Malformed, "a frame that is no request"),
                    }
                    at += HEADER + body.len();
                }
                Next::Needs(needed) => {
                    self.needed = needed;
                    break;
                }
                Next::TooLong(length) => {
                    let text = format!("a request of {length} bytes, where {most} are allowed");
                    self.goodbye(Why::TooLarge, &text);
                }
            }
        }
        self.input = input;
        self.input.drain(..at);
        if self.input.is_empty() {
            self.input.shrink_to(KEEP);
            self.needed = HEADER;
        }
        if at > 0 {
            self.begun = Instant::now();
        }
    }

    fn goodbye(&mut self, why: Why, text: &str) {
        self.gateway.refused().count(why);
        self.say(0, false, Outcome::Goodbye { text });
        self.ending = true;
    }

    fn say(&mut self, number: u64, hopped: bool, outcome: Outcome<'_>) {
        if self.is_flushed() {
            self.took = Instant::now();
        }
        Answer { number, hopped, outcome }.encode(&mut self.output);
    }

    fn refuse(&mut self, number: u64, (reason, text): check::Wrong) {
        self.gateway.refused().count(if reason == Reason::TooLarge { Why::TooLarge } else { Why::BadRequest });
        self.say(number, false, Outcome::NotApplied { reason, text });
    }

    fn request(&mut self, request: &Request<'_>, routes: &Routes, bytes: usize) {
        let number = request.number;
        match request.ask {
            Ask::Write { slot, numbers, command } => {
                let value_most = self.gateway.settings().max_value;
                let slot = match check::command(command, slot, value_most) {
                    Ok(slot) => slot,
                    Err(wrong) => return self.refuse(number, wrong),
                };
                let usage = numbers.map(|numbers| SessionUse {
                    session: self.session,
                    series: numbers.series,
                    floor: numbers.floor,
                    attempt: numbers.attempt,
                });
                let call = Call { number, hopped: !routes.is_mine(slot), waiting: false, bytes };
                self.call(call, slot, self.ordered, door::Ask::Write { usage, command: command.into() });
            }
            Ask::Read { slot, query } => {
                let (slot, asked) = match check::query(query, slot) {
                    Ok(found) => found,
                    Err(wrong) => return self.refuse(number, wrong),
                };
                let call = Call { number, hopped: !routes.is_mine(slot), waiting: false, bytes: bytes + asked };
                self.call(call, slot, self.ordered, door::Ask::Read { query: query.into() });
            }
            Ask::Stale { slot, after, query } => self.stale(number, slot, after, query, bytes),
            Ask::Session(wanted) => {
                let opened = open(&self.gateway, &wanted);
                self.session = opened.session;
                self.say(number, false, Outcome::Session(opened));
            }
            Ask::Table => {
                let table = table(cluster(&self.gateway), routes);
                self.say(number, false, Outcome::Table(table));
            }
            Ask::Ping => self.say(number, false, Outcome::Pong { table: routes.version }),
        }
    }

    /// One that waits for a position gets a number of its own: what comes behind it must not wait as well.
    fn stale(&mut self, number: u64, slot: Option<HashSlot>, after: Option<Position>, query: &[u8], bytes: usize) {
        let (slot, asked) = match check::query(query, slot) {
            Ok(found) => found,
            Err(wrong) => return self.refuse(number, wrong),
        };
        let waiting = after.is_some();
        if waiting && !self.calls.may_wait() {
            let text = "too many reads of this connection wait for a position already";
            return self.say(number, false, Outcome::NotApplied { reason: Reason::Busy, text });
        }
        let call = Call { number, hopped: false, waiting, bytes: bytes + asked };
        let connection = self.gateway.new_connection();
        self.call(call, slot, connection, door::Ask::Stale { query: query.into(), after });
    }

    fn call(&mut self, call: Call, slot: HashSlot, connection: u64, ask: door::Ask) {
        let number = self.calls.begin(call);
        let caller = Caller::Mailbox(self.mailbox.clone(), number);
        self.gateway.call(call::Call { protocol: Protocol::Native, connection, slot, ask, caller });
    }

    fn answer(&mut self, number: u64, answer: door::Answer) {
        let Some(Call { number, hopped, .. }) = self.calls.end(number) else { return };
        match answer {
            door::Answer::Done { payload, position, duplicate } => {
                self.say(number, hopped, Outcome::Done { duplicate, position, payload: payload.as_slice() });
            }
            door::Answer::NotApplied(why) => {
                let text = words(why).message;
                self.say(number, hopped, Outcome::NotApplied { reason: reason(why), text });
            }
            door::Answer::Unknown => self.say(number, hopped, Outcome::Unknown),
        }
    }
}

fn reason(reason: door::Reason) -> Reason {
    match reason {
        door::Reason::Busy => Reason::Busy,
        door::Reason::Paused => Reason::Paused,
        door::Reason::Lost => Reason::Lost,
        door::Reason::NoTable => Reason::NoTable,
        door::Reason::TooManyHops => Reason::TooManyHops,
        door::Reason::OutOfMemory => Reason::OutOfMemory,
        door::Reason::SessionExpired => Reason::SessionExpired,
        door::Reason::BelowFloor => Reason::BelowFloor,
        door::Reason::BeyondWindow => Reason::BeyondWindow,
        door::Reason::BadSession => Reason::BadSession,
        door::Reason::TooStale => Reason::TooStale,
        door::Reason::TooLarge => Reason::TooLarge,
    }
}

fn table(cluster: u64, routes: &Routes) -> Table {
    let nodes = routes.places.iter().map(|(&id, place)| Node {
        id,
        present: place.present,
        name: place.name.clone(),
        address: place.resp.clone(),
    });
    let ranges =
        routes.ranges.iter().map(|range| Range { first: range.first, last: range.last, primary: range.primary });
    Table { cluster, version: routes.version, nodes: nodes.collect(), ranges: ranges.collect() }
}
