//! A recording: everything that reached one machine through its door, so that a later run can do the same again. The
//! machine is a whole node, or one of those that a node runs on threads of their own.
//!
//! ```text
//! magic │ format u16 LE │ header │ record … │ outcome │ input │ outcome │ input │ input │ outcome │ … │ end
//!                          └──── step 0: start ─────┘ └─── step 1 ───┘ └ step 2 ┘ └─── step 3 ───┘
//! ```
//!
//! An input is written before the machine handles it, its outcome (digests of what came of it) when it was asked for
//! outputs. So the recording of a machine that did not survive an input ends with that input. A machine that is given
//! several inputs before it is asked has one outcome for all of them. Where there is no end, the process was killed.
//!
//! Not here: reading it (`recording/read.rs`), running it again (`replay`), the file (whoever appends the bytes given
//! here to it).

mod read;

use crate::{codec, frame};
use atoll_node::{Config, Input, Node, Output};
use atoll_types::{Record, Time};
pub(crate) use read::{Moment, Reader};
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const MAGIC: &[u8; 8] = b"ATOLLREC";
const FORMAT: u16 = 3;
const PREAMBLE: usize = MAGIC.len() + 2;

/// The state of a node is digested at every so many steps: often enough to find a difference near its cause, seldom
/// enough to cost little.
const STATE_EVERY: u64 = 64;

/// The first byte of a frame's body.
const KIND_HEADER: u8 = 0;
const KIND_INPUT: u8 = 1;
const KIND_OUTCOME: u8 = 2;
const KIND_RECORD: u8 = 3;
const KIND_END: u8 = 4;

/// What a recording is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Machine {
    /// All machines of a node, joined.
    Node,
    /// The cluster machine alone.
    Cluster,
    /// The shard of this index alone.
    Shard(u16),
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Machine::Node => write!(f, "node"),
            Machine::Cluster => write!(f, "cluster"),
            Machine::Shard(index) => write!(f, "shard-{index}"),
        }
    }
}

/// What the machine was started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the build that recorded. Another one may behave differently, rightly so.
    pub build: String,
    pub machine: Machine,
    pub config: Config,
    pub seed: u64,
    pub now: Time,
    /// Each in a frame of its own: all together may be longer than a frame can be.
    #[serde(skip)]
    pub records: Vec<Record>,
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// How many outputs were asked for and given.
    pub(crate) count: u32,
    /// It was asked until there were no more.
    pub(crate) drained: bool,
    /// Of the outputs.
    pub(crate) outputs: u64,
    pub(crate) state: Option<u64>,
}

/// Why a recording ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The machine was stopped.
    Stopped,
    /// As many bytes were recorded as were allowed. The machine went on.
    Limit { bytes: u64 },
    /// More was to be recorded than could be written in time. The machine went on.
    Behind,
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

/// Turns what happens at a machine's doors into the bytes of a recording. The caller appends them to a file, in order.
/// It may give several inputs before it asks for outputs, and inputs between two outputs.
#[derive(Debug)]
pub struct Tape {
    bytes: Vec<u8>,
    /// Of the outputs since the last outcome.
    count: u32,
    digest: u64,
    scratch: Vec<u8>,
}

impl Tape {
    /// To be made before the machine is started. The records of the disk follow.
    pub fn new(machine: Machine, config: &Config, seed: u64, now: Time) -> Tape {
        let (build, config) = (env!("CARGO_PKG_VERSION").to_owned(), config.clone());
        let header = Header { build, machine, config, seed, now, records: Vec::new() };
        let mut bytes = Vec::new();
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        put(&mut bytes, KIND_HEADER, &header);
        Tape { bytes, count: 0, digest: 0, scratch: Vec::new() }
    }

    /// What the machine finds on its disk; before anything else.
    pub fn record(&mut self, record: &Record) {
        put(&mut self.bytes, KIND_RECORD, record);
    }

    /// Before the machine handles it.
    pub fn input<I: Serialize>(&mut self, now: Time, input: &I) {
        if self.count > 0 {
            self.outcome(false, None);
        }
        put(&mut self.bytes, KIND_INPUT, &(now, input));
    }

    /// As the machine gives it.
    pub fn output<O: Serialize>(&mut self, output: &O) {
        self.digest = digest_output(self.digest, output, &mut self.scratch);
        self.count += 1;
    }

    /// The machine has no more outputs. `state`: the digest of its state, where that is worth its while.
    pub fn drained(&mut self, state: Option<u64>) {
        self.outcome(true, state);
    }

    fn outcome(&mut self, drained: bool, state: Option<u64>) {
        let outcome = Outcome { count: self.count, drained, outputs: self.digest, state };
        (self.count, self.digest) = (0, 0);
        put(&mut self.bytes, KIND_OUTCOME, &outcome);
    }

    /// Nothing follows.
    pub fn end(&mut self, end: End) {
        if self.count > 0 {
            self.outcome(false, None);
        }
        put(&mut self.bytes, KIND_END, &end);
    }

    /// How many bytes wait to be taken.
    pub fn waiting(&self) -> usize {
        self.bytes.len()
    }

    /// What is to be appended to the file.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

/// Records a whole node, which is asked for all outputs after each input.
#[derive(Debug)]
pub struct Recorder {
    tape: Tape,
    /// The step whose outcome is written next.
    index: u64,
    /// An input was written and its outcome was not.
    open: bool,
}

impl Recorder {
    /// The beginning of a recording, to be written before the node is started. `outcome` follows, with what `poll` gave
    /// after the start.
    pub fn new(config: &Config, seed: u64, records: &[Record], now: Time) -> (Recorder, Vec<u8>) {
        let mut tape = Tape::new(Machine::Node, config, seed, now);
        records.iter().for_each(|record| tape.record(record));
        let bytes = tape.take();
        (Recorder { tape, index: 0, open: true }, bytes)
    }

    /// To be written before the node handles the input.
    pub fn input(&mut self, now: Time, input: &Input) -> Vec<u8> {
        assert!(!self.open, "the outcome of step {} is missing", self.index);
        self.open = true;
        self.tape.input(now, input);
        self.tape.take()
    }

    /// To be written after the start, and after each input: what `poll` gave, all of it.
    pub fn outcome(&mut self, outputs: &[Output], node: &Node) -> Vec<u8> {
        assert!(self.open, "step {} has no input", self.index);
        outputs.iter().for_each(|output| self.tape.output(output));
        self.tape.drained(self.index.is_multiple_of(STATE_EVERY).then(|| node.digest()));
        self.open = false;
        self.index += 1;
        self.tape.take()
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
pub(crate) fn digest_output<O: Serialize>(digest: u64, output: &O, scratch: &mut Vec<u8>) -> u64 {
    scratch.clear();
    codec::append(output, scratch);
    xxh3_64_with_seed(scratch, digest)
}
