//! Rule: each key by itself looks as if its operations had happened one after the other, each at some moment between
//! the client's asking and its answer. Found out by search alone, after Wing and Gong: positions and versions
//! are not looked at.
//!
//! For each key all possible worlds are kept: a value, and those operations that have happened in it and whose clients
//! do not know it yet. An answer keeps the worlds in which it can be given. An operation of unknown fate stays for ever
//! one that may happen, or not. A key of which there are too many worlds is tired: nobody asks about it any more, and
//! the clients take another (`is_tired`).

use crate::Violation;
use crate::clients::act::Act;
use crate::clock::Moment;
use atoll_kv::{Answer, Detail as Did, Failure};
use std::collections::{BTreeMap, BTreeSet};

const RULE: &str = "linear";

/// Worlds of one key, and steps of one search. A key that needs more is given up.
const WORLDS_MOST: usize = 2_000;
const STEPS_MOST: usize = 20_000;

/// Operations of unknown fate of one key: each doubles the worlds.
const UNKNOWN_MOST: usize = 5;

/// What is asked of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Put(String),
    Swap { seen: Option<String>, value: String },
    Increment(i64),
    Append(String),
    Delete,
    Exchange(String),
    Get,
}

/// What came of it, as far as the client sees.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Saw {
    Existed(bool),
    Swapped(bool),
    Number(i64),
    Length(u64),
    Value(Option<String>),
}

type Value = Option<String>;

impl Ask {
    fn happen(&self, value: &Value) -> (Value, Saw) {
        match self {
            Ask::Put(new) => (Some(new.clone()), Saw::Existed(value.is_some())),
            Ask::Swap { seen, value: new } => {
                if value == seen {
                    (Some(new.clone()), Saw::Swapped(true))
                } else {
                    (value.clone(), Saw::Swapped(false))
                }
            }
            Ask::Increment(by) => {
                let number = value.as_ref().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0) + by;
                (Some(number.to_string()), Saw::Number(number))
            }
            Ask::Append(more) => {
                let text = format!("{}{more}", value.as_deref().unwrap_or_default());
                let length = text.len() as u64;
                (Some(text), Saw::Length(length))
            }
            Ask::Delete => (None, Saw::Existed(value.is_some())),
            Ask::Exchange(new) => (Some(new.clone()), Saw::Value(value.clone())),
            Ask::Get => (value.clone(), Saw::Value(value.clone())),
        }
    }
}

/// What an act asks of which keys. Nothing of those that this rule is not about.
pub(crate) fn asks(act: &Act) -> Vec<(&str, Ask)> {
    match act {
        // A value that goes by itself is not for a search that knows no time.
        Act::Get { key } if key.starts_with('f') => Vec::new(),
        Act::Put { ttl: Some(_), .. } | Act::Expire { .. } => Vec::new(),
        Act::Scan { .. } | Act::Publish { .. } | Act::Trim { .. } | Act::Fetch { .. } => Vec::new(),
        Act::Put { key, value, ttl: None } => vec![(key, Ask::Put(value.clone()))],
        Act::Swap { key, seen, value } => {
            let seen = seen.as_ref().map(|(_, seen)| seen.clone());
            vec![(key, Ask::Swap { seen, value: value.clone() })]
        }
        Act::Increment { key, by } => vec![(key, Ask::Increment(*by))],
        Act::Append { key, value } => vec![(key, Ask::Append(value.clone()))],
        Act::Delete { key, .. } => vec![(key, Ask::Delete)],
        Act::Exchange { key, value } => vec![(key, Ask::Exchange(value.clone()))],
        Act::Both { keys, value } => keys.iter().map(|key| (key.as_str(), Ask::Put(value.clone()))).collect(),
        Act::Get { key } => vec![(key, Ask::Get)],
    }
}

/// What an answer shows of each of these keys.
fn saw(act: &Act, answer: &Answer<'_>) -> Option<Vec<Saw>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match answer {
        Answer::Failed { why: Failure::Condition { .. }, .. } => Some(vec![Saw::Swapped(false)]),
        Answer::Value(found) => Some(vec![Saw::Value(found.map(|found| text(found.value)))]),
        Answer::Done(outcomes) => {
            let of = |outcome: &atoll_kv::Outcome<'_>| match (act, outcome.detail) {
                (Act::Swap { .. }, _) => Saw::Swapped(true),
                (_, Did::Number(number)) => Saw::Number(number),
                (_, Did::Length(length)) => Saw::Length(length),
                (_, Did::Old(old)) => Saw::Value(old.map(text)),
                (_, Did::Nothing) => Saw::Existed(outcome.existed),
            };
            Some(outcomes.iter().map(of).collect())
        }
        Answer::Malformed
        | Answer::Failed { .. }
        | Answer::CrossSlot { .. }
        | Answer::Values(_)
        | Answer::Number(_)
        | Answer::Remaining(_)
        | Answer::Scanned(_)
        | Answer::Changes { .. }
        | Answer::Reset { .. }
        | Answer::TooLong => None,
    }
}

/// A value, and what happened unknown to its client: the operation, and what it will see.
type World = (Value, BTreeMap<usize, Saw>);

#[derive(Debug)]
struct History {
    /// Asked, and not answered: all that may happen.
    open: BTreeMap<usize, Ask>,
    unknown: BTreeSet<usize>,
    worlds: BTreeSet<World>,
    /// What was asked and seen last, for words.
    last: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Linear {
    histories: BTreeMap<String, History>,
    tired: BTreeSet<String>,
    /// Answers that were held against the worlds.
    pub(crate) examined: u64,
}

impl Linear {
    pub(crate) fn is_tired(&self, key: &str) -> bool {
        self.tired.contains(key)
    }

    /// Nothing is known of these keys any more.
    pub(crate) fn forget(&mut self, of: impl Fn(&str) -> bool) {
        let gone: Vec<String> = self.histories.keys().filter(|key| of(key)).cloned().collect();
        gone.into_iter().for_each(|key| self.tire(&key));
    }

    fn tire(&mut self, key: &str) {
        self.histories.remove(key);
        self.tired.insert(key.to_owned());
    }

    pub(crate) fn on_begin(&mut self, number: usize, act: &Act) {
        for (key, ask) in asks(act) {
            if self.tired.contains(key) {
                continue;
            }
            let history = self.histories.entry(key.to_owned()).or_insert_with(|| History {
                open: BTreeMap::new(),
                unknown: BTreeSet::new(),
                worlds: BTreeSet::from([(None, BTreeMap::new())]),
                last: Vec::new(),
            });
            history.open.insert(number, ask);
        }
    }

    /// It has no effect, and its client knows.
    pub(crate) fn on_not_applied(&mut self, number: usize, act: &Act) -> Result<(), Violation> {
        for (key, _) in asks(act) {
            let Some(history) = self.histories.get_mut(key) else { continue };
            history.open.remove(&number);
            // A read that came to nothing may have happened as well: nobody saw it.
            let is_write = act.is_write();
            let worlds = std::mem::take(&mut history.worlds).into_iter();
            history.worlds = worlds
                .filter_map(|(value, mut happened)| {
                    let here = happened.remove(&number).is_some();
                    (!here || !is_write).then_some((value, happened))
                })
                .collect();
            history.note(format!("{number}: not applied"));
            if history.worlds.is_empty() {
                return Err(history.impossible(key, &format!("operation {number}, {act:?}, is not applied")));
            }
        }
        Ok(())
    }

    pub(crate) fn on_unknown(&mut self, number: usize, act: &Act) {
        for (key, _) in asks(act) {
            let Some(history) = self.histories.get_mut(key) else { continue };
            history.unknown.insert(number);
            history.note(format!("{number}: unknown"));
            if history.unknown.len() > UNKNOWN_MOST {
                self.tire(key);
            }
        }
    }

    pub(crate) fn on_done(&mut self, number: usize, act: &Act, payload: &[u8], now: Moment) -> Result<(), Violation> {
        let asked = asks(act);
        if asked.is_empty() {
            return Ok(());
        }
        let Some(seen) = atoll_kv::Answer::decode(payload).and_then(|answer| saw(act, &answer)) else {
            return Err(Violation::of(RULE, format!("operation {number}, {act:?}, is answered {payload:?}")));
        };
        for ((key, ask), saw) in asked.into_iter().zip(seen) {
            let Some(history) = self.histories.get_mut(key) else { continue };
            self.examined += 1;
            history.note(format!("{number}: {ask:?} saw {saw:?} by {now:?}"));
            match history.answered(number, &saw) {
                None => self.tire(key),
                Some(worlds) if worlds.is_empty() => {
                    return Err(history.impossible(key, &format!("operation {number}, {ask:?}, saw {saw:?}")));
                }
                Some(worlds) => {
                    history.worlds = worlds;
                    history.open.remove(&number);
                }
            }
        }
        Ok(())
    }
}

impl History {
    fn note(&mut self, text: String) {
        if self.last.len() >= 24 {
            self.last.remove(0);
        }
        self.last.push(text);
    }

    fn impossible(&self, key: &str, what: &str) -> Violation {
        let (open, last) = (&self.open, self.last.join("\n"));
        Violation::of(RULE, format!("key {key}: {what}: in no world. Open: {open:?}. Last:\n{last}"))
    }

    /// The worlds in which this operation, by now, has seen this. None where there are too many to look at.
    fn answered(&self, number: usize, saw: &Saw) -> Option<BTreeSet<World>> {
        let mut found = BTreeSet::new();
        let mut looked: BTreeSet<World> = BTreeSet::new();
        let mut left: Vec<World> = self.worlds.iter().cloned().collect();
        while let Some((value, mut happened)) = left.pop() {
            if let Some(predicted) = happened.get(&number) {
                if predicted == saw {
                    happened.remove(&number);
                    found.insert((value, happened));
                }
                continue;
            }
            for (&other, ask) in self.open.iter().filter(|(other, _)| !happened.contains_key(other)) {
                let (after, seen) = ask.happen(&value);
                let mut then = happened.clone();
                then.insert(other, seen);
                let world = (after, then);
                if looked.insert(world.clone()) {
                    left.push(world);
                }
            }
            if found.len() > WORLDS_MOST || looked.len() > STEPS_MOST {
                return None;
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_kv::{Found, Outcome};
    use atoll_types::Offset;

    fn put(value: &str) -> Act {
        Act::Put { key: "k".to_owned(), value: value.to_owned(), ttl: None }
    }

    fn get() -> Act {
        Act::Get { key: "k".to_owned() }
    }

    fn wrote(existed: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        let outcome = Outcome { existed, version: Some(Offset(1)), detail: Did::Nothing };
        Answer::Done(vec![outcome].into()).encode(&mut bytes);
        bytes
    }

    fn found(value: Option<&str>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let found = value.map(|value| Found { version: Offset(1), expires: None, value: value.as_bytes() });
        Answer::Value(found).encode(&mut bytes);
        bytes
    }

    const NOW: Moment = Moment(0);

    #[test]
    fn a_read_sees_what_was_written_before_it_or_meanwhile() {
        let mut linear = Linear::default();
        linear.on_begin(1, &put("a"));
        linear.on_begin(2, &get());
        assert!(linear.on_done(2, &get(), &found(Some("a")), NOW).is_ok(), "written meanwhile");
        assert!(linear.on_done(1, &put("a"), &wrote(false), NOW).is_ok());
        linear.on_begin(3, &get());
        assert!(linear.on_done(3, &get(), &found(None), NOW).is_err(), "the write had ended");
    }

    #[test]
    fn an_unknown_write_may_happen_late_but_not_twice() {
        let mut linear = Linear::default();
        linear.on_begin(1, &put("a"));
        linear.on_unknown(1, &put("a"));
        linear.on_begin(2, &put("b"));
        assert!(linear.on_done(2, &put("b"), &wrote(false), NOW).is_ok());
        linear.on_begin(3, &get());
        assert!(linear.on_done(3, &get(), &found(Some("a")), NOW).is_ok(), "it came after b");
        linear.on_begin(4, &put("c"));
        assert!(linear.on_done(4, &put("c"), &wrote(true), NOW).is_ok());
        linear.on_begin(5, &get());
        assert!(linear.on_done(5, &get(), &found(Some("a")), NOW).is_err(), "a again");
    }

    #[test]
    fn what_is_not_applied_is_never_seen() {
        let mut linear = Linear::default();
        linear.on_begin(1, &put("a"));
        assert!(linear.on_not_applied(1, &put("a")).is_ok());
        linear.on_begin(2, &get());
        assert!(linear.on_done(2, &get(), &found(Some("a")), NOW).is_err());
    }
}
