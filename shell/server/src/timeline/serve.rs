//! Serves a timeline, and the page that shows it.

use super::{Message, Timeline};
use crate::http::answer_page;
use crate::page::{self, Source};
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Messages in one answer.
const MESSAGES_MOST: usize = 2_000;

struct Served {
    timeline: Timeline,
    /// It is large, and always the same.
    json: String,
}

/// Until the task is dropped.
pub async fn serve(listener: TcpListener, timeline: Timeline) -> io::Result<()> {
    let json = serde_json::to_string(&timeline).map_err(io::Error::other)?;
    let served = Arc::new(Served { timeline, json });
    let router = Router::new()
        .route("/", get(async || answer_page("text/html; charset=utf-8", page::index(Source::Timeline))))
        .route("/assets/{file}", get(file))
        .route("/v1/timeline", get(whole))
        .route("/v1/timeline/messages", get(messages))
        .with_state(served);
    axum::serve(listener, router).await
}

async fn file(Path(name): Path<String>) -> Response {
    match page::file(&name) {
        Some((kind, text)) => answer_page(kind, text.to_owned()),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn whole(State(served): State<Arc<Served>>) -> Response {
    answer_page("application/json", served.json.clone())
}

/// Those that are sent within a span of time: `?from=MICROS&until=MICROS`.
async fn messages(State(served): State<Arc<Served>>, uri: Uri) -> Json<Value> {
    let number = |name: &str| {
        let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let (from, until) = (number("from").unwrap_or(0), number("until").unwrap_or(u64::MAX));
    let all = &served.timeline.messages;
    let first = all.partition_point(|message| message.sent < from);
    let found: Vec<&Message> =
        all[first..].iter().take_while(|message| message.sent < until).take(MESSAGES_MOST).collect();
    Json(json!({"messages": found}))
}
