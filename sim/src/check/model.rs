//! A second opinion on what commands do: keys and streams of one bucket in maps, every version kept, so that a read can
//! be held against the state at any offset. Written for what the simulated clients ask for, and nothing else.

use crate::clients::act::{Act, KV, STREAM};
use atoll_kv::{Action, Answer, Condition, Detail as Did, Failure, Found, Outcome, Scanned, Ttl};
use atoll_stream::StreamOffset;
use atoll_types::{HashSlot, Offset, Time};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell {
    version: Offset,
    expires: Option<Time>,
    value: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Message {
    /// Of the log entry.
    at: Offset,
    time: Time,
    payload: Vec<u8>,
}

/// All messages that a stream ever had, and which is the oldest that is kept, since which offset.
#[derive(Clone, Debug, Default)]
struct Flow {
    messages: Vec<Message>,
    trims: Vec<(Offset, u64)>,
}

impl Flow {
    fn oldest(&self, at: Offset) -> u64 {
        let trims = self.trims.partition_point(|(since, _)| *since <= at);
        trims.checked_sub(1).and_then(|last| self.trims.get(last)).map_or(1, |(_, oldest)| *oldest)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    /// What each key has been since which offset. An absent key is None.
    cells: BTreeMap<Vec<u8>, Vec<(Offset, Option<Cell>)>>,
    streams: BTreeMap<Vec<u8>, Flow>,
}

impl Model {
    fn cell(&self, key: &[u8], at: Offset, time: Time) -> Option<&Cell> {
        let versions = self.cells.get(key)?;
        let after = versions.partition_point(|(since, _)| *since <= at);
        let cell = versions.get(after.checked_sub(1)?)?.1.as_ref()?;
        cell.expires.is_none_or(|expires| expires > time).then_some(cell)
    }

    /// Takes the command of the entry at this offset and log time, and gives the answer it must get; None where it is
    /// no command of ours.
    pub(crate) fn apply(&mut self, at: Offset, time: Time, command: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        match command.split_first()? {
            (&KV, command) => {
                let command = atoll_kv::Command::decode(command)?;
                self.apply_kv(at, time, &command, &mut bytes)?;
            }
            (&STREAM, command) => {
                let command = atoll_stream::Command::decode(command)?;
                let mut outcomes = Vec::new();
                for operation in &command.operations {
                    outcomes.push(self.apply_stream(at, time, operation)?);
                }
                atoll_stream::Answer::Done(outcomes).encode(&mut bytes);
            }
            (_, _) => return None,
        }
        Some(bytes)
    }

    fn apply_stream(
        &mut self,
        at: Offset,
        time: Time,
        operation: &atoll_stream::Operation<'_>,
    ) -> Option<atoll_stream::Outcome> {
        match &operation.action {
            atoll_stream::Action::Append { id: atoll_stream::Id::Auto, payload } => {
                let flow = self.streams.entry(operation.stream.to_vec()).or_default();
                flow.messages.push(Message { at, time, payload: payload.to_vec() });
                let offset = StreamOffset(flow.messages.len() as u64);
                Some(atoll_stream::Outcome::Appended { offset, time })
            }
            atoll_stream::Action::Trim { by: atoll_stream::Trim::Count(most) } => {
                let Some(flow) = self.streams.get_mut(operation.stream) else {
                    return Some(atoll_stream::Outcome::Removed { existed: false, count: 0 });
                };
                let oldest = flow.oldest(at);
                let kept = flow.messages.len() as u64 + 1 - oldest;
                let count = kept.saturating_sub(*most);
                flow.trims.push((at, oldest + count));
                Some(atoll_stream::Outcome::Removed { existed: true, count })
            }
            atoll_stream::Action::Append { .. }
            | atoll_stream::Action::Trim { .. }
            | atoll_stream::Action::Delete
            | atoll_stream::Action::DeleteEntries { .. }
            | atoll_stream::Action::Configure { .. } => None,
        }
    }

    fn apply_kv(
        &mut self,
        at: Offset,
        time: Time,
        command: &atoll_kv::Command<'_>,
        answer: &mut Vec<u8>,
    ) -> Option<()> {
        let mut outcomes = Vec::new();
        // What was there before, where that is told.
        let mut olds: Vec<Option<Option<Vec<u8>>>> = Vec::new();
        let mut changes: Vec<(&[u8], Option<Cell>)> = Vec::new();
        for (number, operation) in (0..).zip(&command.operations) {
            let before = match changes.iter().rev().find(|(key, _)| *key == operation.key) {
                Some((_, cell)) => cell.clone(),
                None => self.cell(operation.key, at, time).cloned(),
            };
            let version = before.as_ref().map(|cell| cell.version);
            let holds = match operation.condition {
                Condition::None => true,
                Condition::Absent => version.is_none(),
                Condition::Present => version.is_some(),
                Condition::Version(wanted) => version == Some(wanted),
            };
            if !holds {
                Answer::Failed { operation: number, why: Failure::Condition { version } }.encode(answer);
                return Some(());
            }
            let existed = before.is_some();
            let kept = before.as_ref().and_then(|cell| cell.expires);
            olds.push(match operation.action {
                Action::GetAndPut { .. } => Some(before.as_ref().map(|cell| cell.value.clone())),
                Action::Check | Action::Put { .. } | Action::Delete | Action::Increment { .. } => None,
                Action::Append { .. } | Action::Expire { .. } | Action::Get | Action::GetAndDelete => None,
            });
            let (after, result) = match operation.action {
                Action::Check => (before, Did::Nothing),
                Action::Put { value, ttl } | Action::GetAndPut { value, ttl } => {
                    let expires = match ttl {
                        Ttl::Never => None,
                        Ttl::After(span) => Some(time + span),
                        Ttl::Keep | Ttl::At(_) => return None,
                    };
                    (Some(Cell { version: at, expires, value: value.to_vec() }), Did::Nothing)
                }
                Action::Delete => (None, Did::Nothing),
                Action::Increment { by } => {
                    let text = before.as_ref().map_or(&b"0"[..], |cell| &cell.value);
                    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
                    let number = number.checked_add(by)?;
                    let value = number.to_string().into_bytes();
                    (Some(Cell { version: at, expires: kept, value }), Did::Number(number))
                }
                Action::Append { value, .. } => {
                    let text = before.map_or(Vec::new(), |cell| cell.value);
                    let value = [&text, value].concat();
                    let length = value.len() as u64;
                    (Some(Cell { version: at, expires: kept, value }), Did::Length(length))
                }
                Action::Expire { ttl } => {
                    let expires = match ttl {
                        Ttl::Never => None,
                        Ttl::After(span) => Some(time + span),
                        Ttl::Keep | Ttl::At(_) => return None,
                    };
                    let stays = expires.is_none_or(|expires| expires > time);
                    (before.filter(|_| stays).map(|cell| Cell { expires, ..cell }), Did::Nothing)
                }
                Action::Get | Action::GetAndDelete => return None,
            };
            outcomes.push(Outcome { existed, version: after.as_ref().map(|cell| cell.version), detail: result });
            changes.push((operation.key, after));
        }
        for (key, cell) in changes {
            self.cells.entry(key.to_vec()).or_default().push((at, cell));
        }
        for (outcome, old) in outcomes.iter_mut().zip(&olds) {
            if let Some(old) = old {
                outcome.detail = Did::Old(old.as_deref());
            }
        }
        Answer::Done(outcomes.into()).encode(answer);
        Some(())
    }

    /// The answer to a query, from the state at this offset and log time; None where `act` asks nothing.
    pub(crate) fn read(&self, at: Offset, time: Time, act: &Act) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let found = |cell: &'_ Cell| (cell.version, cell.expires, cell.value.clone());
        match act {
            Act::Get { key } => {
                let cell = self.cell(key.as_bytes(), at, time).map(found);
                let value = cell.as_ref().map(|(version, expires, value)| Found {
                    version: *version,
                    expires: *expires,
                    value,
                });
                Answer::Value(value).encode(&mut bytes);
            }
            Act::Scan { prefix, slot } => {
                let keys = self.cells.range(prefix.as_bytes().to_vec()..).map(|(key, _)| key);
                let mut scanned = Scanned { found: Vec::new(), stopped_at: None };
                for key in keys.take_while(|key| key.starts_with(prefix.as_bytes())) {
                    if HashSlot::of(key) == *slot
                        && let Some(Cell { version, expires, value }) = self.cell(key, at, time)
                    {
                        scanned.found.push((key, Found { version: *version, expires: *expires, value }));
                    }
                }
                Answer::Scanned(scanned).encode(&mut bytes);
            }
            Act::Fetch { stream, from } => self.fetch(at, stream.as_bytes(), *from).encode(&mut bytes),
            Act::Put { .. }
            | Act::Swap { .. }
            | Act::Increment { .. }
            | Act::Append { .. }
            | Act::Delete { .. }
            | Act::Exchange { .. }
            | Act::Expire { .. }
            | Act::Both { .. }
            | Act::Publish { .. }
            | Act::Trim { .. } => return None,
        }
        Some(bytes)
    }

    fn fetch(&self, at: Offset, stream: &[u8], from: Option<u64>) -> atoll_stream::Answer<'_> {
        let all = self.streams.get(stream).map_or(&[][..], |flow| flow.messages.as_slice());
        let there = &all[..all.partition_point(|message| message.at <= at)];
        if there.is_empty() {
            return atoll_stream::Answer::Absent;
        }
        let oldest = self.streams.get(stream).map_or(1, |flow| flow.oldest(at));
        let from = from.unwrap_or(oldest);
        if from < oldest {
            return atoll_stream::Answer::Reset { oldest: StreamOffset(oldest) };
        }
        let places = (1..).zip(there).skip(from as usize - 1);
        let messages: Vec<atoll_stream::Message<'_>> = places
            .map(|(place, message)| atoll_stream::Message {
                offset: StreamOffset(place),
                time: message.time,
                payload: &message.payload,
            })
            .collect();
        let next = Some(StreamOffset(from + messages.len() as u64));
        atoll_stream::Answer::Messages { messages, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{At, Rng, StateMachine};

    /// The model and the real thing agree on everything that clients do.
    #[test]
    fn it_agrees_with_the_state_machines() {
        let mut rng = Rng::new(5);
        let mut model = Model::default();
        let (mut kv, mut streams) = (atoll_kv::Store::new(), atoll_stream::Streams::new());
        let mut time = Time(0);
        for offset in 1..2000 {
            time = Time(time.0 + rng.below(1000));
            let version = Offset(rng.below(offset));
            let act = crate::clients::draw::any(&mut rng, offset as usize, version);
            let at = At { offset: Offset(offset), time };
            let bytes = act.bytes();
            let (machine, bytes): (&mut dyn StateMachine, _) = match bytes.as_slice().split_first() {
                Some((&KV, bytes)) => (&mut kv, bytes),
                Some((_, bytes)) => (&mut streams, bytes),
                None => continue,
            };
            machine.advance(at);
            let mut answer = Vec::new();
            if act.is_write() {
                machine.apply(at, bytes, &mut answer);
                assert_eq!(model.apply(at.offset, time, act.bytes().as_slice()), Some(answer), "{act:?}");
            } else {
                machine.read(at, bytes, &mut answer);
                assert_eq!(model.read(at.offset, time, &act), Some(answer), "{act:?}");
            }
        }
    }
}
