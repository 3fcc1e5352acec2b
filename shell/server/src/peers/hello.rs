//! The first words on a connection between nodes, so that a stranger, another version or another protocol is turned
//! away with a reason before anything is read as a frame.
//!
//! ```text
//!   hello:  "ATOLLP" │ version u8 │ lane u8 │ address: length u16 LE, text │ credential: length u16 LE, bytes
//!   answer: 0 │ version u8           welcome
//!           1 │ reason: length u16 LE, text
//! ```

use crate::parting;
use atoll_types::Address;
use atoll_wire::VERSION;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
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

impl Hello {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, self.lane.byte()]);
        bytes.extend((self.address.0.len() as u16).to_le_bytes());
        bytes.extend(self.address.0.as_bytes());
        bytes.extend(0_u16.to_le_bytes());
        bytes
    }
}

fn wrong(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

/// Says hello and waits to be welcomed.
pub(crate) async fn greet(stream: &mut TcpStream, hello: &Hello) -> io::Result<()> {
    stream.write_all(&hello.encode()).await?;
    match stream.read_u8().await? {
        0 => stream.read_u8().await.map(|_version| ()),
        _ => Err(wrong(text(stream).await?)),
    }
}

/// The sender of a hello may go on.
pub(crate) async fn welcome(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(&[0, VERSION]).await
}

/// It is told why not.
pub(crate) async fn refuse(stream: &mut TcpStream, reason: &str) {
    let reason = &reason[..reason.floor_char_boundary(TEXT_MOST)];
    let mut bytes = vec![1];
    bytes.extend((reason.len() as u16).to_le_bytes());
    bytes.extend(reason.as_bytes());
    parting::part(stream, &bytes).await;
}

/// Of whoever has connected.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Hello> {
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

async fn text(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
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
    use futures_util::FutureExt;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// What comes of it where nothing follows, and what is left.
    fn whole(mut bytes: &[u8]) -> (io::Result<Hello>, usize) {
        let read = read(&mut bytes).now_or_never().expect("bytes that are there are not waited for");
        (read, bytes.len())
    }

    proptest! {
        #[test]
        fn a_hello_is_read_as_it_was_said(
            // Nobody is so many threads that it would say 255.
            byte in 0..255_u8,
            address in "[a-z0-9.:é]{0,200}",
            behind in vec(any::<u8>(), 0..9),
        ) {
            let hello = Hello { lane: Lane::of(byte), address: address.as_str().into() };
            let mut bytes = hello.encode();
            for end in 0..bytes.len() {
                prop_assert_eq!(whole(&bytes[..end]).0.expect_err("half of it").kind(), io::ErrorKind::UnexpectedEof);
            }
            bytes.extend_from_slice(&behind);
            let (read, left) = whole(&bytes);
            prop_assert_eq!((read.expect("a hello"), left), (hello, behind.len()), "and frames behind it are left");
        }

        #[test]
        fn any_bytes_are_a_hello_or_refused(known in 0..=8_usize, bytes in vec(any::<u8>(), 0..2000)) {
            // The beginning of a true one, so that each field has its turn.
            let mut start = Hello { lane: Lane::Cluster, address: "a".into() }.encode();
            start.truncate(known);
            start.extend_from_slice(&bytes);
            if let (Ok(hello), left) = whole(&start) {
                prop_assert!(known < 7 || left <= bytes.len());
                prop_assert!(hello.address.0.len() <= TEXT_MOST);
            }
        }
    }

    #[test]
    fn a_long_text_is_refused_before_it_comes() {
        let long = Hello { lane: Lane::Cluster, address: "a".repeat(TEXT_MOST + 1).as_str().into() };
        let head = &long.encode()[..MAGIC.len() + 4];
        assert_eq!(whole(head).0.expect_err("too long").kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_lane_is_found_again() {
        for lane in [Lane::Cluster, Lane::Shard(0), Lane::Bulk(0), Lane::Shard(126), Lane::Bulk(126)] {
            assert_eq!(Lane::of(lane.byte()), lane);
        }
    }
}
