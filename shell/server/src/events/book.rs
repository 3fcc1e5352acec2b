//! The last events, for anybody to read and to follow. One thread writes, any may read.
//!
//! Every change has a number. Whoever has seen all up to one of them asks for what changed since; of an event that
//! changed several times he gets the last version, once. So a slow reader costs nothing and skips nothing that is kept.

use super::{Event, Grade, Kind};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Events kept. The oldest go first.
const KEPT_MOST: usize = 2_000;

#[derive(Debug)]
pub struct Book {
    pages: Mutex<Pages>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Pages {
    /// With the number of its last change. Their ids follow each other without gaps.
    events: VecDeque<(u64, Event)>,
    last: u64,
    changes: u64,
    /// The highest number of a change that is forgotten.
    forgotten: u64,
}

/// What is new to a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// The number of the last change.
    pub seen: u64,
    /// In the order of their ids.
    pub events: Vec<Event>,
    /// There were more than are kept: what the reader knows does not join on to these.
    pub torn: bool,
}

/// What is to be written.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) cause: Option<u64>,
    pub(super) slot: u64,
    pub(super) time: u64,
    pub(super) kind: Kind,
    pub(super) grade: Grade,
    pub(super) text: String,
    pub(super) nodes: Vec<String>,
    pub(super) buckets: usize,
}

impl Default for Book {
    fn default() -> Book {
        Book { pages: Mutex::default(), changes: watch::Sender::new(0) }
    }
}

impl Book {
    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes whenever something is written.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn write(&self, draft: Draft) -> u64 {
        let mut pages = self.lock();
        pages.last += 1;
        pages.changes += 1;
        let id = pages.last;
        let story = draft.cause.map(|cause| pages.find(cause).map_or(cause, |(_, event)| event.story)).unwrap_or(id);
        let Draft { cause, slot, time, kind, grade, text, nodes, buckets } = draft;
        let event =
            Event { id, story, cause, slot, time, kind, grade, text, nodes, buckets, longest_pause_micros: None };
        let change = pages.changes;
        pages.events.push_back((change, event));
        if pages.events.len() > KEPT_MOST
            && let Some((forgotten, _)) = pages.events.pop_front()
        {
            pages.forgotten = pages.forgotten.max(forgotten);
        }
        drop(pages);
        self.changes.send_replace(change);
        id
    }

    /// Writes on. One that is forgotten stays so.
    pub(super) fn revise(&self, id: u64, change: impl FnOnce(&mut Event)) {
        let mut pages = self.lock();
        let number = pages.changes + 1;
        let Some((changed, event)) = pages.find(id) else { return };
        change(event);
        *changed = number;
        pages.changes = number;
        drop(pages);
        self.changes.send_replace(number);
    }

    /// What changed after that many changes.
    pub fn since(&self, seen: u64) -> News {
        let pages = self.lock();
        // A number from the future is of another book.
        let torn = seen < pages.forgotten || seen > pages.changes;
        let from = if torn { 0 } else { seen };
        let changed = pages.events.iter().filter(|(changed, _)| *changed > from);
        News { seen: pages.changes, events: changed.map(|(_, event)| event.clone()).collect(), torn }
    }

    /// From this id on, at most so many.
    pub fn from(&self, id: u64, most: usize) -> Vec<Event> {
        let pages = self.lock();
        pages.events.iter().filter(|(_, event)| event.id >= id).take(most).map(|(_, event)| event.clone()).collect()
    }

    /// Of the last event; zero if there is none.
    pub fn last_id(&self) -> u64 {
        self.lock().last
    }

    /// The last so many.
    pub fn last(&self, most: usize) -> Vec<Event> {
        let pages = self.lock();
        let skipped = pages.events.len().saturating_sub(most);
        pages.events.range(skipped..).map(|(_, event)| event.clone()).collect()
    }
}

impl Pages {
    fn find(&mut self, id: u64) -> Option<&mut (u64, Event)> {
        let first = self.events.front()?.1.id;
        let place = usize::try_from(id.checked_sub(first)?).ok()?;
        self.events.get_mut(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(cause: Option<u64>) -> Draft {
        let (kind, grade) = (Kind::Absent, Grade::Plain);
        Draft { cause, slot: 1, time: 1, kind, grade, text: String::new(), nodes: Vec::new(), buckets: 0 }
    }

    #[test]
    fn a_story_goes_back_to_where_it_began() {
        let book = Book::default();
        let first = book.write(draft(None));
        let second = book.write(draft(Some(first)));
        let other = book.write(draft(None));
        let third = book.write(draft(Some(second)));
        let stories: Vec<u64> = book.last(10).iter().map(|event| event.story).collect();
        assert_eq!(stories, [first, first, other, first]);
        assert_eq!(book.from(third, 10)[0].cause, Some(second));
    }

    #[test]
    fn a_reader_gets_what_changed_once_and_in_its_last_version() {
        let book = Book::default();
        let first = book.write(draft(None));
        let seen = book.since(0);
        assert_eq!((seen.events.len(), seen.torn), (1, false));
        let second = book.write(draft(None));
        for text in ["a", "b"] {
            book.revise(first, |event| event.text = text.to_owned());
        }
        let news = book.since(seen.seen);
        let told: Vec<(u64, &str)> = news.events.iter().map(|event| (event.id, &event.text[..])).collect();
        assert_eq!(told, [(first, "b"), (second, "")]);
        assert_eq!(book.since(news.seen).events, []);
    }

    #[test]
    fn a_reader_who_missed_something_is_told_so() {
        let book = Book::default();
        let seen = book.write(draft(None));
        for _ in 0..KEPT_MOST {
            book.write(draft(None));
        }
        let news = book.since(seen);
        assert!(!news.torn, "only what was seen is gone");
        book.write(draft(None));
        let news = book.since(seen);
        assert_eq!((news.torn, news.events.len()), (true, KEPT_MOST));
        assert!(book.since(u64::MAX).torn, "a number of another book");
        book.revise(seen, |event| event.text = "forgotten".to_owned());
        assert_eq!(book.last(1)[0].text, "");
    }
}
