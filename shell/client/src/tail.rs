//! A stream as it grows: every message once, in order, over any number of lost connections.
//!
//! ```text
//!   Starting ──where it begins──▶ reading ──nothing left──▶ waiting until the bucket's log goes on ──▶ reading
//! ```
//!
//! Where to go on is an offset of the stream, which is the same on every member; so nothing has to be remembered by
//! any node, and a tail can be taken up anywhere (`Tail::next_offset`).

use crate::client::Client;
use crate::error::Error;
use crate::streams::{BYTES, Message, Read, messages, query_bytes};
use crate::watch::{PAUSE, beyond};
use atoll_stream::{Answer, Query, StreamOffset};
use atoll_types::{HashSlot, Position};
use std::collections::VecDeque;
use tokio::time::sleep;

/// Messages that are fetched at a time.
const LIMIT: u32 = 256;

/// Where a tail begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum From {
    /// With the oldest message that is kept.
    Oldest,
    /// With this one.
    Offset(StreamOffset),
    /// With the next that is published.
    #[default]
    Now,
}

/// What a tail tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tailed {
    Message(Message),
    /// Messages were missed: they are no longer kept. It goes on with this one.
    Reset {
        oldest: StreamOffset,
    },
}

#[derive(Debug)]
pub struct Tail {
    client: Client,
    stream: Vec<u8>,
    slot: HashSlot,
    from: From,
    /// Fetched, and not told yet.
    fetched: VecDeque<Message>,
    /// The next to fetch. None: the oldest there is.
    next: Option<StreamOffset>,
    /// What was fetched is as of here. None: nothing was yet.
    seen: Option<Position>,
    /// Nothing was left at `seen`.
    at_end: bool,
}

impl Client {
    pub fn tail(&self, stream: impl AsRef<[u8]>, from: From) -> Tail {
        let stream = stream.as_ref().to_vec();
        let next = match from {
            From::Offset(offset) => Some(offset),
            From::Oldest | From::Now => None,
        };
        Tail {
            client: self.clone(),
            slot: HashSlot::of(&stream),
            stream,
            from,
            fetched: VecDeque::new(),
            next,
            seen: None,
            at_end: false,
        }
    }
}

impl Tail {
    /// Where another tail would go on. None: with the oldest there is.
    pub fn next_offset(&self) -> Option<StreamOffset> {
        self.fetched.front().map(|message| message.offset).or(self.next)
    }

    /// Waits for the next message, however long that takes. After an error it may be called again, and misses nothing;
    /// the same holds where it is cancelled.
    pub async fn next(&mut self) -> Result<Tailed, Error> {
        loop {
            if let Some(message) = self.fetched.pop_front() {
                return Ok(Tailed::Message(message));
            }
            if let Some(reset) = self.fetch().await? {
                return Ok(reset);
            }
        }
    }

    async fn fetch(&mut self) -> Result<Option<Tailed>, Error> {
        let Some(seen) = self.seen else { return self.start().await.map(|()| None) };
        let query = query_bytes(&Query::Read { stream: &self.stream, from: self.next, limit: LIMIT, bytes: BYTES });
        let after = if self.at_end { beyond(seen) } else { seen };
        let Some(done) = self.client.read_after(self.slot, Some(after), &query).await? else {
            sleep(PAUSE).await;
            return self.look().await;
        };
        self.seen = Some(done.position);
        match messages(&done)? {
            Read::Messages { messages, next } => {
                // Deleted messages are passed over: then it went on without any.
                self.at_end = messages.is_empty() && self.next.is_none_or(|before| before == next);
                self.next = Some(next);
                self.fetched.extend(messages);
                Ok(None)
            }
            Read::Reset { oldest } => {
                (self.next, self.at_end) = (Some(oldest), false);
                Ok(Some(Tailed::Reset { oldest }))
            }
            Read::Absent => {
                self.at_end = true;
                Ok(None)
            }
        }
    }

    /// Where the log is now, and, where it begins with what is to come, which message that is.
    async fn start(&mut self) -> Result<(), Error> {
        let done = self.client.read(self.slot, &query_bytes(&Query::Info { stream: &self.stream })).await?;
        if self.from == From::Now {
            self.next = match Answer::decode(&done.payload) {
                Some(Answer::Info(info)) => Some(info.next),
                // Whatever comes will be its first.
                Some(Answer::Absent) => None,
                Some(_) | None => return Err(Error::Protocol("nothing about a stream")),
            };
        }
        self.seen = Some(done.position);
        Ok(())
    }

    /// Nobody got further. Asks the primary, so that a bucket that was begun anew is noticed.
    async fn look(&mut self) -> Result<Option<Tailed>, Error> {
        let done = self.client.read(self.slot, &query_bytes(&Query::Info { stream: &self.stream })).await?;
        self.at_end = self.at_end && self.seen.is_some_and(|seen| seen.mark.offset >= done.position.mark.offset);
        self.seen = Some(done.position);
        match (Answer::decode(&done.payload), self.next) {
            (Some(Answer::Info(info)), Some(next)) if info.next < next => {
                (self.next, self.at_end) = (Some(info.first), false);
                Ok(Some(Tailed::Reset { oldest: info.first }))
            }
            (Some(Answer::Info(_) | Answer::Absent), _) => Ok(None),
            (Some(_) | None, _) => Err(Error::Protocol("nothing about a stream")),
        }
    }
}
