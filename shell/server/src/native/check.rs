//! Whether a command or query may go to the slot it names. The core trusts its listeners here: a command in the wrong
//! bucket would be applied there, and its keys found by nobody.

use atoll_kv::{Query, Which};
use atoll_node::store;
use atoll_protocol::Reason;
use atoll_types::HashSlot;

/// What is wrong with it.
pub(super) type Wrong = (Reason, &'static str);

const NO_COMMAND: Wrong = (Reason::BadRequest, "these bytes are no command");
const NO_QUERY: Wrong = (Reason::BadRequest, "these bytes are no query");
const NO_STORE: Wrong = (Reason::BadRequest, "the first byte names no store: 1 is key-value, 2 streams");
const CROSS_SLOT: Wrong = (Reason::BadRequest, "keys in different hash slots: put the same {tag} into each");
const OTHER_SLOT: Wrong = (Reason::BadRequest, "the keys are in another hash slot than the one named");
const NO_KEY: Wrong = (Reason::BadRequest, "neither a key nor a hash slot is named");
const VALUE: Wrong = (Reason::TooLarge, "a value that is longer than this node takes");

/// The slot of keys, as they are found.
#[derive(Debug)]
struct Found {
    named: Option<HashSlot>,
    of_keys: Option<HashSlot>,
}

impl Found {
    fn new(named: Option<HashSlot>) -> Found {
        Found { named, of_keys: None }
    }

    fn key(&mut self, key: &[u8]) -> Result<(), Wrong> {
        let slot = HashSlot::of(key);
        if self.of_keys.is_some_and(|other| other != slot) {
            return Err(CROSS_SLOT);
        }
        self.of_keys = Some(slot);
        if self.named.is_some_and(|named| named != slot) { Err(OTHER_SLOT) } else { Ok(()) }
    }

    fn slot(self) -> Result<HashSlot, Wrong> {
        self.of_keys.or(self.named).ok_or(NO_KEY)
    }
}

/// The slot that a command is for. No value may be longer than `value_most`.
pub(super) fn command(bytes: &[u8], named: Option<HashSlot>, value_most: usize) -> Result<HashSlot, Wrong> {
    let mut found = Found::new(named);
    match bytes.split_first() {
        Some((&store::KV, rest)) => {
            let command = atoll_kv::Command::decode(rest).ok_or(NO_COMMAND)?;
            for operation in &command.operations {
                found.key(operation.key)?;
                let value = match operation.action {
                    atoll_kv::Action::Put { value, .. } | atoll_kv::Action::GetAndPut { value, .. } => value.len(),
                    // What it may grow to counts as well: nobody else asks.
                    atoll_kv::Action::Append { value, most } => {
                        value.len().max(usize::try_from(most).unwrap_or(usize::MAX))
                    }
                    atoll_kv::Action::Check
                    | atoll_kv::Action::Get
                    | atoll_kv::Action::Delete
                    | atoll_kv::Action::Increment { .. }
                    | atoll_kv::Action::Expire { .. }
                    | atoll_kv::Action::GetAndDelete => 0,
                };
                fits(value, value_most)?;
            }
        }
        Some((&store::STREAM, rest)) => {
            let command = atoll_stream::Command::decode(rest).ok_or(NO_COMMAND)?;
            for operation in &command.operations {
                found.key(operation.stream)?;
                if let atoll_stream::Action::Append { payload, .. } = operation.action {
                    fits(payload.len(), value_most)?;
                }
            }
        }
        Some(_) | None => return Err(NO_STORE),
    }
    found.slot()
}

fn fits(length: usize, most: usize) -> Result<(), Wrong> {
    if length > most { Err(VALUE) } else { Ok(()) }
}

/// The slot that a query is for, and how many bytes of answer it asks for, where it says so.
pub(super) fn query(bytes: &[u8], named: Option<HashSlot>) -> Result<(HashSlot, usize), Wrong> {
    let mut found = Found::new(named);
    let asked = match bytes.split_first() {
        Some((&store::KV, rest)) => kv_query(&Query::decode(rest).ok_or(NO_QUERY)?, &mut found)?,
        Some((&store::STREAM, rest)) => stream_query(&atoll_stream::Query::decode(rest).ok_or(NO_QUERY)?, &mut found)?,
        Some(_) | None => return Err(NO_STORE),
    };
    found.slot().map(|slot| (slot, asked))
}

fn kv_query(query: &Query<'_>, found: &mut Found) -> Result<usize, Wrong> {
    match query {
        Query::Get { key } | Query::Ttl { key } | Query::Length { key } => found.key(key).map(|()| 0),
        Query::GetMany { keys } | Query::Exists { keys } => keys.iter().try_for_each(|key| found.key(key)).map(|()| 0),
        Query::Changes { which: Which::Key(key), .. } => found.key(key).map(|()| 0),
        // Of the whole bucket that has the slot named.
        Query::Changes { which: Which::Prefix(_), .. } | Query::Count => Ok(0),
        Query::Scan { bytes, .. } => Ok((*bytes as usize).min(atoll_kv::ANSWER_MOST)),
    }
}

fn stream_query(query: &atoll_stream::Query<'_>, found: &mut Found) -> Result<usize, Wrong> {
    match query {
        atoll_stream::Query::Read { stream, bytes, .. } | atoll_stream::Query::ReadReverse { stream, bytes, .. } => {
            found.key(stream).map(|()| (*bytes as usize).min(atoll_stream::ANSWER_MOST))
        }
        atoll_stream::Query::Length { stream } | atoll_stream::Query::Info { stream } => found.key(stream).map(|()| 0),
        atoll_stream::Query::List { .. } => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_kv::{Action, Command, Operation, Ttl};

    fn kv(command: &Command<'_>) -> Vec<u8> {
        let mut bytes = vec![store::KV];
        command.encode(&mut bytes);
        bytes
    }

    #[test]
    fn both_ends_mean_the_same_stores() {
        assert_eq!((atoll_protocol::KV, atoll_protocol::STREAM), (store::KV, store::STREAM));
    }

    #[test]
    fn a_command_goes_only_where_its_keys_are() {
        let put = |key| Operation::new(key, Action::Put { value: b"value", ttl: Ttl::Never });
        let own = HashSlot::of(b"foo");
        let one = kv(&Command { operations: vec![put(b"foo")].into() });
        assert_eq!(command(&one, None, 9), Ok(own));
        assert_eq!(command(&one, Some(own), 9), Ok(own));
        assert_eq!(command(&one, Some(HashSlot(1)), 9), Err(OTHER_SLOT));
        assert_eq!(command(&one, None, 4), Err(VALUE));
        let append = |most| kv(&Command::one(b"foo", Action::Append { value: b"v", most }));
        assert_eq!((command(&append(9), None, 9), command(&append(10), None, 9)), (Ok(own), Err(VALUE)));
        let two = kv(&Command { operations: vec![put(b"foo"), put(b"bar")].into() });
        assert_eq!(command(&two, Some(own), 9), Err(CROSS_SLOT));
        assert_eq!(command(&kv(&Command::default()), None, 9), Err(NO_KEY));
        assert_eq!(command(b"", None, 9), Err(NO_STORE));
        assert_eq!(command(b"\x01\xff", None, 9), Err(NO_COMMAND));
        assert_eq!(command(b"\x09\xff", None, 9), Err(NO_STORE));
    }

    #[test]
    fn a_query_of_a_whole_bucket_needs_a_slot() {
        let count = |named| query(&[store::KV, 6], named);
        assert_eq!(count(None), Err(NO_KEY));
        assert_eq!(count(Some(HashSlot(5))), Ok((HashSlot(5), 0)));
    }
}
