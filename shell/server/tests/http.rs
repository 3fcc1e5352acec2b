//! The HTTP listener, as a client sees it.

mod common;

use atoll_server::{Server, Why};
use common::{Client, Events, LONG, Response, healthy, start, start_with, until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

async fn cluster() -> Vec<Server> {
    let servers = start(3);
    healthy(&servers).await;
    servers
}

fn end(servers: Vec<Server>) {
    servers.into_iter().for_each(Server::kill);
}

fn is_position(text: Option<&str>) -> bool {
    text.is_some_and(|text| text.parse::<atoll_types::Position>().is_ok())
}

#[tokio::test]
async fn a_key_is_written_read_and_deleted_on_any_node() {
    let servers = cluster().await;
    let (mut one, mut other) = (Client::to(servers[0].http).await, Client::to(servers[1].http).await);
    let put = one.put("/v1/kv/greeting", b"hello").await;
    assert_eq!(put.status, 200, "{put:?}");
    let tag = put.json()["etag"].as_str().expect("a tag").to_owned();
    assert_eq!(put.header("etag"), Some(&tag[..]));
    assert_eq!(put.header("atoll-position"), put.json()["position"].as_str());
    assert!(is_position(put.header("atoll-position")));
    let got = other.get("/v1/kv/greeting").await;
    assert_eq!((got.status, &got.body[..], got.header("etag")), (200, &b"hello"[..], Some(&tag[..])));
    assert!(is_position(got.header("atoll-position")));
    let same = other.ask("GET", "/v1/kv/greeting", &[("If-None-Match", &tag)], b"").await;
    assert_eq!(same.status, 304);
    let deleted = one.delete("/v1/kv/greeting").await;
    assert_eq!(deleted.status, 200);
    let gone = other.get("/v1/kv/greeting").await;
    assert_eq!((gone.status, gone.code()), (404, "not_found".to_owned()));
    assert!(is_position(gone.header("atoll-position")));
    assert_eq!(one.delete("/v1/kv/greeting").await.status, 404);
    let again = one.put("/v1/kv/greeting", b"hello").await;
    assert_ne!(again.json()["etag"].as_str(), Some(&tag[..]), "a tag is of one value only");
    end(servers);
}

#[tokio::test]
async fn keys_are_any_bytes() {
    let servers = cluster().await;
    let mut client = Client::to(servers[0].http).await;
    for path in ["a%2Fb", "%FF%00%fe", "%20", "a/b/c", "%25", "a+b", "%E2%82%AC", "."] {
        let put = client.put(&format!("/v1/kv/{path}"), path.as_bytes()).await;
        assert_eq!(put.status, 200, "{path}: {put:?}");
        let got = client.get(&format!("/v1/kv/{path}")).await;
        assert_eq!((got.status, &got.body[..]), (200, path.as_bytes()), "{path}");
    }
    assert_eq!(client.get("/v1/kv/a%2Fb%2fc").await.body, b"a/b/c");
    let scanned = client.get("/v1/kv").await.json();
    let keys: Vec<&str> =
        scanned["keys"].as_array().expect("keys").iter().filter_map(|row| row["key"].as_str()).collect();
    assert_eq!(keys, ["%20", "%25", ".", "a%2Bb", "a%2Fb", "a%2Fb%2Fc", "%E2%82%AC", "%FF%00%FE"]);
    for path in ["/v1/kv/%", "/v1/kv/%1", "/v1/kv/%zz"] {
        let bad = client.get(path).await;
        assert_eq!((bad.status, bad.code()), (400, "bad_encoding".to_owned()));
    }
    end(servers);
}

#[tokio::test]
async fn conditions_and_time_to_live() {
    let servers = cluster().await;
    let mut client = Client::to(servers[2].http).await;
    let first = client.ask("PUT", "/v1/kv/lock", &[("If-None-Match", "*")], b"mine").await;
    assert_eq!(first.status, 200);
    let tag = first.header("etag").expect("a tag").to_owned();
    let second = client.ask("PUT", "/v1/kv/lock", &[("If-None-Match", "*")], b"yours").await;
    assert_eq!((second.status, second.code()), (412, "condition_failed".to_owned()));
    assert_eq!(second.header("etag"), Some(&tag[..]));
    assert_eq!(client.ask("PUT", "/v1/kv/lock", &[("If-Match", "\"ffff\"")], b"yours").await.status, 412);
    assert_eq!(client.ask("DELETE", "/v1/kv/lock", &[("If-Match", "\"ffff\"")], b"").await.status, 412);
    let swapped = client.ask("PUT", "/v1/kv/lock", &[("If-Match", &tag)], b"still mine").await;
    assert_eq!(swapped.status, 200);
    assert_eq!(client.ask("PUT", "/v1/kv/lock", &[("If-Match", &tag)], b"late").await.status, 412);
    let bare = swapped.header("etag").expect("a tag").trim_matches('"').to_owned();
    assert_eq!(client.ask("PUT", "/v1/kv/lock", &[("If-Match", &bare)], b"bare").await.status, 200);
    assert_eq!(client.ask("DELETE", "/v1/kv/lock", &[("If-Match", "*")], b"").await.status, 200);
    assert_eq!(client.ask("PUT", "/v1/kv/lock", &[("If-Match", "*")], b"x").await.status, 412);
    for headers in [[("If-Match", "W/\"1\"")], [("If-Match", "\"1\", \"2\"")], [("If-None-Match", "\"1\"")]] {
        assert_eq!(client.ask("PUT", "/v1/kv/lock", &headers, b"x").await.status, 400, "{headers:?}");
    }
    for ttl in ["0", "-1", "x", "NaN", "inf", "1e30", ""] {
        assert_eq!(client.put(&format!("/v1/kv/short?ttl={ttl}"), b"x").await.status, 400, "{ttl}");
    }
    assert_eq!(client.put("/v1/kv/short?tll=5", b"x").await.code(), "unknown_parameter");
    assert_eq!(client.put("/v1/kv/short?ttl=0.2", b"x").await.status, 200);
    let begun = Instant::now();
    while client.get("/v1/kv/short").await.status != 404 {
        assert!(begun.elapsed() < LONG, "it stays for ever");
    }
    assert!(begun.elapsed() > Duration::from_millis(100), "gone too early");
    end(servers);
}

#[tokio::test]
async fn a_write_with_a_number_counts_once() {
    let servers = cluster().await;
    let (mut one, mut other) = (Client::to(servers[0].http).await, Client::to(servers[1].http).await);
    let opened = one.post("/v1/sessions", b"").await;
    assert_eq!(opened.status, 201);
    let session = opened.json()["session"].as_str().expect("a session").to_owned();
    let numbered = |series: &'static str| [("Atoll-Session", session.clone()), ("Atoll-Series", series.to_owned())];
    let ask = |client: Client, method: &'static str, path: &'static str, series: &'static str, body: &'static [u8]| {
        let headers = numbered(series);
        async move {
            let mut client = client;
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, &value[..])).collect();
            let answer = client.ask(method, path, &headers, body).await;
            (client, answer)
        }
    };
    let (client, first): (Client, Response) = ask(one, "POST", "/v1/streams/orders", "1", b"a").await;
    let (client_2, second) = ask(other, "POST", "/v1/streams/orders", "1", b"a").await;
    (one, other) = (client, client_2);
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(first.header("atoll-duplicate"), None);
    assert_eq!(second.header("atoll-duplicate"), Some("true"));
    assert_eq!(first.json(), second.json());
    assert_eq!(first.header("atoll-position"), second.header("atoll-position"));
    let (client, put) = ask(one, "PUT", "/v1/kv/counted", "2", b"first").await;
    let (client, _) = ask(client, "PUT", "/v1/kv/counted", "3", b"second").await;
    let (mut one, again) = ask(client, "PUT", "/v1/kv/counted", "2", b"first").await;
    assert_eq!((again.header("atoll-duplicate"), again.header("etag")), (Some("true"), put.header("etag")));
    assert_eq!(other.get("/v1/kv/counted").await.body, b"second");
    // Without a floor, a client may go on counting for as long as it likes.
    let (client, far) = ask(one, "PUT", "/v1/kv/counted", "100000", b"far").await;
    assert_eq!(far.status, 200);
    let (client, below) = ask(client, "PUT", "/v1/kv/counted", "4", b"below").await;
    assert_eq!((below.status, below.code()), (409, "below_floor".to_owned()));
    one = client;
    let wrong: [&[(&str, &str)]; 4] = [
        &[("Atoll-Session", &session)],
        &[("Atoll-Series", "1")],
        &[("Atoll-Session", "nonsense"), ("Atoll-Series", "1")],
        &[("Atoll-Session", &session), ("Atoll-Series", "-1")],
    ];
    for headers in wrong {
        assert_eq!(one.ask("PUT", "/v1/kv/counted", headers, b"x").await.status, 400, "{headers:?}");
    }
    let old: &[(&str, &str)] = &[("Atoll-Session", "1-0000000000000001"), ("Atoll-Series", "1")];
    let expired = one.ask("PUT", "/v1/kv/counted", old, b"x").await;
    assert!(expired.status == 410 || expired.status == 200, "{expired:?}");
    end(servers);
}

#[tokio::test]
async fn stale_reads_wait_for_a_position() {
    let servers = cluster().await;
    let (mut one, mut other) = (Client::to(servers[0].http).await, Client::to(servers[2].http).await);
    for number in 0..20 {
        let put = one.put("/v1/kv/fresh", number.to_string().as_bytes()).await;
        let after = put.header("atoll-position").expect("a position").to_owned();
        let begun = Instant::now();
        let got = loop {
            let got = other.ask("GET", "/v1/kv/fresh?consistency=stale", &[("Atoll-After", &after)], b"").await;
            if got.status != 503 {
                break got;
            }
            assert_eq!((got.code(), got.header("retry-after")), ("too_stale".to_owned(), Some("1")));
            assert!(begun.elapsed() < LONG, "never fresh");
        };
        assert_eq!(got.body, number.to_string().as_bytes());
    }
    assert_eq!(other.get("/v1/kv/fresh?consistency=stale").await.status, 200);
    assert_eq!(other.get("/v1/kv/fresh?consistency=sometimes").await.status, 400);
    assert_eq!(other.ask("GET", "/v1/kv/fresh?consistency=stale", &[("Atoll-After", "x")], b"").await.status, 400);
    assert_eq!(other.ask("GET", "/v1/kv/fresh", &[("Atoll-After", "0/1/1")], b"").await.status, 400);
    end(servers);
}

#[tokio::test]
async fn a_scan_is_in_order_over_all_buckets() {
    let servers = cluster().await;
    let mut client = Client::to(servers[0].http).await;
    for number in (0..300).rev() {
        let key = format!("item:{number:03}");
        assert_eq!(client.put(&format!("/v1/kv/{key}"), key.as_bytes()).await.status, 200);
    }
    assert_eq!(client.put("/v1/kv/other", b"other").await.status, 200);
    let mut keys = Vec::new();
    let mut after = String::new();
    loop {
        let page = client.get(&format!("/v1/kv?prefix=item:&limit=37{after}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        assert!(page.header("atoll-position").is_some_and(|all| all.split(", ").all(|one| is_position(Some(one)))));
        let page = page.json();
        keys.extend(
            page["keys"].as_array().expect("keys").iter().map(|row| row["key"].as_str().expect("a key").to_owned()),
        );
        let Value::String(last) = &page["after"] else { break };
        after = format!("&after={last}");
    }
    assert_eq!(keys, (0..300).map(|number| format!("item:{number:03}")).collect::<Vec<_>>());
    let page = client.get("/v1/kv?prefix=item:29&values=true&limit=3").await.json();
    assert_eq!(page["keys"][2]["value"], "item:292");
    assert_eq!(page["after"], "item:292");
    let split = client.post("/v1/cluster/split", b"").await;
    assert_eq!(split.status, 202, "{split:?}");
    // While all buckets are being halved.
    let mut buckets = 0;
    while buckets < 128 {
        let page = client.get("/v1/kv?prefix=item:&limit=1000").await;
        buckets = servers[0].gateway.board().status().buckets;
        if page.status == 503 {
            continue;
        }
        assert_eq!(page.json()["keys"].as_array().map(Vec::len), Some(300), "at {buckets} buckets");
    }
    for bad in ["limit=0", "limit=1001", "limit=x", "values=perhaps", "prefix=%", "unknown=1"] {
        assert_eq!(client.get(&format!("/v1/kv?{bad}")).await.status, 400, "{bad}");
    }
    end(servers);
}

#[tokio::test]
async fn a_watch_sees_changes_and_resumes() {
    let servers = cluster().await;
    let mut client = Client::to(servers[0].http).await;
    client.put("/v1/kv/watched", b"before").await;
    let mut watch = Events::open(servers[1].http, "/v1/kv/watched", None).await;
    assert!(is_position(watch.head.header("atoll-position")));
    let put = client.put("/v1/kv/watched", b"one").await;
    let event = watch.next().await;
    assert_eq!((&event.kind[..], &event.data), ("put", &json!({"etag": put.json()["etag"], "value": "one"})));
    let last = event.id;
    drop(watch);
    client.delete("/v1/kv/watched").await;
    client.put("/v1/kv/watched", b"\xff").await;
    let mut watch = Events::open(servers[2].http, "/v1/kv/watched", Some(&last)).await;
    let deleted = watch.next().await;
    assert_eq!((&deleted.kind[..], &deleted.data), ("delete", &json!({"expired": false})));
    let event = watch.next().await;
    assert_eq!((&event.kind[..], &event.data["value_base64"]), ("put", &json!("/w==")));
    client.put("/v1/kv/watched?ttl=0.1", b"short").await;
    assert_eq!(watch.next().await.data["value"], "short");
    let expired = watch.next().await;
    assert_eq!((&expired.kind[..], &expired.data), ("delete", &json!({"expired": true})));
    let mut ahead = Events::open(servers[0].http, "/v1/kv/watched", Some("999999999")).await;
    let reset = ahead.next().await;
    assert_eq!((&reset.kind[..], &reset.data), ("reset", &json!({"value": null})));
    let bad = client.ask("GET", "/v1/kv/w", &[("Accept", "text/event-stream"), ("Last-Event-ID", "x")], b"").await;
    assert_eq!(bad.status, 400);
    end(servers);
}

#[tokio::test]
async fn a_watch_that_was_away_too_long_is_reset() {
    let servers = cluster().await;
    let mut client = Client::to(servers[0].http).await;
    client.put("/v1/kv/{tag}watched", b"old").await;
    let mut watch = Events::open(servers[0].http, "/v1/kv/{tag}watched", None).await;
    client.put("/v1/kv/{tag}watched", b"older").await;
    let last = watch.next().await.id;
    drop(watch);
    // More changes of the bucket than are remembered.
    for number in 0..1100 {
        client.put("/v1/kv/{tag}other", number.to_string().as_bytes()).await;
    }
    client.put("/v1/kv/{tag}watched", b"new").await;
    let mut watch = Events::open(servers[1].http, "/v1/kv/{tag}watched", Some(&last)).await;
    let reset = watch.next().await;
    assert_eq!((&reset.kind[..], &reset.data["value"]), ("reset", &json!("new")));
    client.put("/v1/kv/{tag}watched", b"newer").await;
    let event = watch.next().await;
    assert_eq!((&event.kind[..], &event.data["value"]), ("put", &json!("newer")));
    end(servers);
}

#[tokio::test]
async fn streams_are_published_read_and_tailed() {
    let servers = cluster().await;
    let (mut one, mut other) = (Client::to(servers[0].http).await, Client::to(servers[1].http).await);
    assert_eq!(one.get("/v1/streams/news").await.status, 404);
    // A tail of a stream that is still to be made.
    let mut early = Events::open(servers[2].http, "/v1/streams/news", None).await;
    for number in 1..=5_u64 {
        let published = one.post("/v1/streams/news", format!("m{number}").as_bytes()).await;
        assert_eq!((published.status, &published.json()["offset"]), (200, &json!(number)));
        assert_eq!(published.header("atoll-position"), published.json()["position"].as_str());
    }
    one.post("/v1/streams/news", b"\xff").await;
    let read = other.get("/v1/streams/news?from=2&limit=2").await;
    assert!(is_position(read.header("atoll-position")));
    let read = read.json();
    assert_eq!((&read["messages"][0]["data"], &read["messages"][1]["data"]), (&json!("m2"), &json!("m3")));
    assert_eq!((read["messages"].as_array().map(Vec::len), &read["next"]), (Some(2), &json!(4)));
    assert!(read["messages"][0]["time"].as_u64().is_some_and(|time| time > 1_600_000_000_000_000));
    let all = other.get("/v1/streams/news").await.json();
    assert_eq!(
        (all["messages"].as_array().map(Vec::len), &all["messages"][5]["data_base64"]),
        (Some(6), &json!("/w=="))
    );
    assert_eq!(other.get("/v1/streams/news?from=0").await.json()["messages"][0]["data"], "m1");
    for number in 1..=5 {
        let event = early.next().await;
        assert_eq!(
            (event.kind, event.id, &event.data["data"]),
            ("message".to_owned(), number.to_string(), &json!(format!("m{number}")))
        );
    }
    drop(early);
    let mut tail = Events::open(servers[0].http, "/v1/streams/news", Some("3")).await;
    assert_eq!(tail.next().await.data["offset"], 4);
    let mut tail = Events::open(servers[1].http, "/v1/streams/news?from=6", None).await;
    assert_eq!(tail.next().await.data["data_base64"], "/w==");
    let begun = Instant::now();
    other.post("/v1/streams/news", b"live").await;
    let live = tail.next().await;
    assert_eq!((&live.data["data"], &live.id[..]), (&json!("live"), "7"));
    assert!(begun.elapsed() < Duration::from_secs(5), "a live tail is prompt");
    let mut lost = Events::open(servers[1].http, "/v1/streams/news", Some("1000")).await;
    let reset = lost.next().await;
    assert_eq!((&reset.kind[..], &reset.data), ("reset", &json!({"oldest": 1})));
    assert_eq!(lost.next().await.data["data"], "m1");
    // A listener that goes leaves nothing behind, though nothing is sent to it.
    drop((lost, tail));
    until("let go", || servers[1].gateway.clients() == 1).await;
    end(servers);
}

#[tokio::test]
async fn the_state_of_the_cluster_is_shown() {
    let servers = cluster().await;
    let mut client = Client::to(servers[0].http).await;
    for number in 0..64 {
        client.put(&format!("/v1/kv/key{number}"), b"value").await;
    }
    let state = client.get("/v1/cluster").await.json();
    assert_eq!(
        (&state["healthy"], &state["buckets"], state["nodes"].as_array().map(Vec::len)),
        (&json!(true), &json!(64), Some(3))
    );
    for field in ["cluster_id", "table_version", "problems", "government", "moves", "alarms"] {
        assert!(!state[field].is_null(), "{field}");
    }
    let buckets = client.get("/v1/cluster/buckets").await.json();
    let buckets = buckets.as_array().expect("a list");
    assert_eq!(buckets.len(), 64);
    assert_eq!(buckets.iter().map(|bucket| bucket["keys"].as_u64().expect("a count")).sum::<u64>(), 64);
    assert!(buckets.iter().all(|bucket| bucket["offset"].is_u64() && bucket["state"] == "serving"));
    let log = client.get("/v1/cluster/log?from=1&limit=3").await.json();
    assert_eq!((log.as_array().map(Vec::len), &log[0]["slot"], &log[2]["slot"]), (Some(3), &json!(1), &json!(3)));
    assert!(log[0]["entry"].as_str().is_some_and(|entry| entry.contains("founded")), "{log}");
    assert!(log[0]["leader"].as_str().is_some_and(|leader| leader.starts_with('n')), "{log}");
    assert_eq!(client.get("/healthz").await.status, 200);
    assert_eq!(client.get("/readyz").await.status, 200);
    let metrics = String::from_utf8(client.get("/metrics").await.body).expect("text");
    assert!(metrics.contains("atoll_http_requests_total{kind=\"kv_put\",status=\"200\"} 64\n"), "{metrics}");
    assert!(metrics.contains("\natoll_healthy 1\n"), "{metrics}");
    let writes = "atoll_request_seconds_bucket{protocol=\"http\",kind=\"write\",le=\"+Inf\"} 64\n";
    assert!(metrics.contains(writes), "{metrics}");
    assert!(metrics.contains("atoll_request_seconds_count{protocol=\"resp\",kind=\"read\"} 0\n"), "{metrics}");
    assert!(metrics.lines().all(|line| line.starts_with("# ") || line.split(' ').count() == 2), "{metrics}");
    let page = client.get("/").await;
    assert!(page.status == 200 && page.header("content-type").is_some_and(|kind| kind.starts_with("text/html")));
    end(servers);
}

#[tokio::test]
async fn a_node_without_a_cluster_says_so() {
    let servers = start_with(1, |settings| settings.bootstrap = vec!["n1".to_owned(), "n2".to_owned()]);
    let mut client = Client::to(servers[0].http).await;
    assert_eq!(client.get("/healthz").await.status, 200);
    let not_ready = client.get("/readyz").await;
    assert_eq!((not_ready.status, not_ready.header("retry-after")), (503, Some("1")));
    let put = client.put("/v1/kv/key", b"value").await;
    assert_eq!((put.status, put.header("retry-after")), (503, Some("1")), "{put:?}");
    assert_eq!(client.get("/v1/kv").await.status, 503);
    assert_eq!(client.post("/v1/cluster/split", b"").await.status, 503);
    assert_eq!(client.post("/v1/cluster/split?plan=true", b"").await.status, 503);
    assert_eq!(client.get("/v1/cluster").await.json()["healthy"], false);
    end(servers);
}

#[tokio::test]
async fn operators_plan_and_do() {
    let servers = start(4);
    healthy(&servers).await;
    let mut client = Client::to(servers[0].http).await;
    let plan = client.post("/v1/cluster/nodes/n4/drain?plan=true", b"").await;
    assert_eq!(plan.status, 200, "{plan:?}");
    let moves = plan.json()["moves"].as_array().expect("moves").clone();
    assert!(moves.iter().any(|a_move| a_move["kind"] == "copy" && a_move["to"] != "n4"), "{moves:?}");
    assert_eq!(client.get("/v1/cluster").await.json()["nodes"][3]["state"], "present", "a plan does nothing");
    let halves = client.post("/v1/cluster/split?plan=true&bucket=0", b"").await.json();
    assert_eq!(halves["moves"][0], json!({"kind": "halve", "bucket": 0, "from": null, "to": null}));
    assert_eq!(client.ask("DELETE", "/v1/cluster/nodes/n4?plan=true", &[], b"").await.status, 200);
    assert_eq!(client.post("/v1/cluster/rebalance?plan=true", b"").await.status, 200);
    let taken = client.post("/v1/cluster/rebalance", b"").await;
    assert_eq!((taken.status, &taken.json()["operation"]["kind"]), (202, &json!("rebalance")));
    assert!(taken.json()["operation"]["slot"].as_u64().is_some_and(|slot| slot > 0));
    assert_eq!(client.post("/v1/cluster/nodes/n9/drain", b"").await.code(), "no_such_node");
    assert_eq!(client.post("/v1/cluster/split?bucket=1", b"").await.code(), "no_such_bucket");
    assert_eq!(client.post("/v1/cluster/buckets/0/revive?from=empty", b"").await.status, 409, "it is not lost");
    assert_eq!(client.post("/v1/cluster/buckets/0/revive", b"").await.status, 400);
    assert_eq!(client.post("/v1/cluster/buckets/x/revive?from=empty", b"").await.status, 400);
    assert_eq!(client.post("/v1/cluster/nodes/n4/drain", b"").await.status, 202);
    let gone = || {
        let status = servers[0].gateway.board().status();
        status.nodes.iter().all(|node| node.name != "n4" || node.state == "departed") && status.healthy
    };
    until("drained", gone).await;
    end(servers);
}

#[tokio::test]
async fn what_is_wrong_is_said_and_counted() {
    let servers = start_with(1, |settings| (settings.max_value, settings.slow) = (1000, Duration::from_secs(1)));
    healthy(&servers).await;
    let refused = |why| servers[0].gateway.refused().so_far(why);
    let mut client = Client::to(servers[0].http).await;
    let unknown = client.get("/v2/nothing").await;
    assert_eq!((unknown.status, unknown.code()), (404, "no_such_path".to_owned()));
    let method = client.ask("PATCH", "/v1/kv/key", &[], b"").await;
    assert_eq!((method.status, method.code()), (405, "method_not_allowed".to_owned()));
    let allowed = method.header("allow").expect("what is allowed");
    assert!(["PUT", "GET", "DELETE"].iter().all(|method| allowed.contains(method)), "{allowed}");
    assert_eq!(refused(Why::BadRequest), 2);
    assert_eq!(client.put("/v1/kv/full", &[b'x'; 1000]).await.status, 200);
    let large = client.put("/v1/kv/large", &[b'x'; 1001]).await;
    assert_eq!((large.status, large.code()), (413, "too_large".to_owned()));
    assert_eq!(client.put("/v1/kv/large", &vec![b'x'; 3_000_000]).await.status, 413);
    let expects = [("Expect", "100-continue")];
    assert_eq!(Client::to(servers[0].http).await.ask("PUT", "/v1/kv/l", &expects, &[b'x'; 1001]).await.status, 413);
    assert_eq!(refused(Why::TooLarge), 3);
    // No request at all.
    let mut nonsense = Client::to(servers[0].http).await;
    nonsense.send(b"\x00\x01\x02 nonsense\r\n\r\n").await;
    assert_eq!(nonsense.answer().await.expect("an answer").status, 400);
    // Counted when the connection ends, which may be after the answer was read.
    until("counted", || refused(Why::Malformed) == 1).await;
    // A head that does not end.
    let mut slow = Client::to(servers[0].http).await;
    slow.send(b"GET /v1/kv/key HTTP/1.1\r\nHost: t").await;
    let begun = Instant::now();
    while slow.more().await {}
    assert!(begun.elapsed() < Duration::from_secs(10));
    until("counted", || refused(Why::TooSlow) == 1).await;
    // A body that does not end.
    slow = Client::to(servers[0].http).await;
    slow.send(b"PUT /v1/kv/key HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nabc").await;
    assert_eq!(slow.answer().await.expect("an answer").status, 408);
    assert_eq!(refused(Why::TooSlow), 2);
    assert_eq!(Client::to(servers[0].http).await.get("/v1/kv/key").await.status, 404, "and nothing was written");
    end(servers);
}

#[tokio::test]
async fn one_client_too_many_is_told() {
    let servers = start_with(1, |settings| settings.max_clients = 2);
    healthy(&servers).await;
    let (mut one, mut two) = (Client::to(servers[0].http).await, Client::to(servers[0].http).await);
    assert_eq!((one.get("/healthz").await.status, two.get("/healthz").await.status), (200, 200));
    let mut three = Client::to(servers[0].http).await;
    let refused = three.answer().await.expect("an answer");
    assert_eq!((refused.status, refused.code()), (503, "too_many_clients".to_owned()));
    drop(two);
    until("let go", || servers[0].gateway.clients() == 1).await;
    assert_eq!(Client::to(servers[0].http).await.get("/healthz").await.status, 200);
    end(servers);
}

#[tokio::test]
async fn the_document_names_every_method_of_every_path() {
    let servers = start(1);
    healthy(&servers).await;
    let mut client = Client::to(servers[0].http).await;
    let document = client.get("/v1/openapi.json").await.json();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let there = path.replace("{key}", "k").replace("{name}", "x").replace("{bucket}", "y");
        for method in ["GET", "PUT", "POST", "DELETE", "PATCH"] {
            let described = methods.get(method.to_lowercase()).is_some();
            let answer = if there == "/v1/cluster/recover" && described {
                continue;
            } else {
                client.ask(method, &there, &[], b"").await
            };
            assert_eq!(answer.status != 405, described, "{method} {path}: {answer:?}");
        }
    }
    end(servers);
}
