//! Rule: a node id means one node for ever: one first incarnation, one process at a time, nobody after it has departed
//! or lost its memory. What comes from another cluster, an older generation or an older life is refused, and counted.

use crate::Violation;
use crate::host::Host;
use crate::plan::host_name;
use atoll_node::{Envelope, Message, View};
use atoll_types::{Body, Cause, ClusterId, Cookie, Entry, Generation, Incarnation, NodeId};
use std::collections::{BTreeMap, BTreeSet};

const RULE: &str = "identity";

/// What a message that arrives must lead to, by what its receiver knows before it is handled.
#[derive(Clone, Debug)]
pub(crate) struct Arriving {
    /// Why it must be refused, if it must.
    refuse: Option<&'static str>,
    refused_before: u64,
    from: NodeId,
    incarnation: Incarnation,
}

impl Arriving {
    pub(crate) fn of(host: &Host, envelope: &Envelope) -> Arriving {
        let view = host.view();
        Arriving {
            // Until its disk has who it is, a node takes nothing at all.
            refuse: view.as_ref().filter(|_| !host.disk.is_settling()).and_then(|view| must_refuse(view, envelope)),
            refused_before: view.as_ref().map_or(0, refusals),
            from: envelope.from,
            incarnation: envelope.incarnation,
        }
    }
}

fn must_refuse(view: &View<'_>, envelope: &Envelope) -> Option<&'static str> {
    let me = view.identity?;
    // What the shards say to each other they also refuse themselves, and count elsewhere.
    if matches!(envelope.message, Message::Shard(_)) {
        return None;
    }
    if envelope.from.is_nobody() {
        return None; // A blank node asks; that is for everybody to answer.
    }
    // Without a state there is nothing that a message about the log could do.
    if view.state.is_none() && matches!(envelope.message, Message::Paxos(_)) {
        return None;
    }
    if envelope.cluster != me.cluster {
        return Some("it is of another cluster");
    }
    if envelope.generation < view.generation {
        return Some("it is of an older generation");
    }
    // That there is a later generation is true whoever was meant to hear it.
    if envelope.generation > view.generation {
        return None;
    }
    let known = view.state.and_then(|state| state.members.get(&envelope.from)).map(|member| member.incarnation);
    if known.is_some_and(|known| known.life > envelope.incarnation.life) {
        return Some("its sender lives a later life");
    }
    if envelope.to == me.node && envelope.to_cookie != Cookie::UNKNOWN && envelope.to_cookie != me.incarnation.cookie {
        return Some("it was meant for an earlier life of its receiver");
    }
    None
}

fn refusals(view: &View<'_>) -> u64 {
    let counters = view.counters;
    counters.refused_other_cluster
        + counters.refused_old_generation
        + counters.refused_old_incarnation
        + counters.refused_not_me
        + counters.told_departed
        + counters.dropped_not_ready
}

type Bearer = (ClusterId, Generation, NodeId);

#[derive(Debug)]
pub(crate) struct Identities {
    /// The cookie each id was given to.
    first: BTreeMap<Bearer, Cookie>,
    /// Which host runs, or ran last, as a node.
    hosts: BTreeMap<Bearer, usize>,
    named: Vec<Option<Bearer>>,
    /// Ids that nobody may speak for any more, in the generation they were lost in. A recovery from a node that had not
    /// heard of an id gives it again.
    retired: BTreeSet<Bearer>,
}

impl Identities {
    pub(crate) fn new(hosts: usize) -> Identities {
        Identities {
            first: BTreeMap::new(),
            hosts: BTreeMap::new(),
            named: vec![None; hosts],
            retired: BTreeSet::new(),
        }
    }

    pub(crate) fn on_entry(
        &mut self,
        cluster: ClusterId,
        generation: Generation,
        entry: &Entry,
    ) -> Result<(), Violation> {
        let Body::Government(government) = &entry.body else { return Ok(()) };
        let newcomer = match &government.cause {
            Cause::Founded { founder, .. } => founder,
            Cause::Arrived(newcomer) => newcomer,
            Cause::Elected | Cause::Departed { .. } | Cause::Seated | Cause::Rearranged | Cause::Recovered { .. } => {
                return Ok(());
            }
        };
        let cookie = newcomer.incarnation.cookie;
        match self.first.insert((cluster, generation, newcomer.node), cookie) {
            Some(other) if other != cookie => {
                let detail = format!("{} is given to {newcomer:?}, and was given to {other:?}", newcomer.node);
                Err(Violation::of(RULE, detail))
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn on_named(&mut self, hosts: &[Host], host: usize, view: &View<'_>) -> Result<(), Violation> {
        let Some(named) = bearer(view).filter(|_| !is_fenced(view)) else { return Ok(()) };
        let (name, node) = (host_name(host), named.2);
        if self.retired.contains(&named) {
            return Err(Violation::of(RULE, format!("{name} is named {node}, whose bearer is gone for good")));
        }
        self.named[host] = Some(named);
        if let Some(other) = self.hosts.insert(named, host)
            && other != host
            && hosts[other].view().as_ref().and_then(bearer) == Some(named)
        {
            return Err(Violation::of(RULE, format!("{name} is named {node}, and so is {}", host_name(other))));
        }
        Ok(())
    }

    /// A generation may have passed.
    pub(crate) fn after_step(&mut self, host: usize, view: &View<'_>) {
        if let Some(bearer) = bearer(view).filter(|_| view.state.is_some()) {
            self.named[host] = Some(bearer);
        }
    }

    /// A node that departed and crashed before its disk knew is who it was, until it is told again.
    pub(crate) fn on_start(&mut self, host: &Host, view: &View<'_>) {
        if let Some(named) = bearer(view)
            && host.kept == Some((named.0, named.2))
        {
            self.retired.remove(&named);
        }
    }

    pub(crate) fn is_named(&self, host: usize) -> bool {
        self.named[host].is_some()
    }

    /// The host is no longer whom it was named, and nobody ever will be.
    pub(crate) fn retire(&mut self, host: usize) {
        self.retired.extend(self.named[host].take());
    }

    pub(crate) fn on_send(&self, host: usize, envelope: &Envelope) -> Result<(), Violation> {
        if !envelope.from.is_nobody() && self.retired.contains(&(envelope.cluster, envelope.generation, envelope.from))
        {
            let detail = format!("{} speaks for {}, who is gone for good", host_name(host), envelope.from);
            return Err(Violation::of(RULE, detail));
        }
        Ok(())
    }

    pub(crate) fn after_arrival(&self, hosts: &[Host], host: usize, arriving: &Arriving) -> Result<(), Violation> {
        let Some(why) = arriving.refuse else { return Ok(()) };
        let Some(view) = hosts[host].view() else { return Ok(()) };
        if refusals(&view) <= arriving.refused_before {
            let detail = format!(
                "{} took a message of {} {:?}, although {why}",
                host_name(host),
                arriving.from,
                arriving.incarnation
            );
            return Err(Violation::of(RULE, detail));
        }
        Ok(())
    }
}

/// In a generation that is later than its state was, a node does not know yet whether its id is still its own.
fn is_fenced(view: &View<'_>) -> bool {
    view.state.is_none() && view.identity.is_some_and(|identity| identity.incarnation.life > 1)
}

fn bearer(view: &View<'_>) -> Option<Bearer> {
    view.identity.map(|identity| (identity.cluster, view.generation, identity.node))
}
