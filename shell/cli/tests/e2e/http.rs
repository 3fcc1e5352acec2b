//! One request, one connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub(crate) fn send(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, String)],
    body: &[u8],
) -> io::Result<Reply> {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(1))?;
    // Longer than a node lets anybody wait.
    stream.set_read_timeout(Some(Duration::from_secs(8)))?;
    stream.set_nodelay(true)?;
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    request += &format!("Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(&[request.as_bytes(), body].concat())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let broken = || io::Error::new(io::ErrorKind::UnexpectedEof, "the answer broke off");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(broken)?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
    let body = answer[end + 4..].to_vec();
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    // A process that was killed while it answered has told nothing.
    if length.is_some_and(|length: usize| length != body.len()) {
        return Err(broken());
    }
    Ok(Reply { status, body })
}

pub(crate) fn get(to: SocketAddr, path: &str) -> io::Result<Reply> {
    send(to, "GET", path, &[], &[])
}
