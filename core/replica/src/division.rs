//! A bucket is divided: each copy halves itself where the log ends with the split.

use crate::event::Event;
use crate::log::Log;
use crate::machine::Replica;
use crate::sink::Sink;
use atoll_types::{BucketBody, BucketRecord, Epoch, SlotRange, Time};

impl Replica {
    /// Does the log end with the split that the edict divides the bucket at?
    pub fn ends_with_split_of(&self, epoch: Epoch) -> bool {
        let last = self.log.last();
        // It may have been applied and trimmed: then the log is empty, and its base is the split.
        let held = self.log.get(last.offset).is_some_and(|entry| matches!(entry.body, BucketBody::Split));
        (held || self.split_at == Some(last)) && last.epoch == epoch
    }

    /// The dividing edict: every member held the split, so all up to it is committed. Gives the upper half.
    pub fn divide(&mut self, now: Time, sink: &mut Sink, lower: SlotRange, upper: SlotRange) -> Replica {
        self.committed = self.log.last_offset();
        self.apply(now, sink);
        let (bucket, at) = (self.bucket, self.log.last());
        sink.persist(BucketRecord::Divided { bucket, at, lower, upper });
        sink.event(|| Event::Divided { bucket, at, lower, upper });
        self.halve(lower, upper)
    }

    pub(crate) fn halve(&mut self, lower: SlotRange, upper: SlotRange) -> Replica {
        let other = self.copy.split(lower, upper);
        let at = self.copy.applied;
        (self.log, self.trim_beyond) = (Log::new(at), (0, 0));
        (self.committed, self.safe, self.ordered) = (at.offset, at.offset, at.offset);
        self.writing.clear();
        let mut upper = Replica::of(upper.bucket(), other);
        upper.me = self.me; // What the whole has seen is not on the disk for this half: it sees for itself.
        upper.useless = self.useless; // Whoever leads by the half of a damaged copy cuts what others have acknowledged.
        upper
    }
}
