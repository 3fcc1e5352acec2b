//! The HTTP listener: connections, their limits, and the table of routes.
//!
//! ```text
//!   accept ─▶ hand-over ─▶ connection (patience, hyper) ─▶ answer (counts) ─▶ router ─▶ a handler, a file per subject
//! ```
//!
//! HTTP/1.1 with keep-alive. A connection is served by one thread, a shard's if it begins with plain data: a handler
//! only waits for the core, and never works long.
//!
//! Limits: connections together with other clients (`Settings::max_clients`), heads (`HEAD_MOST`), bodies
//! (`Settings::max_value`), and the time for a head, a body, or to take an answer (`Settings::slow`; a connection that
//! asks nothing for that long is closed as well).
//!
//! Not here: what an error looks like (`error.rs`), how requests are read (`request.rs`).

mod backup;
mod buckets;
mod cluster;
mod error;
mod events;
mod feed;
mod handover;
mod health;
mod keys;
mod metrics;
mod neighbour;
mod openapi;
mod operations;
mod origin;
mod page;
mod patience;
mod rates;
mod request;
mod request_id;
mod scan;
mod sessions;
mod streams;
mod tail;
mod text;
mod watch;

pub(crate) use feed::row;
pub(crate) use handover::{Handed, ToShard, take_over};
pub(crate) use page::answer as answer_page;

use crate::gateway::{ClientPlace, Gateway};
use crate::parting;
use crate::refused::Why;
use axum::Router;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use error::Error;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics::{Kind, Requests};
use patience::Patient;
use rates::Meter;
use request::Connection;
use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::sleep;
use tower_service::Service;
use tracing::{Instrument, debug, debug_span, warn};

/// The longest head of a request: its line and its headers.
const HEAD_MOST: usize = 128 * 1024;

/// What every handler sees.
#[derive(Clone, Debug)]
struct App {
    gateway: Gateway,
    requests: Arc<Requests>,
    meter: Arc<Meter>,
    /// Of this process, for who comes back and asks what happened since.
    life: u64,
}

/// What serves requests, on any thread.
#[derive(Clone, Debug)]
pub(crate) struct Web {
    app: App,
    router: Router,
}

impl Web {
    pub(crate) fn new(gateway: Gateway) -> Web {
        let life = gateway.random() >> 32;
        let app = App { gateway, requests: Arc::default(), meter: Arc::default(), life };
        Web { router: router(app.clone()), app }
    }
}

/// Takes connections for as long as the thread lives. `shards`: who serves those that begin with plain data.
pub(crate) async fn serve(listener: TcpListener, web: Web, shards: Vec<ToShard>) {
    spawn_local(rates::measure(web.app.clone()));
    let mut shards = shards.iter().cycle();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let shard = shards.next().expect("a node has shards");
                spawn_local(receive(stream, web.clone(), shard.clone()));
            }
            Err(error) => {
                // Out of descriptors, most likely: that passes.
                warn!(%error, "a connection of an HTTP client could not be taken");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn receive(mut stream: TcpStream, web: Web, shard: ToShard) {
    let gateway = &web.app.gateway;
    let Some(place) = gateway.admit() else {
        gateway.refused().count(Why::TooManyClients);
        return parting::part(&mut stream, error::TOO_MANY_CLIENTS.as_bytes()).await;
    };
    let _ = stream.set_nodelay(true);
    match handover::hand_over(stream, place, &web, &shard).await {
        Ok(None) => {}
        Ok(Some((stream, place))) => connection(stream, place, web).await,
        Err(error) => debug!(%error, "a connection of an HTTP client ended"),
    }
}

async fn connection(stream: TcpStream, _place: ClientPlace, web: Web) {
    let Web { app, router } = web;
    let gateway = &app.gateway;
    let slow = gateway.settings().slow;
    let number = gateway.new_connection();
    let (came, answered) = (Rc::new(Cell::new(0)), Cell::new(0));
    let service = service_fn(|request| async {
        let response = answer(request, number, &app, router.clone()).await;
        answered.set(came.get());
        response
    });
    // Without a timer the time-out of the head would silently be off.
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(slow)
        .max_buf_size(HEAD_MOST)
        .serve_connection(TokioIo::new(Patient::new(stream, slow, came.clone(), gateway.clone())), service)
        .await;
    if let Err(error) = served {
        // A connection that waits for its next request is let go as well, but has done nothing wrong.
        let idle = came.get() == answered.get();
        if patience::ran_out(&error) || (error.is_timeout() && !idle) {
            gateway.refused().count(Why::TooSlow);
        } else if error.is_parse() {
            gateway.refused().count(Why::Malformed);
        }
        debug!(%error, "a connection of an HTTP client ended");
    }
}

/// Whatever stands in a request, as the fuzz targets try it.
pub(crate) fn read_texts(bytes: &[u8]) {
    let decoded = text::percent_decode(bytes, true);
    assert!(decoded.is_none_or(|decoded| decoded.len() <= bytes.len()));
    assert_eq!(text::percent_decode(text::percent_encode(bytes).as_bytes(), true).as_deref(), Some(bytes));
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(version) = text::version(text) {
        assert_eq!(text::version(&text::etag(version)), Some(version));
    }
    let Ok(uri) = text.parse() else { return };
    let _ = text::rest_of_path(&uri, "/v1/kv/");
    let Ok(parameters) = text::Parameters::of(&uri, &["a", "limit"]) else { return };
    let _ = (parameters.text("a"), parameters.flag("a"), parameters.number::<u64>("limit"));
}

async fn answer(
    mut request: Request<Incoming>,
    connection: u64,
    app: &App,
    mut router: Router,
) -> Result<Response, Infallible> {
    request.extensions_mut().insert(Connection(connection));
    let kind = Kind::of(request.method(), request.uri().path(), request.headers());
    let id = request_id::of(request.headers(), &app.gateway);
    let span = debug_span!(
        "request",
        id = id.as_str(),
        method = %request.method(),
        path = request.uri().path(),
        traceparent = request.headers().get("traceparent").and_then(|value| value.to_str().ok()),
    );
    let mut response =
        match check_head(request.headers()).and_then(|()| origin::check(request.method(), request.headers())) {
            Ok(()) => router.call(request).instrument(span.clone()).await?,
            Err(error) => error.into_response(),
        };
    debug!(parent: &span, status = response.status().as_u16(), "answered");
    request_id::tell(&mut response, &id);
    if let Some(&why) = response.extensions().get::<Why>() {
        app.gateway.refused().count(why);
    }
    app.requests.count(kind, response.status());
    Ok(response)
}

/// A read may bring more than the buffer may hold, and with it the end of a head that is too long: what was read at
/// once must not decide whether it is taken.
fn check_head(headers: &HeaderMap) -> Result<(), Error> {
    let length: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if length > HEAD_MOST { Err(Error::head_too_large()) } else { Ok(()) }
}

/// Every path there is.
fn routes() -> Vec<(&'static str, MethodRouter<App>)> {
    vec![
        ("/", get(page::show)),
        ("/assets/{file}", get(page::file)),
        ("/v1/kv", get(scan::scan)),
        ("/v1/kv/{*key}", put(keys::put).get(keys::get).delete(keys::delete)),
        ("/v1/streams/{*name}", post(streams::publish).get(streams::read)),
        ("/v1/sessions", post(sessions::open)),
        ("/v1/cluster", get(cluster::state)),
        ("/v1/cluster/buckets", get(buckets::all)),
        ("/v1/cluster/copies", get(buckets::copies)),
        ("/v1/cluster/log", get(cluster::log)),
        ("/v1/cluster/rates", get(rates::show)),
        ("/v1/events", get(feed::events)),
        ("/v1/cluster/snapshot", get(backup::snapshot)),
        ("/v1/cluster/import", post(backup::import)),
        ("/v1/cluster/split", post(operations::split)),
        ("/v1/cluster/rebalance", post(operations::rebalance)),
        ("/v1/cluster/recover", post(operations::recover)),
        ("/v1/cluster/nodes/{name}", delete(operations::remove)),
        ("/v1/cluster/nodes/{name}/drain", post(operations::drain)),
        ("/v1/cluster/nodes/{name}/undrain", post(operations::undrain)),
        ("/v1/cluster/buckets/{bucket}/revive", post(operations::revive)),
        ("/v1/openapi.json", get(openapi::document)),
        ("/metrics", get(metrics::show)),
        ("/healthz", get(health::alive)),
        ("/readyz", get(health::ready)),
    ]
}

fn router(app: App) -> Router {
    let router = routes().into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods));
    router.fallback(no_route).method_not_allowed_fallback(no_method).with_state(app)
}

async fn no_route(request: Request) -> Response {
    let path = request.uri().path();
    Error::no_route(path.get(..200).unwrap_or(path)).into_response()
}

async fn no_method(request: Request) -> Response {
    Error::no_method(request.method()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_documented_and_nothing_else() {
        let described = openapi::json();
        let mut described: Vec<String> =
            described["paths"].as_object().expect("paths").keys().map(ToOwned::to_owned).collect();
        let mut routes: Vec<String> = routes().into_iter().map(|(path, _)| path.replace("{*", "{")).collect();
        described.sort();
        routes.sort();
        assert_eq!(described, routes);
    }
}
