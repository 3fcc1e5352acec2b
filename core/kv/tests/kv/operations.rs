//! What each operation does, and what it refuses.

use crate::{afresh, answer, apply, at, encode, outcomes, read};
use atoll_kv::{Action, Answer, Condition, Detail, Failure, Operation, Outcome, Query, Remaining, Store, Ttl};
use atoll_kv::{KEY_MOST, OPERATIONS_MOST, VALUE_MOST};
use atoll_types::{HashSlot, Offset, StateMachine, Time};
use std::time::Duration;

fn put(value: &[u8]) -> Action<'_> {
    Action::Put { value, ttl: Ttl::Never }
}

fn value_of(store: &Store, key: &[u8]) -> Option<Vec<u8>> {
    let bytes = read(store, at(1000, 0), &Query::Get { key });
    let Answer::Value(found) = answer(&bytes) else { panic!("no value") };
    found.map(|found| found.value.to_vec())
}

fn ttl_of(store: &Store, key: &[u8]) -> Remaining {
    let bytes = read(store, at(1000, 0), &Query::Ttl { key });
    let Answer::Remaining(remaining) = answer(&bytes) else { panic!("no time") };
    remaining
}

/// Applies one operation that must take effect.
fn one(store: &mut Store, offset: u64, key: &[u8], action: Action<'_>) -> (bool, Option<u64>, Vec<u8>) {
    let bytes = apply(store, at(offset, 100), &encode(&[Operation::new(key, action)]));
    let outcome = outcomes(&bytes)[0];
    let result = match outcome.detail {
        Detail::Nothing => Vec::new(),
        Detail::Length(length) => length.to_string().into_bytes(),
        Detail::Number(number) => number.to_string().into_bytes(),
        Detail::Old(old) => old.unwrap_or(b"nothing").to_vec(),
    };
    (outcome.existed, outcome.version.map(|version| version.0), result)
}

fn failure(store: &mut Store, offset: u64, operations: &[Operation<'_>]) -> (u16, Failure) {
    store.advance(at(offset, 0));
    let before = (store.digest(), store.snapshot(), store.count(), store.due());
    let bytes = apply(store, at(offset, 0), &encode(operations));
    assert_eq!((store.digest(), store.snapshot(), store.count(), store.due()), before, "nothing changed");
    let Answer::Failed { operation, why } = answer(&bytes) else { panic!("it did not fail") };
    (operation, why)
}

#[test]
fn put_and_delete() {
    let mut store = Store::new();
    assert_eq!(one(&mut store, 1, b"k", put(b"one")), (false, Some(1), vec![]));
    assert_eq!(one(&mut store, 2, b"k", put(b"two")), (true, Some(2), vec![]));
    assert_eq!(one(&mut store, 3, b"k", put(b"longer")), (true, Some(3), vec![]));
    assert_eq!(value_of(&store, b"k"), Some(b"longer".to_vec()));
    assert_eq!(one(&mut store, 4, b"k", Action::Delete), (true, None, vec![]));
    assert_eq!(one(&mut store, 5, b"k", Action::Delete), (false, None, vec![]));
    assert_eq!((value_of(&store, b"k"), store.count()), (None, 0));
}

#[test]
fn empty_keys_and_values_are_as_good_as_any() {
    let mut store = Store::new();
    assert_eq!(one(&mut store, 1, b"", put(b"")), (false, Some(1), vec![]));
    assert_eq!(value_of(&store, b""), Some(vec![]));
    assert_eq!(one(&mut store, 2, b"", Action::GetAndDelete), (true, None, vec![]));
}

#[test]
fn get_and_put_and_get_and_delete_tell_the_old_value() {
    let mut store = Store::new();
    let get_and_put = Action::GetAndPut { value: b"new", ttl: Ttl::Never };
    assert_eq!(one(&mut store, 1, b"k", get_and_put), (false, Some(1), b"nothing".to_vec()));
    assert_eq!(one(&mut store, 2, b"k", get_and_put), (true, Some(2), b"new".to_vec()));
    assert_eq!(one(&mut store, 3, b"k", Action::GetAndDelete), (true, None, b"new".to_vec()));
    assert_eq!(one(&mut store, 4, b"k", Action::GetAndDelete), (false, None, b"nothing".to_vec()));
}

#[test]
fn increments_count_and_refuse_what_is_no_number() {
    let mut store = Store::new();
    assert_eq!(one(&mut store, 1, b"n", Action::Increment { by: -7 }), (false, Some(1), b"-7".to_vec()));
    assert_eq!(one(&mut store, 2, b"n", Action::Increment { by: 107 }), (true, Some(2), b"100".to_vec()));
    assert_eq!(value_of(&store, b"n"), Some(b"100".to_vec()));
    let most = Operation::new(b"n", Action::Increment { by: i64::MAX });
    assert_eq!(failure(&mut store, 3, &[most]), (0, Failure::Overflow));
    one(&mut store, 4, b"n", put(b"007"));
    assert_eq!(failure(&mut store, 5, &[most]), (0, Failure::NotAnInteger));
}

#[test]
fn appends_lengthen_up_to_the_limit() {
    let mut store = Store::new();
    assert_eq!(
        one(&mut store, 1, b"k", Action::Append { value: b"ab", most: u64::MAX }),
        (false, Some(1), b"2".to_vec())
    );
    assert_eq!(
        one(&mut store, 2, b"k", Action::Append { value: b"c", most: u64::MAX }),
        (true, Some(2), b"3".to_vec())
    );
    assert_eq!(value_of(&store, b"k"), Some(b"abc".to_vec()));
    let most = vec![0; VALUE_MOST];
    for (value, most) in [(&most[..], u64::MAX), (b"d", 3), (b"", 2)] {
        let operation = Operation::new(b"k", Action::Append { value, most });
        assert_eq!(failure(&mut store, 3, &[operation]), (0, Failure::ValueTooLong), "{most}");
    }
    assert_eq!(one(&mut store, 3, b"k", Action::Append { value: b"d", most: 4 }), (true, Some(3), b"4".to_vec()));
    assert_eq!(one(&mut store, 4, b"other", put(&most)).1, Some(4));
}

#[test]
fn expire_sets_and_removes_and_leaves_the_version() {
    let mut store = Store::new();
    let until = Action::Expire { ttl: Ttl::At(Time(500)) };
    assert_eq!(one(&mut store, 1, b"k", until), (false, None, vec![]));
    one(&mut store, 2, b"k", put(b"v"));
    assert_eq!(one(&mut store, 3, b"k", until), (true, Some(2), vec![]));
    assert_eq!((ttl_of(&store, b"k"), store.due()), (Remaining::Until(Time(500)), Some(Time(500))));
    one(&mut store, 4, b"k", Action::Append { value: b"w", most: u64::MAX });
    one(&mut store, 5, b"k", Action::Put { value: b"x", ttl: Ttl::Keep });
    assert_eq!(ttl_of(&store, b"k"), Remaining::Until(Time(500)), "appends keep it, and puts that say so");
    let after = Action::Expire { ttl: Ttl::After(Duration::from_micros(7)) };
    one(&mut store, 6, b"k", after);
    assert_eq!(ttl_of(&store, b"k"), Remaining::Until(Time(107)), "counted from the log's time");
    one(&mut store, 7, b"k", Action::Expire { ttl: Ttl::Never });
    assert_eq!((ttl_of(&store, b"k"), store.due()), (Remaining::Forever, None));
    one(&mut store, 8, b"k", Action::Expire { ttl: Ttl::After(Duration::MAX) });
    assert_eq!(ttl_of(&store, b"k"), Remaining::Forever, "beyond the end of time");
    assert_eq!(store.digest(), afresh(&store).digest());
}

#[test]
fn what_is_due_goes_and_what_is_due_already_is_not_stored() {
    let mut store = Store::new();
    let short = Action::Put { value: b"v", ttl: Ttl::After(Duration::from_micros(50)) };
    one(&mut store, 1, b"k", short);
    let query = Query::Get { key: b"k" };
    assert!(matches!(answer(&read(&store, at(1, 149), &query)), Answer::Value(Some(_))));
    assert_eq!(answer(&read(&store, at(1, 150), &query)), Answer::Value(None), "although nothing advanced");
    assert_eq!((store.count(), store.due()), (1, Some(Time(150))));
    store.advance(at(2, 149));
    assert_eq!(store.count(), 1);
    store.advance(at(3, 150));
    assert_eq!((store.count(), store.due()), (0, None));

    one(&mut store, 4, b"k", put(b"v"));
    let past = Action::Put { value: b"w", ttl: Ttl::At(Time(100)) };
    assert_eq!(one(&mut store, 5, b"k", past), (true, None, vec![]));
    assert_eq!((store.count(), value_of(&store, b"k")), (0, None));
    one(&mut store, 6, b"k", put(b"v"));
    assert_eq!(one(&mut store, 7, b"k", Action::Expire { ttl: Ttl::At(Time(1)) }), (true, None, vec![]));
    assert_eq!(store.count(), 0);
}

#[test]
fn conditions_hold_or_nothing_happens() {
    let mut store = Store::new();
    let operation = Operation::new(b"k", put(b"v"));
    let absent = Failure::Condition { version: None };
    assert_eq!(failure(&mut store, 1, &[operation.on(Condition::Present)]), (0, absent));
    assert_eq!(failure(&mut store, 1, &[operation.on(Condition::Version(Offset(0)))]), (0, absent));
    apply(&mut store, at(2, 0), &encode(&[operation.on(Condition::Absent)]));
    let two = Failure::Condition { version: Some(Offset(2)) };
    assert_eq!(failure(&mut store, 3, &[operation.on(Condition::Absent)]), (0, two));
    assert_eq!(failure(&mut store, 3, &[operation.on(Condition::Version(Offset(1)))]), (0, two));
    let checked = apply(&mut store, at(3, 0), &encode(&[Operation::new(b"k", Action::Check).on(Condition::Present)]));
    let expected = Outcome { existed: true, version: Some(Offset(2)), detail: Detail::Nothing };
    assert_eq!(outcomes(&checked), [expected]);
    apply(&mut store, at(4, 0), &encode(&[operation.on(Condition::Version(Offset(2)))]));
    one(&mut store, 5, b"k", Action::Delete);
    one(&mut store, 6, b"k", put(b"v"));
    let again = operation.on(Condition::Version(Offset(4)));
    let six = Failure::Condition { version: Some(Offset(6)) };
    assert_eq!(failure(&mut store, 7, &[again]), (0, six), "a key made again has a version of its own");
}

#[test]
fn a_batch_sees_what_it_did_and_is_undone_as_a_whole() {
    let mut store = Store::new();
    let batch = [
        Operation::new(b"{a}1", put(b"5")).on(Condition::Absent),
        Operation::new(b"{a}1", Action::Increment { by: 2 }).on(Condition::Version(Offset(1))),
        Operation::new(b"{a}2", put(b"x")),
        Operation::new(b"{a}2", Action::Delete).on(Condition::Present),
    ];
    let bytes = apply(&mut store, at(1, 0), &encode(&batch));
    assert_eq!(outcomes(&bytes)[1].detail, Detail::Number(7));
    assert_eq!(store.count(), 1);
    let failing = [
        Operation::new(b"{a}1", Action::GetAndDelete),
        Operation::new(b"{a}3", put(b"new")),
        Operation::new(b"{a}1", Action::Put { value: b"x", ttl: Ttl::At(Time(9)) }),
        Operation::new(b"{a}1", Action::Append { value: b"yz", most: u64::MAX }),
        Operation::new(b"{a}1", Action::Increment { by: 1 }),
    ];
    assert_eq!(failure(&mut store, 2, &failing), (4, Failure::NotAnInteger));
    assert_eq!(value_of(&store, b"{a}1"), Some(b"7".to_vec()));
}

#[test]
fn keys_of_different_slots_are_refused() {
    let mut store = Store::new();
    let bytes = apply(&mut store, at(1, 0), &encode(&[Operation::new(b"a", put(b"")), Operation::new(b"b", put(b""))]));
    let expected = Answer::CrossSlot { first: HashSlot::of(b"a"), other: HashSlot::of(b"b") };
    assert_eq!((answer(&bytes), store.count()), (expected, 0));
}

#[test]
fn too_much_is_refused() {
    let mut store = Store::new();
    let long = vec![b'k'; KEY_MOST + 1];
    assert_eq!(failure(&mut store, 1, &[Operation::new(&long, put(b""))]), (0, Failure::KeyTooLong));
    let value = vec![0; VALUE_MOST + 1];
    assert_eq!(failure(&mut store, 1, &[Operation::new(b"k", put(&value))]), (0, Failure::ValueTooLong));
    assert_eq!(one(&mut store, 2, &long[1..], put(b"v")).1, Some(2));
    let many = vec![Operation::new(b"k", Action::Delete); OPERATIONS_MOST + 1];
    assert_eq!(failure(&mut store, 3, &many), (1024, Failure::TooManyOperations));
    assert_eq!(outcomes(&apply(&mut store, at(3, 0), &encode(&many[1..]))).len(), OPERATIONS_MOST);
    assert!(outcomes(&apply(&mut store, at(4, 0), &encode(&[]))).is_empty());

    one(&mut store, 5, b"k", put(&value[1..]));
    let old = vec![Operation::new(b"k", Action::GetAndPut { value: &value[1..], ttl: Ttl::Never }); 3];
    assert_eq!(failure(&mut store, 6, &old).1, Failure::AnswerTooLong);
}

#[test]
fn commands_that_need_memory_say_so() {
    let mut store = Store::new();
    one(&mut store, 1, b"k", put(b"12345"));
    let grows = |key: &[u8], action| store.grows(&encode(&[Operation::new(key, action)]));
    assert!(!grows(b"k", put(b"54321")) && !grows(b"k", put(b"")) && grows(b"k", put(b"123456")));
    assert!(grows(b"new", put(b"")) && grows(b"new", Action::Increment { by: 1 }));
    assert!(!grows(b"k", Action::Increment { by: 1 }) && grows(b"k", Action::Append { value: b"x", most: u64::MAX }));
    assert!(!grows(b"k", Action::Delete) && !grows(b"k", Action::GetAndDelete) && !grows(b"k", Action::Check));
    assert!(!grows(b"k", Action::Get) && !grows(b"new", Action::Get));
    assert!(!store.grows(b"nonsense"));
}

#[test]
fn the_short_way_to_a_put_gives_the_same_bytes() {
    for (key, value) in [(&b""[..], &b""[..]), (b"key", b"value"), (&[7; 300], &[9; 70_000])] {
        let mut bytes = Vec::new();
        atoll_kv::put_command(key, value, &mut bytes);
        assert_eq!(bytes, encode(&[Operation::new(key, Action::Put { value, ttl: Ttl::Never })]));
        assert!(atoll_kv::is_done(&apply(&mut Store::new(), at(1, 1), &bytes)));
        assert!(!atoll_kv::is_done(&apply(&mut Store::new(), at(1, 1), &bytes[1..])));
    }
}
