//! A client that speaks raw RESP, and shows replies as text a person can read.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) struct Raw {
    stream: BufReader<TcpStream>,
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).expect("a listener");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        Raw { stream: BufReader::new(stream) }
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("an open connection");
    }

    /// Words are separated by blanks.
    pub(crate) fn send(&mut self, line: &str) {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.send_words(&words);
    }

    pub(crate) fn send_words(&mut self, words: &[&[u8]]) {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.send_bytes(&bytes);
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.reply()
    }

    /// Everything until the other side closes.
    pub(crate) fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    }

    /// Whether a reply comes within this time.
    pub(crate) fn is_quiet(&mut self, time: Duration) -> bool {
        self.stream.get_mut().set_read_timeout(Some(time)).expect("a socket");
        let quiet = self.stream.fill_buf().is_err();
        self.stream.get_mut().set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        quiet
    }

    pub(crate) fn reply(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a reply in time");
        let line = line.trim_end();
        assert!(!line.is_empty(), "the connection was closed");
        let (kind, rest) = line.split_at(1);
        let many = |raw: &mut Raw, count: usize| (0..count).map(|_| raw.reply()).collect::<Vec<_>>();
        match (kind, rest) {
            ("+" | "-" | ":", _) => line.to_owned(),
            ("_", _) | ("$" | "*", "-1") => "nil".to_owned(),
            ("$", length) => {
                let mut bytes = vec![0; length.parse::<usize>().expect("a length") + 2];
                self.stream.read_exact(&mut bytes).expect("a reply in time");
                assert!(bytes.ends_with(b"\r\n"));
                String::from_utf8_lossy(&bytes[..bytes.len() - 2]).into_owned()
            }
            ("*", count) => format!("[{}]", many(self, count.parse().expect("a count")).join(" ")),
            ("%", count) => {
                let count: usize = count.parse().expect("a count");
                format!("{{{}}}", many(self, count * 2).join(" "))
            }
            (other, _) => panic!("a reply of kind {other}"),
        }
    }
}
