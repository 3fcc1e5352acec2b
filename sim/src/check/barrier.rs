//! Rule: a barrier is reduced exactly once on every node, at the slot where the last of the nodes that were present
//! when it was opened has answered or was removed, with exactly the answers that were given until then.

use super::roll::Reduced;
use crate::Violation;
use crate::plan::host_name;
use atoll_types::Slot;

const RULE: &str = "barrier";

/// How many of a log's reductions each host has told.
#[derive(Debug)]
pub(crate) struct Barriers {
    /// The slot up to which the host has told all reductions.
    told: Vec<Slot>,
    /// Reductions told in the step under way.
    raised: Vec<(usize, Reduced)>,
}

impl Barriers {
    pub(crate) fn new(hosts: usize) -> Barriers {
        Barriers { told: vec![Slot::ZERO; hosts], raised: Vec::new() }
    }

    /// The host's next slot is the one after this: what was reduced up to it is none of its business.
    pub(crate) fn begin_after(&mut self, host: usize, slot: Slot) {
        self.told[host] = slot;
        self.raised.retain(|(other, _)| *other != host);
    }

    pub(crate) fn on_reduced(&mut self, host: usize, reduced: Reduced) {
        self.raised.push((host, reduced));
    }

    /// `expected`: all reductions of the log, in order.
    pub(crate) fn after_step(&mut self, host: usize, expected: &[Reduced], position: Slot) -> Result<(), Violation> {
        if self.told[host] >= position && self.raised.is_empty() {
            return Ok(());
        }
        let first = expected.partition_point(|reduced| reduced.at <= self.told[host]);
        let due = expected[first..].iter().take_while(|reduced| reduced.at <= position);
        let raised: Vec<&Reduced> = self.raised.iter().map(|(_, reduced)| reduced).collect();
        let due: Vec<&Reduced> = due.collect();
        if due != raised {
            let detail = format!("{} reduced {raised:?}; the log says {due:?}", host_name(host));
            return Err(Violation::of(RULE, detail));
        }
        self.told[host] = position;
        self.raised.clear();
        Ok(())
    }
}
