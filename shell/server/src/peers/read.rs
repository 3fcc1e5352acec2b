//! Frames that come from a peer, each to whom it is for.

use super::accept::Accepted;
use super::frame::{self, HEADER, Next};
use crate::home::Home;
use crate::refused::{Refused, Why};
use crate::switch::Switch;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::sleep;
use tracing::debug;

/// Room for what arrives at once.
const CHUNK: usize = 64 * 1024;

/// Reads until the peer is gone or says something that is no frame.
pub(crate) async fn read(accepted: Accepted, switch: Arc<Switch>, home: Option<Rc<Home>>, refused: Arc<Refused>) {
    let from = accepted.hello.address.clone();
    if let Err(error) = frames(accepted, &switch, home.as_deref(), &refused).await {
        debug!(%error, peer = %from, "a peer's connection ended");
    }
}

/// `home`: the shard whose thread this is, where it is one's.
async fn frames(accepted: Accepted, switch: &Switch, home: Option<&Home>, refused: &Refused) -> io::Result<()> {
    let from = &accepted.hello.address;
    let mut stream = TcpStream::from_std(accepted.stream)?;
    let mut bytes: Vec<u8> = Vec::with_capacity(CHUNK);
    loop {
        let more = stream.read_buf(&mut bytes).await?;
        if more == 0 {
            return Ok(());
        }
        switch.traffic.from_peers.add_shared(more as u64);
        let mut at = 0;
        let needed = loop {
            match frame::next(&bytes[at..]) {
                Next::Whole(length) => {
                    let body = &bytes[at + HEADER..at + HEADER + length];
                    at += HEADER + length;
                    match atoll_wire::message::decode_and_weigh(body) {
                        Ok((envelope, weight)) => {
                            let envelope = Box::new(envelope);
                            match home {
                                Some(home) => home.deliver(from, envelope, weight),
                                None => switch.divide(from, envelope, weight, |_, envelope| Some(envelope)),
                            }
                        }
                        Err(error) => {
                            refused.count(Why::PeerFrame);
                            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                        }
                    }
                }
                Next::Needs(needed) => break needed,
                Next::TooLong(length) => {
                    refused.count(Why::PeerFrame);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")));
                }
            }
        };
        bytes.drain(..at);
        // Room for the rest of what has begun to come; a length alone makes room for one chunk at most.
        bytes.reserve(needed.saturating_sub(bytes.len()).clamp(CHUNK / 4, CHUNK * 4));
        while switch.is_full() {
            sleep(Duration::from_millis(1)).await;
        }
    }
}
