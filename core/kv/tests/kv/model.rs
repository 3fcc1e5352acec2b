//! The same machine again, as simple as can be: a map of what is there and a list of what changed.

use atoll_kv::{Action, Condition, Detail, Failure, Kind, Operation, Outcome, Ttl};
use atoll_types::{At, Offset, Time};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) value: Vec<u8>,
    pub(crate) version: Offset,
    pub(crate) expires: Option<Time>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) held: BTreeMap<Vec<u8>, Held>,
    pub(crate) changes: Vec<(Offset, Kind, Vec<u8>)>,
}

/// An outcome that owns its old value.
pub(crate) type Owned = (bool, Option<Offset>, String);

pub(crate) fn owned(outcome: &Outcome<'_>) -> Owned {
    (outcome.existed, outcome.version, format!("{:?}", outcome.detail))
}

impl Model {
    pub(crate) fn advance(&mut self, at: At) {
        let is_due = |held: &Held| held.expires.is_some_and(|time| time <= at.time);
        let mut due: Vec<_> = self.held.iter().filter(|(_, held)| is_due(held)).collect();
        due.sort_by_key(|(_, held)| held.expires);
        let due: Vec<Vec<u8>> = due.into_iter().map(|(key, _)| key.clone()).collect();
        due.into_iter().for_each(|key| self.remove(at, &key, Kind::Expired));
    }

    pub(crate) fn apply(&mut self, at: At, operations: &[Operation<'_>]) -> Result<Vec<Owned>, (u16, Failure)> {
        let mut after = self.clone();
        let mut outcomes = Vec::new();
        for (number, operation) in (0..).zip(operations) {
            outcomes.push(after.perform(at, operation).map_err(|why| (number, why))?);
        }
        *self = after;
        Ok(outcomes)
    }

    fn remove(&mut self, at: At, key: &[u8], kind: Kind) {
        if self.held.remove(key).is_some() {
            self.changes.push((at.offset, kind, key.to_vec()));
        }
    }

    fn write(&mut self, at: At, key: &[u8], value: &[u8], expires: Option<Time>) {
        if expires.is_some_and(|time| time <= at.time) {
            return self.remove(at, key, Kind::Expired);
        }
        let held = Held { value: value.to_vec(), version: at.offset, expires };
        self.held.insert(key.to_vec(), held);
        self.changes.push((at.offset, Kind::Put, key.to_vec()));
    }

    fn perform(&mut self, at: At, operation: &Operation<'_>) -> Result<Owned, Failure> {
        let key = operation.key;
        let before = self.held.get(key).cloned();
        let version = before.as_ref().map(|held| held.version);
        let holds = match operation.condition {
            Condition::None => true,
            Condition::Absent => before.is_none(),
            Condition::Present => before.is_some(),
            Condition::Version(wanted) => version == Some(wanted),
        };
        if !holds {
            return Err(Failure::Condition { version });
        }
        let present = before.as_ref().and_then(|held| held.expires);
        let resolve = |ttl| match ttl {
            Ttl::Keep => present,
            Ttl::Never => None,
            Ttl::At(time) => Some(time),
            Ttl::After(span) => Some(at.time + span),
        };
        let old = before.as_ref().map(|held| held.value.clone()).unwrap_or_default();
        let told = before.as_ref().map(|held| held.value.as_slice());
        let detail = match operation.action {
            Action::Check => Detail::Nothing,
            Action::Put { value, ttl } => {
                self.write(at, key, value, resolve(ttl));
                Detail::Nothing
            }
            Action::GetAndPut { value, ttl } => {
                self.write(at, key, value, resolve(ttl));
                Detail::Old(told)
            }
            Action::Delete => {
                self.remove(at, key, Kind::Delete);
                Detail::Nothing
            }
            Action::Get => Detail::Old(told),
            Action::GetAndDelete => {
                self.remove(at, key, Kind::Delete);
                Detail::Old(told)
            }
            Action::Increment { by } => {
                let text = if before.is_some() { String::from_utf8(old).unwrap_or_default() } else { "0".to_owned() };
                let number: i64 = text.parse().map_err(|_| Failure::NotAnInteger)?;
                if number.to_string() != text {
                    return Err(Failure::NotAnInteger);
                }
                let number = number.checked_add(by).ok_or(Failure::Overflow)?;
                self.write(at, key, number.to_string().as_bytes(), present);
                Detail::Number(number)
            }
            Action::Append { value, most } => {
                let whole = [old.as_slice(), value].concat();
                if whole.len() as u64 > most {
                    return Err(Failure::ValueTooLong);
                }
                self.write(at, key, &whole, present);
                Detail::Length(whole.len() as u64)
            }
            Action::Expire { ttl } => {
                let expires = resolve(ttl);
                if let Some(held) = self.held.get_mut(key) {
                    held.expires = expires;
                    if expires.is_some_and(|time| time <= at.time) {
                        self.remove(at, key, Kind::Expired);
                    }
                }
                Detail::Nothing
            }
        };
        let version = self.held.get(key).map(|held| held.version);
        Ok((before.is_some(), version, format!("{detail:?}")))
    }
}
