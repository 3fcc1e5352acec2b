//! A node dies while clients write and read: nothing acknowledged is lost, nothing counts twice.

mod common;

use atoll_client::{Client, Error, From, Tailed};
use common::{addresses, kill, kill_all, start, steady};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::task::JoinSet;

const WRITERS: usize = 64;
const COUNTERS: usize = 16;
const BEFORE: i64 = 3000;
const EACH_AFTER: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn increments_count_once_while_a_node_dies() {
    let mut servers = start(3);
    steady(&servers).await;
    let client = Client::connect(addresses(&servers)).await.expect("a node");
    let acknowledged: Arc<Vec<AtomicI64>> = Arc::new((0..COUNTERS).map(|_| AtomicI64::new(0)).collect());
    let total =
        |acknowledged: &[AtomicI64]| acknowledged.iter().map(|count| count.load(Ordering::Relaxed)).sum::<i64>();
    let killed = Arc::new(AtomicI64::new(0));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (client, acknowledged, killed) = (client.clone(), acknowledged.clone(), killed.clone());
        writers.spawn(async move {
            let (mut number, mut after) = (writer, 0);
            while after < EACH_AFTER {
                let dead = killed.load(Ordering::Relaxed) == 1;
                client.incr(format!("counter {}", number % COUNTERS), 1).await?;
                acknowledged[number % COUNTERS].fetch_add(1, Ordering::Relaxed);
                number += 1;
                after += usize::from(dead);
            }
            Ok::<(), Error>(())
        });
    }
    common::until("under way", || total(&acknowledged) >= BEFORE).await;
    kill(servers.remove(1)).await;
    killed.store(1, Ordering::Relaxed);
    for written in writers.join_all().await {
        written.expect("every write is acknowledged");
    }
    for (number, count) in acknowledged.iter().enumerate() {
        let counted = client.incr(format!("counter {number}"), 0).await;
        assert_eq!(counted, Ok(count.load(Ordering::Relaxed)), "counter {number}");
    }
    kill_all(servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_sees_every_message_once_and_in_order_while_a_node_dies() {
    const MESSAGES: u64 = 400;
    let mut servers = start(3);
    steady(&servers).await;
    let client = Client::connect(addresses(&servers)).await.expect("a node");
    let mut tails = JoinSet::new();
    // Streams in several buckets, so that the node that dies serves some of them.
    let streams: Vec<String> = (0..6).map(|number| format!("stream {number}")).collect();
    for stream in &streams {
        let mut tail = client.tail(stream, From::Oldest);
        tails.spawn(async move {
            for number in 1..=MESSAGES {
                match tail.next().await? {
                    Tailed::Message(message) => {
                        assert_eq!((message.offset.0, message.payload), (number, number.to_string().into_bytes()));
                    }
                    Tailed::Reset { oldest } => panic!("a reset to {oldest}"),
                }
            }
            Ok::<(), Error>(())
        });
    }
    let published = Arc::new(AtomicI64::new(0));
    let mut publishers = JoinSet::new();
    for stream in streams {
        let (client, published) = (client.clone(), published.clone());
        publishers.spawn(async move {
            for number in 1..=MESSAGES {
                let done = client.publish(&stream, number.to_string()).await?;
                assert_eq!(done.offset.0, number, "published once");
                published.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), Error>(())
        });
    }
    common::until("under way", || published.load(Ordering::Relaxed) >= 300).await;
    kill(servers.remove(0)).await;
    for done in publishers.join_all().await {
        done.expect("every message is acknowledged");
    }
    for done in tails.join_all().await {
        done.expect("every message is seen");
    }
    kill_all(servers).await;
}
