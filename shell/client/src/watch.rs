//! The changes of a key, as they commit.
//!
//! ```text
//!   read the key ──▶ tell it ──▶ wait until the bucket's log goes on ──▶ did the key change? ──▶ read it again
//!                                       ▲                                    │ no
//!                                       └────────────────────────────────────┘
//! ```
//!
//! What is told never goes back; of several changes in quick succession the last may be the only one that is told. A
//! lost connection is not noticed: where to go on is an offset of the bucket's log, which every member has.

use crate::client::Client;
use crate::error::Error;
use crate::keys::{Value, got, query_bytes};
use crate::link::Done;
use atoll_kv::{Answer, Query, Which};
use atoll_types::{HashSlot, Mark, Offset, Position};
use std::time::Duration;
use tokio::time::sleep;

/// Changes of one key that are looked at together.
const LIMIT: u32 = 256;
/// After nobody had got further: a node that does not wait must not be asked without end.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// What a watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The key's value now; none: it is absent. The first one is what was there when the watch began.
    Now(Option<Value>),
    /// Changes may have been missed: more came than are kept. This is the value now.
    Reset(Option<Value>),
}

#[derive(Debug)]
pub struct Watch {
    client: Client,
    key: Vec<u8>,
    slot: HashSlot,
    /// Everything up to here was told. None: nothing yet.
    seen: Option<Position>,
    /// Changes after `seen` are there, up to this position, or are no longer kept.
    news: Option<News>,
}

#[derive(Clone, Copy, Debug)]
struct News {
    at: Position,
    missed: bool,
}

/// The place just after this one.
pub(crate) fn beyond(position: Position) -> Position {
    let Mark { epoch, offset } = position.mark;
    Position { mark: Mark { epoch, offset: offset.next() }, ..position }
}

impl Client {
    /// Tells the key's value, and then every change.
    pub fn watch(&self, key: impl AsRef<[u8]>) -> Watch {
        self.watch_from(key, None)
    }

    /// Goes on after a position that an earlier watch told (`Watch::position`).
    pub fn watch_from(&self, key: impl AsRef<[u8]>, seen: Option<Position>) -> Watch {
        let key = key.as_ref().to_vec();
        Watch { client: self.clone(), slot: HashSlot::of(&key), key, seen, news: None }
    }
}

impl Watch {
    /// Everything up to here was told.
    pub fn position(&self) -> Option<Position> {
        self.seen
    }

    /// Waits for the next change, however long that takes. After an error it may be called again, and misses nothing;
    /// the same holds where it is cancelled.
    pub async fn next(&mut self) -> Result<Seen, Error> {
        loop {
            match (self.seen, self.news) {
                (None, _) => {
                    let done = self.client.read(self.slot, &self.get()).await?;
                    return self.tell(&done, false);
                }
                (Some(_), Some(news)) => {
                    // At or after the change, from any member that has it.
                    let Some(done) = self.client.read_after(self.slot, Some(news.at), &self.get()).await? else {
                        sleep(PAUSE).await;
                        continue;
                    };
                    return self.tell(&done, news.missed);
                }
                (Some(seen), None) => self.wait(seen).await?,
            }
        }
    }

    fn get(&self) -> Vec<u8> {
        query_bytes(&Query::Get { key: &self.key })
    }

    fn tell(&mut self, done: &Done, missed: bool) -> Result<Seen, Error> {
        let value = got(done)?;
        // The read shows everything up to its own position.
        self.seen = Some(done.position);
        self.news = None;
        Ok(if missed { Seen::Reset(value) } else { Seen::Now(value) })
    }

    /// Until there is news, or the log went on without any.
    async fn wait(&mut self, seen: Position) -> Result<(), Error> {
        let after = seen.mark.offset;
        let query = query_bytes(&Query::Changes { which: Which::Key(&self.key), after, limit: LIMIT });
        let done = match self.client.read_after(self.slot, Some(beyond(seen)), &query).await? {
            Some(done) => done,
            None => {
                sleep(PAUSE).await;
                // Asked of the primary, so that a bucket that was begun anew is noticed.
                self.client.read(self.slot, &query).await?
            }
        };
        let at = done.position;
        match Answer::decode(&done.payload) {
            Some(_) if at.mark.offset < after => {
                self.news = Some(News { at, missed: true });
            }
            Some(Answer::Changes { changes, until }) if changes.is_empty() => {
                let mark = Mark { epoch: at.mark.epoch, offset: until.min(at.mark.offset).max(Offset::ZERO) };
                self.seen = Some(Position { bucket: at.bucket, mark });
            }
            Some(Answer::Changes { .. }) => self.news = Some(News { at, missed: false }),
            Some(Answer::Reset { .. }) => self.news = Some(News { at, missed: true }),
            Some(_) | None => return Err(Error::Protocol("no changes")),
        }
        Ok(())
    }
}
