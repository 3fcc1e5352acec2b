//! The examples do what they say.

mod common;

#[path = "../examples/exactly_once_counter.rs"]
mod exactly_once_counter;
#[path = "../examples/quick_start.rs"]
mod quick_start;
#[path = "../examples/stream_tail.rs"]
mod stream_tail;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn examples_run() {
    let servers = common::start(3);
    let addresses = common::addresses(&servers);
    // Without waiting for the cluster: that is the client's business.
    quick_start::run(addresses.clone()).await.expect("the quick start");
    let (counted, expected) = exactly_once_counter::run(addresses.clone()).await.expect("the counter");
    assert_eq!(counted, expected);
    let read = stream_tail::run(addresses).await.expect("the tail");
    assert_eq!((read.len(), read[0].as_str(), read[19].as_str()), (20, "let us begin", "message 19"));
    common::kill_all(servers).await;
}
