//! What a client wants done, in words that the clients, the checkers and a person share, and as the bytes that a bucket
//! understands.
//!
//! Each write carries its own number somewhere in its bytes, so that no two writes of a run are the same and a checker
//! can tell from an entry of a log whose it is.

use atoll_kv::{Action, Condition, Operation, Ttl};
pub(crate) use atoll_node::store::{KV, STREAM};
use atoll_stream::StreamOffset;
use atoll_types::{HashSlot, Offset, Payload};
use std::time::Duration;

/// More than any scan or fetch of a run finds.
const ALL: u32 = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Put {
        key: String,
        value: String,
        ttl: Option<Duration>,
    },
    /// Puts the value if the key still has the one that was seen there: none, if it was absent.
    Swap {
        key: String,
        seen: Option<(Offset, String)>,
        value: String,
    },
    Increment {
        key: String,
        by: i64,
    },
    Append {
        key: String,
        value: String,
    },
    /// `number` makes the bytes unique.
    Delete {
        key: String,
        number: usize,
    },
    /// Puts the value and gives the one that was there.
    Exchange {
        key: String,
        value: String,
    },
    /// The key goes after so long, or stays for ever.
    Expire {
        key: String,
        after: Option<Duration>,
        number: usize,
    },
    /// Two keys of one slot at once.
    Both {
        keys: [String; 2],
        value: String,
    },
    Publish {
        stream: String,
        message: String,
    },
    /// Forgets all messages of the stream but the newest.
    Trim {
        stream: String,
        keep: u64,
        number: usize,
    },
    Get {
        key: String,
    },
    /// All keys of the slot that begin so.
    Scan {
        prefix: String,
        slot: HashSlot,
    },
    Fetch {
        stream: String,
        from: Option<u64>,
    },
}

impl Act {
    pub(crate) fn slot(&self) -> HashSlot {
        match self {
            Act::Put { key, .. }
            | Act::Swap { key, .. }
            | Act::Increment { key, .. }
            | Act::Append { key, .. }
            | Act::Delete { key, .. }
            | Act::Exchange { key, .. }
            | Act::Expire { key, .. }
            | Act::Get { key }
            | Act::Both { keys: [key, _], .. }
            | Act::Publish { stream: key, .. }
            | Act::Trim { stream: key, .. }
            | Act::Fetch { stream: key, .. } => HashSlot::of(key.as_bytes()),
            Act::Scan { slot, .. } => *slot,
        }
    }

    pub(crate) fn is_write(&self) -> bool {
        match self {
            Act::Put { .. }
            | Act::Swap { .. }
            | Act::Increment { .. }
            | Act::Append { .. }
            | Act::Delete { .. }
            | Act::Exchange { .. }
            | Act::Expire { .. }
            | Act::Both { .. }
            | Act::Publish { .. }
            | Act::Trim { .. } => true,
            Act::Get { .. } | Act::Scan { .. } | Act::Fetch { .. } => false,
        }
    }

    /// A command or a query.
    pub(crate) fn bytes(&self) -> Payload {
        match self {
            Act::Put { key, value, ttl } => {
                let ttl = ttl.map_or(Ttl::Never, Ttl::After);
                kv(vec![Operation::new(key.as_bytes(), Action::Put { value: value.as_bytes(), ttl })])
            }
            Act::Swap { key, seen, value } => {
                let condition = seen.as_ref().map_or(Condition::Absent, |(version, _)| Condition::Version(*version));
                let put = Action::Put { value: value.as_bytes(), ttl: Ttl::Never };
                kv(vec![Operation::new(key.as_bytes(), put).on(condition)])
            }
            Act::Increment { key, by } => kv(vec![Operation::new(key.as_bytes(), Action::Increment { by: *by })]),
            Act::Append { key, value } => {
                kv(vec![Operation::new(key.as_bytes(), Action::Append { value: value.as_bytes(), most: u64::MAX })])
            }
            Act::Delete { key, number } => {
                let tag = named(*number, key);
                let check = Operation::new(tag.as_bytes(), Action::Check);
                kv(vec![Operation::new(key.as_bytes(), Action::Delete), check])
            }
            Act::Exchange { key, value } => {
                let put = Action::GetAndPut { value: value.as_bytes(), ttl: Ttl::Never };
                kv(vec![Operation::new(key.as_bytes(), put)])
            }
            Act::Expire { key, after, number } => {
                let tag = named(*number, key);
                let check = Operation::new(tag.as_bytes(), Action::Check);
                let ttl = after.map_or(Ttl::Never, Ttl::After);
                kv(vec![Operation::new(key.as_bytes(), Action::Expire { ttl }), check])
            }
            Act::Both { keys, value } => {
                let put = |key| Operation::new(key, Action::Put { value: value.as_bytes(), ttl: Ttl::Never });
                kv(keys.iter().map(|key| put(key.as_bytes())).collect())
            }
            Act::Publish { stream, message } => {
                let append = atoll_stream::Action::Append { id: Default::default(), payload: message.as_bytes() };
                let mut bytes = vec![STREAM];
                atoll_stream::Command::one(stream.as_bytes(), append).encode(&mut bytes);
                bytes.into()
            }
            Act::Trim { stream, keep, number } => {
                let tag = named(*number, stream);
                let trim = |stream, count| {
                    let by = atoll_stream::Trim::Count(count);
                    atoll_stream::Operation { stream, action: atoll_stream::Action::Trim { by } }
                };
                let operations = vec![trim(stream.as_bytes(), *keep), trim(tag.as_bytes(), 0)];
                let mut bytes = vec![STREAM];
                atoll_stream::Command { operations }.encode(&mut bytes);
                bytes.into()
            }
            Act::Get { key } => kv_query(&atoll_kv::Query::Get { key: key.as_bytes() }),
            Act::Scan { prefix, slot } => {
                let (prefix, slot) = (prefix.as_bytes(), Some(*slot));
                kv_query(&atoll_kv::Query::Scan { prefix, after: None, slot, values: true, limit: ALL, bytes: ALL })
            }
            Act::Fetch { stream, from } => {
                let (stream, from) = (stream.as_bytes(), from.map(StreamOffset));
                let mut bytes = vec![STREAM];
                atoll_stream::Query::Read { stream, from, limit: ALL, bytes: ALL }.encode(&mut bytes);
                bytes.into()
            }
        }
    }
}

/// A key of the same slot that never is: what is asked of it does nothing, and tells this write from all others.
fn named(number: usize, key: &str) -> String {
    format!("{number}.{}", &key[key.find('{').unwrap_or(0)..])
}

fn kv(operations: Vec<Operation<'_>>) -> Payload {
    let mut bytes = vec![KV];
    atoll_kv::Command { operations: operations.into() }.encode(&mut bytes);
    bytes.into()
}

fn kv_query(query: &atoll_kv::Query<'_>) -> Payload {
    let mut bytes = vec![KV];
    query.encode(&mut bytes);
    bytes.into()
}
