//! The write-ahead log of a durable node: what its machines order to be written, in one sequence of files, and what
//! can be read of it again.
//!
//! ```text
//!   Cluster ──┐ batches                    ┌ log-1 │ log-2 │ log-3 … │ spare     records in order, group commit
//!   Shard 0 ──┼─────────▶ Journal ─▶ Files ┤
//!   Shard 1 ──┘                            └ image-00256-… │ image-00512-…       whole copies, written aside
//! ```
//!
//! | Module | |
//! |---|---|
//! | `frame` | one record as bytes, and what it means for those before it |
//! | `segment` | the files of the log |
//! | `image` | whole copies of buckets, in files of their own |
//! | `scan` | reading the log: a torn end is cut, damage is told |
//! | `recovery` | images and log together: the records of the next life |
//! | `ledger` | which records are still needed, so that the log can be cut at its beginning |
//! | `journal` | writing |
//! | `files`, `memory` | what is asked of a directory; one in memory that crashes, for tests |
//!
//! No IO of its own: the shell gives it real files, the simulator files that crash.

pub mod files;
pub mod frame;
mod image;
mod journal;
mod ledger;
pub mod memory;
mod recovery;
pub mod scan;
mod segment;

pub use files::Files;
pub use frame::{Batch, Lsn, Owner};
pub use image::Image;
pub use journal::{Journal, OpenError, Settings};
pub use recovery::Recovered;
pub use segment::FORMAT;

/// Reads and verifies everything, and changes nothing.
pub fn look(files: &impl Files) -> Result<Recovered, OpenError> {
    recovery::read(files, &mut |_| {}).map(|read| read.recovered)
}
