//! What happened, in words, and all that changes, over one connection.

mod common;

use atoll_server::Server;
use common::{Client, Events, LONG, healthy, start};
use serde_json::Value;
use std::time::{Duration, Instant};

fn texts(events: &Value) -> Vec<String> {
    let events = events.as_array().expect("a list");
    events.iter().map(|event| event["text"].as_str().expect("a text").to_owned()).collect()
}

fn end(servers: Vec<Server>) {
    servers.into_iter().for_each(Server::kill);
}

/// The events of a story, once there is one of this kind in it that `holds`.
async fn story(client: &mut Client, kind: &str, holds: impl Fn(&Value) -> bool) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let answer = client.get("/v1/events?limit=1000").await.json();
        let events = answer.as_array().expect("a list");
        if let Some(found) = events.iter().find(|event| event["kind"] == kind && holds(event)) {
            return events.iter().filter(|event| event["story"] == found["story"]).cloned().collect();
        }
        assert!(begun.elapsed() < LONG, "no {kind}: {:#?}", texts(&answer));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_take_over_is_told_from_its_reason_to_its_pause() {
    let mut servers = start(4);
    healthy(&servers).await;
    let mut client = Client::to(servers[0].http).await;
    let founding = story(&mut client, "healthy", |_| true).await;
    assert!(founding.iter().any(|event| event["grade"] == "good"), "{founding:#?}");
    let gone = servers.pop().expect("four nodes");
    let name = gone.gateway.board().status().node.clone();
    gone.kill();
    let told = story(&mut client, "took_over", |event| !event["longest_pause_micros"].is_null()).await;
    let kinds: Vec<&str> = told.iter().filter_map(|event| event["kind"].as_str()).collect();
    assert!(kinds.starts_with(&["suspected"]), "{told:#?}");
    let took_over = told.iter().find(|event| event["kind"] == "took_over").expect("just found");
    let text = took_over["text"].as_str().expect("a text");
    assert!(text.contains("took over"), "{text}");
    // Each names the one before it, back to where it began.
    let mut cause = took_over["cause"].as_u64();
    let mut chain = Vec::new();
    while let Some(id) = cause {
        let event = told.iter().find(|event| event["id"] == id).expect("of the same story");
        chain.push(event["kind"].as_str().expect("a kind").to_owned());
        cause = event["cause"].as_u64();
    }
    assert_eq!(chain.last().map(String::as_str), Some("suspected"), "{chain:?}");
    assert!(told[0]["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(|node| *node == *name)), "{told:#?}");
    // With a node to spare, the copies are made anew, and all is well again.
    let healed = story(&mut client, "healthy", |event| event["id"].as_u64() > took_over["id"].as_u64()).await;
    assert_eq!(healed[0]["story"], told[0]["story"], "{healed:#?}");
    let told = healed.iter().find(|event| event["id"] == took_over["id"]).expect("still told");
    let text = told["text"].as_str().expect("a text");
    assert!(text.contains("longest pause") && !text.contains("still to begin"), "{text}");
    let moved = healed.iter().find(|event| event["kind"] == "moved").expect("copies are made");
    assert!(moved["text"].as_str().is_some_and(|text| text.contains("made")), "{moved}");
    end(servers);
}

#[tokio::test]
async fn operators_words_and_splits_are_told() {
    let servers = start(3);
    healthy(&servers).await;
    let mut client = Client::to(servers[0].http).await;
    assert_eq!(client.post("/v1/cluster/split?bucket=0", b"").await.status, 202);
    let told = story(&mut client, "moved", |event| event["text"].as_str().is_some_and(|t| t.contains("halved"))).await;
    assert_eq!((&told[0]["kind"], &told[0]["text"]), (&"operator".into(), &"an operator halves bucket 0".into()));
    let from = told[0]["id"].as_u64().expect("an id");
    let page = client.get(&format!("/v1/events?from={from}&limit=1")).await.json();
    assert_eq!(texts(&page), ["an operator halves bucket 0"]);
    for wrong in ["limit=0", "limit=1001", "from=x", "form=1"] {
        assert_eq!(client.get(&format!("/v1/events?{wrong}")).await.status, 400, "{wrong}");
    }
    end(servers);
}

#[tokio::test]
async fn everything_that_changes_comes_over_one_connection() {
    let servers = start(3);
    healthy(&servers).await;
    let mut events = Events::open(servers[0].http, "/v1/events", None).await;
    let mut first = std::collections::BTreeMap::new();
    while first.len() < 4 {
        let event = events.next().await;
        first.entry(event.kind).or_insert(event.data);
    }
    assert_eq!(first.keys().map(String::as_str).collect::<Vec<_>>(), ["buckets", "events", "rates", "status"]);
    assert_eq!(first["status"]["healthy"], true);
    assert_eq!((&first["buckets"]["all"], first["buckets"]["rows"].as_array().map(Vec::len)), (&true.into(), Some(64)));
    assert_eq!(first["events"]["all"], true);
    let last_id = events.last_id.clone();
    let mut client = Client::to(servers[1].http).await;
    assert_eq!(client.post("/v1/cluster/split?bucket=0", b"").await.status, 202);
    loop {
        let event = events.next().await;
        if event.kind == "buckets"
            && event.data["rows"].as_array().is_some_and(|rows| rows.iter().any(|row| row[0] == 128))
        {
            assert_eq!(event.data["all"], false);
            break;
        }
    }
    // Whoever comes back is told what is new to him; whoever was never here, or in another life, everything.
    let mut resumed = Events::open(servers[0].http, "/v1/events?only=events", Some(&last_id)).await;
    let new = resumed.next().await;
    assert_eq!((&new.kind[..], &new.data["all"]), ("events", &false.into()));
    assert!(texts(&new.data["events"]).contains(&"an operator halves bucket 0".to_owned()), "{new:?}");
    let mut stranger = Events::open(servers[0].http, "/v1/events?only=events", Some("0-1")).await;
    assert_eq!(stranger.next().await.data["all"], true);
    end(servers);
}

#[tokio::test]
async fn what_was_done_is_told_of_every_node_second_by_second() {
    let servers = start(3);
    healthy(&servers).await;
    let mut one = Client::to(servers[0].http).await;
    let mut other = Client::to(servers[1].http).await;
    let begun = Instant::now();
    loop {
        for key in 0..20 {
            assert_eq!(one.put(&format!("/v1/kv/{key}"), b"x").await.status, 200);
            assert_eq!(one.get(&format!("/v1/kv/{key}")).await.status, 200);
        }
        let rates = other.get("/v1/cluster/rates?last=5").await.json();
        let of =
            |name: &str| rates["nodes"].as_array()?.iter().find(|node| node["name"] == name)?["seconds"].as_array();
        let busy = of("n1").and_then(|seconds| {
            seconds.iter().find(|second| second["writes"].as_u64() > Some(0) && second["reads"].as_u64() > Some(0))
        });
        let all = rates["cluster"].as_array().expect("a list");
        if let Some(busy) = busy.filter(|busy| all.iter().any(|second| second["second"] == busy["second"])) {
            assert!(busy["p50"].as_u64() > Some(0) && busy["p99"].as_u64() >= busy["p50"].as_u64(), "{busy}");
            assert!(of("n2").is_some() && of("n3").is_some(), "{rates}");
            break;
        }
        assert!(begun.elapsed() < LONG, "nothing is counted: {rates}");
    }
    assert_eq!(other.get("/v1/cluster/rates?last=0").await.status, 400);
    end(servers);
}

#[tokio::test]
async fn pages_of_others_change_nothing() {
    let servers = start(1);
    healthy(&servers).await;
    let mut client = Client::to(servers[0].http).await;
    for headers in [[("Sec-Fetch-Site", "cross-site")], [("Origin", "http://elsewhere.example")]] {
        for (method, path) in [("PUT", "/v1/kv/key"), ("POST", "/v1/cluster/split"), ("DELETE", "/v1/kv/key")] {
            let refused = client.ask(method, path, &headers, b"").await;
            assert_eq!((refused.status, refused.code()), (403, "cross_origin".to_owned()), "{method} {path}");
        }
        assert_eq!(client.ask("GET", "/v1/cluster", &headers, b"").await.status, 200);
    }
    let ours = client.ask("PUT", "/v1/kv/key", &[("Origin", "http://test"), ("Sec-Fetch-Site", "same-origin")], b"1");
    assert_eq!(ours.await.status, 200);
    end(servers);
}
