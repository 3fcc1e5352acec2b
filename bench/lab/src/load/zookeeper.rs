//! ZooKeeper: big-endian records with a length in front. A node is made once with `create` and written with `setData`;
//! a read is `sync` and `getData`, since `getData` alone may be old.

use super::protocol::{Event, Protocol, Work, part};

const CREATE: i32 = 1;
const GET: i32 = 4;
const SET: i32 = 5;
const SYNC: i32 = 9;
const NODE_EXISTS: i32 = -110;

#[derive(Debug, Default)]
pub(crate) struct ZooKeeper {
    connected: bool,
    next: i32,
}

impl Protocol for ZooKeeper {
    fn greet(&mut self, out: &mut Vec<u8>) -> bool {
        let mut body = Vec::new();
        int(&mut body, 0);
        long(&mut body, 0);
        int(&mut body, 10_000);
        long(&mut body, 0);
        buffer(&mut body, &[0; 16]);
        record(out, &body);
        false
    }

    fn ask(&mut self, work: Work, keys: &[&str], value: &[u8], out: &mut Vec<u8>) {
        for key in keys {
            let path = format!("/{key}");
            match work {
                Work::Create => self.request(out, CREATE, |body| {
                    buffer(body, path.as_bytes());
                    buffer(body, value);
                    // One access rule: everything, for everybody.
                    int(body, 1);
                    int(body, 31);
                    buffer(body, b"world");
                    buffer(body, b"anyone");
                    int(body, 0);
                }),
                Work::Put => self.request(out, SET, |body| {
                    buffer(body, path.as_bytes());
                    buffer(body, value);
                    int(body, -1);
                }),
                Work::Get => {
                    self.request(out, SYNC, |body| buffer(body, path.as_bytes()));
                    self.request(out, GET, |body| {
                        buffer(body, path.as_bytes());
                        body.push(0);
                    });
                }
            }
        }
    }

    fn take(&mut self, input: &[u8], _out: &mut Vec<u8>) -> (usize, Event) {
        let Some(length) = int_at(input, 0).map(|length| length.max(0) as usize) else { return part() };
        let Some(body) = input.get(4..4 + length) else { return part() };
        let taken = 4 + length;
        if !self.connected {
            self.connected = true;
            return (taken, Event::Ready);
        }
        let (Some(number), Some(error)) = (int_at(body, 0), int_at(body, 12)) else {
            return (taken, Event::Failed("an answer without a head".to_owned()));
        };
        let event = match error {
            // The `sync` before a read has an even number, and says nothing yet.
            0 if number % 2 == 0 => Event::Nothing,
            0 | NODE_EXISTS => Event::Done(1),
            _ => Event::Failed(format!("error {error}")),
        };
        (taken, event)
    }
}

impl ZooKeeper {
    /// What counts has an odd number, a `sync` an even one.
    fn request(&mut self, out: &mut Vec<u8>, kind: i32, fill: impl FnOnce(&mut Vec<u8>)) {
        self.next = (self.next + 1) & 0x3fff_ffff;
        let counts = i32::from(kind != SYNC);
        let mut body = Vec::new();
        int(&mut body, self.next * 2 + counts);
        int(&mut body, kind);
        fill(&mut body);
        record(out, &body);
    }
}

fn int(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn long(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn buffer(out: &mut Vec<u8>, bytes: &[u8]) {
    int(out, bytes.len() as i32);
    out.extend_from_slice(bytes);
}

fn record(out: &mut Vec<u8>, body: &[u8]) {
    buffer(out, body);
}

fn int_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk::<4>().map(|four| i32::from_be_bytes(*four))
}

#[cfg(test)]
mod tests {
    use super::super::protocol::feed_bytewise;
    use super::*;

    fn answer(number: i32, error: i32) -> Vec<u8> {
        let (mut body, mut out) = (Vec::new(), Vec::new());
        int(&mut body, number);
        long(&mut body, 99);
        int(&mut body, error);
        record(&mut out, &body);
        out
    }

    #[test]
    fn what_has_no_error_counts_and_a_node_that_is_there_as_well() {
        let mut bytes = Vec::new();
        record(&mut bytes, &[0; 36]);
        for (number, error) in [(1, 0), (2, 0), (3, NODE_EXISTS), (5, -101)] {
            bytes.extend(answer(number, error));
        }
        let events = feed_bytewise(&mut ZooKeeper::default(), &bytes);
        let wanted = [Event::Ready, Event::Done(1), Event::Nothing, Event::Done(1)];
        assert_eq!(events[..4], wanted);
        assert_eq!(events[4], Event::Failed("error -101".to_owned()));
    }

    #[test]
    fn a_write_is_a_path_a_value_and_any_version() {
        let mut out = Vec::new();
        ZooKeeper::default().ask(Work::Put, &["k"], b"v", &mut out);
        assert_eq!(out, b"\0\0\0\x17\0\0\0\x03\0\0\0\x05\0\0\0\x02/k\0\0\0\x01v\xff\xff\xff\xff");
    }
}
