//! The outgoing side: one link for each peer that this thread has something to say to.
//!
//! ```text
//!            connected             gone
//!   Trying ────────────▶ Connected ─────▶ Trying at once, then with back-off
//!     │ nobody has anything to say
//!     ▼
//!   Ended ── something to say ──▶ Trying
//! ```
//!
//! A connection that is lost and then refused is evidence that the process is gone.

use super::frame;
use super::hello::{self, Hello, Lane};
use crate::refused::{Refused, Why};
use atoll_node::Envelope;
use atoll_types::{Address, Rng};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpStream, lookup_host};
use tokio::select;
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tracing::debug;

/// Bytes that wait for a peer. What comes on top is dropped: the core says again what matters.
const WAITING_MOST: usize = 32 * 1024 * 1024;
/// The same, while there is no connection.
const UNCONNECTED_MOST: usize = 1024 * 1024;
/// Whoever says hello names an address, and is answered there: that must not fill the memory with places nobody is at.
const LINKS_MOST: usize = 4 * 1024;
const CONNECT: Duration = Duration::from_secs(1);
/// How long a name may take to be looked up. Whoever says hello names an address, and so whose names are asked for.
const LOOK_UP: Duration = Duration::from_secs(2);
const BACK_OFF: Duration = Duration::from_millis(10);
const BACK_OFF_MOST: Duration = Duration::from_millis(500);
/// A link without a connection that nobody has used for this long ends.
const IDLE: Duration = Duration::from_secs(10);
/// Room that an empty buffer keeps in any case.
const KEEP: usize = 1024 * 1024;
/// What was needed once is forgotten in about so many turns.
const NEEDED_FOR: usize = 64;

/// Told where nobody listens any more.
pub(crate) type Evidence = Arc<dyn Fn(Address) + Send + Sync>;

pub(crate) struct Links {
    hello: Hello,
    evidence: Evidence,
    refused: Arc<Refused>,
    links: BTreeMap<Address, Rc<Link>>,
    dirty: Vec<Rc<Link>>,
    seed: u64,
    /// Bytes that were written to all of them.
    sent: Rc<Cell<u64>>,
}

impl Links {
    pub(crate) fn new(lane: Lane, address: Address, evidence: Evidence, refused: Arc<Refused>, seed: u64) -> Links {
        let hello = Hello { lane, address };
        Links { hello, evidence, refused, links: BTreeMap::new(), dirty: Vec::new(), seed, sent: Rc::default() }
    }

    /// Bytes so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.get()
    }

    /// Puts it with what goes out at the next `flush`.
    pub(crate) fn send(&mut self, to: &Address, envelope: &Envelope) {
        if to.0.is_empty() {
            return;
        }
        let link = match self.links.get(to) {
            Some(link) => link,
            None => {
                if !self.has_room() {
                    return self.refused.count(Why::PeerFull);
                }
                self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let link = Rc::new(Link::new(to.clone(), self.sent.clone()));
                self.links.entry(to.clone()).or_insert(link)
            }
        };
        if !link.running.replace(true) {
            let (hello, evidence) = (self.hello.clone(), self.evidence.clone());
            let (refused, rng) = (self.refused.clone(), Rng::new(self.seed));
            spawn_local(link.clone().run(hello, evidence, refused, rng));
        }
        if !link.queue(envelope) {
            self.refused.count(Why::PeerFull);
        }
        if !link.dirty.replace(true) {
            self.dirty.push(link.clone());
        }
    }

    /// For one more. Links that have ended are forgotten only here: those that are used again are used soon.
    fn has_room(&mut self) -> bool {
        if self.links.len() >= LINKS_MOST {
            self.links.retain(|_, link| link.running.get());
        }
        self.links.len() < LINKS_MOST
    }

    /// Writes everything that waits, as far as the connections take it.
    pub(crate) fn flush(&mut self) {
        for link in self.dirty.drain(..) {
            link.dirty.set(false);
            link.flush();
        }
    }
}

struct Link {
    address: Address,
    out: RefCell<Out>,
    running: Cell<bool>,
    dirty: Cell<bool>,
    /// Somebody had something to say since this was last looked at.
    used: Cell<bool>,
    /// The connection was lost, or takes no more for now.
    stuck: Notify,
    sent: Rc<Cell<u64>>,
}

#[derive(Default)]
struct Out {
    bytes: Vec<u8>,
    /// So many of them were written.
    sent: usize,
    /// Room that was needed lately: giving it back and taking it again at every turn would cost more than the rest.
    needed: usize,
    stream: Option<Rc<TcpStream>>,
}

impl Out {
    /// What was written makes room for what comes. A peer that takes long never lets the buffer run empty.
    fn make_room(&mut self) {
        self.needed = self.bytes.len().max(self.needed - self.needed / NEEDED_FOR);
        if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        let keep = KEEP.max(self.needed);
        if self.bytes.is_empty() && self.bytes.capacity() > 2 * keep {
            // A new one: making the old one smaller would copy what nobody needs.
            self.bytes = Vec::with_capacity(keep);
        }
    }
}

impl Link {
    fn new(address: Address, sent: Rc<Cell<u64>>) -> Link {
        Link {
            address,
            out: RefCell::default(),
            running: Cell::new(false),
            dirty: Cell::new(false),
            used: Cell::new(true),
            stuck: Notify::new(),
            sent,
        }
    }

    fn queue(&self, envelope: &Envelope) -> bool {
        self.used.set(true);
        let out = &mut *self.out.borrow_mut();
        let most = if out.stream.is_some() { WAITING_MOST } else { UNCONNECTED_MOST };
        out.bytes.len() - out.sent < most && frame::append(envelope, &mut out.bytes)
    }

    fn flush(&self) {
        let out = &mut *self.out.borrow_mut();
        let Some(stream) = &out.stream else { return };
        while out.sent < out.bytes.len() {
            match stream.try_write(&out.bytes[out.sent..]) {
                Ok(written) => {
                    out.sent += written;
                    self.sent.set(self.sent.get() + written as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    out.stream = None;
                    self.stuck.notify_one();
                    return;
                }
            }
        }
        if out.sent < out.bytes.len() {
            self.stuck.notify_one();
        }
        out.make_room();
    }

    fn is_waiting(&self) -> bool {
        let out = self.out.borrow();
        out.sent < out.bytes.len()
    }

    async fn run(self: Rc<Self>, hello: Hello, evidence: Evidence, refused: Arc<Refused>, mut rng: Rng) {
        let mut back_off = BACK_OFF;
        // Where a process has listened, and so may be known to be gone.
        let mut reached: Option<SocketAddr> = None;
        let mut used = Instant::now();
        loop {
            if self.used.take() {
                used = Instant::now();
            } else if used.elapsed() >= IDLE {
                break;
            }
            match connect(&self.address, &hello, &mut rng).await {
                Ok((stream, place)) => {
                    reached = Some(place);
                    back_off = BACK_OFF;
                    self.hold(stream).await;
                    continue;
                }
                Err((error, place)) => {
                    if error.kind() == io::ErrorKind::ConnectionRefused && place.is_some() && place == reached {
                        evidence(self.address.clone());
                    }
                    if error.kind() == io::ErrorKind::InvalidData {
                        refused.count(Why::PeerUnwelcome);
                    }
                    debug!(peer = %self.address, %error, "no connection");
                }
            }
            sleep(rng.between(back_off / 2, back_off)).await;
            back_off = (back_off * 2).min(BACK_OFF_MOST);
        }
        *self.out.borrow_mut() = Out::default();
        self.running.set(false);
    }

    /// While the connection lasts.
    async fn hold(&self, stream: TcpStream) {
        let stream = Rc::new(stream);
        self.out.borrow_mut().stream = Some(stream.clone());
        self.flush();
        let mut nothing = [0; 64];
        // Until a write has failed. A connection that is broken can always be written to, and that it can be read as
        // well is heard only once this task waits: one that went on would never wait, nor let the thread do anything.
        while self.out.borrow().stream.is_some() {
            let waiting = self.is_waiting();
            select! {
                ready = stream.readable() => {
                    let gone = ready.is_err() || match stream.try_read(&mut nothing) {
                        Ok(0) => true,
                        // The other side has nothing to say here.
                        Ok(_) => false,
                        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
                    };
                    if gone {
                        break;
                    }
                }
                _ = stream.writable(), if waiting => self.flush(),
                () = self.stuck.notified(), if !waiting => {}
            }
        }
        // A frame may be written in part: nothing of it must reach the next connection.
        *self.out.borrow_mut() = Out::default();
    }
}

type Failed = (io::Error, Option<SocketAddr>);

/// Names are looked up anew each time, and one of their addresses is drawn: a name may stand for many nodes.
async fn connect(address: &Address, hello: &Hello, rng: &mut Rng) -> Result<(TcpStream, SocketAddr), Failed> {
    let place = match address.0.parse::<SocketAddr>() {
        Ok(place) => place,
        Err(_) => {
            // On a thread of its own, which goes on until the system has an answer.
            let found = within(LOOK_UP, lookup_host(&*address.0)).await.map_err(|error| (error, None))?;
            let found: Vec<SocketAddr> = found.collect();
            let nowhere = || (io::Error::new(io::ErrorKind::NotFound, "the name has no address"), None);
            *rng.pick(&found).ok_or_else(nowhere)?
        }
    };
    let attempt = async {
        let mut stream = TcpStream::connect(place).await?;
        stream.set_nodelay(true)?;
        hello::greet(&mut stream, hello).await?;
        Ok(stream)
    };
    match within(CONNECT, attempt).await {
        Ok(stream) => Ok((stream, place)),
        Err(error) => Err((error, Some(place))),
    }
}

async fn within<T>(patience: Duration, attempt: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let no_answer = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"));
    timeout(patience, attempt).await.unwrap_or_else(no_answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_node::Message;
    use atoll_paxos::message::Missing;
    use atoll_types::{ClusterId, Cookie, Generation, Incarnation, NodeId, Slot};
    use tokio::task::LocalSet;

    fn envelope() -> Envelope {
        Envelope {
            cluster: ClusterId(1),
            generation: Generation::default(),
            from: NodeId(1),
            incarnation: Incarnation::default(),
            to: NodeId(2),
            to_cookie: Cookie(2),
            message: Message::Paxos(atoll_paxos::Message::Missing(Missing { position: Slot(1) })),
        }
    }

    #[tokio::test]
    async fn a_name_that_nobody_answers_for_is_given_up() {
        let never = within(Duration::from_millis(1), std::future::pending::<io::Result<()>>());
        assert_eq!(never.await.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
    }

    /// The peer goes while something waits for it, before this thread hears that its connection can be read.
    async fn hold_a_connection_that_broke() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("its address")).await.expect("a connection");
        let (peer, _) = listener.accept().expect("the same connection");
        stream.writable().await.expect("it can be written to");
        stream.try_write(b"never read, so that the end is a reset").expect("room");
        drop(peer);
        let link = Link::new("there:1".into(), Rc::default());
        assert!(link.queue(&envelope()));
        link.hold(stream).await;
    }

    #[test]
    fn a_connection_that_broke_does_not_keep_its_thread() {
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(hold_a_connection_that_broke());
            let _ = done.send(());
        });
        assert!(is_done.recv_timeout(Duration::from_secs(20)).is_ok(), "the thread can do nothing else any more");
    }

    #[test]
    fn a_buffer_has_room_for_what_was_needed_lately_and_not_for_what_was_written() {
        let mut out = Out { bytes: vec![1; 8 * KEEP], sent: 5 * KEEP, ..Out::default() };
        out.make_room();
        assert_eq!((out.bytes.len(), out.sent), (3 * KEEP, 0), "what was written is gone, also where some is left");
        out.sent = 3 * KEEP;
        out.make_room();
        assert!(out.bytes.is_empty() && out.bytes.capacity() >= 7 * KEEP, "as much may be needed again");
        (0..100 * NEEDED_FOR).for_each(|_| out.make_room());
        assert!(out.bytes.capacity() < 2 * KEEP, "and is not for ever");
    }

    #[tokio::test]
    async fn strangers_that_name_many_addresses_take_bounded_memory() {
        let refused = Arc::new(Refused::default());
        let mut links = Links::new(Lane::Cluster, "here:1".into(), Arc::new(|_| {}), refused.clone(), 7);
        let send =
            |links: &mut Links, place: usize| links.send(&format!("127.0.0.1:x{place}").as_str().into(), &envelope());
        let test = async {
            (0..LINKS_MOST + 10).for_each(|place| send(&mut links, place));
            assert_eq!((links.links.len(), refused.so_far(Why::PeerFull)), (LINKS_MOST, 10));
            links.links.values().take(100).for_each(|link| link.running.set(false));
            send(&mut links, LINKS_MOST + 10);
            assert_eq!(links.links.len(), LINKS_MOST - 99, "those that have ended make room");
        };
        // Nobody connects: the test does not wait.
        LocalSet::new().run_until(test).await;
    }
}
