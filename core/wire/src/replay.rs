//! Runs a recording again, step by step, on a fresh node, and compares what comes of each step.
//!
//! The first difference is what a person wants to see: it means that the node is not a function of its inputs, or that
//! this build behaves differently from the one that recorded.
//!
//! Not here: the format of a recording (`recording`).

use crate::recording::{self, Header, Moment, Recording, RecordingError};
use atoll_node::{Input, Node, Output};
use atoll_types::Time;
use std::fmt;
use thiserror::Error;

/// A recording on its way through a fresh node.
pub struct Replay {
    header: Header,
    moments: std::vec::IntoIter<Moment>,
    cut: Option<usize>,
    /// None before the first step, which starts it.
    node: Option<Node>,
    /// Of the next step.
    index: u64,
    scratch: Vec<u8>,
}

/// One step, done again with the same result as far as the recording tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub index: u64,
    pub now: Time,
    /// None for step 0, the start.
    pub input: Option<Input>,
    pub outputs: Vec<Output>,
    /// False for the last input of a recording that does not tell what came of it: the node stopped while it handled
    /// the input, or the file was cut off there.
    pub compared: bool,
}

/// A step that had another result than the recording tells.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("step {index}, at {now}: {what}")]
pub struct Difference {
    pub index: u64,
    pub now: Time,
    /// None for step 0, the start.
    pub input: Option<Input>,
    pub what: What,
    /// What the replay gave. Of the recorded outputs there is only a digest.
    pub outputs: Vec<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum What {
    #[error("the outputs differ: {recorded:016x} was recorded, {replayed:016x} was replayed")]
    OutputsDiffer { recorded: u64, replayed: u64 },
    /// The outputs are the same, here and in all steps before.
    #[error("the state differs: {recorded:016x} was recorded, {replayed:016x} was replayed")]
    StateDiffers { recorded: u64, replayed: u64 },
}

/// A recording that was replayed to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many steps were done again, the start included.
    pub steps: u64,
    /// When the last of them was.
    pub last: Time,
    /// The byte at which the file is cut off.
    pub cut: Option<usize>,
    /// The recording ends with a step of which it does not tell what came of it.
    pub unfinished: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReplayError {
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error(transparent)]
    Difference(#[from] Box<Difference>),
}

impl Replay {
    /// Reads the whole recording, and so finds any damage before the first step.
    pub fn open(bytes: &[u8]) -> Result<Replay, RecordingError> {
        let Recording { header, moments, cut } = recording::read(bytes)?;
        Ok(Replay { header, moments: moments.into_iter(), cut, node: None, index: 0, scratch: Vec::new() })
    }

    /// What the node was started with.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The byte at which the file is cut off, if it is.
    pub fn cut(&self) -> Option<usize> {
        self.cut
    }

    /// The node as it is after the steps done so far; none before the first.
    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// The steps to come, each with its input, or none for the start. Lets a person see an input before the step that
    /// does not return.
    pub fn ahead(&self) -> impl Iterator<Item = (Time, Option<&Input>)> {
        self.moments.as_slice().iter().map(|moment| (moment.now, moment.input.as_ref()))
    }

    /// Does the next step again; none at the end. After a difference the replay may be carried on, from its own state.
    pub fn step(&mut self) -> Result<Option<Step>, Box<Difference>> {
        let Some(Moment { now, input, outcome }) = self.moments.next() else {
            return Ok(None);
        };
        let index = self.index;
        self.index += 1;
        let header = &self.header;
        let node = self
            .node
            .get_or_insert_with(|| Node::start(header.config.clone(), header.seed, header.records.clone(), header.now));
        if let Some(input) = &input {
            node.handle(now, input.clone());
        }
        let outputs: Vec<Output> = std::iter::from_fn(|| node.poll()).collect();
        let Some(outcome) = outcome else {
            return Ok(Some(Step { index, now, input, outputs, compared: false }));
        };
        let replayed = recording::digest_outputs(&outputs, &mut self.scratch);
        if replayed != outcome.outputs {
            let what = What::OutputsDiffer { recorded: outcome.outputs, replayed };
            return Err(Box::new(Difference { index, now, input, what, outputs }));
        }
        if let Some(recorded) = outcome.state {
            let replayed = node.digest();
            if replayed != recorded {
                let what = What::StateDiffers { recorded, replayed };
                return Err(Box::new(Difference { index, now, input, what, outputs }));
            }
        }
        Ok(Some(Step { index, now, input, outputs, compared: true }))
    }

    /// Replays a whole recording, up to its end, its cut, or the first difference.
    pub fn run(bytes: &[u8]) -> Result<Summary, ReplayError> {
        let mut replay = Replay::open(bytes)?;
        let mut summary = Summary { steps: 0, last: replay.header.now, cut: replay.cut, unfinished: false };
        while let Some(step) = replay.step()? {
            summary.steps += 1;
            summary.last = step.now;
            summary.unfinished = !step.compared;
        }
        Ok(summary)
    }
}

impl fmt::Debug for Replay {
    /// Where it is; the node and the inputs to come would fill pages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("index", &self.index)
            .field("left", &self.moments.len())
            .field("cut", &self.cut)
            .finish_non_exhaustive()
    }
}
