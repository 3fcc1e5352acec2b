//! The DevTools protocol: one WebSocket to the browser, commands and events as JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Nothing that is asked of a browser takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct DevTools {
    stream: TcpStream,
    last: u64,
    /// Events that came while an answer was waited for.
    pub(crate) events: VecDeque<Value>,
}

impl DevTools {
    pub(crate) fn connect(port: u16, path: &str) -> DevTools {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let key = STANDARD.encode([7; 16]);
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
        DevTools { stream, last: 0, events: VecDeque::new() }
    }

    /// A frame of text in one piece. The mask is for proxies, of which there are none: zero does.
    fn send(&mut self, text: &str) {
        let mut frame = vec![0x81];
        match text.len() {
            length @ 0..126 => frame.push(0x80 | length as u8),
            length @ 126..65_536 => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
            length => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.stream.write_all(&frame).unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        loop {
            let mut head = [0; 2];
            self.stream.read_exact(&mut head).expect("the browser answers in time");
            let length = match head[1] & 0x7f {
                126 => {
                    let mut bytes = [0; 2];
                    self.stream.read_exact(&mut bytes).unwrap();
                    u64::from(u16::from_be_bytes(bytes))
                }
                127 => {
                    let mut bytes = [0; 8];
                    self.stream.read_exact(&mut bytes).unwrap();
                    u64::from_be_bytes(bytes)
                }
                short => u64::from(short),
            };
            let mut part = vec![0; length as usize];
            self.stream.read_exact(&mut part).unwrap();
            match head[0] & 0x0f {
                0 | 1 => message.extend(part),
                8 => panic!("the browser closed the connection"),
                _ => continue, // Pings, of which DevTools sends none that need an answer.
            }
            if head[0] & 0x80 != 0 {
                return serde_json::from_slice(&message).unwrap();
            }
        }
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&mut self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let id = self.last;
        let mut command = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        self.send(&command.to_string());
        loop {
            let message = self.receive();
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            if message["method"].is_string() {
                self.events.push_back(message);
            }
        }
    }
}
