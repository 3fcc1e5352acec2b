//! What waits for a thread that owns some of the core. Anybody may put something in; the owner takes all there is, so
//! that batches come from what has piled up meanwhile, and nobody ever waits for one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct Inbox<T> {
    items: Mutex<Vec<T>>,
    filled: Notify,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Inbox { items: Mutex::new(Vec::new()), filled: Notify::new() }
    }
}

impl<T> Inbox<T> {
    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        // Nothing is done under the lock that could leave it in pieces.
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, item: T) {
        let mut items = self.lock();
        let first = items.is_empty();
        items.push(item);
        drop(items);
        if first {
            self.filled.notify_one();
        }
    }

    /// Takes everything, in order, into `batch`, which must be empty: its room is used again.
    pub(crate) fn take(&self, batch: &mut Vec<T>) {
        std::mem::swap(&mut *self.lock(), batch);
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns once something was put in since the last `take`.
    pub(crate) async fn filled(&self) {
        self.filled.notified().await;
    }
}
