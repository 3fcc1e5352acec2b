//! The sessions of one bucket: what makes a client's write count once, however often it arrives.
//!
//! ```text
//!                opened after the horizon
//!    unknown ─────────────────────────────▶ known ◀──┐ each use: last use and floor rise,
//!       │                                     │  └───┘ the first answer is kept until the floor passes it
//!       │ opened at or before it              │
//!       ▼                                     │ idle too long, or least recently used when room is needed:
//!    Expired ◀── forgotten ◀──────────────────┘ the horizon rises to its last use
//! ```
//!
//! The table is part of the bucket's replicated state: it changes only when an entry is applied, in log order, and by
//! log time alone, so it is the same on every member.
//!
//! Invariants (`Sessions::check`): opened ≤ last use; nothing is kept below a session's floor, nor a whole window above
//! it; the bounds hold. A session is forgotten only with its last use, and so its opening, at or below the horizon: it
//! can never be taken for a new one. The horizon never falls.
//!
//! Ties: forgetting a session for want of room raises the horizon to its last use, and others may have the same one.
//! They stay. Only unknown sessions are measured against the horizon; a known one goes when it has idled too long or
//! is itself the least recently used (ties by id), and then the horizon is where it must be.
//!
//! Not here: one session's numbers and answers (`session/window.rs`); applying the write, and where the log's time
//! comes from (the replica does both).

mod window;

pub use window::WINDOW_MOST;

use atoll_types::{Bug, Counter, HashSlot, Mark, Payload, SessionId, SessionUse, Time, planted};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use window::{Answer, Numbers, Session, hash, numbers};

/// How long a client may be silent and still try again. Longer than any sensible retry; short enough that the sessions
/// of clients that never come back do not pile up.
pub const IDLE: Duration = Duration::from_secs(600);

/// Sessions of one bucket. As many as one node can have connections from one address: every client may have written
/// to every bucket.
pub const SESSIONS_MOST: usize = 65_536;

/// Bytes of answers that one session may hold. Room for a whole window of ordinary answers; beyond it the session's
/// own oldest answers go, so that one client with long answers does not push out all others.
pub const SESSION_BYTES_MOST: usize = 256 << 10;

/// Bytes of answers that one bucket may hold. The table is copied in snapshots and at splits.
pub const STORED_BYTES_MOST: usize = 16 << 20;

/// About what a session costs that remembers nothing.
const SESSION_COST: usize = 256;

/// What becomes of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Never seen: it is applied, and its answer stored.
    New,
    /// It took effect before: there, and this was the answer.
    Duplicate { mark: Mark, answer: Payload },
    /// It is not applied, and nothing changes.
    Refused(Refusal),
}

/// Why a write is not applied. Speaks of this sending only: an earlier one may have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The session was forgotten, or is older than what was forgotten.
    Expired,
    /// The session claims to be opened so far in the future that it would never idle. Later it may be taken.
    OpenedAhead,
    /// The client said that it no longer waits for this series.
    BelowFloor,
    /// Too far above the floor.
    BeyondWindow { window: u64 },
    /// It took effect there; its answer was too long to be kept.
    AnswerGone { mark: Mark },
    /// A wrapping counter counts the writes of one hash slot, and this is another.
    OtherSlot,
    /// No such counter, or not a number of it.
    BadCounter,
}

/// The bounds are part of the state: members that run different versions must still forget the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Limits {
    idle: Duration,
    sessions: usize,
    session_bytes: usize,
    bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Table")]
pub struct Sessions {
    limits: Limits,
    /// Every session that was forgotten was opened, and last used, at or before this.
    horizon: Time,
    sessions: BTreeMap<SessionId, Session>,
    /// The same sessions, the least recently used first.
    #[serde(skip)]
    by_use: BTreeSet<(Time, SessionId)>,
    /// Sum of the sessions' `bytes`.
    #[serde(skip)]
    stored: usize,
    /// Sum of the sessions' digests. A sum does not depend on the order in which they came.
    #[serde(skip)]
    sum: u64,
}

/// `Sessions` as they are written: what follows from the rest is left out, so it cannot contradict it.
#[derive(Deserialize)]
struct Table {
    limits: Limits,
    horizon: Time,
    sessions: BTreeMap<SessionId, Session>,
}

impl Default for Sessions {
    fn default() -> Self {
        Sessions::new(IDLE)
    }
}

impl Sessions {
    /// An empty table that forgets sessions not used for `idle`.
    pub fn new(idle: Duration) -> Sessions {
        let (session_bytes, bytes) = (SESSION_BYTES_MOST, STORED_BYTES_MOST);
        Sessions::within(Limits { idle, sessions: SESSIONS_MOST, session_bytes, bytes }, Time::ZERO)
    }

    fn within(limits: Limits, horizon: Time) -> Sessions {
        let (sessions, by_use) = (BTreeMap::new(), BTreeSet::new());
        Sessions { limits, horizon, sessions, by_use, stored: 0, sum: 0 }
    }

    /// What `enter` would say at this log time. The primary asks when a request arrives, with the time that the entry
    /// would get; what is still on its way to being committed is not known here.
    pub fn look(&self, time: Time, slot: HashSlot, usage: &SessionUse) -> Verdict {
        match self.judge(time, slot, usage) {
            Ok((_, verdict)) => verdict,
            Err(refusal) => Verdict::Refused(refusal),
        }
    }

    /// At apply, with the entry's time. A write that is `New` is to be applied and then stored, before the next.
    pub fn enter(&mut self, time: Time, slot: HashSlot, usage: &SessionUse) -> Verdict {
        self.advance(time);
        let (numbers, verdict) = match self.judge(time, slot, usage) {
            Ok(found) => found,
            Err(refusal) => return Verdict::Refused(refusal),
        };
        let id = usage.session;
        let mut session = match self.take(&id) {
            Some(session) => session,
            None => {
                while self.sessions.len() >= self.limits.sessions.max(1) && self.forget_least_recently_used(None) {}
                Session::new(id.opened)
            }
        };
        session.used = session.used.max(time);
        session.highest = session.highest.max(numbers.series);
        session.raise_floor(numbers.floor);
        self.put(id, session);
        verdict
    }

    /// The answer to a write that was `New`.
    pub fn store(&mut self, usage: &SessionUse, mark: Mark, answer: &[u8]) {
        let id = usage.session;
        let Some(mut session) = self.take(&id) else { return };
        // The same numbers as in `enter`: its highest moved by less than a window, and the range has four.
        if let Ok(numbers) = numbers(usage, Some(&session)) {
            session.remember(numbers.series, Answer { mark, answer: answer.into() });
            session.shrink(self.limits.session_bytes);
        }
        self.put(id, session);
        while self.stored > self.limits.bytes && self.forget_least_recently_used(Some(id)) {}
    }

    /// The log's time is now `time`: forgets what has not been used for too long.
    #[inline]
    pub fn advance(&mut self, time: Time) {
        let idle_since = time - self.limits.idle;
        self.horizon = self.horizon.max(idle_since);
        if !self.by_use.is_empty() {
            self.forget_idle(idle_since);
        }
    }

    fn forget_idle(&mut self, idle_since: Time) {
        while let Some(&(used, id)) = self.by_use.first()
            && used <= idle_since
        {
            self.take(&id);
        }
    }

    /// The table of one half of a split bucket. All sessions go to both halves, for their next write may be in either;
    /// but a wrapping one belongs to one hash slot, and only the half that has it can ever hear from it.
    pub fn split(&self, keep: impl Fn(HashSlot) -> bool) -> Sessions {
        let mut half = Sessions::within(self.limits.clone(), self.horizon);
        for (id, session) in &self.sessions {
            let stays = match id.counter {
                Counter::Full => true,
                Counter::Wrapping { bits: _, slot } => keep(slot),
            };
            if stays {
                half.put(*id, session.clone());
            }
        }
        half
    }

    /// The table in parts, each with about so many bytes of answers.
    pub(crate) fn pieces(&self, most: usize) -> Vec<Sessions> {
        let empty = || Sessions::within(self.limits.clone(), self.horizon);
        let mut pieces = vec![empty()];
        for (id, session) in &self.sessions {
            if let Some(last) = pieces.last_mut().filter(|last| last.is_empty() || last.bytes() < most) {
                last.put(*id, session.clone());
            } else {
                let mut next = empty();
                next.put(*id, session.clone());
                pieces.push(next);
            }
        }
        pieces
    }

    /// Takes in what another table knows, of a bucket whose keys come here. A session that both know is one: what
    /// either has seen of it was seen, and the client waits for nothing below the higher floor.
    pub(crate) fn absorb(&mut self, other: Sessions, keep: impl Fn(HashSlot) -> bool) {
        self.horizon = self.horizon.max(other.horizon);
        for (id, theirs) in other.sessions {
            if matches!(id.counter, Counter::Wrapping { bits: _, slot } if !keep(slot)) {
                continue;
            }
            let mut session = self.take(&id).unwrap_or_else(|| Session::new(id.opened));
            session.merge(theirs);
            session.shrink(self.limits.session_bytes);
            while self.sessions.len() >= self.limits.sessions.max(1) && self.forget_least_recently_used(None) {}
            self.put(id, session);
            while self.stored > self.limits.bytes && self.forget_least_recently_used(Some(id)) {}
        }
    }

    /// Equal for equal tables.
    pub fn digest(&self) -> u64 {
        let limits = &self.limits;
        let idle = limits.idle.as_micros() as u64;
        let bounds = [limits.sessions as u64, limits.session_bytes as u64, limits.bytes as u64];
        hash(hash(self.sum, &bounds), &[idle, self.horizon.0, self.sessions.len() as u64])
    }

    /// About how much memory the table holds.
    pub fn bytes(&self) -> usize {
        self.stored + self.sessions.len() * SESSION_COST
    }

    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    pub fn horizon(&self) -> Time {
        self.horizon
    }

    /// Asserts what stands at the top and on the fields.
    pub fn check(&self) {
        assert_eq!(self.by_use.len(), self.sessions.len(), "the index has every session once");
        assert!(self.sessions.len() <= self.limits.sessions.max(1), "no more sessions than the bound");
        assert!(self.stored <= self.limits.bytes || self.sessions.len() == 1, "no more bytes than the bound");
        let mut again = Sessions::within(self.limits.clone(), self.horizon);
        for (id, session) in &self.sessions {
            assert!(self.by_use.contains(&(session.used, *id)), "the index knows when {id} was used");
            assert!(session.is_sound(id), "{id} keeps its invariants: {session:?}");
            let mut session = session.clone();
            session.recount();
            again.put(*id, session);
        }
        assert_eq!((again.stored, again.sum), (self.stored, self.sum), "totals are the sums of their parts");
    }

    /// The numbers of a write that may go on, and whether it is new.
    fn judge(&self, time: Time, slot: HashSlot, usage: &SessionUse) -> Result<(Numbers, Verdict), Refusal> {
        let id = &usage.session;
        let idle_since = time - self.limits.idle;
        let known = self.sessions.get(id).filter(|session| session.used > idle_since);
        if let Counter::Wrapping { bits: _, slot: own } = id.counter
            && own != slot
        {
            return Err(Refusal::OtherSlot);
        }
        let numbers = numbers(usage, known)?;
        if known.is_none() {
            // It may have been here and be forgotten, and then this write may have been applied.
            if id.opened <= self.horizon.max(idle_since) && !planted(Bug::SessionForgottenEarly) {
                return Err(Refusal::Expired);
            }
            // To forget it would take the horizon along, and expire every honest session for as long.
            if id.opened > time + self.limits.idle {
                return Err(Refusal::OpenedAhead);
            }
        }
        let floor = known.map_or(numbers.floor, |session| session.floor.max(numbers.floor));
        if numbers.series < floor {
            return Err(Refusal::BelowFloor);
        }
        if numbers.series - floor >= numbers.window {
            return Err(Refusal::BeyondWindow { window: numbers.window });
        }
        let verdict = match known {
            Some(session) => session.recall(numbers.series)?,
            None => Verdict::New,
        };
        Ok((numbers, verdict))
    }

    /// Forgets one session other than `spare`, if there is any.
    fn forget_least_recently_used(&mut self, spare: Option<SessionId>) -> bool {
        let Some(&(used, id)) = self.by_use.iter().find(|(_, id)| Some(*id) != spare) else { return false };
        // Without this it would be taken for new when it comes back, and its writes applied again.
        self.horizon = self.horizon.max(used);
        self.take(&id).is_some()
    }

    fn take(&mut self, id: &SessionId) -> Option<Session> {
        let session = self.sessions.remove(id)?;
        self.by_use.remove(&(session.used, *id));
        self.stored -= session.bytes;
        self.sum = self.sum.wrapping_sub(session.digest(id));
        Some(session)
    }

    fn put(&mut self, id: SessionId, session: Session) {
        self.by_use.insert((session.used, id));
        self.stored += session.bytes;
        self.sum = self.sum.wrapping_add(session.digest(&id));
        self.sessions.insert(id, session);
    }
}

impl TryFrom<Table> for Sessions {
    type Error = &'static str;

    fn try_from(table: Table) -> Result<Sessions, &'static str> {
        let mut sessions = Sessions::within(table.limits, table.horizon);
        for (id, mut session) in table.sessions {
            if !session.is_sound(&id) {
                return Err("a session contradicts itself");
            }
            session.recount();
            sessions.put(id, session);
        }
        Ok(sessions)
    }
}

#[cfg(test)]
mod tests;
