//! `/` and `/assets/…`: the dashboard.

use super::error::Error;
use crate::page::{self, POLICY, Source};
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};

pub(super) async fn show() -> Response {
    answer("text/html; charset=utf-8", page::index(Source::Live))
}

pub(super) async fn file(Path(name): Path<String>) -> Result<Response, Error> {
    let (kind, text) = page::file(&name).ok_or_else(|| Error::not_found("there is no such file"))?;
    Ok(answer(kind, text.to_owned()))
}

/// Not to be kept: the next version of this node has other files under the same names.
pub(crate) fn answer(kind: &'static str, text: String) -> Response {
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (headers, text).into_response()
}
