//! Puts a timeline together from what somebody sees while it happens.

use super::{Frame, Message, Note, NoteKind, Timeline};
use crate::describe;
use crate::events::{Book, Chronicle};
use crate::http::row;
use crate::status::{self, Status};
use atoll_node::{Envelope, View};
use atoll_types::{Body, Cause, Entry, Slot, Time};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Frames kept. When there are more, every other one goes.
const FRAMES_MOST: usize = 4_000;
const NOTES_MOST: usize = 20_000;
const MESSAGES_MOST: usize = 200_000;
/// Longer ones are cut off.
const TEXT_MOST: usize = 240;

#[derive(Debug, Default)]
pub struct Builder {
    timeline: Timeline,
    chronicle: Chronicle,
    book: Book,
    /// The last slot that was noted.
    noted: Slot,
    /// When each event was first seen, by its id.
    seen: Vec<u64>,
    /// At least so long between two frames.
    pace: u64,
    next: u64,
}

impl Builder {
    /// An entry was decided. The same one may be told by several nodes.
    pub fn decided(&mut self, slot: Slot, entry: &Arc<Entry>) {
        let recovered = matches!(&entry.body, Body::Government(government) if is_recovery(&government.cause));
        if slot == self.noted.next() || self.noted == Slot::ZERO || recovered {
            self.noted = slot;
            self.chronicle.note(slot, entry.clone());
        }
    }

    pub fn note(&mut self, at: u64, kind: NoteKind, text: &str) {
        if self.timeline.notes.len() >= NOTES_MOST && kind != NoteKind::Violation {
            self.timeline.notes_left_out += 1;
            return;
        }
        self.timeline.notes.push(Note { at, kind, text: shortened(text) });
    }

    pub fn message(&mut self, sent: u64, arrives: Option<u64>, from: String, to: String, envelope: &Envelope) {
        if self.timeline.messages.len() >= MESSAGES_MOST {
            self.timeline.messages_left_out += 1;
            return;
        }
        let text = shortened(&describe::envelope(envelope));
        self.timeline.messages.push(Message { sent, arrives, from, to, text });
    }

    /// How things are, as one node sees them, and how each process is.
    pub fn look(&mut self, at: u64, view: Option<&View<'_>>, processes: BTreeMap<String, String>) {
        let (status, table) = match view {
            Some(view) => {
                let (status, buckets) = status::look(view);
                if view.decided >= self.noted {
                    self.chronicle.look(view, status.healthy, Time(at), &self.book);
                }
                (status, buckets.iter().map(row).collect())
            }
            None => (Status::default(), Vec::new()),
        };
        let told = self.book.last_id() as usize;
        self.seen.resize(told.max(self.seen.len()), at);
        if at < self.next && !self.timeline.frames.is_empty() {
            return;
        }
        self.next = at + self.pace;
        let frame = Frame {
            at,
            status: place(&mut self.timeline.statuses, status),
            table: place::<Vec<Value>>(&mut self.timeline.tables, table),
            processes: place(&mut self.timeline.processes, processes),
        };
        let same = |before: &Frame| Frame { at, ..*before } == frame;
        if self.timeline.frames.last().is_some_and(same) {
            return;
        }
        self.timeline.frames.push(frame);
        if self.timeline.frames.len() > FRAMES_MOST {
            self.pace = self.pace.max(10_000) * 2;
            let mut odd = false;
            self.timeline.frames.retain(|_| {
                odd = !odd;
                odd
            });
        }
    }

    pub fn finish(mut self, title: String, from: u64, until: u64) -> Timeline {
        let mut events = self.book.last(usize::MAX);
        for event in &mut events {
            // By the clock of whoever looked on, not by that of a leader.
            event.time = self.seen.get(event.id as usize - 1).copied().unwrap_or(until);
        }
        (self.timeline.events, self.timeline.title) = (events, title);
        (self.timeline.from, self.timeline.until) = (from, until);
        self.timeline.notes.sort_by_key(|note| note.at);
        self.timeline.messages.sort_by_key(|message| message.sent);
        self.timeline
    }
}

fn is_recovery(cause: &Cause) -> bool {
    matches!(cause, Cause::Recovered { .. })
}

/// Where it stands in the list: at its end, if it is not what stands there already.
fn place<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    if list.last() != Some(&item) {
        list.push(item);
    }
    list.len() - 1
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_thinned_out_and_reach_to_the_end() {
        let mut builder = Builder::default();
        for at in 0..20_000 {
            // Each differs from the one before.
            let processes = BTreeMap::from([("n1".to_owned(), at.to_string())]);
            builder.look(at * 1_000, None, processes);
        }
        let timeline = builder.finish("a run".to_owned(), 0, 20_000_000);
        let frames = &timeline.frames;
        assert!(frames.len() <= FRAMES_MOST, "{}", frames.len());
        assert!(frames.windows(2).all(|pair| pair[0].at < pair[1].at));
        assert!(frames.last().is_some_and(|last| last.at > 19_000_000));
    }

    #[test]
    fn what_stays_the_same_is_told_once() {
        let mut builder = Builder::default();
        (0..100).for_each(|at| builder.look(at, None, BTreeMap::new()));
        builder.note(1, NoteKind::Fault, &"long ".repeat(1_000));
        let timeline = builder.finish(String::new(), 0, 100);
        assert_eq!((timeline.frames.len(), timeline.statuses.len()), (1, 1));
        assert!(timeline.notes[0].text.chars().count() <= TEXT_MOST + 1);
    }
}
