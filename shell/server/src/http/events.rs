//! Server-sent events: how they look, and a stream of them that lives for as long as its client listens.
//!
//! An event is made only once the client has taken the one before: whoever reads slowly skips nothing, and nothing is
//! kept for him here.

use super::text::header;
use atoll_node::shard::door::{Answer, Ask, Reason};
use atoll_types::{HashSlot, Mark, Offset, Payload, Position};
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde_json::Value;
use std::convert::Infallible;
use std::fmt::Write;
use std::time::Duration;
use tokio::time::{Instant, sleep};

use super::App;

/// A client hears something at least this often, so that both sides notice when the other is gone.
const QUIET_MOST: Duration = Duration::from_secs(10);
/// Before asking again where nothing can be said for now.
const PAUSE: Duration = Duration::from_millis(50);

/// Texts for a client, one after the other. None: there will be no more.
pub(super) trait Source: Send + 'static {
    fn next(&mut self) -> impl Future<Output = Option<String>> + Send;
}

pub(super) fn respond<S: Source>(source: S) -> Response {
    let texts = stream::unfold(source, |mut source| async {
        let text = source.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), source))
    });
    let headers = [(CONTENT_TYPE, header("text/event-stream")), (CACHE_CONTROL, header("no-store"))];
    (headers, Body::from_stream(texts)).into_response()
}

/// `data` is in one line: JSON has no line breaks in itself.
pub(super) fn event(into: &mut String, kind: &str, id: u64, data: &Value) {
    if kind != "message" {
        let _ = writeln!(into, "event: {kind}");
    }
    let _ = write!(into, "id: {id}\ndata: {data}\n\n");
}

/// No event, but where a client that comes back goes on.
pub(super) fn bookmark(id: u64) -> String {
    format!(":\nid: {id}\n\n")
}

/// Follows the log of a bucket: asks again whenever it has gone on.
#[derive(Debug)]
pub(super) struct Follower {
    app: App,
    /// Of its own: a request that waits would hold up others of its connection.
    connection: u64,
    slot: HashSlot,
    /// The last place in the bucket's log that was seen.
    pub(super) position: Position,
    heard: Instant,
}

/// What a follower finds.
#[derive(Debug)]
pub(super) enum News {
    Read(Payload, Position),
    /// Nothing, for a while: say something to the client.
    Quiet,
    /// The log is shorter than it was: an operator went on from an older copy.
    Shortened,
}

impl Follower {
    pub(super) fn new(app: App, slot: HashSlot, position: Position) -> Follower {
        let connection = app.gateway.new_connection();
        Follower { app, connection, slot, position, heard: Instant::now() }
    }

    /// What `query` finds once the log has gone beyond `seen`.
    pub(super) async fn news(&mut self, seen: Offset, query: &Payload) -> News {
        while self.heard.elapsed() < QUIET_MOST {
            let mark = Mark { offset: seen.next(), ..self.position.mark };
            let after = Some(Position { mark, ..self.position });
            match self.ask(query, after).await {
                Ok((payload, position)) => {
                    self.heard = Instant::now();
                    // A backup may not know yet of all that was seen: what is asked for next must not be older.
                    if position.mark >= self.position.mark {
                        self.position = position;
                    }
                    return News::Read(payload, position);
                }
                Err(()) => sleep(PAUSE).await,
            }
        }
        self.heard = Instant::now();
        match self.ask(query, None).await {
            Ok((_, position)) if position.mark.epoch.generations() > self.position.mark.epoch.generations() => {
                let shortened = position.mark.offset < seen;
                self.position = position;
                if shortened { News::Shortened } else { News::Quiet }
            }
            Ok(_) | Err(()) => News::Quiet,
        }
    }

    /// What is there now, no older than what was seen. Asks until it is told.
    pub(super) async fn now(&mut self, query: &Payload) -> (Payload, Position) {
        loop {
            match self.ask(query, Some(self.position)).await {
                Ok((payload, position)) => {
                    self.position = position;
                    return (payload, position);
                }
                Err(()) => sleep(PAUSE).await,
            }
        }
    }

    /// A bucket that does not serve for now will do so again, or the client gives up: no reason ends a stream.
    async fn ask(&self, query: &Payload, after: Option<Position>) -> Result<(Payload, Position), ()> {
        let ask = Ask::Stale { query: query.clone(), after };
        match self.app.gateway.ask(self.connection, self.slot, ask).await {
            Answer::Done { payload, position, .. } => Ok((payload, position)),
            Answer::NotApplied(Reason::TooStale) | Answer::NotApplied(_) | Answer::Unknown => Err(()),
        }
    }
}
