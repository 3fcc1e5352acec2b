//! `GET /v1/cluster/rates`: what every node did in the last seconds, and the cluster as a whole.
//!
//! Each node keeps its own seconds. Whoever is asked about all asks the others, over HTTP, at most once a second
//! however many people look; a node that does not answer in time is left out.

use super::App;
use super::error::Error;
use super::neighbour;
use super::text::{Parameters, wrong};
use crate::rates::{Figures, KEPT_MOST, Rates, Second, together};
use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex as Turn;
use tokio::time::{Instant, sleep, timeout};

/// Seconds told where nothing is said.
const LAST: usize = 60;
/// A node that takes longer is left out.
const PATIENCE: Duration = Duration::from_millis(500);
/// Nodes asked at the same time.
const ASKED_MOST: usize = 16;
/// What was found is good for so long.
const FRESH: Duration = Duration::from_millis(900);

#[derive(Debug, Default)]
pub(super) struct Meter {
    own: Mutex<Rates>,
    /// Of all nodes, as last asked, and when. Whoever asks waits for his turn, and then finds it asked already.
    all: Turn<Option<(Instant, Arc<All>)>>,
}

pub(super) type All = BTreeMap<String, Vec<Second>>;

impl Meter {
    fn last(&self, most: usize) -> Vec<Second> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).last(most)
    }
}

/// Counts the seconds, for as long as the thread lives.
pub(super) async fn measure(app: App) {
    loop {
        let micros = app.gateway.clock().now().0;
        let left = 1_000_000 - micros % 1_000_000;
        sleep(Duration::from_micros(left)).await;
        let second = app.gateway.clock().now().0 / 1_000_000;
        let mut own = app.meter.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.tick(second, app.gateway.clients(), |protocol, kind| app.gateway.latencies(protocol, kind));
    }
}

/// The seconds of every present node that answers.
pub(super) async fn everywhere(app: &App) -> Arc<All> {
    let mut turn = app.meter.all.lock().await;
    if let Some((_, all)) = turn.as_ref().filter(|(when, _)| when.elapsed() < FRESH) {
        return all.clone();
    }
    let status = app.gateway.board().status();
    let routes = app.gateway.board().routes();
    let mut asked = Vec::new();
    for (node, place) in &routes.places {
        if *node != routes.me && place.present {
            asked.push(ask(place.name.clone(), place.http.clone()));
        }
    }
    let answers: Vec<Option<(String, Vec<Second>)>> = stream::iter(asked).buffer_unordered(ASKED_MOST).collect().await;
    let mut all: All = answers.into_iter().flatten().collect();
    all.insert(status.node.clone(), app.meter.last(KEPT_MOST));
    let all = Arc::new(all);
    *turn = Some((Instant::now(), all.clone()));
    all
}

async fn ask(name: String, address: String) -> Option<(String, Vec<Second>)> {
    let path = format!("/v1/cluster/rates?own=true&last={KEPT_MOST}");
    let answer = timeout(PATIENCE, neighbour::get(&address, &path)).await;
    let body = answer.ok().and_then(Result::ok)?;
    Some((name, serde_json::from_slice(&body).ok()?))
}

/// Of seconds after `after`, at most `most`.
pub(super) fn told(all: &All, after: u64, most: usize) -> Value {
    let figures = |seconds: &[Second]| {
        let new: Vec<Figures> = seconds.iter().filter(|second| second.second > after).map(Second::figures).collect();
        Value::from_iter(new[new.len().saturating_sub(most)..].iter().map(|figures| json!(figures)))
    };
    let nodes: Vec<Value> =
        all.iter().map(|(name, seconds)| json!({"name": name, "seconds": figures(seconds)})).collect();
    json!({"nodes": nodes, "cluster": figures(&together(all, KEPT_MOST))})
}

pub(super) async fn show(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let parameters = Parameters::of(request.uri(), &["last", "own"])?;
    let last = parameters.number("last")?.unwrap_or(LAST);
    if last == 0 || last > KEPT_MOST {
        return Err(wrong("last", &format!("from 1 to {KEPT_MOST}")));
    }
    if parameters.flag("own")? {
        return Ok(Json(app.meter.last(last)).into_response());
    }
    Ok(Json(told(&*everywhere(&app).await, 0, last)).into_response())
}
