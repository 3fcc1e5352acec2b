//! Rule: every request that a node accepts is answered exactly once in that node's life, and in time.

use crate::Violation;
use crate::clock::Moment;
use crate::host::Host;
use crate::plan::host_name;
use std::collections::BTreeMap;
use std::time::Duration;

const RULE: &str = "callers";

/// Beyond the time that a request may wait: the node's timers run by its own clock, which may be slow.
const SLACK: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
struct Asked {
    host: usize,
    life: u32,
    at: Moment,
}

#[derive(Debug, Default)]
pub(crate) struct Callers {
    /// Not answered yet, by the number of the request.
    waiting: BTreeMap<u64, Asked>,
    /// When each host that stood still went on: it has a moment to see what time it is.
    resumed: BTreeMap<usize, Moment>,
}

impl Callers {
    pub(crate) fn on_asked(&mut self, request: u64, host: usize, life: u32, at: Moment) {
        self.waiting.insert(request, Asked { host, life, at });
    }

    pub(crate) fn on_answer(&mut self, request: u64, host: usize, life: u32) -> Result<(), Violation> {
        match self.waiting.remove(&request) {
            Some(asked) if (asked.host, asked.life) == (host, life) => Ok(()),
            Some(asked) => {
                let detail = format!("{} answers request {request}, which was asked of {asked:?}", host_name(host));
                Err(Violation::of(RULE, detail))
            }
            None => {
                let detail = format!("{} answers request {request}, which does not wait", host_name(host));
                Err(Violation::of(RULE, detail))
            }
        }
    }

    pub(crate) fn on_resume(&mut self, host: usize, now: Moment) {
        self.resumed.insert(host, now);
    }

    /// A part of the host went on that had hung since then: it has what came for it meanwhile only now.
    pub(crate) fn on_moving(&mut self, host: usize, since: Moment, now: Moment) {
        for asked in self.waiting.values_mut().filter(|asked| asked.host == host && asked.at >= since) {
            asked.at = now;
        }
        self.on_resume(host, now);
    }

    pub(crate) fn on_stop(&mut self, host: usize) {
        self.waiting.retain(|_, asked| asked.host != host);
    }

    /// A request that has waited for too long, on a host that runs.
    pub(crate) fn check(&self, hosts: &[Host], now: Moment) -> Result<(), Violation> {
        for (request, asked) in &self.waiting {
            let most = hosts[asked.host].config.timing.request * 21 / 20 + SLACK;
            let awake = self.resumed.get(&asked.host).is_none_or(|resumed| now > resumed.after(SLACK));
            let moves = hosts[asked.host].is_running() && hosts[asked.host].hanging.is_empty();
            if moves && awake && now > asked.at.after(most) {
                let name = host_name(asked.host);
                let detail = format!("{name} has not answered request {request}, asked at {:?}", asked.at);
                return Err(Violation::of(RULE, detail));
            }
        }
        Ok(())
    }

    pub(crate) fn waiting(&self) -> Option<String> {
        let (request, asked) = self.waiting.iter().next()?;
        Some(format!("request {request} waits at {} since {:?}", host_name(asked.host), asked.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_due_once_and_to_the_life_that_was_asked() {
        let mut callers = Callers::default();
        callers.on_asked(7, 0, 1, Moment(5));
        assert!(callers.on_answer(7, 0, 2).is_err(), "another life");
        callers.on_asked(8, 0, 2, Moment(6));
        assert!(callers.on_answer(8, 0, 2).is_ok());
        assert!(callers.on_answer(8, 0, 2).is_err(), "twice");
        callers.on_asked(9, 0, 2, Moment(7));
        callers.on_stop(0);
        assert!(callers.waiting().is_none(), "nobody waits for a process that is gone");
    }
}
