//! Replies in the order of their requests, while answers come in any order.
//!
//! ```text
//!   push ─▶ [ answered | waiting | answered | late ] ─▶ flush: as far as there is no gap
//! ```
//!
//! The number of a request to the core is its place in the line and its part of the reply, so that an answer finds its
//! place at once.

use super::expect::{Expect, Gather};
use super::reply::{Protocol, Reply};
use crate::clock::Clock;
use atoll_node::shard::door::Answer;
use std::collections::VecDeque;

/// A reply may have so many parts, less one: there are 16,384 slots, and two questions for each at most.
const PARTS: u64 = 1 << 17;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// The place of the first in line; those before it are gone.
    first: u64,
    line: VecDeque<Waiting>,
    /// Bytes of requests in line, and of answers that came before their turn.
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    protocol: Protocol,
    bytes: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Ready(Vec<u8>),
    One(Expect, Option<Answer>),
    Many(Box<Many>),
    /// A command that takes several steps; always the last in line.
    Late,
}

#[derive(Debug)]
struct Many {
    gather: Gather,
    answers: Vec<Answer>,
    missing: usize,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.line.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn push(&mut self, protocol: Protocol, bytes: usize, state: State) -> u64 {
        self.bytes += bytes;
        self.line.push_back(Waiting { protocol, bytes, state });
        (self.first + self.line.len() as u64 - 1) * PARTS
    }

    pub(crate) fn push_ready(&mut self, protocol: Protocol, reply: Vec<u8>) {
        self.push(protocol, reply.len(), State::Ready(reply));
    }

    /// Gives the number under which the answer is expected.
    pub(crate) fn push_one(&mut self, protocol: Protocol, bytes: usize, expect: Expect) -> u64 {
        self.push(protocol, bytes, State::One(expect, None))
    }

    /// Gives the number of the first part; the others follow.
    pub(crate) fn push_many(&mut self, protocol: Protocol, bytes: usize, gather: Gather, parts: usize) -> u64 {
        // Whoever never answers does not know.
        let answers = vec![Answer::Unknown; parts];
        let many = Many { gather, answers, missing: parts };
        self.push(protocol, bytes, State::Many(Box::new(many)))
    }

    pub(crate) fn push_late(&mut self, protocol: Protocol, bytes: usize) {
        self.push(protocol, bytes, State::Late);
    }

    pub(crate) fn finish_late(&mut self, reply: Vec<u8>) {
        if let Some(last) = self.line.back_mut() {
            last.bytes += reply.len();
            self.bytes += reply.len();
            last.state = State::Ready(reply);
        }
    }

    /// Keeps the answer until its turn comes; or writes it, where it has come and `out` has less than `most` bytes.
    pub(crate) fn answer(&mut self, number: u64, answer: Answer, out: &mut Vec<u8>, most: usize, clock: &Clock) {
        if number == self.first * PARTS
            && out.len() < most
            && let Some(Waiting { protocol, bytes, state: State::One(expect, None) }) = self.line.front()
        {
            expect.write(&answer, clock, &mut Reply { out, protocol: *protocol });
            self.bytes -= bytes;
            self.line.pop_front();
            self.first += 1;
            return;
        }
        let (place, part) = (number / PARTS, (number % PARTS) as usize);
        let place = place.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let Some(waiting) = place.and_then(|place| self.line.get_mut(place)) else { return };
        let bytes = size(&answer);
        match &mut waiting.state {
            State::One(_, given) => *given = Some(answer),
            State::Many(many) => {
                let Some(given) = many.answers.get_mut(part) else { return };
                *given = answer;
                many.missing = many.missing.saturating_sub(1);
            }
            State::Ready(_) | State::Late => return,
        }
        waiting.bytes += bytes;
        self.bytes += bytes;
    }

    /// Writes what is ready, in order, until `out` has `most` bytes.
    pub(crate) fn flush(&mut self, out: &mut Vec<u8>, most: usize, clock: &Clock) {
        while out.len() < most
            && let Some(waiting) = self.line.front()
        {
            let reply = &mut Reply { out, protocol: waiting.protocol };
            match &waiting.state {
                State::Ready(bytes) => reply.out.extend_from_slice(bytes),
                State::One(expect, Some(answer)) => expect.write(answer, clock, reply),
                State::Many(many) if many.missing == 0 => many.gather.write(&many.answers, reply),
                State::One(_, None) | State::Many(_) | State::Late => return,
            }
            self.bytes -= waiting.bytes;
            self.line.pop_front();
            self.first += 1;
        }
    }
}

pub(crate) fn size(answer: &Answer) -> usize {
    match answer {
        Answer::Done { payload, .. } => payload.len(),
        Answer::NotApplied(_) | Answer::Unknown => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_keep_the_order_of_their_requests() {
        let clock = Clock::start();
        let mut queue = Queue::default();
        let first = queue.push_one(Protocol::Two, 10, Expect::Value);
        let second = queue.push_many(Protocol::Two, 10, Gather::Kind, 2);
        queue.push_ready(Protocol::Two, b"+PONG\r\n".to_vec());
        let mut out = Vec::new();
        let answer = |queue: &mut Queue, number: u64, out: &mut Vec<u8>| {
            queue.answer(number, Answer::Unknown, out, 1000, &clock);
        };
        answer(&mut queue, second + 1, &mut out);
        queue.flush(&mut out, 1000, &clock);
        assert!(out.is_empty(), "the first is missing");
        queue.answer(first, Answer::Unknown, &mut out, 0, &clock);
        assert!(out.is_empty(), "there is no room now");
        queue.flush(&mut out, 1000, &clock);
        assert!(out.starts_with(b"-UNKNOWN") && out.ends_with(b"\r\n"));
        assert_eq!(queue.len(), 2, "half of the second is missing");
        answer(&mut queue, second, &mut out);
        queue.flush(&mut out, 1000, &clock);
        assert!(out.ends_with(b"+PONG\r\n"));
        assert_eq!((queue.len(), queue.bytes()), (0, 0));
        answer(&mut queue, first, &mut out);
        answer(&mut queue, u64::MAX, &mut out);
        let third = queue.push_one(Protocol::Two, 10, Expect::Value);
        let before = out.len();
        answer(&mut queue, third, &mut out);
        assert!(out.len() > before, "one whose turn it is is not kept");
        assert_eq!((queue.len(), queue.bytes()), (0, 0));
    }
}
