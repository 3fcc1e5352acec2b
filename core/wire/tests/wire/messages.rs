//! Messages: the version byte, the limits, and lengths that lie.

use crate::samples;
use atoll_node::shard::door::{Answer, Reason};
use atoll_node::shard::message::{Hopped, ShardMessage};
use atoll_node::{Envelope, Message};
use atoll_paxos::message::Promise;
use atoll_replica::message::{Body, Write};
use atoll_types::{
    Ballot, BucketBody, BucketId, Entries, Epoch, Held, Mark, Offset, Position, Slot, SlotRange, Time, put_entry,
};
use atoll_wire::message::{DecodeError, FRAME_MAX, LOOSE_MAX, VERSION, decode, decode_and_weigh, encode};

fn encoded(envelope: &Envelope) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(envelope, &mut bytes);
    bytes
}

/// `value` as postcard writes lengths.
fn length(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

#[test]
fn every_message_comes_back_as_it_was() {
    for envelope in samples::envelopes() {
        assert_eq!(decode(&encoded(&envelope)), Ok(envelope));
    }
}

#[test]
fn encoding_appends() {
    let envelope = &samples::envelopes()[0];
    let mut bytes = vec![9, 9];
    encode(envelope, &mut bytes);
    assert_eq!(bytes[..2], [9, 9]);
    assert_eq!(bytes[2], VERSION);
    assert_eq!(decode(&bytes[2..]).as_ref(), Ok(envelope));
}

#[test]
fn another_version_is_named_in_the_refusal() {
    let mut bytes = encoded(&samples::envelopes()[0]);
    for found in [0, VERSION + 1, u8::MAX] {
        bytes[0] = found;
        assert_eq!(decode(&bytes), Err(DecodeError::Version { found }));
    }
}

#[test]
fn a_message_cut_anywhere_is_refused() {
    for envelope in samples::envelopes() {
        let bytes = encoded(&envelope);
        assert_eq!(decode(&[]), Err(DecodeError::Empty));
        for end in 1..bytes.len() {
            assert!(matches!(decode(&bytes[..end]), Err(DecodeError::Malformed { .. })), "cut at {end}");
        }
    }
}

#[test]
fn bytes_after_the_message_are_refused() {
    let mut bytes = encoded(&samples::envelopes()[0]);
    bytes.extend([0, 0]);
    assert_eq!(decode(&bytes), Err(DecodeError::Trailing { extra: 2 }));
}

#[test]
fn a_frame_over_the_limit_is_not_looked_at() {
    let bytes = vec![VERSION + 1; FRAME_MAX + 1];
    assert_eq!(decode(&bytes), Err(DecodeError::TooLong { length: FRAME_MAX + 1, most: FRAME_MAX }));
}

/// Some of the bytes that are replaced are plain numbers: then the result is a message, and holds no more than it was
/// given.
fn refused_or_no_longer(bytes: &[u8]) {
    if let Ok(envelope) = decode(bytes) {
        assert!(encoded(&envelope).len() <= bytes.len());
    }
}

/// Every byte of every sample is replaced by a huge length, so every list, text and byte string claims one in turn.
/// Memory reserved for the larger of these could not be had, and the test would not survive it.
#[test]
fn a_huge_claimed_length_reserves_no_memory() {
    let huge = [1 << 32, 1 << 48, 1 << 60, u64::MAX].map(length);
    for envelope in samples::envelopes() {
        let bytes = encoded(&envelope);
        for place in 1..bytes.len().min(400) {
            for claim in &huge {
                let mut lie = bytes[..place].to_vec();
                lie.extend(claim);
                refused_or_no_longer(&lie);
                lie.extend(&bytes[place + 1..]);
                refused_or_no_longer(&lie);
            }
        }
    }
}

#[test]
fn a_list_that_claims_more_than_follows_is_refused() {
    let empty = Envelope { message: promise(vec![]), ..samples::envelopes().remove(0) };
    let mut bytes = encoded(&empty);
    assert_eq!(bytes.pop(), Some(0), "the length of the list stands last");
    for claim in [1 << 20, 1 << 40, u64::MAX >> 1] {
        let lie = [&bytes[..], &length(claim), &[0; 3000]].concat();
        assert!(matches!(decode(&lie), Err(DecodeError::Malformed { .. })), "{claim} claimed");
    }
}

fn promise(held: Vec<Held>) -> Message {
    Message::Paxos(atoll_paxos::Message::Promise(Promise {
        ballot: Ballot::default(),
        decided: Slot(0),
        first: Slot(1),
        held,
    }))
}

fn hopped(answers: Vec<(u32, Answer)>) -> Envelope {
    let message = Message::Shard(ShardMessage::Hopped(Hopped { number: 1, root: SlotRange::ALL, answers }));
    Envelope { message, ..samples::envelopes().remove(0) }
}

/// Each answer is six bytes, and takes many times as much memory.
fn tiny(count: usize) -> Envelope {
    hopped(vec![(1, Answer::NotApplied(Reason::Busy)); count])
}

#[test]
fn what_a_frame_of_small_parts_costs_is_bounded() {
    let mut bytes = Vec::new();
    assert!(!encode(&tiny(FRAME_MAX / 6 - 100), &mut bytes), "whoever sends it knows");
    assert!(bytes.len() <= FRAME_MAX);
    assert_eq!(decode(&bytes), Err(DecodeError::TooLoose));
    let fits = tiny(LOOSE_MAX / 6 - 100);
    bytes.clear();
    assert!(encode(&fits, &mut bytes));
    let (envelope, weight) = decode_and_weigh(&bytes).expect("within the limits");
    let Message::Shard(ShardMessage::Hopped(hopped)) = &envelope.message else { panic!("another message") };
    let held = hopped.answers.len() * size_of::<(u32, Answer)>();
    assert!(held <= weight && weight <= 64 * LOOSE_MAX, "{held} of {weight}");
    assert_eq!(envelope, fits);
}

#[test]
fn a_long_payload_is_no_small_part() {
    let done =
        Answer::Done { payload: vec![7; FRAME_MAX - 1000].into(), position: Position::default(), duplicate: false };
    let envelope = hopped(vec![(0, done)]);
    let mut bytes = Vec::new();
    assert!(encode(&envelope, &mut bytes));
    let (again, weight) = decode_and_weigh(&bytes).expect("within the limits");
    assert!(again == envelope && weight < bytes.len() + 10_000, "{weight}");
}

/// They are taken as they stand: the smallest entries there are take no more memory than they have bytes.
#[test]
fn many_empty_entries_are_no_small_parts() {
    let count = LOOSE_MAX / 9 + 100;
    let write = {
        let mut bytes = Vec::new();
        (0..count).for_each(|_| put_entry(&mut bytes, Time(1), &BucketBody::Tick));
        let write = Write {
            round: 1,
            opening: false,
            previous: Mark::default(),
            entries: Entries::written(Epoch::ZERO, count as u32, Time(1), &bytes[..]),
            committed: Offset(0),
            serving: true,
            confirm: false,
            digest: None,
            echo: Time(0),
        };
        let message = atoll_replica::Message { bucket: BucketId(0), epoch: Epoch::ZERO, body: Body::Write(write) };
        let message = Message::Shard(ShardMessage::Replicas(vec![message]));
        Envelope { message, ..samples::envelopes().remove(0) }
    };
    let mut bytes = Vec::new();
    assert!(encode(&write, &mut bytes));
    let (again, weight) = decode_and_weigh(&bytes).expect("within the limits");
    assert!(again == write && weight < bytes.len() + 10_000, "{weight}");
    // The kind of the last entry.
    let last = bytes.len() - 9;
    bytes[last] = 3;
    assert!(matches!(decode(&bytes), Err(DecodeError::Malformed { .. })));
}

#[test]
fn what_has_a_way_of_its_own_is_refused_as_postcard() {
    for envelope in samples::envelopes() {
        let mut bytes = vec![VERSION, 0];
        atoll_wire::codec::append(&envelope, &mut bytes);
        let by_hand = matches!(envelope.message, Message::Shard(_));
        assert_eq!(decode(&bytes).is_err(), by_hand);
        assert_eq!(encoded(&envelope) == bytes, !by_hand);
    }
}

/// Whoever sends counts at least what the receiver counts.
#[test]
fn what_may_be_sent_may_be_received() {
    let payload = vec![7; 20].into();
    let done = Answer::Done { payload, position: Position::default(), duplicate: true };
    for count in (LOOSE_MAX / 12..LOOSE_MAX / 4).step_by(9973) {
        let mut bytes = Vec::new();
        if encode(&hopped(vec![(u32::MAX, done.clone()); count]), &mut bytes) {
            assert!(decode(&bytes).is_ok());
        }
    }
}
