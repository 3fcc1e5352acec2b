//! Random commands, with a simple model beside the machine: the same answers, the same state, and a digest that is a
//! function of the state.

use crate::model::{Held, Model, owned};
use crate::{afresh, answer, apply, at, encode, read};
use atoll_kv::{Action, Answer, Condition, Kind, Operation, Query, Store, Ttl, Which};
use atoll_types::{At, HashSlot, Offset, StateMachine, Time};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const KEYS: [&[u8]; 10] =
    [b"{a}", b"{a}1", b"{a}2", b"{a}22", b"b", b"c", b"", b"{d}longer than the others", b"{d}", b"0"];
const VALUES: [&[u8]; 7] = [b"", b"1", b"-5", b"9223372036854775807", b"text", b"text of some length", b"more"];

/// One entry of the log: so much later, and a command, or only the time.
type Step = (u64, Vec<Operation<'static>>);

fn value() -> impl Strategy<Value = &'static [u8]> {
    prop::sample::select(&VALUES[..])
}

fn ttl() -> impl Strategy<Value = Ttl> {
    prop_oneof![
        3 => Just(Ttl::Never),
        1 => Just(Ttl::Keep),
        1 => (0..120_u64).prop_map(|time| Ttl::At(Time(time))),
        2 => (0..20_u64).prop_map(|span| Ttl::After(Duration::from_micros(span))),
    ]
}

fn action() -> impl Strategy<Value = Action<'static>> {
    prop_oneof![
        6 => (value(), ttl()).prop_map(|(value, ttl)| Action::Put { value, ttl }),
        2 => (value(), ttl()).prop_map(|(value, ttl)| Action::GetAndPut { value, ttl }),
        1 => Just(Action::Check),
        1 => Just(Action::Get),
        2 => Just(Action::Delete),
        1 => Just(Action::GetAndDelete),
        3 => prop_oneof![-3..9_i64, any::<i64>()].prop_map(|by| Action::Increment { by }),
        2 => (value(), 0..16u64).prop_map(|(value, most)| Action::Append { value, most }),
        2 => ttl().prop_map(|ttl| Action::Expire { ttl }),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        9 => Just(Condition::None),
        1 => Just(Condition::Absent),
        2 => Just(Condition::Present),
        1 => (1..40_u64).prop_map(|version| Condition::Version(Offset(version))),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let alone = (prop::sample::select(&KEYS[..]), condition(), action())
        .prop_map(|(key, condition, action)| vec![Operation { key, condition, action }]);
    // Mostly of one slot.
    let batch = vec((prop_oneof![9 => 0..4_usize, 1 => 4..6_usize], condition(), action()), 0..6).prop_map(|parts| {
        parts.into_iter().map(|(key, condition, action)| Operation { key: KEYS[key], condition, action }).collect()
    });
    (prop_oneof![3 => Just(0), 2 => 0..6_u64], prop_oneof![alone, batch])
}

fn crosses(operations: &[Operation<'_>]) -> bool {
    operations.iter().any(|operation| HashSlot::of(operation.key) != HashSlot::of(operations[0].key))
}

fn run(store: &mut Store, model: &mut Model, at: At, operations: &[Operation<'_>]) {
    store.advance(at);
    model.advance(at);
    let before = (store.digest(), store.snapshot());
    let bytes = apply(store, at, &encode(operations));
    if crosses(operations) {
        assert!(matches!(answer(&bytes), Answer::CrossSlot { .. }));
        assert_eq!((store.digest(), store.snapshot()), before);
        return;
    }
    match (answer(&bytes), model.apply(at, operations)) {
        (Answer::Done(outcomes), Ok(expected)) => {
            assert_eq!(outcomes.iter().map(owned).collect::<Vec<_>>(), expected);
        }
        (Answer::Failed { operation, why }, Err(expected)) => {
            assert_eq!((operation, why), expected);
            assert_eq!((store.digest(), store.snapshot()), before, "what fails changes nothing");
        }
        (answer, expected) => panic!("{answer:?}, expected {expected:?}"),
    }
}

/// Keys and changes that the machine shows.
fn shown(store: &dyn StateMachine, at: At) -> Model {
    let scan = Query::Scan { prefix: b"", after: None, slot: None, values: true, limit: 1000, bytes: 1 << 20 };
    let bytes = read(store, at, &scan);
    let Answer::Scanned(scanned) = answer(&bytes) else { panic!("no scan") };
    let held = scanned.found.into_iter().map(|(key, found)| {
        (key.to_vec(), Held { value: found.value.to_vec(), version: found.version, expires: found.expires })
    });
    let held = held.collect();
    let bytes = read(store, at, &Query::Changes { which: Which::Prefix(b""), after: Offset(0), limit: u32::MAX });
    let Answer::Changes { changes, .. } = answer(&bytes) else { panic!("no changes") };
    let changes = changes.into_iter().map(|change| (change.offset, change.kind, change.key.to_vec())).collect();
    Model { held, changes }
}

fn half(model: &Model, goes: impl Fn(&[u8]) -> bool) -> Model {
    let of_half = |(_, _, key): &&(Offset, Kind, Vec<u8>)| goes(key);
    Model {
        held: model.held.iter().filter(|(key, _)| goes(key)).map(|(key, held)| (key.clone(), held.clone())).collect(),
        changes: model.changes.iter().filter(of_half).cloned().collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_machine_does_what_the_model_does(steps in vec(step(), 1..60)) {
        let (mut store, mut model) = (Store::new(), Model::default());
        let mut time = 0;
        for (offset, (later, operations)) in (1..).zip(&steps) {
            time += later;
            run(&mut store, &mut model, at(offset, time), operations);
            assert_eq!(store.count(), model.held.len());
            assert_eq!(store.due(), model.held.values().filter_map(|held| held.expires).min());
        }
        let now = at(1000, time);
        assert_eq!(shown(&store, now), model);
        let again = afresh(&store);
        assert_eq!((again.digest(), again.snapshot()), (store.digest(), store.snapshot()));
        assert_eq!(shown(&again, now), model.clone());
        // What is due is not shown, whether or not it has been advanced over.
        let later = at(1000, time + 7);
        let read_ahead = shown(&store, later).held;
        model.advance(later);
        assert_eq!(read_ahead, model.held);
    }

    #[test]
    fn halves_are_as_if_they_had_always_been_apart(steps in vec(step(), 1..60), first in 0..HashSlot::COUNT) {
        let first = HashSlot(first);
        let goes = |key: &[u8]| HashSlot::of(key) >= first;
        let (mut whole, mut model) = (Store::new(), Model::default());
        let (mut lower, mut upper) = (Store::new(), Store::new());
        let mut time = 0;
        for (offset, (later, operations)) in (1..).zip(&steps) {
            time += later;
            let now = at(offset, time);
            run(&mut whole, &mut model, now, operations);
            lower.advance(now);
            upper.advance(now);
            let owner = if operations.first().is_some_and(|first| goes(first.key)) { &mut upper } else { &mut lower };
            apply(owner, now, &encode(operations));
        }
        let gone = whole.split(first);
        let now = at(1000, time);
        assert_eq!(shown(&whole, now), half(&model, |key| !goes(key)));
        assert_eq!(shown(&*gone, now), half(&model, goes));
        assert_eq!((whole.digest(), whole.snapshot()), (lower.digest(), lower.snapshot()));
        assert_eq!((gone.digest(), gone.snapshot()), (upper.digest(), upper.snapshot()));
        assert_eq!((whole.due(), gone.due()), (lower.due(), upper.due()));
        assert_eq!((whole.count(), gone.count()), (lower.count(), upper.count()));
    }
}

/// Longer than a ring, with more keys than a block: everything that is kept up to date against the same made afresh.
#[test]
fn a_long_life_leaves_nothing_out_of_step() {
    let mut rng = atoll_types::Rng::new(5);
    let mut store = Store::new();
    for offset in 1..=60_000 {
        let key = format!("key {}", rng.below(5000));
        let value = vec![b'v'; rng.below(40) as usize];
        let ttl = if rng.one_in(3) { Ttl::After(Duration::from_micros(rng.below(20_000))) } else { Ttl::Never };
        let actions =
            [Action::Put { value: &value, ttl }, Action::Delete, Action::Append { value: b"x", most: u64::MAX }];
        let action = rng.pick(&actions).copied().unwrap_or(Action::Check);
        apply(&mut store, at(offset, offset), &encode(&[Operation::new(key.as_bytes(), action)]));
        if offset % 15_000 == 0 {
            let again = afresh(&store);
            assert_eq!((again.digest(), again.snapshot()), (store.digest(), store.snapshot()));
            assert_eq!((again.count(), again.due()), (store.count(), store.due()));
            let goes = HashSlot(rng.below(u64::from(HashSlot::COUNT)) as u16);
            let (mut lower, count) = (again, store.count());
            let upper = lower.split(goes);
            assert_eq!((afresh(&lower).digest(), afresh(&*upper).digest()), (lower.digest(), upper.digest()));
            assert_eq!(lower.count() + upper.count(), count);
        }
    }
}
