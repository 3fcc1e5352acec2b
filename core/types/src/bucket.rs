//! The key space: hash slots, and the buckets they are gathered in.

use crate::{Generation, Malformed, NodeId, Slot};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A key belongs to one of these for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HashSlot(pub u16);

impl HashSlot {
    pub const COUNT: u16 = 16_384;

    /// The slot of a key: of the text between its first `{` and the next `}`, where that is not empty.
    pub fn of(key: &[u8]) -> HashSlot {
        let tag = if key.contains(&b'{') { tag(key) } else { None };
        HashSlot(crc16(tag.unwrap_or(key)) % HashSlot::COUNT)
    }
}

fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let rest = &key[open + 1..];
    let close = rest.iter().position(|&byte| byte == b'}')?;
    (close > 0).then(|| &rest[..close])
}

/// Of each byte, with as many zeros behind it as the table's number says: four bytes are then one step.
static CRC16: [[u16; 256]; 4] = crc16_tables();

/// CRC16/XMODEM: polynomial 0x1021, from 0, no reflection.
const fn crc16_tables() -> [[u16; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 32 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
            if bit % 8 == 0 {
                tables[bit / 8 - 1][byte] = crc;
            }
        }
        byte += 1;
    }
    tables
}

fn crc16(bytes: &[u8]) -> u16 {
    let (fours, rest) = bytes.as_chunks();
    let crc = fours.iter().fold(0_u16, |crc, &[a, b, c, d]| {
        let [high, low] = crc.to_be_bytes();
        let at = |table: usize, byte: u8| CRC16[table][usize::from(byte)];
        at(3, a ^ high) ^ at(2, b ^ low) ^ at(1, c) ^ at(0, d)
    });
    rest.iter().fold(crc, |crc, &byte| (crc << 8) ^ CRC16[0][usize::from((crc >> 8) as u8 ^ byte)])
}

/// One partition of the key space, named by its first hash slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BucketId(pub u16);

impl fmt::Display for BucketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The hash slots of one bucket, both ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SlotRange {
    pub first: HashSlot,
    pub last: HashSlot,
}

impl SlotRange {
    pub const ALL: SlotRange = SlotRange { first: HashSlot(0), last: HashSlot(HashSlot::COUNT - 1) };

    pub fn contains(&self, slot: HashSlot) -> bool {
        self.first <= slot && slot <= self.last
    }

    pub fn bucket(&self) -> BucketId {
        BucketId(self.first.0)
    }

    /// How many slots.
    pub fn width(&self) -> u16 {
        self.last.0 - self.first.0 + 1
    }

    /// The lower half, which keeps the name, and the upper. None where there is nothing to halve.
    pub fn halves(&self) -> Option<(SlotRange, SlotRange)> {
        let half = self.width() / 2;
        let upper = HashSlot(self.first.0 + half);
        (half > 0).then(|| {
            let lower = SlotRange { first: self.first, last: HashSlot(upper.0 - 1) };
            (lower, SlotRange { first: upper, last: self.last })
        })
    }
}

/// When an appointment began: the slot of its edict. Generations compare first: that of the cluster, then the bucket's
/// own, since whatever an operator's word cut off has no place among what comes after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch {
    pub generation: Generation,
    /// How often an operator had revived the bucket.
    pub revival: u32,
    pub slot: Slot,
}

impl Epoch {
    pub const ZERO: Epoch = Epoch { generation: Generation { number: 0, by: NodeId(0) }, revival: 0, slot: Slot(0) };

    /// Of the cluster and of the bucket. Offsets are comparable only within one.
    pub fn generations(&self) -> (Generation, u32) {
        (self.generation, self.revival)
    }

    pub fn latest(&self) -> Latest {
        Latest { generation: self.generation, slot: self.slot }
    }
}

/// The latest edict that somebody has heard of, whatever bucket it is about. Of one bucket a later epoch has a later
/// edict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Latest {
    pub generation: Generation,
    pub slot: Slot,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.generation.number != 0 {
            write!(f, "{}:", self.generation)?;
        }
        if self.revival != 0 {
            write!(f, "r{}:", self.revival)?;
        }
        write!(f, "{}", self.slot)
    }
}

/// A position in a bucket's log. The first entry has offset 1; 0 is "before all".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Offset(pub u64);

impl Offset {
    pub const ZERO: Offset = Offset(0);

    /// No log gets so far; a message that speaks of offsets beyond is nonsense.
    pub const MOST: Offset = Offset(1 << 62);

    pub fn next(self) -> Offset {
        Offset(self.0.saturating_add(1))
    }

    pub fn previous(self) -> Offset {
        Offset(self.0.saturating_sub(1))
    }

    /// How many offsets lie above `lower`, up to and with this one.
    pub fn above(self, lower: Offset) -> u64 {
        self.0.saturating_sub(lower.0)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An entry's epoch and offset. Two logs that have the same mark agree in everything up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mark {
    pub epoch: Epoch,
    pub offset: Offset,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.epoch, self.offset)
    }
}

/// Where in which bucket an operation took place. A read has the position of the last entry it saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    pub bucket: BucketId,
    pub mark: Mark,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket, self.mark)
    }
}

impl FromStr for Epoch {
    type Err = Malformed;

    /// Reads only what `Display` writes.
    fn from_str(text: &str) -> Result<Epoch, Malformed> {
        let mut epoch = Epoch::ZERO;
        let mut parts = text.rsplit(':');
        epoch.slot = Slot(parts.next().and_then(|slot| slot.parse().ok()).ok_or(Malformed)?);
        for part in parts {
            if let Some(revival) = part.strip_prefix('r') {
                epoch.revival = revival.parse().map_err(|_| Malformed)?;
            } else {
                let (number, by) = part.split_once('#').ok_or(Malformed)?;
                let (number, by) = (number.parse().map_err(|_| Malformed)?, by.parse().map_err(|_| Malformed)?);
                epoch.generation = Generation { number, by: NodeId(by) };
            }
        }
        if epoch.to_string() == text { Ok(epoch) } else { Err(Malformed) }
    }
}

impl FromStr for Position {
    type Err = Malformed;

    /// Reads only what `Display` writes.
    fn from_str(text: &str) -> Result<Position, Malformed> {
        let (bucket, mark) = text.split_once('/').ok_or(Malformed)?;
        let (epoch, offset) = mark.split_once('/').ok_or(Malformed)?;
        let bucket = BucketId(bucket.parse().map_err(|_| Malformed)?);
        let offset = Offset(offset.parse().map_err(|_| Malformed)?);
        let position = Position { bucket, mark: Mark { epoch: epoch.parse()?, offset } };
        if position.to_string() == text { Ok(position) } else { Err(Malformed) }
    }
}

/// Who serves a bucket since `epoch`. A function of the cluster log alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appointment {
    pub epoch: Epoch,
    /// Nobody, while no eligible member is there. Otherwise one of `members`.
    pub primary: NodeId,
    /// Every one of them acknowledges a write before it is committed. Sorted.
    pub members: Vec<NodeId>,
    /// They receive a copy, and count for nothing. Sorted.
    pub catching_up: Vec<NodeId>,
}

impl Appointment {
    pub fn is_member(&self, node: NodeId) -> bool {
        self.members.contains(&node)
    }

    /// Has a copy, or is being given one.
    pub fn names(&self, node: NodeId) -> bool {
        self.is_member(node) || self.catching_up.contains(&node)
    }

    /// Asserts what stands on the fields.
    pub fn check(&self) {
        assert!(self.primary.is_nobody() || self.is_member(self.primary), "the primary is a member");
        assert!(self.members.is_sorted() && self.catching_up.is_sorted(), "sets are sorted");
        assert!(self.catching_up.iter().all(|&node| !self.is_member(node)), "nobody is member and catching up");
    }
}

/// What a node is told to do about a bucket, beyond who is appointed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duty {
    pub range: SlotRange,
    pub appointment: Appointment,
    /// Entries may commit: there are at least `min_copies` members, and nobody outside of them is eligible.
    pub may_commit: bool,
    /// The log has recorded that every member acknowledged this epoch.
    pub settled: bool,
    /// The primary is to write a split as the last entry of this epoch.
    pub splitting: bool,
    /// No eligible member is left: the bucket answers `lost`.
    pub lost: bool,
    /// It has fewer copies than it should have: somebody may come back, and be glad of a long log.
    pub short: bool,
    /// Where the bucket last began with nothing, by first placement or by an operator's word. Stays, so that a copy
    /// from before an operator's word is known as void whenever its node hears of it.
    pub begins: Mark,
    /// The last split of this bucket: which bucket was halved, and in which epoch its last entry, the split, was
    /// written. Stays, so that a copy that ends with that entry can still be halved after a restart.
    pub divided: Option<(BucketId, Epoch)>,
    /// The member at which nearly all requests come in, as far as the log knows; nobody where there is none.
    pub sought_at: NodeId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_slots_that_cluster_clients_compute() {
        assert_eq!(HashSlot::of(b"123456789"), HashSlot(0x31c3));
        assert_eq!(HashSlot::of(b"foo"), HashSlot(12182));
        assert_eq!(HashSlot::of(b"{user1000}.following"), HashSlot::of(b"{user1000}.followers"));
        assert_eq!(HashSlot::of(b"foo{bar}{zap}"), HashSlot::of(b"bar"));
        assert_ne!(HashSlot::of(b"foo{}{bar}"), HashSlot::of(b"bar"), "an empty tag counts for nothing");
        assert_eq!(HashSlot::of(b"foo{{bar}}zap"), HashSlot::of(b"{bar"));
    }

    #[test]
    fn a_position_is_read_as_it_was_written() {
        let generations = [Generation::default(), Generation { number: 3, by: NodeId(7) }];
        for generation in generations {
            for (revival, offset) in [(0, 0), (0, 1), (2, 1), (u32::MAX, u64::MAX)] {
                let mark = Mark { epoch: Epoch { generation, revival, slot: Slot(55) }, offset: Offset(offset) };
                let position = Position { bucket: BucketId(256), mark };
                assert_eq!(position.to_string().parse(), Ok(position));
            }
        }
        for text in [
            "",
            "1",
            "1/2",
            "1/2/",
            "/2/3",
            "1/2/3/4",
            "1/x/3",
            "1/#1:2/3",
            "01/2/3",
            "1/+2/3",
            "70000/1/1",
            "1/r0:2/3",
            "1/r1:3#7:2/3",
        ] {
            assert_eq!(text.parse::<Position>(), Err(Malformed), "{text}");
        }
    }

    #[test]
    fn a_range_halves_down_to_single_slots() {
        let (lower, upper) = SlotRange::ALL.halves().expect("it can be halved");
        assert_eq!((lower.bucket(), lower.width()), (BucketId(0), 8192));
        assert_eq!((upper.bucket(), upper.last), (BucketId(8192), HashSlot(16383)));
        let one = SlotRange { first: HashSlot(7), last: HashSlot(7) };
        assert_eq!(one.halves(), None);
    }
}
