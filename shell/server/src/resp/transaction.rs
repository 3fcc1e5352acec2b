//! MULTI and EXEC: several commands as one entry of a bucket's log.
//!
//! ```text
//!   MULTI ─▶ queueing ─┬ EXEC ─▶ one atomic batch: all of it or nothing
//!               │      └ DISCARD
//!               └ a command that cannot be part of it ─▶ EXEC answers EXECABORT
//! ```
//!
//! All keys are of one slot. Either values or streams: they are written by different batches. Names that are deleted or
//! looked for may be of either. A command that would do something or nothing by a condition cannot be part of it, since
//! a batch whose condition fails does nothing at all.

use super::expect::{Expect, Part, Say};
use super::options::check_key;
use super::parse::{Arguments, Owned};
use super::plan::{Plan, write};
use super::reply::{Fault, Protocol, bytes};
use super::streams;
use super::strings;
use super::table::{Names, Read, Verb};
use crate::data::{kv_command, stream_command};
use atoll_kv::{Action, Command, OPERATIONS_MOST, Operation};
use atoll_node::store;
use atoll_stream::{Action as StreamAction, Operation as StreamOperation, StreamOffset, Trim};
use atoll_types::HashSlot;

#[derive(Debug, Default)]
pub(crate) struct Transaction {
    queued: Vec<(Verb, Owned)>,
    /// Of the first command's key, and whether that is a stream.
    place: Option<(HashSlot, bool)>,
    operations: usize,
    bytes: usize,
    /// Something could not be queued.
    failed: bool,
}

/// What one command does, of one kind or the other.
enum Batch<'a> {
    /// With what is done to the streams of the same names, if anything.
    Values(Vec<Operation<'a>>, Say, Option<StreamAction<'static>>),
    Streams(streams::Batch<'a>),
}

fn batch<'a>(verb: Verb, arguments: Arguments<'a>, most: usize) -> Result<Batch<'a>, Fault> {
    let each = |action: Action<'a>, say, streams| {
        let keys = arguments.from(1);
        keys.iter().try_for_each(check_key)?;
        Ok(Batch::Values(keys.iter().map(|key| Operation::new(key, action)).collect(), say, streams))
    };
    match verb {
        Verb::Write(verb) => {
            let batch = strings::batch(verb, arguments, most)?;
            if batch.is_conditional() {
                return Err(not_here("a command with a condition (NX, XX)"));
            }
            Ok(Batch::Values(batch.operations.to_vec(), batch.say, None))
        }
        Verb::Read(Read::Get) => each(Action::Get, Say::Old, None),
        Verb::Read(Read::Mget) => each(Action::Get, Say::Values, None),
        Verb::Names(Names::Exists) => {
            // Removes nothing, and tells whether there is a stream.
            let look = StreamAction::Trim { by: Trim::Before(StreamOffset(0)) };
            each(Action::Check, Say::Existed, Some(look))
        }
        Verb::Names(Names::Del) => each(Action::Delete, Say::Existed, Some(StreamAction::Delete)),
        Verb::Streams(verb) => match streams::batch(verb, arguments, most) {
            Some(batch) => Ok(Batch::Streams(batch?)),
            None => Err(not_here("reading a stream")),
        },
        Verb::Read(Read::Strlen | Read::Ttl | Read::Pttl | Read::Expiretime | Read::Pexpiretime)
        | Verb::Names(Names::Type | Names::Persist | Names::Scan | Names::Dbsize)
        | Verb::Transaction(_)
        | Verb::Server(_) => Err(not_here("this command")),
    }
}

fn not_here(what: &str) -> Fault {
    Fault::new(format!("ERR {what} cannot be part of a transaction here"))
}

impl Transaction {
    pub(crate) fn fail(&mut self) {
        self.failed = true;
    }

    /// Remembers it for EXEC. `room`: bytes of all arguments.
    pub(crate) fn queue(
        &mut self,
        verb: Verb,
        arguments: Arguments<'_>,
        most: usize,
        room: usize,
    ) -> Result<HashSlot, Fault> {
        let (slot, streams, operations) = match batch(verb, arguments, most)? {
            Batch::Values(operations, ..) => {
                (strings::one_slot(operations.iter().map(|operation| operation.key))?, false, operations.len())
            }
            Batch::Streams(batch) => (batch.slot(), true, batch.operations().count()),
        };
        match self.place {
            Some((first, _)) if first != slot => return Err(Fault::CROSS_SLOT),
            Some((_, of_streams)) if of_streams != streams => {
                return Err(not_here("a stream together with values"));
            }
            Some(_) | None => {}
        }
        let bytes: usize = arguments.iter().map(|argument| argument.len() + 32).sum();
        if self.operations + operations > OPERATIONS_MOST || self.bytes + bytes > room {
            return Err(Fault::new(format!(
                "ERR the transaction is too large: {OPERATIONS_MOST} operations and {room} bytes are the most"
            )));
        }
        self.place = Some((slot, streams));
        self.operations += operations;
        self.bytes += bytes;
        self.queued.push((verb, arguments.to_owned()));
        Ok(slot)
    }

    pub(crate) fn execute(self, most: usize, protocol: Protocol) -> Result<Plan, Fault> {
        if self.failed {
            return Err(Fault::new("EXECABORT Transaction discarded because of previous errors."));
        }
        let Some((slot, _)) = self.place else {
            return Ok(Plan::Reply(bytes(protocol, |reply| reply.array(0))));
        };
        let (mut operations, mut parts, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let (mut batches, mut says) = (Vec::new(), Vec::new());
        for (verb, arguments) in &self.queued {
            match batch(*verb, arguments.arguments(), most)? {
                Batch::Values(own, say, streams) => {
                    parts.push(Part { operations: own.len(), say, streams: streams.is_some() });
                    let of = |action: StreamAction<'static>| {
                        own.iter().map(move |own| StreamOperation { stream: own.key, action: action.clone() })
                    };
                    names.extend(streams.into_iter().flat_map(of));
                    operations.extend(own);
                }
                Batch::Streams(batch) => {
                    says.push(batch.say);
                    batches.push(batch);
                }
            }
        }
        if batches.is_empty() {
            let values = Command { operations: operations.into() };
            let command = match names.is_empty() {
                true => kv_command(&values),
                false => store::both(&values, &atoll_stream::Command { operations: names }),
            };
            return Ok(Plan::Ask(slot, write(command), Expect::Executed(parts)));
        }
        let operations = batches.iter().flat_map(|batch| batch.operations()).collect();
        let command = stream_command(&atoll_stream::Command { operations });
        Ok(Plan::Ask(slot, write(command), Expect::ExecutedOnStreams(says)))
    }
}
