//! Numbers of writes, by which each counts once. A write keeps its number over all attempts.
//!
//! ```text
//!   Session: next ──▶ series of the next write       floor ──▶ the lowest that somebody still waits for
//!            0 … floor ─────── outstanding ─────── next … floor + window: whoever is first beyond it waits
//! ```
//!
//! A bucket forgets sessions that were not used for long, and cannot tell a forgotten one from one it never saw. So
//! a session is used for a part of that time only, then the next is opened. The next is also opened when the window is
//! full because an old write hangs: writes to other buckets need not wait for it.
//!
//! Invariants: floor ≤ every outstanding series < next ≤ floor + window.

use atoll_protocol::{Numbers, Opened};
use atoll_types::{Series, SessionId};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// When it came into use, by our own clock.
    since: Instant,
    window: u64,
    numbers: Mutex<Row>,
    /// The floor rose.
    moved: Notify,
}

#[derive(Debug, Default)]
struct Row {
    next: u64,
    outstanding: BTreeSet<u64>,
}

impl Row {
    fn floor(&self) -> u64 {
        self.outstanding.first().copied().unwrap_or(self.next)
    }
}

impl Session {
    pub(crate) fn new(opened: Opened) -> Arc<Session> {
        Arc::new(Session {
            id: opened.session,
            since: Instant::now(),
            window: u64::from(opened.window.max(1)),
            numbers: Mutex::default(),
            moved: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Row> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_older_than(&self, age: Duration) -> bool {
        self.since.elapsed() > age
    }

    /// A number for a write. None: the window is full.
    pub(crate) fn begin(self: &Arc<Session>) -> Option<Write> {
        let mut row = self.lock();
        let series = row.next;
        if series - row.floor() >= self.window {
            return None;
        }
        row.next += 1;
        row.outstanding.insert(series);
        drop(row);
        Some(Write { session: self.clone(), series, attempt: 0 })
    }

    /// Returns once the window may have room again.
    pub(crate) async fn moved(&self) {
        let moved = self.moved.notified();
        let full = {
            let row = self.lock();
            row.next - row.floor() >= self.window
        };
        if full {
            moved.await;
        }
    }
}

/// A write that has its number. When this is dropped nobody waits for it any more.
#[derive(Debug)]
pub(crate) struct Write {
    session: Arc<Session>,
    series: u64,
    attempt: u32,
}

impl Write {
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// What the next attempt carries. The floor may have risen since the last one; never above this series.
    pub(crate) fn numbers(&mut self) -> Numbers {
        let floor = self.session.lock().floor();
        let numbers = Numbers { series: Series(self.series), floor: Series(floor), attempt: self.attempt };
        self.attempt = self.attempt.saturating_add(1);
        numbers
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        let mut row = self.session.lock();
        let was = row.floor();
        row.outstanding.remove(&self.series);
        let rose = row.floor() > was;
        drop(row);
        if rose {
            self.session.moved.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(window: u16) -> Arc<Session> {
        let session = SessionId { opened: atoll_types::Time(1), token: 2, counter: atoll_types::Counter::Full };
        Session::new(Opened { session, window })
    }

    #[test]
    fn the_floor_is_the_lowest_that_somebody_waits_for() {
        let session = session(1024);
        let mut writes: Vec<Write> = (0..4).map(|_| session.begin().expect("room")).collect();
        assert_eq!(writes[3].numbers().floor, Series(0));
        drop(writes.remove(1));
        assert_eq!(writes[2].numbers().floor, Series(0));
        drop(writes.remove(0));
        assert_eq!(writes[1].numbers(), Numbers { series: Series(3), floor: Series(2), attempt: 2 });
        writes.clear();
        let mut last = session.begin().expect("room");
        assert_eq!(last.numbers(), Numbers { series: Series(4), floor: Series(4), attempt: 0 });
    }

    #[test]
    fn no_number_is_given_a_whole_window_above_the_floor() {
        let session = session(4);
        let first = session.begin().expect("room");
        let rest: Vec<Write> = (0..3).map(|_| session.begin().expect("room")).collect();
        assert!(session.begin().is_none());
        drop(rest);
        assert!(session.begin().is_none(), "the first still holds the floor");
        drop(first);
        assert!(session.begin().is_some());
    }
}
