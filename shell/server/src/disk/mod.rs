//! What outlives the process: a directory of files, and the thread that writes to it.
//!
//! | Part | What |
//! |---|---|
//! | `directory` | whose directory it is, that nobody else uses it, real files |
//! | `inspect` | what a directory holds, without changing it |
//! | `meter` | what the disk has done, counted |
//! | `writer` | one thread for all machines of a node: group commit |
//!
//! Not here: what is written, and how it is read again (`atoll-journal`); what depends on it (the core).

mod directory;
pub mod inspect;
mod meter;
mod writer;

pub use directory::DirectoryError;
pub(crate) use directory::{Directory, Taken, lock, take};
pub(crate) use meter::Meter;
pub(crate) use writer::{Desk, Machine, Writer};

use atoll_journal::{Journal, OpenError, Recovered, Settings};
use std::path::Path;
use std::time::{Duration, Instant};
use thiserror::Error;
use tracing::{info, warn};

/// How often a long reading tells how far it is.
const TELL: Duration = Duration::from_secs(1);

#[derive(Debug, Error)]
pub enum DiskError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("{path}: {error}")]
    Open { path: String, error: OpenError },
}

/// A directory that was read and can be written to.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) taken: Taken,
    pub(crate) journal: Journal<Directory>,
    pub(crate) recovered: Recovered,
}

pub(crate) fn open(path: &Path, name: &str, log_bytes: u64) -> Result<Opened, DiskError> {
    let taken = take(path, name)?;
    let total = total(path);
    let begun = Instant::now();
    let mut told = begun;
    let mut progress = |bytes: u64| {
        if told.elapsed() >= TELL {
            told = Instant::now();
            info!("read {} of {} MB", bytes >> 20, total >> 20);
        }
    };
    let opened = Journal::open(Directory::of(path), Settings::of(log_bytes), &mut progress);
    let (journal, recovered) = opened.map_err(|error| DiskError::Open { path: path.display().to_string(), error })?;
    for damage in &recovered.damage {
        warn!("{}: {damage}; what is missing comes from other nodes", path.display());
    }
    if !recovered.records.is_empty() {
        let (megabytes, took) = (recovered.bytes >> 20, begun.elapsed());
        info!(records = recovered.records.len(), "read {megabytes} MB in {:.1} s", took.as_secs_f64());
    }
    Ok(Opened { taken, journal, recovered })
}

/// Bytes of all files.
fn total(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}
