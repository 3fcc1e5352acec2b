//! `POST /v1/sessions`: a name under which a client numbers its writes, so that each counts once.
//!
//! Nothing is stored: the id says when it was opened, and a bucket remembers a session from its first write on.

use super::App;
use super::error::Error;
use super::text::Parameters;
use atoll_types::Counter;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

pub(super) async fn open(State(app): State<App>, request: Request) -> Result<Response, Error> {
    Parameters::of(request.uri(), &[])?;
    let session = app.gateway.new_session(Counter::Full).to_string();
    Ok((StatusCode::CREATED, Json(json!({"session": session}))).into_response())
}
