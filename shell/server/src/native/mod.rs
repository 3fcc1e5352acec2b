//! The native protocol: hello and welcome, then frames both ways (`atoll-protocol`, `docs/protocol/native.md`).
//!
//! | File | What |
//! |---|---|
//! | `connection.rs` | one client after its hello: frames in, answers out |
//! | `calls.rs` | what it has under way |
//! | `check.rs` | whether a command or query may go to the slot it names |
//!
//! Not here: RESP, which shares the port (`clients.rs` tells them apart by the first byte).

mod calls;
mod check;
mod connection;

use crate::gateway::Gateway;
use crate::home::Home;
use crate::parting;
use crate::refused::Why;
use atoll_protocol::{Hello, Limits, MAGIC, Opened, Step, Unreadable, VERSION, Wanted, Welcome};
use atoll_types::SessionId;
use connection::Connection;
use std::io;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Requests of one connection under way. Beyond that no more is read of it.
const REQUESTS_MOST: usize = 1024;
/// Bytes that they, and the answers they ask for, may come to; one request always goes.
const BYTES_MOST: usize = 8 << 20;
/// Reads of one connection that wait for a position. More are told that this node is busy.
const WAITING_MOST: usize = 256;
/// What a request has beside a value: keys, and what is around them.
const BESIDE_VALUE: usize = 128 << 10;

/// Is this the first byte of a native client?
pub(crate) fn is_native(first: u8) -> bool {
    first == MAGIC[0]
}

pub(crate) async fn serve(mut stream: TcpStream, gateway: Gateway, home: &Rc<Home>) -> io::Result<()> {
    let slow = gateway.settings().slow;
    let mut input = Vec::new();
    let wanted = match timeout(slow, hello(&mut stream, &mut input)).await {
        Ok(wanted) => wanted?,
        Err(_) => {
            gateway.refused().count(Why::TooSlow);
            return refuse(&mut stream, "a hello takes too long here").await;
        }
    };
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(reason) => {
            gateway.refused().count(Why::Malformed);
            return refuse(&mut stream, &reason).await;
        }
    };
    let opened = open(&gateway, &wanted);
    let mut bytes = Vec::new();
    welcome(&gateway, opened).encode(&mut bytes);
    stream.write_all(&bytes).await?;
    let connection = Connection::new(stream, gateway, input, opened.session);
    home.serve(connection, Connection::poll).await.1
}

/// Says why, before the end.
async fn refuse(stream: &mut TcpStream, reason: &str) -> io::Result<()> {
    let mut bytes = Vec::new();
    Welcome::Refused { reason: reason.to_owned() }.encode(&mut bytes);
    parting::part(stream, &bytes).await;
    Err(io::Error::new(io::ErrorKind::InvalidData, reason.to_owned()))
}

/// Reads a hello, and leaves what comes behind it in `input`. `Err`: why it is none.
async fn hello(stream: &mut TcpStream, input: &mut Vec<u8>) -> io::Result<Result<Wanted, String>> {
    loop {
        let (wanted, length) = match Hello::decode(input) {
            Ok(Step::Needs(_)) => {
                if stream.read_buf(input).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                continue;
            }
            Ok(Step::Done(hello, _)) if !hello.credential.is_empty() => {
                return Ok(Err("this version checks no credentials: send none".to_owned()));
            }
            Ok(Step::Done(hello, length)) => (hello.wanted, length),
            Err(Unreadable::Magic) => return Ok(Err("this is no hello of the native protocol".to_owned())),
            Err(Unreadable::Version(version)) => {
                return Ok(Err(format!("version {version} is not spoken here; this node speaks {VERSION}")));
            }
            Err(Unreadable::Malformed) => {
                return Ok(Err("this hello names a counter or a credential that cannot be".to_owned()));
            }
        };
        input.drain(..length);
        return Ok(Ok(wanted));
    }
}

/// The session that is asked for. Whether an old one is still remembered is for each bucket to say.
fn open(gateway: &Gateway, wanted: &Wanted) -> Opened {
    let session = match wanted.session {
        Some((opened, token)) => SessionId { opened, token, counter: wanted.counter },
        None => gateway.new_session(wanted.counter),
    };
    Opened { session, window: wanted.granted() }
}

fn welcome(gateway: &Gateway, opened: Opened) -> Welcome {
    let settings = gateway.settings();
    let limits = Limits {
        requests: REQUESTS_MOST as u32,
        waiting: WAITING_MOST as u32,
        request_bytes: u32::try_from(request_most(gateway)).unwrap_or(u32::MAX),
        session_idle: u32::try_from(settings.timing.session_idle.as_millis()).unwrap_or(u32::MAX),
    };
    Welcome::Welcome {
        opened,
        limits,
        cluster: cluster(gateway),
        table: gateway.board().routes().version,
        name: settings.name.clone(),
    }
}

fn cluster(gateway: &Gateway) -> u64 {
    u64::from_str_radix(&gateway.board().status().cluster_id, 16).unwrap_or(0)
}

/// Bytes of the longest frame that a client may send.
fn request_most(gateway: &Gateway) -> usize {
    gateway.settings().max_value.saturating_add(BESIDE_VALUE)
}
