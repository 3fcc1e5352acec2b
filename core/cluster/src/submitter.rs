//! Gets this node's submissions into the log, each exactly once: a number is given once and kept over every retry.

use atoll_types::{Bounded, Bug, Cookie, Gauge, NodeId, Request, Rng, Sequence, Submission, Time, planted};
use std::time::Duration;

/// Room beyond the callers' limit for the node's own requests, such as answers to barriers: they must not starve.
const RESERVE: usize = 80;

#[derive(Debug)]
struct Outstanding {
    sequence: Sequence,
    request: Request,
    /// The caller's name for it; the node's own requests have none.
    ticket: Option<u64>,
    attempts: u32,
    due: Time,
}

#[derive(Debug)]
pub struct Submitter {
    node: NodeId,
    cookie: Cookie,
    next: Sequence,
    outstanding: Bounded<Outstanding>,
    /// What callers may have waiting, and how often one was turned away.
    limit: usize,
    turned_away: u64,
    retry: Duration,
    retry_most: Duration,
}

impl Submitter {
    pub fn new(node: NodeId, cookie: Cookie, limit: usize, retry: Duration, retry_most: Duration) -> Submitter {
        Submitter {
            node,
            cookie,
            next: Sequence(1),
            outstanding: Bounded::new(limit + RESERVE),
            limit,
            turned_away: 0,
            retry,
            retry_most,
        }
    }

    /// Takes a request, to be sent when `take_due` is called next. False when too much waits already.
    pub fn submit(&mut self, now: Time, request: Request, ticket: Option<u64>) -> bool {
        if ticket.is_some() && self.outstanding.len() >= self.limit {
            self.turned_away += 1;
            return false;
        }
        let outstanding = Outstanding { sequence: self.next, request, ticket, attempts: 0, due: now };
        let taken = self.outstanding.push(outstanding).is_ok();
        if taken {
            self.next.0 += 1;
        }
        taken
    }

    /// Is there one like this on its way?
    pub fn is_waiting_for(&self, wanted: impl Fn(&Request) -> bool) -> bool {
        self.outstanding.iter().any(|outstanding| wanted(&outstanding.request))
    }

    /// What is to be sent to the leader now, at first or again, each with how often it was tried before.
    pub fn take_due(&mut self, now: Time, rng: &mut Rng) -> Vec<(u32, Submission)> {
        let floor = self.outstanding.iter().map(|outstanding| outstanding.sequence).min().unwrap_or(self.next);
        let mut due = Vec::new();
        for outstanding in self.outstanding.iter_mut().filter(|outstanding| outstanding.due <= now) {
            if outstanding.attempts > 0 && planted(Bug::SubmitterRenumbers) {
                outstanding.sequence = self.next;
                self.next.0 += 1;
            }
            let doubled = self.retry * 2u32.saturating_pow(outstanding.attempts.min(16));
            let pause = doubled.min(self.retry_most);
            outstanding.attempts += 1;
            outstanding.due = now + rng.between(pause, pause * 2);
            let submission = Submission {
                node: self.node,
                cookie: self.cookie,
                sequence: outstanding.sequence,
                floor,
                request: outstanding.request.clone(),
            };
            due.push((outstanding.attempts - 1, submission));
        }
        due
    }

    pub fn due(&self) -> Time {
        self.outstanding.iter().map(|outstanding| outstanding.due).min().unwrap_or(Time::NEVER)
    }

    /// There is a new leader: what waits is sent to it soon, from the shortest back-off on.
    pub fn on_new_leader(&mut self, now: Time) {
        for outstanding in self.outstanding.iter_mut() {
            outstanding.attempts = outstanding.attempts.min(1);
            outstanding.due = outstanding.due.min(now);
        }
    }

    /// This number stands in the log: tells the ticket it was taken under, if it was still waited for.
    pub fn on_taken(&mut self, sequence: Sequence) -> Option<Option<u64>> {
        let ticket = self.outstanding.iter().find(|outstanding| outstanding.sequence == sequence)?.ticket;
        self.outstanding.retain(|outstanding| outstanding.sequence != sequence);
        Some(ticket)
    }

    /// A snapshot skipped over entries this node never saw: tells what was taken among them, and drops it.
    pub fn on_skipped(&mut self, taken: impl Fn(Sequence) -> bool) -> Vec<(u64, Request)> {
        let mut skipped = Vec::new();
        self.outstanding.retain(|outstanding| {
            let done = taken(outstanding.sequence);
            if done && let Some(ticket) = outstanding.ticket {
                skipped.push((ticket, outstanding.request.clone()));
            }
            !done
        });
        skipped
    }

    /// Gives up on everything: tells the tickets whose fate nobody here will learn.
    pub fn abandon(&mut self) -> Vec<u64> {
        self.outstanding.drain().filter_map(|outstanding| outstanding.ticket).collect()
    }

    pub fn gauge(&self) -> Gauge {
        Gauge { limit: self.limit, turned_away: self.turned_away, ..self.outstanding.gauge() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::Payload;

    fn submitter(limit: usize) -> Submitter {
        Submitter::new(NodeId(1), Cookie(5), limit, Duration::from_millis(100), Duration::from_millis(400))
    }

    fn user() -> Request {
        Request::User(Payload::default())
    }

    #[test]
    fn a_retry_keeps_its_number_and_backs_off() {
        let mut rng = Rng::new(1);
        let mut submitter = submitter(4);
        assert!(submitter.submit(Time(0), user(), Some(7)));
        let mut now = Time(0);
        let mut pauses = Vec::new();
        for _ in 0..5 {
            let sent = submitter.take_due(now, &mut rng);
            assert_eq!(sent.iter().map(|(_, sent)| sent.sequence).collect::<Vec<_>>(), [Sequence(1)]);
            pauses.push(submitter.due().since(now));
            now = submitter.due();
        }
        assert!(pauses[0] < pauses[2] && pauses[4] < Duration::from_millis(801), "{pauses:?}");
        assert_eq!(submitter.on_taken(Sequence(1)), Some(Some(7)));
        assert_eq!(submitter.on_taken(Sequence(1)), None);
        assert_eq!(submitter.due(), Time::NEVER);
    }

    #[test]
    fn the_floor_is_the_lowest_number_waited_for() {
        let mut rng = Rng::new(1);
        let mut submitter = submitter(4);
        (0..3).for_each(|_| assert!(submitter.submit(Time(0), user(), None)));
        submitter.on_taken(Sequence(1));
        let floors: Vec<u64> = submitter.take_due(Time(0), &mut rng).iter().map(|(_, sent)| sent.floor.0).collect();
        assert_eq!(floors, [2, 2]);
    }

    #[test]
    fn a_full_submitter_says_so() {
        let mut submitter = submitter(1);
        assert!(submitter.submit(Time(0), user(), Some(1)));
        assert!(!submitter.submit(Time(0), user(), Some(2)));
        assert_eq!(submitter.abandon(), [1]);
    }
}
