//! What each operation does to the table, and how that is taken back.

use crate::answer::{Detail, Failure, Kind, Outcome};
use crate::command::{Action, Condition, Operation, Ttl};
use crate::record::Record;
use crate::table::{Spot, Table};
use crate::{KEY_MOST, KEYS_MOST, VALUE_MOST};
use atoll_types::{At, Offset, Time};

/// What kind of change it was, if any, and the hash of the key.
pub(crate) type Changed = Option<(Kind, u64)>;

/// Does it and tells the outcome; or changes nothing.
///
/// Everything due by `at.time` has been removed before.
pub(crate) fn perform(
    table: &mut Table,
    at: At,
    operation: &Operation<'_>,
    tell: impl FnMut(&Outcome<'_>),
) -> Result<Changed, Failure> {
    if operation.key.len() > KEY_MOST {
        return Err(Failure::KeyTooLong);
    }
    let spot = table.find(operation.key);
    perform_at(table, at, operation, spot, tell).map(|kind| kind.map(|kind| (kind, spot.hash)))
}

/// Writes a value that never expires, whatever is there, which nobody has to look at. Tells where its key was.
pub(crate) fn put(table: &mut Table, at: At, key: &[u8], value: &[u8]) -> Result<Spot, Failure> {
    if key.len() > KEY_MOST {
        return Err(Failure::KeyTooLong);
    }
    let spot = table.find(key);
    Write::check(table, at, spot, value, None)?;
    table.put(spot, key, at.offset, value, None);
    Ok(spot)
}

fn perform_at(
    table: &mut Table,
    at: At,
    operation: &Operation<'_>,
    spot: Spot,
    mut tell: impl FnMut(&Outcome<'_>),
) -> Result<Option<Kind>, Failure> {
    let (key, found) = (operation.key, spot.handle);
    let existed = found.is_some();
    let written = &Outcome { existed, version: Some(at.offset), detail: Detail::Nothing };
    let record = found.map(|handle| table.record(handle));
    check_condition(operation.condition, record)?;
    let present = record.and_then(Record::expires);
    let version = record.map(Record::version);
    let absent = Outcome { version: None, ..*written };
    Ok(match operation.action {
        Action::Check => {
            tell(&Outcome { version, ..*written });
            None
        }
        Action::Get => {
            let detail = Detail::Old(record.map(Record::value));
            tell(&Outcome { version, detail, ..*written });
            None
        }
        Action::Put { value, ttl } => {
            let write = Write::check(table, at, spot, value, ttl.resolve(at.time, present))?;
            tell(if write.is_due() { &absent } else { written });
            write.perform(table, at, key)
        }
        Action::GetAndPut { value, ttl } => {
            let write = Write::check(table, at, spot, value, ttl.resolve(at.time, present))?;
            let outcome = if write.is_due() { absent } else { *written };
            tell(&Outcome { detail: Detail::Old(record.map(Record::value)), ..outcome });
            write.perform(table, at, key)
        }
        Action::Delete => {
            tell(&absent);
            remove(table, spot)
        }
        Action::GetAndDelete => {
            tell(&Outcome { detail: Detail::Old(record.map(Record::value)), ..absent });
            remove(table, spot)
        }
        Action::Increment { by } => {
            let before = record.map_or(Some(0), |record| integer(record.value())).ok_or(Failure::NotAnInteger)?;
            let after = before.checked_add(by).ok_or(Failure::Overflow)?;
            let text = Decimal::of(after);
            let changed = Write::check(table, at, spot, text.digits(), present)?.perform(table, at, key);
            tell(&Outcome { detail: Detail::Number(after), ..*written });
            changed
        }
        Action::Append { value, most } => {
            let before = record.map_or(&[][..], Record::value);
            let length = before.len().saturating_add(value.len());
            if length > VALUE_MOST || length as u64 > most {
                return Err(Failure::ValueTooLong);
            }
            if found.is_some() {
                let joined = [before, value].concat();
                table.put(spot, key, at.offset, &joined, present);
            } else {
                Write::check(table, at, spot, value, None)?.perform(table, at, key);
            }
            tell(&Outcome { detail: Detail::Length(length as u64), ..*written });
            Some(Kind::Put)
        }
        Action::Expire { ttl } => expire(table, at, spot, ttl, tell),
    })
}

fn remove(table: &mut Table, spot: Spot) -> Option<Kind> {
    table.remove(spot.handle?);
    Some(Kind::Delete)
}

fn check_condition(condition: Condition, record: Option<Record<'_>>) -> Result<(), Failure> {
    let version = record.map(Record::version);
    let holds = match condition {
        Condition::None => true,
        Condition::Absent => version.is_none(),
        Condition::Present => version.is_some(),
        Condition::Version(wanted) => version == Some(wanted),
    };
    if holds { Ok(()) } else { Err(Failure::Condition { version }) }
}

fn expire(table: &mut Table, at: At, spot: Spot, ttl: Ttl, mut tell: impl FnMut(&Outcome<'_>)) -> Option<Kind> {
    let Some(handle) = spot.handle else {
        tell(&Outcome { existed: false, version: None, detail: Detail::Nothing });
        return None;
    };
    let record = table.record(handle);
    let version = record.version();
    let expires = ttl.resolve(at.time, record.expires());
    if expires.is_some_and(|time| time <= at.time) {
        table.remove(handle);
        tell(&Outcome { existed: true, version: None, detail: Detail::Nothing });
        return Some(Kind::Expired);
    }
    if expires != record.expires() {
        let (key, value) = (record.key().to_vec(), record.value().to_vec());
        table.put(spot, &key, version, &value, expires);
    }
    tell(&Outcome { existed: true, version: Some(version), detail: Detail::Nothing });
    None // Neither value nor version change: nothing for a watcher to see.
}

/// A value that may be written.
#[derive(Debug)]
struct Write<'a> {
    spot: Spot,
    value: &'a [u8],
    expires: Option<Time>,
    now: Time,
}

impl<'a> Write<'a> {
    fn check(table: &Table, at: At, spot: Spot, value: &'a [u8], expires: Option<Time>) -> Result<Write<'a>, Failure> {
        if value.len() > VALUE_MOST {
            return Err(Failure::ValueTooLong);
        }
        if spot.handle.is_none() && table.count() >= KEYS_MOST {
            return Err(Failure::Full);
        }
        Ok(Write { spot, value, expires, now: at.time })
    }

    /// Its time has come already. Stored, it would be there for the rest of the batch and no longer: neither written
    /// nor unwritten.
    fn is_due(&self) -> bool {
        self.expires.is_some_and(|time| time <= self.now)
    }

    fn perform(self, table: &mut Table, at: At, key: &[u8]) -> Option<Kind> {
        if !self.is_due() {
            table.put(self.spot, key, at.offset, self.value, self.expires);
            return Some(Kind::Put);
        }
        table.remove(self.spot.handle?);
        Some(Kind::Expired)
    }
}

/// A number as it is written in the shortest way: no plus, no blanks, no leading zeros, no minus zero.
fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_shortest = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', ..] => true,
        [..] => false,
    };
    std::str::from_utf8(text).ok().filter(|_| is_shortest)?.parse().ok()
}

/// A number as text, without memory of its own.
#[derive(Debug)]
struct Decimal {
    text: [u8; 20],
    begin: usize,
}

impl Decimal {
    fn of(number: i64) -> Decimal {
        let mut decimal = Decimal { text: [b'-'; 20], begin: 20 };
        let mut rest = number.unsigned_abs();
        while rest > 0 || decimal.begin == 20 {
            decimal.begin -= 1;
            decimal.text[decimal.begin] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        decimal.begin -= usize::from(number < 0);
        decimal
    }

    fn digits(&self) -> &[u8] {
        &self.text[self.begin..]
    }
}

/// What a key was before an operation.
#[derive(Debug)]
pub(crate) struct Undo<'a> {
    key: &'a [u8],
    before: Option<(Offset, Vec<u8>, Option<Time>)>,
}

impl<'a> Undo<'a> {
    pub(crate) fn before(table: &Table, operation: &Operation<'a>) -> Undo<'a> {
        let before = table.get(operation.key);
        let before = before.map(|record| (record.version(), record.value().to_vec(), record.expires()));
        Undo { key: operation.key, before }
    }

    pub(crate) fn restore(self, table: &mut Table) {
        let spot = table.find(self.key);
        match (spot.handle, self.before) {
            (_, Some((version, value, expires))) => table.put(spot, self.key, version, &value, expires),
            (Some(handle), None) => table.remove(handle),
            (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_text_in_one_way_only() {
        for number in [0, 1, -1, 9, 10, -10, 1234, i64::MAX, i64::MIN] {
            let decimal = Decimal::of(number);
            assert_eq!(decimal.digits(), number.to_string().as_bytes());
            assert_eq!(integer(decimal.digits()), Some(number));
        }
        for text in ["", "-", "+1", "01", "-0", "-01", " 1", "1 ", "1.0", "x", "9223372036854775808", "١"] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }
}
