//! Rules about what nodes say of themselves: nobody is called off whose clock never was, nobody is called stalled of
//! whom no part ever was; and after all has healed, whoever is far off is known to be, and nobody else is.
//!
//! What is true of clocks only the simulator knows. A mark may be decided long after it was proposed, so a clock counts
//! as off if it ever was.
//!
//! Not here: that a marked node leads nothing (`bucket/placement.rs`, `bucket/eligible.rs`).

use crate::Violation;
use crate::clock::Moment;
use crate::host::Host;
use crate::plan::host_name;
use atoll_cluster::State;
use atoll_node::Config;
use atoll_types::{ClusterId, Edict, NodeId, Why};
use std::time::Duration;

const RULE: &str = "vitals";

/// What readings may be off by, over slow links and several relays: one that is off by more than twice what is allowed
/// and this must be known to be.
const SLACK: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub(crate) struct Clocks {
    max_skew: Duration,
    pub(crate) now: Moment,
    /// By how much two hosts' clocks differed at most.
    apart: Vec<Vec<u64>>,
}

impl Clocks {
    pub(crate) fn new(configs: &[Config]) -> Clocks {
        let count = configs.len();
        let max_skew = configs.first().map_or(Duration::ZERO, |config| config.timing.max_skew);
        Clocks { max_skew, now: Moment(0), apart: vec![vec![0; count]; count] }
    }

    /// Clocks drift evenly, so that it is enough to look before and after a jump, and when something is said of one.
    pub(crate) fn look(&mut self, hosts: &[Host], now: Moment) {
        for (one, apart) in self.apart.iter_mut().enumerate() {
            for (other, most) in apart.iter_mut().enumerate() {
                let (this, that) = (hosts[one].clock.read(now), hosts[other].clock.read(now));
                *most = (*most).max(this.0.abs_diff(that.0));
            }
        }
    }

    pub(crate) fn on_edict(&mut self, hosts: &[Host], cluster: ClusterId, edict: &Edict) -> Result<(), Violation> {
        let bearer = |node: NodeId| hosts.iter().position(|host| host.identity() == Some((cluster, node)));
        match edict {
            Edict::Skewed { node, skewed: true, .. } => {
                let Some(host) = bearer(*node) else { return Ok(()) };
                self.look(hosts, self.now);
                let allowed = self.max_skew.as_micros() as u64;
                // Of three clocks or more, at least two are that far from one that is off.
                let far = self.apart[host].iter().filter(|&&apart| apart > allowed).count();
                if far >= 2 && allowed > 0 {
                    return Ok(());
                }
                let detail = format!(
                    "the clock of {} is called off; from the others: {:?} us",
                    host_name(host),
                    self.apart[host]
                );
                Err(Violation::of(RULE, detail))
            }
            Edict::Absent { node, why: Why::Stalled, .. } => {
                match bearer(*node).filter(|&host| !hosts[host].has_stalled) {
                    Some(host) => {
                        let detail = format!("{} is called stalled, and all of it always moved", host_name(host));
                        Err(Violation::of(RULE, detail))
                    }
                    None => Ok(()),
                }
            }
            Edict::Absent { .. }
            | Edict::Skewed { .. }
            | Edict::Present { .. }
            | Edict::Restarted { .. }
            | Edict::Level(_) => Ok(()),
        }
    }

    /// After everything has healed.
    pub(crate) fn what_is_missing(&self, hosts: &[Host], state: &State, now: Moment) -> Option<String> {
        let active = state.active();
        let bearer =
            |host: &&Host| host.identity().is_some_and(|(of, node)| of == state.cluster && active.contains(&node));
        let members: Vec<&Host> = hosts.iter().filter(bearer).collect();
        let mut clocks: Vec<u64> = members.iter().map(|host| host.clock.read(now).0).collect();
        clocks.sort_unstable();
        if clocks.len() < 3 || self.max_skew.is_zero() || clocks.len() != active.len() {
            return None;
        }
        let (from, to) = (clocks[(clocks.len() - 1) / 2], clocks[clocks.len() / 2]);
        for host in members {
            let shows = host.clock.read(now).0;
            let off = Duration::from_micros(from.saturating_sub(shows).max(shows.saturating_sub(to)));
            let (_, node) = host.identity()?;
            let marked = state.members.get(&node).is_some_and(|member| member.skewed);
            if off > self.max_skew * 2 + SLACK && !marked {
                return Some(format!("the clock of {} is off by {off:?}, and nobody says so", host.config.name));
            }
            if off < self.max_skew / 4 && marked {
                return Some(format!("the clock of {} is called off, by {off:?}", host.config.name));
            }
        }
        None
    }
}
