//! What the threads of a node have done, so that the cluster machine can tell others when one does nothing any more.
//!
//! A thread writes its own gauge and nobody else's; who reads it may see it a moment late, which is no matter.
//!
//! Not here: how long is too long (`atoll_cluster::vitals`, `health`).

use atoll_cluster::Work;
use atoll_types::JournalSeq;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
pub(crate) struct Gauge {
    /// Rounds that were ended.
    rounds: AtomicU64,
    /// A round was begun and not ended.
    busy: AtomicBool,
    /// Bytes that copies take; zero where nobody counts.
    memory: AtomicU64,
    /// The last record ordered, and the last one known to be safe.
    ordered: AtomicU64,
    safe: AtomicU64,
}

impl Gauge {
    pub(crate) fn begin_round(&self) {
        self.busy.store(true, Relaxed);
    }

    pub(crate) fn end_round(&self, memory: u64) {
        self.rounds.fetch_add(1, Relaxed);
        self.busy.store(false, Relaxed);
        self.memory.store(memory, Relaxed);
    }

    pub(crate) fn on_ordered(&self, seq: JournalSeq) {
        self.ordered.store(seq.0, Relaxed);
    }

    pub(crate) fn on_safe(&self, seq: JournalSeq) {
        self.safe.store(seq.0, Relaxed);
    }

    pub(crate) fn memory(&self) -> u64 {
        self.memory.load(Relaxed)
    }

    /// Of the thread, if so many things wait for it. It may hang with all of them in its hands.
    pub(crate) fn thread(&self, waiting: usize) -> Work {
        Work { done: self.rounds.load(Relaxed), waiting: waiting > 0 || self.busy.load(Relaxed) }
    }

    /// Of the disk, as far as this thread uses it.
    pub(crate) fn disk(&self) -> Work {
        let safe = self.safe.load(Relaxed);
        Work { done: safe, waiting: self.ordered.load(Relaxed) > safe }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_hangs_with_everything_in_its_hands_is_waited_for() {
        let gauge = Gauge::default();
        assert!(!gauge.thread(0).waiting);
        gauge.begin_round();
        assert_eq!(gauge.thread(0), Work { done: 0, waiting: true });
        gauge.end_round(7);
        assert_eq!((gauge.thread(0), gauge.memory()), (Work { done: 1, waiting: false }, 7));
        assert!(gauge.thread(3).waiting, "or one that does not take what is there");
    }

    #[test]
    fn the_disk_is_waited_for_until_the_last_record_is_safe() {
        let gauge = Gauge::default();
        gauge.on_ordered(JournalSeq(4));
        assert_eq!(gauge.disk(), Work { done: 0, waiting: true });
        gauge.on_safe(JournalSeq(3));
        assert_eq!(gauge.disk(), Work { done: 3, waiting: true });
        gauge.on_safe(JournalSeq(4));
        assert!(!gauge.disk().waiting);
    }
}
