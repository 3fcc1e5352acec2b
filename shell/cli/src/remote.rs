//! A node as the client commands see it: HTTP, and errors that say what failed, where, and what to do.

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;
use ureq::Agent;
use ureq::http::Response;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Server {
    /// Any node of the cluster
    #[arg(long, env = "ATOLL_SERVER", default_value = "http://127.0.0.1:8080", value_name = "URL", global = true)]
    server: String,
}

/// Longer than a node lets a request wait.
const PATIENCE: Duration = Duration::from_secs(15);
/// A whole bucket may be on its way for that long.
const LONG_PATIENCE: Duration = Duration::from_secs(3600);
/// A whole bucket is at most that long.
const BODY_MOST: u64 = 1 << 34;

#[derive(Deserialize)]
struct Refusal {
    error: Reason,
}

#[derive(Deserialize)]
struct Reason {
    code: String,
    message: String,
}

/// What a node answered, whatever its status.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        serde_json::from_slice(&self.body)
            .context("the node answered something else than expected: is it another version?")
    }
}

impl Server {
    /// Another one than was asked for.
    pub(crate) fn at(url: &str) -> Server {
        Server { server: url.to_owned() }
    }

    /// What is at this path, as text; None where there is no answer in time, or another than success.
    pub(crate) fn text(&self, path: &str, patience: Duration) -> Option<String> {
        let mut response = self.agent(Some(patience)).get(self.url(path)).call().ok()?;
        let text = response.body_mut().read_to_string().ok()?;
        (response.status() == 200).then_some(text)
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.trim_end_matches('/'))
    }

    fn agent(&self, patience: Option<Duration>) -> Agent {
        Agent::config_builder().http_status_as_error(false).timeout_global(patience).build().into()
    }

    fn unreachable(&self, error: &ureq::Error) -> anyhow::Error {
        anyhow!(
            "no answer from {}: {error}; is a node running there? (`atoll` starts a cluster, --server names another)",
            self.server
        )
    }

    /// Sends a request and takes whatever comes back.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> anyhow::Result<Reply> {
        self.send_by(&self.agent(Some(PATIENCE)), method, path, headers, body)
    }

    /// Somebody who sends one request after another, for as long as each takes up to an hour, over one connection.
    pub(crate) fn patient(&self) -> Agent {
        self.agent(Some(LONG_PATIENCE))
    }

    pub(crate) fn send_by(
        &self,
        agent: &Agent,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> anyhow::Result<Reply> {
        let mut request = ureq::http::Request::builder().method(method).uri(self.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.to_vec()).context("no request can be made of that")?;
        let mut response = agent.run(request).map_err(|error| self.unreachable(&error))?;
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        Ok(Reply {
            status: response.status().as_u16(),
            headers: headers.collect(),
            body: response.body_mut().with_config().limit(BODY_MOST).read_to_vec().context("the answer broke off")?,
        })
    }

    /// The same, where anything but success is an error.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> anyhow::Result<Reply> {
        let reply = self.send(method, path, headers, body)?;
        if (200..300).contains(&reply.status) { Ok(reply) } else { Err(self.refused(&reply)) }
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.ask("GET", path, &[], &[])?.json()
    }

    pub(crate) fn refused(&self, reply: &Reply) -> anyhow::Error {
        match serde_json::from_slice::<Refusal>(&reply.body) {
            Ok(Refusal { error }) => anyhow!("{}: {} ({}, {})", self.server, error.message, error.code, reply.status),
            Err(_) => anyhow!("{} answered with status {}: is it a node of Atoll?", self.server, reply.status),
        }
    }

    /// Follows a stream of events for as long as the node sends them.
    pub(crate) fn follow(&self, path: &str, last: Option<&str>) -> anyhow::Result<Events> {
        let mut request = self.agent(None).get(self.url(path)).header("Accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let response: Response<ureq::Body> = request.call().map_err(|error| self.unreachable(&error))?;
        if response.status() != 200 {
            bail!("{} answered with status {}", self.server, response.status());
        }
        Ok(Events { lines: BufReader::new(Box::new(response.into_body().into_reader())) })
    }
}

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) kind: String,
    /// Nothing, where it only tells how far the stream is.
    pub(crate) data: Option<String>,
}

pub(crate) struct Events {
    lines: BufReader<Box<dyn Read>>,
}

impl Events {
    /// None: the node ended it, or is gone.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let mut event = Event { kind: "message".to_owned(), ..Event::default() };
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end_matches(['\r', '\n']);
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                // One without data only tells how far the stream is: whoever resumes from there misses nothing.
                "" if line.is_empty() && (event.data.is_some() || event.id.is_some()) => return Some(event),
                "id" => event.id = Some(value.to_owned()),
                "event" => event.kind = value.to_owned(),
                "data" => match &mut event.data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    None => event.data = Some(value.to_owned()),
                },
                _ => {}
            }
        }
    }
}

/// Bytes as they may stand in a path.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, &byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
        text
    })
}

/// And back; what is no encoding stays as it is.
pub(crate) fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if bytes[at] == b'%' => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive_a_path() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decoded(&encoded(&all)), all);
        assert_eq!(encoded(b"a/b c"), "a%2Fb%20c");
    }

    #[test]
    fn events_are_read_one_by_one() {
        let text = ": hello\n\nid: 7\nevent: put\ndata: one\ndata: two\n\ndata: three\n\nid: 9\n\n";
        let mut events = Events { lines: BufReader::new(Box::new(std::io::Cursor::new(text))) };
        let first = Event { id: Some("7".to_owned()), kind: "put".to_owned(), data: Some("one\ntwo".to_owned()) };
        assert_eq!(events.next(), Some(first));
        assert_eq!(events.next().and_then(|event| event.data), Some("three".to_owned()));
        let bookmark = Event { id: Some("9".to_owned()), kind: "message".to_owned(), data: None };
        assert_eq!(events.next(), Some(bookmark));
        assert_eq!(events.next(), None);
    }
}
