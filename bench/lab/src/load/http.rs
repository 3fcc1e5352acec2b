//! HTTP/1.1 on a connection that stays: Atoll, Consul, rqlite and etcd's JSON gateway. An answer counts if its status
//! is a 2xx and its body tells of no error.

use super::protocol::{Event, Protocol, Work, part};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Atoll,
    Consul,
    Rqlite,
    EtcdJson,
}

#[derive(Debug)]
pub(crate) struct Http {
    dialect: Dialect,
}

impl Http {
    pub(crate) fn new(dialect: Dialect) -> Http {
        Http { dialect }
    }

    /// Method, path and body of one request.
    fn request(&self, work: Work, key: &str, value: &[u8]) -> (&'static str, String, Vec<u8>) {
        let text = || String::from_utf8_lossy(value);
        match (self.dialect, work) {
            (Dialect::Atoll, Work::Get) => ("GET", format!("/v1/kv/{key}"), Vec::new()),
            (Dialect::Atoll, Work::Put | Work::Create) => ("PUT", format!("/v1/kv/{key}"), value.to_vec()),
            (Dialect::Consul, Work::Get) => ("GET", format!("/v1/kv/{key}?consistent"), Vec::new()),
            (Dialect::Consul, Work::Put | Work::Create) => ("PUT", format!("/v1/kv/{key}"), value.to_vec()),
            (Dialect::Rqlite, Work::Get) => {
                let query = format!(r#"[["SELECT v FROM kv WHERE k = ?", "{key}"]]"#);
                ("POST", "/db/query?level=linearizable".to_owned(), query.into_bytes())
            }
            (Dialect::Rqlite, Work::Put | Work::Create) => {
                let statement = format!(r#"[["INSERT OR REPLACE INTO kv VALUES(?, ?)", "{key}", "{}"]]"#, text());
                ("POST", "/db/execute".to_owned(), statement.into_bytes())
            }
            (Dialect::EtcdJson, Work::Get) => {
                let body = format!(r#"{{"key":"{}"}}"#, base64(key.as_bytes()));
                ("POST", "/v3/kv/range".to_owned(), body.into_bytes())
            }
            (Dialect::EtcdJson, Work::Put | Work::Create) => {
                let body = format!(r#"{{"key":"{}","value":"{}"}}"#, base64(key.as_bytes()), base64(value));
                ("POST", "/v3/kv/put".to_owned(), body.into_bytes())
            }
        }
    }
}

impl Protocol for Http {
    fn greet(&mut self, _out: &mut Vec<u8>) -> bool {
        true
    }

    fn ask(&mut self, work: Work, keys: &[&str], value: &[u8], out: &mut Vec<u8>) {
        for key in keys {
            let (method, path, body) = self.request(work, key, value);
            let kind = if self.dialect == Dialect::Rqlite { "Content-Type: application/json\r\n" } else { "" };
            let head = format!("{method} {path} HTTP/1.1\r\nHost: lab\r\n{kind}Content-Length: {}\r\n\r\n", body.len());
            out.extend_from_slice(head.as_bytes());
            out.extend_from_slice(&body);
        }
    }

    fn take(&mut self, input: &[u8], _out: &mut Vec<u8>) -> (usize, Event) {
        let Some(head) = input.windows(4).position(|four| four == b"\r\n\r\n") else { return part() };
        let text = String::from_utf8_lossy(&input[..head]);
        let field = |name: &str| {
            let is = |line: &&str| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
            text.split("\r\n").find(is).map(|line| line[name.len()..].trim().to_owned())
        };
        let begin = head + 4;
        let length = match (field("content-length:"), field("transfer-encoding:")) {
            (Some(length), _) => length.parse::<usize>().ok().filter(|length| input.len() >= begin + length),
            (None, Some(_)) => chunks(&input[begin..]),
            (None, None) => Some(0),
        };
        let Some(length) = length else { return part() };
        let body = String::from_utf8_lossy(&input[begin..begin + length]);
        let status = text.split(' ').nth(1).unwrap_or_default();
        let is_good = status.starts_with('2') && !body.contains("\"error\"");
        let why = || format!("{status} {}", body.chars().take(60).collect::<String>());
        (begin + length, if is_good { Event::Done(1) } else { Event::Failed(why()) })
    }
}

/// Bytes of a body that comes in chunks, with its end.
fn chunks(input: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let (line, taken) = super::protocol::line(&input[at..])?;
        let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16).unwrap_or(0);
        at += taken + size + 2;
        if input.len() < at {
            return None;
        }
        if size == 0 {
            return Some(at);
        }
    }
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let group = three.iter().fold(0_u32, |sum, &byte| sum << 8 | u32::from(byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(group >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::protocol::feed_bytewise;
    use super::*;

    #[test]
    fn an_answer_ends_where_its_length_says() {
        let bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nlost";
        let events = feed_bytewise(&mut Http::new(Dialect::Atoll), bytes);
        assert_eq!(events, [Event::Done(1), Event::Failed("503 lost".to_owned())]);
    }

    #[test]
    fn or_with_its_last_chunk() {
        let bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        assert_eq!(feed_bytewise(&mut Http::new(Dialect::Consul), bytes), [Event::Done(1)]);
    }

    #[test]
    fn an_error_within_a_good_answer_is_a_failure() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"error\":\"no\"}\n";
        assert!(matches!(&feed_bytewise(&mut Http::new(Dialect::Rqlite), bytes)[..], [Event::Failed(_)]));
    }

    #[test]
    fn base64_as_everybody_writes_it() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
    }
}
