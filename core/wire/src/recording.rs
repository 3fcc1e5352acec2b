//! A recording: everything that reached one node through its door, so that a later run can do the same again.
//!
//! ```text
//! magic │ format u16 LE │ header │ outcome │ input │ outcome │ input │ outcome │ …
//!                          └ step 0: start ┘ └─── step 1 ───┘ └─── step 2 ───┘
//! ```
//!
//! An input is written before the node handles it, its outcome (digests of what came of it) after. So the recording of
//! a node that did not survive an input ends with that input.
//!
//! Not here: running it again (`replay`), the file (whoever appends the bytes given here to it).

use crate::codec::{self, Unreadable};
use crate::frame::{self, Found};
use atoll_node::{Config, Input, Node, Output};
use atoll_types::{Record, Time};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const MAGIC: &[u8; 8] = b"ATOLLREC";
const FORMAT: u16 = 2;
const PREAMBLE: usize = MAGIC.len() + 2;

/// The state is digested at every so many steps: often enough to find a difference near its cause, seldom enough to
/// cost little.
const STATE_EVERY: u64 = 64;

/// The first byte of a frame's body.
const KIND_HEADER: u8 = 0;
const KIND_INPUT: u8 = 1;
const KIND_OUTCOME: u8 = 2;

/// What the node was started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the build that recorded. Another one may behave differently, rightly so.
    pub build: String,
    pub config: Config,
    pub seed: u64,
    pub now: Time,
    pub records: Vec<Record>,
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) outputs: u64,
    pub(crate) state: Option<u64>,
}

/// One step as it was recorded. The first has no input: it is the start.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) now: Time,
    pub(crate) input: Option<Input>,
    /// None only at the end of a recording.
    pub(crate) outcome: Option<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordingError {
    #[error("not a recording")]
    NotARecording,
    #[error("a recording of format {found}; this build reads format {FORMAT}")]
    Format { found: u16 },
    #[error("the recording ends at byte {at}, inside its header: nothing can be replayed")]
    NoHeader { at: usize },
    #[error("the recording is damaged at byte {at}: the checksum of the frame is wrong")]
    Damaged { at: usize },
    #[error("the frame at byte {at} cannot be read: {reason}")]
    Malformed { at: usize, reason: postcard::Error },
    #[error("the frame at byte {at} has {extra} bytes too many")]
    Trailing { at: usize, extra: usize },
    #[error("the frame at byte {at} is of a kind that does not belong there ({kind})")]
    OutOfPlace { at: usize, kind: u8 },
}

/// Turns what happens at a node's door into the bytes of a recording. The caller appends them to a file, in order.
#[derive(Debug)]
pub struct Recorder {
    /// The step whose outcome is written next.
    index: u64,
    /// An input was written and its outcome was not.
    open: bool,
    scratch: Vec<u8>,
}

impl Recorder {
    /// The beginning of a recording, to be written before the node is started. `outcome` follows, with what `poll` gave
    /// after the start.
    pub fn new(config: &Config, seed: u64, records: &[Record], now: Time) -> (Recorder, Vec<u8>) {
        let header = Header {
            build: env!("CARGO_PKG_VERSION").to_owned(),
            config: config.clone(),
            seed,
            now,
            records: records.to_vec(),
        };
        let mut bytes = Vec::new();
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        put(&mut bytes, KIND_HEADER, &header);
        (Recorder { index: 0, open: true, scratch: Vec::new() }, bytes)
    }

    /// To be written before the node handles the input.
    pub fn input(&mut self, now: Time, input: &Input) -> Vec<u8> {
        assert!(!self.open, "the outcome of step {} is missing", self.index);
        self.open = true;
        let mut bytes = Vec::new();
        put(&mut bytes, KIND_INPUT, &(now, input));
        bytes
    }

    /// To be written after the start, and after each input: what `poll` gave, all of it.
    pub fn outcome(&mut self, outputs: &[Output], node: &Node) -> Vec<u8> {
        assert!(self.open, "step {} has no input", self.index);
        let outcome = Outcome {
            outputs: digest_outputs(outputs, &mut self.scratch),
            state: self.index.is_multiple_of(STATE_EVERY).then(|| node.digest()),
        };
        self.open = false;
        self.index += 1;
        let mut bytes = Vec::new();
        put(&mut bytes, KIND_OUTCOME, &outcome);
        bytes
    }

    /// Input and outcome at once, for a caller that does not need the input of a node's last moment.
    pub fn step(&mut self, now: Time, input: &Input, outputs: &[Output], node: &Node) -> Vec<u8> {
        let mut bytes = self.input(now, input);
        bytes.append(&mut self.outcome(outputs, node));
        bytes
    }
}

fn put<T: Serialize>(bytes: &mut Vec<u8>, kind: u8, value: &T) {
    frame::put(bytes, |body| {
        body.push(kind);
        codec::append(value, body);
    });
}

/// Each output is digested on top of the one before, so their order counts.
pub(crate) fn digest_outputs(outputs: &[Output], scratch: &mut Vec<u8>) -> u64 {
    outputs.iter().fold(0, |digest, output| {
        scratch.clear();
        codec::append(output, scratch);
        xxh3_64_with_seed(scratch, digest)
    })
}

/// A recording, read.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) header: Header,
    /// Never empty: the first is the start.
    pub(crate) moments: Vec<Moment>,
    /// The byte where the frame begins that the file does not hold to its end.
    pub(crate) cut: Option<usize>,
}

pub(crate) fn read(bytes: &[u8]) -> Result<Recording, RecordingError> {
    let (header, mut at) = read_header(bytes)?;
    let mut moments = vec![Moment { now: header.now, input: None, outcome: None }];
    let cut = loop {
        let (body, next) = match frame::take(bytes, at) {
            Found::Whole { body, next } => (body, next),
            Found::End => break None,
            Found::Cut => break Some(at),
            Found::Damaged => return Err(RecordingError::Damaged { at }),
        };
        match (body.split_first(), moments.last_mut()) {
            (Some((&KIND_OUTCOME, value)), Some(moment @ Moment { outcome: None, .. })) => {
                moment.outcome = Some(read_value(value, at)?);
            }
            (Some((&KIND_INPUT, value)), Some(Moment { outcome: Some(_), .. })) => {
                let (now, input) = read_value(value, at)?;
                moments.push(Moment { now, input: Some(input), outcome: None });
            }
            (kind, _) => {
                let kind = kind.map_or(u8::MAX, |(&kind, _)| kind);
                return Err(RecordingError::OutOfPlace { at, kind });
            }
        }
        at = next;
    };
    Ok(Recording { header, moments, cut })
}

/// The header, and where the frames after it begin.
fn read_header(bytes: &[u8]) -> Result<(Header, usize), RecordingError> {
    let Some((magic, rest)) = bytes.split_first_chunk() else {
        return Err(RecordingError::NotARecording);
    };
    if magic != MAGIC {
        return Err(RecordingError::NotARecording);
    }
    match rest.first_chunk().map(|format| u16::from_le_bytes(*format)) {
        None => return Err(RecordingError::NoHeader { at: bytes.len() }),
        Some(FORMAT) => {}
        Some(found) => return Err(RecordingError::Format { found }),
    }
    match frame::take(bytes, PREAMBLE) {
        Found::Whole { body, next } => match body.split_first() {
            Some((&KIND_HEADER, value)) => Ok((read_value(value, PREAMBLE)?, next)),
            kind => {
                let kind = kind.map_or(u8::MAX, |(&kind, _)| kind);
                Err(RecordingError::OutOfPlace { at: PREAMBLE, kind })
            }
        },
        Found::End | Found::Cut => Err(RecordingError::NoHeader { at: bytes.len() }),
        Found::Damaged => Err(RecordingError::Damaged { at: PREAMBLE }),
    }
}

fn read_value<T: serde::de::DeserializeOwned>(value: &[u8], at: usize) -> Result<T, RecordingError> {
    codec::read(value).map_err(|unreadable| match unreadable {
        Unreadable::Malformed(reason) => RecordingError::Malformed { at, reason },
        Unreadable::Trailing(extra) => RecordingError::Trailing { at, extra },
    })
}
