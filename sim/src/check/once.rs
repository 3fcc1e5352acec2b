//! Rule: what is submitted is delivered at most once in a log, at one slot everywhere; an answer "submitted" means that
//! it stands there, an answer "rejected" that it never will; and every ticket is answered, once, unless its host's life
//! ends.

use super::logs::Logs;
use crate::Violation;
use crate::host::Host;
use crate::plan::host_name;
use atoll_types::{Body, Payload, Request, Slot};
use std::collections::BTreeMap;

const RULE: &str = "once";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Waiting,
    Submitted(Slot),
    Rejected,
    Unknown,
    /// The process that would have answered is gone.
    Lost,
}

#[derive(Debug)]
struct Ticket {
    host: usize,
    /// None for a broadcast or an operator's order.
    payload: Option<Payload>,
    answer: Answer,
    /// At which slot, in which log.
    delivered: Vec<(usize, Slot)>,
}

#[derive(Debug, Default)]
pub(crate) struct Once {
    tickets: Vec<Ticket>,
    by_payload: BTreeMap<Payload, usize>,
    /// Tickets not answered, per host.
    waiting: BTreeMap<usize, Vec<u64>>,
}

impl Once {
    fn open(&mut self, host: usize) -> u64 {
        let ticket = self.tickets.len() as u64;
        self.tickets.push(Ticket { host, payload: None, answer: Answer::Waiting, delivered: Vec::new() });
        self.waiting.entry(host).or_default().push(ticket);
        ticket
    }

    /// A ticket for a submission; `carries` tells what it carries.
    pub(crate) fn submit(&mut self, host: usize) -> u64 {
        self.open(host)
    }

    pub(crate) fn carries(&mut self, ticket: u64, payload: Payload) {
        self.by_payload.insert(payload.clone(), ticket as usize);
        self.tickets[ticket as usize].payload = Some(payload);
    }

    /// A ticket for a broadcast or an operator's order.
    pub(crate) fn order(&mut self, host: usize) -> u64 {
        self.open(host)
    }

    pub(crate) fn on_stop(&mut self, host: usize) {
        for ticket in self.waiting.remove(&host).unwrap_or_default() {
            self.tickets[ticket as usize].answer = Answer::Lost;
        }
    }

    fn answer(&mut self, host: usize, ticket: u64, answer: Answer) -> Result<&Ticket, Violation> {
        let name = host_name(host);
        let Some(entry) = self.tickets.get_mut(ticket as usize) else {
            return Err(Violation::of(RULE, format!("{name} answers ticket {ticket}, which nobody has")));
        };
        if entry.host != host || entry.answer != Answer::Waiting {
            let detail = format!("{name} answers ticket {ticket} with {answer:?}; it is {entry:?}");
            return Err(Violation::of(RULE, detail));
        }
        entry.answer = answer;
        if let Some(waiting) = self.waiting.get_mut(&host) {
            waiting.retain(|&other| other != ticket);
        }
        Ok(entry)
    }

    pub(crate) fn on_submitted(
        &mut self,
        logs: &Logs,
        lineage: Option<usize>,
        host: usize,
        ticket: u64,
        slot: Slot,
        skipped: bool,
    ) -> Result<(), Violation> {
        let entry = self.answer(host, ticket, Answer::Submitted(slot))?;
        let Some(payload) = &entry.payload else { return Ok(()) };
        let stands = lineage.and_then(|lineage| logs.get(lineage).entry(slot)).is_some_and(|entry| {
            matches!(&entry.body, Body::Submission(submission)
                if matches!(&submission.request, Request::User(user) if user == payload))
        });
        // A node that went on from a snapshot only knows that it stands somewhere below.
        let below = skipped
            && lineage.is_some_and(|lineage| entry.delivered.iter().any(|&(log, at)| log == lineage && at <= slot));
        if !stands && !below {
            let detail = format!("{} says ticket {ticket} stands at slot {slot}: it does not", host_name(host));
            return Err(Violation::of(RULE, detail));
        }
        Ok(())
    }

    pub(crate) fn on_rejected(&mut self, host: usize, ticket: u64) -> Result<(), Violation> {
        let entry = self.answer(host, ticket, Answer::Rejected)?;
        if !entry.delivered.is_empty() {
            let detail = format!("{} rejects ticket {ticket}, which was delivered: {entry:?}", host_name(host));
            return Err(Violation::of(RULE, detail));
        }
        Ok(())
    }

    pub(crate) fn on_unknown(&mut self, host: usize, ticket: u64) -> Result<(), Violation> {
        self.answer(host, ticket, Answer::Unknown).map(|_| ())
    }

    pub(crate) fn on_delivered(
        &mut self,
        lineage: usize,
        host: usize,
        slot: Slot,
        payload: &Payload,
    ) -> Result<(), Violation> {
        let name = host_name(host);
        let Some(&ticket) = self.by_payload.get(payload) else {
            return Err(Violation::of(RULE, format!("{name} delivers {payload:?}, which nobody submitted")));
        };
        let entry = &mut self.tickets[ticket];
        if entry.answer == Answer::Rejected {
            return Err(Violation::of(RULE, format!("{name} delivers ticket {ticket} at {slot}, which was rejected")));
        }
        match entry.delivered.iter().find(|(other, _)| *other == lineage) {
            Some((_, first)) if *first != slot => {
                let detail = format!("{name} delivers ticket {ticket} at {slot}, and it was delivered at {first}");
                Err(Violation::of(RULE, detail))
            }
            Some(_) => Ok(()),
            None => {
                entry.delivered.push((lineage, slot));
                Ok(())
            }
        }
    }

    /// A new log begins as a copy of another: what was delivered there was delivered here.
    pub(crate) fn on_fork(&mut self, parent: usize, fork: Slot, child: usize) {
        for ticket in &mut self.tickets {
            let kept = ticket.delivered.iter().find(|(lineage, slot)| *lineage == parent && *slot <= fork).copied();
            ticket.delivered.extend(kept.map(|(_, slot)| (child, slot)));
        }
    }

    pub(crate) fn is_submitted(&self, ticket: u64) -> bool {
        matches!(self.tickets[ticket as usize].answer, Answer::Submitted(_))
    }

    /// A ticket that is still not answered.
    pub(crate) fn waiting(&self, hosts: &[Host]) -> Option<String> {
        let (host, tickets) =
            self.waiting.iter().find(|(host, tickets)| hosts[**host].is_up() && !tickets.is_empty())?;
        Some(format!("{} has not answered tickets {tickets:?}", host_name(*host)))
    }
}
