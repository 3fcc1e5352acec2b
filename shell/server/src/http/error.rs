//! What a client is told when something did not work: a status, and `{"error":{"code","message"}}`.
//!
//! | Status | Means |
//! |---|---|
//! | 400, 403, 404, 405, 408, 409, 410, 412, 413, 429 | the request as it is cannot be done |
//! | 503 | not applied; try again after `Retry-After` |
//! | 504 | code `unknown`: it may have been applied, or not |
//! | 507 | not applied: out of memory |

use crate::data::words;
use crate::refused::Why;
use atoll_node::shard::door::Reason;
use atoll_types::{Offset, Position};
use axum::Json;
use axum::http::header::{ETAG, RETRY_AFTER};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// For a connection that is not taken at all.
pub(super) const TOO_MANY_CLIENTS: &str = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\
     Connection: close\r\nContent-Type: application/json\r\nContent-Length: 97\r\n\r\n\
     {\"error\":{\"code\":\"too_many_clients\",\"message\":\"this node serves no more clients; try another\"}}\n\n";

const HEAD_TOO_LARGE: &str = "the headers are longer than 128 KiB together";

/// An answer with words, for one that was to have none: heads are refused before anybody here sees them.
pub(super) fn in_place_of(answer: &[u8]) -> Option<Vec<u8>> {
    let (line, code, message) = if answer.starts_with(b"HTTP/1.1 414 ") {
        let message =
            "the path is longer than 65534 bytes: reach a key as long as that over RESP or the native protocol";
        ("414 URI Too Long", "uri_too_long", message)
    } else if answer.starts_with(b"HTTP/1.1 431 ") {
        ("431 Request Header Fields Too Large", "head_too_large", HEAD_TOO_LARGE)
    } else {
        return None;
    };
    let body = json!({ "error": { "code": code, "message": message } }).to_string();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {line}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    Some([head, body].concat().into_bytes())
}

#[derive(Debug)]
pub(super) struct Error {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: String,
    /// Seconds.
    retry_after: Option<u32>,
    position: Option<Position>,
    /// The version that a key has, where another was expected.
    version: Option<Offset>,
    refused: Option<Why>,
}

impl Error {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Error {
        let message = message.into();
        Error { status, code, message, retry_after: None, position: None, version: None, refused: None }
    }

    /// The request makes no sense.
    pub(super) fn bad(code: &'static str, message: impl Into<String>) -> Error {
        Error { refused: Some(Why::BadRequest), ..Error::new(StatusCode::BAD_REQUEST, code, message) }
    }

    pub(super) fn head_too_large() -> Error {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        Error { refused: Some(Why::Malformed), ..Error::new(status, "head_too_large", HEAD_TOO_LARGE) }
    }

    pub(super) fn no_route(path: &str) -> Error {
        let message = format!("there is nothing at {path}; /v1/openapi.json lists what there is");
        Error { refused: Some(Why::BadRequest), ..Error::new(StatusCode::NOT_FOUND, "no_such_path", message) }
    }

    pub(super) fn no_method(method: &Method) -> Error {
        let message = format!("{method} is not possible here; the Allow header says what is");
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Error { refused: Some(Why::BadRequest), ..Error::new(status, "method_not_allowed", message) }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Error {
        Error::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(super) fn too_large(most: usize) -> Error {
        let message = format!("the body is longer than {most} bytes, the most that this node takes");
        Error { refused: Some(Why::TooLarge), ..Error::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message) }
    }

    pub(super) fn too_slow() -> Error {
        let message = "the body did not come in time; nothing was done";
        Error { refused: Some(Why::TooSlow), ..Error::new(StatusCode::REQUEST_TIMEOUT, "too_slow", message) }
    }

    /// It was not done, and may be possible soon.
    pub(super) fn later(code: &'static str, message: impl Into<String>) -> Error {
        Error { retry_after: Some(1), ..Error::new(StatusCode::SERVICE_UNAVAILABLE, code, message) }
    }

    pub(super) fn unknown(message: &str) -> Error {
        Error::new(StatusCode::GATEWAY_TIMEOUT, "unknown", message)
    }

    /// A write whose fate is not known.
    pub(super) fn unknown_fate() -> Error {
        Error::unknown(
            "it may have been applied, or not: read before you send it again, or send it with Atoll-Session and \
             Atoll-Series, which make it count once",
        )
    }

    pub(super) fn not_applied(reason: Reason) -> Error {
        let words = words(reason);
        let status = match reason {
            Reason::Busy | Reason::Paused | Reason::Lost | Reason::NoTable | Reason::TooManyHops | Reason::TooStale => {
                return Error::later(words.code, words.message);
            }
            Reason::OutOfMemory => StatusCode::INSUFFICIENT_STORAGE,
            Reason::SessionExpired => StatusCode::GONE,
            Reason::BelowFloor => StatusCode::CONFLICT,
            Reason::BeyondWindow => StatusCode::TOO_MANY_REQUESTS,
            Reason::BadSession => StatusCode::BAD_REQUEST,
            Reason::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        };
        Error::new(status, words.code, words.message)
    }

    /// The machines' answer cannot be read: another version's, or a fault.
    pub(super) fn unreadable() -> Error {
        let message = "the answer of the bucket cannot be read; are all nodes of the same version?";
        Error::new(StatusCode::INTERNAL_SERVER_ERROR, "unreadable", message)
    }

    pub(super) fn at(self, position: Position) -> Error {
        Error { position: Some(position), ..self }
    }

    pub(super) fn with_version(self, version: Option<Offset>) -> Error {
        Error { version, ..self }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let body = Json(json!({"error": {"code": self.code, "message": self.message}}));
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some(version) = self.version {
            headers.insert(ETAG, super::text::header(&super::text::etag(version)));
        }
        if let Some(position) = self.position {
            headers.insert(super::request::POSITION, super::text::header(&position.to_string()));
        }
        if let Some(why) = self.refused {
            response.extensions_mut().insert(why);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_one_client_too_many_has_the_length_it_says() {
        let (head, body) = TOO_MANY_CLIENTS.split_once("\r\n\r\n").expect("a head");
        let said: usize = head.split("Content-Length: ").nth(1).and_then(|text| text.parse().ok()).expect("a length");
        assert_eq!(said, body.len());
        serde_json::from_str::<serde_json::Value>(body).expect("JSON");
    }
}
