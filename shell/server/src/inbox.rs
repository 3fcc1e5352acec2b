//! What waits for a thread that owns some of the core. Anybody may put something in; the owner takes all there is, so
//! that batches come from what has piled up meanwhile, and nobody ever waits for one.

use futures_util::task::AtomicWaker;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Inbox<T> {
    waiting: Mutex<Waiting<T>>,
    owner: AtomicWaker,
    /// Is it noted how long things wait?
    timed: bool,
}

#[derive(Debug)]
struct Waiting<T> {
    items: Vec<T>,
    /// The memory that those take which came with their weight.
    bytes: usize,
    /// When the first of them came.
    since: Option<Instant>,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        let waiting = Waiting { items: Vec::new(), bytes: 0, since: None };
        Inbox { waiting: Mutex::new(waiting), owner: AtomicWaker::new(), timed: false }
    }
}

impl<T> Inbox<T> {
    /// One that notes how long things wait.
    pub(crate) fn timed() -> Inbox<T> {
        Inbox { timed: true, ..Inbox::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        // Nothing is done under the lock that could leave it in pieces.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, item: T) {
        self.push_weighed(item, 0);
    }

    pub(crate) fn push_weighed(&self, item: T, bytes: usize) {
        let mut waiting = self.lock();
        let first = waiting.items.is_empty();
        waiting.items.push(item);
        waiting.bytes += bytes;
        if first && self.timed {
            waiting.since = Some(Instant::now());
        }
        drop(waiting);
        if first {
            self.owner.wake();
        }
    }

    /// Takes everything, in order, into `batch`, which must be empty: its room is used again. Returns how long the
    /// oldest has waited, where that is noted.
    pub(crate) fn take(&self, batch: &mut Vec<T>) -> Option<Duration> {
        let mut waiting = self.lock();
        std::mem::swap(&mut waiting.items, batch);
        waiting.bytes = 0;
        let since = waiting.since.take();
        drop(waiting);
        since.map(|since| since.elapsed())
    }

    /// How many wait, and the memory they take.
    pub(crate) fn load(&self) -> (usize, usize) {
        let waiting = self.lock();
        (waiting.items.len(), waiting.bytes)
    }

    /// Ready while there is something to take. Only the owner waits: whoever asks last is woken.
    pub(crate) fn poll_filled(&self, context: &mut Context<'_>) -> Poll<()> {
        // In this order: what is put in meanwhile is seen, or wakes.
        self.owner.register(context.waker());
        if self.lock().items.is_empty() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Returns once there is something to take.
    pub(crate) async fn filled(&self) {
        poll_fn(|context| self.poll_filled(context)).await;
    }
}
