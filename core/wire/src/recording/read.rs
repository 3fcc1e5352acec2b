//! Reads a recording, a step at a time: a long one has far more in it than memory should hold.

use super::{End, FORMAT, Header, KIND_END, KIND_HEADER, KIND_INPUT, KIND_OUTCOME, KIND_RECORD, MAGIC};
use super::{Machine, Outcome, PREAMBLE, RecordingError};
use crate::codec::{self, Unreadable};
use crate::frame::{self, Found};
use crate::replay::Given;
use atoll_types::Time;
use serde::de::DeserializeOwned;

/// One step as it was recorded. The first has no input: it is the start. Nor has one at which a machine that had no
/// more outputs was asked for some again.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Time,
    pub(crate) input: Option<Given>,
    /// None: nothing was asked for before the next input, or the recording ends here.
    pub(crate) outcome: Option<Outcome>,
}

/// A place in a recording.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    machine: Machine,
    /// The frame that is read next.
    at: usize,
    now: Time,
    begun: bool,
    /// The byte where the frame begins that the file does not hold to its end.
    pub(crate) cut: Option<usize>,
    pub(crate) end: Option<End>,
}

type Read<T> = Result<T, RecordingError>;

impl<'a> Reader<'a> {
    /// Reads what the machine was started with.
    pub(crate) fn open(bytes: &'a [u8]) -> Read<(Header, Reader<'a>)> {
        let (mut header, mut at) = read_header(bytes)?;
        while let Found::Whole { body: [KIND_RECORD, value @ ..], next } = frame::take(bytes, at) {
            header.records.push(read_value(value, at)?);
            at = next;
        }
        let (machine, now) = (header.machine, header.now);
        Ok((header, Reader { bytes, machine, at, now, begun: false, cut: None, end: None }))
    }

    /// The next step; none at the end, and where the file is cut off.
    pub(crate) fn step(&mut self) -> Read<Option<Moment>> {
        let input = match self.peek()? {
            Some((KIND_INPUT, value, next)) => {
                if !self.begun {
                    self.begun = true;
                    return Ok(Some(Moment { now: self.now, input: None, outcome: None }));
                }
                let (now, input) = self.read_input(value)?;
                (self.now, self.at) = (now, next);
                Some(input)
            }
            Some((KIND_OUTCOME, ..)) => None,
            Some((KIND_END, value, next)) => {
                self.end = Some(read_value(value, self.at)?);
                self.at = next;
                return match self.peek()? {
                    Some((kind, ..)) => Err(RecordingError::OutOfPlace { at: self.at, kind }),
                    None => Ok(None),
                };
            }
            Some((kind, ..)) => return Err(RecordingError::OutOfPlace { at: self.at, kind }),
            None if self.begun => return Ok(None),
            None => None,
        };
        self.begun = true;
        let outcome = match self.peek()? {
            Some((KIND_OUTCOME, value, next)) => {
                let outcome = read_value(value, self.at)?;
                self.at = next;
                Some(outcome)
            }
            Some(_) | None => None,
        };
        Ok(Some(Moment { now: self.now, input, outcome }))
    }

    /// The kind of the next frame, what is in it, and where the one after it begins.
    fn peek(&mut self) -> Read<Option<(u8, &'a [u8], usize)>> {
        let (body, next) = match frame::take(self.bytes, self.at) {
            Found::Whole { body, next } => (body, next),
            Found::End => return Ok(None),
            Found::Cut => {
                self.cut = Some(self.at);
                return Ok(None);
            }
            Found::Damaged => return Err(RecordingError::Damaged { at: self.at }),
        };
        match body.split_first() {
            Some((&kind, value)) => Ok(Some((kind, value, next))),
            None => Err(RecordingError::OutOfPlace { at: self.at, kind: u8::MAX }),
        }
    }

    fn read_input(&self, value: &[u8]) -> Read<(Time, Given)> {
        match self.machine {
            Machine::Node | Machine::Cluster => {
                read_value(value, self.at).map(|(now, input)| (now, Given::Node(input)))
            }
            Machine::Shard(_) => read_value(value, self.at).map(|(now, input)| (now, Given::Shard(input))),
        }
    }
}

/// The header, and where the frames after it begin.
fn read_header(bytes: &[u8]) -> Read<(Header, usize)> {
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

fn read_value<T: DeserializeOwned>(value: &[u8], at: usize) -> Read<T> {
    codec::read(value).map_err(|unreadable| match unreadable {
        Unreadable::Malformed(reason) => RecordingError::Malformed { at, reason },
        Unreadable::Trailing(extra) => RecordingError::Trailing { at, extra },
    })
}
