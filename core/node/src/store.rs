//! What a bucket holds: several state machines side by side. The first byte of a command or query says which is meant.
//!
//! Not here: what the machines do (`atoll-kv`, `atoll-stream`).

use atoll_types::{At, HashSlot, Malformed, Payload, StateMachine, Time};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The first byte of what is meant for the key-value store.
pub const KV: u8 = 1;
/// The first byte of what is meant for the streams.
pub const STREAM: u8 = 2;

#[derive(Debug)]
pub struct Store {
    /// By their byte, counted from 1.
    parts: Vec<Box<dyn StateMachine>>,
}

impl Store {
    pub fn new() -> Store {
        Store { parts: vec![Box::new(atoll_kv::Store::new()), Box::new(atoll_stream::Streams::new())] }
    }

    fn part(&self, bytes: &[u8]) -> Option<usize> {
        let place = usize::from(*bytes.first()?).checked_sub(1)?;
        (place < self.parts.len()).then_some(place)
    }
}

impl Default for Store {
    fn default() -> Self {
        Store::new()
    }
}

impl StateMachine for Store {
    fn empty(&self) -> Box<dyn StateMachine> {
        Box::new(Store { parts: self.parts.iter().map(|part| part.empty()).collect() })
    }

    fn apply(&mut self, at: At, command: &[u8], answer: &mut Vec<u8>) {
        if let Some(place) = self.part(command) {
            self.parts[place].apply(at, &command[1..], answer);
        }
    }

    fn advance(&mut self, at: At) {
        self.parts.iter_mut().for_each(|part| part.advance(at));
    }

    fn due(&self) -> Option<Time> {
        self.parts.iter().filter_map(|part| part.due()).min()
    }

    fn read(&self, at: At, query: &[u8], answer: &mut Vec<u8>) {
        if let Some(place) = self.part(query) {
            self.parts[place].read(at, &query[1..], answer);
        }
    }

    fn grows(&self, command: &[u8]) -> bool {
        self.part(command).is_some_and(|place| self.parts[place].grows(&command[1..]))
    }

    fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes()).sum()
    }

    fn count(&self) -> usize {
        self.parts.iter().map(|part| part.count()).sum()
    }

    fn snapshot(&self) -> Vec<u8> {
        let parts: Vec<Payload> = self.parts.iter().map(|part| part.snapshot().into()).collect();
        postcard::to_allocvec(&parts).expect("a store always has bytes")
    }

    fn install(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let images: Vec<Payload> = postcard::from_bytes(bytes).map_err(|_| Malformed)?;
        if images.len() != self.parts.len() {
            return Err(Malformed);
        }
        let mut parts: Vec<Box<dyn StateMachine>> = self.parts.iter().map(|part| part.empty()).collect();
        for (part, image) in parts.iter_mut().zip(&images) {
            part.install(image.as_slice())?;
        }
        self.parts = parts;
        Ok(())
    }

    fn split(&mut self, first: HashSlot) -> Box<dyn StateMachine> {
        Box::new(Store { parts: self.parts.iter_mut().map(|part| part.split(first)).collect() })
    }

    fn digest(&self) -> u64 {
        self.parts.iter().fold(0, |digest, part| xxh3_64_with_seed(&part.digest().to_le_bytes(), digest))
    }
}
