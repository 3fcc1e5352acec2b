//! Random commands, with a simple model beside the machine: the same answers, the same state, and a digest that is a
//! function of the state.

use crate::model::{Model, Stream};
use crate::{afresh, answer, apply, at, read};
use atoll_stream::{Action, Answer, Id, Operation, Query, Retention, StreamOffset, Streams, Trim};
use atoll_types::{At, HashSlot, StateMachine, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

const NAMES: [&[u8]; 6] = [b"{a}", b"{a}1", b"{a}2", b"b", b"c", b""];
const PAYLOADS: [&[u8]; 4] = [b"", b"x", b"message", b"a longer message"];

/// One entry of the log: so much later, and a command.
type Step = (u64, Vec<Operation<'static>>);

fn trim() -> impl Strategy<Value = Trim> {
    prop_oneof![
        (0..6_u64).prop_map(Trim::Count),
        (0..40_u64).prop_map(Trim::Bytes),
        (0..20_u64).prop_map(|offset| Trim::Before(StreamOffset(offset))),
        (0..100_u64).prop_map(|time| Trim::OlderThan(Time(time))),
    ]
}

fn retention() -> impl Strategy<Value = Retention> {
    let limit = |most: u64| prop_oneof![2 => Just(None), 1 => (0..most).prop_map(Some)];
    (limit(6), limit(60), limit(30)).prop_map(|(most_count, most_bytes, age)| Retention {
        most_count,
        most_bytes,
        most_age: age.map(Duration::from_micros),
    })
}

fn action() -> impl Strategy<Value = Action<'static>> {
    let id = prop_oneof![5 => Just(Id::Auto), 1 => (1..9_u64).prop_map(|offset| Id::Exactly(StreamOffset(offset)))];
    prop_oneof![
        9 => (id, prop::sample::select(&PAYLOADS[..])).prop_map(|(id, payload)| Action::Append { id, payload }),
        1 => trim().prop_map(|by| Action::Trim { by }),
        1 => Just(Action::Delete),
        2 => vec((0..15_u64).prop_map(StreamOffset), 0..5).prop_map(|offsets| Action::DeleteEntries { offsets }),
        1 => retention().prop_map(|retention| Action::Configure { retention }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let alone = (0..NAMES.len(), action()).prop_map(|part| vec![part]);
    // Mostly of one slot.
    let batch = vec((prop_oneof![9 => 0..3_usize, 1 => 3..5_usize], action()), 0..6);
    let operations = prop_oneof![2 => alone, 1 => batch]
        .prop_map(|parts| parts.into_iter().map(|(name, action)| Operation { stream: NAMES[name], action }).collect());
    (prop_oneof![3 => Just(0), 2 => 0..6_u64], operations)
}

fn crosses(operations: &[Operation<'_>]) -> bool {
    operations.iter().any(|operation| HashSlot::of(operation.stream) != HashSlot::of(operations[0].stream))
}

fn run(streams: &mut Streams, model: &mut Model, at: At, operations: &[Operation<'_>]) {
    streams.advance(at);
    model.advance(at);
    let before = (streams.digest(), streams.snapshot());
    let bytes = apply(streams, at, operations);
    if crosses(operations) {
        // An operation before the one that crosses may fail first.
        assert!(matches!(answer(&bytes), Answer::CrossSlot { .. } | Answer::Failed { .. }));
        assert_eq!((streams.digest(), streams.snapshot()), before);
        return;
    }
    match model.apply(at, operations) {
        Ok(expected) => assert_eq!(answer(&bytes), Answer::Done(expected)),
        Err((operation, why)) => {
            assert_eq!(answer(&bytes), Answer::Failed { operation, why });
            assert_eq!((streams.digest(), streams.snapshot()), before, "what fails changes nothing");
        }
    }
}

/// Every message of a stream, read page by page, forwards and back.
fn messages(streams: &dyn StateMachine, at: At, stream: &[u8]) -> BTreeMap<u64, (Time, Vec<u8>)> {
    let mut pages = [BTreeMap::new(), BTreeMap::new()];
    for (backwards, found) in pages.iter_mut().enumerate() {
        let mut from = None;
        loop {
            let forwards = Query::Read { stream, from, limit: 3, bytes: 20 };
            let back = Query::ReadReverse { stream, from, limit: 3, bytes: 20 };
            let bytes = read(streams, at, if backwards == 1 { &back } else { &forwards });
            let Answer::Messages { messages, next } = answer(&bytes) else { panic!("no messages") };
            let page = messages.iter().map(|message| (message.offset.0, (message.time, message.payload.to_vec())));
            found.extend(page);
            if next.is_none() || next == from {
                break;
            }
            from = next;
        }
    }
    let [forwards, back] = pages;
    assert_eq!(forwards, back);
    forwards
}

fn shown(streams: &dyn StateMachine, at: At) -> BTreeMap<Vec<u8>, Stream> {
    let bytes = read(streams, at, &Query::List { prefix: b"", after: None, limit: 100 });
    let Answer::Names { names, stopped_at: None } = answer(&bytes) else { panic!("no names") };
    let mut shown = BTreeMap::new();
    for name in names {
        let bytes = read(streams, at, &Query::Info { stream: name });
        let Answer::Info(info) = answer(&bytes) else { panic!("no info") };
        let messages = messages(streams, at, name);
        let stream = Stream { next: info.next.0, messages, retention: info.retention };
        assert_eq!((info.length, info.bytes), (stream.messages.len() as u64, stream.bytes()));
        let first = stream.messages.keys().next().copied().unwrap_or(info.next.0);
        assert_eq!(info.first.0, first);
        shown.insert(name.to_vec(), stream);
    }
    shown
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_machine_does_what_the_model_does(steps in vec(step(), 1..80)) {
        let (mut streams, mut model) = (Streams::new(), Model::default());
        let mut time = 0;
        for (offset, (later, operations)) in (1..).zip(&steps) {
            time += later;
            run(&mut streams, &mut model, at(offset, time), operations);
            let due = |stream: &Stream| {
                let oldest = stream.messages.values().next().map(|(time, _)| *time)?;
                stream.retention.most_age.map(|age| oldest + age)
            };
            assert_eq!(streams.due(), model.streams.values().filter_map(due).min());
        }
        let now = at(1000, time);
        assert_eq!(shown(&streams, now), model.streams.clone());
        let again = afresh(&streams);
        assert_eq!((again.digest(), again.snapshot()), (streams.digest(), streams.snapshot()));
        assert_eq!(again.due(), streams.due());
        assert_eq!(shown(&again, now), model.streams.clone());
        let later = at(1000, time + 7);
        let read_ahead = shown(&streams, later);
        model.advance(later);
        assert_eq!(read_ahead, model.streams);
    }

    #[test]
    fn halves_are_as_if_they_had_always_been_apart(steps in vec(step(), 1..80), first in 0..HashSlot::COUNT) {
        let first = HashSlot(first);
        let (mut whole, mut model) = (Streams::new(), Model::default());
        let (mut lower, mut upper) = (Streams::new(), Streams::new());
        let mut time = 0;
        for (offset, (later, operations)) in (1..).zip(&steps) {
            time += later;
            let now = at(offset, time);
            run(&mut whole, &mut model, now, operations);
            lower.advance(now);
            upper.advance(now);
            let goes = operations.first().is_some_and(|operation| HashSlot::of(operation.stream) >= first);
            apply(if goes { &mut upper } else { &mut lower }, now, operations);
        }
        let gone = whole.split(first);
        let now = at(1000, time);
        assert_eq!(shown(&whole, now), model.half(|slot| slot < first).streams);
        assert_eq!(shown(&*gone, now), model.half(|slot| slot >= first).streams);
        assert_eq!((whole.digest(), whole.snapshot(), whole.due()), (lower.digest(), lower.snapshot(), lower.due()));
        assert_eq!((gone.digest(), gone.snapshot(), gone.due()), (upper.digest(), upper.snapshot(), upper.due()));
    }
}
