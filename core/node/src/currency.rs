//! As of when this node knows the cluster log: "everything decided before that moment is applied here".
//!
//! ```text
//!   leader       its majority acknowledged the beat that it sent at T          current as of T
//!     ▲ report, sent at S                │ confirmed: S, age = now - T
//!   somebody     all that the leader had applied then is applied here          current as of S - age
//!     ▲ report …                         │ confirmed …
//! ```
//! Each counts by its own clock, from when it spoke: however long an answer was on its way, it does not make anybody
//! younger. Nobody cut off from the majority stays current, whoever else it still hears.

use atoll_cluster::message::Confirmed;
use atoll_types::{Bug, Slot, Time, planted};
use std::collections::VecDeque;

/// Confirmations that wait for entries. One that is dropped is followed by the next.
const AWAITED_MOST: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Currency {
    /// Everything decided before then, by this node's own clock, is applied.
    since: Time,
    /// Would make this node current as of then, once it has applied so much. Slots go up.
    awaited: VecDeque<(Time, Slot)>,
}

impl Currency {
    pub(crate) fn since(&self) -> Time {
        self.since
    }

    pub(crate) fn on_confirmed(&mut self, now: Time, applied: Slot, confirmed: &Confirmed) {
        let since = if planted(Bug::LeaseFromReceipt) { now } else { confirmed.sent.min(now) - confirmed.age };
        if self.awaited.len() == AWAITED_MOST {
            self.awaited.pop_front();
        }
        self.awaited.push_back((since, confirmed.position));
        self.on_applied(if planted(Bug::LeaseOfUnappliedLog) { Slot::MOST } else { applied });
    }

    pub(crate) fn on_applied(&mut self, applied: Slot) {
        while let Some((since, _)) = self.awaited.pop_front_if(|(_, position)| *position <= applied) {
            self.since = self.since.max(since);
        }
    }

    /// This node leads, and its majority knows it.
    pub(crate) fn on_leading(&mut self, confirmed: Time) {
        self.since = self.since.max(confirmed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn confirmed(sent: u64, age: u64, position: u64) -> Confirmed {
        Confirmed {
            sent: Time(sent),
            age: Duration::from_micros(age),
            position: Slot(position),
            at: Time::ZERO,
            ahead: None,
        }
    }

    #[test]
    fn it_counts_from_the_sending_and_once_the_entries_are_here() {
        let mut currency = Currency::default();
        currency.on_confirmed(Time(900), Slot(4), &confirmed(500, 100, 5));
        assert_eq!(currency.since(), Time::ZERO, "an entry is missing");
        currency.on_applied(Slot(5));
        assert_eq!(currency.since(), Time(400));
        currency.on_confirmed(Time(950), Slot(5), &confirmed(600, 300, 5));
        assert_eq!(currency.since(), Time(400), "older news change nothing");
    }
}
