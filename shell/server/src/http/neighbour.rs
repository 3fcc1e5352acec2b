//! Asks the HTTP listener of another node: one request, one answer.

use std::io::{self, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest answer.
const ANSWER_MOST: u64 = 16 << 20;

/// The body of the answer, if its status is 200. Whoever asks sets the time limit.
pub(super) async fn get(address: &str, path: &str) -> io::Result<Vec<u8>> {
    ask("GET", address, path).await
}

/// The same, by another method.
pub(super) async fn ask(method: &str, address: &str, path: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MOST).read_to_end(&mut answer).await?;
    body(&answer).map(<[u8]>::to_vec).ok_or_else(|| ErrorKind::InvalidData.into())
}

/// The answers of these nodes are of one piece: a length, and no parts.
fn body(answer: &[u8]) -> Option<&[u8]> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let body = &answer[end + 4..];
    answer.starts_with(b"HTTP/1.1 200 ").then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_body_is_what_follows_the_head() {
        assert_eq!(body(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n[]"), Some(&b"[]"[..]));
        assert_eq!(body(b"HTTP/1.1 404 Not Found\r\n\r\n[]"), None);
        assert_eq!(body(b"HTTP/1.1 200 OK\r\nA: b\r\n"), None);
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(bytes: Vec<u8>) {
            let _ = body(&bytes);
        }
    }
}
