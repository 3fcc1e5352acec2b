//! Frames on a connection: `length u32 LE │ that many bytes`.

use atoll_node::shard::message::ShardMessage;
use atoll_node::{Envelope, Message};
use atoll_wire::{FRAME_MAX, message};

pub(crate) const HEADER: usize = 4;

/// Appends the envelope as one frame, or several where one would be too much. What is too much in itself is left out,
/// and that is told.
pub(crate) fn append(envelope: &Envelope, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    if !message::encode(envelope, out) {
        out.truncate(start);
        return append_halves(envelope, out);
    }
    let length = out.len() - start - HEADER;
    out[start..start + HEADER].copy_from_slice(&(length as u32).to_le_bytes());
    true
}

/// One message holds what all buckets have for a node, and may be taken apart.
fn append_halves(envelope: &Envelope, out: &mut Vec<u8>) -> bool {
    let Message::Shard(ShardMessage::Replicas(messages)) = &envelope.message else { return false };
    if messages.len() < 2 {
        return false;
    }
    let (first, second) = messages.split_at(messages.len() / 2);
    let mut append = |half: &[atoll_replica::Message]| {
        let message = Message::Shard(ShardMessage::Replicas(half.to_vec()));
        append(&Envelope { message, ..envelope.clone() }, out)
    };
    let (first, second) = (append(first), append(second));
    first && second
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A frame of so many bytes begins behind the header.
    Whole(usize),
    /// So many bytes must be there before anything can be said.
    Needs(usize),
    /// No frame has this length.
    TooLong(usize),
}

/// What stands at the beginning of these bytes.
pub(crate) fn next(bytes: &[u8]) -> Next {
    let Some(header) = bytes.first_chunk::<HEADER>() else { return Next::Needs(HEADER) };
    let length = u32::from_le_bytes(*header) as usize;
    if length > FRAME_MAX {
        // Before any room is made for it.
        Next::TooLong(length)
    } else if bytes.len() < HEADER + length {
        Next::Needs(HEADER + length)
    } else {
        Next::Whole(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_need_more_or_are_refused(length: u32, bytes in vec(any::<u8>(), 0..100)) {
            let length = length as usize;
            for length in [length, length % 128, FRAME_MAX, FRAME_MAX + 1] {
                let bytes = [&(length as u32).to_le_bytes()[..], &bytes].concat();
                match next(&bytes) {
                    Next::Whole(found) => prop_assert!(found == length && HEADER + found <= bytes.len()),
                    Next::Needs(needed) => prop_assert!(bytes.len() < needed && needed == HEADER + length),
                    Next::TooLong(found) => prop_assert!(found == length && length > FRAME_MAX),
                }
                prop_assert_eq!(next(&bytes[..3]), Next::Needs(HEADER));
            }
        }

        #[test]
        fn frames_are_found_one_after_the_other(lengths in vec(0..50_usize, 0..6), cut in 1..9_usize) {
            let mut bytes = Vec::new();
            for &length in &lengths {
                bytes.extend((length as u32).to_le_bytes());
                bytes.extend(vec![7; length]);
            }
            // As they arrive: what was taken is gone, what is there in part stays.
            let (mut buffer, mut found) = (Vec::new(), Vec::new());
            for piece in bytes.chunks(cut) {
                buffer.extend_from_slice(piece);
                while let Next::Whole(length) = next(&buffer) {
                    found.push(length);
                    buffer.drain(..HEADER + length);
                }
            }
            prop_assert_eq!(found, lengths);
            prop_assert!(buffer.is_empty());
        }
    }

    #[test]
    fn a_frame_is_taken_only_when_it_is_whole() {
        assert_eq!(next(&[]), Next::Needs(4));
        assert_eq!(next(&[2, 0, 0]), Next::Needs(4));
        assert_eq!(next(&[2, 0, 0, 0, 9]), Next::Needs(6));
        assert_eq!(next(&[2, 0, 0, 0, 9, 9, 1]), Next::Whole(2));
        assert_eq!(next(&[0, 0, 0, 0]), Next::Whole(0));
    }

    #[test]
    fn no_room_is_made_for_a_length_that_cannot_be() {
        assert_eq!(next(&[255, 255, 255, 255, 1]), Next::TooLong(u32::MAX as usize));
    }
}
