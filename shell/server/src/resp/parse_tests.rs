//! The parser against requests in pieces, and against nonsense.

use super::{Limits, Malformed, Parser};
use proptest::prelude::*;

const LIMITS: Limits = Limits { argument: 1000, request: 4000 };

type Requests = Vec<Vec<Vec<u8>>>;

/// Feeds the pieces one after another, as a connection does; all requests, and how it ended.
fn feed<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Requests, Option<Malformed>) {
    let mut parser = Parser::new(LIMITS);
    let (mut buffer, mut requests) = (Vec::new(), Vec::new());
    for piece in pieces {
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

fn whole(bytes: &[u8]) -> (Requests, Option<Malformed>) {
    feed([bytes].into_iter())
}

fn one(bytes: &[u8]) -> Vec<String> {
    let (requests, malformed) = whole(bytes);
    assert_eq!((requests.len(), malformed), (1, None));
    requests[0].iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn encode(requests: &Requests) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in requests {
        bytes.extend_from_slice(format!("*{}\r\n", request.len()).as_bytes());
        for argument in request {
            bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            bytes.extend_from_slice(argument);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes
}

#[test]
fn requests_in_words() {
    assert_eq!(one(b"SET  key value\r\n"), ["SET", "key", "value"]);
    assert_eq!(one(b"ping\n"), ["ping"]);
    assert_eq!(one(b"SET k \"a b\\n\\x41\\\"\"\r\n"), ["SET", "k", "a b\nA\""]);
    assert_eq!(one(b"SET k 'a \\' \\n'\r\n"), ["SET", "k", "a ' \\n"]);
    assert_eq!(one(b"\r\n"), [""; 0]);
    assert_eq!(whole(b"SET k \"a\r\n").1, Some(Malformed::Quotes));
    assert_eq!(whole(b"SET k \"a\"b\r\n").1, Some(Malformed::Quotes));
    assert_eq!(whole(&[b'a'; 70_000]).1, Some(Malformed::LongLine));
}

#[test]
fn lengths_that_cannot_be() {
    assert_eq!(whole(b"*x\r\n").1, Some(Malformed::Count));
    assert_eq!(whole(b"*1048577\r\n").1, Some(Malformed::Count));
    assert_eq!(whole(b"*99999999999999999999999999999999999").1, Some(Malformed::Count));
    assert_eq!(whole(b"*1\r\n$-1\r\n").1, Some(Malformed::Length));
    assert_eq!(whole(b"*1\r\n$1001\r\n").1, Some(Malformed::Length));
    assert_eq!(whole(b"*1\r\n$9223372036854775808\r\n").1, Some(Malformed::Length));
    assert_eq!(whole(b"*1\r\n:1\r\n").1, Some(Malformed::NoBulk(b':')));
    assert_eq!(whole(b"*1\r\n$1\r\nabc\r\n").1, Some(Malformed::NoEnd));
    let many = encode(&vec![vec![vec![b'a'; 900]; 5]]);
    assert_eq!(whole(&many).1, Some(Malformed::TooLarge(4000)));
    assert_eq!(whole(b"*-1\r\n").1, Some(Malformed::Count));
    assert_eq!(whole(b"*0\r\n*0\r\n"), (vec![vec![], vec![]], None), "empty arrays are skipped");
    assert_eq!(whole(b"*1000000\r\n"), (vec![], None), "and a count alone is no reason to take memory");
}

#[test]
fn http_is_told_apart() {
    assert_eq!(whole(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").1, Some(Malformed::Http));
    assert_eq!(whole(b"POST /v1/streams/a HTTP/1.0\r\n").1, Some(Malformed::Http));
}

fn requests() -> impl Strategy<Value = Requests> {
    let argument = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        Just(b"\r\n".to_vec()),
        Just(b"*1\r\n$1\r\n".to_vec()),
        proptest::collection::vec(any::<u8>(), 900..1000),
    ];
    proptest::collection::vec(proptest::collection::vec(argument, 1..4), 0..6)
}

proptest! {
    #[test]
    fn any_split_gives_the_same_requests(
        requests in requests(),
        cuts in proptest::collection::vec(any::<u16>(), 0..8),
    ) {
        let bytes = encode(&requests);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| usize::from(cut) % (bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let (found, malformed) = feed(cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]));
        prop_assert_eq!(malformed, None);
        prop_assert_eq!(found, requests);
    }

    #[test]
    fn nonsense_is_taken_the_same_way_however_it_is_cut(
        bytes in proptest::collection::vec(prop_oneof![
            any::<u8>(), Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), Just(b'1'), Just(b'"'), Just(b'-'),
        ], 0..200),
        size in 1..9_usize,
    ) {
        let (at_once, malformed) = whole(&bytes);
        let (in_pieces, malformed_in_pieces) = feed(bytes.chunks(size));
        prop_assert_eq!(at_once, in_pieces);
        prop_assert_eq!(malformed.is_some(), malformed_in_pieces.is_some());
    }
}
