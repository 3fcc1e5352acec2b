//! The streams: publish and read.

use crate::client::Client;
use crate::error::Error;
use crate::link::Done;
use atoll_protocol::STREAM;
use atoll_stream::{Action, Answer, Command, Id, Outcome, Query, StreamOffset};
use atoll_types::{HashSlot, Position, Time};

/// Bytes of messages that are read at a time.
pub(crate) const BYTES: u32 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its place in its stream, from 1.
    pub offset: StreamOffset,
    /// The log's time when it was published: microseconds since 1970.
    pub time: Time,
    pub payload: Vec<u8>,
}

/// A message that is in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    pub offset: StreamOffset,
    pub position: Position,
    /// An earlier attempt took effect; this is its answer.
    pub duplicate: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Messages {
    pub messages: Vec<Message>,
    /// Where to read on. None: there is no such stream.
    pub next: Option<StreamOffset>,
}

/// What a read of a stream found.
#[derive(Debug)]
pub(crate) enum Read {
    Messages { messages: Vec<Message>, next: StreamOffset },
    Reset { oldest: StreamOffset },
    Absent,
}

pub(crate) fn query_bytes(query: &Query<'_>) -> Vec<u8> {
    let mut bytes = vec![STREAM];
    query.encode(&mut bytes);
    bytes
}

pub(crate) fn messages(done: &Done) -> Result<Read, Error> {
    match Answer::decode(&done.payload) {
        Some(Answer::Messages { messages, next: Some(next) }) => {
            let owned = messages.into_iter().map(|message| Message {
                offset: message.offset,
                time: message.time,
                payload: message.payload.to_vec(),
            });
            Ok(Read::Messages { messages: owned.collect(), next })
        }
        Some(Answer::Reset { oldest }) => Ok(Read::Reset { oldest }),
        Some(Answer::Absent) => Ok(Read::Absent),
        Some(_) | None => Err(Error::Protocol("no messages")),
    }
}

impl Client {
    /// Adds a message to the end of a stream, which is made if need be.
    pub async fn publish(&self, stream: impl AsRef<[u8]>, payload: impl AsRef<[u8]>) -> Result<Published, Error> {
        let (stream, payload) = (stream.as_ref(), payload.as_ref());
        let mut bytes = vec![STREAM];
        Command::one(stream, Action::Append { id: Id::Auto, payload }).encode(&mut bytes);
        let done = self.write(HashSlot::of(stream), &bytes).await?;
        let (position, duplicate) = (done.position, done.duplicate);
        if done.payload.is_empty() && duplicate {
            return Err(Error::AnswerGone { position });
        }
        match Answer::decode(&done.payload) {
            Some(Answer::Done(outcomes)) => match outcomes.first() {
                Some(&Outcome::Appended { offset, .. }) => Ok(Published { offset, position, duplicate }),
                Some(Outcome::Removed { .. } | Outcome::Configured { .. }) | None => {
                    Err(Error::Protocol("no offset of a message"))
                }
            },
            Some(Answer::Failed { why, .. }) => Err(Error::StreamFailed { why }),
            Some(_) | None => Err(Error::Protocol("no outcome of a message")),
        }
    }

    /// Messages from this offset on, or from the oldest; at most `limit`. `Error::Trimmed` where it is no longer kept.
    pub async fn read_stream(
        &self,
        stream: impl AsRef<[u8]>,
        from: Option<StreamOffset>,
        limit: u32,
    ) -> Result<Messages, Error> {
        let stream = stream.as_ref();
        let query = query_bytes(&Query::Read { stream, from, limit: limit.max(1), bytes: BYTES });
        match messages(&self.read(HashSlot::of(stream), &query).await?)? {
            Read::Messages { messages, next } => Ok(Messages { messages, next: Some(next) }),
            Read::Reset { oldest } => Err(Error::Trimmed { oldest }),
            Read::Absent => Ok(Messages { messages: Vec::new(), next: None }),
        }
    }
}
