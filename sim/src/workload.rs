//! The load: submissions and broadcasts on random hosts, and answers to barriers.
//!
//! Not here: what became of each submission (`check/once.rs`).

use crate::Violation;
use crate::clock::Moment;
use crate::plan::LoadPlan;
use crate::world::{Happening, World};
use atoll_node::Input;
use atoll_types::{Payload, Rng, Slot};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Workload {
    rng: Rng,
    plan: LoadPlan,
    /// Distinguishes the answers of one node to one barrier, so that a checker sees which one counted.
    answers: u64,
}

impl Workload {
    pub(crate) fn new(rng: Rng, plan: LoadPlan) -> Workload {
        Workload { rng, plan, answers: 0 }
    }

    /// Bytes that occur once in a run: the ticket and the seed, and something to fill them up.
    fn payload(&mut self, seed: u64, ticket: u64) -> Payload {
        let length = 8 + self.rng.below(57) as usize;
        let mut bytes = vec![0; length];
        bytes[..8].copy_from_slice(&(ticket | seed << 40).to_le_bytes());
        for place in &mut bytes[8..] {
            *place = self.rng.below(256) as u8;
        }
        Payload::from(bytes)
    }

    pub(crate) fn answer(&mut self, host: usize, life: u32, barrier: Slot) -> Payload {
        self.answers += 1;
        let text = format!("n{} life {life} barrier {barrier} answer {}", host + 1, self.answers);
        Payload::from(text.as_bytes())
    }
}

impl World {
    pub(crate) fn next_load(&mut self) -> Result<(), Violation> {
        if self.faults.over {
            return Ok(());
        }
        let pace = self.workload.plan.pace;
        let pause = self.workload.rng.between(pace / 4, pace * 7 / 4);
        self.push(self.now.after(pause), Happening::Load);
        let host = self.workload.rng.below(self.hosts.len() as u64) as usize;
        if self.workload.rng.one_in(self.workload.plan.broadcast) {
            return self.broadcast(host);
        }
        let burst = self.workload.rng.one_in(self.workload.plan.burst);
        let count = if burst { 2 + self.workload.rng.below(40) } else { 1 };
        for _ in 0..count {
            self.submit(host)?;
        }
        Ok(())
    }

    /// Submits something new on `host`, if a process runs there, and gives its ticket.
    pub(crate) fn submit(&mut self, host: usize) -> Result<Option<u64>, Violation> {
        if !self.hosts[host].is_running() {
            return Ok(None);
        }
        let ticket = self.checks.once.submit(host);
        let payload = self.workload.payload(self.seed, ticket);
        self.checks.once.carries(ticket, payload.clone());
        self.trace.happened(self.now, host, ticket);
        self.step(host, Input::Submit { ticket, payload })?;
        Ok(Some(ticket))
    }

    fn broadcast(&mut self, host: usize) -> Result<(), Violation> {
        if !self.hosts[host].is_running() {
            return Ok(());
        }
        let ticket = self.checks.once.order(host);
        let payload = self.workload.payload(self.seed, ticket);
        self.trace.happened(self.now, host, ticket);
        self.step(host, Input::Broadcast { ticket, payload })
    }

    /// The application on `host` heard of a barrier. It answers after a while, now and then twice.
    pub(crate) fn plan_answers(&mut self, host: usize, barrier: Slot) {
        let think = self.workload.plan.think;
        let count = if self.workload.rng.one_in(6) { 2 } else { 1 };
        let life = self.hosts[host].lives;
        for _ in 0..count {
            let delay = self.workload.rng.between(Duration::ZERO, think);
            let at: Moment = self.now.after(delay);
            self.push(at, Happening::Answer { host: host as u32, life, barrier });
        }
    }
}
