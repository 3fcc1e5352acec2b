//! The way out of all replicas of a shard: what is to be sent, written, answered and told.

use crate::event::Event;
use crate::message::{Body, Message};
use crate::session::Refusal;
use crate::vouch::Vouchers;
use atoll_types::{BucketId, BucketRecord, Epoch, JournalSeq, Latest, NodeId, Payload, Position, Report, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// The shard's name for a request that waits in a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// In order. What is rare has memory of its own, so that answers are moved cheaply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Persist { seq: JournalSeq, record: Box<BucketRecord> },
    Answer { ticket: Ticket, outcome: Outcome },
    Report(Report),
    Event(Box<Event>),
}

/// Messages that room is made for before they are there.
const ROOM_MOST: usize = 256;

/// Nodes that a list is kept for although there is nothing for them.
const READY_MOST: usize = 1024;

/// What is to be sent, all there is for a node together.
#[derive(Debug, Default)]
pub struct Letters {
    /// By receiver. Most have something again in the next turn.
    lists: Vec<List>,
    /// Of all messages.
    count: usize,
}

#[derive(Debug)]
struct List {
    to: NodeId,
    messages: Vec<Message>,
    /// As many as there were the last time: so much room is made at once.
    room: usize,
}

impl Letters {
    pub fn push(&mut self, to: NodeId, message: Message) {
        let place = match self.lists.binary_search_by_key(&to, |list| list.to) {
            Ok(place) => place,
            Err(place) => {
                self.lists.insert(place, List { to, messages: Vec::new(), room: 0 });
                place
            }
        };
        let list = &mut self.lists[place];
        if list.messages.capacity() == 0 {
            list.messages.reserve_exact(list.room);
        }
        list.messages.push(message);
        self.count += 1;
    }

    /// What there is for the next receiver, in their order.
    pub fn take(&mut self) -> Option<(NodeId, Vec<Message>)> {
        if self.count == 0 {
            return None;
        }
        let list = self.lists.iter_mut().find(|list| !list.messages.is_empty())?;
        let (to, messages) = (list.to, std::mem::take(&mut list.messages));
        list.room = messages.len().min(ROOM_MOST);
        self.count -= messages.len();
        if self.count == 0 && self.lists.len() > READY_MOST {
            self.lists = Vec::new(); // Many of them may have departed.
        }
        Some((to, messages))
    }
}

/// What became of a request in a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done {
        position: Position,
        payload: Payload,
        duplicate: bool,
    },
    /// By its session: not applied.
    Refused(Refusal),
    /// A member has no memory to spare: not applied.
    Full,
    /// Written, and cut by an epoch that serves: it will never take effect where it was.
    Cut,
    /// Never written here: it belongs elsewhere now.
    Moved,
    /// Written, and this node will not learn what becomes of it.
    Unknown,
}

/// What replicas of a shard have in common.
#[derive(Clone, Debug)]
pub struct Settings {
    pub durable: bool,
    /// Something that was not answered is sent again after this long.
    pub retry: Duration,
    /// A member that is waited for longer than this is complained of.
    pub ack_timeout: Duration,
    /// The commit index is sent by itself when nothing else goes out for this long.
    pub commit_flush: Duration,
    /// Or on the tick before: what many buckets have to tell goes in one message. Less than the above; zero: no ticks.
    pub commit_tick: Duration,
    /// Bytes of entries in one message.
    pub frame_bytes: usize,
    /// Bytes written and not acknowledged by all.
    pub window_bytes: usize,
    /// Entries kept behind the commit, for those that return: at most so many; fewer where they are large and the state
    /// is small.
    pub log: usize,
    /// Bytes of a piece of a snapshot.
    pub piece_bytes: usize,
    /// A session that was not used for this long is forgotten.
    pub session_idle: Duration,
}

impl Settings {
    /// When what is committed now is told by itself, if no write tells it before.
    pub(crate) fn commit_at(&self, now: Time) -> Time {
        let at = (now + self.commit_flush).0;
        Time(at - at % (self.commit_tick.as_micros() as u64).max(1))
    }
}

#[derive(Debug)]
pub struct Sink {
    pub settings: Settings,
    pub actions: VecDeque<Action>,
    pub letters: Letters,
    /// Set while this node has no memory to spare.
    pub full: bool,
    /// Until then nobody else serves what this node was last told to serve.
    pub leased_until: Time,
    /// Primaries may have leases: another that takes over waits for them.
    pub leases: bool,
    pub vouchers: Vouchers,
    /// Of all epochs that copies here have seen. Only goes up.
    pub latest: Latest,
    /// The last record ordered.
    pub journal: JournalSeq,
    /// Hash slots of a bucket at first placement: goes with each copy on the disk, and tells its shard after a restart.
    pub width: u16,
    /// Events are told: costs a copy of each entry.
    pub watched: bool,
    /// How long the last entry that was committed here had waited for it, for people.
    pub commit_time: Option<Duration>,
    /// Where answers to reads are put together.
    pub(crate) scratch: Vec<u8>,
}

impl Sink {
    pub fn new(settings: Settings) -> Sink {
        Sink {
            settings,
            actions: VecDeque::new(),
            letters: Letters::default(),
            full: false,
            leased_until: Time::ZERO,
            leases: false,
            vouchers: Vouchers::default(),
            latest: Latest::default(),
            journal: JournalSeq(0),
            width: 0,
            watched: false,
            commit_time: None,
            scratch: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, to: NodeId, bucket: BucketId, epoch: Epoch, body: Body) {
        self.letters.push(to, Message { bucket, epoch, body });
    }

    /// Orders a record. None where there is no disk to wait for.
    pub fn persist(&mut self, record: BucketRecord) -> Option<JournalSeq> {
        if !self.settings.durable {
            return None;
        }
        self.journal.0 += 1;
        self.actions.push_back(Action::Persist { seq: self.journal, record: Box::new(record) });
        Some(self.journal)
    }

    pub(crate) fn answer(&mut self, ticket: Ticket, outcome: Outcome) {
        self.actions.push_back(Action::Answer { ticket, outcome });
    }

    pub(crate) fn report(&mut self, report: Report) {
        self.actions.push_back(Action::Report(report));
    }

    pub(crate) fn event(&mut self, event: impl FnOnce() -> Event) {
        if self.watched {
            self.actions.push_back(Action::Event(Box::new(event())));
        }
    }
}
