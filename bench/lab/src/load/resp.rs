//! RESP: Atoll, Redis, Valkey and the bare stores. A write to Redis is acknowledged by its replicas only if it is asked
//! to be: `SET` and `WAIT` go out together, one `WAIT` for a whole batch, and the batch counts when that is answered.

use super::protocol::{Event, Protocol, Work, line, part};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// An answer is all there is to wait for.
    Plain,
    /// `WAIT n`: so many replicas have it.
    Replicas(u32),
    /// `WAITAOF 1 n`: it is on the disk here and of so many replicas.
    Disks(u32),
}

#[derive(Debug)]
pub(crate) struct Resp {
    promise: Promise,
    /// Requests of the batch under way.
    batch: usize,
    /// Answers that come before the one to the promise.
    before: usize,
    /// Is a promise asked for in this batch?
    promised: bool,
}

impl Resp {
    pub(crate) fn new(promise: Promise) -> Resp {
        Resp { promise, batch: 0, before: 0, promised: false }
    }
}

impl Protocol for Resp {
    fn greet(&mut self, _out: &mut Vec<u8>) -> bool {
        true
    }

    fn ask(&mut self, work: Work, keys: &[&str], value: &[u8], out: &mut Vec<u8>) {
        self.batch = keys.len();
        self.before = 0;
        self.promised = work != Work::Get && self.promise != Promise::Plain;
        for key in keys {
            match work {
                Work::Get => append(out, &[b"GET", key.as_bytes()]),
                Work::Put | Work::Create => append(out, &[b"SET", key.as_bytes(), value]),
            }
        }
        if !self.promised {
            return;
        }
        match self.promise {
            Promise::Plain => {}
            Promise::Replicas(count) => append(out, &[b"WAIT", count.to_string().as_bytes(), b"2000"]),
            Promise::Disks(count) => append(out, &[b"WAITAOF", b"1", count.to_string().as_bytes(), b"2000"]),
        }
        self.before = keys.len();
    }

    fn take(&mut self, input: &[u8], _out: &mut Vec<u8>) -> (usize, Event) {
        let Some((taken, answer)) = answer(input) else { return part() };
        let event = match answer {
            Answer::Error(error) => Event::Failed(error),
            Answer::Other(_) if self.before > 0 => {
                self.before -= 1;
                Event::Nothing
            }
            Answer::Other(number) => match self.wanted() {
                None => Event::Done(1),
                Some(wanted) if number >= i64::from(wanted) => Event::Done(self.batch),
                Some(wanted) => Event::Failed(format!("{number} of {wanted} replicas")),
            },
        };
        (taken, event)
    }
}

impl Resp {
    /// How many replicas must be counted in the answer that is due, if it is one to a `WAIT`.
    fn wanted(&self) -> Option<u32> {
        match self.promise {
            _ if !self.promised => None,
            Promise::Plain => None,
            Promise::Replicas(count) | Promise::Disks(count) => Some(count),
        }
    }
}

fn append(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

enum Answer {
    Error(String),
    /// A number; of a list the last one; of a text its length, of none −1.
    Other(i64),
}

/// None if it is not all there.
fn answer(input: &[u8]) -> Option<(usize, Answer)> {
    let (text, mut taken) = line(input)?;
    let (kind, rest) = text.split_at_checked(1).unwrap_or(("", ""));
    let number = || rest.parse::<i64>().unwrap_or(-1);
    let answer = match kind {
        "+" => Answer::Other(0),
        ":" => Answer::Other(number()),
        "$" => {
            if let Ok(length) = usize::try_from(number()) {
                taken += length + 2;
                if input.len() < taken {
                    return None;
                }
            }
            Answer::Other(number())
        }
        "*" => {
            let mut last = Answer::Other(-1);
            for _ in 0..number().max(0) {
                let (more, inner) = self::answer(&input[taken..])?;
                taken += more;
                last = inner;
            }
            last
        }
        _ => Answer::Error(rest.to_owned()),
    };
    Some((taken, answer))
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{feed, feed_bytewise};
    use super::*;

    fn asked(promise: Promise, work: Work, keys: &[&str]) -> (Resp, String) {
        let (mut resp, mut out) = (Resp::new(promise), Vec::new());
        resp.ask(work, keys, b"v", &mut out);
        (resp, String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_plain_write_counts_when_it_is_answered() {
        let (mut resp, sent) = asked(Promise::Plain, Work::Put, &["a", "b"]);
        assert_eq!(sent, "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nv\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\nv\r\n");
        let events = feed(&mut resp, b"+OK\r\n-UNKNOWN fate\r\n", &mut Vec::new());
        assert_eq!(events, [Event::Done(1), Event::Failed("UNKNOWN fate".to_owned())]);
    }

    #[test]
    fn a_replicated_batch_counts_when_its_wait_is_answered() {
        let (mut resp, sent) = asked(Promise::Replicas(2), Work::Put, &["a", "b"]);
        assert!(sent.ends_with("*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$4\r\n2000\r\n"));
        let events = feed_bytewise(&mut resp, b"+OK\r\n+OK\r\n:2\r\n");
        assert_eq!(events, [Event::Nothing, Event::Nothing, Event::Done(2)]);
    }

    #[test]
    fn too_few_replicas_are_a_failure() {
        let (mut resp, _) = asked(Promise::Replicas(2), Work::Put, &["a"]);
        let events = feed(&mut resp, b"+OK\r\n:1\r\n", &mut Vec::new());
        assert_eq!(events, [Event::Nothing, Event::Failed("1 of 2 replicas".to_owned())]);
    }

    #[test]
    fn of_two_disks_the_replicas_count() {
        let (mut resp, _) = asked(Promise::Disks(2), Work::Put, &["a"]);
        assert_eq!(feed_bytewise(&mut resp, b"+OK\r\n*2\r\n:1\r\n:2\r\n"), [Event::Nothing, Event::Done(1)]);
    }

    #[test]
    fn a_value_is_an_answer_and_so_is_none() {
        let (mut resp, _) = asked(Promise::Plain, Work::Get, &["a"]);
        assert_eq!(feed_bytewise(&mut resp, b"$3\r\nabc\r\n$-1\r\n"), [Event::Done(1), Event::Done(1)]);
    }
}
