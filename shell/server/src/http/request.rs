//! What requests for data have in common: the session of a write, how fresh a read has to be, bodies, and the headers
//! of the answer.

use super::App;
use super::error::Error;
use super::text::{Parameters, header};
use atoll_node::shard::door::{Answer, Ask};
use atoll_replica::session::WINDOW_MOST;
use atoll_types::{HashSlot, Payload, Position, Series, SessionUse};
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ACCEPT, CONTENT_LENGTH, EXPECT};
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use std::str::FromStr;
use tokio::time::timeout;

pub(super) const POSITION: HeaderName = HeaderName::from_static("atoll-position");
const DUPLICATE: HeaderName = HeaderName::from_static("atoll-duplicate");

/// A body that is too long is read to this length and dropped before the client is told: most send all of a body before
/// they listen, and would see a broken connection instead.
const DROPPED_MOST: usize = 64 * 1024 * 1024;

/// The number of the connection a request came on: its requests take effect in their order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection(pub(super) u64);

pub(super) fn connection(extensions: &Extensions, app: &App) -> u64 {
    extensions.get::<Connection>().map_or_else(|| app.gateway.new_connection(), |connection| connection.0)
}

/// Something the core has done or read.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) payload: Payload,
    pub(super) position: Position,
    pub(super) duplicate: bool,
}

impl Done {
    pub(super) fn of(answer: Answer) -> Result<Done, Error> {
        match answer {
            Answer::Done { payload, position, duplicate } => Ok(Done { payload, position, duplicate }),
            Answer::NotApplied(reason) => Err(Error::not_applied(reason)),
            Answer::Unknown => Err(Error::unknown_fate()),
        }
    }

    /// With the headers that every answer about data has.
    pub(super) fn respond(&self, response: impl IntoResponse) -> Response {
        let mut response = response.into_response();
        let headers = response.headers_mut();
        headers.insert(POSITION, header(&self.position.to_string()));
        if self.duplicate {
            headers.insert(DUPLICATE, HeaderValue::from_static("true"));
        }
        response
    }

    pub(super) fn fail(&self, error: Error) -> Error {
        error.at(self.position)
    }
}

/// A header that stands there at most once.
pub(super) fn value<T: FromStr>(headers: &HeaderMap, name: &str, wanted: &str) -> Result<Option<T>, Error> {
    let mut all = headers.get_all(name).iter();
    let Some(first) = all.next() else { return Ok(None) };
    let parsed = first.to_str().ok().and_then(|text| text.trim().parse().ok()).filter(|_| all.next().is_none());
    parsed.map(Some).ok_or_else(|| Error::bad("bad_header", format!("{name} is to be {wanted}, once")))
}

/// The numbers by which a write counts once.
pub(super) fn session_use(headers: &HeaderMap) -> Result<Option<SessionUse>, Error> {
    let session = value(headers, "atoll-session", "a session from POST /v1/sessions")?;
    let series: Option<u64> = value(headers, "atoll-series", "a number")?;
    let attempt = value(headers, "atoll-attempt", "a number")?.unwrap_or(0);
    let floor: Option<u64> = value(headers, "atoll-floor", "a number")?;
    match (session, series) {
        (None, None) => Ok(None),
        (Some(session), Some(series)) => {
            // Who names no floor waits for nothing that is a whole window older.
            let floor = floor.unwrap_or_else(|| series.saturating_sub(WINDOW_MOST - 1));
            Ok(Some(SessionUse { session, series: Series(series), floor: Series(floor), attempt }))
        }
        (Some(_), None) | (None, Some(_)) => {
            Err(Error::bad("bad_session", "Atoll-Session and Atoll-Series go together: send both, or none"))
        }
    }
}

/// How fresh a read has to be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Freshness {
    Linearizable,
    Stale { after: Option<Position> },
}

impl Freshness {
    pub(super) fn of(parameters: &Parameters, headers: &HeaderMap) -> Result<Freshness, Error> {
        let after = value(headers, "atoll-after", "a position as Atoll-Position gave it: bucket/epoch/offset")?;
        match (parameters.text("consistency")?, after) {
            (None | Some("linearizable"), None) => Ok(Freshness::Linearizable),
            (None | Some("linearizable"), Some(_)) => {
                Err(Error::bad("bad_header", "Atoll-After goes with ?consistency=stale; other reads are never older"))
            }
            (Some("stale"), after) => Ok(Freshness::Stale { after }),
            (Some(_), _) => Err(super::text::wrong("consistency", "stale or linearizable")),
        }
    }

    fn ask(self, query: Payload) -> Ask {
        match self {
            Freshness::Linearizable => Ask::Read { query },
            Freshness::Stale { after } => Ask::Stale { query, after },
        }
    }
}

pub(super) async fn read(
    app: &App,
    connection: u64,
    slot: HashSlot,
    query: Payload,
    freshness: Freshness,
) -> Result<Done, Error> {
    Done::of(app.gateway.ask(connection, slot, freshness.ask(query)).await)
}

pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.split(',').any(|kind| kind.trim().starts_with("text/event-stream")))
}

/// The body of a request, which is a value or a message.
pub(super) async fn body(app: &App, request: Request) -> Result<Vec<u8>, Error> {
    body_within(app, request, app.gateway.settings().max_value).await
}

pub(super) async fn body_within(app: &App, request: Request, most: usize) -> Result<Vec<u8>, Error> {
    let settings = app.gateway.settings();
    let said: Option<usize> = value(request.headers(), CONTENT_LENGTH.as_str(), "a number")?;
    // A client that asks first, or means to send very much, is told at once.
    let asks = request.headers().contains_key(EXPECT);
    if said.is_some_and(|said| (said > most && asks) || said > DROPPED_MOST) {
        return Err(Error::too_large(most));
    }
    timeout(settings.slow, gather(request.into_body(), most)).await.map_err(|_| Error::too_slow())?
}

async fn gather(body: Body, most: usize) -> Result<Vec<u8>, Error> {
    let mut pieces = body.into_data_stream();
    let (mut gathered, mut length) = (Vec::new(), 0);
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Error::bad("bad_body", "the body broke off; nothing was done"))?;
        length += piece.len();
        if length > DROPPED_MOST {
            break;
        }
        if length <= most {
            gathered.extend_from_slice(&piece);
        } else {
            gathered = Vec::new();
        }
    }
    if length > most { Err(Error::too_large(most)) } else { Ok(gathered) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |&(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_session_needs_its_series() {
        let session = "18c2f000000-00000000000000ff";
        assert!(session_use(&headers(&[])).expect("nothing").is_none());
        assert!(session_use(&headers(&[("atoll-session", session)])).is_err());
        assert!(session_use(&headers(&[("atoll-series", "1")])).is_err());
        assert!(session_use(&headers(&[("atoll-session", "x"), ("atoll-series", "1")])).is_err());
        let both = session_use(&headers(&[("atoll-session", session), ("atoll-series", "5000")]));
        let both = both.expect("a session").expect("a session");
        assert_eq!((both.series, both.floor), (Series(5000), Series(5000 - 1023)));
        assert_eq!(both.session.to_string(), session);
    }

    #[test]
    fn events_are_wanted_by_name() {
        assert!(wants_events(&headers(&[("accept", "text/event-stream")])));
        assert!(wants_events(&headers(&[("accept", "text/html, text/event-stream;q=0.9")])));
        assert!(!wants_events(&headers(&[("accept", "*/*")])));
        assert!(!wants_events(&headers(&[])));
    }

    proptest! {
        #[test]
        fn positions_and_sessions_are_read_or_refused(text: String) {
            let _ = text.parse::<Position>();
            let _ = text.parse::<atoll_types::SessionId>();
        }
    }
}
