//! One stream.
//!
//! ```text
//!    first                        next
//!      │ message │ hole │ message │
//!  ────┴─────────┴──────┴─────────┴──▶ offsets
//! ```
//!
//! Invariants: the oldest is no hole; `first` to `next` stand in the list, one place each; none of the limits of the
//! retention is passed after `keep`.

use crate::command::{Retention, StreamOffset, Trim};
use atoll_types::Time;
use std::collections::VecDeque;
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// What a stream takes up beside its messages, and a message beside its place in the list and its payload.
const OVERHEAD: usize = 256;
const MESSAGE_OVERHEAD: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Says nothing once the payload is gone.
    pub(crate) time: Time,
    /// None if it was deleted, while an older one is kept.
    pub(crate) payload: Option<Box<[u8]>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) name: Arc<[u8]>,
    name_hash: u64,
    messages: VecDeque<Kept>,
    next: StreamOffset,
    retention: Retention,
    /// Messages that are no holes, and their bytes.
    length: u64,
    bytes: u64,
    /// The sum of the hashes of all messages.
    sum: u64,
}

fn hash(offset: StreamOffset, time: Time, payload: &[u8]) -> u64 {
    xxh3_64_with_seed(payload, offset.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ time.0)
}

impl Stream {
    pub(crate) fn new(name: &[u8], next: StreamOffset) -> Stream {
        Stream {
            name: name.into(),
            name_hash: xxh3_64(name),
            messages: VecDeque::new(),
            next,
            retention: Retention::default(),
            length: 0,
            bytes: 0,
            sum: 0,
        }
    }

    pub(crate) fn first(&self) -> StreamOffset {
        StreamOffset(self.next.0.saturating_sub(self.messages.len() as u64))
    }

    pub(crate) fn next(&self) -> StreamOffset {
        self.next
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn retention(&self) -> Retention {
        self.retention
    }

    /// All places from `first` to `next`, holes with them.
    pub(crate) fn places(&self) -> &VecDeque<Kept> {
        &self.messages
    }

    /// About what it takes up in memory.
    pub(crate) fn memory(&self) -> usize {
        let messages = self.messages.capacity() * size_of::<Kept>() + self.length as usize * MESSAGE_OVERHEAD;
        OVERHEAD + self.name.len() + messages + self.bytes as usize
    }

    /// Equal for equal streams.
    pub(crate) fn digest(&self) -> u64 {
        let Retention { most_count, most_bytes, most_age } = self.retention;
        let age = most_age.map(|age| u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
        let limits = [most_count, most_bytes, age];
        let flags = limits.iter().fold(0, |flags, limit| flags << 1 | u64::from(limit.is_some()));
        let [count, bytes, age] = limits.map(Option::unwrap_or_default);
        let numbers = [self.next.0, self.sum, self.length, flags, count, bytes, age];
        let mut image = [0; 56];
        image.chunks_exact_mut(8).zip(numbers).for_each(|(place, number)| place.copy_from_slice(&number.to_le_bytes()));
        xxh3_64_with_seed(&image, self.name_hash)
    }

    pub(crate) fn append(&mut self, time: Time, payload: &[u8]) -> StreamOffset {
        let offset = self.next;
        self.push(Kept { time, payload: Some(payload.into()) });
        offset
    }

    /// Puts this at the next place.
    pub(crate) fn push(&mut self, kept: Kept) {
        if let Some(payload) = &kept.payload {
            self.sum = self.sum.wrapping_add(hash(self.next, kept.time, payload));
            self.length += 1;
            self.bytes += payload.len() as u64;
        }
        self.messages.push_back(kept);
        self.next = self.next.next();
    }

    pub(crate) fn configure(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// Forgets the oldest while `drop` says so of it. Gives how many messages that were.
    fn drop_while(&mut self, drop: impl Fn(&Stream, &Kept) -> bool) -> u64 {
        let before = self.length;
        while let Some(oldest) = self.messages.front() {
            if oldest.payload.is_some() && !drop(self, oldest) {
                break;
            }
            let first = self.first();
            let kept = self.messages.pop_front();
            self.forget(first, kept);
        }
        // A list that was once long gives its room back.
        if self.messages.capacity() > 64 && self.messages.len() < self.messages.capacity() / 4 {
            self.messages.shrink_to(self.messages.len() * 2);
        }
        before - self.length
    }

    fn forget(&mut self, offset: StreamOffset, kept: Option<Kept>) {
        if let Some(Kept { time, payload: Some(payload) }) = kept {
            self.sum = self.sum.wrapping_sub(hash(offset, time, &payload));
            self.length -= 1;
            self.bytes -= payload.len() as u64;
        }
    }

    /// Forgets what its retention does not keep.
    pub(crate) fn keep(&mut self, now: Time) {
        let Retention { most_count, most_bytes, .. } = self.retention;
        self.drop_while(|stream, oldest| {
            most_count.is_some_and(|most| stream.length > most)
                || most_bytes.is_some_and(|most| stream.bytes > most)
                || stream.due_of(oldest).is_some_and(|due| due <= now)
        });
    }

    /// When a message is too old.
    fn due_of(&self, kept: &Kept) -> Option<Time> {
        self.retention.most_age.map(|age| kept.time + age).filter(|&due| due < Time::NEVER)
    }

    /// When the oldest is too old.
    pub(crate) fn due(&self) -> Option<Time> {
        self.messages.front().and_then(|oldest| self.due_of(oldest))
    }

    /// How many places from the oldest on are too old by `now`, and the holes after those.
    pub(crate) fn too_old(&self, now: Time) -> usize {
        if self.due().is_none_or(|due| due > now) {
            return 0;
        }
        let is_gone = |kept: &&Kept| kept.payload.is_none() || self.due_of(kept).is_some_and(|due| due <= now);
        self.messages.iter().take_while(is_gone).count()
    }

    pub(crate) fn trim(&mut self, by: Trim) -> u64 {
        match by {
            Trim::Count(most) => self.drop_while(|stream, _| stream.length > most),
            Trim::Bytes(most) => self.drop_while(|stream, _| stream.bytes > most),
            Trim::Before(offset) => self.drop_while(|stream, _| stream.first() < offset),
            Trim::OlderThan(time) => self.drop_while(|_, oldest| oldest.time < time),
        }
    }

    /// Makes holes. Gives how many messages were there.
    pub(crate) fn delete(&mut self, offsets: &[StreamOffset]) -> u64 {
        let (before, first) = (self.length, self.first());
        for &offset in offsets {
            let place = offset.0.checked_sub(first.0).and_then(|place| usize::try_from(place).ok());
            let Some(kept) = place.and_then(|place| self.messages.get_mut(place)) else { continue };
            let gone = Kept { time: kept.time, payload: kept.payload.take() };
            self.forget(offset, Some(gone));
        }
        self.drop_while(|_, _| false);
        before - self.length
    }
}
