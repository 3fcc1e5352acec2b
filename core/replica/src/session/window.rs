//! One session: the window of series that its client may still ask about, and what it was answered.
//!
//! ```text
//!    refused below ◀── floor ─────────── highest ──────── floor + window ──▶ refused beyond
//!                        │  kept or gone, or not seen yet  │
//! ```
//!
//! Invariants (`Session::is_sound`): every series that took effect and is not below the floor is in `kept` or in
//! `gone`, and not in both; floor ≤ series < floor + window; series ≤ highest; opened ≤ last use.
//!
//! Not here: which sessions there are, and which of them are forgotten (`session.rs`).

use super::{Refusal, Verdict};
use atoll_types::{Bug, Counter, Generation, Mark, Payload, SessionId, SessionUse, Time, planted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Writes of one session that may be outstanding: floor ≤ series < floor + this. Bounds what one client makes us keep;
/// far more than a pipelining client has under way.
pub const WINDOW_MOST: u64 = 1024;

/// About what remembering one series costs, besides its answer.
pub(super) const SERIES_COST: usize = 96;

/// A write's numbers, unwrapped, and the window they have to be in.
pub(super) struct Numbers {
    pub(super) series: u64,
    pub(super) floor: u64,
    pub(super) window: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Session {
    /// The later of its opening and the log time of its last use.
    pub(super) used: Time,
    /// Nothing is kept below, and such writes are refused. Never falls.
    pub(super) floor: u64,
    /// The highest series that took effect: what the low bits of a wrapping counter are unwrapped against.
    pub(super) highest: u64,
    pub(super) kept: BTreeMap<u64, Answer>,
    /// These took effect too; their answers were not kept.
    pub(super) gone: BTreeMap<u64, Mark>,
    /// Of `kept` and `gone`: what they cost, and the sum of their hashes.
    #[serde(skip)]
    pub(super) bytes: usize,
    #[serde(skip)]
    pub(super) sum: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) mark: Mark,
    pub(super) answer: Payload,
}

impl Session {
    pub(super) fn new(used: Time) -> Session {
        let (kept, gone) = (BTreeMap::new(), BTreeMap::new());
        Session { used, floor: 0, highest: 0, kept, gone, bytes: 0, sum: 0 }
    }

    pub(super) fn recall(&self, series: u64) -> Result<Verdict, Refusal> {
        if let Some(Answer { mark, answer }) = self.kept.get(&series) {
            return Ok(Verdict::Duplicate { mark: *mark, answer: answer.clone() });
        }
        match self.gone.get(&series) {
            Some(&mark) if !planted(Bug::DuplicateAnswerLost) => Err(Refusal::AnswerGone { mark }),
            Some(_) | None => Ok(Verdict::New),
        }
    }

    /// The first answer stays.
    pub(super) fn remember(&mut self, series: u64, answer: Answer) {
        if !self.kept.contains_key(&series) && !self.gone.contains_key(&series) {
            self.bytes += SERIES_COST + answer.answer.len();
            self.sum = self.sum.wrapping_add(answer.digest(series));
            self.kept.insert(series, answer);
        }
    }

    pub(super) fn raise_floor(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
        while let Some(first) = self.kept.first_entry()
            && *first.key() < self.floor
        {
            let (series, answer) = first.remove_entry();
            self.bytes -= SERIES_COST + answer.answer.len();
            self.sum = self.sum.wrapping_sub(answer.digest(series));
        }
        while let Some(first) = self.gone.first_entry()
            && *first.key() < self.floor
        {
            let (series, mark) = first.remove_entry();
            self.bytes -= SERIES_COST;
            self.sum = self.sum.wrapping_sub(mark_digest(series, mark));
        }
    }

    /// Knows what the other knew as well.
    pub(super) fn merge(&mut self, other: Session) {
        self.used = self.used.max(other.used);
        self.highest = self.highest.max(other.highest);
        for (series, answer) in other.kept {
            self.remember(series, answer);
        }
        for (series, mark) in other.gone {
            if !self.kept.contains_key(&series) && !self.gone.contains_key(&series) {
                self.bytes += SERIES_COST;
                self.sum = self.sum.wrapping_add(mark_digest(series, mark));
                self.gone.insert(series, mark);
            }
        }
        self.raise_floor(self.floor.max(other.floor));
    }

    /// Lets go of the oldest answers until the rest fits, but not of the fact that they were given.
    pub(super) fn shrink(&mut self, most: usize) {
        while self.bytes > most
            && let Some((series, answer)) = self.kept.pop_first()
        {
            self.bytes -= answer.answer.len();
            self.sum = self.sum.wrapping_sub(answer.digest(series)).wrapping_add(mark_digest(series, answer.mark));
            self.gone.insert(series, answer.mark);
        }
    }

    pub(super) fn recount(&mut self) {
        let kept = self.kept.values().map(|answer| SERIES_COST + answer.answer.len());
        self.bytes = kept.sum::<usize>() + self.gone.len() * SERIES_COST;
        let kept = self.kept.iter().map(|(&series, answer)| answer.digest(series));
        let gone = self.gone.iter().map(|(&series, &mark)| mark_digest(series, mark));
        self.sum = kept.chain(gone).fold(0, u64::wrapping_add);
    }

    pub(super) fn is_sound(&self, id: &SessionId) -> bool {
        let within =
            |&series: &u64| self.floor <= series && series - self.floor < WINDOW_MOST && series <= self.highest;
        let apart = self.gone.keys().all(|series| !self.kept.contains_key(series));
        id.opened <= self.used && apart && self.kept.keys().chain(self.gone.keys()).all(within)
    }

    pub(super) fn digest(&self, id: &SessionId) -> u64 {
        let counter = match id.counter {
            Counter::Full => 0,
            Counter::Wrapping { bits, slot } => 1 << 32 | u64::from(bits) << 16 | u64::from(slot.0),
        };
        let words = [id.opened.0, id.token, counter, self.used.0, self.floor, self.highest];
        hash(self.sum, &words)
    }
}

impl Answer {
    fn digest(&self, series: u64) -> u64 {
        xxh3_64_with_seed(self.answer.as_slice(), hash(1, &[mark_digest(series, self.mark)]))
    }
}

fn mark_digest(series: u64, mark: Mark) -> u64 {
    let Mark { epoch, offset } = mark;
    let Generation { number, by } = epoch.generation;
    hash(2, &[series, number.into(), by.0.into(), epoch.revival.into(), epoch.slot.0, offset.0])
}

pub(super) fn hash(seed: u64, words: &[u64]) -> u64 {
    words.iter().fold(seed, |hash, word| xxh3_64_with_seed(&word.to_le_bytes(), hash))
}

/// The numbers of a write. Those of a wrapping counter are low bits. Of all series with these bits it means the only
/// one from three quarters of the range below the highest seen up to one quarter, which is the most the window may be,
/// above it: so a message that is late by less than three quarters of the range is never taken for a new one.
pub(super) fn numbers(usage: &SessionUse, known: Option<&Session>) -> Result<Numbers, Refusal> {
    let (series, floor) = (usage.series.0, usage.floor.0);
    let Counter::Wrapping { bits, slot: _ } = usage.session.counter else {
        return Ok(Numbers { series, floor, window: WINDOW_MOST });
    };
    if !(8..=63).contains(&bits) || (series | floor) >> bits != 0 {
        return Err(Refusal::BadCounter);
    }
    let range = 1u64 << bits;
    let window = WINDOW_MOST.min(range / 4);
    let series = match known {
        // Any number may be the first to arrive; one sent before it needs numbers below.
        None if series < window => series + range,
        None => series,
        Some(session) => {
            let top = session.highest.saturating_add(window);
            top.checked_sub(top.wrapping_sub(series) & (range - 1)).ok_or(Refusal::BelowFloor)?
        }
    };
    let below = usage.series.0.wrapping_sub(floor) & (range - 1);
    Ok(Numbers { series, floor: series.saturating_sub(below), window })
}
