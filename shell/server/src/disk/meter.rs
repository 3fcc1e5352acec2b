//! What the disk has done, counted. Written by the writer, read by whoever shows it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// One makes everything safe that waits.
    pub(crate) syncs: AtomicU64,
    pub(crate) records: AtomicU64,
    /// Of their bodies.
    pub(crate) bytes: AtomicU64,
    /// From the write to the end of the sync, all together.
    pub(crate) micros: AtomicU64,
    /// Whole copies of buckets that other members sent.
    pub(crate) copied: AtomicU64,
    /// Images of buckets, so that the log can be cut.
    pub(crate) images: AtomicU64,
    /// Bytes of the log now.
    pub(crate) log: AtomicU64,
}

impl Meter {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn read(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    pub(crate) fn synced(&self, took: Duration, log: u64) {
        Meter::add(&self.syncs, 1);
        Meter::add(&self.micros, took.as_micros() as u64);
        self.log.store(log, Ordering::Relaxed);
    }
}
