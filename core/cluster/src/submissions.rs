//! What makes a submission count once: per node, which of its numbers have taken effect.

use atoll_types::{Bug, Cookie, Sequence, Submission, planted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Invariant: everything below `floor` has taken effect or was given up; `above` is not below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    pub cookie: Cookie,
    floor: Sequence,
    above: BTreeSet<Sequence>,
}

impl Submitted {
    pub fn new(cookie: Cookie) -> Submitted {
        Submitted { cookie, floor: Sequence(0), above: BTreeSet::new() }
    }

    pub fn has(&self, sequence: Sequence) -> bool {
        sequence < self.floor || self.above.contains(&sequence)
    }

    /// True the first time.
    pub fn take(&mut self, submission: &Submission) -> bool {
        if planted(Bug::DuplicateApplied) {
            return true;
        }
        let fresh = submission.sequence >= self.floor && self.above.insert(submission.sequence);
        if submission.floor > self.floor {
            self.floor = submission.floor;
            self.above = self.above.split_off(&self.floor);
        }
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{NodeId, Payload, Request};

    fn submission(sequence: u64, floor: u64) -> Submission {
        Submission {
            node: NodeId(1),
            cookie: Cookie(9),
            sequence: Sequence(sequence),
            floor: Sequence(floor),
            request: Request::User(Payload::default()),
        }
    }

    #[test]
    fn a_number_counts_once_in_any_order() {
        let mut submitted = Submitted::new(Cookie(9));
        let taken: Vec<bool> = [(1, 1), (3, 1), (2, 1), (3, 1), (4, 4), (2, 1), (4, 4), (5, 4)]
            .map(|(sequence, floor)| submitted.take(&submission(sequence, floor)))
            .into();
        assert_eq!(taken, [true, true, true, false, true, false, false, true]);
        assert_eq!(submitted.above.len(), 2, "what is below the floor is forgotten");
    }
}
