//! The first words on a connection between nodes, so that a stranger, another version or another protocol is turned
//! away with a reason before anything is read as a frame.
//!
//! ```text
//!   hello:  "ATOLLP" │ version u8 │ lane u8 │ address: length u16 LE, text │ credential: length u16 LE, bytes
//!   answer: 0 │ version u8           welcome
//!           1 │ reason: length u16 LE, text
//! ```

use atoll_types::Address;
use atoll_wire::VERSION;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MAGIC: &[u8; 6] = b"ATOLLP";
/// No address and no credential is longer.
const TEXT_MOST: usize = 1024;

/// Which thread of a node speaks, and listens, on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Cluster,
    Shard(u8),
    /// Snapshots of the buckets of a shard.
    Bulk(u8),
}

impl Lane {
    fn byte(self) -> u8 {
        match self {
            Lane::Cluster => 0,
            Lane::Shard(index) => 1 + 2 * (index % 127),
            Lane::Bulk(index) => 2 + 2 * (index % 127),
        }
    }

    fn of(byte: u8) -> Lane {
        match byte {
            0 => Lane::Cluster,
            odd if odd % 2 == 1 => Lane::Shard(odd / 2),
            even => Lane::Bulk(even / 2 - 1),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) lane: Lane,
    /// Where the sender itself is reached.
    pub(crate) address: Address,
}

fn wrong(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

/// Says hello and waits to be welcomed.
pub(crate) async fn greet(stream: &mut TcpStream, hello: &Hello) -> io::Result<()> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend([VERSION, hello.lane.byte()]);
    bytes.extend((hello.address.0.len() as u16).to_le_bytes());
    bytes.extend(hello.address.0.as_bytes());
    bytes.extend(0_u16.to_le_bytes());
    stream.write_all(&bytes).await?;
    match stream.read_u8().await? {
        0 => stream.read_u8().await.map(|_version| ()),
        _ => Err(wrong(text(stream).await?)),
    }
}

/// Reads a hello and answers it.
pub(crate) async fn welcome(stream: &mut TcpStream) -> io::Result<Hello> {
    match read(stream).await {
        Ok(hello) => {
            stream.write_all(&[0, VERSION]).await?;
            Ok(hello)
        }
        Err(error) => {
            let reason = error.to_string();
            let mut bytes = vec![1];
            bytes.extend((reason.len() as u16).to_le_bytes());
            bytes.extend(reason.as_bytes());
            // Whoever speaks another protocol may be gone, or not listen.
            let _ = stream.write_all(&bytes).await;
            Err(error)
        }
    }
}

async fn read(stream: &mut TcpStream) -> io::Result<Hello> {
    let mut head = [0; MAGIC.len() + 2];
    // Byte by byte as far as it fits: a stranger may send less than a hello and wait for an answer.
    for place in 0..head.len() {
        head[place] = stream.read_u8().await?;
        if place < MAGIC.len() && head[place] != MAGIC[place] {
            return Err(wrong("this is the port of Atoll's nodes among each other: clients use --http or --resp"));
        }
    }
    let (version, lane) = (head[MAGIC.len()], head[MAGIC.len() + 1]);
    if version != VERSION {
        return Err(wrong(format!("version {version} is not spoken here; this node speaks {VERSION}")));
    }
    let address = text(stream).await?;
    let _credential = text(stream).await?;
    Ok(Hello { lane: Lane::of(lane), address: address.as_str().into() })
}

async fn text(stream: &mut TcpStream) -> io::Result<String> {
    let length = usize::from(stream.read_u16_le().await?);
    if length > TEXT_MOST {
        return Err(wrong(format!("{length} bytes where at most {TEXT_MOST} make sense")));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    String::from_utf8(bytes).map_err(|_| wrong("an address that is no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_found_again() {
        for lane in [Lane::Cluster, Lane::Shard(0), Lane::Bulk(0), Lane::Shard(126), Lane::Bulk(126)] {
            assert_eq!(Lane::of(lane.byte()), lane);
        }
    }
}
