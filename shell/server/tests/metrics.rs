//! `/metrics`: what stands there, what the guide says of it, and what the dashboard and the alerts ask for.

mod common;

use common::{Client, LONG, healthy, start_with};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(root(path)).expect(path)
}

/// One metric, as its node describes it.
#[derive(Debug, Default, PartialEq)]
struct Metric {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// The name of the metric that a series is part of.
fn base(series: &str) -> &str {
    ["_bucket", "_sum", "_count"].iter().find_map(|end| series.strip_suffix(end)).unwrap_or(series)
}

fn read(text: &str) -> BTreeMap<String, Metric> {
    let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, help] => metrics.entry(name.to_owned()).or_default().help = help.to_owned(),
            ["#", "TYPE", name, kind] => metrics.entry(name.to_owned()).or_default().kind = kind.to_owned(),
            _ => {
                let series = line.rsplit_once(' ').expect("a value").0;
                let (name, labels) = series.split_once('{').unwrap_or((series, ""));
                let known = if metrics.contains_key(name) { name } else { base(name) };
                let metric = metrics.get_mut(known).unwrap_or_else(|| panic!("{line}: nothing is said of {known}"));
                let names = labels.trim_end_matches('}').split(',').filter_map(|label| label.split_once("=\""));
                metric.labels.extend(names.map(|(name, _)| name.to_owned()).filter(|name| name != "le"));
            }
        }
    }
    metrics
}

/// Words that name a metric.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("atoll_")).map(ToOwned::to_owned).collect()
}

async fn metrics(client: &mut Client) -> String {
    String::from_utf8(client.get("/metrics").await.body).expect("text")
}

fn count(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {metrics}")).parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted_and_so_is_where_their_time_goes() {
    let data = std::env::temp_dir().join(format!("atoll-metrics-{}", std::process::id()));
    let servers = start_with(3, |settings| settings.data_dir = Some(data.join(&settings.name)));
    healthy(&servers).await;
    let mut client = Client::to(servers[0].http).await;
    // Enough of them that some are passed on, and the time of some of those is taken.
    let begun = Instant::now();
    let mut written = 0;
    loop {
        for _ in 0..64 {
            written += 1;
            assert_eq!(client.put(&format!("/v1/kv/key-{written}"), b"value").await.status, 200);
        }
        let metrics = metrics(&mut client).await;
        let of = |stage: &str| count(&metrics, &format!("atoll_stage_seconds_count{{stage=\"{stage}\"}}"));
        if ["queue", "hop", "replicate", "persist", "apply"].into_iter().all(|stage| of(stage) > 0.0) {
            break;
        }
        assert!(begun.elapsed() < LONG, "some stage is never seen: {metrics}");
    }
    let mut resp = TcpStream::connect(servers[0].resp).await.expect("a connection");
    resp.write_all(b"*2\r\n$3\r\nGET\r\n$5\r\nkey-1\r\n").await.expect("sent");
    let mut answer = [0; 11];
    resp.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"$5\r\nvalue\r\n");
    let metrics = metrics(&mut client).await;
    let requests = |labels: &str| count(&metrics, &format!("atoll_requests_total{{{labels}}}"));
    assert_eq!(requests("protocol=\"http\",kind=\"write\",result=\"done\""), f64::from(written));
    assert_eq!(requests("protocol=\"resp\",kind=\"read\",result=\"done\""), 1.0);
    assert_eq!(count(&metrics, "atoll_received_bytes_total{from=\"resp\"}"), 24.0);
    assert_eq!(count(&metrics, "atoll_sent_bytes_total{to=\"resp\"}"), 11.0);
    for series in [
        "atoll_received_bytes_total{from=\"peers\"}",
        "atoll_sent_bytes_total{to=\"peers\"}",
        "atoll_sent_bytes_total{to=\"http\"}",
        "atoll_disk_syncs_total",
        "atoll_disk_log_bytes",
        "atoll_copies_log_entries",
        "atoll_move_steps_total{kind=\"place\"}",
        "atoll_node_changes_total{change=\"arrived\"}",
    ] {
        assert!(count(&metrics, series) > 0.0, "{series}: {metrics}");
    }
    assert_eq!(count(&metrics, "atoll_buckets{state=\"serving\"}"), 64.0);
    servers.into_iter().for_each(atoll_server::Server::kill);
    let _ = fs::remove_dir_all(data);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_has_a_name() {
    let servers = start_with(1, |_| {});
    healthy(&servers).await;
    let mut client = Client::to(servers[0].http).await;
    let mut name = async |headers: &[(&str, &str)]| {
        let answer = client.ask("GET", "/v1/kv/absent", headers, b"").await;
        answer.header("atoll-request-id").expect("a name").to_owned()
    };
    assert_eq!(name(&[("Atoll-Request-Id", "my-request:7")]).await, "my-request:7");
    let (one, other) = (name(&[]).await, name(&[("Atoll-Request-Id", "not a { sane } one")]).await);
    assert!(one.len() == 16 && other.len() == 16 && one != other, "{one} {other}");
    servers.into_iter().for_each(atoll_server::Server::kill);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guide_the_dashboard_and_the_alerts_name_what_there_is() {
    let servers = start_with(1, |_| {});
    healthy(&servers).await;
    let mut client = Client::to(servers[0].http).await;
    client.get("/v1/kv/absent").await;
    let told = metrics(&mut client).await;
    servers.into_iter().for_each(atoll_server::Server::kill);
    let metrics = read(&told);
    for (name, metric) in &metrics {
        assert!(metric.help.len() > 10 && metric.help.ends_with('.'), "{name}: {metric:?}");
        assert_eq!(metric.kind == "counter", name.ends_with("_total"), "{name}: {metric:?}");
    }
    let row = |(name, metric): (&String, &Metric)| {
        let labels = metric.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        format!("| `{name}` | {} | {labels} | {} |", metric.kind, metric.help)
    };
    let wanted: Vec<String> = metrics.iter().map(row).collect();
    let guide = text("docs/guide/metrics.md");
    let written: Vec<&str> = guide.lines().filter(|line| line.starts_with("| `atoll_")).collect();
    assert!(wanted == written, "docs/guide/metrics.md should have this table:\n{}", wanted.join("\n"));

    for file in ["deploy/alerts.yaml", "deploy/grafana.json"] {
        let names = named(&text(file));
        assert!(names.len() > 5, "{file}");
        for name in names {
            assert!(metrics.contains_key(base(&name)) || metrics.contains_key(&name), "{file}: no metric {name}");
        }
    }
    let dashboard: serde_json::Value = serde_json::from_str(&text("deploy/grafana.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    assert!(panels.iter().all(|panel| panel["targets"].as_array().is_some_and(|targets| !targets.is_empty())));
}

fn check_rules(file: &Path) {
    match Command::new("promtool").args(["check", "rules"]).arg(file).output() {
        Err(error) => eprintln!("skipped: promtool cannot be started here ({error}); Debian's `prometheus` has it"),
        Ok(output) => assert!(output.status.success(), "{output:?}"),
    }
}

#[test]
fn prometheus_takes_the_alerts() {
    check_rules(&root("deploy/alerts.yaml"));
}

/// Every expression beneath a value of the dashboard.
fn expressions(value: &serde_json::Value, found: &mut Vec<String>) {
    if let Some(expression) = value["expr"].as_str() {
        found.push(expression.to_owned());
    }
    let lists = value.as_array().into_iter().flatten();
    lists.chain(value.as_object().into_iter().flat_map(|object| object.values())).for_each(|part| {
        expressions(part, found);
    });
}

/// As rules, with something in the place of Grafana's variables: a tool that reads dashboards is not at hand.
#[test]
fn prometheus_takes_the_queries_of_the_dashboard() {
    let mut found = Vec::new();
    expressions(&serde_json::from_str(&text("deploy/grafana.json")).expect("JSON"), &mut found);
    assert!(found.len() > 10, "{found:?}");
    let filled = |expression: &str| {
        let spans = ["$__rate_interval", "$__range", "$__interval"];
        let spanned = spans.iter().fold(expression.to_owned(), |text, span| text.replace(span, "5m"));
        ["$job", "$node", "$instance"].iter().fold(spanned, |text, name| text.replace(name, ".+"))
    };
    let rules = found.iter().enumerate().map(|(number, expression)| {
        let expression = filled(expression);
        assert!(!expression.contains('$'), "an unknown variable: {expression}");
        serde_json::json!({"record": format!("query:{number}"), "expr": expression})
    });
    let groups = serde_json::json!({"groups": [{"name": "dashboard", "rules": rules.collect::<Vec<_>>()}]});
    let file = std::env::temp_dir().join(format!("atoll-queries-{}.yaml", std::process::id()));
    // JSON is YAML.
    fs::write(&file, groups.to_string()).expect("a file can be written");
    check_rules(&file);
    let _ = fs::remove_file(&file);
}
