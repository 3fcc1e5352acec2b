//! One connection: requests of many callers go out together, answers find back by their numbers.
//!
//! ```text
//!   callers ──encode──▶ out ──writer task──▶ socket ──reader task──▶ pending ──▶ callers
//! ```
//!
//! A link that is lost answers everything that is pending with nothing, once, and is never used again.
//!
//! Not here: which link to use (`links.rs`), what to do when it fails (`call.rs`).

use atoll_protocol::frame::{self, HEADER, Next};
use atoll_protocol::{
    ANSWER_MOST, Answer, Ask, Hello, Limits, Numbers, Opened, Outcome, Reason, Request, Step, Table, Unreadable,
    Wanted, Welcome,
};
use atoll_types::{HashSlot, Position, SessionId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tracing::debug;

/// Bytes of requests that wait to be written. Callers who come on top are told to try elsewhere, or later.
const OUT_MOST: usize = 16 << 20;
/// Room for what arrives at once, and that an empty buffer keeps.
const CHUNK: usize = 64 << 10;

/// An answer, in memory of its own.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) hopped: bool,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    Done(Done),
    NotApplied { reason: Reason, text: String },
    Unknown,
    Session(Opened),
    Table(Table),
}

#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) position: Position,
    pub(crate) duplicate: bool,
    pub(crate) payload: Vec<u8>,
}

/// What is asked for, of one who can say it again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish<'a> {
    Write { slot: HashSlot, session: SessionId, numbers: Numbers, command: &'a [u8] },
    Read { slot: HashSlot, query: &'a [u8] },
    Stale { slot: HashSlot, after: Option<Position>, query: &'a [u8] },
    NewSession,
    Table,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) opened: Opened,
    pub(crate) limits: Limits,
    shared: Arc<Shared>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is something to write.
    filled: Notify,
}

#[derive(Debug)]
struct State {
    /// Why it ended.
    ended: Option<String>,
    out: Vec<u8>,
    /// The session that the node takes the next write to be of.
    session: Option<SessionId>,
    pending: HashMap<u64, oneshot::Sender<Reply>>,
    /// Number of the last request. 0 is for what nobody waits for.
    last: u64,
    heard: Instant,
}

impl Default for State {
    fn default() -> Self {
        State { ended: None, out: Vec::new(), session: None, pending: HashMap::new(), last: 0, heard: Instant::now() }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, why: String) {
        let mut state = self.lock();
        state.ended.get_or_insert(why);
        state.pending.clear();
        state.out = Vec::new();
        drop(state);
        self.filled.notify_one();
    }
}

/// Waits for one answer. When this is dropped the answer is, too.
#[derive(Debug)]
pub(crate) struct Pending {
    shared: Arc<Shared>,
    number: u64,
    answer: oneshot::Receiver<Reply>,
}

impl Pending {
    /// None: the connection was lost.
    pub(crate) async fn answer(&mut self) -> Option<Reply> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.shared.lock().pending.remove(&self.number);
    }
}

impl Link {
    /// Says hello, and waits to be welcomed.
    pub(crate) async fn connect(address: &str) -> Result<Link, String> {
        let said = |error: std::io::Error| format!("{address}: {error}");
        let mut stream = TcpStream::connect(address).await.map_err(said)?;
        stream.set_nodelay(true).map_err(said)?;
        let mut bytes = Vec::new();
        Hello { wanted: Wanted::default(), credential: &[] }.encode(&mut bytes);
        stream.write_all(&bytes).await.map_err(said)?;
        let mut input = Vec::new();
        let welcome = loop {
            match Welcome::decode(&input) {
                Ok(Step::Done(welcome, length)) => {
                    input.drain(..length);
                    break welcome;
                }
                Ok(Step::Needs(_)) => {
                    if stream.read_buf(&mut input).await.map_err(said)? == 0 {
                        return Err(format!("{address} hung up on a hello of the native protocol"));
                    }
                }
                Err(Unreadable::Magic) => {
                    let text = String::from_utf8_lossy(&input[..input.len().min(200)]).trim().to_owned();
                    return Err(format!("{address} does not speak the native protocol; it said {text:?}"));
                }
                Err(Unreadable::Version(version)) => {
                    return Err(format!("{address} speaks version {version}, this client {}", atoll_protocol::VERSION));
                }
                Err(Unreadable::Malformed) => return Err(format!("{address}: a welcome that makes no sense")),
            }
        };
        match welcome {
            Welcome::Refused { reason } => Err(format!("{address}: {reason}")),
            Welcome::Welcome { opened, limits, name, .. } => {
                debug!(address, name, "connected");
                Ok(Link::start(stream, input, opened, limits))
            }
        }
    }

    fn start(stream: TcpStream, input: Vec<u8>, opened: Opened, limits: Limits) -> Link {
        let shared = Arc::new(Shared::default());
        shared.lock().session = Some(opened.session);
        let (read, write) = stream.into_split();
        let tasks = [tokio::spawn(reader(shared.clone(), read, input)), tokio::spawn(writer(shared.clone(), write))];
        Link { opened, limits, shared, tasks }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.shared.lock().ended.is_none()
    }

    /// Nothing came for so long: whoever still waits may as well ask elsewhere.
    pub(crate) fn end_if_silent(&self, patience: Duration) {
        let silent = self.shared.lock().heard.elapsed() >= patience;
        if silent {
            self.shared.end("it was silent for too long".to_owned());
        }
    }

    /// Puts it with what goes out. `Err`: it was not sent, and will not be.
    pub(crate) fn send(&self, wish: &Wish<'_>) -> Result<Pending, String> {
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        if let Some(why) = &state.ended {
            return Err(why.clone());
        }
        if state.out.len() >= OUT_MOST {
            return Err("too much waits to be sent on this connection".to_owned());
        }
        state.last += 1;
        let number = state.last;
        let ask = match *wish {
            Wish::Write { slot, session, numbers, command } => {
                if state.session != Some(session) {
                    // What follows is of another session than what came before.
                    Request { number: 0, ask: Ask::Session(Wanted::again(session)) }.encode(&mut state.out);
                    state.session = Some(session);
                }
                Ask::Write { slot: Some(slot), numbers: Some(numbers), command }
            }
            Wish::Read { slot, query } => Ask::Read { slot: Some(slot), query },
            Wish::Stale { slot, after, query } => Ask::Stale { slot: Some(slot), after, query },
            Wish::NewSession => {
                state.session = None;
                Ask::Session(Wanted::default())
            }
            Wish::Table => Ask::Table,
        };
        Request { number, ask }.encode(&mut state.out);
        let (sender, answer) = oneshot::channel();
        state.pending.insert(number, sender);
        drop(guard);
        self.shared.filled.notify_one();
        Ok(Pending { shared: self.shared.clone(), number, answer })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.shared.end("nobody uses it any more".to_owned());
    }
}

async fn writer(shared: Arc<Shared>, mut stream: OwnedWriteHalf) {
    let mut bytes = Vec::new();
    loop {
        {
            let mut state = shared.lock();
            if state.ended.is_some() {
                return;
            }
            std::mem::swap(&mut state.out, &mut bytes);
        }
        if bytes.is_empty() {
            shared.filled.notified().await;
            continue;
        }
        if let Err(error) = stream.write_all(&bytes).await {
            return shared.end(error.to_string());
        }
        bytes.clear();
        bytes.shrink_to(CHUNK);
    }
}

async fn reader(shared: Arc<Shared>, mut stream: OwnedReadHalf, mut input: Vec<u8>) {
    loop {
        let needed = match deliver(&shared, &mut input) {
            Ok(needed) => needed,
            Err(why) => return shared.end(why),
        };
        // Room for the rest of what has begun to come; a length alone makes room for a few chunks at most.
        input.reserve(needed.saturating_sub(input.len()).clamp(CHUNK / 4, CHUNK * 16));
        match stream.read_buf(&mut input).await {
            Ok(0) => return shared.end("the node hung up".to_owned()),
            Ok(_) => {}
            Err(error) => return shared.end(error.to_string()),
        }
    }
}

/// Gives every whole answer to whoever waits for it. Returns how many bytes the next one needs.
fn deliver(shared: &Shared, input: &mut Vec<u8>) -> Result<usize, String> {
    let mut at = 0;
    let needed = loop {
        match frame::next(&input[at..], ANSWER_MOST) {
            Next::Whole(body) => {
                let answer = Answer::decode(body).ok_or("the node sent a frame that is no answer")?;
                at += HEADER + body.len();
                settle(shared, answer)?;
            }
            Next::Needs(needed) => break needed,
            Next::TooLong(length) => return Err(format!("the node sent a frame of {length} bytes")),
        }
    };
    if at > 0 {
        shared.lock().heard = Instant::now();
        input.drain(..at);
    }
    Ok(needed)
}

fn settle(shared: &Shared, answer: Answer<'_>) -> Result<(), String> {
    let what = match answer.outcome {
        Outcome::Done { duplicate, position, payload } => {
            What::Done(Done { position, duplicate, payload: payload.to_vec() })
        }
        Outcome::NotApplied { reason, text } => What::NotApplied { reason, text: text.to_owned() },
        Outcome::Unknown => What::Unknown,
        Outcome::Session(opened) => What::Session(opened),
        Outcome::Table(table) => What::Table(table),
        Outcome::Pong { .. } => return Ok(()),
        Outcome::Goodbye { text } => return Err(text.to_owned()),
    };
    let caller = shared.lock().pending.remove(&answer.number);
    if let Some(caller) = caller {
        // One who is gone misses nothing.
        let _ = caller.send(Reply { hopped: answer.hopped, what });
    }
    Ok(())
}
