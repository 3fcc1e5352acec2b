//! What happened in the cluster, in words, with what led to what.
//!
//! ```text
//!   decided entries ─┐
//!                    ├─▶ Chronicle ──▶ Book ──▶ whoever reads or follows it
//!   the table ───────┘   (one writer)  (the last so many, some still being written)
//! ```
//!
//! An event names the event that led to it, and the one that its whole story began with:
//!
//! ```text
//!   n3 stopped answering ──▶ n3 departed at slot 812 ──▶ n1 took over 21 buckets, longest pause 41 ms
//! ```
//!
//! Everything here follows from the cluster log, so that every node tells the same stories; their numbers are its own.
//!
//! Not here: the entries themselves (`log`), how they read one by one (`describe`), how events reach people
//! (`http/feed.rs`).

mod book;
mod chronicle;
mod moves;
mod people;
mod take_over;

pub use book::Book;
pub use chronicle::Chronicle;

use serde::{Deserialize, Serialize};

/// One thing that happened. It may be written on for a while: a later version replaces the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts up, on the node that tells it.
    pub id: u64,
    /// The event that it all began with; itself, if with this one.
    pub story: u64,
    /// What led to it. It may be forgotten by now.
    pub cause: Option<u64>,
    /// The entry of the cluster log that says so.
    pub slot: u64,
    /// When that entry was proposed: microseconds since 1970.
    pub time: u64,
    pub kind: Kind,
    pub grade: Grade,
    pub text: String,
    /// Whom it is about, by name.
    pub nodes: Vec<String>,
    /// How many buckets it is about.
    pub buckets: usize,
    /// Of the buckets that had to begin anew: from the decision until the log had it that all members had.
    pub longest_pause_micros: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// As of here this node knows what happened.
    Began,
    Founded,
    Recovered,
    Level,
    Arrived,
    InStep,
    Elected,
    Seated,
    /// Why somebody is absent or departs.
    Suspected,
    Absent,
    Returned,
    Restarted,
    Departed,
    Operator,
    Complaint,
    Damaged,
    TookOver,
    Lost,
    Placed,
    /// Where requests come in.
    Sought,
    Moved,
    Healthy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    Good,
    Plain,
    Warning,
    Bad,
}

/// `1 bucket`, `2 buckets`
fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// `41 ms`, `3.2 s`, `4 min`
fn span(micros: u64) -> String {
    match micros {
        0..1_000 => "under 1 ms".to_owned(),
        1_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..120_000_000 => format!("{:.1} s", micros as f64 / 1e6),
        _ => format!("{} min", micros / 60_000_000),
    }
}
