//! Each request over HTTP has a name, in its answer and in the logs: the client's own, if it sends a sane one.

use crate::gateway::Gateway;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;

const HEADER: HeaderName = HeaderName::from_static("atoll-request-id");
/// The longest that is taken from a client.
const LENGTH_MOST: usize = 64;

/// What the client calls it, or a name of our own.
pub(super) fn of(headers: &HeaderMap, gateway: &Gateway) -> String {
    let given = headers.get(HEADER).and_then(|value| value.to_str().ok()).filter(|text| is_sane(text));
    given.map_or_else(|| format!("{:016x}", gateway.random()), str::to_owned)
}

/// It goes into logs: nothing that could be taken for anything else.
fn is_sane(text: &str) -> bool {
    let sane = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    (1..=LENGTH_MOST).contains(&text.len()) && text.bytes().all(sane)
}

pub(super) fn tell(response: &mut Response, id: &str) {
    if let Ok(value) = HeaderValue::from_str(id) {
        response.headers_mut().insert(HEADER, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_words_are_taken() {
        assert!(is_sane("6f1c-a_b.C:9") && is_sane(&"a".repeat(LENGTH_MOST)));
        for wrong in ["", "a b", "a\tb", "ä", "a\"b", "a{b}", &"a".repeat(LENGTH_MOST + 1)] {
            assert!(!is_sane(wrong), "{wrong}");
        }
    }
}
