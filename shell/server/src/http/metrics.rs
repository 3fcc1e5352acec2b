//! `GET /metrics`: counts and gauges as Prometheus reads them.

use super::App;
use super::request::wants_events;
use crate::refused::Why;
use atoll_types::Gauge;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::{Mutex, PoisonError};

/// What kind of a request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Put,
    Get,
    Delete,
    Scan,
    Watch,
    Publish,
    Read,
    Tail,
    Session,
    Cluster,
    Other,
}

impl Kind {
    pub(super) fn of(method: &Method, path: &str, headers: &HeaderMap) -> Kind {
        let events = || wants_events(headers);
        if path.starts_with("/v1/kv/") {
            return match *method {
                Method::PUT => Kind::Put,
                Method::DELETE => Kind::Delete,
                Method::GET if events() => Kind::Watch,
                Method::GET => Kind::Get,
                _ => Kind::Other,
            };
        }
        if path.starts_with("/v1/streams/") {
            return match *method {
                Method::POST => Kind::Publish,
                Method::GET if events() => Kind::Tail,
                Method::GET => Kind::Read,
                _ => Kind::Other,
            };
        }
        match path {
            "/v1/kv" => Kind::Scan,
            "/v1/sessions" => Kind::Session,
            path if path.starts_with("/v1/cluster") => Kind::Cluster,
            _ => Kind::Other,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Kind::Put => "kv_put",
            Kind::Get => "kv_get",
            Kind::Delete => "kv_delete",
            Kind::Scan => "kv_scan",
            Kind::Watch => "kv_watch",
            Kind::Publish => "stream_publish",
            Kind::Read => "stream_read",
            Kind::Tail => "stream_tail",
            Kind::Session => "session",
            Kind::Cluster => "cluster",
            Kind::Other => "other",
        }
    }
}

/// Requests so far, by kind and by the status they were answered with.
#[derive(Debug, Default)]
pub(super) struct Requests(Mutex<BTreeMap<(Kind, u16), u64>>);

impl Requests {
    pub(super) fn count(&self, kind: Kind, status: StatusCode) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((kind, status.as_u16())).or_default() += 1;
    }

    fn all(&self) -> BTreeMap<(Kind, u16), u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[derive(Debug, Default)]
struct Text(String);

impl Text {
    fn about(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.about(name, kind, help);
        let _ = writeln!(self.0, "{name} {value}");
    }
}

pub(super) async fn show(State(app): State<App>) -> Response {
    let mut text = Text::default();
    requests(&mut text, &app);
    node(&mut text, &app).await;
    cluster(&mut text, &app);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.0).into_response()
}

fn requests(text: &mut Text, app: &App) {
    text.about("atoll_http_requests_total", "counter", "Requests over HTTP, by kind and status.");
    for ((kind, status), count) in app.requests.all() {
        let kind = kind.label();
        let _ = writeln!(text.0, "atoll_http_requests_total{{kind=\"{kind}\",status=\"{status}\"}} {count}");
    }
    text.about("atoll_refused_total", "counter", "What was turned away at the doors, by reason.");
    for why in Why::ALL {
        let (reason, count) = (why.label(), app.gateway.refused().so_far(why));
        let _ = writeln!(text.0, "atoll_refused_total{{reason=\"{reason}\"}} {count}");
    }
    text.one("atoll_clients", "gauge", "Clients that are connected.", app.gateway.clients());
}

async fn node(text: &mut Text, app: &App) {
    let copies = app.gateway.copies().await;
    let serving = copies.iter().filter(|copy| copy.serving).count();
    let sum = |of: fn(&crate::status::CopyStatus) -> u64| copies.iter().map(of).sum::<u64>();
    text.one("atoll_copies", "gauge", "Copies of buckets on this node.", copies.len());
    text.one("atoll_copies_serving", "gauge", "Buckets that this node serves as their primary.", serving);
    text.one("atoll_copies_keys", "gauge", "Keys and streams in the copies on this node.", sum(|copy| copy.keys));
    text.one("atoll_copies_bytes", "gauge", "Memory of the copies on this node.", sum(|copy| copy.bytes));
    text.one("atoll_copies_sessions", "gauge", "Sessions in the copies on this node.", sum(|copy| copy.sessions));
}

fn cluster(text: &mut Text, app: &App) {
    let status = app.gateway.board().status();
    text.one("atoll_healthy", "gauge", "1 if nothing is missing in the cluster.", u8::from(status.healthy));
    text.one("atoll_leader_known", "gauge", "1 if a leader is known.", u8::from(status.government.leader.is_some()));
    text.one("atoll_problems", "gauge", "What is missing, counted.", status.problems.len());
    text.one("atoll_alarms", "gauge", "What an operator should look at, counted.", status.alarms.len());
    text.one("atoll_buckets", "gauge", "Buckets of the cluster.", status.buckets);
    text.one("atoll_moves", "gauge", "Moves of buckets under way.", status.moves.len());
    text.one("atoll_table_version", "gauge", "Slot of the last change of the table.", status.table_version);
    text.one("atoll_decided_slot", "gauge", "Last slot of the cluster log known decided here.", status.decided);
    text.about("atoll_nodes", "gauge", "Nodes by state.");
    for state in ["arriving", "present", "absent", "draining", "departed"] {
        let count = status.nodes.iter().filter(|node| node.state == state).count();
        let _ = writeln!(text.0, "atoll_nodes{{state=\"{state}\"}} {count}");
    }
    let counters = app.gateway.board().counters();
    text.about("atoll_cluster_messages_refused_total", "counter", "Messages of the cluster log not taken, by reason.");
    let refused = [
        ("other_cluster", counters.refused_other_cluster),
        ("old_generation", counters.refused_old_generation),
        ("old_incarnation", counters.refused_old_incarnation),
        ("not_me", counters.refused_not_me),
        ("not_ready", counters.dropped_not_ready),
    ];
    for (reason, count) in refused {
        let _ = writeln!(text.0, "atoll_cluster_messages_refused_total{{reason=\"{reason}\"}} {count}");
    }
    text.one("atoll_told_departed_total", "counter", "Departed nodes that were told so.", counters.told_departed);
    text.one("atoll_elections_total", "counter", "Elections this node stood in.", counters.elections);
    let (installed, bad) = (counters.snapshots_installed, counters.snapshots_refused);
    text.one("atoll_snapshots_installed_total", "counter", "Snapshots of the cluster log installed.", installed);
    text.one("atoll_snapshots_refused_total", "counter", "Snapshots of the cluster log refused.", bad);
    let queues: [(&str, Gauge); 5] = [
        ("submissions", counters.submissions),
        ("outstanding", counters.outstanding),
        ("arrivals", counters.arrivals),
        ("pipeline", counters.pipeline),
        ("log", counters.log),
    ];
    text.about("atoll_cluster_queue", "gauge", "What waits in the queues of the cluster log.");
    for (queue, gauge) in &queues {
        let _ = writeln!(text.0, "atoll_cluster_queue{{queue=\"{queue}\"}} {}", gauge.held);
    }
    text.about("atoll_cluster_queue_full_total", "counter", "What found a queue of the cluster log full.");
    for (queue, gauge) in &queues {
        let _ = writeln!(text.0, "atoll_cluster_queue_full_total{{queue=\"{queue}\"}} {}", gauge.turned_away);
    }
}
