//! etcd by gRPC, its own protocol: as much of HTTP/2 as one client needs. Requests are header fields that need no table
//! and a message of two fields; of an answer only its frames are read. An answer that carries a message is a success,
//! one that ends without is a refusal: so the compressed header fields need not be understood.

use super::protocol::{Event, Protocol, Work, part};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
/// The largest window there is, so that answers never wait for one.
const WINDOW_MOST: u32 = (1 << 31) - 1;
/// The connection's window is opened again after so many bytes.
const WINDOW_STEP: u32 = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Etcd {
    /// Odd numbers are a client's.
    next_stream: u32,
    /// Streams whose answer has had its message.
    answered: Vec<u32>,
    /// Bytes of answers since the window was opened last.
    received: u32,
}

impl Protocol for Etcd {
    fn greet(&mut self, out: &mut Vec<u8>) -> bool {
        self.next_stream = 1;
        out.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        // Setting 4 is the window of each stream.
        let mut settings = vec![0, 4];
        settings.extend_from_slice(&WINDOW_MOST.to_be_bytes());
        frame(out, SETTINGS, 0, 0, &settings);
        frame(out, WINDOW, 0, 0, &(WINDOW_MOST - 65_535).to_be_bytes());
        true
    }

    fn ask(&mut self, work: Work, keys: &[&str], value: &[u8], out: &mut Vec<u8>) {
        for key in keys {
            let (path, message) = match work {
                Work::Get => ("/etcdserverpb.KV/Range", message(&[key.as_bytes()])),
                Work::Put | Work::Create => ("/etcdserverpb.KV/Put", message(&[key.as_bytes(), value])),
            };
            frame(out, HEADERS, END_HEADERS, self.next_stream, &fields(path));
            // Not compressed, and its length.
            let mut data = vec![0];
            data.extend_from_slice(&(message.len() as u32).to_be_bytes());
            data.extend_from_slice(&message);
            frame(out, DATA, END_STREAM, self.next_stream, &data);
            self.next_stream += 2;
        }
    }

    fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Event) {
        let Some((header, rest)) = input.split_first_chunk::<9>() else { return part() };
        let [a, b, c, kind, flags, d, e, f, g] = *header;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let stream = u32::from_be_bytes([d, e, f, g]) & WINDOW_MOST;
        let Some(payload) = rest.get(..length) else { return part() };
        let event = match kind {
            SETTINGS if flags & ACK == 0 => {
                frame(out, SETTINGS, ACK, 0, &[]);
                Event::Nothing
            }
            PING if flags & ACK == 0 => {
                frame(out, PING, ACK, 0, payload);
                Event::Nothing
            }
            DATA => {
                self.open_window(length as u32, out);
                if length > 0 {
                    self.answered.push(stream);
                }
                if flags & END_STREAM != 0 { self.end(stream) } else { Event::Nothing }
            }
            HEADERS if flags & END_STREAM != 0 => self.end(stream),
            RESET => {
                self.answered.retain(|&other| other != stream);
                Event::Failed("stream reset".to_owned())
            }
            GOAWAY => Event::Failed("connection refused further streams".to_owned()),
            _ => Event::Nothing,
        };
        (9 + length, event)
    }
}

impl Etcd {
    fn end(&mut self, stream: u32) -> Event {
        let before = self.answered.len();
        self.answered.retain(|&other| other != stream);
        if self.answered.len() < before { Event::Done(1) } else { Event::Failed("refused".to_owned()) }
    }

    fn open_window(&mut self, bytes: u32, out: &mut Vec<u8>) {
        self.received += bytes;
        if self.received >= WINDOW_STEP {
            frame(out, WINDOW, 0, 0, &self.received.to_be_bytes());
            self.received = 0;
        }
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The header fields of a call: indexed ones of the static table, and literals that enter no table.
fn fields(path: &str) -> Vec<u8> {
    let mut out = vec![0x83, 0x86];
    let mut literal = |name: &[u8], value: &str| {
        out.extend_from_slice(name);
        out.push(value.len() as u8);
        out.extend_from_slice(value.as_bytes());
    };
    literal(&[0x04], path);
    literal(&[0x01], "localhost");
    literal(&[0x0f, 0x10], "application/grpc");
    literal(b"\0\x02te", "trailers");
    out
}

/// A message whose fields 1, 2, … are bytes.
fn message(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        out.push((number as u8 + 1) << 3 | 2);
        let mut length = part.len();
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend_from_slice(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{feed, feed_bytewise};
    use super::*;

    fn greeted() -> Etcd {
        let mut etcd = Etcd::default();
        assert!(etcd.greet(&mut Vec::new()));
        etcd
    }

    fn bytes(frames: &[(u8, u8, u32, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (kind, flags, stream, payload) in frames {
            frame(&mut out, *kind, *flags, *stream, payload);
        }
        out
    }

    #[test]
    fn a_put_is_a_message_of_two_fields_on_a_stream_of_its_own() {
        let (mut etcd, mut out) = (greeted(), Vec::new());
        etcd.ask(Work::Put, &["ab", "cd"], &[b'v'; 200], &mut out);
        assert_eq!(message(&[b"ab", &[b'v'; 200]])[..7], [0x0a, 2, b'a', b'b', 0x12, 0xc8, 1]);
        assert_eq!(etcd.next_stream, 5);
        assert_eq!(out[3..9], [HEADERS, END_HEADERS, 0, 0, 0, 1]);
    }

    #[test]
    fn an_answer_with_a_message_counts_at_its_end() {
        let answer = bytes(&[(HEADERS, END_HEADERS, 1, b"h"), (DATA, 0, 1, b"message"), (HEADERS, 5, 1, b"t")]);
        let events = feed_bytewise(&mut greeted(), &answer);
        assert_eq!(events, [Event::Nothing, Event::Nothing, Event::Done(1)]);
    }

    #[test]
    fn an_answer_without_a_message_is_a_refusal() {
        let answer = bytes(&[(DATA, 0, 3, b"m"), (HEADERS, 5, 1, b"t"), (RESET, 0, 3, &[0; 4])]);
        let events = feed(&mut greeted(), &answer, &mut Vec::new());
        let failed = |why: &str| Event::Failed(why.to_owned());
        assert_eq!(events, [Event::Nothing, failed("refused"), failed("stream reset")]);
    }

    #[test]
    fn settings_and_pings_are_answered_and_the_window_opened() {
        let (mut etcd, mut out) = (greeted(), Vec::new());
        let large = vec![0; WINDOW_STEP as usize];
        feed(&mut etcd, &bytes(&[(SETTINGS, 0, 0, b""), (PING, 0, 0, b"12345678"), (PING, ACK, 0, b"")]), &mut out);
        assert_eq!(out, bytes(&[(SETTINGS, ACK, 0, b""), (PING, ACK, 0, b"12345678")]));
        out.clear();
        feed(&mut etcd, &bytes(&[(DATA, 0, 1, &large)]), &mut out);
        assert_eq!(out, bytes(&[(WINDOW, 0, 0, &WINDOW_STEP.to_be_bytes())]));
    }
}
