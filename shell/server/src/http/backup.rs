//! For `atoll backup` and `atoll restore`.
//!
//! | Request | |
//! |---|---|
//! | `GET /v1/cluster/snapshot?slot=N` | the whole state of the bucket that has this slot, as of a committed position |
//! | `POST /v1/cluster/import?slot=N` | takes in a piece of such a state, as a write of the bucket that has this slot |
//!
//! A snapshot holds everything that was acknowledged before it was asked for. A node without a copy that is in step
//! says where the primary is. `If-None-Match` with a position: 304 where nothing has happened since.

use super::App;
use super::error::Error;
use super::request::{self, Done, Freshness, POSITION, body_within, read};
use super::text::{Parameters, header, wrong};
use crate::data::kv_query;
use crate::shard::SnapshotFound;
use atoll_kv::Query;
use atoll_types::{HashSlot, IMPORT, Position};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, IF_NONE_MATCH, LOCATION};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::json;

const SLOTS: HeaderName = HeaderName::from_static("atoll-slots");
const CHECKSUM: HeaderName = HeaderName::from_static("atoll-checksum");
/// What a piece may have beside the longest value.
const PIECE_OVERHEAD: usize = 128 * 1024;

fn slot_of(parameters: &Parameters) -> Result<HashSlot, Error> {
    let slot = parameters.number("slot")?.map(HashSlot).filter(|slot| slot.0 < HashSlot::COUNT);
    slot.ok_or_else(|| wrong("slot", "the number of a hash slot, below 16384"))
}

pub(super) async fn snapshot(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let slot = slot_of(&Parameters::of(request.uri(), &["slot"])?)?;
    let known: Option<Position> = request::value(request.headers(), IF_NONE_MATCH.as_str(), "a position")?;
    let connection = request::connection(request.extensions(), &app);
    // Which key does not matter: the read says how far the bucket has come at least.
    let query = kv_query(&Query::Get { key: b"" });
    let done = read(&app, connection, slot, query, Freshness::Linearizable).await?;
    let Some(found) = app.gateway.snapshot(slot, done.position, known).await else { return elsewhere(&app, slot) };
    let SnapshotFound { range, position, snapshot } = found;
    let slots = format!("{}-{}", range.first.0, range.last.0);
    let headers = [(POSITION, header(&position.to_string())), (SLOTS, header(&slots))];
    let Some(snapshot) = snapshot else { return Ok((StatusCode::NOT_MODIFIED, headers).into_response()) };
    let checksum = [(CHECKSUM, header(&format!("{:08x}", snapshot.checksum)))];
    let kind = [(CONTENT_TYPE, header("application/octet-stream"))];
    Ok((headers, checksum, kind, Bytes::copy_from_slice(snapshot.bytes.as_slice())).into_response())
}

fn elsewhere(app: &App, slot: HashSlot) -> Result<Response, Error> {
    let routes = app.gateway.board().routes();
    let range = routes.ranges.iter().find(|range| range.first <= slot && slot <= range.last);
    let primary = range.map(|range| range.primary).filter(|primary| *primary != routes.me);
    let Some(place) = primary.and_then(|primary| routes.places.get(&primary)) else {
        return Err(Error::later("paused", "the bucket is moving, or has just begun; try again"));
    };
    let location = format!("http://{}/v1/cluster/snapshot?slot={}", place.http, slot.0);
    Ok((StatusCode::TEMPORARY_REDIRECT, [(LOCATION, header(&location))]).into_response())
}

pub(super) async fn import(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let slot = slot_of(&Parameters::of(request.uri(), &["slot"])?)?;
    let connection = request::connection(request.extensions(), &app);
    let most = app.gateway.settings().max_value + PIECE_OVERHEAD;
    let command = body_within(&app, request, most).await?;
    let nonsense = || Error::bad("bad_piece", "the body is no piece of a backup, or one before it is missing");
    if command.first() != Some(&IMPORT) {
        return Err(nonsense());
    }
    let done = Done::of(app.gateway.write(connection, slot, command.into(), None).await)?;
    if !atoll_replica::taken_in(done.payload.as_slice()) {
        return Err(done.fail(nonsense()));
    }
    Ok(done.respond(Json(json!({"position": done.position.to_string()}))))
}
