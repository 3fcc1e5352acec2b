//! A table against a sorted map, through lives of different kinds, and what it gives back.

use super::*;
use atoll_types::Rng;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What a key has: version, value, time.
type Held = (Offset, Vec<u8>, Option<Time>);
type Model = BTreeMap<Vec<u8>, Held>;

/// Asserts that everything fits together and is what the model has.
fn check(table: &Table, model: &Model) {
    let held = |record: Record<'_>| (record.version(), record.value().to_vec(), record.expires());
    assert!(table.iter().map(|record| (record.key().to_vec(), held(record))).eq(model.clone()), "in order, once each");
    let mut again = Table::default();
    for record in table.iter() {
        let handle = table.find(record.key()).handle.expect("the index has every key");
        assert_eq!(table.key(handle), record.key());
        let is_listed = |time| table.expiries.contains(&(time, handle));
        assert!(record.expires().is_none_or(is_listed), "the list of times has every expiry");
        again.push(record);
    }
    assert_eq!(
        (table.count, table.digest, table.expiries.len()),
        (again.count, again.digest, again.expiries.len()),
        "all that is kept up to date is what it is when worked out afresh"
    );
    table.heap.check(table.order.iter());
}

fn half(model: &Model, goes: impl Fn(&[u8]) -> bool) -> Model {
    model.iter().filter(|(key, _)| goes(key)).map(|(key, held)| (key.clone(), held.clone())).collect()
}

/// A life of so many steps: values up to `longest`, one step in `deletes` a removal.
fn live(rng: &mut Rng, table: &mut Table, model: &mut Model, steps: u64, longest: u64, deletes: u64) {
    for step in 0..steps {
        let key = rng.below(2000).to_string().into_bytes();
        let spot = table.find(&key);
        assert_eq!(spot.handle.is_some(), model.contains_key(&key));
        if let Some(handle) = spot.handle.filter(|_| rng.one_in(deletes)) {
            table.remove(handle);
            model.remove(&key);
        } else {
            let expires = rng.one_in(3).then(|| Time(rng.below(1000)));
            let value = vec![step as u8; rng.below(longest) as usize];
            table.put(spot, &key, Offset(step), &value, expires);
            model.insert(key, (Offset(step), value, expires));
        }
        if rng.one_in(3) {
            table.tidy();
        }
        let due = model.values().filter_map(|(_, _, expires)| *expires).min();
        assert_eq!(table.due().is_some(), due.is_some());
    }
}

#[test]
fn heap_index_order_and_times_stay_in_step() {
    let mut rng = Rng::new(9);
    let (mut table, mut model) = (Table::default(), Model::new());
    // Short and long, mostly coming and mostly going; some have memory of their own.
    for (longest, deletes) in [(9, 2), (200, 3), (300, 1), (6000, 3), (20, 3), (200, 1), (100, 5)] {
        live(&mut rng, &mut table, &mut model, 4000, longest, deletes);
        table.tidy();
        check(&table, &model);
    }
    let (count, digest) = (table.count, table.digest);
    let goes = |key: &[u8]| key[0] < b'2';
    let gone = table.split(goes);
    check(&table, &half(&model, |key| !goes(key)));
    check(&gone, &half(&model, goes));
    assert_eq!((count, digest), (table.count + gone.count, table.digest.wrapping_add(gone.digest)));
    assert!(gone.from(Bound::Excluded(b"15")).all(|record| record.key() > b"15".as_slice()));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_table_is_a_sorted_map(seed: u64, longest in 1..5000_u64, deletes in 1..6_u64) {
        let mut rng = Rng::new(seed);
        let (mut table, mut model) = (Table::default(), Model::new());
        live(&mut rng, &mut table, &mut model, 600, longest, deletes);
        check(&table, &model);
        let from = rng.below(2000).to_string().into_bytes();
        let beyond: Vec<&[u8]> = model.range(from.clone()..).map(|(key, _)| &key[..]).collect();
        assert!(table.from(Bound::Included(&from)).map(Record::key).eq(beyond.iter().copied()));
        let due: Vec<Vec<u8>> = table.due_by(Time(500)).into_iter().map(|handle| table.key(handle).to_vec()).collect();
        let timed = model.iter().filter_map(|(key, held)| Some((held.2?, key.clone())));
        let mut expected: Vec<(Time, Vec<u8>)> = timed.filter(|(time, _)| time.0 <= 500).collect();
        expected.sort();
        assert_eq!(due, expected.into_iter().map(|(_, key)| key).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_deleted_is_given_back() {
    let mut rng = Rng::new(4);
    let mut table = Table::default();
    let put = |table: &mut Table, number: u64| {
        let key = format!("key:{number:08}").into_bytes();
        table.put(table.find(&key), &key, Offset(number), &[b'v'; 100], None);
    };
    (0..50_000).for_each(|number| put(&mut table, number));
    let full = table.bytes();
    assert!(full / table.count() <= 140, "{} bytes for each of 12 and 100", full / table.count());
    // Nine in ten go, here and there: no page is emptied by itself.
    for number in 0..50_000 {
        if !rng.one_in(10) {
            let handle = table.find(format!("key:{number:08}").as_bytes()).handle.expect("it is there");
            table.remove(handle);
            table.tidy();
        }
    }
    let each = table.bytes() / table.count();
    assert!(each <= 200, "{each} bytes for each that is left");
    // What is written again and again, at any length, takes no more than so much.
    for round in 0..200_000 {
        let number = rng.below(50_000);
        let spot = table.find(format!("key:{number:08}").as_bytes());
        if let Some(handle) = spot.handle {
            let key = table.key(handle).to_vec();
            table.put(spot, &key, Offset(round), &vec![b'w'; 50 + rng.below(100) as usize], None);
            table.tidy();
        }
    }
    let each = table.bytes() / table.count();
    assert!(each <= 230, "{each} bytes for each that was rewritten");
}
