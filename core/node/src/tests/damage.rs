//! A shard that comes back from a disk on which something cannot be read.

use super::town::config;
use crate::Config;
use crate::shard::Shard;
use crate::shard::door::{Contact, Directive, ShardInput, ShardOutput, Table};
use atoll_types::bugs::{Bug, plant};
use atoll_types::{
    Appointment, BucketId, BucketRecord, ClusterId, Cookie, Duty, Epoch, Generation, HashSlot, Incarnation, Mark,
    NodeId, Offset, Report, Slot, SlotRange, Time,
};
use std::collections::BTreeMap;
use std::time::Duration;

const ME: NodeId = NodeId(1);
const WIDTH: u16 = 4096;

fn life(life: u32) -> Incarnation {
    Incarnation { life, cookie: Cookie(life.into()) }
}

fn epoch(slot: u64) -> Epoch {
    Epoch { generation: Generation::default(), revival: 1, slot: Slot(slot) }
}

/// This node alone has a copy of the bucket, which an operator let begin anew at slot 308.
fn duty(bucket: BucketId, slot: u64) -> Duty {
    Duty {
        range: SlotRange { first: HashSlot(bucket.0), last: HashSlot(bucket.0 + WIDTH - 1) },
        appointment: Appointment { epoch: epoch(slot), primary: ME, members: vec![ME], catching_up: Vec::new() },
        may_commit: true,
        settled: true,
        splitting: false,
        lost: false,
        short: false,
        begins: Mark { epoch: epoch(308), offset: Offset(308 << 32) },
        divided: None,
        sought_at: NodeId::NOBODY,
    }
}

struct Alone {
    shard: Shard,
    reports: Vec<Report>,
}

impl Alone {
    /// The second life of a node that had seen the bucket begin anew.
    fn start(index: usize, bucket: BucketId) -> Alone {
        let config = Config { durable: true, ..config("n1", &["n1"]) };
        let records = vec![BucketRecord::Unreadable { bucket }];
        let mut alone = Alone { shard: Shard::start(&config, index, 1, records, Time(1_000_000)), reports: Vec::new() };
        let (cluster, generation) = (ClusterId(7), Generation::default());
        alone.tell(Directive::Named { cluster, generation, node: ME, incarnation: life(2) });
        alone
    }

    fn tell(&mut self, directive: Directive) {
        self.shard.handle(Time(1_000_000), ShardInput::Directive(directive));
        while let Some(output) = self.shard.poll() {
            match output {
                ShardOutput::Reports(reports) => self.reports.extend(reports),
                ShardOutput::Persist { seq, .. } => self.shard.handle(Time(1_000_000), ShardInput::Persisted(seq)),
                ShardOutput::Send { .. }
                | ShardOutput::WakeAt(_)
                | ShardOutput::Answer { .. }
                | ShardOutput::Event { .. } => {}
            }
        }
    }

    fn tell_roster(&mut self, incarnation: Incarnation) {
        let contact = Contact { address: "n1".into(), incarnation, present: true };
        self.tell(Directive::Roster(BTreeMap::from([(ME, contact)])));
    }

    fn tell_table(&mut self, complete: bool, bucket: BucketId, slot: u64) {
        let duties = vec![(bucket, duty(bucket, slot))];
        let (version, lease) = (Slot(slot), Duration::ZERO);
        self.tell(Directive::Table(Table { version, width: WIDTH, lease, complete, duties, purge: Vec::new() }));
    }
}

fn restarted(bucket: BucketId) -> Alone {
    let mut alone = Alone::start(0, bucket);
    alone.tell_roster(life(1));
    alone.tell_table(true, bucket, 308);
    // The entry that records the restart: first who lives, then what that changes.
    alone.tell_roster(life(2));
    alone.tell_table(false, bucket, 533);
    alone
}

#[test]
fn a_copy_that_cannot_be_read_is_not_begun_anew_on_the_word_of_a_duty_of_the_life_before() {
    let bucket = BucketId(0);
    plant(Some(Bug::DamagedBeginsAnew));
    let planted = restarted(bucket);
    plant(None);
    assert!(planted.shard.replicas()[&bucket].is_serving(), "the planted bug shows");
    let alone = restarted(bucket);
    assert!(!alone.shard.replicas()[&bucket].is_serving(), "what it held is lost, and may have been committed");
    assert!(alone.reports.contains(&Report::Damaged { bucket, epoch: epoch(533) }), "{:?}", alone.reports);
}

#[test]
fn a_bucket_that_begins_anew_by_an_edict_of_this_life_does_so_in_the_place_of_a_damaged_copy() {
    let bucket = BucketId(0);
    let mut alone = Alone::start(0, bucket);
    alone.tell_roster(life(2));
    alone.tell_table(true, bucket, 308);
    assert!(alone.shard.replicas()[&bucket].is_serving());
}

#[test]
fn a_damaged_copy_that_was_given_to_every_shard_stays_with_the_one_that_owns_it() {
    let bucket = BucketId(WIDTH);
    let copies = [0, 1].map(|index| {
        let mut alone = Alone::start(index, bucket);
        assert!(alone.shard.replicas().contains_key(&bucket), "nobody knows yet whose it is");
        alone.tell_roster(life(1));
        alone.tell_table(true, bucket, 308);
        alone.shard.replicas().contains_key(&bucket)
    });
    assert_eq!(copies, [false, true]);
}
