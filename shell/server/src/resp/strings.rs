//! Commands on values: from their arguments to operations of the key-value store.
//!
//! Not here: names as such (`keys.rs`), several commands as one (`transaction.rs`).

use super::expect::{Expect, Gather, Remain, Say, Unmet, kv, other_kv};
use super::options::{check_key, check_value, invalid_expire, is, milliseconds, number, span};
use super::parse::Arguments;
use super::plan::{Asker, Late, Plan, Said, read, write};
use super::reply::{Fault, Protocol, bytes};
use super::table::{Read, Write, wrong_number};
use crate::data::{kv_command, kv_put, kv_query};
use atoll_kv::{Action, Answer, Command, Condition, Failure, Operation, Query, Ttl};
use atoll_types::{Few, HashSlot, Payload, Time};

/// A command that writes, as operations that are one batch.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) operations: Few<Operation<'a>>,
    pub(crate) say: Say,
    unmet: Unmet,
}

impl<'a> Batch<'a> {
    fn one(key: &'a [u8], action: Action<'a>, say: Say) -> Result<Batch<'a>, Fault> {
        check_key(key)?;
        Ok(Batch { operations: Few::One(Operation::new(key, action)), say, unmet: Unmet::Null })
    }

    /// Can fail by a condition: then, in a transaction, nothing else would be done either.
    pub(crate) fn is_conditional(&self) -> bool {
        self.operations.iter().any(|operation| operation.condition != Condition::None)
    }

    fn plan(self) -> Result<Plan, Fault> {
        let slot = one_slot(self.operations.iter().map(|operation| operation.key))?;
        let command = kv_command(&Command { operations: self.operations });
        Ok(Plan::Ask(slot, write(command), Expect::Written(self.say, self.unmet)))
    }
}

pub(crate) fn one_slot<'a>(mut keys: impl Iterator<Item = &'a [u8]>) -> Result<HashSlot, Fault> {
    let slot = keys.next().map(HashSlot::of).unwrap_or_default();
    if keys.all(|key| HashSlot::of(key) == slot) { Ok(slot) } else { Err(Fault::CROSS_SLOT) }
}

pub(crate) fn look(verb: Read, arguments: Arguments<'_>) -> Result<Plan, Fault> {
    let key = arguments.get(1);
    let ask = |query: &Query<'_>, expect| {
        check_key(key)?;
        Ok(Plan::Ask(HashSlot::of(key), read(kv_query(query)), expect))
    };
    match verb {
        Read::Get => ask(&Query::Get { key }, Expect::Value),
        Read::Strlen => ask(&Query::Length { key }, Expect::Count),
        Read::Ttl => ask(&Query::Ttl { key }, Expect::Remaining(Remain::Seconds)),
        Read::Pttl => ask(&Query::Ttl { key }, Expect::Remaining(Remain::Milliseconds)),
        Read::Expiretime => ask(&Query::Ttl { key }, Expect::Remaining(Remain::AtSecond)),
        Read::Pexpiretime => ask(&Query::Ttl { key }, Expect::Remaining(Remain::AtMillisecond)),
        Read::Mget => many(arguments.from(1)),
    }
}

pub(crate) fn change(
    verb: Write,
    arguments: Arguments<'_>,
    most: usize,
    protocol: Protocol,
    asker: impl FnOnce() -> Asker,
) -> Result<Plan, Fault> {
    if verb == Write::Set && arguments.len() == 3 {
        return put(arguments.get(1), arguments.get(2), most);
    }
    let batch = batch(verb, arguments, most)?;
    let operation = &batch.operations[..];
    if let [Operation { key, condition: Condition::Absent, action: Action::GetAndPut { .. } }] = operation {
        let key = key.to_vec();
        let command = kv_command(&Command { operations: batch.operations });
        let late = set_if_absent_and_get(asker(), key, command, protocol);
        return Ok(Plan::Late { late, blocks: false });
    }
    batch.plan()
}

/// SET without any option, straight to its bytes: no other command is sent as often.
fn put(key: &[u8], value: &[u8], most: usize) -> Result<Plan, Fault> {
    check_key(key)?;
    check_value(value, most)?;
    Ok(Plan::Ask(HashSlot::of(key), write(kv_put(key, value)), Expect::Written(Say::Ok, Unmet::Null)))
}

/// What this command writes.
pub(crate) fn batch<'a>(verb: Write, arguments: Arguments<'a>, most: usize) -> Result<Batch<'a>, Fault> {
    let (key, value) = (arguments.get(1), arguments.get(2));
    match verb {
        Write::Set => {
            let set = Set::parse(arguments)?;
            check_key(key)?;
            check_value(value, most)?;
            let say = if set.get { Say::Old } else { Say::Ok };
            Ok(Batch { operations: Few::One(set.operation(arguments)), say, unmet: Unmet::Null })
        }
        Write::Setnx => {
            check_key(key)?;
            check_value(value, most)?;
            let operation = Operation::new(key, Action::Put { value, ttl: Ttl::Never }).on(Condition::Absent);
            Ok(Batch { operations: Few::One(operation), say: Say::One, unmet: Unmet::Zero })
        }
        Write::Setex | Write::Psetex => {
            let value = arguments.get(3);
            check_value(value, most)?;
            let (whole, name) = if verb == Write::Setex { (true, "setex") } else { (false, "psetex") };
            let ttl = time_to_live(number(arguments.get(2))?, whole, name)?;
            Batch::one(key, Action::Put { value, ttl }, Say::Ok)
        }
        Write::Getset => {
            check_value(value, most)?;
            Batch::one(key, Action::GetAndPut { value, ttl: Ttl::Never }, Say::Old)
        }
        Write::Getdel => Batch::one(key, Action::GetAndDelete, Say::Old),
        Write::Append => {
            check_value(value, most)?;
            Batch::one(key, Action::Append { value, most: most as u64 }, Say::Length)
        }
        Write::Incr => Batch::one(key, Action::Increment { by: 1 }, Say::Number),
        Write::Decr => Batch::one(key, Action::Increment { by: -1 }, Say::Number),
        Write::Incrby => Batch::one(key, Action::Increment { by: number(value)? }, Say::Number),
        Write::Decrby => {
            let by = number(value)?.checked_neg().ok_or(Fault::new("ERR decrement would overflow"))?;
            Batch::one(key, Action::Increment { by }, Say::Number)
        }
        Write::Expire | Write::Pexpire | Write::Expireat | Write::Pexpireat => {
            if arguments.len() > 3 {
                let option = String::from_utf8_lossy(arguments.get(3)).into_owned();
                let text = format!("ERR Unsupported option {option}: a time-to-live is set, whatever it was");
                return Err(Fault::new(text));
            }
            let ttl = expiry(verb, number(value)?)?;
            Batch::one(key, Action::Expire { ttl }, Say::Existed)
        }
        Write::Mset => pairs(arguments, most),
    }
}

fn pairs<'a>(arguments: Arguments<'a>, most: usize) -> Result<Batch<'a>, Fault> {
    let pairs = arguments.from(1);
    if !pairs.len().is_multiple_of(2) {
        return Err(wrong_number("mset"));
    }
    let mut operations = Vec::new();
    for index in (0..pairs.len()).step_by(2) {
        let (key, value) = (pairs.get(index), pairs.get(index + 1));
        check_key(key)?;
        check_value(value, most)?;
        operations.push(Operation::new(key, Action::Put { value, ttl: Ttl::Never }));
    }
    if operations.len() > atoll_kv::OPERATIONS_MOST {
        let text = format!("ERR MSET takes {} pairs at most", atoll_kv::OPERATIONS_MOST);
        return Err(Fault::new(text));
    }
    one_slot(operations.iter().map(|operation| operation.key))?;
    Ok(Batch { operations: operations.into(), say: Say::Ok, unmet: Unmet::Null })
}

fn expiry(verb: Write, number: i64) -> Result<Ttl, Fault> {
    let whole = matches!(verb, Write::Expire | Write::Expireat);
    let count = milliseconds(number, whole).ok_or_else(|| invalid_expire("expire"))?;
    let absolute = matches!(verb, Write::Expireat | Write::Pexpireat);
    Ok(if absolute { at(count) } else { Ttl::After(span(count)) })
}

fn at(milliseconds: i64) -> Ttl {
    Ttl::At(Time(u64::try_from(milliseconds).unwrap_or(0).saturating_mul(1000)))
}

/// Of a value that is written: it must be above zero.
fn time_to_live(number: i64, whole_seconds: bool, command: &str) -> Result<Ttl, Fault> {
    let count = milliseconds(number, whole_seconds).filter(|&count| count > 0);
    Ok(Ttl::After(span(count.ok_or_else(|| invalid_expire(command))?)))
}

/// The options of SET.
#[derive(Debug)]
struct Set {
    condition: Condition,
    get: bool,
    ttl: Ttl,
}

impl Set {
    fn parse(arguments: Arguments<'_>) -> Result<Set, Fault> {
        let mut set = Set { condition: Condition::None, get: false, ttl: Ttl::Never };
        let mut timed = false;
        let mut index = 3;
        while index < arguments.len() {
            let option = arguments.get(index);
            index += 1;
            let condition = if is(option, "NX") {
                Condition::Absent
            } else if is(option, "XX") {
                Condition::Present
            } else {
                Condition::None
            };
            if condition != Condition::None {
                if set.condition != Condition::None && set.condition != condition {
                    return Err(Fault::SYNTAX);
                }
                set.condition = condition;
                continue;
            }
            if is(option, "GET") {
                set.get = true;
                continue;
            }
            if timed {
                return Err(Fault::SYNTAX);
            }
            timed = true;
            if is(option, "KEEPTTL") {
                set.ttl = Ttl::Keep;
                continue;
            }
            let whole = is(option, "EX") || is(option, "EXAT");
            let absolute = is(option, "EXAT") || is(option, "PXAT");
            if !(whole || absolute || is(option, "PX")) || index >= arguments.len() {
                return Err(Fault::SYNTAX);
            }
            let given = number(arguments.get(index))?;
            index += 1;
            let relative = time_to_live(given, whole, "set")?;
            set.ttl = match milliseconds(given, whole) {
                Some(count) if absolute => at(count),
                Some(_) | None => relative,
            };
        }
        Ok(set)
    }

    fn operation<'a>(&self, arguments: Arguments<'a>) -> Operation<'a> {
        let (key, value, ttl) = (arguments.get(1), arguments.get(2), self.ttl);
        let action = if self.get { Action::GetAndPut { value, ttl } } else { Action::Put { value, ttl } };
        Operation::new(key, action).on(self.condition)
    }
}

/// MGET: one query for each slot.
fn many(keys: Arguments<'_>) -> Result<Plan, Fault> {
    let mut slots: Vec<(HashSlot, Vec<&[u8]>)> = Vec::new();
    let mut places = Vec::with_capacity(keys.len());
    let mut by_slot = std::collections::BTreeMap::new();
    for key in keys.iter() {
        check_key(key)?;
        let slot = HashSlot::of(key);
        let part = *by_slot.entry(slot).or_insert_with(|| {
            slots.push((slot, Vec::new()));
            slots.len() - 1
        });
        places.push((part, slots[part].1.len()));
        slots[part].1.push(key);
    }
    let asks = slots.into_iter().map(|(slot, keys)| (slot, read(kv_query(&Query::GetMany { keys }))));
    Ok(Plan::Fan(asks.collect(), Gather::Values(places)))
}

/// SET with NX and GET: stored where nothing is, otherwise what is there. A value that is gone by the time it is looked
/// for shows that the key was absent meanwhile: then it is tried again.
fn set_if_absent_and_get(asker: Asker, key: Vec<u8>, command: Payload, protocol: Protocol) -> Late {
    const TRIES: usize = 16;
    Box::pin(async move {
        let slot = HashSlot::of(&key);
        let result: Result<Option<Vec<u8>>, Fault> = async {
            for _ in 0..TRIES {
                let given = asker.ask(slot, write(command.clone())).await?;
                let answer = kv(given.payload.as_slice())?;
                if matches!(answer, Answer::Done(_)) {
                    return Ok(None);
                }
                let Answer::Failed { why: Failure::Condition { .. }, .. } = answer else {
                    return Err(other_kv(&answer));
                };
                let given = asker.ask(slot, read(kv_query(&Query::Get { key: &key }))).await?;
                let answer = kv(given.payload.as_slice())?;
                let Answer::Value(found) = answer else { return Err(other_kv(&answer)) };
                if let Some(found) = found {
                    return Ok(Some(found.value.to_vec()));
                }
            }
            Err(Fault::new("TRYAGAIN the key comes and goes too fast; not applied, try again"))
        }
        .await;
        let reply = bytes(protocol, |reply| match &result {
            Ok(value) => reply.bulk_or_null(value.as_deref()),
            Err(fault) => reply.fault(fault),
        });
        Said { reply, rest: None }
    })
}
