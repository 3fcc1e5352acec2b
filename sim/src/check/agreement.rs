//! Rule: the same entry stands at the same slot on every node; a node sees every slot, in order, once in a life, except
//! those below a snapshot that it installed; what is decided is never lost.
//!
//! Nodes of an older generation are held to the log of their own generation until they are fenced.

use super::logs::Logs;
use crate::Violation;
use crate::plan::host_name;
use atoll_node::View;
use atoll_types::{Body, Cause, Entry, Slot};
use std::sync::Arc;

const RULE: &str = "agreement";

/// How far one host is in which log.
#[derive(Clone, Copy, Debug, Default)]
struct Follower {
    lineage: Option<usize>,
    /// The last slot this life has seen; none before the first.
    position: Option<Slot>,
    /// The snapshot that this life went on from last.
    installed: Slot,
    /// This life began with something on its disk: its first slot may be any.
    restarted: bool,
}

/// Where an entry that a host saw decided belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) lineage: usize,
    /// Nobody had said so before.
    pub(crate) fresh: bool,
    /// The log of a new generation begins: a copy of this one's, up to this slot.
    pub(crate) forked: Option<(usize, Slot)>,
}

#[derive(Debug)]
pub(crate) struct Agreement {
    followers: Vec<Follower>,
}

impl Agreement {
    pub(crate) fn new(hosts: usize) -> Agreement {
        Agreement { followers: vec![Follower::default(); hosts] }
    }

    pub(crate) fn lineage(&self, host: usize) -> Option<usize> {
        self.followers[host].lineage
    }

    pub(crate) fn position(&self, host: usize) -> Slot {
        self.followers[host].position.unwrap_or_default()
    }

    /// The slot of the snapshot that the host went on from last; zero if from none.
    pub(crate) fn installed(&self, host: usize) -> Slot {
        self.followers[host].installed
    }

    pub(crate) fn on_start(&mut self, logs: &Logs, host: usize, view: &View<'_>, blank: bool) {
        // Which log it was in is remembered: a recovery that was only promised has none of its own yet.
        let own = view.identity.and_then(|identity| logs.find(identity.cluster, view.generation));
        let lineage = if blank || view.state.is_none() { None } else { own.or(self.followers[host].lineage) };
        self.followers[host] = Follower { lineage, position: None, installed: Slot::ZERO, restarted: !blank };
    }

    pub(crate) fn on_stop(&mut self, host: usize, loses: bool) {
        if loses {
            self.followers[host] = Follower::default();
        }
    }

    /// The host departed, or its log is void.
    pub(crate) fn on_void(&mut self, host: usize) {
        self.followers[host] = Follower::default();
    }

    pub(crate) fn on_snapshot(
        &mut self,
        logs: &Logs,
        host: usize,
        view: &View<'_>,
        slot: Slot,
    ) -> Result<usize, Violation> {
        let found = view.identity.and_then(|identity| logs.find(identity.cluster, view.generation));
        let Some(lineage) = found.filter(|&lineage| logs.get(lineage).newest() >= slot) else {
            return Err(broken(host, format!("installed a snapshot made at {slot}, where nothing is decided yet")));
        };
        let follower = &mut self.followers[host];
        if follower.lineage == Some(lineage) && follower.position.is_some_and(|position| position > slot) {
            return Err(broken(host, format!("went back to {slot} from {:?} by a snapshot", follower.position)));
        }
        *follower = Follower { lineage: Some(lineage), position: Some(slot), installed: slot, restarted: false };
        Ok(lineage)
    }

    pub(crate) fn on_decided(
        &mut self,
        logs: &mut Logs,
        host: usize,
        view: &View<'_>,
        slot: Slot,
        entry: &Arc<Entry>,
    ) -> Result<Placed, Violation> {
        self.follow(host, slot)?;
        let (lineage, forked) = self.place(logs, host, view, slot, entry)?;
        self.followers[host].lineage = Some(lineage);
        let log = logs.get(lineage);
        let fresh = slot == log.newest().next();
        if fresh {
            logs.append(lineage, entry.clone());
        } else {
            match log.entry(slot) {
                Some(known) if known == entry => {}
                Some(known) => {
                    return Err(broken(host, format!("slot {slot} is {entry:?} here, and was decided as {known:?}")));
                }
                None => return Err(broken(host, format!("slot {slot}: nothing is decided above {}", log.newest()))),
            }
        }
        Ok(Placed { lineage, fresh, forked })
    }

    /// In order, and without a gap.
    fn follow(&mut self, host: usize, slot: Slot) -> Result<(), Violation> {
        let follower = &mut self.followers[host];
        let expected = match follower.position {
            Some(position) => Some(position.next()),
            None if follower.restarted => None,
            None => Some(Slot(1)),
        };
        if expected.is_some_and(|expected| slot != expected) {
            return Err(broken(host, format!("saw slot {slot} where {expected:?} was due")));
        }
        follower.position = Some(slot);
        Ok(())
    }

    fn place(
        &self,
        logs: &mut Logs,
        host: usize,
        view: &View<'_>,
        slot: Slot,
        entry: &Entry,
    ) -> Result<(usize, Option<(usize, Slot)>), Violation> {
        if slot == Slot(1)
            && let Body::Government(government) = &entry.body
            && let Cause::Founded { cluster, .. } = &government.cause
        {
            let first = atoll_types::Generation::default();
            let own = logs.find(*cluster, view.generation).or_else(|| logs.find(*cluster, first));
            return Ok((own.unwrap_or_else(|| logs.begin(*cluster, first, None)), None));
        }
        let Some(before) = self.followers[host].lineage.or_else(|| logs.find(view.identity?.cluster, view.generation))
        else {
            return Err(broken(host, format!("decided slot {slot} in no known log")));
        };
        let (cluster, generation) = (logs.get(before).cluster, logs.get(before).generation);
        if generation == view.generation {
            return Ok((before, None));
        }
        if let Some(own) = logs.find(cluster, view.generation) {
            return Ok((own, None));
        }
        // A recovery on this node. After a restart it first tells again what it knew before.
        if slot <= logs.get(before).newest() && logs.get(before).entry(slot).is_some_and(|known| **known == *entry) {
            return Ok((before, None));
        }
        let forked = (before, slot.previous());
        Ok((logs.begin(cluster, view.generation, Some(forked)), Some(forked)))
    }
}

fn broken(host: usize, detail: String) -> Violation {
    Violation::of(RULE, format!("{} {detail}", host_name(host)))
}
