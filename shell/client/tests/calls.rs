//! Every call, against three nodes in this process.

mod common;

use atoll_client::{Client, Condition, Error, From, Put, Reason, Seen, Settings, StreamOffset, Tailed};
use common::{addresses, healthy, kill_all, start, start_with};
use std::time::{Duration, Instant};
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_and_values() {
    let servers = start(3);
    let client = Client::connect(addresses(&servers)).await.expect("a node");
    assert_eq!(client.get("a").await.expect("an answer"), None);
    let first = client.put("a", "1").await.expect("done");
    let found = client.get("a").await.expect("an answer").expect("it was put");
    assert_eq!((found.bytes.as_slice(), Some(found.version), found.expires), (&b"1"[..], first.version, None));
    assert!(found.position >= first.position && !first.duplicate);

    let second = client.cas("a", first.version, "2").await.expect("the version is right");
    assert_eq!(client.cas("a", first.version, "3").await, Err(Error::Condition { version: second.version }));
    assert_eq!(client.cas("a", None, "3").await, Err(Error::Condition { version: second.version }));
    client.cas("b", None, "new").await.expect("it is absent");
    let present = Put { condition: Condition::Present, ..Put::default() };
    assert_eq!(client.put_with("c", "x", present).await, Err(Error::Condition { version: None }));

    let short = Put { ttl: Some(Duration::from_millis(50)), ..Put::default() };
    client.put_with("gone", "soon", short).await.expect("done");
    let begun = Instant::now();
    while client.get("gone").await.expect("an answer").is_some() {
        assert!(begun.elapsed() < common::LONG, "never gone");
    }

    assert_eq!(client.incr("n", 5).await, Ok(5));
    assert_eq!(client.incr("n", -7).await, Ok(-2));
    assert_eq!(client.incr("a", i64::MAX).await, Err(Error::NotANumber));
    client.put("word", "word").await.expect("done");
    assert_eq!(client.incr("word", 1).await, Err(Error::NotANumber));

    assert_eq!(client.del("a").await, Ok(true));
    assert_eq!(client.del("a").await, Ok(false));
    let stale = client.get_stale("b", Some(client.get("b").await.expect("an answer").expect("b").position)).await;
    assert_eq!(stale.expect("an answer").expect("b").bytes, b"new");

    let large = vec![7; 2 << 20];
    let refused = client.put("large", &large[..(1 << 20) + 1]).await;
    assert!(matches!(refused, Err(Error::Refused { reason: Reason::TooLarge, .. })), "{refused:?}");
    client.put("large", &large[..1 << 20]).await.expect("as large as allowed");
    assert_eq!(client.get("large").await.expect("an answer").expect("it was put").bytes.len(), 1 << 20);
    kill_all(servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_go_over_all_buckets_in_order() {
    let servers = start(3);
    let client = Client::connect(addresses(&servers)).await.expect("a node");
    let mut keys: Vec<Vec<u8>> = (0..150).map(|number| format!("key {number:03}").into_bytes()).collect();
    for key in &keys {
        client.put(key, b"value").await.expect("done");
    }
    client.put("other", "thing").await.expect("done");
    keys.sort();
    let mut found = Vec::new();
    let mut after: Option<Vec<u8>> = None;
    let mut pages = 0;
    loop {
        let page = client.scan("key ", after.as_deref(), 40).await.expect("a page");
        assert!(page.found.len() <= 40 && page.found.iter().all(|(_, value)| value.bytes == b"value"));
        found.extend(page.found.into_iter().map(|(key, _)| key));
        pages += 1;
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(found, keys);
    assert!((4..=5).contains(&pages), "{pages} pages");
    kill_all(servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams() {
    let servers = start(3);
    let client = Client::connect(addresses(&servers)).await.expect("a node");
    assert_eq!(client.read_stream("s", None, 10).await.expect("an answer").next, None);
    let mut tail = client.tail("s", From::Now);
    let waiting = timeout(Duration::from_millis(200), tail.next()).await;
    assert!(waiting.is_err(), "there is nothing yet");
    for number in 1..=5_u64 {
        let published = client.publish("s", number.to_string()).await.expect("done");
        assert_eq!(published.offset, StreamOffset(number));
    }
    for number in 1..=5_u64 {
        let Ok(Tailed::Message(message)) = tail.next().await else { panic!("no message {number}") };
        assert_eq!((message.offset, message.payload), (StreamOffset(number), number.to_string().into_bytes()));
    }
    assert_eq!(tail.next_offset(), Some(StreamOffset(6)));
    let read = client.read_stream("s", Some(StreamOffset(2)), 3).await.expect("messages");
    assert_eq!(read.messages.iter().map(|message| message.offset.0).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(read.next, Some(StreamOffset(5)));
    let mut all = client.tail("s", From::Oldest);
    let mut some = client.tail("s", From::Offset(StreamOffset(4)));
    let Ok(Tailed::Message(first)) = all.next().await else { panic!("no message") };
    let Ok(Tailed::Message(fourth)) = some.next().await else { panic!("no message") };
    assert_eq!((first.offset, fourth.offset), (StreamOffset(1), StreamOffset(4)));
    kill_all(servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_tells_what_is_there_and_what_comes() {
    let servers = start(3);
    let client = Client::connect(addresses(&servers)).await.expect("a node");
    let mut watch = client.watch("w");
    assert_eq!(watch.next().await, Ok(Seen::Now(None)));
    for text in ["one", "two", "three"] {
        client.put("w", text).await.expect("done");
        // Others in the same bucket are none of its business.
        client.put("{w}other", text).await.expect("done");
        let Ok(Seen::Now(Some(value))) = watch.next().await else { panic!("no {text}") };
        assert_eq!(value.bytes, text.as_bytes());
    }
    client.del("w").await.expect("done");
    assert_eq!(watch.next().await, Ok(Seen::Now(None)));
    let position = watch.position();
    let quiet = timeout(Duration::from_millis(200), watch.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    // More changes of the bucket than are kept: whoever comes back later is told so.
    for number in 0..1100 {
        client.put("{w}other", number.to_string()).await.expect("done");
    }
    client.put("w", "late").await.expect("done");
    let mut later = client.watch_from("w", position);
    let Ok(Seen::Reset(Some(value))) = later.next().await else { panic!("no reset") };
    assert_eq!(value.bytes, b"late");
    kill_all(servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_followed_by_the_next_before_it_is_forgotten() {
    let servers = start_with(3, |mut settings| {
        settings.timing.session_idle = Duration::from_millis(400);
        settings
    });
    healthy(&servers).await;
    let client = Client::connect(addresses(&servers)).await.expect("a node");
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < Duration::from_millis(1500) {
        // Always another bucket, most of which have never heard of the session.
        count += 1;
        assert_eq!(client.incr(format!("key {}", count % 200), 1).await, Ok((count - 1) / 200 + 1), "{count}");
    }
    kill_all(servers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_there_is_said_in_time() {
    let settings = Settings { deadline: Duration::from_millis(300), ..Settings::default() };
    let nobody = Client::connect_with([common::ports::free_address().to_string()], settings.clone()).await;
    assert!(matches!(nobody, Err(Error::Unreachable { .. })), "{nobody:?}");
    let none = Client::connect_with(Vec::<String>::new(), settings).await;
    assert!(matches!(none, Err(Error::Unreachable { .. })), "{none:?}");
}
