//! Which thread serves a connection. One that begins with plain data is handed to a shard's thread, where nothing
//! crosses threads any more but what is for another shard; what people and monitoring look at stays on the thread of
//! HTTP, which answers also while a shard is busy.
//!
//! ```text
//!   accept ──▶ first words ──▶ PUT, GET, DELETE /v1/kv/…, POST /v1/streams/…   a shard's thread, in turn
//!                        └───▶ anything else                                  this one
//! ```
//!
//! A connection stays where it is, whatever it asks for later.

use super::Web;
use crate::gateway::ClientPlace;
use std::io;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio::time::timeout;

/// Looked at to tell what a connection begins with.
const FIRST_WORDS: usize = 32;

/// A connection that was let in, not of any runtime.
#[derive(Debug)]
pub(crate) struct Handed {
    stream: std::net::TcpStream,
    place: ClientPlace,
}

/// Where the connections of the shards' threads are put. As many as there may be clients at the most.
pub(crate) type ToShard = mpsc::UnboundedSender<Handed>;

/// Serves what is handed over on this thread, for as long as it lives.
pub(crate) async fn take_over(mut handed: mpsc::UnboundedReceiver<Handed>, web: Web) {
    while let Some(Handed { stream, place }) = handed.recv().await {
        if let Ok(stream) = TcpStream::from_std(stream) {
            spawn_local(super::connection(stream, place, web.clone()));
        }
    }
}

/// Gives it to a shard's thread, if that is where it belongs. None: it was, or has ended.
pub(super) async fn hand_over(
    stream: TcpStream,
    place: ClientPlace,
    web: &Web,
    shard: &ToShard,
) -> io::Result<Option<(TcpStream, ClientPlace)>> {
    let mut first = [0; FIRST_WORDS];
    // One that says nothing has done nothing wrong, and is let go like one that waits for its next request.
    let Ok(peeked) = timeout(web.app.gateway.settings().slow, stream.peek(&mut first)).await else { return Ok(None) };
    match peeked? {
        0 => Ok(None),
        length if is_plain_data(&first[..length]) => {
            // Where the thread is gone the node stops.
            let _ = shard.send(Handed { stream: stream.into_std()?, place });
            Ok(None)
        }
        _ => Ok(Some((stream, place))),
    }
}

/// A request whose beginning came in pieces is not recognised, and served all the same.
fn is_plain_data(first: &[u8]) -> bool {
    let begins: [&[u8]; 4] = [b"PUT /v1/kv/", b"GET /v1/kv/", b"DELETE /v1/kv/", b"POST /v1/streams/"];
    begins.iter().any(|begin| first.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_data_goes_to_shards() {
        for first in ["PUT /v1/kv/a HTTP/1.1\r\n", "GET /v1/kv/", "DELETE /v1/kv/a%20b HTTP", "POST /v1/streams/s "] {
            assert!(is_plain_data(first.as_bytes()), "{first}");
        }
        for first in
            ["GET /v1/kv?prefix=a", "GET /v1/streams/s HTTP", "GET / HTTP/1.1", "GET /metrics", "GET /v1/k", ""]
        {
            assert!(!is_plain_data(first.as_bytes()), "{first}");
        }
    }
}
