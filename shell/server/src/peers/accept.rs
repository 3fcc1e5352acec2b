//! Connections of other nodes: greeted here, then handed to the thread they are for.

use super::hello::{self, Hello, Lane};
use crate::refused::{Refused, Why};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

/// Connections that have not said hello. More than that are left waiting by the operating system.
const STRANGERS_MOST: usize = 256;
/// How long a stranger may take to say hello.
const HELLO: Duration = Duration::from_secs(5);

/// Connections that were greeted. A node has one for each thread of each peer and for its snapshots: a thousand nodes
/// come to less.
pub(crate) const PEERS_MOST: usize = 16 * 1024;

/// A connection that was greeted, not yet of any runtime.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) stream: std::net::TcpStream,
    pub(crate) hello: Hello,
    /// Free again when the connection ends.
    _place: OwnedSemaphorePermit,
}

/// Takes connections for as long as the node runs. `shards`: who reads for which shard. `most`: how many are greeted.
pub(crate) async fn accept(
    listener: TcpListener,
    cluster: mpsc::UnboundedSender<Accepted>,
    shards: Vec<mpsc::UnboundedSender<Accepted>>,
    refused: Arc<Refused>,
    most: usize,
) {
    let peers = Arc::new(Semaphore::new(most));
    let strangers = Arc::new(Semaphore::new(STRANGERS_MOST));
    loop {
        let Ok(place) = strangers.clone().acquire_owned().await else { return };
        let mut stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely: that passes, and a loop without a pause would not help it to.
                warn!(%error, "a connection of a peer could not be taken");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (cluster, shards, refused, peers) = (cluster.clone(), shards.clone(), refused.clone(), peers.clone());
        spawn_local(async move {
            match greet(&mut stream, peers).await {
                Ok((hello, place)) => hand_over(stream, hello, place, &cluster, &shards),
                Err(reason) => {
                    refused.count(Why::PeerHello);
                    debug!(reason, "a stranger on the peer port");
                    hello::refuse(&mut stream, &reason).await;
                }
            }
            // Also while it is told why not: strangers are few at a time.
            drop(place);
        });
    }
}

/// Its hello, and its place among the peers. `Err`: why it has none.
async fn greet(stream: &mut TcpStream, peers: Arc<Semaphore>) -> Result<(Hello, OwnedSemaphorePermit), String> {
    let hello = match timeout(HELLO, hello::read(stream)).await {
        Ok(hello) => hello.map_err(|error| error.to_string())?,
        Err(_) => return Err("a hello takes too long here".to_owned()),
    };
    let place = peers.try_acquire_owned().map_err(|_| "this node has too many peers already".to_owned())?;
    hello::welcome(stream).await.map_err(|error| error.to_string())?;
    Ok((hello, place))
}

fn hand_over(
    stream: TcpStream,
    hello: Hello,
    place: OwnedSemaphorePermit,
    cluster: &mpsc::UnboundedSender<Accepted>,
    shards: &[mpsc::UnboundedSender<Accepted>],
) {
    let to = match hello.lane {
        Lane::Cluster => cluster,
        // A peer may have more shards than this node.
        Lane::Shard(index) | Lane::Bulk(index) => &shards[usize::from(index) % shards.len()],
    };
    if let Ok(stream) = stream.into_std() {
        // The thread is gone only when the node stops.
        let _ = to.send(Accepted { stream, hello, _place: place });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{frame, read};
    use crate::switch::{Switch, WAITING_BYTES_MOST};
    use atoll_node::shard::message::ShardMessage;
    use atoll_node::{Envelope, Message};
    use atoll_replica::message::{Body, Piece};
    use atoll_types::{BucketId, ClusterId, Cookie, Epoch, Generation, Incarnation, Mark, NodeId};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::LocalSet;

    const HELLO_OF_A: &[u8] = b"ATOLLP\x01\x00\x01\x00a\x00\x00";

    async fn first_byte(address: std::net::SocketAddr) -> (TcpStream, u8) {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(HELLO_OF_A).await.expect("it listens");
        let first = stream.read_u8().await.expect("an answer");
        (stream, first)
    }

    #[tokio::test]
    async fn one_peer_too_many_is_told_and_a_place_is_free_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (cluster, mut incoming) = mpsc::unbounded_channel();
        let refused = Arc::new(Refused::default());
        let test = async {
            spawn_local(accept(listener, cluster, Vec::new(), refused.clone(), 1));
            let (_first, welcomed) = first_byte(address).await;
            let held = incoming.recv().await.expect("a connection");
            let (mut second, turned_away) = first_byte(address).await;
            assert_eq!((welcomed, turned_away), (0, 1));
            let mut reason = String::new();
            let _ = second.read_u16_le().await;
            second.read_to_string(&mut reason).await.expect("a reason");
            assert!(reason.contains("too many peers"), "{reason}");
            assert_eq!(refused.so_far(Why::PeerHello), 1);
            drop(held);
            assert_eq!(first_byte(address).await.1, 0);
        };
        LocalSet::new().run_until(test).await;
    }

    fn piece(bytes: usize) -> Vec<u8> {
        let piece = Piece { mark: Mark::default(), length: 0, checksum: 0, at: 0, bytes: vec![0; bytes].into() };
        let message = atoll_replica::Message { bucket: BucketId(0), epoch: Epoch::ZERO, body: Body::Piece(piece) };
        let envelope = Envelope {
            cluster: ClusterId(1),
            generation: Generation::default(),
            from: NodeId(1),
            incarnation: Incarnation::default(),
            to: NodeId(2),
            to_cookie: Cookie(2),
            message: Message::Shard(ShardMessage::Replicas(vec![message])),
        };
        let mut frame = Vec::new();
        assert!(frame::append(&envelope, &mut frame));
        frame
    }

    #[tokio::test]
    async fn what_waits_for_a_thread_is_bounded_in_memory_and_nothing_is_lost() {
        const FRAME: usize = 8 * 1024 * 1024;
        const FRAMES: usize = 3 * WAITING_BYTES_MOST / FRAME;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (cluster, mut incoming) = mpsc::unbounded_channel();
        let (switch, refused) = (Arc::new(Switch::new(1)), Arc::new(Refused::default()));
        let test = async {
            spawn_local(accept(listener, cluster, Vec::new(), refused.clone(), 1));
            let (mut stream, _) = first_byte(address).await;
            spawn_local(read(incoming.recv().await.expect("a connection"), switch.clone(), None, refused.clone()));
            let frame = piece(FRAME);
            spawn_local(async move {
                for _ in 0..FRAMES {
                    stream.write_all(&frame).await.expect("a reader");
                }
                // Closed with its welcome unread, it would take back what is on its way.
                std::future::pending::<()>().await;
            });
            let (mut batch, mut taken, mut most) = (Vec::new(), 0, 0);
            while taken < FRAMES {
                // As much as there ever is, unless it is all.
                while !switch.is_full() && switch.shards[0].load().0 < FRAMES - taken {
                    sleep(Duration::from_millis(1)).await;
                }
                most = most.max(switch.shards[0].load().1);
                switch.shards[0].take(&mut batch);
                taken += batch.drain(..).count();
            }
            assert!(most > WAITING_BYTES_MOST && most <= WAITING_BYTES_MOST + 2 * FRAME, "{most} bytes");
        };
        LocalSet::new().run_until(test).await;
    }
}
