//! What each operation does, what it refuses, and how streams are read.

use crate::{afresh, answer, apply, at, operation, outcomes, read};
use atoll_stream::{
    Action, Answer, Failure, Id, Info, Operation, Outcome, Query, Retention, StreamOffset, Streams, Trim,
};
use atoll_stream::{NAME_MOST, OPERATIONS_MOST, PAYLOAD_MOST};
use atoll_types::{HashSlot, StateMachine, Time};
use std::time::Duration;

fn auto(payload: &[u8]) -> Action<'_> {
    Action::Append { id: Id::Auto, payload }
}

/// Appends messages `1`, `2`, … to the stream, each at the time of its number.
fn filled(stream: &[u8], count: u64) -> Streams {
    let mut streams = Streams::new();
    for number in 1..=count {
        let payload = number.to_string();
        apply(&mut streams, at(number, number), &[operation(stream, auto(payload.as_bytes()))]);
    }
    streams
}

fn one(streams: &mut Streams, time: u64, stream: &[u8], action: Action<'_>) -> Outcome {
    let bytes = apply(streams, at(1000, time), &[operation(stream, action)]);
    assert_eq!(afresh(streams).digest(), streams.digest());
    outcomes(&bytes)[0]
}

fn failure(streams: &mut Streams, operations: &[Operation<'_>]) -> (u16, Failure) {
    let before = (streams.digest(), streams.snapshot(), streams.count());
    let bytes = apply(streams, at(1000, 0), operations);
    assert_eq!((streams.digest(), streams.snapshot(), streams.count()), before, "nothing changed");
    let Answer::Failed { operation, why } = answer(&bytes) else { panic!("it did not fail") };
    (operation, why)
}

fn info(streams: &Streams, stream: &[u8], time: u64) -> Option<Info> {
    let bytes = read(streams, at(1000, time), &Query::Info { stream });
    if answer(&bytes) == Answer::Absent {
        return None;
    }
    let Answer::Info(info) = answer(&bytes) else { panic!("no info") };
    Some(info)
}

/// The offsets that a read gives and where to go on, or the oldest.
type Seen = Result<(Vec<u64>, Option<u64>), u64>;

fn seen(bytes: &[u8]) -> Seen {
    if let Answer::Reset { oldest } = answer(bytes) {
        return Err(oldest.0);
    }
    let Answer::Messages { messages, next } = answer(bytes) else { panic!("no messages") };
    assert!(messages.iter().all(|message| message.payload == message.offset.to_string().as_bytes()));
    assert!(messages.iter().all(|message| message.time == Time(message.offset.0)));
    Ok((messages.iter().map(|message| message.offset.0).collect(), next.map(|next| next.0)))
}

fn forward(streams: &Streams, from: Option<u64>, limit: u32, bytes: u32) -> Seen {
    let from = from.map(StreamOffset);
    seen(&read(streams, at(1000, 0), &Query::Read { stream: b"s", from, limit, bytes }))
}

fn back(streams: &Streams, from: Option<u64>, limit: u32, bytes: u32) -> Seen {
    let from = from.map(StreamOffset);
    seen(&read(streams, at(1000, 0), &Query::ReadReverse { stream: b"s", from, limit, bytes }))
}

fn removed(count: u64) -> Outcome {
    Outcome::Removed { existed: true, count }
}

fn appended(offset: u64, time: u64) -> Outcome {
    Outcome::Appended { offset: StreamOffset(offset), time: Time(time) }
}

#[test]
fn messages_are_numbered_from_one_without_gaps() {
    let mut streams = Streams::new();
    assert_eq!(one(&mut streams, 7, b"s", auto(b"a")), appended(1, 7));
    assert_eq!(one(&mut streams, 8, b"t", auto(b"b")), appended(1, 8));
    assert_eq!(one(&mut streams, 9, b"s", auto(b"")), appended(2, 9));
    let exactly = |offset| Action::Append { id: Id::Exactly(StreamOffset(offset)), payload: b"c" };
    assert_eq!(one(&mut streams, 9, b"s", exactly(3)), appended(3, 9));
    for offset in [0, 3, 5, u64::MAX] {
        let expected = (0, Failure::NotNext { next: StreamOffset(4) });
        assert_eq!(failure(&mut streams, &[operation(b"s", exactly(offset))]), expected);
    }
    assert_eq!(failure(&mut streams, &[operation(b"new", exactly(2))]).1, Failure::NotNext { next: StreamOffset(1) });
    assert_eq!(streams.count(), 2);
}

#[test]
fn reads_go_on_where_they_stopped() {
    let streams = filled(b"s", 12);
    assert_eq!(forward(&streams, None, 5, 100), Ok((vec![1, 2, 3, 4, 5], Some(6))));
    assert_eq!(forward(&streams, Some(6), 100, 6), Ok((vec![6, 7, 8, 9, 10], Some(11))), "six bytes");
    assert_eq!(forward(&streams, Some(11), 100, 100), Ok((vec![11, 12], Some(13))));
    assert_eq!(forward(&streams, Some(13), 100, 100), Ok((vec![], Some(13))), "the tail, for who waits");
    assert_eq!(forward(&streams, Some(40), 100, 100), Ok((vec![], Some(40))));
    assert_eq!(forward(&streams, Some(3), 0, 0), Ok((vec![3], Some(4))), "whoever reads gets on");
    assert_eq!(forward(&streams, Some(0), 9, 9), Err(1), "there is no message 0");
    assert_eq!(back(&streams, None, 3, 100), Ok((vec![12, 11, 10], Some(9))));
    assert_eq!(back(&streams, Some(2), 3, 100), Ok((vec![2, 1], None)));
    assert_eq!(back(&streams, Some(99), 1, 100), Ok((vec![12], Some(11))));
    let absent = read(&streams, at(1, 1), &Query::Read { stream: b"t", from: None, limit: 1, bytes: 1 });
    assert_eq!(answer(&absent), Answer::Absent);
}

#[test]
fn trims_forget_the_oldest() {
    let mut streams = filled(b"s", 12);
    assert_eq!(one(&mut streams, 0, b"s", Action::Trim { by: Trim::Count(10) }), removed(2));
    assert_eq!(one(&mut streams, 0, b"s", Action::Trim { by: Trim::Count(10) }), removed(0));
    assert_eq!(one(&mut streams, 0, b"s", Action::Trim { by: Trim::Before(StreamOffset(5)) }), removed(2));
    assert_eq!(one(&mut streams, 0, b"s", Action::Trim { by: Trim::OlderThan(Time(7)) }), removed(2));
    assert_eq!(forward(&streams, Some(6), 9, 99), Err(7));
    assert_eq!(back(&streams, Some(6), 9, 99), Err(7));
    assert_eq!(back(&streams, Some(8), 9, 99), Ok((vec![8, 7], None)));
    assert_eq!(one(&mut streams, 0, b"s", Action::Trim { by: Trim::Bytes(5) }), removed(4), "10, 11, 12 have six");
    let info = info(&streams, b"s", 0).expect("it is there");
    assert_eq!((info.first.0, info.next.0, info.length, info.bytes), (11, 13, 2, 4));
    assert_eq!(one(&mut streams, 0, b"s", Action::Trim { by: Trim::Before(StreamOffset(u64::MAX)) }), removed(2));
    assert_eq!(forward(&streams, None, 9, 99), Ok((vec![], Some(13))));
    assert_eq!(one(&mut streams, 0, b"s", auto(b"13")), appended(13, 0), "an empty stream goes on counting");
    let nothing = Outcome::Removed { existed: false, count: 0 };
    assert_eq!(one(&mut streams, 0, b"t", Action::Trim { by: Trim::Count(1) }), nothing);
    assert_eq!(streams.count(), 1, "a trim makes no stream");
}

#[test]
fn deleted_messages_leave_holes() {
    let mut streams = filled(b"s", 6);
    let delete =
        |offsets: &[u64]| Action::DeleteEntries { offsets: offsets.iter().copied().map(StreamOffset).collect() };
    assert_eq!(one(&mut streams, 0, b"s", delete(&[3, 4, 3, 0, 7, u64::MAX])), removed(2));
    assert_eq!(forward(&streams, Some(2), 2, 99), Ok((vec![2, 5], Some(6))));
    assert_eq!(back(&streams, Some(4), 9, 99), Ok((vec![2, 1], None)));
    assert_eq!(one(&mut streams, 0, b"s", delete(&[1, 2])), removed(2));
    let left = info(&streams, b"s", 0).expect("it is there");
    assert_eq!((left.first.0, left.length, left.bytes), (5, 2, 2), "holes before the oldest are gone");
    assert_eq!(one(&mut streams, 0, b"s", delete(&[6, 5])), removed(2));
    assert_eq!(info(&streams, b"s", 0).map(|info| (info.first.0, info.length)), Some((7, 0)));
}

#[test]
fn a_stream_made_again_goes_on_counting() {
    let mut streams = filled(b"{a}s", 3);
    one(&mut streams, 0, b"{a}long", auto(b""));
    assert_eq!(one(&mut streams, 0, b"{a}s", Action::Delete), removed(3));
    assert_eq!(one(&mut streams, 0, b"{a}s", Action::Delete), Outcome::Removed { existed: false, count: 0 });
    assert_eq!(info(&streams, b"{a}s", 0), None);
    let mut streams = afresh(&streams);
    assert_eq!(one(&mut streams, 0, b"{a}s", auto(b"")), appended(4, 0));
    assert_eq!(one(&mut streams, 0, b"{a}other", auto(b"")), appended(4, 0), "as does every new one of the slot");
    assert_eq!(one(&mut streams, 0, b"{a}long", auto(b"")), appended(2, 0));
    assert_eq!(one(&mut streams, 0, b"elsewhere", auto(b"")), appended(1, 0));
    assert_eq!(one(&mut streams, 0, b"{a}long", Action::Delete), removed(2));
    assert_eq!(one(&mut streams, 0, b"{a}long", auto(b"")), appended(4, 0), "a floor never sinks");
}

#[test]
fn retention_holds_after_every_entry() {
    let mut streams = filled(b"s", 9);
    let retention = Retention { most_count: Some(4), ..Retention::default() };
    assert_eq!(one(&mut streams, 9, b"s", Action::Configure { retention }), Outcome::Configured { existed: true });
    assert_eq!(info(&streams, b"s", 9).map(|info| info.first.0), Some(6));
    one(&mut streams, 10, b"s", auto(b"10"));
    assert_eq!(forward(&streams, None, 9, 99), Ok((vec![7, 8, 9, 10], Some(11))));
    let retention = Retention { most_bytes: Some(3), ..Retention::default() };
    one(&mut streams, 10, b"s", Action::Configure { retention });
    assert_eq!(forward(&streams, None, 9, 99), Ok((vec![9, 10], Some(11))));
    assert_eq!(one(&mut streams, 11, b"s", auto(b"too long to be kept")), appended(11, 11));
    assert_eq!(info(&streams, b"s", 9).map(|info| (info.first.0, info.length)), Some((12, 0)));
    assert_eq!(one(&mut streams, 9, b"new", Action::Configure { retention }), Outcome::Configured { existed: false });
    assert_eq!(info(&streams, b"new", 9).map(|info| (info.first.0, info.retention)), Some((1, retention)));
}

#[test]
fn what_is_too_old_goes_with_the_logs_time() {
    let mut streams = filled(b"s", 9);
    let retention = Retention { most_age: Some(Duration::from_micros(10)), ..Retention::default() };
    one(&mut streams, 9, b"s", Action::Configure { retention });
    assert_eq!(streams.due(), Some(Time(11)));
    streams.advance(at(1000, 12));
    assert_eq!((streams.due(), info(&streams, b"s", 12).map(|info| info.first.0)), (Some(Time(13)), Some(3)));
    let ahead = info(&streams, b"s", 15).expect("it is there");
    assert_eq!((ahead.first.0, ahead.length, ahead.bytes), (6, 4, 4), "a read does not see what is due");
    let query = Query::Read { stream: b"s", from: Some(StreamOffset(5)), limit: 9, bytes: 99 };
    assert_eq!(seen(&read(&streams, at(1000, 15), &query)), Err(6));
    let query = Query::ReadReverse { stream: b"s", from: None, limit: 9, bytes: 99 };
    assert_eq!(seen(&read(&streams, at(1000, 15), &query)), Ok((vec![9, 8, 7, 6], None)));
    assert_eq!(answer(&read(&streams, at(1000, 15), &Query::Length { stream: b"s" })), Answer::Number(4));
    streams.advance(at(1000, 100));
    assert_eq!((streams.due(), info(&streams, b"s", 100).map(|info| info.length)), (None, Some(0)));
    let retention = Retention { most_age: Some(Duration::MAX), ..Retention::default() };
    one(&mut streams, 100, b"s", Action::Configure { retention });
    one(&mut streams, 100, b"s", auto(b"10"));
    assert_eq!(streams.due(), None, "beyond the end of time");
}

#[test]
fn a_batch_is_done_as_a_whole_or_not_at_all() {
    let mut streams = filled(b"{a}s", 3);
    let exactly = |offset| Action::Append { id: Id::Exactly(StreamOffset(offset)), payload: b"x" };
    let batch = [
        operation(b"{a}s", exactly(4)),
        operation(b"{a}t", exactly(1)),
        operation(b"{a}s", auto(b"5")),
        operation(b"{a}s", Action::Delete),
        operation(b"{a}s", exactly(6)),
        operation(b"{a}u", Action::Configure { retention: Retention::default() }),
        operation(b"{a}u", exactly(6)),
        operation(b"{a}t", exactly(2)),
    ];
    let mut short = batch.to_vec();
    short.push(operation(b"{a}t", exactly(2)));
    assert_eq!(failure(&mut streams, &short), (8, Failure::NotNext { next: StreamOffset(3) }));
    let bytes = apply(&mut streams, at(9, 9), &batch);
    let expected = [
        appended(4, 9),
        appended(1, 9),
        appended(5, 9),
        removed(5),
        appended(6, 9),
        Outcome::Configured { existed: false },
        appended(6, 9),
        appended(2, 9),
    ];
    assert_eq!(outcomes(&bytes), expected);
    assert_eq!(afresh(&streams).digest(), streams.digest());
    let crossing = apply(&mut streams, at(10, 10), &[operation(b"a", auto(b"")), operation(b"b", auto(b""))]);
    let expected = Answer::CrossSlot { first: HashSlot::of(b"a"), other: HashSlot::of(b"b") };
    assert_eq!((answer(&crossing), streams.count()), (expected, 3));
}

#[test]
fn too_much_is_refused() {
    let mut streams = Streams::new();
    let (name, payload) = (vec![b'n'; NAME_MOST + 1], vec![0; PAYLOAD_MOST + 1]);
    assert_eq!(failure(&mut streams, &[operation(&name, auto(b""))]), (0, Failure::NameTooLong));
    assert_eq!(failure(&mut streams, &[operation(b"s", auto(&payload))]), (0, Failure::PayloadTooLong));
    let many = vec![operation(b"s", auto(b"")); OPERATIONS_MOST + 1];
    assert_eq!(failure(&mut streams, &many), (1024, Failure::TooManyOperations));
    assert_eq!(one(&mut streams, 0, &name[1..], auto(&payload[1..])), appended(1, 0));
}

#[test]
fn names_are_listed_in_order() {
    let mut streams = Streams::new();
    for name in [&b"b1"[..], b"a", b"b3", b"c", b"b2"] {
        one(&mut streams, 0, name, auto(b""));
    }
    let list = |prefix: &'static [u8], after: Option<&'static [u8]>, limit| {
        let bytes = read(&streams, at(1000, 0), &Query::List { prefix, after, limit });
        let Answer::Names { names, stopped_at } = answer(&bytes) else { panic!("no names") };
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        (names.into_iter().map(text).collect::<Vec<_>>().join(" "), stopped_at.map(text))
    };
    assert_eq!(list(b"", None, 9), ("a b1 b2 b3 c".to_owned(), None));
    assert_eq!(list(b"b", None, 2), ("b1 b2".to_owned(), Some("b2".to_owned())));
    assert_eq!(list(b"b", Some(b"b2"), 2), ("b3".to_owned(), None));
    assert_eq!(list(b"b", Some(b"a"), 1), ("b1".to_owned(), Some("b1".to_owned())));
}

#[test]
fn commands_that_need_memory_say_so() {
    let streams = filled(b"s", 1);
    let grows = |name, action| streams.grows(&crate::encode(&[operation(name, action)]));
    let configure = || Action::Configure { retention: Retention::default() };
    assert!(grows(b"s", auto(b"")) && grows(b"new", configure()) && !grows(b"s", configure()));
    assert!(!grows(b"s", Action::Delete) && !grows(b"s", Action::Trim { by: Trim::Count(0) }));
}
