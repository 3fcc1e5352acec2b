//! A door for the fuzz targets (`fuzz/`) to what is private here. No part of the interface: it may change at any time.
//! Each takes any bytes, and panics only where something is wrong.

use crate::fields;
use crate::peers::frame::{self, HEADER, Next};
use crate::peers::hello;
use crate::resp::parse::{Limits, Malformed, Parser};
use atoll_node::Envelope;
use futures_util::FutureExt;

/// Every message in these bytes, as a reader of the peer port finds them.
pub fn peer_frames(bytes: &[u8]) -> Vec<Envelope> {
    let (mut at, mut found) = (0, Vec::new());
    while let Next::Whole(length) = frame::next(&bytes[at..]) {
        let Ok(envelope) = atoll_wire::message::decode(&bytes[at + HEADER..at + HEADER + length]) else { break };
        found.push(envelope);
        at += HEADER + length;
    }
    found
}

/// The first words on the peer port.
pub fn peer_hello(mut bytes: &[u8]) {
    let _ = hello::read(&mut bytes).now_or_never().expect("bytes that are there are not waited for");
}

/// Requests of a RESP client: the same ones, however the bytes are cut.
pub fn resp_requests(bytes: &[u8], cut: usize) {
    let (at_once, in_pieces) = (requests(bytes, bytes.len()), requests(bytes, cut));
    assert_eq!(at_once.0, in_pieces.0);
    assert_eq!(at_once.1.is_some(), in_pieces.1.is_some());
}

fn requests(bytes: &[u8], cut: usize) -> (Vec<Vec<Vec<u8>>>, Option<Malformed>) {
    let mut parser = Parser::new(Limits { argument: 1000, request: 4000 });
    let (mut buffer, mut requests) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(cut.max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            match parser.parse(&buffer) {
                Err(malformed) => return (requests, Some(malformed)),
                Ok(None) => break,
                Ok(Some(length)) => {
                    requests.push(parser.arguments(&buffer).iter().map(<[u8]>::to_vec).collect());
                    parser.begin();
                    buffer.drain(..length);
                }
            }
        }
    }
    (requests, None)
}

/// A message with fields comes back as it was, and so do the fields in it.
pub fn fields(bytes: &[u8]) {
    if let Some(fields) = fields::decode(bytes) {
        let again = fields::encode(&fields);
        assert_eq!(fields::decode(&again).unwrap_or_else(|| vec![(fields::PLAIN, &again)]), fields);
    }
}

/// Paths, parameters and tags of HTTP.
pub fn http_texts(bytes: &[u8]) {
    crate::http::read_texts(bytes);
}
