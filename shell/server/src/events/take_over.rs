//! What the removal of a node from sets did to buckets: who took over, how many went on, and how long they paused.

use super::book::{Book, Draft};
use super::chronicle::{Change, Place, name};
use super::{Grade, Kind, count, span};
use atoll_types::{Body, BucketId, Entry, Epoch, NodeId, Report, Request, Time};
use std::collections::BTreeMap;

/// Take-overs that are written on, at most; the oldest are left as they are.
const OPEN_MOST: usize = 64;

/// Buckets that begin anew, and what is told of that.
#[derive(Debug, Default)]
pub(super) struct TakeOvers {
    /// Each is here until the log has it that all members have begun.
    openings: BTreeMap<BucketId, Opening>,
    open: BTreeMap<u64, TakeOver>,
}

#[derive(Clone, Copy, Debug)]
struct Opening {
    epoch: Epoch,
    since: Time,
    event: u64,
}

#[derive(Clone, Debug, Default)]
struct TakeOver {
    /// How many buckets each took over.
    by: BTreeMap<NodeId, usize>,
    /// Had their primary before, and lost a member.
    going_on: usize,
    /// Nobody who may serve is there.
    waiting: usize,
    pending: usize,
    longest: u64,
}

impl TakeOver {
    fn text(&self, names: &BTreeMap<NodeId, String>) -> String {
        let by = self.by.iter().map(|(&node, &buckets)| (name(names, node), buckets));
        let mut parts: Vec<String> =
            by.map(|(name, buckets)| format!("{name} took over {}", count(buckets, "bucket"))).collect();
        if self.going_on > 0 {
            let others = if parts.is_empty() { "bucket" } else { "other bucket" };
            let go = if self.going_on == 1 { "goes" } else { "go" };
            parts.push(format!("{} {go} on with a copy less", count(self.going_on, others)));
        }
        if self.waiting > 0 {
            let wait = if self.waiting == 1 { "waits" } else { "wait" };
            parts.push(format!("{} {wait} for a copy to return", count(self.waiting, "bucket")));
        }
        if self.pending > 0 {
            parts.push(format!("{} still to begin", self.pending));
        } else if self.longest > 0 {
            parts.push(format!("longest pause {}", span(self.longest)));
        }
        parts.join(", ")
    }
}

impl TakeOvers {
    pub(super) fn on_removal(
        &mut self,
        place: Place,
        cause: Option<u64>,
        changes: &[Change<'_>],
        names: &BTreeMap<NodeId, String>,
        book: &Book,
    ) {
        let mut found = TakeOver::default();
        let mut lost = Vec::new();
        let mut opened = Vec::new();
        for change in changes {
            let was_lost = change.before.is_some_and(|before| before.lost);
            if change.now.is_lost() {
                lost.extend((!was_lost).then_some(change.id));
                continue;
            }
            let primary = change.now.primary();
            if primary.is_nobody() {
                found.waiting += 1;
                continue;
            }
            match change.before {
                Some(before) if before.primary == primary => found.going_on += 1,
                Some(_) | None => *found.by.entry(primary).or_default() += 1,
            }
            found.pending += 1;
            opened.push((change.id, change.now.epoch()));
        }
        let affected = opened.len() + found.waiting;
        let mut cause = cause;
        if affected > 0 {
            let grade = if found.waiting > 0 { Grade::Bad } else { Grade::Plain };
            let draft = place.draft(cause, Kind::TookOver, grade, found.text(names));
            let nodes = found.by.keys().map(|&node| name(names, node)).collect();
            let event = book.write(Draft { nodes, buckets: affected, ..draft });
            self.open.insert(event, found);
            for (bucket, epoch) in opened {
                self.opens(bucket, Opening { epoch, since: place.time, event }, names, book);
            }
            while self.open.len() > OPEN_MOST {
                self.open.pop_first();
            }
            cause = Some(event);
        }
        if !lost.is_empty() {
            let shown: Vec<String> = lost.iter().take(4).map(ToString::to_string).collect();
            let more = if lost.len() > 4 { ", …" } else { "" };
            let are = if lost.len() == 1 { "is" } else { "are" };
            let text = format!("{} {are} lost: no copy that may serve is left", count(lost.len(), "bucket"));
            let text = format!("{text} ({}{more})", shown.join(", "));
            book.write(Draft { buckets: lost.len(), ..place.draft(cause, Kind::Lost, Grade::Bad, text) });
        }
    }

    /// An epoch that an order began: its pause is told with the moves.
    pub(super) fn on_order(
        &mut self,
        place: Place,
        change: &Change<'_>,
        event: u64,
        names: &BTreeMap<NodeId, String>,
        book: &Book,
    ) {
        let epoch = change.now.epoch();
        self.opens(change.id, Opening { epoch, since: place.time, event }, names, book);
    }

    /// One that another overtakes is not waited for any more.
    fn opens(&mut self, bucket: BucketId, opening: Opening, names: &BTreeMap<NodeId, String>, book: &Book) {
        let Some(before) = self.openings.insert(bucket, opening) else { return };
        let Some(open) = self.open.get_mut(&before.event) else { return };
        open.pending = open.pending.saturating_sub(1);
        let text = open.text(names);
        if open.pending == 0 {
            self.open.remove(&before.event);
        }
        book.revise(before.event, |event| event.text = text);
    }

    /// The log has it that all members of a bucket have begun.
    pub(super) fn on_entry(&mut self, entry: &Entry, names: &BTreeMap<NodeId, String>, book: &Book) {
        let Body::Submission(submission) = &entry.body else { return };
        let Request::Reports(reports) = &submission.request else { return };
        let mut longest: BTreeMap<u64, u64> = BTreeMap::new();
        for report in reports {
            let Report::Settled { bucket, epoch } = report else { continue };
            let Some(opening) = self.openings.get(bucket).filter(|opening| opening.epoch == *epoch) else { continue };
            let (event, took) = (opening.event, entry.time.since(opening.since).as_micros() as u64);
            self.openings.remove(bucket);
            let most = longest.entry(event).or_default();
            *most = (*most).max(took);
            if let Some(open) = self.open.get_mut(&event) {
                open.pending = open.pending.saturating_sub(1);
                open.longest = open.longest.max(took);
            }
        }
        for (id, took) in longest {
            let text = self.open.get(&id).map(|open| open.text(names));
            book.revise(id, |event| {
                event.longest_pause_micros = Some(event.longest_pause_micros.unwrap_or(0).max(took));
                event.text = text.unwrap_or(std::mem::take(&mut event.text));
            });
            if self.open.get(&id).is_some_and(|open| open.pending == 0) {
                self.open.remove(&id);
            }
        }
    }
}
