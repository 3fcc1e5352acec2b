//! The same machine again, as simple as can be: maps of everything.

use atoll_stream::{Action, Failure, Id, Operation, Outcome, Retention, StreamOffset, Trim};
use atoll_types::{At, HashSlot, Time};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) next: u64,
    pub(crate) messages: BTreeMap<u64, (Time, Vec<u8>)>,
    pub(crate) retention: Retention,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) streams: BTreeMap<Vec<u8>, Stream>,
    floors: BTreeMap<HashSlot, u64>,
}

impl Stream {
    pub(crate) fn bytes(&self) -> u64 {
        self.messages.values().map(|(_, payload)| payload.len() as u64).sum()
    }

    fn keep(&mut self, now: Time) {
        let Retention { most_count, most_bytes, most_age } = self.retention;
        self.trim(Trim::Count(most_count.unwrap_or(u64::MAX)));
        self.trim(Trim::Bytes(most_bytes.unwrap_or(u64::MAX)));
        self.messages.retain(|_, (time, _)| most_age.is_none_or(|age| *time + age > now));
    }

    fn trim(&mut self, by: Trim) -> u64 {
        let before = self.messages.len();
        match by {
            Trim::Count(most) => {
                while self.messages.len() as u64 > most {
                    self.messages.pop_first();
                }
            }
            Trim::Bytes(most) => {
                while self.bytes() > most {
                    self.messages.pop_first();
                }
            }
            Trim::Before(offset) => self.messages.retain(|&own, _| own >= offset.0),
            Trim::OlderThan(time) => self.messages.retain(|_, (own, _)| *own >= time),
        }
        (before - self.messages.len()) as u64
    }
}

impl Model {
    pub(crate) fn advance(&mut self, at: At) {
        self.streams.values_mut().for_each(|stream| stream.keep(at.time));
    }

    pub(crate) fn apply(&mut self, at: At, operations: &[Operation<'_>]) -> Result<Vec<Outcome>, (u16, Failure)> {
        let mut after = self.clone();
        let mut outcomes = Vec::new();
        for (number, operation) in (0..).zip(operations) {
            outcomes.push(after.perform(at, operation).map_err(|why| (number, why))?);
            after.advance(at);
        }
        *self = after;
        Ok(outcomes)
    }

    fn made(&mut self, name: &[u8]) -> &mut Stream {
        let next = self.floors.get(&HashSlot::of(name)).copied().unwrap_or(1);
        self.streams.entry(name.to_vec()).or_insert_with(|| Stream { next, ..Stream::default() })
    }

    fn perform(&mut self, at: At, operation: &Operation<'_>) -> Result<Outcome, Failure> {
        let name = operation.stream;
        let existed = self.streams.contains_key(name);
        let count = match &operation.action {
            Action::Append { id, payload } => {
                let stream = self.made(name);
                let offset = StreamOffset(stream.next);
                if let Id::Exactly(wanted) = id
                    && *wanted != offset
                {
                    return Err(Failure::NotNext { next: offset });
                }
                stream.next += 1;
                stream.messages.insert(offset.0, (at.time, payload.to_vec()));
                return Ok(Outcome::Appended { offset, time: at.time });
            }
            Action::Configure { retention } => {
                self.made(name).retention = *retention;
                return Ok(Outcome::Configured { existed });
            }
            Action::Trim { by } => self.streams.get_mut(name).map_or(0, |stream| stream.trim(*by)),
            Action::Delete => self.streams.remove(name).map_or(0, |stream| {
                let floor = self.floors.entry(HashSlot::of(name)).or_insert(1);
                *floor = stream.next.max(*floor);
                stream.messages.len() as u64
            }),
            Action::DeleteEntries { offsets } => self.streams.get_mut(name).map_or(0, |stream| {
                let removed = offsets.iter().filter_map(|offset| stream.messages.remove(&offset.0));
                removed.count() as u64
            }),
        };
        Ok(Outcome::Removed { existed, count })
    }

    pub(crate) fn half(&self, goes: impl Fn(HashSlot) -> bool) -> Model {
        let mut half = self.clone();
        half.streams.retain(|name, _| goes(HashSlot::of(name)));
        half.floors.retain(|slot, _| goes(*slot));
        half
    }
}
