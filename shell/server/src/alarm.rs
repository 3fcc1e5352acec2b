//! The alarm of a connection: somebody has to look whether its client is still there.
//!
//! It is set only to an earlier time, and looked at only when it may have rung: an alarm that rings too early costs one
//! idle look, and setting it, or asking it, for every request would cost more.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Nobody waits for so long.
pub(crate) const FAR: Duration = Duration::from_secs(86_400);

pub(crate) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    at: Instant,
    /// It was set since it was last looked at, and so does not know yet whom to wake.
    is_new: bool,
}

impl Alarm {
    pub(crate) fn new(now: Instant) -> Alarm {
        Alarm { sleep: Box::pin(sleep_until(now + FAR)), at: now + FAR, is_new: true }
    }

    /// Rings by then.
    pub(crate) fn set(&mut self, time: Instant) {
        if time < self.at {
            (self.at, self.is_new) = (time, true);
            self.sleep.as_mut().reset(time);
        }
    }

    /// Whether it has rung; then it has to be set anew. `happened`: when that happened for which the task was woken. It
    /// may be that and the alarm at once, and the alarm wakes but once: so nothing that happens hides one that is due.
    pub(crate) fn rings(&mut self, context: &mut Context<'_>, happened: Option<Instant>) -> bool {
        if !self.is_new && happened.is_some_and(|at| at < self.at) {
            return false;
        }
        self.is_new = false;
        if self.sleep.as_mut().poll(context).is_pending() {
            return false;
        }
        (self.at, self.is_new) = (Instant::now() + FAR, true);
        self.sleep.as_mut().reset(self.at);
        true
    }
}
