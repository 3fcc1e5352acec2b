//! Changes of one key, as they commit.
//!
//! | Event | Data |
//! |---|---|
//! | `put` | `{"etag", "value"}`, or `value_base64` where the value is no text |
//! | `delete` | `{"expired"}`: whether by its time-to-live |
//! | `reset` | as `put`, or `{"value": null}`: what came before is not known any more; this is the present value |
//!
//! The id of an event is an offset of the bucket's log: all changes up to it were told, or are covered by it; a client
//! that comes back with it misses none, or is told by `reset`.
//! The log remembers *that* a key changed, and the state has its value: of values that followed each other faster than
//! they were sent, the last is sent. A watch begins with what comes after the position in its head.

use super::App;
use super::error::Error;
use super::events::{Follower, News, Source, bookmark, event, respond};
use super::request::{Done, Freshness, read, value};
use super::text::{etag, insert_bytes};
use crate::data::kv_query;
use atoll_kv::{Answer, Change, Found, Kind, Query, Which};
use atoll_types::{HashSlot, Offset, Position};
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Map, Value, json};

/// Changes asked for at once.
const CHANGES_MOST: u32 = 64;

struct Watch {
    follower: Follower,
    key: Vec<u8>,
    /// Everything up to here was told.
    seen: Offset,
    /// To be sent first.
    first: Option<String>,
    reset: bool,
}

pub(super) async fn watch(app: App, key: Vec<u8>, headers: &HeaderMap) -> Result<Response, Error> {
    let resumed: Option<u64> = value(headers, "last-event-id", "the id of an event of this key")?;
    let slot = HashSlot::of(&key);
    let query = kv_query(&Query::Get { key: &key });
    // A bucket that does not serve is told at once, and what is written from now on is seen.
    let done: Done = read(&app, app.gateway.new_connection(), slot, query, Freshness::Linearizable).await?;
    let newest = done.position.mark.offset;
    let seen = resumed.map_or(newest, Offset);
    let follower = Follower::new(app, slot, done.position);
    // An id that no event has had yet is of another log.
    let watch = Watch { follower, key, seen, first: Some(bookmark(seen.0)), reset: seen > newest };
    Ok(done.respond(respond(watch)))
}

impl Source for Watch {
    async fn next(&mut self) -> Option<String> {
        if std::mem::take(&mut self.reset) {
            return self.reset().await;
        }
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            let which = Which::Key(&self.key);
            let query = kv_query(&Query::Changes { which, after: self.seen, limit: CHANGES_MOST });
            let payload = match self.follower.news(self.seen, &query).await {
                News::Read(payload, _) => payload,
                News::Quiet => return Some(bookmark(self.seen.0)),
                News::Shortened => return self.reset().await,
            };
            match Answer::decode(payload.as_slice()) {
                Some(Answer::Changes { changes, until }) if changes.is_empty() => self.seen = until,
                Some(Answer::Changes { changes, until }) => {
                    let text = self.tell(&changes, until).await?;
                    if !text.is_empty() {
                        return Some(text);
                    }
                }
                Some(Answer::Reset { .. }) => return self.reset().await,
                // Of another version, perhaps: the client comes back.
                _ => return None,
            }
        }
    }
}

impl Watch {
    async fn tell(&mut self, changes: &[Change<'_>], until: Offset) -> Option<String> {
        let query = kv_query(&Query::Get { key: &self.key });
        let (payload, position): (_, Position) = self.follower.now(&query).await;
        let Some(Answer::Value(found)) = Answer::decode(payload.as_slice()) else { return None };
        // Not its version: one that came from a backup is older than anything here.
        let newest = position.mark.offset;
        let mut text = String::new();
        for change in changes {
            match change.kind {
                // It has another value by now, or none: that is a change of its own.
                Kind::Put => {}
                Kind::Delete => event(&mut text, "delete", change.offset.0, &json!({"expired": false})),
                Kind::Expired => event(&mut text, "delete", change.offset.0, &json!({"expired": true})),
            }
        }
        self.seen = until;
        // Told now even if it is newer than the changes asked for: of a key that is written without pause, each answer
        // would be too new.
        if let Some(found) = found.filter(|_| changes.iter().any(|change| newest >= change.offset)) {
            event(&mut text, "put", newest.0, &present(&found));
            self.seen = until.max(newest);
        }
        Some(text)
    }

    /// The present value, wherever the client was.
    async fn reset(&mut self) -> Option<String> {
        let query = kv_query(&Query::Get { key: &self.key });
        let (payload, position): (_, Position) = self.follower.now(&query).await;
        let Some(Answer::Value(found)) = Answer::decode(payload.as_slice()) else { return None };
        let data = found.map_or_else(|| json!({"value": null}), |found| present(&found));
        self.first = None;
        self.seen = position.mark.offset;
        let mut text = String::new();
        event(&mut text, "reset", self.seen.0, &data);
        Some(text)
    }
}

fn present(found: &Found<'_>) -> Value {
    let mut data = Map::new();
    data.insert("etag".to_owned(), etag(found.version).into());
    insert_bytes(&mut data, "value", found.value);
    data.into()
}
