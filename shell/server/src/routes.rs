//! Who serves which hash slots, and where clients reach them: for clients that route themselves.

use atoll_cluster::Member;
use atoll_distributor::Distributor;
use atoll_types::{HashSlot, NodeId};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// The slot of the cluster log that this is as of.
    pub version: u64,
    pub me: NodeId,
    /// By their first slot; together they hold every slot, once there is a table.
    pub ranges: Vec<Range>,
    pub places: BTreeMap<NodeId, Place>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub first: HashSlot,
    pub last: HashSlot,
    /// Nobody, where the bucket is not served for now.
    pub primary: NodeId,
    /// With the primary.
    pub members: Vec<NodeId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub name: String,
    pub peer: String,
    pub http: String,
    pub resp: String,
    pub present: bool,
}

impl Routes {
    pub(crate) fn of(me: NodeId, members: &BTreeMap<NodeId, Member>, distributor: &Distributor) -> Routes {
        let ranges = distributor.buckets().values().map(|bucket| Range {
            first: bucket.range.first,
            last: bucket.range.last,
            primary: bucket.primary(),
            members: bucket.members().to_vec(),
        });
        let places = members.iter().map(|(&node, member)| {
            let place = Place {
                name: member.name.to_string(),
                peer: member.address.to_string(),
                http: member.endpoints.http.to_string(),
                resp: member.endpoints.resp.to_string(),
                present: !member.is_absent(),
            };
            (node, place)
        });
        Routes { version: distributor.version().0, me, ranges: ranges.collect(), places: places.collect() }
    }

    pub fn range_of(&self, slot: HashSlot) -> Option<&Range> {
        let after = self.ranges.partition_point(|range| range.first <= slot);
        self.ranges[..after].last().filter(|range| slot <= range.last)
    }

    /// Where clients reach the primary of this slot.
    pub fn place_of(&self, slot: HashSlot) -> Option<&Place> {
        self.places.get(&self.range_of(slot)?.primary)
    }

    pub fn is_mine(&self, slot: HashSlot) -> bool {
        self.range_of(slot).is_some_and(|range| range.primary == self.me)
    }
}
