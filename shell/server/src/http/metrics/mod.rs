//! `GET /metrics`: counts and gauges as Prometheus reads them. Labels take few values, all of them known beforehand.
//!
//! Not here: who counts (`meters`, `latency`, `refused`); what they mean to a reader (`docs/guide/metrics.md`, which a
//! test holds against this).

mod cluster;
mod node;
mod text;

use super::App;
use super::request::wants_events;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use text::Text;

/// What kind of a request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Put,
    Get,
    Delete,
    Scan,
    Watch,
    Publish,
    Read,
    Tail,
    Session,
    Cluster,
    Other,
}

impl Kind {
    pub(super) fn of(method: &Method, path: &str, headers: &HeaderMap) -> Kind {
        let events = || wants_events(headers);
        if path.starts_with("/v1/kv/") {
            return match *method {
                Method::PUT => Kind::Put,
                Method::DELETE => Kind::Delete,
                Method::GET if events() => Kind::Watch,
                Method::GET => Kind::Get,
                _ => Kind::Other,
            };
        }
        if path.starts_with("/v1/streams/") {
            return match *method {
                Method::POST => Kind::Publish,
                Method::GET if events() => Kind::Tail,
                Method::GET => Kind::Read,
                _ => Kind::Other,
            };
        }
        match path {
            "/v1/kv" => Kind::Scan,
            "/v1/sessions" => Kind::Session,
            path if path.starts_with("/v1/cluster") => Kind::Cluster,
            _ => Kind::Other,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Kind::Put => "kv_put",
            Kind::Get => "kv_get",
            Kind::Delete => "kv_delete",
            Kind::Scan => "kv_scan",
            Kind::Watch => "kv_watch",
            Kind::Publish => "stream_publish",
            Kind::Read => "stream_read",
            Kind::Tail => "stream_tail",
            Kind::Session => "session",
            Kind::Cluster => "cluster",
            Kind::Other => "other",
        }
    }
}

/// Requests so far, by kind and by the status they were answered with.
#[derive(Debug, Default)]
pub(super) struct Requests(Mutex<BTreeMap<(Kind, u16), u64>>);

impl Requests {
    pub(super) fn count(&self, kind: Kind, status: StatusCode) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((kind, status.as_u16())).or_default() += 1;
    }

    fn all(&self) -> BTreeMap<(Kind, u16), u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(super) async fn show(State(app): State<App>) -> Response {
    let mut text = Text::default();
    node::requests(&mut text, &app);
    node::stages(&mut text, &app);
    node::traffic(&mut text, &app);
    node::copies(&mut text, &app).await;
    node::disk(&mut text, &app);
    cluster::state(&mut text, &app);
    cluster::decided(&mut text, &app);
    cluster::log(&mut text, &app.gateway.board().counters());
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.into_string()).into_response()
}
