//! A state in pieces, on its way from a backup into another cluster, and how they are taken in.
//!
//! ```text
//! piece   format:1  lift:8  records: list of (version:8 expires:8 key:string value:string)
//! ```
//!
//! Values keep their versions, so that what a client knows of them (an entity tag) is still true. For that to be so, no
//! version may be given twice: those of the state that the pieces came from are at most its `lift`, and those given
//! from now on are above it.
//!
//! Not here: the last changes. A watcher of the other cluster is told the present value.

use crate::answer::Kind;
use crate::machine::Store;
use crate::record::Record;
use crate::{KEY_MOST, KEYS_MOST, VALUE_MOST};
use atoll_types::bytes::{Reader, put_length, put_long, put_string};
use atoll_types::{At, HashSlot, Offset, Piece, Time};
use std::collections::BTreeMap;

const FORMAT: u8 = 1;
/// What a record has beside its key and value.
const OVERHEAD: usize = 24;

pub(crate) fn pieces(store: &Store, at: At, most: usize) -> Vec<Piece> {
    let lift = at.offset.0.saturating_add(store.lift);
    let mut by_slot: BTreeMap<HashSlot, Vec<Record<'_>>> = BTreeMap::new();
    for record in store.table.iter() {
        by_slot.entry(HashSlot::of(record.key())).or_default().push(record);
    }
    let mut pieces = vec![piece(None, lift, &[])];
    for (slot, records) in by_slot {
        let (mut begin, mut bytes) = (0, 0);
        for (place, record) in records.iter().enumerate() {
            let length = OVERHEAD + record.key().len() + record.value().len();
            if place > begin && bytes + length > most {
                pieces.push(piece(Some(slot), lift, &records[begin..place]));
                (begin, bytes) = (place, 0);
            }
            bytes += length;
        }
        pieces.push(piece(Some(slot), lift, &records[begin..]));
    }
    pieces
}

fn piece(slot: Option<HashSlot>, lift: u64, records: &[Record<'_>]) -> Piece {
    let mut bytes = vec![FORMAT];
    put_long(&mut bytes, lift);
    put_length(&mut bytes, records.len());
    for record in records {
        put_long(&mut bytes, record.version().0);
        put_long(&mut bytes, record.expires().unwrap_or(Time::NEVER).0);
        put_string(&mut bytes, record.key());
        put_string(&mut bytes, record.value());
    }
    Piece { slot, bytes }
}

struct Imported<'a> {
    version: Offset,
    expires: Option<Time>,
    key: &'a [u8],
    value: &'a [u8],
}

/// All of it, or nothing.
pub(crate) fn absorb(store: &mut Store, at: At, slot: HashSlot, piece: &[u8]) -> Option<()> {
    let mut reader = Reader::new(piece);
    if reader.byte()? != FORMAT {
        return None;
    }
    let lift = reader.long()?;
    let records = reader.list(|reader| {
        let (version, expires) = (Offset(reader.long()?), Time(reader.long()?));
        let (key, value) = (reader.string()?, reader.string()?);
        let fits = version.0 <= lift && HashSlot::of(key) == slot && key.len() <= KEY_MOST && value.len() <= VALUE_MOST;
        fits.then_some(Imported { version, expires: (expires < Time::NEVER).then_some(expires), key, value })
    })?;
    reader.end()?;
    if store.table.count() + records.len() > KEYS_MOST {
        return None;
    }
    for Imported { version, expires, key, value } in records {
        let spot = store.table.find(key);
        let is_newer = spot.handle.is_some_and(|handle| store.table.record(handle).version() >= version);
        if is_newer || expires.is_some_and(|expires| expires <= at.time) {
            continue;
        }
        store.table.put(spot, key, version, value, expires);
        store.changes.push(at.offset, Kind::Put, key, spot.hash);
    }
    store.lift = store.lift.max(lift);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Answer, Command, Condition, Operation, Ttl};
    use atoll_types::StateMachine;
    use std::time::Duration;

    fn at(offset: u64) -> At {
        At { offset: Offset(offset), time: Time(offset) }
    }

    fn put(store: &mut Store, offset: u64, key: &[u8], ttl: Ttl, condition: Condition) -> Option<u64> {
        let operation = Operation::new(key, Action::Put { value: b"value", ttl }).on(condition);
        let (mut command, mut answer) = (Vec::new(), Vec::new());
        Command { operations: vec![operation].into() }.encode(&mut command);
        store.advance(at(offset));
        store.apply(at(offset), &command, &mut answer);
        let Some(Answer::Done(outcomes)) = Answer::decode(&answer) else { return None };
        outcomes[0].version.map(|version| version.0)
    }

    type Shown<'a> = (&'a [u8], &'a [u8], Offset, Option<Time>);

    fn records(store: &Store) -> Vec<Shown<'_>> {
        store.table.iter().map(|record| (record.key(), record.value(), record.version(), record.expires())).collect()
    }

    fn filled() -> Store {
        let mut store = Store::new();
        for number in 1..=300_u64 {
            let ttl = if number.is_multiple_of(3) { Ttl::After(Duration::from_micros(1000)) } else { Ttl::Never };
            put(&mut store, number, format!("{{{}}}{number}", number % 7).as_bytes(), ttl, Condition::None);
        }
        store
    }

    fn take_in(store: &mut Store, pieces: &[Piece], offset: u64) {
        for (number, piece) in pieces.iter().enumerate() {
            let slot = piece.slot.unwrap_or_default();
            store.absorb(at(offset + number as u64), slot, &piece.bytes).expect("a piece");
        }
    }

    #[test]
    fn pieces_add_up_to_what_they_were_made_of() {
        let store = filled();
        let pieces = store.pieces(at(300), 200);
        assert!(pieces.len() > 20 && pieces.iter().all(|piece| piece.bytes.len() < 300));
        let mut again = Store::new();
        again.advance(at(1));
        take_in(&mut again, &pieces, 1);
        assert_eq!((records(&again), again.count()), (records(&store), 300));
        let digest = again.digest();
        take_in(&mut again, &pieces, 1);
        assert_eq!(again.digest(), digest, "a second time it does nothing");
        let copy = crate::snapshot::decode(&crate::snapshot::encode(&again)).expect("a snapshot");
        assert_eq!((copy.digest(), copy.lift), (digest, 300));
    }

    #[test]
    fn no_version_is_given_twice_and_what_is_newer_stays() {
        let pieces = filled().pieces(at(300), 1000);
        let mut store = Store::new();
        store.absorb(at(1), HashSlot(0), &pieces[0].bytes).expect("the first is of no slot");
        assert_eq!(put(&mut store, 2, b"{1}1", Ttl::Never, Condition::None), Some(302));
        take_in(&mut store, &pieces, 3);
        assert_eq!(store.table.get(b"{1}1").map(|record| record.version()), Some(Offset(302)));
        assert_eq!(
            put(&mut store, 40, b"{2}2", Ttl::Never, Condition::Version(Offset(2))),
            Some(340),
            "it had its version"
        );
    }

    #[test]
    fn what_is_due_is_not_taken_in_and_what_is_no_piece_changes_nothing() {
        let pieces = filled().pieces(at(300), 1000);
        let mut store = Store::new();
        take_in(&mut store, &pieces, 10_000);
        assert_eq!(store.table.count(), 200, "a third had a time-to-live");
        let digest = store.digest();
        let piece = &pieces[1];
        let other = HashSlot(piece.slot.expect("a slot").0 ^ 1);
        assert!(store.absorb(at(20_000), other, &piece.bytes).is_err(), "another slot");
        for end in 0..piece.bytes.len() {
            assert!(store.absorb(at(20_000), piece.slot.expect("a slot"), &piece.bytes[..end]).is_err());
        }
        assert_eq!(store.digest(), digest);
    }
}
