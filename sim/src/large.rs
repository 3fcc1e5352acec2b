//! Clusters of hundreds of nodes without faults: all arrive, and the leader's messages per decided entry are counted.

use crate::clock::Moment;
use crate::plan::Plan;
use crate::world::World;
use crate::{Options, Violation, quiet};
use atoll_cluster::Standing;

/// What was counted in a large cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Census {
    /// Nodes that are present, by the leader's word.
    pub present: usize,
    /// Simulated seconds until all were.
    pub seconds: f64,
    /// Entries decided while the leader's messages were counted, and those messages.
    pub entries: u64,
    pub leader_messages: u64,
    /// Of these, what it would have sent in that time without any entry.
    pub idle_messages: u64,
    pub violation: Option<Violation>,
}

/// Lets a cluster of `nodes` grow from one founder, then submits a stretch of entries.
pub fn grow(seed: u64, nodes: usize) -> Census {
    let mut rng = atoll_types::Rng::new(seed);
    let plan = Plan::large(&mut rng, nodes);
    let mut world = World::new(seed, rng, plan, &Options { minutes: 60.0, record: None, trace: false });
    let mut census =
        Census { present: 0, seconds: 0.0, entries: 0, leader_messages: 0, idle_messages: 0, violation: None };
    match quiet::catch(|| count(&mut world, nodes, &mut census)) {
        Ok(Ok(())) => {}
        Ok(Err(violation)) => census.violation = Some(violation),
        Err(panic) => census.violation = Some(Violation::of("assertion", panic)),
    }
    census
}

fn count(world: &mut World, nodes: usize, census: &mut Census) -> Result<(), Violation> {
    let patience = Moment(30 * 60 * 1_000_000);
    while present(world) < nodes {
        census.present = present(world);
        run_for(world, 1_000_000)?;
        if world.now > patience {
            return Err(Violation::of("liveness", format!("{} of {nodes} nodes arrived", census.present)));
        }
    }
    census.present = nodes;
    census.seconds = world.now.elapsed().as_secs_f64();
    run_for(world, 3_000_000)?;
    let Some(leader) = leader(world) else { return Err(Violation::of("liveness", "nobody leads".to_owned())) };
    let before = world.hosts[leader].sent;
    run_for(world, 10_000_000)?;
    census.idle_messages = world.hosts[leader].sent - before;
    let (before, decided) = (world.hosts[leader].sent, world.checks.decided());
    for index in 0..500 {
        world.submit((index * 7) % nodes)?;
        run_for(world, 20_000)?;
    }
    census.leader_messages = world.hosts[leader].sent - before;
    census.entries = world.checks.decided() - decided;
    Ok(())
}

fn run_for(world: &mut World, micros: u64) -> Result<(), Violation> {
    let until = Moment(world.now.0 + micros);
    while world.next_at() <= until {
        world.turn()?;
    }
    world.now = until;
    Ok(())
}

fn leader(world: &World) -> Option<usize> {
    world.hosts.iter().position(|host| host.view().is_some_and(|view| view.leading.is_some()))
}

fn present(world: &World) -> usize {
    let state = leader(world).and_then(|leader| world.hosts[leader].view()?.state);
    state.map_or(0, |state| state.members.values().filter(|member| member.standing == Standing::Present).count())
}
