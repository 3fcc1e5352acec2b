//! The native protocol, both sides of it. What can be read is written and read again as the same.

#![no_main]

use atoll_protocol::{Answer, Hello, MAGIC, Request, Step, VERSION, Welcome, frame};
use libfuzzer_sys::fuzz_target;

const FRAME_MOST: usize = 1 << 20;

fn body(bytes: &[u8]) -> &[u8] {
    match frame::next(bytes, FRAME_MOST) {
        frame::Next::Whole(body) => body,
        other => panic!("no whole frame: {other:?}"),
    }
}

fn greetings(bytes: &[u8]) {
    if let Ok(Step::Done(hello, length)) = Hello::decode(bytes) {
        let mut again = Vec::new();
        hello.encode(&mut again);
        assert!(length <= bytes.len());
        assert_eq!(Hello::decode(&again), Ok(Step::Done(hello, again.len())));
    }
    if let Ok(Step::Done(welcome, length)) = Welcome::decode(bytes) {
        let mut again = Vec::new();
        welcome.encode(&mut again);
        assert!(length <= bytes.len());
        assert_eq!(Welcome::decode(&again), Ok(Step::Done(welcome, again.len())));
    }
}

fuzz_target!(|bytes: &[u8]| {
    let _ = frame::next(bytes, 100);
    greetings(bytes);
    greetings(&[&MAGIC[..], &[VERSION], bytes].concat());
    if let Some(request) = Request::decode(bytes) {
        let mut again = Vec::new();
        request.encode(&mut again);
        assert_eq!(Request::decode(body(&again)), Some(request));
    }
    if let Some(answer) = Answer::decode(bytes) {
        let mut again = Vec::new();
        answer.encode(&mut again);
        assert_eq!(Answer::decode(body(&again)), Some(answer));
    }
});
