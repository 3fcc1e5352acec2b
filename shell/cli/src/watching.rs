//! `atoll sim --serve` and `atoll replay --serve`: what happened, to be looked at in a browser, moment by moment.
//!
//! Not here: the timeline and the page (`atoll_server::timeline`, `atoll_server::page`).

use crate::serve::wait_for_the_end;
use anyhow::Context;
use atoll_node::shard::door::ShardInput;
use atoll_node::{Event, Input, Output};
use atoll_server::describe;
use atoll_server::timeline::{self, Builder, NoteKind, Timeline};
use atoll_sim::{Options, Process, Report, Sight, Watcher};
use atoll_types::{Address, Time};
use atoll_wire::{Came, Given, Machine, Replay};
use std::collections::BTreeMap;
use std::time::Duration;

/// Where it is served, if nothing is said.
pub(crate) const ADDRESS: &str = "127.0.0.1:8090";

/// How often a simulation is looked at.
const EVERY: Duration = Duration::from_millis(20);

/// A recording does not tell when a message was sent. It is drawn as if it had taken so long, in microseconds.
const ON_THE_WAY: u64 = 5_000;

/// What a watcher of a simulation puts down.
#[derive(Debug, Default)]
struct Watching {
    builder: Builder,
    until: u64,
}

fn micros(at: Duration) -> u64 {
    at.as_micros() as u64
}

impl Watcher for Watching {
    fn saw(&mut self, at: Duration, sight: Sight) {
        let at = micros(at);
        self.until = self.until.max(at);
        match sight {
            Sight::Fault(text) => self.builder.note(at, NoteKind::Fault, &text),
            Sight::Said(text) => self.builder.note(at, NoteKind::Said, &text),
            Sight::Raised { event: Event::Decided { slot, entry }, .. } => self.builder.decided(slot, &entry),
            Sight::Raised { node, event } => self.raised(at, &node, event),
            Sight::Sent { from, to, envelope, arrives } => {
                self.builder.message(at, arrives.map(micros), from, to, &envelope);
            }
        }
    }

    fn look(&mut self, at: Duration, processes: &[Process<'_>]) {
        let states = processes.iter().map(|process| (process.name.clone(), process.state.to_owned())).collect();
        // Whoever knows most: the others will see the same.
        let running = processes.iter().filter(|process| process.state == "running");
        let views = running.filter_map(|process| process.view.as_ref());
        let best = views.filter(|view| view.state.is_some()).max_by_key(|view| (view.generation, view.decided));
        self.builder.look(micros(at), best, states);
    }
}

impl Watching {
    /// What a person wants to see of it; the entries are told as events.
    fn raised(&mut self, at: u64, node: &str, event: Event) {
        let worth = matches!(
            event,
            Event::Named { .. }
                | Event::Leading { .. }
                | Event::SteppedDown { .. }
                | Event::SnapshotInstalled { .. }
                | Event::Departed { .. }
                | Event::Fenced { .. }
                | Event::Alarm(_)
        );
        if worth {
            self.builder.note(at, NoteKind::Said, &format!("{node}: {}", describe::output(&Output::Event(event))));
        }
    }
}

/// Runs a seed and puts down all that is to be seen.
pub(crate) fn simulation(seed: u64, options: &Options) -> (Report, Timeline) {
    let mut watching = Watching::default();
    let report = atoll_sim::watch(seed, options, EVERY, &mut watching);
    let until = micros(report.simulated).max(watching.until);
    if let Some(violation) = &report.violation {
        let text = format!("VIOLATION of {}: {}", violation.rule, violation.detail);
        watching.builder.note(micros(violation.at), NoteKind::Violation, &text);
    }
    let title = format!("seed {seed}: {}", report.shape);
    (report, watching.builder.finish(title, 0, until))
}

/// Runs a recording again and puts down what that machine saw, up to its end, `until`, or the first difference.
pub(crate) fn recording(replay: &mut Replay<'_>, until: Option<Time>) -> Timeline {
    let mut builder = Builder::default();
    let header = replay.header();
    let (name, from) = (header.config.name.to_string(), header.now);
    let title = match header.machine {
        Machine::Node => format!("recording of {name}"),
        Machine::Cluster | Machine::Shard(_) => format!("recording of {name}, {}", header.machine),
    };
    let mut last = from;
    // Messages come from addresses; people know nodes by their names.
    let mut names: BTreeMap<Address, String> = BTreeMap::new();
    for index in 0.. {
        let ahead = replay.ahead().map(|(now, input)| (now, describe::step(index, input)));
        let Some((now, text)) = ahead.filter(|(now, _)| until.is_none_or(|until| *now <= until)) else { break };
        last = now;
        let step = match replay.step() {
            Ok(Some(step)) => step,
            Ok(None) => break,
            Err(difference) => {
                builder.note(now.0, NoteKind::Violation, &difference.to_string());
                break;
            }
        };
        builder.note(now.0, NoteKind::Step, &text);
        let message = match &step.input {
            Some(Given::Node(Input::Message { from, envelope })) => Some((from, envelope)),
            Some(Given::Shard(ShardInput::Message { from, envelope })) => Some((from, &**envelope)),
            Some(Given::Node(_) | Given::Shard(_)) | None => None,
        };
        if let Some((from, envelope)) = message {
            let sender = names.get(from).cloned().unwrap_or_else(|| from.to_string());
            builder.message(now.0.saturating_sub(ON_THE_WAY), Some(now.0), sender, name.clone(), envelope);
        }
        for came in &step.outputs {
            match came {
                Came::Node(Output::Event(Event::Decided { slot, entry })) => builder.decided(*slot, entry),
                Came::Node(Output::Event(_)) => builder.note(now.0, NoteKind::Said, &describe::came(came)),
                Came::Node(
                    Output::Send { .. }
                    | Output::Persist { .. }
                    | Output::WakeAt(_)
                    | Output::Directive(_)
                    | Output::Answer { .. }
                    | Output::Bucket { .. },
                )
                | Came::Shard(_) => {}
            }
        }
        let view = replay.view();
        if let Some(state) = view.as_ref().and_then(|view| view.state) {
            names.extend(state.members.values().map(|member| (member.address.clone(), member.name.to_string())));
        }
        let process = BTreeMap::from([(name.clone(), "running".to_owned())]);
        builder.look(now.0, view.as_ref().filter(|view| view.state.is_some()), process);
    }
    builder.finish(title, from.0, last.0)
}

/// Until somebody ends it.
pub(crate) fn show(address: &str, timeline: Timeline) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen on {address}; give --serve another address"))?;
        println!("to be looked at: http://{}/ (Ctrl-C ends it)", listener.local_addr()?);
        tokio::select! {
            served = timeline::serve(listener, timeline) => served.context("cannot serve it"),
            () = wait_for_the_end() => Ok(()),
        }
    })
}
