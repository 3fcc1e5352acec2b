//! A cluster within the test's process, and a small HTTP client.

#![allow(dead_code)] // Each test uses some of it.

pub(crate) mod ports;
pub(crate) mod raw;

use atoll_server::{Server, Settings, StartError};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn start(nodes: usize) -> Vec<Server> {
    start_with(nodes, |_| {})
}

pub(crate) fn start_with(nodes: usize, change: impl Fn(&mut Settings)) -> Vec<Server> {
    let names: Vec<String> = (1..=nodes).map(|node| format!("n{node}")).collect();
    let mut settings = founders(&names.iter().map(String::as_str).collect::<Vec<_>>());
    settings.iter_mut().for_each(change);
    settings.into_iter().map(begin).collect()
}

/// Where another test starts a program, that holds a port which was just found to be free, for the moment between its
/// two halves of starting: then once more.
fn begin(settings: Settings) -> Server {
    let begun = Instant::now();
    loop {
        match Server::start(settings.clone()) {
            Err(StartError::Listen { error, .. })
                if error.kind() == ErrorKind::AddrInUse && begun.elapsed() < Duration::from_secs(1) => {}
            started => return started.expect("a free port"),
        }
    }
}

/// What nodes of these names are told that found a cluster together. Two shards, whatever the machine: what one shard
/// hides shows with two. The end-to-end tests have one.
pub(crate) fn founders(names: &[&str]) -> Vec<Settings> {
    let peers: Vec<String> = names.iter().map(|_| ports::free_address().to_string()).collect();
    let settings = |(name, peer): (&&str, &String)| Settings {
        name: (*name).to_owned(),
        peer: peer.clone(),
        http: "127.0.0.1:0".to_owned(),
        resp: "127.0.0.1:0".to_owned(),
        join: peers.clone(),
        bootstrap: names.iter().map(|&name| name.to_owned()).collect(),
        shards: 2,
        ..Settings::default()
    };
    names.iter().zip(&peers).map(settings).collect()
}

pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "never {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn healthy(servers: &[Server]) {
    let begun = Instant::now();
    for server in servers {
        while !server.gateway.board().status().healthy {
            assert!(begun.elapsed() < LONG, "never healthy: {:?}", server.gateway.board().status());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &value[..])
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().expect("an error").to_owned()
    }
}

/// A connection that asks one thing after the other.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    pending: Vec<u8>,
}

impl Client {
    pub(crate) async fn to(address: SocketAddr) -> Client {
        Client { stream: TcpStream::connect(address).await.expect("a connection"), pending: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        // A server that has answered already may have closed.
        let _ = self.stream.write_all(bytes).await;
    }

    /// False at the end.
    pub(crate) async fn more(&mut self) -> bool {
        let read = timeout(LONG, self.stream.read_buf(&mut self.pending)).await.expect("something in time");
        read.is_ok_and(|length| length > 0)
    }

    /// Up to and with `end`; None if the connection ends before.
    pub(crate) async fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.pending.windows(end.len()).position(|bytes| bytes == end) {
                return Some(self.pending.drain(..at + end.len()).collect());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    pub(crate) async fn head(&mut self) -> Option<Response> {
        let head = String::from_utf8(self.until(b"\r\n\r\n").await?).expect("text");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|text| text.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": ")).map(|(n, v)| (n.to_owned(), v.to_owned()));
        Some(Response { status: status.expect("a status"), headers: headers.collect(), body: Vec::new() })
    }

    pub(crate) async fn answer(&mut self) -> Option<Response> {
        let mut response = self.head().await?;
        let length: usize = response.header("content-length").map_or(0, |text| text.parse().expect("a length"));
        while self.pending.len() < length {
            assert!(self.more().await, "cut off");
        }
        response.body = self.pending.drain(..length).collect();
        Some(response)
    }

    pub(crate) async fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        self.send(&[head.as_bytes(), body].concat()).await;
        self.answer().await.expect("an answer")
    }

    pub(crate) async fn get(&mut self, path: &str) -> Response {
        self.ask("GET", path, &[], b"").await
    }

    pub(crate) async fn put(&mut self, path: &str, body: &[u8]) -> Response {
        self.ask("PUT", path, &[], body).await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> Response {
        self.ask("POST", path, &[], body).await
    }

    pub(crate) async fn delete(&mut self, path: &str) -> Response {
        self.ask("DELETE", path, &[], b"").await
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) data: serde_json::Value,
}

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Events {
    client: Client,
    text: String,
    pub(crate) head: Response,
    /// Where a browser would go on.
    pub(crate) last_id: String,
}

impl Events {
    pub(crate) async fn open(address: SocketAddr, path: &str, last_id: Option<&str>) -> Events {
        let mut client = Client::to(address).await;
        let resume = last_id.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nAccept: text/event-stream\r\n{resume}\r\n");
        client.send(request.as_bytes()).await;
        let head = client.head().await.expect("a head");
        assert_eq!(head.header("content-type"), Some("text/event-stream"), "{head:?}");
        Events { client, text: String::new(), head, last_id: String::new() }
    }

    async fn block(&mut self) -> String {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return block;
            }
            let length = self.client.until(b"\r\n").await.expect("a chunk");
            let length = std::str::from_utf8(&length).expect("text").trim().to_owned();
            let length = usize::from_str_radix(&length, 16).expect("a length");
            assert!(length > 0, "the stream ended");
            while self.client.pending.len() < length + 2 {
                assert!(self.client.more().await, "cut off");
            }
            let chunk: Vec<u8> = self.client.pending.drain(..length + 2).take(length).collect();
            self.text += &String::from_utf8(chunk).expect("text");
        }
    }

    /// The next event, as a browser would give it: blocks without data only move the id.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            let block = self.block().await;
            let (mut kind, mut data) = ("message".to_owned(), None);
            for line in block.lines() {
                match line.split_once(": ") {
                    Some(("event", value)) => kind = value.to_owned(),
                    Some(("id", value)) => self.last_id = value.to_owned(),
                    Some(("data", value)) => data = Some(serde_json::from_str(value).expect("JSON")),
                    Some(_) | None => {}
                }
            }
            if let Some(data) = data {
                return Event { kind, id: self.last_id.clone(), data };
            }
        }
    }
}
