//! What this node's replicas have to tell the cluster log. One submission at a time; what comes meanwhile is gathered
//! and goes with the next.

use crate::context::Context;
use crate::member::Member;
use atoll_types::{Report, Request};
use std::collections::{BTreeSet, VecDeque};

/// Reports that wait. Beyond it the oldest go: a replica says again what still matters.
const WAITING_MOST: usize = 4096;

/// Reports in one submission.
const BATCH_MOST: usize = 512;

/// Invariant: `known` holds what `waiting` holds.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<Report>,
    known: BTreeSet<Report>,
}

impl Outbox {
    fn gather(&mut self, report: Report) {
        if !self.known.insert(report.clone()) {
            return;
        }
        self.waiting.push_back(report);
        if self.waiting.len() > WAITING_MOST
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    fn batch(&self) -> Vec<Report> {
        self.waiting.iter().take(BATCH_MOST).cloned().collect()
    }

    fn drop_batch(&mut self, count: usize) {
        for report in self.waiting.drain(..count.min(self.waiting.len())) {
            self.known.remove(&report);
        }
    }
}

impl Member {
    /// A report that is on its way already is not gathered again.
    pub(crate) fn on_reports(&mut self, reports: Vec<Report>) {
        for report in reports {
            let same = |request: &Request| matches!(request, Request::Reports(sent) if sent.contains(&report));
            if !self.submitter.is_waiting_for(same) {
                self.outbox.gather(report);
            }
        }
    }

    pub(crate) fn submit_reports(&mut self, context: &mut Context) {
        let sent = |request: &Request| matches!(request, Request::Reports(_));
        if self.outbox.waiting.is_empty() || self.submitter.is_waiting_for(sent) {
            return;
        }
        let batch = self.outbox.batch();
        let count = batch.len();
        if self.submitter.submit(context.now, Request::Reports(batch), None) {
            self.outbox.drop_batch(count);
            self.send_due_submissions(context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{BucketId, Epoch};

    fn report(bucket: u16) -> Report {
        Report::Settled { bucket: BucketId(bucket), epoch: Epoch::ZERO }
    }

    #[test]
    fn reports_wait_once_and_the_newest_stay() {
        let mut outbox = Outbox::default();
        (0..5000).chain(4000..5000).for_each(|bucket| outbox.gather(report(bucket)));
        assert_eq!((outbox.waiting.len(), outbox.known.len()), (WAITING_MOST, WAITING_MOST));
        let batch = outbox.batch();
        assert_eq!((batch.len(), &batch[0]), (BATCH_MOST, &report(5000 - WAITING_MOST as u16)));
        outbox.drop_batch(batch.len());
        outbox.gather(batch[0].clone());
        assert_eq!(outbox.waiting.back(), batch.first(), "what went may come again");
    }
}
