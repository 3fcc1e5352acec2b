//! What a run leaves behind: a digest of everything that happened, and the last interesting events in words.

use crate::clock::Moment;
use crate::plan::host_name;
use crate::watch::Sight;
use atoll_node::shard::door::Answer;
use atoll_node::{BucketEvent, Envelope, Event};
use std::collections::VecDeque;
use xxhash_rust::xxh3::xxh3_64;

/// How many events a violation shows.
const KEPT: usize = 60;

#[derive(Debug)]
enum Note {
    Raised { host: usize, event: Event },
    OfBucket { host: usize, event: BucketEvent },
    Said(String),
}

#[derive(Debug)]
pub(crate) struct Trace {
    digest: u64,
    notes: VecDeque<(Moment, Note)>,
    /// Print as it happens.
    aloud: bool,
    /// For a watcher, if there is one; taken from here after every turn.
    pub(crate) sights: Option<Vec<(Moment, Sight)>>,
    scratch: Vec<u8>,
}

impl Trace {
    pub(crate) fn new(seed: u64, aloud: bool) -> Trace {
        Trace { digest: seed, notes: VecDeque::with_capacity(KEPT + 1), aloud, sights: None, scratch: Vec::new() }
    }

    pub(crate) fn digest(&self) -> u64 {
        let mut word = self.digest;
        word ^= word >> 32;
        word = word.wrapping_mul(0xd6e8_feb8_6659_fd93);
        word ^ (word >> 32)
    }

    /// Order counts: the same words in another order give another digest.
    pub(crate) fn mix(&mut self, word: u64) {
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    pub(crate) fn delivered(&mut self, now: Moment, host: usize, bytes: &[u8]) {
        self.mix(now.0);
        self.mix(host as u64 ^ xxh3_64(bytes));
    }

    /// Anything else that reaches a host, by a word that tells what it is.
    pub(crate) fn happened(&mut self, now: Moment, host: usize, what: u64) {
        self.mix(now.0);
        self.mix((host as u64) << 32 ^ what);
    }

    pub(crate) fn raised(&mut self, now: Moment, host: usize, event: Event, fresh: bool) {
        self.scratch.clear();
        let scratch = std::mem::take(&mut self.scratch);
        self.scratch = postcard::to_extend(&event, scratch).expect("an event can always be written to memory");
        let word = xxh3_64(&self.scratch);
        self.mix(host as u64);
        self.mix(word);
        // The same entry on every node would push everything else out.
        let interesting = match &event {
            Event::Decided { .. } => fresh,
            Event::Delivered { .. } | Event::BarrierOpened { .. } => false,
            Event::Named { .. }
            | Event::BarrierReduced { .. }
            | Event::Submitted { .. }
            | Event::Rejected { .. }
            | Event::Unknown { .. }
            | Event::Leading { .. }
            | Event::SteppedDown { .. }
            | Event::Government { .. }
            | Event::SnapshotInstalled { .. }
            | Event::SnapshotMade { .. }
            | Event::Trimmed { .. }
            | Event::Departed { .. }
            | Event::Fenced { .. }
            | Event::LevelRaised { .. }
            | Event::Alarm(_) => true,
        };
        self.see(now, || Sight::Raised { node: host_name(host), event: event.clone() });
        if interesting || self.aloud {
            self.note(now, Note::Raised { host, event });
        }
    }

    pub(crate) fn of_bucket(&mut self, now: Moment, host: usize, event: BucketEvent) {
        self.scratch.clear();
        let scratch = std::mem::take(&mut self.scratch);
        self.scratch = postcard::to_extend(&event, scratch).expect("an event can always be written to memory");
        let word = xxh3_64(&self.scratch);
        self.mix(host as u64);
        self.mix(word);
        // Each entry on every member would push everything else out.
        let interesting = match &event {
            BucketEvent::Applied { .. }
            | BucketEvent::Committed { .. }
            | BucketEvent::Confirmed { .. }
            | BucketEvent::VouchedFor { .. }
            | BucketEvent::Leased { .. } => false,
            BucketEvent::Serving { .. }
            | BucketEvent::Cut { .. }
            | BucketEvent::Installed { .. }
            | BucketEvent::Divided { .. }
            | BucketEvent::Purged { .. }
            | BucketEvent::Diverged { .. } => true,
        };
        if interesting || self.aloud {
            self.note(now, Note::OfBucket { host, event });
        }
    }

    /// A host answers a client.
    pub(crate) fn answered(&mut self, host: usize, request: u64, answer: &Answer) {
        self.scratch.clear();
        let scratch = std::mem::take(&mut self.scratch);
        self.scratch = postcard::to_extend(answer, scratch).expect("an answer can always be written to memory");
        let word = xxh3_64(&self.scratch);
        self.mix((host as u64) << 32 ^ request);
        self.mix(word);
    }

    fn see(&mut self, now: Moment, sight: impl FnOnce() -> Sight) {
        if let Some(sights) = &mut self.sights {
            sights.push((now, sight()));
        }
    }

    /// A message is sent, and arrives then; or never.
    pub(crate) fn sent(&mut self, now: Moment, from: usize, to: usize, envelope: &Envelope, arrives: Option<Moment>) {
        self.see(now, || Sight::Sent {
            from: host_name(from),
            to: host_name(to),
            envelope: envelope.clone(),
            arrives: arrives.map(Moment::elapsed),
        });
    }

    pub(crate) fn fault(&mut self, now: Moment, text: String) {
        self.see(now, || Sight::Fault(text.clone()));
        self.note(now, Note::Said(text));
    }

    pub(crate) fn say(&mut self, now: Moment, text: String) {
        self.see(now, || Sight::Said(text.clone()));
        self.note(now, Note::Said(text));
    }

    pub(crate) fn is_aloud(&self) -> bool {
        self.aloud
    }

    fn note(&mut self, now: Moment, note: Note) {
        if self.aloud {
            println!("{}", describe(now, &note));
        }
        self.notes.push_back((now, note));
        if self.notes.len() > KEPT {
            self.notes.pop_front();
        }
    }

    pub(crate) fn last_events(&self) -> Vec<String> {
        self.notes.iter().map(|(now, note)| describe(*now, note)).collect()
    }
}

fn describe(now: Moment, note: &Note) -> String {
    let seconds = now.elapsed().as_secs_f64();
    match note {
        Note::Raised { host, event } => format!("{seconds:11.6} {:4} {event:?}", host_name(*host)),
        Note::OfBucket { host, event } => format!("{seconds:11.6} {:4} {event:?}", host_name(*host)),
        Note::Said(text) => format!("{seconds:11.6} ---- {text}"),
    }
}
