//! Who serves which hash slots, and where native clients reach them.
//!
//! ```text
//! table   cluster:8 version:8 nodes: list of (id:4 present:1 name:string address:string)
//!         ranges: list of (first:2 last:2 primary:4)
//! ```
//!
//! `list` is a count of 4 bytes and so many elements; `string` is a length of 4 bytes and so many bytes.

use atoll_types::bytes::{Reader, put_length, put_long, put_short, put_string, put_word};
use atoll_types::{HashSlot, NodeId};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub cluster: u64,
    /// Of two tables of one cluster the higher is the newer.
    pub version: u64,
    pub nodes: Vec<Node>,
    /// By their first slot.
    pub ranges: Vec<Range>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: NodeId,
    pub present: bool,
    pub name: String,
    pub address: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub first: HashSlot,
    pub last: HashSlot,
    /// Nobody, where the bucket is not served for now.
    pub primary: NodeId,
}

impl Table {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_long(out, self.cluster);
        put_long(out, self.version);
        put_length(out, self.nodes.len());
        for node in &self.nodes {
            put_word(out, node.id.0);
            out.push(u8::from(node.present));
            put_string(out, node.name.as_bytes());
            put_string(out, node.address.as_bytes());
        }
        put_length(out, self.ranges.len());
        for range in &self.ranges {
            put_short(out, range.first.0);
            put_short(out, range.last.0);
            put_word(out, range.primary.0);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Table> {
        let (cluster, version) = (reader.long()?, reader.long()?);
        let nodes = reader.list(node)?;
        let ranges = reader.list(range)?;
        // Whoever looks a slot up relies on the order.
        let ordered = ranges.is_sorted_by(|range, next| range.last < next.first);
        ordered.then_some(Table { cluster, version, nodes, ranges })
    }

    pub fn range_of(&self, slot: HashSlot) -> Option<&Range> {
        let after = self.ranges.partition_point(|range| range.first <= slot);
        self.ranges[..after].last().filter(|range| slot <= range.last)
    }

    /// The node that serves this slot.
    pub fn primary_of(&self, slot: HashSlot) -> Option<&Node> {
        let primary = self.range_of(slot)?.primary;
        self.nodes.iter().find(|node| node.id == primary)
    }
}

fn node(reader: &mut Reader<'_>) -> Option<Node> {
    let id = NodeId(reader.word()?);
    let present = match reader.byte()? {
        0 => false,
        1 => true,
        2.. => return None,
    };
    Some(Node { id, present, name: text(reader)?, address: text(reader)? })
}

fn text(reader: &mut Reader<'_>) -> Option<String> {
    std::str::from_utf8(reader.string()?).ok().map(str::to_owned)
}

fn range(reader: &mut Reader<'_>) -> Option<Range> {
    let (first, last) = (HashSlot(reader.short()?), HashSlot(reader.short()?));
    let primary = NodeId(reader.word()?);
    (first <= last && last.0 < HashSlot::COUNT).then_some(Range { first, last, primary })
}
