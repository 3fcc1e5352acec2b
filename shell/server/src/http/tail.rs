//! Messages of one stream, as they commit.
//!
//! Each is an event without a name, whose data is the message as a read gives it and whose id is its offset: a client
//! that comes back with `Last-Event-ID` goes on with the next. Where that one is not kept any more, or was never
//! published, an event `reset` with `{"oldest"}` says with which message it goes on. Without `Last-Event-ID` a tail
//! begins with `?from=`, or with the next message that is published.

use super::App;
use super::error::Error;
use super::events::{Follower, News, Source, bookmark, event, respond};
use super::request::{Freshness, read, value};
use super::streams::{LIMIT_MOST, message, query};
use crate::data::stream_query;
use atoll_stream::{Answer, Query, StreamOffset};
use atoll_types::{HashSlot, Offset};
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::json;

struct Tail {
    follower: Follower,
    name: Vec<u8>,
    next: StreamOffset,
    /// Where the bucket's log was when there was nothing more to tell.
    seen: Option<Offset>,
    /// To be sent first.
    first: Option<String>,
}

pub(super) async fn tail(app: App, name: Vec<u8>, from: Option<u64>, headers: &HeaderMap) -> Result<Response, Error> {
    let resumed: Option<u64> = value(headers, "last-event-id", "the offset of a message")?;
    let slot = HashSlot::of(&name);
    let asked = stream_query(&Query::Info { stream: &name });
    // A bucket that does not serve is told at once, and what is published from now on is seen.
    let done = read(&app, app.gateway.new_connection(), slot, asked, Freshness::Linearizable).await?;
    let (oldest, newest) = match Answer::decode(done.payload.as_slice()) {
        Some(Answer::Info(info)) => (info.first, info.next),
        Some(Answer::Absent) => (StreamOffset::FIRST, StreamOffset::FIRST),
        _ => return Err(Error::unreadable()),
    };
    let mut first = String::new();
    let next = match resumed {
        Some(last) if last < newest.0 => StreamOffset(last).next(),
        // Nobody was given that message: it is of another stream.
        Some(_) => {
            reset(&mut first, oldest);
            oldest
        }
        None => from.map_or(newest, |from| if from == 0 { oldest } else { StreamOffset(from) }),
    };
    if first.is_empty() {
        first = bookmark(next.0.saturating_sub(1));
    }
    let follower = Follower::new(app, slot, done.position);
    Ok(done.respond(respond(Tail { follower, name, next, seen: None, first: Some(first) })))
}

impl Source for Tail {
    async fn next(&mut self) -> Option<String> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            let query = query(&self.name, Some(self.next), LIMIT_MOST);
            let (payload, position) = match self.seen {
                None => self.follower.now(&query).await,
                Some(seen) => match self.follower.news(seen, &query).await {
                    News::Read(payload, position) => (payload, position),
                    News::Quiet => return Some(bookmark(self.next.0.saturating_sub(1))),
                    // The client comes back, and is told with which message it goes on.
                    News::Shortened => return None,
                },
            };
            self.seen = Some(position.mark.offset);
            let mut text = String::new();
            match Answer::decode(payload.as_slice()) {
                Some(Answer::Messages { messages, next }) => {
                    for found in &messages {
                        event(&mut text, "message", found.offset.0, &message(found));
                    }
                    let next = next.unwrap_or(self.next);
                    if next > self.next {
                        // There may be more already.
                        self.seen = None;
                    }
                    self.next = next;
                }
                Some(Answer::Reset { oldest }) => {
                    reset(&mut text, oldest);
                    (self.next, self.seen) = (oldest, None);
                }
                // It may be made at any time.
                Some(Answer::Absent) => {}
                // Of another version, perhaps: the client comes back.
                _ => return None,
            }
            if !text.is_empty() {
                return Some(text);
            }
        }
    }
}

fn reset(into: &mut String, oldest: StreamOffset) {
    event(into, "reset", oldest.0.saturating_sub(1), &json!({"oldest": oldest.0}));
}
