//! Somebody looks on while a seed runs: what is said and raised, which messages go where, and now and then how every
//! process is. Watching changes nothing: the run, and its digest, are the same.

use crate::clock::Moment;
use crate::host::Life;
use crate::plan::{Plan, host_name};
use crate::world::{End, World};
use crate::{Options, Report, Shape, Violation, quiet};
use atoll_node::{Envelope, Event, View};
use std::time::Duration;

/// Something that a watcher sees.
#[derive(Clone, Debug)]
pub enum Sight {
    /// Something strikes, or ends.
    Fault(String),
    /// Anything else that is told in words.
    Said(String),
    Raised {
        node: String,
        event: Event,
    },
    /// A message is sent, and arrives then; or never.
    Sent {
        from: String,
        to: String,
        envelope: Envelope,
        arrives: Option<Duration>,
    },
}

/// One process, as it is now.
#[derive(Debug)]
pub struct Process<'a> {
    pub name: String,
    /// running, paused, down, or idle: not started yet
    pub state: &'static str,
    pub view: Option<View<'a>>,
}

pub trait Watcher {
    fn saw(&mut self, at: Duration, sight: Sight);
    fn look(&mut self, at: Duration, processes: &[Process<'_>]);
}

/// Runs a seed as `run` does, and shows it to `watcher`: what happens, and every so often how things are.
pub fn watch(seed: u64, options: &Options, every: Duration, watcher: &mut dyn Watcher) -> Report {
    let mut rng = atoll_types::Rng::new(seed);
    let plan = Plan::draw(&mut rng, options.minutes, Shape::Drawn);
    let mut world = World::new(seed, rng, plan, options);
    world.trace.sights = Some(Vec::new());
    let ended = quiet::catch(|| world.run_watched(every, watcher));
    world.show_sights(watcher);
    world.show_processes(watcher);
    world.report(ended)
}

impl World {
    fn run_watched(&mut self, every: Duration, watcher: &mut dyn Watcher) -> Result<End, Violation> {
        let mut next = Moment(0);
        while self.ended.is_none() {
            let turned = self.turn();
            self.show_sights(watcher);
            turned?;
            if self.now >= next {
                next = self.now.after(every);
                self.show_processes(watcher);
            }
        }
        Ok(self.ended.clone().unwrap_or(End::Healthy))
    }

    fn show_sights(&mut self, watcher: &mut dyn Watcher) {
        for (at, sight) in self.trace.sights.iter_mut().flat_map(std::mem::take) {
            watcher.saw(at.elapsed(), sight);
        }
    }

    fn show_processes(&self, watcher: &mut dyn Watcher) {
        let process = |(host, machine): (usize, &crate::host::Host)| Process {
            name: host_name(host),
            state: match machine.life {
                Life::Idle => "idle",
                Life::Running(_) => "running",
                Life::Paused(..) => "paused",
                Life::Down => "down",
            },
            view: None,
        };
        let mut processes: Vec<Process<'_>> = self.hosts.iter().enumerate().map(process).collect();
        for (process, machine) in processes.iter_mut().zip(&self.hosts) {
            process.view = machine.view();
        }
        watcher.look(self.now.elapsed(), &processes);
    }
}
