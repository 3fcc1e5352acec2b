//! Commands on names, whatever is behind them. A value and a stream of one name live side by side: what deletes a name
//! deletes both, what looks for one looks for both.
//!
//! Not here: SCAN and DBSIZE (`scan.rs`).

use super::expect::{Gather, kv, other_kv};
use super::options::check_key;
use super::parse::Arguments;
use super::plan::{Asker, Late, Plan, Said, read, write};
use super::reply::{Fault, Protocol, bytes};
use crate::data::{kv_command, kv_query, stream_command, stream_query};
use atoll_kv::{Action, Answer, Command, Operation, Query, Ttl};
use atoll_node::shard::door::Ask;
use atoll_types::HashSlot;
use std::collections::BTreeMap;

/// How many keys EXISTS takes: each is two requests to the core.
const LOOKED_FOR_MOST: usize = 1024;

/// DEL, UNLINK: for each slot one batch of keys and one of streams.
pub(crate) fn delete(keys: Arguments<'_>) -> Result<Plan, Fault> {
    let mut slots: BTreeMap<HashSlot, Vec<&[u8]>> = BTreeMap::new();
    for key in keys.iter() {
        check_key(key)?;
        slots.entry(HashSlot::of(key)).or_default().push(key);
    }
    let mut asks = Vec::new();
    for (slot, keys) in slots {
        for keys in keys.chunks(atoll_kv::OPERATIONS_MOST.min(atoll_stream::OPERATIONS_MOST)) {
            let operations = keys.iter().map(|key| Operation::new(key, Action::Delete)).collect();
            asks.push((slot, write(kv_command(&Command { operations }))));
            let operations = keys.iter().map(|stream| {
                let action = atoll_stream::Action::Delete;
                atoll_stream::Operation { stream, action }
            });
            let operations = operations.collect();
            asks.push((slot, write(stream_command(&atoll_stream::Command { operations }))));
        }
    }
    Ok(Plan::Fan(asks, Gather::Deleted))
}

/// Is there a key, a stream of this name?
fn both(key: &[u8]) -> Result<[(HashSlot, Ask); 2], Fault> {
    check_key(key)?;
    let slot = HashSlot::of(key);
    let stream = stream_query(&atoll_stream::Query::Info { stream: key });
    Ok([(slot, read(kv_query(&Query::Exists { keys: vec![key] }))), (slot, read(stream))])
}

pub(crate) fn exists(keys: Arguments<'_>) -> Result<Plan, Fault> {
    if keys.len() > LOOKED_FOR_MOST {
        return Err(Fault::new(format!("ERR EXISTS takes {LOOKED_FOR_MOST} keys at most")));
    }
    let mut asks = Vec::with_capacity(keys.len() * 2);
    for key in keys.iter() {
        asks.extend(both(key)?);
    }
    Ok(Plan::Fan(asks, Gather::Existing))
}

pub(crate) fn kind(key: &[u8]) -> Result<Plan, Fault> {
    Ok(Plan::Fan(both(key)?.into(), Gather::Kind))
}

/// Whether there was a time-to-live to take away is asked first: only the reply depends on it.
pub(crate) fn persist(asker: Asker, key: &[u8], protocol: Protocol) -> Result<Plan, Fault> {
    check_key(key)?;
    let key = key.to_vec();
    let late: Late = Box::pin(async move {
        let slot = HashSlot::of(&key);
        let result: Result<i64, Fault> = async {
            let given = asker.ask(slot, read(kv_query(&Query::Ttl { key: &key }))).await?;
            let answer = kv(given.payload.as_slice())?;
            let Answer::Remaining(atoll_kv::Remaining::Until(_)) = answer else { return Ok(0) };
            let command = kv_command(&Command::one(&key, Action::Expire { ttl: Ttl::Never }));
            let given = asker.ask(slot, write(command)).await?;
            let answer = kv(given.payload.as_slice())?;
            let Answer::Done(outcomes) = answer else { return Err(other_kv(&answer)) };
            Ok(i64::from(outcomes.iter().any(|outcome| outcome.existed)))
        }
        .await;
        let reply = bytes(protocol, |reply| match &result {
            Ok(number) => reply.integer(*number),
            Err(fault) => reply.fault(fault),
        });
        Said { reply, rest: None }
    });
    Ok(Plan::Late { late, blocks: false })
}
