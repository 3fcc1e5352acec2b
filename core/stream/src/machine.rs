//! The streams of one bucket.
//!
//! ```text
//!   command ─▶ decode ─▶ all well-formed, of one slot, possible? ─▶ each operation in turn ─▶ answer
//!                                    └ no: nothing is done
//! ```
//!
//! An operation that is possible when its turn comes cannot fail halfway, so that all are judged first (`Forecast`)
//! and nothing has to be undone.
//!
//! Offsets never repeat, not even for a stream that is deleted and made again: each hash slot remembers, as its floor,
//! the highest offset that a deleted stream of the slot would have given next, and new streams of the slot begin there.
//! That is one number for each slot of the bucket at most, however many streams come and go, and it divides with the
//! bucket. The price: a new stream may begin above 1, where another of its slot was deleted.
//!
//! Invariants: no stream passes the limits of its retention after an entry of the log; everything that shows, the
//! digest with it, is a function of the entries applied.
//!
//! Not here: one stream's messages (`stream.rs`), queries (`read.rs`), bytes of a snapshot (`snapshot.rs`).

use crate::answer::{Answer, Failure, Outcome};
use crate::codec::{Operations, put_done, put_outcome};
use crate::command::{Action, Id, Operation, StreamOffset};
use crate::stream::Stream;
use crate::{NAME_MOST, OPERATIONS_MOST, PAYLOAD_MOST};
use atoll_types::{At, HashSlot, Malformed, Piece, StateMachine, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

#[derive(Clone, Debug, Default)]
pub struct Streams {
    streams: BTreeMap<Arc<[u8]>, Stream>,
    /// Where new streams of a slot begin; 1 where nothing stands.
    floors: BTreeMap<HashSlot, StreamOffset>,
    /// When the oldest message of a stream is too old.
    dues: BTreeSet<(Time, Arc<[u8]>)>,
    /// The sum of the digests of all streams and floors.
    digest: u64,
    /// The sum of what all streams take up.
    memory: usize,
}

fn floor_digest(slot: HashSlot, floor: StreamOffset) -> u64 {
    xxh3_64_with_seed(&slot.0.to_le_bytes(), floor.0)
}

impl Streams {
    pub fn new() -> Streams {
        Streams::default()
    }

    /// What has to go by now.
    fn change_due(&mut self, at: At) {
        while let Some((due, name)) = self.dues.first()
            && *due <= at.time
        {
            let name = Arc::clone(name);
            self.change(&name, at.time, |_| ());
        }
    }

    /// As `split`, and says what it is.
    pub fn halve(&mut self, first: HashSlot) -> Streams {
        let whole = std::mem::take(self);
        let mut gone = Streams::new();
        for (name, stream) in whole.streams {
            if HashSlot::of(&name) >= first { gone.insert(stream) } else { self.insert(stream) }
        }
        for (slot, floor) in whole.floors {
            if slot >= first { gone.raise_floor(slot, floor) } else { self.raise_floor(slot, floor) }
        }
        gone
    }

    pub(crate) fn stream(&self, name: &[u8]) -> Option<&Stream> {
        self.streams.get(name)
    }

    pub(crate) fn streams(&self) -> &BTreeMap<Arc<[u8]>, Stream> {
        &self.streams
    }

    pub(crate) fn floors(&self) -> &BTreeMap<HashSlot, StreamOffset> {
        &self.floors
    }

    fn floor(&self, slot: HashSlot) -> StreamOffset {
        self.floors.get(&slot).copied().unwrap_or(StreamOffset::FIRST)
    }

    pub(crate) fn raise_floor(&mut self, slot: HashSlot, to: StreamOffset) {
        let floor = self.floor(slot);
        if to <= floor {
            return;
        }
        if self.floors.insert(slot, to).is_some() {
            self.digest = self.digest.wrapping_sub(floor_digest(slot, floor));
        }
        self.digest = self.digest.wrapping_add(floor_digest(slot, to));
    }

    /// Adds a stream whose name is not there.
    pub(crate) fn insert(&mut self, stream: Stream) {
        self.digest = self.digest.wrapping_add(stream.digest());
        self.memory += stream.memory();
        self.dues.extend(stream.due().map(|due| (due, Arc::clone(&stream.name))));
        self.streams.insert(Arc::clone(&stream.name), stream);
    }

    fn remove(&mut self, name: &[u8]) -> Option<Stream> {
        let stream = self.streams.remove(name)?;
        self.digest = self.digest.wrapping_sub(stream.digest());
        self.memory -= stream.memory();
        if let Some(due) = stream.due() {
            self.dues.remove(&(due, Arc::clone(&stream.name)));
        }
        Some(stream)
    }

    /// Changes a stream and lets it forget what it does not keep; digest, memory and the list of times follow.
    fn change<T>(&mut self, name: &[u8], now: Time, change: impl FnOnce(&mut Stream) -> T) -> Option<T> {
        let stream = self.streams.get_mut(name)?;
        let (digest, memory, due) = (stream.digest(), stream.memory(), stream.due());
        let result = change(stream);
        stream.keep(now);
        self.digest = self.digest.wrapping_sub(digest).wrapping_add(stream.digest());
        self.memory = self.memory + stream.memory() - memory;
        if stream.due() != due {
            if let Some(due) = due {
                self.dues.remove(&(due, Arc::clone(&stream.name)));
            }
            self.dues.extend(stream.due().map(|due| (due, Arc::clone(&stream.name))));
        }
        Some(result)
    }

    /// Goes on with the places of `part`, which is a stream of the same name and settings as it was elsewhere. False
    /// where something before them is missing.
    pub(crate) fn extend(&mut self, now: Time, part: Stream) -> bool {
        let name = Arc::clone(&part.name);
        let Some(present) = self.streams.get(&name) else {
            self.insert(part);
            self.change(&name, now, |_| ());
            return true;
        };
        let next = present.next();
        if part.first() > next {
            return false;
        }
        self.change(&name, now, |stream| {
            let known = usize::try_from(next.0 - part.first().0).unwrap_or(usize::MAX);
            part.places().iter().skip(known).for_each(|kept| stream.push(kept.clone()));
        });
        true
    }

    /// Makes the stream if there is none. Was there one?
    fn ensure(&mut self, name: &[u8]) -> bool {
        let existed = self.streams.contains_key(name);
        if !existed {
            self.insert(Stream::new(name, self.floor(HashSlot::of(name))));
        }
        existed
    }

    /// Does what the forecast found possible.
    fn perform(&mut self, at: At, operation: &Operation<'_>) -> Outcome {
        let name = operation.stream;
        let removed = |count: Option<u64>| Outcome::Removed { existed: count.is_some(), count: count.unwrap_or(0) };
        match &operation.action {
            Action::Append { id: _, payload } => {
                let append = |stream: &mut Stream| stream.append(at.time, payload);
                let offset = match self.change(name, at.time, append) {
                    Some(offset) => offset,
                    None => {
                        self.ensure(name);
                        self.change(name, at.time, append).unwrap_or_default()
                    }
                };
                Outcome::Appended { offset, time: at.time }
            }
            Action::Trim { by } => removed(self.change(name, at.time, |stream| stream.trim(*by))),
            Action::Delete => {
                let stream = self.remove(name);
                if let Some(stream) = &stream {
                    self.raise_floor(HashSlot::of(name), stream.next());
                }
                removed(stream.map(|stream| stream.length()))
            }
            Action::DeleteEntries { offsets } => removed(self.change(name, at.time, |stream| stream.delete(offsets))),
            Action::Configure { retention } => {
                let existed = self.ensure(name);
                self.change(name, at.time, |stream| stream.configure(*retention));
                Outcome::Configured { existed }
            }
        }
    }

    /// Can all of it be done?
    fn judge(&self, mut operations: Operations<'_>) -> Result<(), Answer<'static>> {
        let count = operations.count();
        let mut forecast = Forecast { state: self, nexts: BTreeMap::new(), floor: None };
        let mut slot = None;
        let mut refusal = None;
        let mut number = 0;
        while let Some(operation) = operations.next().map_err(|()| Answer::Malformed)? {
            // The first refusal counts, but bytes that are no command are none, whatever they begin with.
            if refusal.is_none() {
                let own = if count == 1 { HashSlot::default() } else { HashSlot::of(operation.stream) };
                let first = *slot.get_or_insert(own);
                if own != first {
                    refusal = Some(Answer::CrossSlot { first, other: own });
                } else if let Err(why) = forecast.judge(&operation, count == 1) {
                    refusal = Some(Answer::Failed { operation: number, why });
                }
            }
            number += 1;
        }
        if usize::from(count) > OPERATIONS_MOST {
            return Err(Answer::Failed { operation: OPERATIONS_MOST as u16, why: Failure::TooManyOperations });
        }
        refusal.map_or(Ok(()), Err)
    }
}

/// What the offsets would be after the operations judged so far.
#[derive(Debug)]
struct Forecast<'a> {
    state: &'a Streams,
    /// The next offset of each stream that was spoken of; none where there would be no such stream.
    nexts: BTreeMap<&'a [u8], Option<StreamOffset>>,
    /// The floor of the one slot.
    floor: Option<StreamOffset>,
}

impl<'a> Forecast<'a> {
    fn judge(&mut self, operation: &Operation<'a>, alone: bool) -> Result<(), Failure> {
        let (state, name) = (self.state, operation.stream);
        if name.len() > NAME_MOST {
            return Err(Failure::NameTooLong);
        }
        let floor = || state.floor(HashSlot::of(name));
        let next_now = || state.stream(name).map(Stream::next);
        match &operation.action {
            Action::Append { payload, .. } if payload.len() > PAYLOAD_MOST => Err(Failure::PayloadTooLong),
            // Nothing comes before or after it: no need to remember.
            Action::Append { id: Id::Auto, .. } if alone => Ok(()),
            Action::Append { id, .. } => {
                let floor = *self.floor.get_or_insert_with(floor);
                let next = self.nexts.entry(name).or_insert_with(next_now);
                let offset = next.unwrap_or(floor);
                *next = Some(offset.next());
                match id {
                    Id::Exactly(wanted) if *wanted != offset => Err(Failure::NotNext { next: offset }),
                    Id::Auto | Id::Exactly(_) => Ok(()),
                }
            }
            Action::Delete => {
                let floor = self.floor.get_or_insert_with(floor);
                let next = self.nexts.entry(name).or_insert_with(next_now);
                *floor = next.take().map_or(*floor, |next| next.max(*floor));
                Ok(())
            }
            Action::Configure { .. } => {
                let floor = *self.floor.get_or_insert_with(floor);
                self.nexts.entry(name).or_insert_with(next_now).get_or_insert(floor);
                Ok(())
            }
            Action::Trim { .. } | Action::DeleteEntries { .. } => Ok(()),
        }
    }
}

impl StateMachine for Streams {
    fn empty(&self) -> Box<dyn StateMachine> {
        Box::new(Streams::new())
    }

    fn apply(&mut self, at: At, command: &[u8], answer: &mut Vec<u8>) {
        let Some(mut operations) = Operations::of(command) else { return Answer::Malformed.encode(answer) };
        if let Err(refusal) = self.judge(operations) {
            return refusal.encode(answer);
        }
        put_done(answer, operations.count());
        while let Ok(Some(operation)) = operations.next() {
            put_outcome(answer, &self.perform(at, &operation));
        }
    }

    #[inline]
    fn advance(&mut self, at: At) {
        if !self.dues.is_empty() {
            self.change_due(at);
        }
    }

    fn due(&self) -> Option<Time> {
        self.dues.first().map(|&(due, _)| due)
    }

    fn read(&self, at: At, query: &[u8], answer: &mut Vec<u8>) {
        self.answer(at, query).encode(answer);
    }

    fn grows(&self, command: &[u8]) -> bool {
        let Some(mut operations) = Operations::of(command) else { return false };
        let mut grows = false;
        while let Ok(Some(operation)) = operations.next() {
            grows |= match operation.action {
                Action::Append { .. } => true,
                Action::Configure { .. } => !self.streams.contains_key(operation.stream),
                Action::Trim { .. } | Action::Delete | Action::DeleteEntries { .. } => false,
            };
        }
        grows
    }

    fn bytes(&self) -> usize {
        self.memory + self.floors.len() * 2 * size_of::<(HashSlot, StreamOffset)>()
    }

    fn count(&self) -> usize {
        self.streams.len()
    }

    fn snapshot(&self) -> Vec<u8> {
        crate::snapshot::encode(self)
    }

    fn install(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        *self = crate::snapshot::decode(bytes).ok_or(Malformed)?;
        Ok(())
    }

    fn pieces(&self, _at: At, most: usize) -> Vec<Piece> {
        crate::import::pieces(self, most)
    }

    fn absorb(&mut self, at: At, slot: HashSlot, piece: &[u8]) -> Result<(), Malformed> {
        crate::import::absorb(self, at, slot, piece).ok_or(Malformed)
    }

    fn split(&mut self, first: HashSlot) -> Box<dyn StateMachine> {
        Box::new(self.halve(first))
    }

    fn digest(&self) -> u64 {
        self.digest
    }
}
