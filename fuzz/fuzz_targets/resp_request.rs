//! Requests of RESP clients: the same ones, however their bytes are cut. The first byte says how.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((&cut, bytes)) = bytes.split_first() {
        atoll_server::fuzzing::resp_requests(bytes, usize::from(cut));
    }
});
