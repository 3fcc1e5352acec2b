//! Runs of several loads in turn, round after round, so that what else the machine does meets all of them alike. A
//! ratio is taken within a round, between runs that were next to each other, and the median of the rounds counts.

use crate::load::{self, Load, Report};

/// A round in which others took more than this part of the machine is repeated, as long as that is allowed.
pub(crate) const QUIET: f64 = 0.08;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Seconds of a run.
    pub(crate) seconds: f64,
    /// Rounds that count.
    pub(crate) rounds: usize,
    /// Rounds at most, when some are disturbed.
    pub(crate) rounds_most: usize,
}

impl Effort {
    pub(crate) const QUICK: Effort = Effort { seconds: 1.5, rounds: 2, rounds_most: 3 };
    pub(crate) const FULL: Effort = Effort { seconds: 2.5, rounds: 3, rounds_most: 6 };
}

/// What came of the rounds that count: a report for each load.
#[derive(Clone, Debug)]
pub(crate) struct Rounds(Vec<Vec<Report>>);

pub(crate) fn rounds(loads: &[Load], effort: Effort) -> anyhow::Result<Rounds> {
    repeat(effort, || {
        let run = |load: &Load| {
            let mut load = load.clone();
            load.seconds = effort.seconds;
            load::run(load)
        };
        loads.iter().map(run).collect()
    })
}

/// Rounds until enough were quiet; else the quietest.
pub(crate) fn repeat(effort: Effort, mut round: impl FnMut() -> anyhow::Result<Vec<Report>>) -> anyhow::Result<Rounds> {
    let mut all: Vec<Vec<Report>> = Vec::new();
    while all.len() < effort.rounds_most
        && all.iter().filter(|round| disturbance(round) <= QUIET).count() < effort.rounds
    {
        all.push(round()?);
    }
    all.sort_by(|one, other| disturbance(one).total_cmp(&disturbance(other)));
    all.truncate(effort.rounds);
    Ok(Rounds(all))
}

fn disturbance(round: &[Report]) -> f64 {
    round.iter().map(|report| report.others).fold(0.0, f64::max)
}

impl Rounds {
    /// The median of what `figure` says of one load.
    pub(crate) fn median(&self, load: usize, figure: impl Fn(&Report) -> f64) -> f64 {
        median(self.0.iter().map(|round| figure(&round[load])).collect())
    }

    /// The median of the ratios of one load to another.
    pub(crate) fn ratio(&self, load: usize, to: usize, figure: impl Fn(&Report) -> f64) -> f64 {
        median(self.0.iter().map(|round| figure(&round[load]) / figure(&round[to])).collect())
    }

    /// The part of the machine that others took, in the middle.
    pub(crate) fn others(&self) -> f64 {
        median(self.0.iter().map(|round| disturbance(round)).collect())
    }

    /// The first error of a load that did nothing but fail.
    pub(crate) fn failure(&self, load: usize) -> Option<String> {
        let reports = || self.0.iter().map(|round| &round[load]);
        let is_empty = reports().all(|report| report.operations == 0);
        is_empty.then(|| reports().map(|report| report.first_error.clone()).next().unwrap_or_default())
    }
}

/// Of an even number the mean of the two in the middle; of nothing, nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(per_second: f64, others: f64) -> Report {
        Report { per_second, others, operations: per_second as u64, ..Report::default() }
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, f64::NAN, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn disturbed_rounds_are_repeated_and_the_quietest_count() {
        let effort = Effort { seconds: 1.0, rounds: 2, rounds_most: 4 };
        let mut script = [(10.0, 0.5), (30.0, 0.01), (99.0, 0.9), (32.0, 0.02)].into_iter();
        let rounds = repeat(effort, || {
            let (rate, others) = script.next().unwrap();
            Ok(vec![report(rate, others), report(10.0, 0.0)])
        });
        let rounds = rounds.unwrap();
        assert_eq!(rounds.median(0, |report| report.per_second), 31.0);
        assert_eq!(rounds.ratio(0, 1, |report| report.per_second), 3.1);
        assert!(script.next().is_none(), "all four were needed");
    }

    #[test]
    fn a_noisy_machine_does_not_make_it_go_on_for_ever() {
        let effort = Effort { seconds: 1.0, rounds: 1, rounds_most: 3 };
        let mut count = 0;
        let rounds = repeat(effort, || {
            count += 1;
            Ok(vec![report(0.0, 0.6)])
        });
        assert_eq!(count, 3);
        assert_eq!(rounds.unwrap().failure(0).as_deref(), Some(""));
    }
}
