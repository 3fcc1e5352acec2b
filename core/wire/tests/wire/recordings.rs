//! Recordings: of a real node, replayed, cut, damaged and falsified.

use crate::samples;
use atoll_node::{Event, Input, Node, Output};
use atoll_types::{JournalSeq, Payload, Time};
use atoll_wire::{Recorder, RecordingError, Replay, ReplayError, What};
use std::time::Duration;

const START: Time = Time(5_000_000);
const SEED: u64 = 11;

/// A lone node, its recorder, and the answers that its outputs call for.
struct Scene {
    node: Node,
    recorder: Recorder,
    bytes: Vec<u8>,
    /// Where each step's frames end.
    ends: Vec<usize>,
    persisted: JournalSeq,
    now: Time,
    /// Of the last step.
    outputs: Vec<Output>,
    /// How many submissions the node has answered with their place in the log.
    served: usize,
}

fn drain(node: &mut Node) -> Vec<Output> {
    std::iter::from_fn(|| node.poll()).collect()
}

impl Scene {
    fn start() -> Scene {
        let config = samples::config();
        let (mut recorder, mut bytes) = Recorder::new(&config, SEED, &[], START);
        let mut node = Node::start(config, SEED, vec![], START);
        let outputs = drain(&mut node);
        bytes.extend(recorder.outcome(&outputs, &node));
        let ends = vec![bytes.len()];
        let mut scene =
            Scene { node, recorder, bytes, ends, persisted: JournalSeq(0), now: START, outputs: vec![], served: 0 };
        scene.look_at(outputs);
        scene
    }

    fn look_at(&mut self, outputs: Vec<Output>) {
        for output in &outputs {
            match output {
                Output::Persist { seq, .. } => self.persisted = *seq,
                Output::Event(Event::Submitted { .. }) => self.served += 1,
                Output::Event(_)
                | Output::Send { .. }
                | Output::WakeAt(_)
                | Output::Directive(_)
                | Output::Answer { .. }
                | Output::Bucket { .. } => {}
            }
        }
        self.outputs = outputs;
    }

    fn handle(&mut self, input: &Input) {
        self.now = self.now + Duration::from_millis(20);
        self.node.handle(self.now, input.clone());
        let outputs = drain(&mut self.node);
        let frames = self.recorder.step(self.now, input, &outputs, &self.node);
        self.bytes.extend(frames);
        self.ends.push(self.bytes.len());
        self.look_at(outputs);
    }

    /// A few rounds of an ordinary life: the disk answers, time passes, somebody submits.
    fn live(&mut self, rounds: u64) {
        for ticket in 0..rounds {
            self.handle(&Input::Persisted(self.persisted));
            self.handle(&Input::Wake);
            self.handle(&Input::Submit { ticket, payload: Payload::from(&b"hello"[..]) });
        }
    }
}

#[test]
fn a_recording_replays_to_the_same_digests() {
    let mut scene = Scene::start();
    scene.live(60);
    assert!(scene.served > 40, "the recording is of a node at work");
    let summary = Replay::run(&scene.bytes).unwrap();
    assert_eq!((summary.steps, summary.last, summary.cut, summary.unfinished), (181, scene.now, None, false));
}

#[test]
fn each_step_tells_what_came_of_it() {
    let mut scene = Scene::start();
    scene.live(2);
    let mut replay = Replay::open(&scene.bytes).unwrap();
    assert_eq!((replay.header().seed, replay.header().now), (SEED, START));
    assert_eq!(replay.ahead().next(), Some((START, None)));
    assert!(replay.node().is_none());
    let start = replay.step().unwrap().unwrap();
    assert_eq!((start.index, start.now, start.input, start.compared), (0, START, None, true));
    let mut last = None;
    while let Some(step) = replay.step().unwrap() {
        last = Some(step);
    }
    let last = last.unwrap();
    assert_eq!((last.index, last.now, last.outputs), (6, scene.now, scene.outputs));
    assert!(matches!(last.input, Some(Input::Submit { ticket: 1, .. })));
    assert_eq!(replay.node().unwrap().digest(), scene.node.digest());
    assert_eq!((replay.step(), replay.ahead().count()), (Ok(None), 0));
}

#[test]
fn every_kind_of_input_is_recorded() {
    let inputs = samples::inputs();
    let (mut recorder, mut bytes) = Recorder::new(&samples::config(), SEED, &samples::records(), START);
    let node = Node::start(samples::config(), SEED, vec![], START);
    bytes.extend(recorder.outcome(&[], &node));
    for input in &inputs {
        bytes.extend(recorder.step(START, input, &[], &node));
    }
    // Read, and not replayed: a lone node has no business with most of these.
    let replay = Replay::open(&bytes).unwrap();
    assert_eq!((&replay.header().records, &replay.header().config), (&samples::records(), &samples::config()));
    assert_eq!(replay.cut(), None);
    assert!(replay.ahead().skip(1).map(|(_, input)| input).eq(inputs.iter().map(Some)));
}

#[test]
fn a_recording_cut_anywhere_replays_up_to_the_cut() {
    let mut scene = Scene::start();
    scene.live(8);
    assert!(scene.served > 0);
    let first = scene.ends[0];
    for cut in first..scene.bytes.len() {
        let summary = Replay::run(&scene.bytes[..cut]).unwrap();
        let whole = scene.ends.iter().filter(|&&end| end <= cut).count() as u64;
        // The step in which the cut lies is done as well where its input is whole.
        assert_eq!(summary.steps, whole + u64::from(summary.unfinished), "cut at {cut}");
        match summary.cut {
            Some(at) => assert!(at < cut && at >= scene.ends[whole as usize - 1], "cut at {cut}"),
            None => assert!(summary.unfinished || scene.ends.contains(&cut), "cut at {cut}"),
        }
    }
    for cut in 0..first {
        match Replay::run(&scene.bytes[..cut]) {
            Ok(summary) => assert_eq!((summary.steps, summary.unfinished), (1, true), "cut at {cut}"),
            Err(ReplayError::Recording(RecordingError::NotARecording)) => assert!(cut < 8),
            Err(ReplayError::Recording(RecordingError::NoHeader { at })) => assert_eq!(at, cut),
            Err(other) => panic!("cut at {cut}: {other}"),
        }
    }
}

#[test]
fn a_file_that_ends_in_zeros_was_cut_where_they_begin() {
    let mut scene = Scene::start();
    scene.live(1);
    let end = scene.bytes.len();
    scene.bytes.resize(end + 4096, 0);
    assert_eq!(Replay::run(&scene.bytes).unwrap().cut, Some(end));
}

#[test]
fn a_flipped_bit_is_never_replayed() {
    let mut scene = Scene::start();
    scene.live(8);
    for place in 0..scene.bytes.len() {
        let mut damaged = scene.bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        let before = scene.ends.iter().rev().copied().find(|&end| end <= place).unwrap_or(0);
        match Replay::open(&damaged).map(|replay| replay.cut()) {
            Ok(cut) => assert!(cut.is_some_and(|at| at <= place && at >= before), "damage at {place}"),
            Err(RecordingError::Damaged { at }) => assert!(at <= place && at >= before, "damage at {place}"),
            Err(RecordingError::NotARecording) => assert!(place < 8),
            Err(RecordingError::Format { .. }) => assert!((8..10).contains(&place)),
            Err(other) => panic!("damage at {place}: {other}"),
        }
    }
}

#[test]
fn an_input_the_node_did_not_survive_is_the_last_of_its_recording() {
    let mut scene = Scene::start();
    scene.live(1);
    scene.bytes.extend(scene.recorder.input(scene.now, &Input::Wake));
    let summary = Replay::run(&scene.bytes).unwrap();
    assert_eq!((summary.steps, summary.cut, summary.unfinished), (5, None, true));
}

#[test]
fn outputs_that_differ_are_found_at_their_step() {
    let mut scene = Scene::start();
    scene.live(1);
    // What was recorded has one output more than the node gives.
    let now = scene.now + Duration::from_secs(1);
    scene.node.handle(now, Input::Wake);
    let outputs = drain(&mut scene.node);
    let mut recorded = outputs.clone();
    recorded.push(Output::WakeAt(Time::NEVER));
    scene.bytes.extend(scene.recorder.step(now, &Input::Wake, &recorded, &scene.node));
    let Err(ReplayError::Difference(difference)) = Replay::run(&scene.bytes) else {
        panic!("the difference was not seen");
    };
    assert_eq!((difference.index, difference.now, difference.input.clone()), (4, now, Some(Input::Wake)));
    assert_eq!(difference.outputs, outputs);
    assert!(matches!(difference.what, What::OutputsDiffer { .. }));
    assert!(difference.to_string().starts_with("step 4, at 6.060000: the outputs differ"), "{difference}");
}

#[test]
fn the_order_of_outputs_counts() {
    let (mut recorder, _) = Recorder::new(&samples::config(), SEED, &[], START);
    let (mut other, _) = Recorder::new(&samples::config(), SEED, &[], START);
    let node = Node::start(samples::config(), SEED, vec![], START);
    let outputs = [1, 2, 3].map(|time| Output::WakeAt(Time(time)));
    let reordered = [2, 1, 3].map(|time| Output::WakeAt(Time(time)));
    assert_ne!(recorder.outcome(&outputs, &node), other.outcome(&reordered, &node));
}

#[test]
fn a_state_that_differs_is_found_where_it_is_digested() {
    let config = samples::config();
    let (mut recorder, mut bytes) = Recorder::new(&config, SEED, &[], START);
    let mut node = Node::start(config, SEED, vec![], START);
    let outputs = drain(&mut node);
    // The state of a node that was told more stands in for one that went wrong without a sign.
    let mut other = Scene::start();
    other.live(20);
    assert_ne!(other.node.digest(), node.digest());
    bytes.extend(recorder.outcome(&outputs, &other.node));
    let difference = Replay::open(&bytes).unwrap().step().unwrap_err();
    assert_eq!(difference.index, 0);
    assert!(matches!(difference.what, What::StateDiffers { .. }));
}

#[test]
#[should_panic(expected = "the outcome of step 0 is missing")]
fn a_recorder_that_is_not_told_of_the_start_complains() {
    let (mut recorder, _) = Recorder::new(&samples::config(), SEED, &[], START);
    recorder.input(START, &Input::Wake);
}
