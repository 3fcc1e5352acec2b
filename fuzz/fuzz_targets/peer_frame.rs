//! The peer port: a hello, and frames with messages. What is a message is written and read again as the same one.

#![no_main]

use atoll_wire::message;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    atoll_server::fuzzing::peer_hello(bytes);
    let greeting = [b"ATOLLP\x01", bytes].concat();
    atoll_server::fuzzing::peer_hello(&greeting);
    let mut found = atoll_server::fuzzing::peer_frames(bytes);
    // Most inputs do not have the right length in front.
    found.extend(message::decode(bytes));
    found.extend(message::decode(&[&[message::VERSION], bytes].concat()));
    for envelope in found {
        let mut again = Vec::new();
        message::encode(&envelope, &mut again);
        assert_eq!(message::decode(&again), Ok(envelope));
    }
});
