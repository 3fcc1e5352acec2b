//! One client after its hello: frames in, answers out.
//!
//! ```text
//!            frames                     calls
//!   socket ─────────▶ input ──check──▶ guest ──▶ core          its task
//!     ▲                                            │ in any order
//!     └──── one write ◀── output ◀─────────────────┘           the thread's turn
//! ```
//!
//! A task that is woken takes all requests that there is room for; a turn writes all answers that are there at once.
//! Nothing more is read while too much is under way or too much waits to be written, so that what one client costs is
//! bounded.
//!
//! Not here: what a frame is (`atoll-protocol`); whether a request may go to its slot (`check.rs`).

use super::calls::{Call, Calls};
use super::{check, cluster, open, request_most};
use crate::alarm::{Alarm, FAR};
use crate::call;
use crate::clients::arrived;
use crate::data::words;
use crate::gateway::Gateway;
use crate::home::{Client, Guest};
use crate::latency::Protocol;
use crate::refused::Why;
use crate::routes::Routes;
use atoll_node::shard::door;
use atoll_protocol::frame::{self, HEADER, Next};
use atoll_protocol::{Answer, Ask, Node, Outcome, Range, Reason, Request, Table};
use atoll_types::{HashSlot, Position, SessionId, SessionUse};
use std::io;
use std::task::{Context, Poll, Waker};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Room for what arrives at once.
const CHUNK: usize = 32 << 10;
/// Bytes of answers that wait to be written. Beyond that no more is read.
const OUTPUT_MOST: usize = 4 << 20;
/// Room that an empty buffer keeps.
const KEEP: usize = 256 << 10;

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
    calls: Calls,
    /// Something is wrong with this client: it is told, and let go.
    ending: bool,
    /// When it last said something.
    heard: Instant,
    /// When the request began that is not whole yet: a byte now and then buys no time.
    begun: Instant,
    /// When it last took something of what waits for it.
    took: Instant,
    /// When it was last looked at whether the client is still there.
    checked: Instant,
    alarm: Alarm,
    /// Of its task, which sleeps.
    waker: Waker,
    /// Nothing is read until there is room.
    paused: bool,
    /// Found when something was written.
    broken: Option<io::Error>,
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
            calls: Calls::default(),
            ending: false,
            heard: now,
            begun: now,
            took: now,
            checked: now,
            alarm: Alarm::new(now),
            waker: Waker::noop().clone(),
            paused: false,
            broken: None,
        }
    }

    /// What its task does whenever it is woken.
    pub(super) fn poll(&mut self, guest: &Guest, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.waker.will_wake(context.waker()) {
            self.waker = context.waker().clone();
        }
        let mut happened = None;
        loop {
            self.take_requests(guest);
            if let Err(error) = self.broken.take().map_or_else(|| self.write(), Err) {
                return Poll::Ready(Err(error));
            }
            if self.ending && self.is_flushed() {
                return Poll::Ready(Ok(()));
            }
            self.paused = !self.is_reading();
            self.set_alarm();
            match self.next(context, happened) {
                Poll::Ready(Ok(Some(at))) => happened = Some(at),
                Poll::Ready(Ok(None)) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// The next thing that happens, and when, after what happened before. None once the client is gone.
    fn next(&mut self, context: &mut Context<'_>, before: Option<Instant>) -> Poll<io::Result<Option<Instant>>> {
        if !self.paused && self.stream.poll_read_ready(context).is_ready() {
            let now = Instant::now();
            return Poll::Ready(self.read(now).map(|is_here| is_here.then_some(now)));
        }
        if !self.is_flushed() && self.stream.poll_write_ready(context).is_ready() {
            return Poll::Ready(Ok(Some(Instant::now())));
        }
        if self.alarm.rings(context, before) {
            let now = Instant::now();
            self.checked = now;
            if self.due() <= now {
                self.gateway.refused().count(Why::TooSlow);
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            return Poll::Ready(Ok(Some(now)));
        }
        Poll::Pending
    }

    /// Also while requests are under way, since nobody sets it when they are answered.
    fn set_alarm(&mut self) {
        let idle = self.gateway.settings().idle;
        let mut due = self.due();
        if !idle.is_zero() {
            due = due.min(self.heard.max(self.checked) + idle);
        }
        self.alarm.set(due);
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
    fn read(&mut self, now: Instant) -> io::Result<bool> {
        // Room for the rest of what has begun to come; a length alone makes room for a few chunks at most.
        self.input.reserve(self.needed.saturating_sub(self.input.len()).clamp(CHUNK / 4, CHUNK * 8));
        if self.input.is_empty() {
            self.begun = now;
        }
        match arrived(&mut self.stream, &mut self.input) {
            None => Ok(true),
            Some(Ok(0)) => Ok(false),
            Some(Ok(length)) => {
                self.gateway.switch().traffic.from(Protocol::Native).add_shared(length as u64);
                self.heard = now;
                Ok(true)
            }
            Some(Err(error)) => Err(error),
        }
    }

    fn write(&mut self) -> io::Result<()> {
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
    fn take_requests(&mut self, guest: &Guest) {
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
                        Some(request) => self.request(guest, &request, &routes, body.len()),
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

    fn request(&mut self, guest: &Guest, request: &Request<'_>, routes: &Routes, bytes: usize) {
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
                self.call(guest, call, slot, self.ordered, door::Ask::Write { usage, command: command.into() });
            }
            Ask::Read { slot, query } => {
                let (slot, asked) = match check::query(query, slot) {
                    Ok(found) => found,
                    Err(wrong) => return self.refuse(number, wrong),
                };
                let call = Call { number, hopped: !routes.is_mine(slot), waiting: false, bytes: bytes + asked };
                self.call(guest, call, slot, self.ordered, door::Ask::Read { query: query.into() });
            }
            Ask::Stale { slot, after, query } => self.stale(guest, number, (slot, after, query), bytes),
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
    fn stale(
        &mut self,
        guest: &Guest,
        number: u64,
        (slot, after, query): (Option<HashSlot>, Option<Position>, &[u8]),
        bytes: usize,
    ) {
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
        self.call(guest, call, slot, connection, door::Ask::Stale { query: query.into(), after });
    }

    fn call(&mut self, guest: &Guest, call: Call, slot: HashSlot, connection: u64, ask: door::Ask) {
        let caller = guest.caller(self.calls.begin(call));
        let now = self.gateway.clock().now();
        guest.call(now, call::Call { protocol: Protocol::Native, connection, slot, ask, caller });
    }
}

impl Client for Connection {
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

    fn flush(&mut self) {
        self.broken = self.write().err();
        let has_room = self.paused && self.is_reading();
        if self.broken.is_some() || !self.is_flushed() || has_room || self.ending {
            self.waker.wake_by_ref();
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
