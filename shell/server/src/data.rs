//! Commands and queries as the core takes them, and its refusals in words: what all listeners share.

use atoll_node::shard::door::Reason;
use atoll_node::store;
use atoll_types::Payload;
use std::cell::RefCell;

/// What one thread puts together may be so long and stays in its memory.
const SCRATCH_MOST: usize = 64 << 10;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Puts a payload together where the last one was: its own memory is taken once, when its length is known. A long one
/// keeps the memory it was put together in.
fn payload(machine: u8, encode: impl FnOnce(&mut Vec<u8>)) -> Payload {
    SCRATCH.with_borrow_mut(|bytes| {
        bytes.clear();
        bytes.push(machine);
        encode(bytes);
        if bytes.len() > SCRATCH_MOST {
            return std::mem::take(bytes).into();
        }
        let payload = Payload::from(&bytes[..]);
        bytes.shrink_to(SCRATCH_MOST);
        payload
    })
}

pub(crate) fn kv_command(command: &atoll_kv::Command<'_>) -> Payload {
    payload(store::KV, |bytes| command.encode(bytes))
}

/// Writes a value that never expires, whatever was there.
pub(crate) fn kv_put(key: &[u8], value: &[u8]) -> Payload {
    payload(store::KV, |bytes| atoll_kv::put_command(key, value, bytes))
}

pub(crate) fn kv_query(query: &atoll_kv::Query<'_>) -> Payload {
    payload(store::KV, |bytes| query.encode(bytes))
}

pub(crate) fn stream_command(command: &atoll_stream::Command<'_>) -> Payload {
    payload(store::STREAM, |bytes| command.encode(bytes))
}

pub(crate) fn stream_query(query: &atoll_stream::Query<'_>) -> Payload {
    payload(store::STREAM, |bytes| query.encode(bytes))
}

/// A reason as programs and as people read it.
pub(crate) struct Words {
    pub(crate) code: &'static str,
    pub(crate) message: &'static str,
}

/// Why something was not applied.
pub(crate) fn words(reason: Reason) -> Words {
    let (code, message) = match reason {
        Reason::Busy => ("busy", "too many requests wait for this bucket; not applied, try again"),
        Reason::Paused => ("paused", "the bucket was not served in time; not applied, try again"),
        Reason::Lost => ("lost", "no copy of this bucket is left that may serve it; `atoll status` says more"),
        Reason::NoTable => ("no_table", "this node belongs to no cluster yet; not applied, try again"),
        Reason::TooManyHops => ("too_many_hops", "the bucket moved while this was on its way; not applied, try again"),
        Reason::OutOfMemory => ("out_of_memory", "a node that holds this bucket is near its memory limit; not applied"),
        Reason::SessionExpired => ("session_expired", "the session was forgotten: open a new one"),
        Reason::BelowFloor => ("below_floor", "the series is below the floor that this session named itself"),
        Reason::BeyondWindow => ("beyond_window", "more writes outstanding than a session may have"),
        Reason::BadSession => ("bad_session", "this session cannot be used here: a wrapping counter has one slot"),
        Reason::TooStale => ("too_stale", "no member has a state that is new enough; try again"),
        Reason::TooLarge => ("too_large", "larger than an entry of the log may be"),
    };
    Words { code, message }
}
