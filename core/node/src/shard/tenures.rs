//! Who led a bucket before, and may still answer reads by its lease.
//!
//! A lease ends when its holder acknowledges a later epoch, or by time. So the primary of an epoch waits for every
//! former one that is no member of it. It cannot ask them: they may be cut off, and any evidence of their death may be
//! wrong. Counted from when this node applied the edict that deposed them: a lease that began later knows of it.

use atoll_types::{BucketId, Bug, Duty, NodeId, Time, planted};
use std::collections::BTreeMap;
use std::time::Duration;

/// The wait is longer than the lease by one part in so many: clocks may run at rates that differ by a twentieth.
const MARGIN: u32 = 8;

#[derive(Debug, Default)]
pub(super) struct Tenures {
    /// By bucket, who may hold a lease, and until when. Nobody stands for one that is not known.
    holders: BTreeMap<BucketId, Vec<(NodeId, Time)>>,
}

impl Tenures {
    pub(super) fn forget(&mut self) {
        self.holders.clear();
    }

    /// A bucket gets another duty. `before`: the one that it, or what it was a half of, had until this very entry; none
    /// where entries may have been skipped.
    pub(super) fn on_duty(&mut self, now: Time, lease: Duration, bucket: BucketId, duty: &Duty, before: Option<&Duty>) {
        let epoch = duty.appointment.epoch;
        let same = before.is_some_and(|before| before.appointment.epoch == epoch);
        // The first epoch that there ever was has nobody before it.
        let first = duty.begins.epoch == epoch && duty.begins.offset.0 == 0;
        if lease.is_zero() || same || (before.is_none() && first) {
            return;
        }
        let of_whole = duty.divided.filter(|_| !self.holders.contains_key(&bucket));
        let whole = of_whole.and_then(|(whole, _)| self.holders.get(&whole).cloned());
        let holders = self.holders.entry(bucket).or_insert_with(|| whole.unwrap_or_default());
        holders.retain(|(_, until)| *until > now);
        holders
            .push((before.map_or(NodeId::NOBODY, |before| before.appointment.primary), now + lease + lease / MARGIN));
    }

    /// When the primary of this duty may serve.
    pub(super) fn serves_from(&self, bucket: BucketId, duty: &Duty) -> Time {
        if planted(Bug::UsurperDoesNotWait) {
            return Time::ZERO;
        }
        let holders = self.holders.get(&bucket).into_iter().flatten();
        let others = holders.filter(|(node, _)| !duty.appointment.is_member(*node));
        others.map(|(_, until)| *until).max().unwrap_or(Time::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{Appointment, Epoch, Mark, Slot, SlotRange};

    const BUCKET: BucketId = BucketId(0);
    const LEASE: Duration = Duration::from_micros(800);

    fn duty(slot: u64, primary: u32, members: &[u32]) -> Duty {
        let members = members.iter().copied().map(NodeId).collect();
        let epoch = Epoch { slot: Slot(slot), ..Epoch::ZERO };
        Duty {
            range: SlotRange::ALL,
            appointment: Appointment { epoch, primary: NodeId(primary), members, catching_up: Vec::new() },
            may_commit: true,
            settled: false,
            splitting: false,
            lost: false,
            short: false,
            begins: Mark { epoch: Epoch { slot: Slot(1), ..Epoch::ZERO }, ..Mark::default() },
            divided: None,
            sought_at: NodeId::NOBODY,
        }
    }

    #[test]
    fn whoever_was_left_out_is_waited_for_however_many_came_after_it() {
        let mut tenures = Tenures::default();
        let first = duty(1, 1, &[1, 2, 3]);
        tenures.on_duty(Time(0), LEASE, BUCKET, &first, None);
        assert_eq!(tenures.serves_from(BUCKET, &first), Time::ZERO, "nobody was before it");
        let second = duty(2, 2, &[1, 2, 3]);
        tenures.on_duty(Time(100), LEASE, BUCKET, &second, Some(&first));
        assert_eq!(tenures.serves_from(BUCKET, &second), Time::ZERO, "its acknowledgement ends its lease");
        let third = duty(3, 3, &[2, 3]);
        tenures.on_duty(Time(200), LEASE, BUCKET, &third, Some(&second));
        assert_eq!(tenures.serves_from(BUCKET, &third), Time(1000), "the first never acknowledged the second epoch");
        let fourth = duty(4, 3, &[3]);
        tenures.on_duty(Time(300), LEASE, BUCKET, &fourth, Some(&third));
        assert_eq!(tenures.serves_from(BUCKET, &fourth), Time(1100), "nor the second the third");
    }

    #[test]
    fn one_that_is_not_known_is_waited_for() {
        let mut tenures = Tenures::default();
        let later = duty(7, 1, &[1, 2, 3]);
        tenures.on_duty(Time(100), LEASE, BUCKET, &later, None);
        assert_eq!(tenures.serves_from(BUCKET, &later), Time(1000));
        let again = Duty { settled: true, ..later.clone() };
        tenures.on_duty(Time(500), LEASE, BUCKET, &again, Some(&later));
        assert_eq!(tenures.serves_from(BUCKET, &again), Time(1000), "the same epoch");
    }
}
