//! NATS JetStream: each write is published with a subject to answer to, and counts when the stream has acknowledged it.

use super::protocol::{Event, Protocol, Work, line, part};

#[derive(Debug)]
pub(crate) struct Nats {
    /// Where acknowledgements go; nobody else's.
    inbox: String,
    greeted: bool,
}

impl Nats {
    pub(crate) fn new(number: u64) -> Nats {
        Nats { inbox: format!("_INBOX.lab{}x{number}", std::process::id()), greeted: false }
    }
}

/// Writes go to `lab.KEY`, which the stream must have among its subjects.
pub(crate) const SUBJECT: &str = "lab";

impl Protocol for Nats {
    fn greet(&mut self, out: &mut Vec<u8>) -> bool {
        let options = r#"{"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"lang":"lab"}"#;
        out.extend_from_slice(format!("CONNECT {options}\r\nSUB {} 1\r\nPING\r\n", self.inbox).as_bytes());
        false
    }

    fn ask(&mut self, work: Work, keys: &[&str], value: &[u8], out: &mut Vec<u8>) {
        for key in keys {
            match work {
                Work::Put | Work::Create => {
                    let head = format!("PUB {SUBJECT}.{key} {} {}\r\n", self.inbox, value.len());
                    out.extend_from_slice(head.as_bytes());
                    out.extend_from_slice(value);
                }
                // The value itself comes back, with the message's own header.
                Work::Get => {
                    let head = format!("PUB $JS.API.DIRECT.GET.LAB.{SUBJECT}.{key} {} 0\r\n", self.inbox);
                    out.extend_from_slice(head.as_bytes());
                }
            }
            out.extend_from_slice(b"\r\n");
        }
    }

    fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Event) {
        let Some((text, taken)) = line(input) else { return part() };
        let word = text.split(' ').next().unwrap_or_default();
        match word {
            "MSG" | "HMSG" => {
                let length = text.rsplit(' ').next().and_then(|last| last.parse::<usize>().ok()).unwrap_or(0);
                let Some(body) = input.get(taken..taken + length + 2) else { return part() };
                let body = String::from_utf8_lossy(&body[..length]);
                // Without a responder, the header says 503; the stream's own refusals are JSON with an error in it.
                let refused = body.contains("\"error\"") || body.starts_with("NATS/1.0 503") || body.contains(" 404 ");
                let why = || body.chars().take(80).collect();
                (taken + length + 2, if refused { Event::Failed(why()) } else { Event::Done(1) })
            }
            "PING" => {
                out.extend_from_slice(b"PONG\r\n");
                (taken, Event::Nothing)
            }
            "PONG" if !self.greeted => {
                self.greeted = true;
                (taken, Event::Ready)
            }
            "-ERR" => (taken, Event::Failed(text.to_owned())),
            _ => (taken, Event::Nothing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{feed, feed_bytewise};
    use super::*;

    #[test]
    fn a_publish_counts_when_the_stream_answers() {
        let mut nats = Nats::new(7);
        let answer = b"INFO {}\r\nPONG\r\nMSG _INBOX.x 1 24\r\n{\"stream\":\"LAB\",\"seq\":1}\r\n";
        assert_eq!(feed_bytewise(&mut nats, answer), [Event::Nothing, Event::Ready, Event::Done(1)]);
    }

    #[test]
    fn nobody_there_is_a_failure_and_a_ping_is_answered() {
        let (mut nats, mut out) = (Nats::new(7), Vec::new());
        let answer = b"PING\r\nHMSG _INBOX.x 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n-ERR 'no'\r\n";
        let events = feed(&mut nats, answer, &mut out);
        assert_eq!(out, b"PONG\r\n");
        assert_eq!(events[0], Event::Nothing);
        assert!(matches!(&events[1], Event::Failed(why) if why.starts_with("NATS/1.0 503")));
        assert!(matches!(&events[2], Event::Failed(_)));
    }

    #[test]
    fn the_subject_is_of_the_stream() {
        let mut out = Vec::new();
        Nats::new(7).ask(Work::Put, &["k1"], b"abc", &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("PUB lab.k1 _INBOX.lab") && text.ends_with("x7 3\r\nabc\r\n"), "{text}");
    }
}
