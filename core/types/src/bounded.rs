//! A queue with a limit, that remembers how full it has ever been.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What a queue holds, what it held at most, and where its limit is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gauge {
    pub held: usize,
    pub held_at_most: usize,
    pub limit: usize,
    /// How often something was turned away because the queue was full.
    pub turned_away: u64,
}

#[derive(Clone, Debug)]
pub struct Bounded<T> {
    items: VecDeque<T>,
    limit: usize,
    held_at_most: usize,
    turned_away: u64,
}

impl<T> Bounded<T> {
    pub fn new(limit: usize) -> Self {
        Bounded { items: VecDeque::new(), limit, held_at_most: 0, turned_away: 0 }
    }

    /// Takes `item`, or gives it back when full: the caller owes its sender an answer.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.items.len() >= self.limit {
            self.turned_away += 1;
            return Err(item);
        }
        self.items.push_back(item);
        self.held_at_most = self.held_at_most.max(self.items.len());
        Ok(())
    }

    pub fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.items.len() >= self.limit
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut()
    }

    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.items.retain(keep);
    }

    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.items.drain(..)
    }

    pub fn gauge(&self) -> Gauge {
        Gauge {
            held: self.items.len(),
            held_at_most: self.held_at_most,
            limit: self.limit,
            turned_away: self.turned_away,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_gives_the_item_back_and_counts_it() {
        let mut queue = Bounded::new(2);
        assert_eq!((queue.push(1), queue.push(2), queue.push(3)), (Ok(()), Ok(()), Err(3)));
        queue.pop();
        assert_eq!(queue.gauge(), Gauge { held: 1, held_at_most: 2, limit: 2, turned_away: 1 });
    }
}
