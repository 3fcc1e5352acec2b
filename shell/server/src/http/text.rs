//! Small texts: percent-encoding, parameters, entity tags, header values, bytes within JSON.

use super::error::Error;
use atoll_types::Offset;
use axum::http::{HeaderValue, Uri};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use std::str::FromStr;

/// None where a `%` is not followed by two hexadecimal digits. `plus`: whether a `+` stands for a space, as in forms.
pub(super) fn percent_decode(text: &[u8], plus: bool) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => 16 * digit(*bytes.next()?)? + digit(*bytes.next()?)?,
            b'+' if plus => b' ',
            other => other,
        });
    }
    Some(decoded)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Fit for a path and for a parameter.
pub(super) fn percent_encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
            text.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    text
}

/// What stands in the path after `before`, decoded.
pub(super) fn rest_of_path(uri: &Uri, before: &str) -> Result<Vec<u8>, Error> {
    let rest = uri.path().strip_prefix(before).unwrap_or_default();
    percent_decode(rest.as_bytes(), false)
        .ok_or_else(|| Error::bad("bad_encoding", "in a path, % is followed by two hexadecimal digits; write % as %25"))
}

/// The parameters of a request, of which all are known: a misspelt one must not go unnoticed.
#[derive(Debug)]
pub(super) struct Parameters(Vec<(String, Vec<u8>)>);

impl Parameters {
    pub(super) fn of(uri: &Uri, known: &[&str]) -> Result<Parameters, Error> {
        let mut parameters = Vec::new();
        for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !known.contains(&name) {
                let there_are = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
                let message = format!("unknown parameter {:?}; here: {there_are}", shortened(name));
                return Err(Error::bad("unknown_parameter", message));
            }
            let value = percent_decode(value.as_bytes(), true).ok_or_else(|| wrong(name, "percent-encoded bytes"))?;
            parameters.push((name.to_owned(), value));
        }
        Ok(Parameters(parameters))
    }

    pub(super) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &value[..])
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, Error> {
        let Some(value) = self.bytes(name) else { return Ok(None) };
        std::str::from_utf8(value).map(Some).map_err(|_| wrong(name, "text"))
    }

    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Error> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| wrong(name, "a number"))
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Error> {
        match self.text(name)? {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(_) => Err(wrong(name, "true or false")),
        }
    }
}

pub(super) fn wrong(name: &str, wanted: &str) -> Error {
    Error::bad("bad_parameter", format!("{name} is to be {wanted}"))
}

fn shortened(text: &str) -> &str {
    text.get(..40).unwrap_or(text)
}

/// Offsets of a bucket only grow, and stay when it is split: no other value of the key ever has this tag.
pub(super) fn etag(version: Offset) -> String {
    format!("\"{:x}\"", version.0)
}

/// With or without its quotes.
pub(super) fn version(etag: &str) -> Option<Offset> {
    let inner = etag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(etag);
    let is_hex = inner.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(inner, 16).ok().filter(|_| is_hex).map(Offset)
}

/// Of a text made here, of visible characters only.
pub(super) fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Bytes as text under `name` where they are, in base64 under `name_base64` where not.
pub(super) fn insert_bytes(into: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => into.insert(name.to_owned(), text.into()),
        Err(_) => into.insert(format!("{name}_base64"), STANDARD.encode(bytes).into()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bytes: Vec<u8>) {
            let text = percent_encode(&bytes);
            prop_assert!(text.is_ascii());
            prop_assert_eq!(percent_decode(text.as_bytes(), false), Some(bytes.clone()));
            prop_assert_eq!(percent_decode(text.as_bytes(), true), Some(bytes));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            let decoded = percent_decode(&bytes, true);
            prop_assert!(decoded.is_none_or(|decoded| decoded.len() <= bytes.len()));
        }

        #[test]
        fn a_tag_is_read_as_it_was_written(offset: u64) {
            prop_assert_eq!(version(&etag(Offset(offset))), Some(Offset(offset)));
        }

        #[test]
        fn any_tag_is_read_or_refused(text: String) {
            let _ = version(&text);
        }
    }

    #[test]
    fn a_percent_sign_needs_two_digits() {
        for text in ["%", "%1", "%g0", "%0g", "a%"] {
            assert_eq!(percent_decode(text.as_bytes(), false), None, "{text}");
        }
        assert_eq!(percent_decode(b"a+b%2f%2F", false).as_deref(), Some(&b"a+b//"[..]));
        assert_eq!(percent_decode(b"a+b", true).as_deref(), Some(&b"a b"[..]));
    }

    #[test]
    fn tags_of_others_are_refused() {
        for text in ["", "\"\"", "+1", "W/\"1\"", "\"1", "x", "11112222333344445"] {
            assert_eq!(version(text), None, "{text}");
        }
        assert_eq!(version("1f"), Some(Offset(31)));
    }
}
