//! `GET /v1/kv`: keys over all buckets, in the order of their bytes.
//!
//! ```text
//!   bucket ──page──▶ source ┐
//!   bucket ──page──▶ source ┼──▶ the least key of all heads, again and again
//!   bucket ──page──▶ source ┘
//! ```
//!
//! Each page is a read of its own: every key that was there all the while is found, but the whole is no picture of one
//! moment. Memory: at most a page of each bucket, and the answer, whose keys and values have `ANSWER_MOST` bytes.
//!
//! A bucket that is halved meanwhile would hide half of its keys from whoever still counts on it. So each page is asked
//! of the *last* slot of the range: after a split that one is of a bucket of another name, and the scan begins anew.

use super::App;
use super::error::Error;
use super::request::{self, Freshness, POSITION, read};
use super::text::{Parameters, etag, header, insert_bytes, percent_encode, wrong};
use crate::data::kv_query;
use crate::routes::Range;
use atoll_kv::{Answer, Query};
use atoll_node::shard::door::Reason;
use atoll_types::{HashSlot, Offset, Position};
use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Keys in one answer, where nothing is said, and at most.
const LIMIT: usize = 100;
const LIMIT_MOST: usize = 1000;
/// Bytes of keys and values after which an answer ends.
const ANSWER_MOST: usize = 4 << 20;
/// Bytes of keys in the pages of all buckets together, about.
const PAGES_MOST: usize = 16 << 20;
/// Reads under way at a time.
const READS_MOST: usize = 32;
/// Buckets whose positions fit into a header.
const POSITIONS_MOST: usize = 256;
/// While buckets are being split, a scan begins anew for so long.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Wanted {
    connection: u64,
    prefix: Vec<u8>,
    after: Option<Vec<u8>>,
    limit: usize,
    freshness: Freshness,
}

/// One bucket's keys, from where the scan is.
#[derive(Debug)]
struct Source {
    range: Range,
    found: VecDeque<(Vec<u8>, Offset)>,
    /// Where the next page begins.
    after: Option<Vec<u8>>,
    done: bool,
    position: Position,
}

enum Trouble {
    /// The range is another bucket's by now.
    Split,
    Failed(Error),
}

struct Scanned {
    keys: Vec<(Vec<u8>, Offset)>,
    more: bool,
    positions: Vec<Position>,
}

pub(super) async fn scan(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let parameters = Parameters::of(request.uri(), &["prefix", "limit", "after", "values", "consistency"])?;
    let limit = parameters.number("limit")?.unwrap_or(LIMIT);
    if limit == 0 || limit > LIMIT_MOST {
        return Err(wrong("limit", &format!("from 1 to {LIMIT_MOST}")));
    }
    let wanted = Wanted {
        connection: request::connection(request.extensions(), &app),
        prefix: parameters.bytes("prefix").unwrap_or_default().to_vec(),
        after: parameters.bytes("after").map(<[u8]>::to_vec),
        limit,
        freshness: Freshness::of(&parameters, request.headers())?,
    };
    let values = parameters.flag("values")?;
    drop(request);
    let begun = Instant::now();
    let mut scanned = loop {
        match merged(&app, &wanted).await {
            Ok(scanned) => break scanned,
            Err(Trouble::Failed(error)) => return Err(error),
            Err(Trouble::Split) if begun.elapsed() > PATIENCE => return Err(Error::not_applied(Reason::Paused)),
            // This node hears of the split soon.
            Err(Trouble::Split) => sleep(Duration::from_millis(20)).await,
        }
    };
    let rows = if values { with_values(&app, &wanted, &mut scanned).await? } else { scanned.rows() };
    let after = scanned.keys.last().filter(|_| scanned.more).map(|(key, _)| percent_encode(key));
    let mut response = Json(json!({"keys": rows, "after": after})).into_response();
    if scanned.positions.len() <= POSITIONS_MOST {
        let positions: Vec<String> = scanned.positions.iter().map(ToString::to_string).collect();
        response.headers_mut().insert(POSITION, header(&positions.join(", ")));
    }
    Ok(response)
}

impl Scanned {
    fn rows(&self) -> Vec<Value> {
        self.keys.iter().map(|(key, version)| json!({"key": percent_encode(key), "etag": etag(*version)})).collect()
    }
}

async fn merged(app: &App, wanted: &Wanted) -> Result<Scanned, Trouble> {
    let routes = app.gateway.board().routes();
    if routes.ranges.is_empty() {
        return Err(Trouble::Failed(Error::not_applied(Reason::NoTable)));
    }
    let count = routes.ranges.len();
    // A little more than a bucket's share: most need no second page.
    let page = (2 * wanted.limit / count + 4).min(wanted.limit) as u32;
    let bytes = (PAGES_MOST / count).min(64 << 10) as u32;
    let pages = Pages { app, wanted, page, bytes };
    let filled = stream::iter(routes.ranges.clone()).map(|range| pages.first(range)).buffered(READS_MOST);
    let mut sources: Vec<Source> = filled.try_collect().await?;
    let mut heads: BTreeMap<Vec<u8>, (usize, Offset)> = BTreeMap::new();
    for (index, source) in sources.iter_mut().enumerate() {
        heads.extend(source.found.pop_front().map(|(key, version)| (key, (index, version))));
    }
    let (mut keys, mut length) = (Vec::new(), 0);
    while keys.len() < wanted.limit && length < ANSWER_MOST {
        let Some((key, (index, version))) = heads.pop_first() else { break };
        length += key.len();
        keys.push((key, version));
        if let Some(source) = sources.get_mut(index) {
            pages.next(source).await?;
            heads.extend(source.found.pop_front().map(|(key, version)| (key, (index, version))));
        }
    }
    let positions = sources.iter().map(|source| source.position).collect();
    Ok(Scanned { keys, more: !heads.is_empty(), positions })
}

/// How pages are fetched.
struct Pages<'a> {
    app: &'a App,
    wanted: &'a Wanted,
    page: u32,
    bytes: u32,
}

impl Pages<'_> {
    async fn first(&self, range: Range) -> Result<Source, Trouble> {
        let (found, after, position) = (VecDeque::new(), self.wanted.after.clone(), Position::default());
        let mut source = Source { range, found, after, done: false, position };
        self.next(&mut source).await?;
        Ok(source)
    }

    /// Sees to it that the source has a key, if there is one.
    async fn next(&self, source: &mut Source) -> Result<(), Trouble> {
        while source.found.is_empty() && !source.done {
            let query = kv_query(&Query::Scan {
                prefix: &self.wanted.prefix,
                after: source.after.as_deref(),
                slot: None,
                values: false,
                limit: self.page,
                bytes: self.bytes,
            });
            let asked = read(self.app, self.wanted.connection, source.range.last, query, self.wanted.freshness);
            let done = asked.await.map_err(Trouble::Failed)?;
            if done.position.bucket.0 != source.range.first.0 {
                return Err(Trouble::Split);
            }
            let Some(Answer::Scanned(page)) = Answer::decode(done.payload.as_slice()) else {
                return Err(Trouble::Failed(Error::unreadable()));
            };
            source.position = done.position;
            source.done = page.stopped_at.is_none();
            source.after = page.stopped_at.map(<[u8]>::to_vec);
            source.found.extend(page.found.iter().map(|(key, found)| (key.to_vec(), found.version)));
        }
        Ok(())
    }
}

/// The values are read one by one, so that never many are held. A key that is gone by then is left out.
async fn with_values(app: &App, wanted: &Wanted, scanned: &mut Scanned) -> Result<Vec<Value>, Error> {
    let keys = scanned.keys.clone();
    let get = |(key, _): (Vec<u8>, Offset)| async move {
        let query = kv_query(&Query::Get { key: &key });
        read(app, wanted.connection, HashSlot::of(&key), query, wanted.freshness).await.map(|done| (key, done))
    };
    let mut values = std::pin::pin!(stream::iter(keys).map(get).buffered(READS_MOST));
    let (mut rows, mut length, mut seen) = (Vec::new(), 0, 0);
    while let Some((key, done)) = values.try_next().await? {
        seen += 1;
        let Some(Answer::Value(found)) = Answer::decode(done.payload.as_slice()) else {
            return Err(Error::unreadable());
        };
        let Some(found) = found else { continue };
        length += key.len() + found.value.len();
        let mut row = Map::new();
        row.insert("key".to_owned(), percent_encode(&key).into());
        row.insert("etag".to_owned(), etag(found.version).into());
        insert_bytes(&mut row, "value", found.value);
        rows.push(row.into());
        if length >= ANSWER_MOST {
            break;
        }
    }
    scanned.more |= seen < scanned.keys.len();
    scanned.keys.truncate(seen);
    Ok(rows)
}
