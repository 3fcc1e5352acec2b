//! The whole state as bytes: a function of the state, and the way back.
//!
//! ```text
//! format:1  [lift:8]  reach plus one:8 (zero: none)  changes: list of (offset:8 kind:1 key:string)
//! records: count:8, (version:8 expires:8 key:string value:string) × count, by key    digest:8
//! ```
//!
//! Format 2 has the lift, and is written only where there is one.
//!
//! The digest shows that what was read is what was written; position and checksum of the whole are the replica's.

use crate::answer::Kind;
use crate::changes::Changes;
use crate::machine::Store;
use crate::record::Record;
use crate::table::Table;
use crate::{KEY_MOST, KEYS_MOST, VALUE_MOST};
use atoll_types::bytes::{Reader, put_length, put_long, put_string};
use atoll_types::{Offset, StateMachine, Time};
use xxhash_rust::xxh3::xxh3_64;

const FORMAT: u8 = 1;
const LIFTED: u8 = 2;

pub(crate) fn encode(store: &Store) -> Vec<u8> {
    let mut out = vec![if store.lift == 0 { FORMAT } else { LIFTED }];
    if store.lift != 0 {
        put_long(&mut out, store.lift);
    }
    put_long(&mut out, store.changes.reach().map_or(0, |reach| reach.0.saturating_add(1)));
    put_length(&mut out, store.changes.count());
    for change in store.changes.iter() {
        put_long(&mut out, change.offset.0);
        out.push(change.kind.tag());
        put_string(&mut out, change.key);
    }
    put_long(&mut out, store.table.count() as u64);
    for record in store.table.iter() {
        put_long(&mut out, record.version().0);
        put_long(&mut out, record.expires().unwrap_or(Time::NEVER).0);
        put_string(&mut out, record.key());
        put_string(&mut out, record.value());
    }
    put_long(&mut out, store.digest());
    out
}

pub(crate) fn decode(bytes: &[u8]) -> Option<Store> {
    let mut reader = Reader::new(bytes);
    let lift = match reader.byte()? {
        FORMAT => 0,
        LIFTED => Some(reader.long()?).filter(|&lift| lift != 0)?,
        0 | 3.. => return None,
    };
    let store = Store { changes: changes(&mut reader)?, table: table(&mut reader)?, lift };
    let is_whole = reader.long()? == store.digest();
    reader.end().filter(|()| is_whole).map(|()| store)
}

fn changes(reader: &mut Reader<'_>) -> Option<Changes> {
    let reach = reader.long()?.checked_sub(1).map(Offset);
    let count = reader.word()?;
    let mut changes = Changes::since(reach);
    let mut last = reach.unwrap_or_default();
    for _ in 0..count {
        let (offset, kind, key) = (Offset(reader.long()?), Kind::of(reader.byte()?)?, reader.string()?);
        if offset < last || key.len() > KEY_MOST {
            return None;
        }
        changes.push(offset, kind, key, xxh3_64(key));
        last = offset;
    }
    // Nothing was forgotten on the way: no more was told than a state remembers.
    (changes.reach() == reach).then_some(changes)
}

fn table(reader: &mut Reader<'_>) -> Option<Table> {
    let mut table = Table::default();
    let mut last: Option<&[u8]> = None;
    let count = reader.long()?;
    if count > KEYS_MOST as u64 {
        return None;
    }
    for _ in 0..count {
        let (version, expires) = (Offset(reader.long()?), Time(reader.long()?));
        let (key, value) = (reader.string()?, reader.string()?);
        let is_in_order = last.is_none_or(|last| last < key);
        if !is_in_order || key.len() > KEY_MOST || value.len() > VALUE_MOST {
            return None;
        }
        table.push(Record::new(key, version, value, (expires < Time::NEVER).then_some(expires)));
        last = Some(key);
    }
    Some(table)
}
