//! Scans and changes, page by page.

use crate::{answer, apply, at, encode, read};
use atoll_kv::{Action, Answer, CHANGES_MOST, Kind, Operation, Query, Store, Ttl, Which};
use atoll_types::{HashSlot, Offset, StateMachine, Time};

fn put(store: &mut Store, offset: u64, key: &[u8]) {
    let action = Action::Put { value: b"value", ttl: Ttl::Never };
    apply(store, at(offset, 0), &encode(&[Operation::new(key, action)]));
}

fn filled(count: u64) -> Store {
    let mut store = Store::new();
    (1..=count).for_each(|offset| put(&mut store, offset, format!("key {:05}", offset * 7 % count).as_bytes()));
    store
}

/// All pages of a scan: the keys, and how many pages there were.
fn pages(store: &Store, prefix: &[u8], slot: Option<HashSlot>, limit: u32, bytes: u32) -> (Vec<Vec<u8>>, usize) {
    let (mut keys, mut count) = (Vec::new(), 0);
    let mut after: Option<Vec<u8>> = None;
    loop {
        let query = Query::Scan { prefix, after: after.as_deref(), slot, values: true, limit, bytes };
        let page = read(store, at(1 << 40, 0), &query);
        let Answer::Scanned(scanned) = answer(&page) else { panic!("no scan") };
        count += 1;
        keys.extend(scanned.found.iter().map(|(key, _)| key.to_vec()));
        match scanned.stopped_at {
            Some(key) => after = Some(key.to_vec()),
            None => return (keys, count),
        }
    }
}

#[test]
fn a_scan_gives_every_key_once_in_order() {
    let store = filled(1000);
    let all: Vec<Vec<u8>> = (0..1000).map(|number| format!("key {number:05}").into_bytes()).collect();
    assert_eq!(pages(&store, b"", None, 100, 1 << 20), (all.clone(), 10));
    assert_eq!(pages(&store, b"key 001", None, 7, 1 << 20), (all[100..200].to_vec(), 15));
    assert_eq!(pages(&store, b"", None, 1000, 140), (all.clone(), 100), "ten keys and values of fourteen bytes");
    assert_eq!(pages(&store, b"", None, 0, 0).0, all, "each page goes on by one key at least");
    assert_eq!(pages(&store, b"nothing", None, 10, 10), (vec![], 1));
}

#[test]
fn a_scan_of_one_slot_looks_at_a_bounded_number_of_keys() {
    let store = filled(40_000);
    let slot = HashSlot::of(b"key 00017");
    let (keys, count) = pages(&store, b"", Some(slot), 10, 1 << 20);
    assert!(keys.contains(&b"key 00017".to_vec()) && keys.iter().all(|key| HashSlot::of(key) == slot));
    let expected = (0..40_000).filter(|number| HashSlot::of(format!("key {number:05}").as_bytes()) == slot).count();
    assert_eq!((keys.len(), count), (expected, 3));
}

/// Offsets and keys, and up to where; or from where on there are any.
type Seen = Result<(Vec<(u64, Vec<u8>)>, u64), u64>;

fn changes(store: &Store, which: Which<'_>, after: u64, limit: u32) -> Seen {
    let bytes = read(store, at(5000, 0), &Query::Changes { which, after: Offset(after), limit });
    if let Answer::Reset { oldest } = answer(&bytes) {
        return Err(oldest.0);
    }
    let Answer::Changes { changes, until } = answer(&bytes) else { panic!("no changes") };
    Ok((changes.iter().map(|change| (change.offset.0, change.key.to_vec())).collect(), until.0))
}

#[test]
fn a_watcher_goes_on_where_it_stopped() {
    let mut store = Store::new();
    let action = Action::Put { value: b"", ttl: Ttl::Never };
    (1..=3).for_each(|offset| put(&mut store, offset, format!("{{a}}{offset}").as_bytes()));
    let batch = [Operation::new(b"{a}x", action), Operation::new(b"{a}y", action), Operation::new(b"{a}1", action)];
    apply(&mut store, at(4, 0), &encode(&batch));
    let key = |offset: u64, key: &[u8]| (offset, key.to_vec());
    assert_eq!(changes(&store, Which::Key(b"{a}1"), 0, 10), Ok((vec![key(1, b"{a}1"), key(4, b"{a}1")], 5000)));
    assert_eq!(changes(&store, Which::Key(b"{a}1"), 1, 10), Ok((vec![key(4, b"{a}1")], 5000)));
    assert_eq!(changes(&store, Which::Prefix(b"{a}"), 0, 2), Ok((vec![key(1, b"{a}1"), key(2, b"{a}2")], 2)));
    let whole = vec![key(3, b"{a}3"), key(4, b"{a}x"), key(4, b"{a}y"), key(4, b"{a}1")];
    assert_eq!(changes(&store, Which::Prefix(b""), 2, 2), Ok((whole, 5000)), "a batch is never cut");
    assert_eq!(changes(&store, Which::Prefix(b""), 6000, 2), Ok((vec![], 6000)));
}

#[test]
fn a_watcher_that_is_too_late_is_told() {
    let store = filled(CHANGES_MOST as u64 + 10);
    assert_eq!(changes(&store, Which::Prefix(b""), 63, 1), Err(64), "they are forgotten many at a time");
    let (found, until) = changes(&store, Which::Prefix(b""), 64, 1).expect("it reaches back so far");
    assert_eq!((found[0].0, until), (65, 65));
    let mut late = Store::new();
    assert_eq!(changes(&late, Which::Prefix(b""), 4999, 1), Err(5000), "it has seen nothing of the log");
    assert_eq!(changes(&late, Which::Prefix(b""), 5000, 1), Ok((vec![], 5000)));
    put(&mut late, 700, b"k");
    assert_eq!(changes(&late, Which::Prefix(b""), 698, 1), Err(699), "a log that begins at 700");
    assert!(changes(&late, Which::Prefix(b""), 699, 1).is_ok());
}

#[test]
fn what_expires_is_a_change_in_an_order_of_its_own() {
    let mut store = Store::new();
    let keys: [(&[u8], u64); 4] = [(b"d", 20), (b"c", 10), (b"b", 20), (b"a", 30)];
    for (offset, (key, time)) in (1..).zip(keys) {
        let action = Action::Put { value: b"", ttl: Ttl::At(Time(time)) };
        apply(&mut store, at(offset, 0), &encode(&[Operation::new(key, action)]));
    }
    store.advance(at(9, 20));
    let query = Query::Changes { which: Which::Prefix(b""), after: Offset(4), limit: 9 };
    let bytes = read(&store, at(9, 20), &query);
    let Answer::Changes { changes, .. } = answer(&bytes) else { panic!("no changes") };
    assert!(changes.iter().all(|change| change.kind == Kind::Expired && change.offset == Offset(9)));
    let keys: Vec<&[u8]> = changes.iter().map(|change| change.key).collect();
    assert_eq!(keys, [b"c", b"b", b"d"]);
}
