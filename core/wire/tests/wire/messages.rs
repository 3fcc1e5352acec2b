//! Messages: the version byte, the limits, and lengths that lie.

use crate::samples;
use atoll_node::{Envelope, Message};
use atoll_paxos::message::Promise;
use atoll_types::{Ballot, Held, Slot};
use atoll_wire::message::{DecodeError, FRAME_MAX, VERSION, decode, encode};

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
