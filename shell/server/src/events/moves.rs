//! What orders did to buckets, added up for as long as they are due to the same: copies made and dropped, primaries
//! handed over, buckets halved.

use super::book::{Book, Draft};
use super::chronicle::{Change, Place};
use super::take_over::TakeOvers;
use super::{Grade, Kind, count};
use atoll_types::{NodeId, Order, Step};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Moves {
    /// The event that is written on, and what it says so far.
    open: Option<(u64, Sum)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    begun: usize,
    made: usize,
    dropped: usize,
    handed: usize,
    halved: usize,
}

impl Sum {
    fn text(&self) -> String {
        let part =
            |number: usize, what: &str, done: &str| (number > 0).then(|| format!("{} {}", count(number, what), done));
        let parts = [
            part(self.halved, "bucket", "halved"),
            part(self.made, "copy", "made").map(|text| text.replace("copys", "copies")),
            part(self.handed, "primary", "handed over").map(|text| text.replace("primarys", "primaries")),
            part(self.dropped, "copy", "dropped").map(|text| text.replace("copys", "copies")),
        ];
        let text = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        if text.is_empty() { format!("{} begun", count(self.begun, "move")) } else { text }
    }

    fn add(&mut self, change: &Change<'_>) {
        let Some(before) = change.before else {
            self.halved += 1;
            return;
        };
        let now = change.now;
        let named = |nodes: &[NodeId], than: &[NodeId]| nodes.iter().filter(|node| !than.contains(node)).count();
        self.made += named(now.members(), &before.members);
        self.dropped += named(&before.members, now.members());
        self.handed += usize::from(before.primary != now.primary());
        self.begun += usize::from(!now.catching_up().is_empty());
    }
}

impl Moves {
    /// What follows is due to something else.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// The first placement is no move.
    pub(super) fn on_order(&mut self, place: Place, trigger: Option<u64>, order: &Order, book: &Book) {
        for step in &order.steps {
            if let Step::Place { buckets, copies, .. } = step {
                let text = format!("{} placed, of {} each", count(usize::from(*buckets), "bucket"), copies_of(*copies));
                let draft = place.draft(trigger, Kind::Placed, Grade::Good, text);
                book.write(Draft { buckets: usize::from(*buckets), ..draft });
            }
        }
    }

    pub(super) fn on_changes(
        &mut self,
        place: Place,
        trigger: Option<u64>,
        changes: &[Change<'_>],
        take_overs: &mut TakeOvers,
        names: &BTreeMap<NodeId, String>,
        book: &Book,
    ) {
        // Where no table was, it was placed.
        let halved = |change: &&Change<'_>| change.now.divided.is_some();
        let counted: Vec<&Change<'_>> =
            changes.iter().filter(|change| change.before.is_some() || halved(change)).collect();
        if counted.is_empty() {
            return;
        }
        let (event, mut sum) = self.open.unwrap_or_else(|| {
            let draft = place.draft(trigger, Kind::Moved, Grade::Plain, String::new());
            (book.write(draft), Sum::default())
        });
        for change in counted {
            sum.add(change);
            take_overs.on_order(place, change, event, names, book);
        }
        self.open = Some((event, sum));
        book.revise(event, |event| {
            event.text = sum.text();
            event.buckets = sum.halved + sum.made.max(sum.handed).max(sum.dropped).max(sum.begun);
        });
    }
}

fn copies_of(copies: u8) -> String {
    if copies == 1 { "1 copy".to_owned() } else { format!("{copies} copies") }
}
