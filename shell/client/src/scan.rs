//! Keys over all buckets, in order, page by page.
//!
//! Each bucket is asked by the **last** slot of its range, as far as the table knows. The answer's position names the
//! bucket by its first slot, so it is certain what was covered: a bucket that was split meanwhile covers less, and the
//! rest is asked for again. Each bucket is read at a moment of its own; within one, a page is one moment.

use crate::client::Client;
use crate::error::Error;
use crate::keys::{Value, query_bytes, value};
use crate::link::Done;
use atoll_kv::{Answer, Query};
use atoll_types::HashSlot;
use std::collections::BTreeMap;
use tokio::task::JoinSet;

/// The most keys of one page.
const LIMIT_MOST: usize = 10_000;
/// Bytes that one bucket answers at a time.
const BYTES: u32 = 1 << 20;
/// Buckets that are asked at a time.
const AT_ONCE: usize = 16;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In the order of the keys.
    pub found: Vec<(Vec<u8>, Value)>,
    /// Where to go on: the `after` of the next page. None at the end.
    pub next: Option<Vec<u8>>,
}

/// What was found so far: the lowest keys only, `limit` of them.
#[derive(Debug)]
struct Merge {
    limit: usize,
    found: BTreeMap<Vec<u8>, Value>,
    /// Nothing is complete beyond this key.
    complete: Option<Vec<u8>>,
}

impl Merge {
    fn stop_at(&mut self, key: Vec<u8>) {
        if self.complete.as_ref().is_none_or(|complete| key < *complete) {
            self.complete = Some(key);
        }
    }

    fn add(&mut self, done: &Done) -> Result<(), Error> {
        let Some(Answer::Scanned(scanned)) = Answer::decode(&done.payload) else {
            return Err(Error::Protocol("no keys"));
        };
        if let Some(stopped_at) = scanned.stopped_at {
            self.stop_at(stopped_at.to_vec());
        }
        for (key, found) in scanned.found {
            self.found.insert(key.to_vec(), value(found, done.position));
        }
        while self.found.len() > self.limit {
            self.found.pop_last();
            if let Some((last, _)) = self.found.last_key_value() {
                let last = last.clone();
                self.stop_at(last);
            }
        }
        Ok(())
    }

    fn page(self) -> Page {
        let Merge { found, complete, .. } = self;
        let is_complete = |key: &Vec<u8>| complete.as_ref().is_none_or(|complete| key <= complete);
        Page { found: found.into_iter().filter(|(key, _)| is_complete(key)).collect(), next: complete }
    }
}

impl Client {
    /// Keys that begin with `prefix` and come after `after`, with their values; at most `limit`. A page may have fewer,
    /// even none, and still name a next one.
    pub async fn scan(&self, prefix: impl AsRef<[u8]>, after: Option<&[u8]>, limit: usize) -> Result<Page, Error> {
        let limit = limit.clamp(1, LIMIT_MOST);
        let query =
            Query::Scan { prefix: prefix.as_ref(), after, slot: None, values: true, limit: limit as u32, bytes: BYTES };
        let query = query_bytes(&query);
        let table = self.inner.routes.table();
        let mut left: Vec<(u16, u16)> = table.ranges.iter().map(|range| (range.first.0, range.last.0)).collect();
        if left.is_empty() {
            left.push((0, HashSlot::COUNT - 1));
        }
        let mut merge = Merge { limit, found: BTreeMap::new(), complete: None };
        let mut asked = JoinSet::new();
        loop {
            while asked.len() < AT_ONCE
                && let Some((first, last)) = left.pop()
            {
                let (client, query) = (self.clone(), query.clone());
                asked.spawn(async move { (first, client.read(HashSlot(last), &query).await) });
            }
            let Some(joined) = asked.join_next().await else { return Ok(merge.page()) };
            let Ok((first, done)) = joined else { return Err(Error::Protocol("a scan was cut off")) };
            let done = done?;
            let covered = done.position.bucket.0;
            if covered > first {
                left.push((first, covered - 1));
            }
            merge.add(&done)?;
        }
    }
}
