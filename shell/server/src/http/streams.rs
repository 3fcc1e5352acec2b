//! `/v1/streams/{name}`: messages in, messages out. The name is what stands in the path, percent-decoded.
//!
//! Not here: messages as they come (`tail.rs`).

use super::App;
use super::error::Error;
use super::request::{self, Done, Freshness, body, read as read_once, session_use, wants_events};
use super::tail;
use super::text::{Parameters, insert_bytes, rest_of_path, wrong};
use crate::data::{stream_command, stream_query};
use crate::fields;
use atoll_stream::{Action, Answer, Command, Failure, Id, Message, Outcome, Query, StreamOffset};
use atoll_types::{HashSlot, Payload};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Map, Value, json};

/// Messages in one answer, where nothing is said, and at most.
const LIMIT: u32 = 100;
pub(super) const LIMIT_MOST: u32 = 1000;
/// Bytes of messages after which an answer ends.
pub(super) const ANSWER_MOST: u32 = 1 << 20;

fn name_of(uri: &Uri) -> Result<Vec<u8>, Error> {
    let name = rest_of_path(uri, "/v1/streams/")?;
    if name.len() > atoll_stream::NAME_MOST {
        let message = format!("the name of a stream has at most {} bytes", atoll_stream::NAME_MOST);
        return Err(Error::bad("name_too_long", message));
    }
    Ok(name)
}

pub(super) async fn publish(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let name = name_of(request.uri())?;
    Parameters::of(request.uri(), &[])?;
    let usage = session_use(request.headers())?;
    let connection = request::connection(request.extensions(), &app);
    let message = body(&app, request).await?;
    let command = stream_command(&Command::one(&name, Action::Append { id: Id::Auto, payload: &message }));
    drop(message);
    let done = Done::of(app.gateway.write(connection, HashSlot::of(&name), command, usage).await)?;
    let position = done.position.to_string();
    if done.duplicate && done.payload.is_empty() {
        // Published before; where was not kept.
        return Ok(done.respond(Json(json!({"offset": null, "position": position}))));
    }
    match Answer::decode(done.payload.as_slice()) {
        Some(Answer::Done(outcomes)) => match outcomes.first() {
            Some(Outcome::Appended { offset, time }) => {
                Ok(done.respond(Json(json!({"offset": offset.0, "position": position, "time": time.0}))))
            }
            Some(Outcome::Removed { .. } | Outcome::Configured { .. }) | None => Err(Error::unreadable()),
        },
        Some(Answer::Failed { why, .. }) => Err(done.fail(failure(why))),
        Some(
            Answer::Malformed
            | Answer::CrossSlot { .. }
            | Answer::Messages { .. }
            | Answer::Reset { .. }
            | Answer::Absent
            | Answer::Number(_)
            | Answer::Info(_)
            | Answer::Names { .. },
        )
        | None => Err(Error::unreadable()),
    }
}

fn failure(why: Failure) -> Error {
    match why {
        Failure::NameTooLong => Error::bad("name_too_long", "the name of the stream is too long"),
        Failure::PayloadTooLong => Error::too_large(atoll_stream::PAYLOAD_MOST),
        Failure::NotNext { .. } | Failure::TooManyOperations => {
            Error::bad("not_possible", "that cannot be done to this stream")
        }
    }
}

pub(super) async fn read(State(app): State<App>, request: Request) -> Result<Response, Error> {
    let name = name_of(request.uri())?;
    let parameters = Parameters::of(request.uri(), &["from", "limit", "consistency"])?;
    // Messages count from 1: 0 is "from the oldest there is".
    let from: Option<u64> = parameters.number("from")?;
    if wants_events(request.headers()) {
        return tail::tail(app, name, from, request.headers()).await;
    }
    let limit = parameters.number("limit")?.unwrap_or(LIMIT);
    if limit == 0 || limit > LIMIT_MOST {
        return Err(wrong("limit", &format!("from 1 to {LIMIT_MOST}")));
    }
    let freshness = Freshness::of(&parameters, request.headers())?;
    let connection = request::connection(request.extensions(), &app);
    let slot = HashSlot::of(&name);
    let mut from = from.filter(|&from| from > 0).map(StreamOffset);
    let mut reset = None;
    loop {
        let done = read_once(&app, connection, slot, query(&name, from, limit), freshness).await?;
        match Answer::decode(done.payload.as_slice()) {
            Some(Answer::Messages { messages, next }) => {
                let messages: Vec<Value> = messages.iter().map(message).collect();
                let mut json = json!({"messages": messages, "next": next.map(|next| next.0)});
                if let Some(StreamOffset(oldest)) = reset {
                    json["reset"] = json!({"oldest": oldest});
                }
                return Ok(done.respond(Json(json)));
            }
            // What was asked for is not kept any more: the oldest that is, and a word about it.
            Some(Answer::Reset { oldest }) => (from, reset) = (None, Some(oldest)),
            Some(Answer::Absent) => return Err(done.fail(Error::not_found("there is no such stream"))),
            Some(
                Answer::Malformed
                | Answer::Done(_)
                | Answer::Failed { .. }
                | Answer::CrossSlot { .. }
                | Answer::Number(_)
                | Answer::Info(_)
                | Answer::Names { .. },
            )
            | None => return Err(Error::unreadable()),
        }
    }
}

pub(super) fn query(name: &[u8], from: Option<StreamOffset>, limit: u32) -> Payload {
    stream_query(&Query::Read { stream: name, from, limit, bytes: ANSWER_MOST })
}

/// The time is the log's, in microseconds since 1970.
pub(super) fn message(message: &Message<'_>) -> Value {
    let mut json = Map::new();
    json.insert("offset".to_owned(), message.offset.0.into());
    json.insert("time".to_owned(), message.time.0.into());
    match fields::decode(message.payload) {
        None => insert_bytes(&mut json, "data", message.payload),
        // From XADD: names and values, in the order in which they were given.
        Some(fields) => {
            let pair = |(name, value): &(&[u8], &[u8])| {
                let mut pair = Map::new();
                insert_bytes(&mut pair, "name", name);
                insert_bytes(&mut pair, "value", value);
                Value::from(pair)
            };
            json.insert("fields".to_owned(), fields.iter().map(pair).collect());
        }
    }
    json.into()
}
