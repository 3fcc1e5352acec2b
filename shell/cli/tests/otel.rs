//! Spans of requests reach a collector (feature `otel`).

// The functions around the tests are tests as well; clippy knows only those that are marked.
#![allow(clippy::unwrap_used)]

#[path = "../../server/tests/common/ports.rs"]
mod ports;

use ports::free_address;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

/// Ended with the test, however that ends.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Takes whatever is posted, and gives its path and body.
fn collector() -> (SocketAddr, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, incoming) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            loop {
                let (mut first, mut length) = (String::new(), 0);
                if stream.read_line(&mut first).unwrap_or(0) == 0 {
                    break;
                }
                loop {
                    let mut line = String::new();
                    stream.read_line(&mut line).unwrap();
                    if line.trim().is_empty() {
                        break;
                    }
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                let path = first.split(' ').nth(1).unwrap().to_owned();
                let _ = requests.send((path, serde_json::from_slice(&body).unwrap()));
                stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
            }
        }
    });
    (address, incoming)
}

fn status(to: SocketAddr, path: &str, header: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(to).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {to}\r\n{header}Connection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

#[test]
fn a_collector_gets_a_span_of_each_request() {
    let (collector, spans) = collector();
    let (peer, http, resp) = (free_address(), free_address(), free_address());
    let mut command = Command::new(env!("CARGO_BIN_EXE_atoll"));
    command.args(["serve", "--name", "n1", "--bootstrap", "n1", "--peer", &peer.to_string()]);
    command.args(["--http", &http.to_string(), "--resp", &resp.to_string()]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{collector}/"));
    command.env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test");
    command.env("ATOLL_LOG", "error");
    let _node = Started(command.stdout(Stdio::null()).spawn().unwrap());
    let begun = Instant::now();
    while status(http, "/readyz", "") != Some(200) {
        assert!(begun.elapsed() < LONG, "never ready");
        sleep(Duration::from_millis(20));
    }
    let trace = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\natoll-request-id: mine-7\r\n";
    assert_eq!(status(http, "/v1/kv/none", trace), Some(404));
    loop {
        let (path, request) = spans.recv_timeout(LONG).expect("the span arrives");
        assert_eq!(path, "/v1/traces");
        let sent = &request["resourceSpans"][0];
        let resource = sent["resource"]["attributes"].to_string();
        assert!(resource.contains("\"atoll\"") && resource.contains("deployment.environment"), "{resource}");
        let spans = sent["scopeSpans"][0]["spans"].as_array().unwrap();
        let Some(span) = spans.iter().find(|span| span.to_string().contains("mine-7")) else { continue };
        assert_eq!((&span["traceId"], &span["name"]), (&"4bf92f3577b34da6a3ce929d0e0e4736".into(), &"GET".into()));
        assert_eq!((&span["parentSpanId"], &span["kind"]), (&"00f067aa0ba902b7".into(), &2.into()));
        let text = span["attributes"].to_string();
        for known in ["atoll.request_id", "/v1/kv/none", "http.response.status_code", "404"] {
            assert!(text.contains(known), "{text}");
        }
        let time = |key: &str| span[key].as_str().unwrap().parse::<u128>().unwrap();
        assert!(time("startTimeUnixNano") < time("endTimeUnixNano"));
        return;
    }
}
