//! Streams in pieces, on their way from a backup into another cluster, and how they are taken in.
//!
//! ```text
//! piece   1  slot:2 offset:8    where new streams of a slot begin
//!         2  stream             as in a snapshot, with some of its places; those after them come in the next piece
//! ```
//!
//! Offsets stay what they were, also those of streams that were deleted: no new message gets one that another had.

use crate::command::StreamOffset;
use crate::machine::Streams;
use crate::snapshot::{put_stream, stream};
use crate::stream::Stream;
use atoll_types::bytes::{Reader, put_long, put_short};
use atoll_types::{At, HashSlot, Piece};

const FLOOR: u8 = 1;
const STREAM: u8 = 2;
/// What a message has beside its payload.
const OVERHEAD: usize = 13;

pub(crate) fn pieces(state: &Streams, most: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (&slot, floor) in state.floors() {
        let mut bytes = vec![FLOOR];
        put_short(&mut bytes, slot.0);
        put_long(&mut bytes, floor.0);
        pieces.push(Piece { slot: Some(slot), bytes });
    }
    for stream in state.streams().values() {
        let slot = Some(HashSlot::of(&stream.name));
        for places in cuts(stream, most).windows(2) {
            let mut bytes = vec![STREAM];
            put_stream(&mut bytes, stream, places[0]..places[1]);
            pieces.push(Piece { slot, bytes });
        }
    }
    pieces
}

/// Where pieces begin and end: each begins with a message, not with a hole.
fn cuts(stream: &Stream, most: usize) -> Vec<usize> {
    let (mut cuts, mut bytes) = (vec![0], 0);
    for (place, kept) in stream.places().iter().enumerate() {
        let length = OVERHEAD + kept.payload.as_ref().map_or(0, |payload| payload.len());
        if bytes > 0 && bytes + length > most && kept.payload.is_some() {
            cuts.push(place);
            bytes = 0;
        }
        bytes += length;
    }
    cuts.push(stream.places().len());
    cuts
}

/// All of it, or nothing.
pub(crate) fn absorb(state: &mut Streams, at: At, slot: HashSlot, piece: &[u8]) -> Option<()> {
    let mut reader = Reader::new(piece);
    match reader.byte()? {
        FLOOR => {
            let (of, floor) = (HashSlot(reader.short()?), StreamOffset(reader.long()?));
            reader.end().filter(|()| of == slot)?;
            state.raise_floor(slot, floor);
            Some(())
        }
        STREAM => {
            let (name, part) = stream(&mut reader)?;
            reader.end().filter(|()| HashSlot::of(name) == slot)?;
            state.extend(at.time, part).then_some(())
        }
        0 | 3.. => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Command, Id, Operation, Retention};
    use atoll_types::{Offset, StateMachine, Time};

    fn at(offset: u64) -> At {
        At { offset: Offset(offset), time: Time(offset) }
    }

    fn apply(state: &mut Streams, offset: u64, stream: &[u8], action: Action<'_>) {
        let mut command = Vec::new();
        Command { operations: vec![Operation { stream, action }] }.encode(&mut command);
        state.apply(at(offset), &command, &mut Vec::new());
    }

    fn filled() -> Streams {
        let mut state = Streams::new();
        for number in 1..=90 {
            let payload = vec![b'm'; number as usize];
            apply(&mut state, number, &[b'a' + (number % 3) as u8], Action::Append { id: Id::Auto, payload: &payload });
        }
        let gone = [4, 5, 6, 20].map(StreamOffset);
        apply(&mut state, 91, b"b", Action::DeleteEntries { offsets: gone.to_vec() });
        apply(&mut state, 92, b"c", Action::Delete);
        let retention = Retention { most_count: Some(11), ..Retention::default() };
        apply(&mut state, 93, b"a", Action::Configure { retention });
        state
    }

    fn take_in(state: &mut Streams, pieces: &[Piece]) {
        for piece in pieces {
            state.absorb(at(200), piece.slot.expect("a slot"), &piece.bytes).expect("a piece");
        }
    }

    #[test]
    fn pieces_add_up_to_what_they_were_made_of() {
        let state = filled();
        for most in [1, 100, 1000, 1 << 20] {
            let pieces = state.pieces(at(93), most);
            let mut again = Streams::new();
            take_in(&mut again, &pieces);
            assert_eq!(again.digest(), state.digest(), "offsets, holes, times, retention and floors");
            take_in(&mut again, &pieces);
            assert_eq!(again.digest(), state.digest(), "a second time it does nothing");
        }
        assert!(state.pieces(at(93), 100).len() > 20);
    }

    #[test]
    fn a_missing_piece_is_noticed_and_what_is_none_changes_nothing() {
        let pieces = filled().pieces(at(93), 100);
        let mut state = Streams::new();
        let of_b: Vec<&Piece> = pieces.iter().filter(|piece| piece.slot == Some(HashSlot::of(b"b"))).collect();
        let slot = HashSlot::of(b"b");
        state.absorb(at(200), slot, &of_b[0].bytes).expect("the first");
        let digest = state.digest();
        assert!(state.absorb(at(201), slot, &of_b[2].bytes).is_err(), "the second is missing");
        assert!(state.absorb(at(201), HashSlot::of(b"a"), &of_b[1].bytes).is_err(), "of another slot");
        for end in 0..of_b[1].bytes.len() {
            assert!(state.absorb(at(201), slot, &of_b[1].bytes[..end]).is_err());
        }
        assert_eq!(state.digest(), digest);
    }
}
