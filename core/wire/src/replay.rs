//! Runs a recording again, step by step, on a fresh machine, and compares what comes of each step.
//!
//! The first difference is what a person wants to see: it means that the machine is not a function of its inputs, or
//! that this build behaves differently from the one that recorded.
//!
//! Not here: the format of a recording (`recording`).

mod machine;

use crate::recording::{End, Header, Moment, Reader, RecordingError};
use atoll_node::View;
use atoll_types::Time;
use machine::Running;
pub use machine::{Came, Given};
use std::fmt;
use thiserror::Error;

/// A recording on its way through a fresh machine.
pub struct Replay<'a> {
    header: Header,
    reader: Reader<'a>,
    /// The step to come, read in advance: whoever wants to see it before it is done can.
    next: Option<Moment>,
    cut: Option<usize>,
    end: Option<End>,
    /// None before the first step, which starts it.
    machine: Option<Running>,
    /// Of the next step.
    index: u64,
    scratch: Vec<u8>,
}

/// One step, done again with the same result as far as the recording tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub index: u64,
    pub now: Time,
    /// None for step 0, the start, and where a machine was asked for more after it had given all.
    pub input: Option<Given>,
    pub outputs: Vec<Came>,
    /// False where nothing was asked for before the next input, and for the last input of a recording that does not
    /// tell what came of it: the node stopped while it handled the input, or the file was cut off there.
    pub compared: bool,
}

/// A step that had another result than the recording tells.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("step {index}, at {now}: {what}")]
pub struct Difference {
    pub index: u64,
    pub now: Time,
    /// None for step 0, the start, and where a machine was asked for more after it had given all.
    pub input: Option<Given>,
    pub what: What,
    /// What the replay gave. Of the recorded outputs there is only a digest.
    pub outputs: Vec<Came>,
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
    /// Why it ends, if it says so.
    pub end: Option<End>,
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

impl<'a> Replay<'a> {
    /// Reads the whole recording once, and so finds any damage before the first step.
    pub fn open(bytes: &'a [u8]) -> Result<Replay<'a>, RecordingError> {
        let (header, mut reader) = Reader::open(bytes)?;
        let mut ahead = reader.clone();
        while ahead.step()?.is_some() {}
        let (cut, end) = (ahead.cut, ahead.end);
        let next = reader.step()?;
        Ok(Replay { header, reader, next, cut, end, machine: None, index: 0, scratch: Vec::new() })
    }

    /// What the machine was started with.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The byte at which the file is cut off, if it is.
    pub fn cut(&self) -> Option<usize> {
        self.cut
    }

    /// Why the recording ends, if it says so.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// What the cluster machine knows after the steps done so far; none before the first, and of a shard.
    pub fn view(&self) -> Option<View<'_>> {
        self.machine.as_ref()?.view()
    }

    /// Of the machine's state after the steps done so far; none before the first.
    pub fn digest(&self) -> Option<u64> {
        self.machine.as_ref().map(Running::digest)
    }

    /// The step to come, with its input, or none for the start. Lets a person see an input before the step that does
    /// not return.
    pub fn ahead(&self) -> Option<(Time, Option<&Given>)> {
        self.next.as_ref().map(|moment| (moment.now, moment.input.as_ref()))
    }

    /// Does the next step again; none at the end. After a difference the replay may be carried on, from its own state.
    pub fn step(&mut self) -> Result<Option<Step>, Box<Difference>> {
        let Some(Moment { now, input, outcome }) = self.next.take() else {
            return Ok(None);
        };
        // It was read before without an error.
        self.next = self.reader.step().ok().flatten();
        let index = self.index;
        self.index += 1;
        let header = &self.header;
        let machine = self.machine.get_or_insert_with(|| Running::start(header));
        if let Some(input) = &input {
            machine.handle(now, input.clone());
        }
        let Some(outcome) = outcome else {
            // At the end of a recording a person wants to see what would have come.
            let last = self.next.is_none();
            let outputs = if last { std::iter::from_fn(|| machine.poll()).collect() } else { Vec::new() };
            return Ok(Some(Step { index, now, input, outputs, compared: false }));
        };
        // A machine may have been given something between two outputs: no more is asked of it than was.
        let most = if outcome.drained { usize::MAX } else { outcome.count as usize };
        let outputs: Vec<Came> = std::iter::from_fn(|| machine.poll()).take(most).collect();
        let replayed = outputs.iter().fold(0, |digest, output| output.digest(digest, &mut self.scratch));
        if replayed != outcome.outputs || outputs.len() != outcome.count as usize {
            let what = What::OutputsDiffer { recorded: outcome.outputs, replayed };
            return Err(Box::new(Difference { index, now, input, what, outputs }));
        }
        if let Some(recorded) = outcome.state {
            let replayed = machine.digest();
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
        let (last, cut, end) = (replay.header.now, replay.cut, replay.end);
        let mut summary = Summary { steps: 0, last, cut, end, unfinished: false };
        while let Some(step) = replay.step()? {
            summary.steps += 1;
            summary.last = step.now;
            summary.unfinished = !step.compared;
        }
        Ok(summary)
    }
}

impl fmt::Debug for Replay<'_> {
    /// Where it is; the machine and the inputs to come would fill pages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("index", &self.index).field("cut", &self.cut).finish_non_exhaustive()
    }
}
