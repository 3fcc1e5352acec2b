//! One request, until it is answered or its time is over.
//!
//! ```text
//!            ┌───────────────── back-off ◀──────────────────┐
//!            ▼                                              │ not applied for now; not sent: certain as before
//!   pick ──▶ attempt ──▶ answer ──▶ done, refused           │ unknown; no answer: a write is uncertain from here on
//!                          └────────────────────────────────┘
//! ```
//!
//! A write keeps its series over all attempts, so that it counts once. "Not applied" speaks of one attempt only: once
//! uncertain, a write stays so until it is done.

use crate::client::{Client, Inner};
use crate::error::Error;
use crate::link::{Done, What, Wish};
use crate::session::{Session, Write};
use atoll_protocol::Reason;
use atoll_types::{HashSlot, Position};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

const BACK_OFF: Duration = Duration::from_millis(2);
const BACK_OFF_MOST: Duration = Duration::from_millis(200);
/// A node lets a read wait for a position for less than this.
const WAIT: Duration = Duration::from_secs(7);
/// A session whose window is full is followed by another no sooner than this.
const SESSION_PAUSE: Duration = Duration::from_millis(100);

/// What came of one attempt.
#[derive(Debug)]
enum Tried {
    Answered(What),
    /// Nobody has seen it.
    NotSent(String),
    NoAnswer(String),
}

/// The attempts of one call so far.
#[derive(Debug)]
struct Retry {
    within: Duration,
    until: Instant,
    back_off: Duration,
    /// Where the last attempt got no answer.
    avoid: Option<String>,
    last: String,
}

impl Retry {
    fn new(within: Duration) -> Retry {
        let until = Instant::now() + within;
        Retry { within, until, back_off: BACK_OFF, avoid: None, last: "nothing was answered".to_owned() }
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// False once there is no time left.
    async fn pause(&mut self, inner: &Inner) -> bool {
        let pause = inner.jittered(self.back_off);
        if pause >= self.left() {
            return false;
        }
        self.back_off = (self.back_off * 2).min(BACK_OFF_MOST);
        sleep(pause).await;
        true
    }

    fn too_late(self) -> Error {
        Error::Deadline { within: self.within, last: self.last }
    }
}

/// What a reason means for whoever wants the same again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Again,
    /// Never in this session.
    NewSession,
    /// Not now; somebody else has to do something first.
    Hopeless,
    /// Whenever it is asked, and whenever it was.
    Never,
}

fn verdict(reason: Reason) -> Verdict {
    match reason {
        Reason::Busy | Reason::Paused | Reason::NoTable | Reason::TooManyHops | Reason::TooStale => Verdict::Again,
        Reason::SessionExpired | Reason::BelowFloor | Reason::BeyondWindow | Reason::BadSession => Verdict::NewSession,
        Reason::Lost | Reason::OutOfMemory => Verdict::Hopeless,
        Reason::TooLarge | Reason::BadRequest => Verdict::Never,
    }
}

const NONSENSE: Error = Error::Protocol("an answer of another kind than was asked for");

impl Client {
    pub(crate) async fn write(&self, slot: HashSlot, command: &[u8]) -> Result<Done, Error> {
        let inner = &*self.inner;
        let mut retry = Retry::new(inner.settings.deadline);
        let Some(_place) = inner.place().await else {
            "too many calls of this client are under way".clone_into(&mut retry.last);
            return Err(retry.too_late());
        };
        let mut write = begin(inner, &mut retry).await?;
        let mut uncertain = false;
        loop {
            let (session, numbers) = (write.session().id, write.numbers());
            let wish = Wish::Write { slot, session, numbers, command };
            match attempt(inner, slot, &mut retry, &wish, inner.settings.attempt).await {
                Tried::Answered(What::Done(done)) => return Ok(done),
                Tried::Answered(What::Unknown) => {
                    uncertain = true;
                    "a node lost sight of it".clone_into(&mut retry.last);
                }
                Tried::NoAnswer(why) => {
                    uncertain = true;
                    retry.last = why;
                }
                Tried::NotSent(why) => retry.last = why,
                Tried::Answered(What::NotApplied { reason, text }) => match verdict(reason) {
                    Verdict::Again => retry.last = text,
                    Verdict::Never => return Err(Error::Refused { reason, text }),
                    // An attempt before this one may have been applied, and its number means nothing any more.
                    Verdict::NewSession | Verdict::Hopeless if uncertain => return Err(Error::Unknown { last: text }),
                    Verdict::Hopeless => return Err(Error::Refused { reason, text }),
                    Verdict::NewSession => {
                        renew(inner, write.session()).await;
                        write = begin(inner, &mut retry).await?;
                        retry.last = text;
                    }
                },
                Tried::Answered(What::Session(_) | What::Table(_)) => return Err(NONSENSE),
            }
            if !retry.pause(inner).await {
                return Err(if uncertain { Error::Unknown { last: retry.last } } else { retry.too_late() });
            }
        }
    }

    /// Linearizable.
    pub(crate) async fn read(&self, slot: HashSlot, query: &[u8]) -> Result<Done, Error> {
        let mut retry = Retry::new(self.inner.settings.deadline);
        let Some(_place) = self.inner.place().await else {
            "too many calls of this client are under way".clone_into(&mut retry.last);
            return Err(retry.too_late());
        };
        let read = self.ask(slot, retry, &Wish::Read { slot, query }, self.inner.settings.attempt).await?;
        read.ok_or(NONSENSE)
    }

    /// From any member, at or after this position. None: nobody has got so far yet. Takes no place among the calls:
    /// it may wait for long, and there is one for each tail or watch.
    pub(crate) async fn read_after(
        &self,
        slot: HashSlot,
        after: Option<Position>,
        query: &[u8],
    ) -> Result<Option<Done>, Error> {
        let retry = Retry::new(self.inner.settings.deadline + WAIT);
        self.ask(slot, retry, &Wish::Stale { slot, after, query }, WAIT).await
    }

    async fn ask(
        &self,
        slot: HashSlot,
        mut retry: Retry,
        wish: &Wish<'_>,
        patience: Duration,
    ) -> Result<Option<Done>, Error> {
        let inner = &*self.inner;
        loop {
            match attempt(inner, slot, &mut retry, wish, patience).await {
                Tried::Answered(What::Done(done)) => return Ok(Some(done)),
                Tried::Answered(What::NotApplied { reason: Reason::TooStale, .. }) => return Ok(None),
                Tried::Answered(What::NotApplied { reason, text }) => match verdict(reason) {
                    Verdict::Again => retry.last = text,
                    Verdict::NewSession | Verdict::Hopeless | Verdict::Never => {
                        return Err(Error::Refused { reason, text });
                    }
                },
                Tried::Answered(What::Unknown) => "a node lost sight of it".clone_into(&mut retry.last),
                Tried::NoAnswer(why) | Tried::NotSent(why) => retry.last = why,
                Tried::Answered(What::Session(_) | What::Table(_)) => return Err(NONSENSE),
            }
            if !retry.pause(inner).await {
                return Err(retry.too_late());
            }
        }
    }
}

/// Sends it where it should go and waits for the answer; notes where there was none.
async fn attempt(inner: &Inner, slot: HashSlot, retry: &mut Retry, wish: &Wish<'_>, patience: Duration) -> Tried {
    let address = inner.routes.pick(slot, retry.avoid.take().as_deref());
    let tried = send(inner, &address, wish, patience.min(retry.left())).await;
    if matches!(tried, Tried::NotSent(_) | Tried::NoAnswer(_)) {
        retry.avoid = Some(address);
        inner.routes.stale.notify_one();
    }
    tried
}

async fn send(inner: &Inner, address: &str, wish: &Wish<'_>, patience: Duration) -> Tried {
    let link = match inner.links.to(address).await {
        Ok(link) => link,
        Err(why) => return Tried::NotSent(why),
    };
    let mut pending = match link.send(wish) {
        Ok(pending) => pending,
        Err(why) => return Tried::NotSent(format!("{address}: {why}")),
    };
    match timeout(patience, pending.answer()).await {
        Ok(Some(reply)) => {
            if reply.hopped {
                inner.routes.stale.notify_one();
            }
            Tried::Answered(reply.what)
        }
        Ok(None) => Tried::NoAnswer(format!("the connection to {address} was lost")),
        Err(_) => {
            link.end_if_silent(patience);
            Tried::NoAnswer(format!("{address} did not answer within {patience:?}"))
        }
    }
}

/// A number for a write, as soon as there is one.
async fn begin(inner: &Inner, retry: &mut Retry) -> Result<Write, Error> {
    loop {
        let session = inner.session();
        let is_old = session.is_older_than(inner.session_age);
        if !is_old && let Some(write) = session.begin() {
            return Ok(write);
        }
        let renewed = (is_old || session.is_older_than(SESSION_PAUSE)) && renew(inner, &session).await;
        if renewed {
            continue;
        }
        if let Some(write) = session.begin() {
            return Ok(write);
        }
        let left = retry.left();
        if left.is_zero() || timeout(left.min(SESSION_PAUSE), session.moved()).await.is_err() && retry.left().is_zero()
        {
            "too many writes of this client are outstanding".clone_into(&mut retry.last);
            return Err(Error::Deadline { within: retry.within, last: std::mem::take(&mut retry.last) });
        }
    }
}

/// Opens the session after this one. False: somebody else does so, or nobody gave one.
async fn renew(inner: &Inner, old: &Arc<Session>) -> bool {
    let Ok(_opening) = inner.opening.try_lock() else { return false };
    if !Arc::ptr_eq(&inner.session(), old) {
        return true;
    }
    let address = inner.routes.any(None);
    match send(inner, &address, &Wish::NewSession, inner.settings.attempt).await {
        Tried::Answered(What::Session(opened)) => {
            inner.use_session(Session::new(opened));
            true
        }
        Tried::Answered(What::Done(_) | What::NotApplied { .. } | What::Unknown | What::Table(_)) => false,
        Tried::NotSent(_) | Tried::NoAnswer(_) => false,
    }
}
