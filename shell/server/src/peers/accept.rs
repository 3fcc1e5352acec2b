//! Connections of other nodes: greeted here, then handed to the thread they are for.

use super::hello::{self, Hello, Lane};
use crate::refused::{Refused, Why};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

/// Connections that have not said hello. More than that are left waiting by the operating system.
const STRANGERS_MOST: usize = 256;
/// How long a stranger may take to say hello.
const HELLO: Duration = Duration::from_secs(5);

/// A connection that was greeted, not yet of any runtime.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) stream: std::net::TcpStream,
    pub(crate) hello: Hello,
}

/// Takes connections for as long as the node runs. `shards`: who reads for which shard.
pub(crate) async fn accept(
    listener: TcpListener,
    cluster: mpsc::UnboundedSender<Accepted>,
    shards: Vec<mpsc::UnboundedSender<Accepted>>,
    refused: Arc<Refused>,
) {
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
        let (cluster, shards, refused) = (cluster.clone(), shards.clone(), refused.clone());
        spawn_local(async move {
            let greeted = timeout(HELLO, hello::welcome(&mut stream)).await;
            drop(place);
            match greeted {
                Ok(Ok(hello)) => hand_over(stream, hello, &cluster, &shards),
                Ok(Err(error)) => {
                    refused.count(Why::PeerHello);
                    debug!(%error, "a stranger on the peer port");
                }
                Err(_) => refused.count(Why::PeerHello),
            }
        });
    }
}

fn hand_over(
    stream: TcpStream,
    hello: Hello,
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
        let _ = to.send(Accepted { stream, hello });
    }
}
