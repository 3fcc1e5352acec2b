//! One of everything about buckets that is ever encoded.

use atoll_node::shard::door::{Answer, Ask, Reason, Request};
use atoll_node::shard::message::{Hop, Hopped, ShardMessage, Vouch, Vouched};
use atoll_replica::Run;
use atoll_replica::message as replica;
use atoll_types::{
    BucketBody, BucketId, BucketRecord, BucketSnapshot, Counter, Entries, Epoch, Generation, HashSlot, Mark, NodeId,
    Offset, Payload, Position, Principal, Series, SessionId, SessionUse, Slot, SlotRange, Time, put_entry,
};

const EPOCH: Epoch = Epoch { generation: Generation { number: 1, by: NodeId(3) }, revival: 1, slot: Slot(300) };
const MARK: Mark = Mark { epoch: EPOCH, offset: Offset(70_000) };
const BUCKET: BucketId = BucketId(8192);
const RANGE: SlotRange = SlotRange { first: HashSlot(8192), last: HashSlot(16_383) };

fn usage(counter: Counter) -> SessionUse {
    let session = SessionId { opened: Time(9_000_000), token: u64::MAX, counter };
    SessionUse { session, series: Series(300), floor: Series(7), attempt: 2 }
}

fn entries() -> Entries {
    let write = |usage| BucketBody::Write { slot: HashSlot(9000), usage, command: b"set a 1" };
    let wrapping = Counter::Wrapping { bits: 16, slot: HashSlot(9000) };
    let bodies = [
        write(None),
        write(Some(usage(Counter::Full))),
        write(Some(usage(wrapping))),
        BucketBody::Tick,
        BucketBody::Split,
    ];
    let mut bytes = Vec::new();
    bodies.iter().for_each(|body| put_entry(&mut bytes, Time(1_000_000), body));
    Entries::written(EPOCH, bodies.len() as u32, Time(1_000_000), bytes)
}

fn bodies() -> Vec<replica::Body> {
    use replica::*;
    let partial = Some(Partial { mark: MARK, checksum: 77, have: 1 << 33 });
    vec![
        Body::Open(Open),
        Body::Opened(Opened {
            applied: Offset(9),
            runs: vec![Run { epoch: EPOCH, last: Offset(12) }],
            partial,
            nothing: true,
        }),
        Body::Write(Write {
            round: 8,
            opening: true,
            previous: MARK,
            entries: entries(),
            committed: Offset(6),
            serving: true,
            confirm: true,
            digest: Some((Offset(5), u64::MAX)),
            echo: Time(77),
        }),
        Body::Ack(Ack { held: Offset(9), round: 8, gap: true, full: true, waits: true, sent: Time(78) }),
        Body::Piece(Piece { mark: MARK, length: 5000, checksum: 77, at: 4096, bytes: vec![1; 904].into() }),
        Body::Got(Got { mark: MARK, checksum: 77, have: Some(5000) }),
        Body::Refused(Refused { current: EPOCH }),
    ]
}

pub(crate) fn requests() -> Vec<Request> {
    let payload = Payload::from(&b"get a"[..]);
    let after = Some(Position { bucket: BUCKET, mark: MARK });
    let asks = [
        Ask::Write { usage: Some(usage(Counter::Full)), command: payload.clone() },
        Ask::Read { query: payload.clone() },
        Ask::Stale { query: payload, after },
    ];
    let named = |ask: &Ask| if matches!(ask, Ask::Read { .. }) { &[7; 255][..] } else { &[] };
    let principal = |ask: &Ask| Principal::try_from(named(ask)).expect("it is short enough");
    asks.into_iter()
        .map(|ask| Request { connection: 1 << 40, slot: HashSlot(9000), principal: principal(&ask), ask })
        .collect()
}

fn answers() -> Vec<Answer> {
    let position = Position { bucket: BUCKET, mark: MARK };
    vec![
        Answer::Done { payload: Payload::default(), position, duplicate: true },
        Answer::NotApplied(Reason::Paused),
        Answer::Unknown,
    ]
}

pub(crate) fn messages() -> Vec<ShardMessage> {
    let message = |body| replica::Message { bucket: BUCKET, epoch: EPOCH, body };
    vec![
        ShardMessage::Replicas(bodies().into_iter().map(message).collect()),
        ShardMessage::Hop(Hop {
            number: 9,
            shard: 1,
            floor: 4,
            version: Slot(300),
            hops: 2,
            root: RANGE,
            requests: requests(),
        }),
        ShardMessage::Hopped(Hopped { number: 9, root: RANGE, answers: (0..).zip(answers()).collect() }),
        ShardMessage::Vouch(Vouch { number: 9, shard: 1, shards: 2 }),
        ShardMessage::Vouched(Vouched { number: 9, shard: 1, latest: Some(EPOCH.latest()) }),
        ShardMessage::Vouched(Vouched { number: 9, shard: 1, latest: None }),
    ]
}

pub(crate) fn records() -> Vec<BucketRecord> {
    let (bucket, width) = (BUCKET, 8192);
    let snapshot = BucketSnapshot { mark: MARK, bytes: vec![3; 300].into(), checksum: 5 };
    let lower = SlotRange { first: HashSlot(8192), last: HashSlot(12_287) };
    let upper = SlotRange { first: HashSlot(12_288), last: HashSlot(16_383) };
    vec![
        BucketRecord::Began { bucket, range: RANGE, width, base: Mark::default(), blank: true },
        BucketRecord::Seen { bucket, epoch: EPOCH },
        BucketRecord::Appended { bucket, first: Offset(1), entries: entries() },
        BucketRecord::Cut { bucket, to: Offset(2) },
        BucketRecord::Copied { bucket, range: RANGE, width, snapshot: snapshot.clone() },
        BucketRecord::Image {
            bucket,
            range: RANGE,
            width,
            seen: EPOCH,
            blank: false,
            split_at: Some(MARK),
            snapshot,
            tail: vec![entries(), entries()],
        },
        BucketRecord::Unreadable { bucket },
        BucketRecord::Divided { bucket, at: MARK, lower, upper },
        BucketRecord::Purged { bucket },
    ]
}
