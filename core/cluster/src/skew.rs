//! Whose clock is off. Nobody knows the right time; what can be known is who is far from most of the others.
//!
//! ```text
//!   node      asks at S ───────────────────────────▶ hears at N
//!   feeder            └▶ answers at A, its clock ──┘            the node is ahead by S - A to N - A
//!   leader                                                      and the feeder, of the leader, by so much: the sum
//! ```
//! However long a message is on its way, the truth lies between the two bounds: a slow link makes them wide, it makes
//! nobody seem off. So a node is called off only where no reading within the bounds would have it near the median.
//!
//! Not here: what follows for buckets (`atoll-distributor`). No rule about safety depends on this.

use atoll_types::{Bug, NodeId, Time, planted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// By how many microseconds a clock is ahead of a leader's: no less than `least`, no more than `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ahead {
    /// Whose clock it was compared with.
    pub of: NodeId,
    pub least: i64,
    pub most: i64,
}

impl Ahead {
    /// A leader's own.
    pub fn leader(of: NodeId) -> Ahead {
        Ahead { of, least: 0, most: 0 }
    }

    /// Asked at `sent`, somebody whose own clock is `theirs` answered at `at` by that clock, and it is `now`.
    pub fn through(theirs: Ahead, sent: Time, at: Time, now: Time) -> Ahead {
        let least = if planted(Bug::DelayTakenForSkew) { now } else { sent };
        Ahead {
            of: theirs.of,
            least: theirs.least.saturating_add(difference(least, at)),
            most: theirs.most.saturating_add(difference(now, at)),
        }
    }

    fn middle(&self) -> i64 {
        self.least.midpoint(self.most)
    }
}

fn difference(one: Time, other: Time) -> i64 {
    (i128::from(one.0) - i128::from(other.0)).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// What can be said of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is off by more than allowed, whatever the truth within the bounds.
    Off,
    /// It is, as far as one can see, within half of what is allowed.
    Near,
    Unsure,
}

/// Fewer clocks than this say nothing: of two that differ nobody knows which is off.
const CLOCKS_LEAST: usize = 3;

/// What the readings say of each clock. Where their number is even the median is all that lies between the two in the
/// middle.
pub fn judge(readings: &BTreeMap<NodeId, Ahead>, max_skew: Duration) -> BTreeMap<NodeId, Verdict> {
    if readings.len() < CLOCKS_LEAST || max_skew.is_zero() {
        return BTreeMap::new();
    }
    let sorted = |bound: fn(&Ahead) -> i64| {
        let mut bounds: Vec<i64> = readings.values().map(bound).collect();
        bounds.sort_unstable();
        bounds
    };
    let (lower, upper) = ((readings.len() - 1) / 2, readings.len() / 2);
    let (least, most, middle) = (sorted(|clock| clock.least), sorted(|clock| clock.most), sorted(Ahead::middle));
    let allowed = max_skew.as_micros().min(i64::MAX as u128) as i64;
    let verdict = |clock: &Ahead| {
        let late = clock.most < least[lower].saturating_sub(allowed);
        let early = clock.least > most[upper].saturating_add(allowed);
        let from = middle[lower].saturating_sub(allowed / 2);
        let to = middle[upper].saturating_add(allowed / 2);
        match (late || early, (from..=to).contains(&clock.middle())) {
            (true, _) => Verdict::Off,
            (false, true) => Verdict::Near,
            (false, false) => Verdict::Unsure,
        }
    };
    readings.iter().map(|(&node, clock)| (node, verdict(clock))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Duration = Duration::from_micros(100);
    const ME: NodeId = NodeId(1);

    fn judged(readings: &[(i64, i64)]) -> Vec<Verdict> {
        let clock = |&(least, most): &(i64, i64)| Ahead { of: ME, least, most };
        let numbered = readings.iter().enumerate().map(|(index, bounds)| (NodeId(index as u32 + 1), clock(bounds)));
        judge(&numbered.collect(), ALLOWED).into_values().collect()
    }

    #[test]
    fn one_that_is_far_from_the_others_is_off() {
        assert_eq!(judged(&[(0, 0), (-5, 5), (990, 1010)]), [Verdict::Near, Verdict::Near, Verdict::Off]);
        assert_eq!(judged(&[(0, 0), (-1010, -1000), (-1020, -990)]), [Verdict::Off, Verdict::Near, Verdict::Near]);
    }

    #[test]
    fn a_slow_link_makes_nobody_seem_off() {
        assert_eq!(judged(&[(0, 0), (-5000, 10), (-5, 5)]), [Verdict::Near, Verdict::Unsure, Verdict::Near]);
        assert_eq!(judged(&[(0, 0), (-5000, 10), (-5000, 10)])[0], Verdict::Unsure, "the median itself is not known");
    }

    #[test]
    fn two_that_differ_are_not_told_apart() {
        assert_eq!(judged(&[(0, 0), (5000, 5000)]), []);
        let halves = [(0, 0), (1, 1), (5000, 5000), (5001, 5001)];
        assert_eq!(judged(&halves), [Verdict::Near; 4], "and neither are two and two");
    }

    #[test]
    fn the_bounds_hold_the_truth_whatever_the_delays() {
        // The node is 700 ahead of its feeder, and that one 40 of the leader.
        let feeder = Ahead { of: ME, least: 30, most: 55 };
        for (there, back) in [(0, 0), (10, 900), (900, 10)] {
            let (asked, answered) = (Time(10_700), Time(10_000 + there));
            let ahead = Ahead::through(feeder, asked, answered, Time(10_700 + there + back));
            assert!(ahead.least <= 740 && 740 <= ahead.most, "{ahead:?}");
        }
        let far = Ahead::through(Ahead::leader(ME), Time(u64::MAX), Time(0), Time(u64::MAX));
        assert_eq!((far.least, far.most), (i64::MAX, i64::MAX), "whatever a peer says");
    }
}
