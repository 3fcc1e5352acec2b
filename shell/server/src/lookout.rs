//! Before a thread sleeps it looks for more for a little while: on an idle core, to be woken takes longer than most
//! answers take to come.
//!
//! ```text
//!   turn ──▶ look ──found──▶ turn
//!             │ nothing for so long, or somebody else has use for the core
//!             ▼
//!           sleep ──woken──▶ turn       and if looking is in vain more often than not, it is done more rarely
//! ```
//!
//! Between two looks the core is offered to whoever wants it, and nobody looks who has many requests under way: a core
//! that sleeps is given other work, one that looks is not. So where there is more to do than cores nobody loses by
//! this, and a node with little to do sleeps, as it should.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Somebody who takes the core for this long when it is offered is not just passing.
const CROWDED: Duration = Duration::from_micros(20);
/// So many more looks may be in vain than find something, before they become rarer.
const PATIENCE: u32 = 4;
/// At the rarest, one chance in so many is taken.
const RARELY: u32 = 64;
const VAIN_MOST: u32 = PATIENCE + RARELY.ilog2();
/// With more requests under way than these there is enough to do meanwhile, for others if not for this thread.
const FEW: usize = 4;

#[derive(Debug)]
pub(crate) struct Lookout {
    /// How long a look may take; zero: there is none.
    most: Duration,
    /// Looks that found nothing, less those that found something.
    in_vain: u32,
    /// Chances to let pass before the next look.
    rest: u32,
}

impl Lookout {
    pub(crate) fn new(most: Duration) -> Lookout {
        Lookout { most, in_vain: 0, rest: 0 }
    }

    /// Is this chance to look taken? `under_way`: requests that this thread has taken and not answered.
    fn is_due(&mut self, under_way: usize) -> bool {
        if self.most.is_zero() || under_way > FEW {
            return false;
        }
        let is_due = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        is_due
    }

    fn note(&mut self, found: bool) {
        self.in_vain = if found { self.in_vain.saturating_sub(1) } else { (self.in_vain + 1).min(VAIN_MOST) };
        let beyond = self.in_vain.saturating_sub(PATIENCE);
        self.rest = (1 << beyond) - 1;
    }

    /// Looks, unless it is wiser not to, and tells whether something was found. The other tasks of the thread go on
    /// meanwhile. `has_more` is asked with the context of whoever waits here.
    pub(crate) async fn finds(&mut self, under_way: usize, mut has_more: impl FnMut(&mut Context<'_>) -> bool) -> bool {
        if !self.is_due(under_way) {
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
            let is_due = lookout.is_due(0);
            if is_due {
                lookout.note(false);
            }
            is_due
        };
        (0..chances).filter(|chance| look(chance)).collect()
    }

    #[test]
    fn looks_in_vain_become_rarer_until_more_of_them_find_something() {
        let mut lookout = Lookout::new(Duration::from_micros(50));
        assert_eq!(taken(&mut lookout, 12), [0, 1, 2, 3, 4, 6, 10]);
        assert!(taken(&mut lookout, 100_000).len() <= 100_000 / RARELY as usize + 4);
        (0..VAIN_MOST).for_each(|_| lookout.note(true));
        assert_eq!(taken(&mut lookout, 7), [0, 1, 2, 3, 4, 6]);
    }

    #[test]
    fn nobody_looks_who_has_much_under_way() {
        let mut lookout = Lookout::new(Duration::from_micros(50));
        assert!(lookout.is_due(FEW) && !lookout.is_due(FEW + 1));
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
            lookout.finds(FEW, |_| came.get() == 3).await
        };
        // It ends early if this machine is busy, and then says so.
        let found = tokio::task::LocalSet::new().run_until(work).await;
        assert_eq!(found, lookout.in_vain == 0);
    }
}
