//! The core's time: microseconds since 1970, anchored once to the wall clock and from then on only going forward.

use atoll_types::Time;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Instant,
    at: Time,
}

impl Clock {
    pub fn start() -> Clock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { began: Instant::now(), at: Time(since.as_micros() as u64) }
    }

    pub fn now(&self) -> Time {
        self.at + self.began.elapsed()
    }

    /// The time of something that has happened.
    pub(crate) fn at(&self, instant: Instant) -> Time {
        self.at + instant.saturating_duration_since(self.began)
    }

    /// When it will be that time. One that is too far away is as good as a day from now: whoever waits looks again.
    pub fn instant(&self, time: Time) -> Instant {
        let away = time.since(self.at).min(self.began.elapsed() + Duration::from_secs(86_400));
        self.began + away
    }
}
