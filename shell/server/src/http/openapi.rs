//! `GET /v1/openapi.json`: what there is, for programs. A test holds it against the table of routes.

use axum::Json;
use serde_json::{Map, Value, json};

pub(super) async fn document() -> Json<Value> {
    Json(json())
}

pub(super) fn json() -> Value {
    let mut paths = Map::new();
    for paths_of in [data(), cluster(), operations(), node()] {
        paths.extend(paths_of);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Atoll",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A partitioned, replicated atomic log with a key-value store and message streams. Any node \
                takes any request. Errors are {\"error\":{\"code\",\"message\"}}; 503: not applied, try again; 504 \
                with code unknown: it may have been applied, or not.",
        },
        "paths": paths,
        "components": {"schemas": schemas()},
    })
}

/// One operation: its summary, its parameters and its answers.
fn operation(summary: &str, parameters: Vec<Value>, answers: &[(&str, &str)]) -> Value {
    let answer = |&(status, about): &(&str, &str)| {
        let mut answer = json!({"description": about});
        if status.starts_with(['4', '5']) {
            answer["content"] = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}});
        }
        (status.to_owned(), answer)
    };
    let answers: Map<String, Value> = answers.iter().map(answer).collect();
    json!({"summary": summary, "parameters": parameters, "responses": answers})
}

fn with_body(mut operation: Value, about: &str) -> Value {
    let content = json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}});
    operation["requestBody"] = json!({"description": about, "required": true, "content": content});
    operation
}

fn path(name: &str, about: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "description": about, "schema": {"type": "string"}})
}

fn query(name: &str, kind: &str, about: &str) -> Value {
    json!({"name": name, "in": "query", "description": about, "schema": {"type": kind}})
}

fn header(name: &str, about: &str) -> Value {
    json!({"name": name, "in": "header", "description": about, "schema": {"type": "string"}})
}

fn session() -> Vec<Value> {
    vec![
        header("Atoll-Session", "from POST /v1/sessions; with Atoll-Series the write is applied once"),
        header("Atoll-Series", "the client's number of this write; the same number is the same write"),
        header("Atoll-Attempt", "how often it was sent before; information only"),
        header("Atoll-Floor", "the lowest series the client still waits for; 1023 below the series if not given"),
    ]
}

fn freshness() -> Vec<Value> {
    vec![
        query("consistency", "string", "stale: from any member, a little old perhaps; linearizable is the default"),
        header("Atoll-After", "with consistency=stale: a position to wait for"),
    ]
}

fn all(lists: Vec<Vec<Value>>) -> Vec<Value> {
    lists.into_iter().flatten().collect()
}

const LATER: (&str, &str) = ("503", "not served now: not applied; Retry-After says when to try again");
const UNKNOWN: (&str, &str) = ("504", "code unknown: it may have been applied, or not");
const MEMORY: (&str, &str) = ("507", "out of memory: not applied");
const BAD: (&str, &str) = ("400", "the request is wrong");
const LARGE: (&str, &str) = ("413", "the body is too long");
const TAKEN: (&str, &str) = ("202", "{\"operation\":{\"kind\",\"slot\"}}: it stands in the cluster log");
const NOT_POSSIBLE: (&str, &str) = ("409", "that cannot be done");

fn data() -> Map<String, Value> {
    let key = || path("key", "percent-encoded bytes; slashes may stand as they are");
    let name = || path("name", "percent-encoded bytes; slashes may stand as they are");
    let conditions = || {
        vec![
            header("If-Match", "only if the key has this ETag; *: only if it is there"),
            header("If-None-Match", "*: only if the key is not there"),
        ]
    };
    let ttl = query("ttl", "number", "seconds after which the key is gone; never if not given");
    let put = operation(
        "Writes a key",
        all(vec![vec![key(), ttl], conditions(), session()]),
        &[("200", "{\"etag\",\"position\"}"), BAD, ("412", "the condition fails"), LARGE, LATER, UNKNOWN, MEMORY],
    );
    let resume = || header("Last-Event-ID", "with Accept: text/event-stream: the event to go on after");
    let get = operation(
        "Reads a key; with Accept: text/event-stream its changes (put, delete, reset)",
        all(vec![vec![key(), resume()], freshness()]),
        &[("200", "the value, and its ETag"), ("304", "If-None-Match names its ETag"), BAD, ("404", "absent"), LATER],
    );
    let delete = operation(
        "Deletes a key",
        all(vec![vec![key()], conditions(), session()]),
        &[("200", "{\"position\"}"), BAD, ("404", "absent"), ("412", "the condition fails"), LATER, UNKNOWN],
    );
    let scan = operation(
        "Keys over all buckets, in order",
        all(vec![
            vec![
                query("prefix", "string", "only keys that begin so"),
                query("limit", "integer", "at most so many, up to 1000; 100 if not given"),
                query("after", "string", "only keys after this one: `after` of the answer before"),
                query("values", "boolean", "with the values"),
            ],
            freshness(),
        ]),
        &[("200", "{\"keys\":[{\"key\",\"etag\"}],\"after\"}; keys are percent-encoded"), BAD, LATER],
    );
    let publish = operation(
        "Publishes a message; makes the stream if need be",
        all(vec![vec![name()], session()]),
        &[("200", "{\"offset\",\"position\",\"time\"}"), BAD, LARGE, LATER, UNKNOWN, MEMORY],
    );
    let read = operation(
        "Reads messages; with Accept: text/event-stream a live tail",
        all(vec![
            vec![
                name(),
                query("from", "integer", "the first offset; if not given, the oldest, or for a tail the next"),
                query("limit", "integer", "at most so many, up to 1000; 100 if not given"),
                resume(),
            ],
            freshness(),
        ]),
        &[("200", "{\"messages\":[Message],\"next\"}"), BAD, ("404", "there is no such stream"), LATER],
    );
    let open = operation("Opens a session", Vec::new(), &[("201", "{\"session\"}")]);
    Map::from_iter([
        ("/v1/kv".to_owned(), json!({"get": scan})),
        ("/v1/kv/{key}".to_owned(), json!({"put": with_body(put, "the value"), "get": get, "delete": delete})),
        ("/v1/streams/{name}".to_owned(), json!({"post": with_body(publish, "the message"), "get": read})),
        ("/v1/sessions".to_owned(), json!({"post": open})),
    ])
}

fn cluster() -> Map<String, Value> {
    let get = |summary: &str, parameters, answer| json!({"get": operation(summary, parameters, &[("200", answer)])});
    let log = vec![
        query("from", "integer", "the first slot; the last entries if not given"),
        query("limit", "integer", "at most so many, up to 1000; 100 if not given"),
    ];
    let rates = vec![
        query("last", "integer", "so many seconds, up to 300; 60 if not given"),
        query("own", "boolean", "of this node only, with counts by bound of time, for other nodes"),
    ];
    let events = vec![
        query("from", "integer", "the first id; the last events if not given"),
        query("limit", "integer", "at most so many, up to 1000; 100 if not given"),
        query("only", "string", "with Accept: text/event-stream: `events`, and nothing else"),
        header("Last-Event-ID", "with Accept: text/event-stream: the event to go on after"),
    ];
    let what =
        "What happened, in words; with Accept: text/event-stream all that changes: status, buckets, events, rates";
    let slot = || query("slot", "integer", "a hash slot of the bucket that is meant");
    let snapshot = operation(
        "The whole state of a bucket as of a committed position, for `atoll backup`",
        vec![slot(), header("If-None-Match", "a position: 304 where nothing has happened since")],
        &[
            ("200", "its bytes; Atoll-Position, Atoll-Slots and Atoll-Checksum (crc32c) tell of what"),
            ("304", "as before"),
            ("307", "this node has no copy that is in step"),
            BAD,
            LATER,
        ],
    );
    let import = operation(
        "Takes in a piece of a backup, as a write of the bucket; for `atoll restore`",
        vec![slot()],
        &[("200", "{\"position\"}"), BAD, LARGE, LATER, UNKNOWN, MEMORY],
    );
    Map::from_iter([
        ("/v1/events".to_owned(), get(what, events, "a list of Event")),
        (
            "/v1/cluster/rates".to_owned(),
            get("What was done in the last seconds", rates, "{\"nodes\":[{\"name\",\"seconds\"}],\"cluster\"}"),
        ),
        ("/v1/cluster".to_owned(), get("How the cluster is", Vec::new(), "members, government, moves, alarms")),
        ("/v1/cluster/buckets".to_owned(), get("All buckets", Vec::new(), "a list")),
        ("/v1/cluster/copies".to_owned(), get("The copies on this node, for other nodes", Vec::new(), "a list")),
        ("/v1/cluster/log".to_owned(), get("What was decided", log, "a list of slot, time, leader and entry")),
        ("/v1/cluster/snapshot".to_owned(), json!({"get": snapshot})),
        ("/v1/cluster/import".to_owned(), json!({"post": with_body(import, "the piece")})),
    ])
}

fn operations() -> Map<String, Value> {
    let plan = || query("plan", "boolean", "true: answers 200 with the moves that would follow, and does nothing");
    let name = || path("name", "of a node");
    let answers = [TAKEN, NOT_POSSIBLE, LATER, UNKNOWN];
    let post = |summary: &str, parameters| json!({"post": operation(summary, parameters, &answers)});
    let here = query("here", "boolean", "true: a departed node is forgotten by this node only");
    let summary = "Removes a node for good; one that has departed is no longer listed";
    let remove = operation(summary, vec![name(), plan(), here], &answers);
    let bucket = || query("bucket", "integer", "this one only");
    let from = query("from", "string", "the node whose copy is gone on from, or `empty`");
    Map::from_iter([
        ("/v1/cluster/nodes/{name}".to_owned(), json!({"delete": remove})),
        (
            "/v1/cluster/nodes/{name}/drain".to_owned(),
            post("Moves everything off a node; then it departs", vec![name(), plan()]),
        ),
        ("/v1/cluster/nodes/{name}/undrain".to_owned(), post("A node stays after all", vec![name()])),
        ("/v1/cluster/split".to_owned(), post("Halves all buckets, or one", vec![bucket(), plan()])),
        ("/v1/cluster/rebalance".to_owned(), post("Levels out again now", vec![plan()])),
        (
            "/v1/cluster/recover".to_owned(),
            post("Goes on from this node's copy of the cluster log, where its majority is lost for good", Vec::new()),
        ),
        (
            "/v1/cluster/buckets/{bucket}/revive".to_owned(),
            post("Serves a lost bucket again", vec![path("bucket", "its first slot"), from]),
        ),
    ])
}

fn node() -> Map<String, Value> {
    let get = |summary: &str| json!({"get": operation(summary, Vec::new(), &[("200", "yes")])});
    let file = operation("A file of the dashboard", vec![path("file", "its name")], &[("200", "the file")]);
    let ready = operation("Does it belong to a cluster with a leader?", Vec::new(), &[("200", "yes"), ("503", "no")]);
    Map::from_iter([
        ("/".to_owned(), get("The dashboard: a page that shows the cluster")),
        ("/assets/{file}".to_owned(), json!({"get": file})),
        ("/v1/openapi.json".to_owned(), get("This document")),
        ("/metrics".to_owned(), get("Counts and gauges, as Prometheus reads them")),
        ("/healthz".to_owned(), get("Is the process alive?")),
        ("/readyz".to_owned(), json!({"get": ready})),
    ])
}

fn schemas() -> Value {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    json!({
        "Error": {
            "type": "object",
            "properties": {"error": {"type": "object", "properties": {"code": text, "message": text}}},
        },
        "Event": {
            "type": "object",
            "description": "story: the event it all began with; cause: what led to it; time: microseconds since 1970; \
                grade: good, plain, warning, bad. One may be written on: a later version has the same id",
            "properties": {
                "id": number, "story": number, "cause": number, "slot": number, "time": number, "kind": text,
                "grade": text, "text": text, "nodes": {"type": "array"}, "buckets": number,
                "longest_pause_micros": number,
            },
        },
        "Message": {
            "type": "object",
            "description": "data if it is text, data_base64 if not, fields of XADD; time in microseconds since 1970",
            "properties": {
                "offset": number, "time": number, "data": text, "data_base64": text, "fields": {"type": "array"}
            },
        },
    })
}
