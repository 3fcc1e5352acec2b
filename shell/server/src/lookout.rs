//! Before a thread sleeps it looks for more for a little while: on an idle core, to be woken takes longer than most
//! answers take to come.
//!
//! ```text
//!   turn ──▶ look ──found──▶ turn
//!             │ nothing for so long, or somebody else has use for the core
//!             ▼
//!           sleep ──woken──▶ turn       and if looking was in vain several times in a row, it is done more rarely
//! ```
//!
//! Between two looks the core is offered to whoever wants it. So where there is more to do than cores nobody loses by
//! this; and a node with little to do sleeps, as it should.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Somebody who takes the core for this long when it is offered is not just passing.
const CROWDED: Duration = Duration::from_micros(20);
/// Looks that may be in vain, one after the other, before they become rarer.
const PATIENCE: u32 = 4;
/// At the rarest, one chance in so many is taken.
const RARELY: u32 = 64;

#[derive(Debug)]
pub(crate) struct Lookout {
    /// How long a look may take; zero: there is none.
    most: Duration,
    /// Looks in a row that found nothing.
    in_vain: u32,
    /// Chances to let pass before the next look.
    rest: u32,
}

impl Lookout {
    pub(crate) fn new(most: Duration) -> Lookout {
        Lookout { most, in_vain: 0, rest: 0 }
    }

    /// Is this chance to look taken?
    fn is_due(&mut self) -> bool {
        let is_due = self.rest == 0 && !self.most.is_zero();
        self.rest = self.rest.saturating_sub(1);
        is_due
    }

    fn note(&mut self, found: bool) {
        self.in_vain = if found { 0 } else { self.in_vain + 1 };
        let beyond = self.in_vain.saturating_sub(PATIENCE).min(RARELY.ilog2());
        self.rest = (1 << beyond) - 1;
    }

    /// Looks, unless it is wiser not to, and tells whether something was found. The other tasks of the thread go on
    /// meanwhile. `has_more` is asked with the context of whoever waits here.
    pub(crate) async fn finds(&mut self, mut has_more: impl FnMut(&mut Context<'_>) -> bool) -> bool {
        if !self.is_due() {
            return false;
        }
        let begun = Instant::now();
        loop {
            // What has come over the network is with its tasks only after they had their go.
            tokio::task::yield_now().await;
            let found = poll_fn(|context| Poll::Ready(has_more(context))).await;
            let now = Instant::now();
            let is_over = found || now - begun >= self.most || is_crowded(now);
            if is_over {
                self.note(found);
                return found;
            }
        }
    }
}

/// Offers the core to others, and tells whether one of them took it for long.
fn is_crowded(now: Instant) -> bool {
    std::thread::yield_now();
    now.elapsed() >= CROWDED
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the next chances are taken, if each look is in vain.
    fn taken(lookout: &mut Lookout, chances: usize) -> Vec<usize> {
        let mut look = |chance: &usize| {
            let _ = chance;
            let is_due = lookout.is_due();
            if is_due {
                lookout.note(false);
            }
            is_due
        };
        (0..chances).filter(|chance| look(chance)).collect()
    }

    #[test]
    fn looks_in_vain_become_rarer_and_one_that_finds_something_is_followed_by_another() {
        let mut lookout = Lookout::new(Duration::from_micros(50));
        assert_eq!(taken(&mut lookout, 12), [0, 1, 2, 3, 4, 6, 10]);
        assert!(taken(&mut lookout, 100_000).len() <= 100_000 / RARELY as usize + 4);
        lookout.note(true);
        assert_eq!(taken(&mut lookout, 3), [0, 1, 2]);
    }

    #[test]
    fn where_nobody_is_to_look_nobody_does() {
        assert!(taken(&mut Lookout::new(Duration::ZERO), 100).is_empty());
    }

    #[tokio::test]
    async fn what_comes_meanwhile_is_found_and_other_tasks_go_on() {
        let mut lookout = Lookout::new(Duration::from_secs(60));
        let came = std::rc::Rc::new(std::cell::Cell::new(0));
        let other = came.clone();
        let work = async {
            tokio::task::spawn_local(async move {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                    other.set(other.get() + 1);
                }
            });
            lookout.finds(|_| came.get() == 3).await
        };
        // It ends early if this machine is busy, and then says so.
        let found = tokio::task::LocalSet::new().run_until(work).await;
        assert_eq!(found, lookout.in_vain == 0);
    }
}
