//! One client: reads, plans, asks, and writes replies in order.
//!
//! ```text
//!   its task          read ──▶ execute: everything that was read becomes requests under way
//!                      ▲ the socket, a late command, an alarm, room for more
//!
//!   the thread's turn  answers find their places in line ──▶ write: everything that is ready, with one call
//! ```
//!
//! What is under way, and what waits to be written, is bounded: beyond that nothing more is executed, and soon nothing
//! more is read, so that a client that does not take its replies holds up itself alone.
//!
//! Not here: what commands do (`session.rs` says where), the line of replies (`queue.rs`).

use super::parse::{Limits, Malformed, Parser};
use super::plan::{Late, Plan, Said};
use super::queue::{Queue, size};
use super::session::Session;
use crate::alarm::Alarm;
use crate::call::Call;
use crate::clients::arrived;
use crate::gateway::Gateway;
use crate::home::{Client, Guest, Home};
use crate::latency::Protocol;
use crate::refused::Why;
use atoll_node::shard::door::Answer;
use atoll_types::Time;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// Requests under way: their answers may all be long, and nobody knows before they come.
const UNDER_WAY_MOST: usize = 256;
/// Bytes of requests under way and of answers that wait for their turn. One request may pass it.
const UNDER_WAY_BYTES_MOST: usize = 16 << 20;
/// What answers are taken to be before there are any.
const LARGEST_AT_FIRST: usize = 128 * 1024;
/// Beyond so many bytes to write nothing more is executed.
const OUTPUT_PAUSE: usize = 1 << 20;
/// Beyond so many bytes to write the client is let go.
const OUTPUT_MOST: usize = 256 << 20;
/// Read ahead of what is executed: enough to notice that a client has gone.
const AHEAD: usize = 64 * 1024;
/// How much is read at once.
const READ: usize = 16 * 1024;
/// What an argument may have beyond the longest value: so that a value that is a little too long is refused by name.
const ARGUMENT_ROOM: usize = 64 * 1024;
/// What a request may have beyond the longest value.
const REQUEST_ROOM: usize = 1 << 20;
/// How long a client that is let go may take to read why.
const LINGER: Duration = Duration::from_secs(1);

pub(crate) struct Connection {
    stream: TcpStream,
    session: Session,
    parser: Parser,
    /// What was read; everything before `begin` is done with.
    input: Vec<u8>,
    begin: usize,
    queue: Queue,
    /// The largest answers lately, and those of this turn.
    largest: usize,
    largest_now: usize,
    /// Requests that may be under way, so that not too many large answers are asked for at once.
    under_way_most: usize,
    late: Option<Late>,
    late_blocks: bool,
    output: Vec<u8>,
    written: usize,
    /// The client says no more.
    ended: bool,
    /// No request after this is looked at; the connection ends with the last reply.
    closing: bool,
    alarm: Alarm,
    last_read: Instant,
    /// When it was last looked at whether the client is still there.
    checked: Instant,
    /// Since when a request is incomplete, and since when nothing could be written.
    partial_since: Option<Instant>,
    stuck_since: Option<Instant>,
    /// Of its task, which sleeps.
    waker: Waker,
    /// Nothing is read until there is room.
    paused: bool,
    /// Found when something was written.
    broken: Option<End>,
}

/// What ends a connection from this side.
enum End {
    Done,
    /// Let go: it was too slow.
    TooSlow,
    Failed(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Failed(error)
    }
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, gateway: Gateway) -> Connection {
        let most = gateway.settings().max_value;
        let limits = Limits { argument: most + ARGUMENT_ROOM, request: most + REQUEST_ROOM };
        let from = stream.peer_addr().map_or_else(|_| String::new(), |address| address.to_string());
        let now = Instant::now();
        Connection {
            stream,
            session: Session::new(gateway, from),
            parser: Parser::new(limits),
            input: Vec::new(),
            begin: 0,
            queue: Queue::default(),
            largest: LARGEST_AT_FIRST,
            largest_now: 0,
            under_way_most: under_way_most(LARGEST_AT_FIRST),
            late: None,
            late_blocks: false,
            output: Vec::new(),
            written: 0,
            ended: false,
            closing: false,
            alarm: Alarm::new(now),
            last_read: now,
            checked: now,
            partial_since: None,
            stuck_since: None,
            waker: Waker::noop().clone(),
            paused: false,
            broken: None,
        }
    }

    pub(crate) async fn serve(self, home: &Rc<Home>) -> io::Result<()> {
        let (mut connection, end) = home.serve(self, Connection::poll).await;
        match end {
            End::Failed(error) => return Err(error),
            End::TooSlow => connection.session.gateway.refused().count(Why::TooSlow),
            End::Done => {}
        }
        if connection.closing {
            connection.linger().await;
        }
        Ok(())
    }

    /// What its task does whenever it is woken.
    fn poll(&mut self, guest: &Guest, context: &mut Context<'_>) -> Poll<End> {
        if !self.waker.will_wake(context.waker()) {
            self.waker = context.waker().clone();
        }
        let mut happened = None;
        loop {
            self.execute(guest, happened);
            if let Err(end) = self.broken.take().map_or_else(|| self.write(), Err) {
                return Poll::Ready(end);
            }
            // Room that writing made may be what the next request waits for.
            if self.may_go_on() {
                continue;
            }
            if self.is_over() {
                return Poll::Ready(End::Done);
            }
            self.paused = !self.wants_input();
            self.set_alarm();
            match self.next(guest, context, happened) {
                Poll::Ready(Ok(at)) => happened = Some(at),
                Poll::Ready(Err(end)) => return Poll::Ready(end),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// The next thing that happens, and when, after what happened before.
    fn next(
        &mut self,
        guest: &Guest,
        context: &mut Context<'_>,
        before: Option<Instant>,
    ) -> Poll<Result<Instant, End>> {
        if let Some(late) = &mut self.late
            && let Poll::Ready(said) = late.as_mut().poll(context)
        {
            self.finish_late(said);
            return Poll::Ready(Ok(Instant::now()));
        }
        // An error shows when it is tried.
        if !self.paused && self.stream.poll_read_ready(context).is_ready() {
            return Poll::Ready(self.read(guest));
        }
        if self.unwritten() > 0 && self.stream.poll_write_ready(context).is_ready() {
            return Poll::Ready(Ok(Instant::now()));
        }
        if self.alarm.rings(context, before) {
            let now = Instant::now();
            return Poll::Ready(self.check_times(now).map(|()| now));
        }
        Poll::Pending
    }

    fn finish_late(&mut self, said: Said) {
        self.late = None;
        self.session.rest = said.rest;
        self.queue.finish_late(said.reply);
    }

    /// Is there something that can be executed?
    fn may_go_on(&self) -> bool {
        self.may_execute() && self.has_input() && self.partial_since.is_none()
    }

    fn is_over(&self) -> bool {
        let is_idle = self.queue.len() == 0 && self.unwritten() == 0;
        is_idle && (self.closing || self.ended) || self.ended && self.late_blocks && self.late.is_some()
    }

    fn unwritten(&self) -> usize {
        self.output.len() - self.written
    }

    fn has_input(&self) -> bool {
        self.begin < self.input.len()
    }

    fn may_execute(&self) -> bool {
        !self.closing
            && self.late.is_none()
            && self.queue.len() < self.under_way_most
            && self.queue.bytes() < UNDER_WAY_BYTES_MOST
            && self.unwritten() < OUTPUT_PAUSE
    }

    fn wants_input(&self) -> bool {
        !self.ended && !self.closing && (self.may_execute() || self.input.len() - self.begin < AHEAD)
    }

    /// `happened`: when what is in the input came, or something after that.
    fn execute(&mut self, guest: &Guest, happened: Option<Instant>) {
        if !self.has_input() {
            return;
        }
        let clock = self.session.gateway.clock();
        let now = happened.map_or_else(|| clock.now(), |at| clock.at(at.into_std()));
        while self.may_execute() {
            let unread = &self.input[self.begin..];
            match self.parser.parse(unread) {
                Ok(None) => {
                    let since = self.has_input().then(|| self.partial_since.unwrap_or_else(Instant::now));
                    self.partial_since = since;
                    break;
                }
                Ok(Some(length)) => {
                    let arguments = self.parser.arguments(unread);
                    let plan = (arguments.len() > 0).then(|| self.session.plan(arguments));
                    self.parser.begin();
                    self.begin += length;
                    self.partial_since = None;
                    if let Some(plan) = plan {
                        self.carry_out(guest, now, plan, length);
                    }
                }
                Err(malformed) => {
                    self.partial_since = None;
                    self.give_up(&malformed);
                }
            }
        }
        if self.begin == self.input.len() {
            guest.give_back(std::mem::take(&mut self.input));
            self.begin = 0;
        }
    }

    fn carry_out(&mut self, guest: &Guest, now: Time, plan: Plan, bytes: usize) {
        let protocol = self.session.protocol;
        let (connection, from) = (self.session.number, crate::Protocol::Resp);
        match plan {
            Plan::Reply(reply) => self.queue.push_ready(protocol, reply),
            Plan::Last(reply) => {
                self.queue.push_ready(protocol, reply);
                self.closing = true;
            }
            Plan::Ask(slot, ask, expect) => {
                let number = self.queue.push_one(protocol, bytes, expect);
                let caller = guest.caller(number);
                guest.call(now, Call { protocol: from, connection, slot, ask, caller });
            }
            Plan::Fan(asks, gather) => {
                let first = self.queue.push_many(protocol, bytes, gather, asks.len());
                for ((slot, ask), number) in asks.into_iter().zip(first..) {
                    let caller = guest.caller(number);
                    guest.call(now, Call { protocol: from, connection, slot, ask, caller });
                }
            }
            Plan::Late { late, blocks } => {
                self.queue.push_late(protocol, bytes);
                (self.late, self.late_blocks) = (Some(late), blocks);
            }
        }
    }

    fn give_up(&mut self, malformed: &Malformed) {
        self.closing = true;
        let gateway = &self.session.gateway;
        gateway.refused().count(match malformed {
            Malformed::TooLarge(_) | Malformed::Length | Malformed::LongLine => Why::TooLarge,
            Malformed::Count | Malformed::NoBulk(_) | Malformed::NoEnd | Malformed::Quotes | Malformed::Http => {
                Why::Malformed
            }
        });
        let reply = match malformed {
            Malformed::Http => {
                let place = gateway.board().routes();
                let http = place.places.get(&place.me).map_or(gateway.settings().http.as_str(), |place| &place.http);
                let text = format!("This port speaks RESP, for Redis clients. HTTP is at http://{http}\n");
                let length = text.len();
                format!(
                    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
                     Connection: close\r\n\r\n{text}"
                )
            }
            Malformed::Count
            | Malformed::Length
            | Malformed::NoBulk(_)
            | Malformed::NoEnd
            | Malformed::LongLine
            | Malformed::Quotes
            | Malformed::TooLarge(_) => format!("-{malformed}\r\n"),
        };
        self.queue.push_ready(self.session.protocol, reply.into_bytes());
    }

    /// Writes what is ready, as much as the socket takes.
    fn write(&mut self) -> Result<(), End> {
        loop {
            let clock = self.session.gateway.clock();
            self.queue.flush(&mut self.output, OUTPUT_PAUSE + self.written, clock);
            if self.unwritten() == 0 {
                self.output.clear();
                self.output.shrink_to(4 * OUTPUT_PAUSE);
                (self.written, self.stuck_since) = (0, None);
                return Ok(());
            }
            match self.stream.try_write(&self.output[self.written..]) {
                Ok(0) => return Err(End::Done),
                Ok(length) => {
                    self.session.gateway.switch().traffic.to(Protocol::Resp).add_shared(length as u64);
                    self.written += length;
                    self.stuck_since = None;
                    if self.written > OUTPUT_PAUSE {
                        self.output.drain(..self.written);
                        self.written = 0;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.stuck_since.get_or_insert_with(Instant::now);
                    return if self.unwritten() > OUTPUT_MOST { Err(End::TooSlow) } else { Ok(()) };
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Tells when: not before what was read had come, since leases are measured by it.
    fn read(&mut self, guest: &Guest) -> Result<Instant, End> {
        if self.begin > 0 {
            self.input.drain(..self.begin);
            self.begin = 0;
        }
        if self.input.capacity() == 0 {
            self.input = guest.borrow_buffer();
        }
        // Four times what is there, so that a long request is copied a few times only; and never much more than has
        // come already.
        self.input.reserve(READ.max((3 * self.input.len()).min(1 << 20)));
        let arrived = arrived(&mut self.stream, &mut self.input);
        let now = Instant::now();
        match arrived {
            Some(Ok(0)) => self.ended = true,
            Some(Ok(length)) => {
                self.session.gateway.switch().traffic.from(Protocol::Resp).add_shared(length as u64);
                self.last_read = now;
            }
            Some(Err(error)) => return Err(error.into()),
            None => {}
        }
        if self.input.is_empty() {
            guest.give_back(std::mem::take(&mut self.input));
        }
        Ok(now)
    }

    /// When somebody has to look whether the client is still there.
    fn deadline(&self) -> Option<Instant> {
        let settings = self.session.gateway.settings();
        let stuck = self.stuck_since.or(self.partial_since).map(|since| since + settings.slow);
        let is_busy = self.queue.len() > 0 || settings.idle.is_zero();
        let idle = (!is_busy).then(|| self.last_read + settings.idle);
        match (stuck, idle) {
            (Some(stuck), Some(idle)) => Some(stuck.min(idle)),
            (stuck, idle) => stuck.or(idle),
        }
    }

    /// Also while requests are under way, since nobody sets it when they are answered.
    fn set_alarm(&mut self) {
        let settings = self.session.gateway.settings();
        let stuck = self.stuck_since.or(self.partial_since).map(|since| since + settings.slow);
        let idle = (!settings.idle.is_zero()).then(|| self.last_read.max(self.checked) + settings.idle);
        if let Some(time) = stuck.into_iter().chain(idle).min() {
            self.alarm.set(time);
        }
    }

    fn check_times(&mut self, now: Instant) -> Result<(), End> {
        self.checked = now;
        if self.deadline().is_some_and(|deadline| deadline <= now) { Err(End::TooSlow) } else { Ok(()) }
    }

    /// Lets the client read the last reply: closing on bytes that nobody has read would take it back.
    async fn linger(&mut self) {
        let drain = async {
            self.stream.shutdown().await?;
            self.input.clear();
            while self.stream.read_buf(&mut self.input).await? > 0 {
                self.input.clear();
            }
            io::Result::Ok(())
        };
        let _ = timeout(LINGER, drain).await;
    }
}

fn under_way_most(largest: usize) -> usize {
    (UNDER_WAY_BYTES_MOST / largest.max(1)).clamp(8, UNDER_WAY_MOST)
}

impl Client for Connection {
    fn answer(&mut self, number: u64, answer: Answer) {
        self.largest_now = self.largest_now.max(size(&answer));
        let clock = self.session.gateway.clock();
        self.queue.answer(number, answer, &mut self.output, OUTPUT_PAUSE + self.written, clock);
    }

    fn flush(&mut self) {
        let largest = (self.largest / 2).max(std::mem::take(&mut self.largest_now));
        if largest != self.largest {
            (self.largest, self.under_way_most) = (largest, under_way_most(largest));
        }
        self.broken = self.write().err();
        let has_room = self.paused && self.wants_input();
        if self.broken.is_some() || self.unwritten() > 0 || has_room || self.may_go_on() || self.is_over() {
            self.waker.wake_by_ref();
        }
    }
}
