//! Something that is over, to be looked at moment by moment: a simulation, or a recording of one node. The same page
//! shows it that shows a running cluster.
//!
//! ```text
//!   sights ──▶ Builder ──▶ Timeline ──▶ GET /v1/timeline, /v1/timeline/messages ──▶ the page
//! ```
//!
//! Everything is bounded: frames are thinned out, and of messages and notes the first so many are kept; what is left
//! out is counted and told.
//!
//! Not here: who sees what (`atoll sim --serve`, `atoll replay --serve`).

mod builder;
mod serve;

pub use builder::Builder;
pub use serve::serve;

use crate::events::Event;
use crate::status::Status;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// All that there is to see.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timeline {
    pub title: String,
    /// When it begins and ends, in microseconds.
    pub from: u64,
    pub until: u64,
    frames: Vec<Frame>,
    statuses: Vec<Status>,
    /// Rows as the feed tells them.
    tables: Vec<Vec<Value>>,
    /// How each process is, by name.
    processes: Vec<BTreeMap<String, String>>,
    notes: Vec<Note>,
    events: Vec<Event>,
    /// What was left out.
    notes_left_out: u64,
    messages_left_out: u64,
    #[serde(skip)]
    messages: Vec<Message>,
}

/// How things were at a time: places in the lists above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Frame {
    at: u64,
    status: usize,
    table: usize,
    processes: usize,
}

#[derive(Clone, Debug, Serialize)]
struct Note {
    at: u64,
    kind: NoteKind,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    Fault,
    Violation,
    Said,
    /// A step of a recording.
    Step,
}

#[derive(Clone, Debug, Serialize)]
struct Message {
    sent: u64,
    /// None: it was lost.
    arrives: Option<u64>,
    from: String,
    to: String,
    text: String,
}
