//! `/v1/kv/{key}`: one key. The key is what stands in the path, percent-decoded: any bytes, with or without slashes.
//!
//! Not here: several keys (`scan.rs`), changes as they come (`watch.rs`).

use super::App;
use super::error::Error;
use super::request::{self, Done, Freshness, body, read, session_use, wants_events};
use super::text::{Parameters, etag, header, rest_of_path, version, wrong};
use super::watch;
use crate::data::{kv_command, kv_query};
use atoll_kv::{Action, Answer, Command, Condition, Failure, Operation, Outcome, Query, Ttl};
use atoll_types::{Few, HashSlot};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::json;
use std::time::Duration;

/// The longest time-to-live: a thousand years.
const TTL_MOST: f64 = 1000.0 * 365.0 * 86_400.0;

pub(super) fn key_of(uri: &Uri) -> Result<Vec<u8>, Error> {
    let key = rest_of_path(uri, "/v1/kv/")?;
    if key.len() > atoll_kv::KEY_MOST {
        return Err(Error::bad("key_too_long", format!("a key has at most {} bytes", atoll_kv::KEY_MOST)));
    }
    Ok(key)
}

pub(super) async fn put(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let key = key_of(request.uri())?;
    let parameters = Parameters::of(request.uri(), &["ttl"])?;
    let ttl = ttl(&parameters)?;
    let condition = condition(request.headers())?;
    let usage = session_use(request.headers())?;
    let connection = request::connection(request.extensions(), &app);
    let value = body(&app, request).await?;
    let operation = Operation::new(&key, Action::Put { value: &value, ttl }).on(condition);
    let command = kv_command(&Command { operations: Few::One(operation) });
    drop(value);
    let done = Done::of(app.gateway.write(connection, HashSlot::of(&key), command, usage).await)?;
    let outcome = outcome(&done)?;
    let tag = outcome.version.map(etag);
    let json = Json(json!({"etag": tag, "position": done.position.to_string()}));
    Ok(match tag {
        Some(tag) => done.respond(([(ETAG, header(&tag))], json)),
        None => done.respond(json),
    })
}

pub(super) async fn delete(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let key = key_of(request.uri())?;
    Parameters::of(request.uri(), &[])?;
    let condition = condition(request.headers())?;
    let usage = session_use(request.headers())?;
    let connection = request::connection(request.extensions(), &app);
    let operation = Operation::new(&key, Action::Delete).on(condition);
    let command = kv_command(&Command { operations: Few::One(operation) });
    let done = Done::of(app.gateway.write(connection, HashSlot::of(&key), command, usage).await)?;
    if outcome(&done)?.existed {
        return Ok(done.respond(Json(json!({"position": done.position.to_string()}))));
    }
    Ok(done.respond(absent()))
}

pub(super) async fn get(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let key = key_of(request.uri())?;
    let parameters = Parameters::of(request.uri(), &["consistency"])?;
    if wants_events(request.headers()) {
        return watch::watch(app, key, request.headers()).await;
    }
    let freshness = Freshness::of(&parameters, request.headers())?;
    let connection = request::connection(request.extensions(), &app);
    let query = kv_query(&Query::Get { key: &key });
    let done = read(&app, connection, HashSlot::of(&key), query, freshness).await?;
    let Some(Answer::Value(found)) = Answer::decode(done.payload.as_slice()) else { return Err(Error::unreadable()) };
    let Some(found) = found else { return Ok(done.respond(absent())) };
    let tag = etag(found.version);
    if request.headers().get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return Ok(done.respond((StatusCode::NOT_MODIFIED, [(ETAG, header(&tag))])));
    }
    let kind = header("application/octet-stream");
    Ok(done.respond(([(ETAG, header(&tag)), (CONTENT_TYPE, kind)], Bytes::copy_from_slice(found.value))))
}

fn absent() -> Response {
    Error::not_found("there is no such key").into_response()
}

fn ttl(parameters: &Parameters) -> Result<Ttl, Error> {
    let Some(seconds) = parameters.number::<f64>("ttl")? else { return Ok(Ttl::Never) };
    if (0.000_001..=TTL_MOST).contains(&seconds) {
        return Ok(Ttl::After(Duration::from_secs_f64(seconds)));
    }
    Err(wrong("ttl", "seconds, more than 0"))
}

fn condition(headers: &HeaderMap) -> Result<Condition, Error> {
    let if_match: Option<String> = request::value(headers, IF_MATCH.as_str(), "one entity tag or *")?;
    let if_none_match: Option<String> = request::value(headers, IF_NONE_MATCH.as_str(), "*")?;
    match (if_match.as_deref(), if_none_match.as_deref()) {
        (None, None) => Ok(Condition::None),
        (Some("*"), None) => Ok(Condition::Present),
        (Some(tag), None) => version(tag)
            .map(Condition::Version)
            .ok_or_else(|| Error::bad("bad_condition", "If-Match is to be one ETag as this server gave it, or *")),
        (None, Some("*")) => Ok(Condition::Absent),
        (None, Some(_)) => Err(Error::bad("bad_condition", "a write takes If-None-Match: * only")),
        (Some(_), Some(_)) => Err(Error::bad("bad_condition", "If-Match and If-None-Match exclude each other")),
    }
}

/// What became of a command of one operation.
fn outcome(done: &Done) -> Result<Outcome<'_>, Error> {
    if done.duplicate && done.payload.is_empty() {
        // Applied before; its answer was not kept, nor the version that it gave.
        return Ok(Outcome { existed: true, version: None, detail: atoll_kv::Detail::Nothing });
    }
    match Answer::decode(done.payload.as_slice()) {
        Some(Answer::Done(outcomes)) => outcomes.first().copied().ok_or_else(Error::unreadable),
        Some(Answer::Failed { why, .. }) => Err(done.fail(failure(why))),
        Some(
            Answer::Malformed
            | Answer::CrossSlot { .. }
            | Answer::Value(_)
            | Answer::Values(_)
            | Answer::Number(_)
            | Answer::Remaining(_)
            | Answer::Scanned(_)
            | Answer::Changes { .. }
            | Answer::Reset { .. }
            | Answer::TooLong,
        )
        | None => Err(Error::unreadable()),
    }
}

fn failure(why: Failure) -> Error {
    match why {
        Failure::Condition { version } => {
            let message = match version {
                Some(version) => format!("the condition does not hold: the key has the ETag {}", etag(version)),
                None => "the condition does not hold: there is no such key".to_owned(),
            };
            Error::new(StatusCode::PRECONDITION_FAILED, "condition_failed", message).with_version(version)
        }
        Failure::KeyTooLong => Error::bad("key_too_long", "the key is too long"),
        Failure::ValueTooLong => Error::too_large(atoll_kv::VALUE_MOST),
        Failure::Full => Error::new(StatusCode::INSUFFICIENT_STORAGE, "bucket_full", "the bucket takes no more keys"),
        Failure::NotAnInteger | Failure::Overflow | Failure::TooManyOperations | Failure::AnswerTooLong => {
            Error::bad("not_possible", "that cannot be done to this key")
        }
    }
}
