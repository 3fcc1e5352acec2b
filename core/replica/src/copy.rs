//! The replicated state of one bucket: what its committed entries add up to.
//!
//! Invariant: a function of the entries up to `applied` alone. Two copies at the same mark have the same digest.
//!
//! Not here: which entries are committed (`primary.rs`, `backup.rs`).

use crate::session::{Refusal, Sessions, Verdict};
use atoll_types::{
    At, BucketBody, BucketEntry, BucketSnapshot, Bug, HashSlot, IMPORT, Mark, Payload, SlotRange, StateMachine, Time,
    planted,
};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The first byte of a snapshot.
const FORMAT: u8 = 1;
/// Memory that stays where answers are put together.
const SCRATCH_MOST: usize = 64 << 10;

#[derive(Debug)]
pub struct Copy {
    pub range: SlotRange,
    /// The last entry applied.
    pub applied: Mark,
    /// The log's time.
    pub time: Time,
    pub sessions: Sessions,
    pub machine: Box<dyn StateMachine>,
    /// The answer to the last command. Most members have nobody to tell it to, so it gets no memory of its own.
    pub(crate) answer: Vec<u8>,
}

/// What became of an entry when it was applied. Small, since it is asked of every entry on every member.
#[derive(Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was no write.
    Nothing,
    /// There is an answer (`Copy::answer`).
    Done,
    /// It took effect before, there, and this was the answer.
    Duplicate(Box<(Mark, Payload)>),
    Refused(Box<Refusal>),
}

#[derive(Serialize, Deserialize)]
struct Image {
    range: SlotRange,
    applied: Mark,
    time: Time,
    sessions: Sessions,
    machine: Payload,
}

impl Copy {
    pub fn empty(range: SlotRange, base: Mark, sessions: Sessions, machine: Box<dyn StateMachine>) -> Copy {
        Copy { range, applied: base, time: Time::ZERO, sessions, machine, answer: Vec::new() }
    }

    pub fn at(&self) -> At {
        At { offset: self.applied.offset, time: self.time }
    }

    /// Applies the next entry. `now`, the node's own clock, must have no influence.
    pub fn apply(&mut self, entry: &BucketEntry<'_>, now: Time) -> Applied {
        let offset = self.applied.offset.next();
        self.time = self.time.max(entry.time);
        let time = if planted(Bug::ExpiryByOwnClock) { now } else { self.time };
        let at = At { offset, time };
        self.machine.advance(at);
        self.sessions.advance(self.time);
        self.applied.offset = offset;
        if self.applied.epoch != entry.epoch {
            self.applied.epoch = entry.epoch;
        }
        match &entry.body {
            BucketBody::Tick | BucketBody::Split => Applied::Nothing,
            BucketBody::Write { slot, usage, command } => {
                if let Some(usage) = usage {
                    match self.sessions.enter(self.time, *slot, usage) {
                        Verdict::New => {}
                        Verdict::Duplicate { mark, answer } => return Applied::Duplicate(Box::new((mark, answer))),
                        Verdict::Refused(refusal) => return Applied::Refused(Box::new(refusal)),
                    }
                }
                self.answer.clear();
                match command.split_first() {
                    Some((&IMPORT, piece)) => self.import(at, *slot, piece),
                    Some(_) | None => self.machine.apply(at, command, &mut self.answer),
                }
                if let Some(usage) = usage {
                    self.sessions.store(usage, Mark { epoch: entry.epoch, offset }, &self.answer);
                }
                Applied::Done
            }
        }
    }

    /// To the last write that was applied.
    pub fn answer(&self) -> &[u8] {
        &self.answer
    }

    /// The answer is put together in `scratch`, whose memory is used again; a long one keeps it.
    pub fn read(&self, query: &Payload, scratch: &mut Vec<u8>) -> Payload {
        scratch.clear();
        self.machine.read(self.at(), query.as_slice(), scratch);
        if scratch.len() > SCRATCH_MOST { std::mem::take(scratch).into() } else { scratch.as_slice().into() }
    }

    pub fn digest(&self) -> u64 {
        let parts = [self.machine.digest(), self.sessions.digest(), self.time.0, self.applied.offset.0];
        parts.iter().fold(u64::from(self.range.last.0), |digest, part| xxh3_64_with_seed(&part.to_le_bytes(), digest))
    }

    pub fn bytes(&self) -> usize {
        self.machine.bytes() + self.sessions.bytes()
    }

    pub fn snapshot(&self) -> BucketSnapshot {
        let sessions = if planted(Bug::SnapshotWithoutSessions) { Sessions::default() } else { self.sessions.clone() };
        let (range, applied, time) = (self.range, self.applied, self.time);
        let image = Image { range, applied, time, sessions, machine: self.machine.snapshot().into() };
        let bytes = postcard::to_extend(&image, vec![FORMAT]).expect("a copy always has bytes");
        BucketSnapshot { mark: self.applied, checksum: crc32c::crc32c(&bytes), bytes: bytes.into() }
    }

    /// The copy that a snapshot holds, if it is sound. `kind` is a machine of the right kind.
    pub fn open(snapshot: &BucketSnapshot, kind: &dyn StateMachine) -> Option<Copy> {
        let bytes = snapshot.bytes.as_slice();
        if crc32c::crc32c(bytes) != snapshot.checksum && !planted(Bug::BadSnapshotInstalled) {
            return None;
        }
        let (&format, body) = bytes.split_first()?;
        let image: Image = postcard::from_bytes(body).ok().filter(|_| format == FORMAT)?;
        let mut machine = kind.empty();
        machine.install(image.machine.as_slice()).ok()?;
        let Image { range, applied, time, sessions, .. } = image;
        (applied == snapshot.mark).then_some(Copy { range, applied, time, sessions, machine, answer: Vec::new() })
    }

    /// Gives the upper half away.
    pub fn split(&mut self, lower: SlotRange, upper: SlotRange) -> Copy {
        let machine = self.machine.split(upper.first);
        let mut sessions = self.sessions.split(|slot: HashSlot| upper.contains(slot));
        if planted(Bug::SplitForgetsSessions) {
            sessions = Sessions::default();
        }
        self.sessions = self.sessions.split(|slot: HashSlot| lower.contains(slot));
        self.range = lower;
        Copy { range: upper, applied: self.applied, time: self.time, sessions, machine, answer: Vec::new() }
    }
}
