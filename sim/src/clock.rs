//! Time: the world's own, which nobody sees, and each host's clock, which is off by a step and a drift.

use atoll_types::{Rng, Time};
use std::fmt;
use std::time::Duration;

/// Microseconds since the run began, by a clock that no node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    pub(crate) const NEVER: Moment = Moment(u64::MAX);

    pub(crate) fn after(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(span.as_micros() as u64))
    }

    pub(crate) fn elapsed(self) -> Duration {
        Duration::from_micros(self.0)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s", self.elapsed().as_secs_f64())
    }
}

/// Shows `offset + true time × (1 + drift)`, and only ever goes forward.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    offset: u64,
    /// Parts per million.
    drift: i64,
}

impl Clock {
    pub(crate) fn draw(rng: &mut Rng, skewed: bool) -> Clock {
        if !skewed {
            return Clock { offset: 1_000_000, drift: 0 };
        }
        Clock { offset: 1_000_000 + rng.below(30_000_000), drift: rng.below(20_000) as i64 - 10_000 }
    }

    pub(crate) fn read(&self, now: Moment) -> Time {
        let drifted = i128::from(now.0) * i128::from(self.drift) / 1_000_000;
        Time((i128::from(self.offset) + i128::from(now.0) + drifted) as u64)
    }

    /// The first moment at which this clock shows `time` or later.
    pub(crate) fn moment(&self, time: Time) -> Moment {
        if time == Time::NEVER {
            return Moment::NEVER;
        }
        let span = i128::from(time.0.saturating_sub(self.offset));
        let mut guess = Moment((span * 1_000_000 / i128::from(1_000_000 + self.drift)) as u64);
        // The division rounds: the guess is at most a few microseconds off, on either side.
        while guess.0 > 0 && self.read(Moment(guess.0 - 1)) >= time {
            guess.0 -= 1;
        }
        while self.read(guess) < time {
            guess.0 += 1;
        }
        guess
    }

    /// The clock is set forward.
    pub(crate) fn jump(&mut self, span: Duration) {
        self.offset += span.as_micros() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_reads_back_the_moment_it_was_asked_for() {
        let mut rng = Rng::new(3);
        for _ in 0..50 {
            let clock = Clock::draw(&mut rng, true);
            for _ in 0..50 {
                let time = Time(clock.offset + rng.below(600_000_000));
                let moment = clock.moment(time);
                assert!(clock.read(moment) >= time);
                assert!(moment.0 == 0 || clock.read(Moment(moment.0 - 1)) < time);
            }
        }
    }
}
