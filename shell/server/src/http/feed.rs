//! `GET /v1/events`: what happened, as a list; or, as server-sent events, everything that a page about the cluster
//! shows, as it changes, over one connection.
//!
//! | Event | Data |
//! |---|---|
//! | `status` | as `GET /v1/cluster` |
//! | `buckets` | `{"all", "rows": [[first, last, state, primary, members, catching_up], …]}`: all, or what changed |
//! | `events` | `{"all", "events": […]}`: those that are new or were written on; `all`: forget what came before |
//! | `rates` | as `GET /v1/cluster/rates`, the seconds that are new |
//!
//! A reader who is slow finds, whenever he takes something, the latest of everything: nothing is kept for him. One that
//! comes back with `Last-Event-ID` gets the events since, and the rest as it is now.

use super::App;
use super::error::Error;
use super::events::{Source, respond};
use super::rates;
use super::request::wants_events;
use super::text::{Parameters, wrong};
use crate::rates::KEPT_MOST;
use crate::status::{BucketStatus, Status};
use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::select;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// Events in one answer, where nothing is said, and at most.
const LIMIT: usize = 100;
const LIMIT_MOST: usize = 1000;
/// Between two things that are told: what comes meanwhile is told together.
const TICK: Duration = Duration::from_millis(100);
const RATES: Duration = Duration::from_secs(1);

pub(super) async fn events(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let parameters = Parameters::of(request.uri(), &["from", "limit", "only"])?;
    if wants_events(request.headers()) {
        let only = match parameters.text("only")? {
            None => false,
            Some("events") => true,
            Some(_) => return Err(wrong("only", "`events`, or not there")),
        };
        let resumed = request.headers().get("last-event-id").and_then(|value| value.to_str().ok());
        let seen = resumed.and_then(|text| place(text, app.life)).unwrap_or(0);
        return Ok(respond(Feed::new(app, only, seen)));
    }
    let limit = parameters.number("limit")?.unwrap_or(LIMIT);
    if limit == 0 || limit > LIMIT_MOST {
        return Err(wrong("limit", &format!("from 1 to {LIMIT_MOST}")));
    }
    let events = match parameters.number("from")? {
        Some(id) => app.gateway.book().from(id, limit),
        None => app.gateway.book().last(limit),
    };
    Ok(Json(events).into_response())
}

/// Where a reader of this life of the node was. What another life told is told anew.
fn place(text: &str, life: u64) -> Option<u64> {
    let (of, seen) = text.split_once('-')?;
    (u64::from_str_radix(of, 16).ok()? == life).then_some(())?;
    seen.parse().ok()
}

struct Feed {
    app: App,
    only: bool,
    /// The last change of the book that was told.
    seen: u64,
    begun: bool,
    status: Arc<Status>,
    buckets: Arc<Vec<BucketStatus>>,
    /// The last second that was told.
    second: u64,
    rates_at: Instant,
    said_at: Instant,
    board: watch::Receiver<u64>,
    book: watch::Receiver<u64>,
}

impl Feed {
    fn new(app: App, only: bool, seen: u64) -> Feed {
        let (board, book) = (app.gateway.board().changes(), app.gateway.book().changes());
        let now = Instant::now();
        let (status, buckets) = (Arc::default(), Arc::default());
        Feed { app, only, seen, begun: false, status, buckets, second: 0, rates_at: now, said_at: now, board, book }
    }

    fn say(&self, into: &mut String, kind: &str, data: &Value) {
        let _ = write!(into, "event: {kind}\nid: {:x}-{}\ndata: {data}\n\n", self.app.life, self.seen);
    }

    fn tell_events(&mut self, into: &mut String) {
        let news = self.app.gateway.book().since(self.seen);
        let all = news.torn || self.seen == 0;
        self.seen = news.seen;
        if !news.events.is_empty() || (all && !self.begun) {
            self.say(into, "events", &json!({"all": all, "events": news.events}));
        }
    }

    fn tell_state(&mut self, into: &mut String) {
        let (status, buckets) = (self.app.gateway.board().status(), self.app.gateway.board().buckets());
        if !self.begun || *status != *self.status {
            self.say(into, "status", &json!(&*status));
            self.status = status;
        }
        if !self.begun || !Arc::ptr_eq(&buckets, &self.buckets) {
            let rows = changed(&self.buckets, &buckets);
            let all = !self.begun;
            if all || !rows.is_empty() {
                self.say(into, "buckets", &json!({"all": all, "rows": rows}));
            }
            self.buckets = buckets;
        }
    }

    async fn tell_rates(&mut self, into: &mut String) {
        if self.rates_at > Instant::now() {
            return;
        }
        let all = rates::everywhere(&self.app).await;
        let told = rates::told(&all, self.second, KEPT_MOST);
        self.say(into, "rates", &told);
        self.second =
            told["cluster"].as_array().and_then(|list| list.last()?["second"].as_u64()).unwrap_or(self.second);
        self.rates_at = Instant::now() + RATES;
    }
}

impl Source for Feed {
    async fn next(&mut self) -> Option<String> {
        loop {
            self.board.mark_unchanged();
            self.book.mark_unchanged();
            let mut text = String::new();
            self.tell_events(&mut text);
            if !self.only {
                self.tell_state(&mut text);
                self.tell_rates(&mut text).await;
            }
            self.begun = true;
            if text.is_empty() && self.said_at.elapsed() > Duration::from_secs(10) {
                text.push_str(":\n\n");
            }
            if !text.is_empty() {
                self.said_at = Instant::now();
                return Some(text);
            }
            let due = if self.only { self.said_at + Duration::from_secs(11) } else { self.rates_at };
            select! {
                _ = self.board.changed(), if !self.only => {}
                _ = self.book.changed() => {}
                () = sleep_until(due) => {}
            }
            sleep(TICK).await;
        }
    }
}

/// A bucket as the page reads it.
pub(crate) fn row(bucket: &BucketStatus) -> Value {
    let [first, last] = bucket.slots;
    let BucketStatus { state, primary, members, catching_up, .. } = bucket;
    json!([first, last, state, primary, members, catching_up])
}

/// Both are in the order of their first slots, and no bucket ever goes.
fn changed(before: &[BucketStatus], now: &[BucketStatus]) -> Vec<Value> {
    let mut old = before.iter().peekable();
    let mut rows = Vec::new();
    for bucket in now {
        while old.peek().is_some_and(|known| known.bucket < bucket.bucket) {
            old.next();
        }
        if old.peek().is_none_or(|known| **known != *bucket) {
            rows.push(row(bucket));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(first: u16, last: u16, state: &str) -> BucketStatus {
        BucketStatus {
            bucket: first,
            slots: [first, last],
            epoch: String::new(),
            primary: None,
            home: None,
            members: Vec::new(),
            catching_up: Vec::new(),
            state: state.to_owned(),
            keys: None,
            offset: None,
        }
    }

    #[test]
    fn only_what_changed_is_told() {
        let before = [bucket(0, 9, "serving"), bucket(10, 19, "serving")];
        assert_eq!(changed(&before, &before), Vec::<Value>::new());
        let after = [bucket(0, 4, "serving"), bucket(5, 9, "serving"), bucket(10, 19, "serving")];
        let firsts = |rows: Vec<Value>| rows.iter().filter_map(|row| row[0].as_u64()).collect::<Vec<_>>();
        assert_eq!(firsts(changed(&before, &after)), [0, 5]);
        assert_eq!(firsts(changed(&after, &before)), [0], "a table of another cluster");
        assert_eq!(changed(&[], &after).len(), 3);
    }

    #[test]
    fn a_place_counts_in_its_own_life() {
        assert_eq!(place("ff-12", 255), Some(12));
        for text in ["fe-12", "12", "", "-", "ff-", "ff-x", "zz-1"] {
            assert_eq!(place(text, 255), None, "{text}");
        }
    }
}
