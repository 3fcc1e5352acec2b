//! What the shards of a node are told, in which order, and what their reports come to.

use super::town::config;
use crate::shard::door::{Directive, Table};
use crate::{Cluster, Input, Output};
use atoll_types::{Ballot, BucketId, Checkpoint, JournalSeq, Record, Report, Slot, Time};

/// A cluster machine alone, on a disk that is safe at once.
struct Alone {
    cluster: Cluster,
    now: u64,
    told: Vec<Directive>,
    records: Vec<Record>,
}

impl Alone {
    fn start(records: Vec<Record>) -> Alone {
        let config = crate::Config { durable: true, ..config("n1", &["n1"]) };
        let cluster = Cluster::start(config, 1, records.clone(), Time(1_000_000));
        let mut alone = Alone { cluster, now: 1_000_000, told: Vec::new(), records };
        alone.drain();
        alone
    }

    fn drain(&mut self) {
        let mut wake = Time::NEVER;
        let mut ordered: Option<JournalSeq> = None;
        while let Some(output) = self.cluster.poll() {
            match output {
                Output::Directive(directive) => self.told.push(directive),
                Output::Persist { seq, record } => {
                    self.records.push(record);
                    ordered = Some(seq);
                }
                Output::WakeAt(time) => wake = time,
                Output::Send { .. } | Output::Event(_) | Output::Answer { .. } | Output::Bucket { .. } => {}
            }
        }
        self.now = self.now.max(if wake == Time::NEVER { 0 } else { wake.0.min(self.now + 100_000) });
        if let Some(seq) = ordered {
            self.give(Input::Persisted(seq));
        }
    }

    fn give(&mut self, input: Input) {
        self.cluster.handle(Time(self.now), input);
        self.drain();
    }

    fn run(&mut self, inputs: usize) {
        (0..inputs).for_each(|_| self.give(Input::Wake));
    }
}

#[test]
fn a_founder_tells_its_name_then_the_others_then_the_whole_table_and_then_what_changes() {
    let mut alone = Alone::start(Vec::new());
    alone.run(100);
    let mut told = alone.told.iter();
    let named = told.next();
    assert!(matches!(named, Some(Directive::Named { .. })), "{named:?}");
    let tables: Vec<_> = alone.told.iter().filter_map(table).collect();
    assert!(alone.told.iter().any(|directive| matches!(directive, Directive::Roster(roster) if roster.len() == 1)));
    let first = tables.first().expect("there is a table");
    assert_eq!((first.complete, first.duties.len(), first.width), (true, 4, 4096));
    assert!(tables[1..].iter().all(|table| !table.complete), "told once");
    let (bucket, duty) = first.duties[1].clone();
    let before = alone.told.len();
    alone.give(Input::Reports(vec![Report::Damaged { bucket, epoch: duty.appointment.epoch }]));
    alone.run(20);
    let changed: Vec<_> = alone.told[before..].iter().filter_map(table).collect();
    assert!(changed.iter().any(|table| {
        table.duties.iter().any(|(id, new)| *id == bucket && new.lost && new.appointment.epoch > duty.appointment.epoch)
    }));
    assert!(changed.iter().all(|table| table.duties.len() == 1 && table.purge.is_empty()));
}

#[test]
fn after_a_restart_everything_is_told_anew_under_the_new_name() {
    let mut alone = Alone::start(Vec::new());
    alone.run(100);
    let Some(Directive::Named { node, incarnation, .. }) = alone.told.first().cloned() else { panic!("no name") };
    let mut again = Alone::start(alone.records.clone());
    again.run(50);
    let renamed = again.told.first();
    assert!(matches!(renamed, Some(Directive::Named { node: same, incarnation: later, .. })
        if *same == node && later.life == incarnation.life + 1));
    assert!(matches!(again.told.get(1), Some(Directive::Roster(_))));
    let whole = again.told.get(2).and_then(table).expect("the table follows");
    assert!(whole.complete && whole.duties.len() == 4 && whole.purge.is_empty());
    let later = again.told[3..].iter().filter_map(table).flat_map(|table| &table.duties);
    let renewed: Vec<BucketId> = later.map(|(bucket, _)| *bucket).collect();
    assert_eq!(renewed.len(), 4, "each bucket has a new epoch, for its member has a new life");
}

#[test]
fn a_checkpoint_that_cannot_be_read_takes_the_copies_along() {
    let mut alone = Alone::start(Vec::new());
    alone.run(100);
    let spoilt = alone.records.iter().find_map(|record| {
        let Record::Identity(identity) = record else { return None };
        let (identity, slot) = (identity.clone(), Slot(1));
        let (promised, snapshot) = (Ballot::default(), b"?".as_slice().into());
        Some(Record::Checkpoint(Checkpoint { identity, promised, snapshot, slot, decided: slot, tail: vec![] }))
    });
    let again = Alone::start(spoilt.into_iter().collect());
    assert_eq!(again.told.first(), Some(&Directive::Departed));
}

fn table(directive: &Directive) -> Option<&Table> {
    match directive {
        Directive::Table(table) => Some(table),
        Directive::Named { .. }
        | Directive::Generation(_)
        | Directive::Departed
        | Directive::Roster(_)
        | Directive::Current { .. } => None,
    }
}
