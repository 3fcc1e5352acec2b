//! The frames that carry the load, by hand: what replicas say to each other, requests on their way to the primary, and
//! their answers. Fixed widths, little-endian; a reader takes no memory but for what is there.
//!
//! ```text
//! cluster:8 generation:8 from:4 life:4 cookie:8 to:4 to_cookie:8   then, by the kind of the frame:
//!
//! REPLICAS  count:4 messages      a message: flags:1 bucket:2 epoch, then by its kind (`replica.rs`)
//! HOP       `hop.rs`
//! HOPPED    `hop.rs`
//! VOUCH     number:8 shard:2 shards:2
//! VOUCHED   number:8 shard:2 known:1 and, where that is 1: generation:8 slot:8
//! ```
//!
//! An epoch is only its slot, of eight bytes, where it is of the frame's generation and was never revived, and whole
//! otherwise: a flag says which. Each value has one way to be written here, and none as postcard.
//!
//! Not here: the version and the kind of a frame, its limits, all other messages (`message.rs`).

mod hop;
mod replica;

use atoll_node::shard::message::{ShardMessage, Vouch, Vouched};
use atoll_node::{Envelope, Message};
use atoll_types::bytes::{Reader, put_long, put_short, put_string, put_word};
use atoll_types::{ClusterId, Cookie, Epoch, Generation, Incarnation, Latest, Mark, NodeId, Offset, Payload, Slot};

/// Kinds of frames. Zero is all that is not here.
const REPLICAS: u8 = 1;
const HOP: u8 = 2;
const HOPPED: u8 = 3;
const VOUCH: u8 = 4;
const VOUCHED: u8 = 5;

/// Memory that a byte outside of payloads may take, about: an answer of five has a place in a list that may be half
/// empty.
pub(crate) const LOOSE_COST: usize = 32;

/// Elements of a list that room is made for in advance.
const RESERVED_MOST: usize = 4096;

/// The kind of the frame that this message has; zero where it is not for here.
pub(crate) fn kind(message: &Message) -> u8 {
    match message {
        Message::Paxos(_) | Message::Cluster(_) => 0,
        Message::Shard(ShardMessage::Replicas(_)) => REPLICAS,
        Message::Shard(ShardMessage::Hop(_)) => HOP,
        Message::Shard(ShardMessage::Hopped(_)) => HOPPED,
        Message::Shard(ShardMessage::Vouch(_)) => VOUCH,
        Message::Shard(ShardMessage::Vouched(_)) => VOUCHED,
    }
}

/// Appends what follows the kind. Tells how many of the bytes are of payloads.
pub(crate) fn encode(envelope: &Envelope, out: &mut Vec<u8>) -> usize {
    put_long(out, envelope.cluster.0);
    put_generation(out, envelope.generation);
    put_word(out, envelope.from.0);
    put_word(out, envelope.incarnation.life);
    put_long(out, envelope.incarnation.cookie.0);
    put_word(out, envelope.to.0);
    put_long(out, envelope.to_cookie.0);
    let mut writer = Writer { out, generation: envelope.generation, payloads: 0 };
    match &envelope.message {
        Message::Shard(ShardMessage::Replicas(messages)) => replica::put_messages(&mut writer, messages),
        Message::Shard(ShardMessage::Hop(hop)) => hop::put_hop(&mut writer, hop),
        Message::Shard(ShardMessage::Hopped(hopped)) => hop::put_hopped(&mut writer, hopped),
        Message::Shard(ShardMessage::Vouch(vouch)) => put_vouch(writer.out, vouch),
        Message::Shard(ShardMessage::Vouched(vouched)) => put_vouched(writer.out, vouched),
        Message::Paxos(_) | Message::Cluster(_) => {}
    }
    writer.payloads
}

/// Why there is no envelope.
pub(crate) enum Wrong {
    Malformed,
    TooLoose,
    Trailing(usize),
}

/// Reads what follows the kind, and tells how many bytes stand outside of payloads.
pub(crate) fn decode(kind: u8, bytes: &[u8], loose_most: usize) -> Result<(Envelope, usize), Wrong> {
    let (reader, length) = (Reader::new(bytes), bytes.len());
    let mut source = Source { reader, generation: Generation::default(), length, payloads: 0, loose_most };
    let envelope = envelope(kind, &mut source);
    let (loose, left) = (source.loose(), source.reader.rest().len());
    match envelope {
        _ if loose > loose_most => Err(Wrong::TooLoose), // Whatever it is.
        None => Err(Wrong::Malformed),
        Some(_) if left > 0 => Err(Wrong::Trailing(left)),
        Some(envelope) => Ok((envelope, loose)),
    }
}

fn envelope(kind: u8, source: &mut Source<'_>) -> Option<Envelope> {
    let reader = &mut source.reader;
    let cluster = ClusterId(reader.long()?);
    let generation = generation(reader)?;
    let from = NodeId(reader.word()?);
    let incarnation = Incarnation { life: reader.word()?, cookie: Cookie(reader.long()?) };
    let (to, to_cookie) = (NodeId(reader.word()?), Cookie(reader.long()?));
    source.generation = generation;
    let message = match kind {
        REPLICAS => ShardMessage::Replicas(replica::messages(source)?),
        HOP => ShardMessage::Hop(hop::hop(source)?),
        HOPPED => ShardMessage::Hopped(hop::hopped(source)?),
        VOUCH => ShardMessage::Vouch(vouch(&mut source.reader)?),
        VOUCHED => ShardMessage::Vouched(vouched(&mut source.reader)?),
        0 | 6.. => return None,
    };
    Some(Envelope { cluster, generation, from, incarnation, to, to_cookie, message: Message::Shard(message) })
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    generation: Generation,
    payloads: usize,
}

impl Writer<'_> {
    fn payload(&mut self, payload: &[u8]) {
        self.payloads += payload.len();
        put_string(self.out, payload);
    }

    fn is_short(&self, epoch: Epoch) -> bool {
        epoch.generations() == (self.generation, 0)
    }

    /// `short`: as `is_short` says.
    fn epoch(&mut self, epoch: Epoch, short: bool) {
        if !short {
            self.generations(epoch);
        }
        put_long(self.out, epoch.slot.0);
    }

    /// All of an epoch but its slot.
    fn generations(&mut self, epoch: Epoch) {
        put_generation(self.out, epoch.generation);
        put_word(self.out, epoch.revival);
    }

    fn mark(&mut self, mark: Mark, short: bool) {
        self.epoch(mark.epoch, short);
        put_long(self.out, mark.offset.0);
    }
}

struct Source<'a> {
    reader: Reader<'a>,
    generation: Generation,
    /// Of all bytes, and of those read in payloads.
    length: usize,
    payloads: usize,
    loose_most: usize,
}

impl<'a> Source<'a> {
    /// Bytes read so far that are not of payloads.
    fn loose(&self) -> usize {
        self.length - self.reader.rest().len() - self.payloads
    }

    /// As many as a count of four bytes says, each of at least `least` bytes: a count alone makes nobody reserve
    /// memory, and many small ones are given up on the way.
    fn list<T>(&mut self, least: usize, mut element: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.reader.word()? as usize;
        let mut list = Vec::with_capacity(count.min(self.reader.rest().len() / least).min(RESERVED_MOST));
        for _ in 0..count {
            list.push(element(self)?);
            if self.loose() > self.loose_most {
                return None;
            }
        }
        Some(list)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let bytes = self.reader.string()?;
        self.payloads += bytes.len();
        Some(bytes)
    }

    fn payload(&mut self) -> Option<Payload> {
        self.bytes().map(Payload::from)
    }

    fn epoch(&mut self, short: bool) -> Option<Epoch> {
        let (generation, revival) = self.generations(short)?;
        Some(Epoch { generation, revival, slot: Slot(self.reader.long()?) })
    }

    /// All of an epoch but its slot.
    fn generations(&mut self, short: bool) -> Option<(Generation, u32)> {
        Some(if short { (self.generation, 0) } else { (generation(&mut self.reader)?, self.reader.word()?) })
    }

    fn mark(&mut self, short: bool) -> Option<Mark> {
        Some(Mark { epoch: self.epoch(short)?, offset: Offset(self.reader.long()?) })
    }
}

fn put_generation(out: &mut Vec<u8>, generation: Generation) {
    put_word(out, generation.number);
    put_word(out, generation.by.0);
}

fn generation(reader: &mut Reader<'_>) -> Option<Generation> {
    Some(Generation { number: reader.word()?, by: NodeId(reader.word()?) })
}

fn put_vouch(out: &mut Vec<u8>, vouch: &Vouch) {
    put_long(out, vouch.number);
    put_short(out, vouch.shard);
    put_short(out, vouch.shards);
}

fn vouch(reader: &mut Reader<'_>) -> Option<Vouch> {
    Some(Vouch { number: reader.long()?, shard: reader.short()?, shards: reader.short()? })
}

fn put_vouched(out: &mut Vec<u8>, vouched: &Vouched) {
    put_long(out, vouched.number);
    put_short(out, vouched.shard);
    out.push(u8::from(vouched.latest.is_some()));
    if let Some(latest) = vouched.latest {
        put_generation(out, latest.generation);
        put_long(out, latest.slot.0);
    }
}

fn vouched(reader: &mut Reader<'_>) -> Option<Vouched> {
    let (number, shard) = (reader.long()?, reader.short()?);
    let latest = match reader.byte()? {
        0 => None,
        1 => Some(Latest { generation: generation(reader)?, slot: Slot(reader.long()?) }),
        2.. => return None,
    };
    Some(Vouched { number, shard, latest })
}
