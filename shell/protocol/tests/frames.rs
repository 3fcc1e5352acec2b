//! Whatever is encoded is decoded again; whatever else arrives is refused without panic, and no prefix of something is
//! taken for the whole.

use atoll_protocol::frame::{self, Next};
use atoll_protocol::{
    Answer, Ask, Hello, Limits, Node, Numbers, Opened, Outcome, Range, Reason, Request, Step, Table, Unreadable,
    Wanted, Welcome,
};
use atoll_types::{
    BucketId, Counter, Epoch, Generation, HashSlot, Mark, NodeId, Offset, Position, Series, SessionId, Slot, Time,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn counter() -> impl Strategy<Value = Counter> {
    let wrapping = (8..=63_u8, slot()).prop_map(|(bits, slot)| Counter::Wrapping { bits, slot });
    prop_oneof![Just(Counter::Full), wrapping]
}

fn slot() -> impl Strategy<Value = HashSlot> {
    (0..HashSlot::COUNT).prop_map(HashSlot)
}

fn wanted() -> impl Strategy<Value = Wanted> {
    (option::of((1..u64::MAX, any::<u64>())), counter(), any::<u16>()).prop_map(|(session, counter, window)| Wanted {
        session: session.map(|(opened, token)| (Time(opened), token)),
        counter,
        window,
    })
}

fn opened() -> impl Strategy<Value = Opened> {
    (any::<u64>(), any::<u64>(), counter(), any::<u16>()).prop_map(|(opened, token, counter, window)| Opened {
        session: SessionId { opened: Time(opened), token, counter },
        window,
    })
}

fn position() -> impl Strategy<Value = Position> {
    any::<(u16, u32, u32, u32, u64, u64)>().prop_map(|(bucket, number, by, revival, slot, offset)| {
        let epoch = Epoch { generation: Generation { number, by: NodeId(by) }, revival, slot: Slot(slot) };
        Position { bucket: BucketId(bucket), mark: Mark { epoch, offset: Offset(offset) } }
    })
}

fn numbers() -> impl Strategy<Value = Numbers> {
    any::<(u64, u64, u32)>().prop_map(|(series, floor, attempt)| Numbers {
        series: Series(series),
        floor: Series(floor),
        attempt,
    })
}

/// A table in order, from a sorted row of slots.
fn table() -> impl Strategy<Value = Table> {
    let nodes = vec((any::<u32>(), any::<bool>(), "[a-z0-9]{0,9}", "[a-zö.:0-9]{0,20}"), 0..5);
    let ranges = (proptest::collection::btree_set(0..HashSlot::COUNT, 0..9), any::<u32>());
    (any::<(u64, u64)>(), nodes, ranges).prop_map(|((cluster, version), nodes, (firsts, primary))| {
        let nodes =
            nodes.into_iter().map(|(id, present, name, address)| Node { id: NodeId(id), present, name, address });
        let range = |first| Range { first: HashSlot(first), last: HashSlot(first), primary: NodeId(primary) };
        Table { cluster, version, nodes: nodes.collect(), ranges: firsts.into_iter().map(range).collect() }
    })
}

/// The frame that these bytes are, all of them.
fn body(bytes: &[u8]) -> &[u8] {
    for length in 0..bytes.len() {
        assert!(matches!(frame::next(&bytes[..length], bytes.len()), Next::Needs(needed) if needed > length));
    }
    let Next::Whole(body) = frame::next(bytes, bytes.len()) else { panic!("no frame") };
    assert_eq!(body.len() + frame::HEADER, bytes.len());
    body
}

fn same_request(request: &Request<'_>) {
    let mut bytes = Vec::new();
    request.encode(&mut bytes);
    assert_eq!(Request::decode(body(&bytes)).as_ref(), Some(request));
}

fn same_answer(answer: &Answer<'_>) {
    let mut bytes = Vec::new();
    answer.encode(&mut bytes);
    assert_eq!(Answer::decode(body(&bytes)).as_ref(), Some(answer));
}

proptest! {
    #[test]
    fn requests(
        number: u64,
        slot in option::of(slot()),
        numbers in option::of(numbers()),
        after in option::of(position()),
        wanted in wanted(),
        bytes in vec(any::<u8>(), 0..40),
    ) {
        let (command, query) = (&bytes[..], &bytes[..]);
        same_request(&Request { number, ask: Ask::Write { slot, numbers, command } });
        same_request(&Request { number, ask: Ask::Read { slot, query } });
        same_request(&Request { number, ask: Ask::Stale { slot, after, query } });
        for ask in [Ask::Session(wanted), Ask::Table, Ask::Ping] {
            same_request(&Request { number, ask });
        }
    }

    #[test]
    fn answers(
        number: u64,
        hopped: bool,
        duplicate: bool,
        position in position(),
        payload in vec(any::<u8>(), 0..40),
        reason in 0..Reason::ALL.len(),
        text in ".{0,20}",
        opened in opened(),
        table in table(),
    ) {
        let outcomes = [
            Outcome::Done { duplicate, position, payload: &payload },
            Outcome::NotApplied { reason: Reason::ALL[reason], text: &text },
            Outcome::Unknown,
            Outcome::Session(opened),
            Outcome::Table(table),
            Outcome::Pong { table: number },
            Outcome::Goodbye { text: &text },
        ];
        outcomes.into_iter().for_each(|outcome| same_answer(&Answer { number, hopped, outcome }));
    }

    #[test]
    fn first_words(
        wanted in wanted(),
        credential in vec(any::<u8>(), 0..20),
        opened in opened(),
        limits in any::<(u32, u32, u32, u32)>(),
        numbers in any::<(u64, u64)>(),
        text in ".{0,20}",
    ) {
        let hello = Hello { wanted, credential: &credential };
        let mut bytes = Vec::new();
        hello.encode(&mut bytes);
        for length in 0..bytes.len() {
            let needs = matches!(Hello::decode(&bytes[..length]), Ok(Step::Needs(needed)) if needed > length);
            prop_assert!(needs);
        }
        prop_assert_eq!(Hello::decode(&bytes), Ok(Step::Done(hello, bytes.len())));
        let (requests, waiting, request_bytes, session_idle) = limits;
        let limits = Limits { requests, waiting, request_bytes, session_idle };
        let (cluster, table) = numbers;
        let welcome = Welcome::Welcome { opened, limits, cluster, table, name: text.clone() };
        for answer in [welcome, Welcome::Refused { reason: text }] {
            let mut bytes = Vec::new();
            answer.encode(&mut bytes);
            for length in 0..bytes.len() {
                let needs = matches!(Welcome::decode(&bytes[..length]), Ok(Step::Needs(needed)) if needed > length);
                prop_assert!(needs);
            }
            prop_assert_eq!(Welcome::decode(&bytes), Ok(Step::Done(answer, bytes.len())));
        }
    }

    #[test]
    fn nonsense_is_refused_without_panic(mut bytes in vec(any::<u8>(), 0..200), kind: u8) {
        let _ = frame::next(&bytes, 100);
        let _ = Request::decode(&bytes);
        let _ = Answer::decode(&bytes);
        if let Some(first) = bytes.first_mut() {
            *first = kind;
            let _ = Request::decode(&bytes);
            let _ = Answer::decode(&bytes);
        }
        let mut greeting = atoll_protocol::MAGIC.to_vec();
        greeting.push(atoll_protocol::VERSION);
        greeting.extend_from_slice(&bytes);
        let _ = Hello::decode(&greeting);
        let _ = Welcome::decode(&greeting);
    }

    #[test]
    fn a_count_alone_reserves_nothing(count: u32) {
        let mut bytes = vec![132];
        bytes.extend_from_slice(&[0; 9 + 16]);
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(&count.to_le_bytes());
        prop_assert_eq!(Answer::decode(&bytes).is_some(), count == 0);
    }
}

#[test]
fn strangers_and_other_versions_are_known_by_their_first_bytes() {
    assert_eq!(Hello::decode(b"*"), Err(Unreadable::Magic));
    assert_eq!(Hello::decode(b"GET /"), Err(Unreadable::Magic));
    assert_eq!(Hello::decode(&[0xa7, b'A', b'T', b'L', 9]), Err(Unreadable::Version(9)));
    assert_eq!(Welcome::decode(b"-ERR max number of clients reached\r\n"), Err(Unreadable::Magic));
    let mut bytes = Vec::new();
    Hello { wanted: Wanted::default(), credential: &[] }.encode(&mut bytes);
    let at = bytes.len() - 2;
    bytes[at..].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_eq!(Hello::decode(&bytes), Err(Unreadable::Malformed), "a credential that is too long");
}

#[test]
fn options_that_are_not_known_are_refused() {
    let mut bytes = Vec::new();
    Request { number: 1, ask: Ask::Write { slot: None, numbers: None, command: b"c" } }.encode(&mut bytes);
    bytes[frame::HEADER + 9] = 2;
    assert_eq!(Request::decode(&bytes[frame::HEADER..]), None);
}
