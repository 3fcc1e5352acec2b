//! Sessions and positions as text, the texts of an HTTP request, and messages with fields. Two texts never name the
//! same thing.

#![no_main]

use atoll_types::{Position, SessionId};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    atoll_server::fuzzing::fields(bytes);
    atoll_server::fuzzing::fields(&[&[0xff, b'X', 1], bytes].concat());
    atoll_server::fuzzing::http_texts(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(session) = text.parse::<SessionId>() {
        assert_eq!(session.to_string(), text);
    }
    if let Ok(position) = text.parse::<Position>() {
        assert_eq!(position.to_string(), text);
    }
});
