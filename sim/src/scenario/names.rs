//! Who is who, by name. A node that came back as another one is told apart: `second n3`.

use atoll_types::{Ballot, Body, Cause, ClusterId, Entry, Generation, Newcomer, NodeId};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Names {
    clusters: BTreeMap<ClusterId, String>,
    nodes: BTreeMap<(ClusterId, NodeId), (Newcomer, String)>,
}

fn ordinal(count: usize) -> &'static str {
    ["", "second ", "third ", "fourth "].get(count).copied().unwrap_or("another ")
}

impl Names {
    /// Entries tell who gets which id.
    pub(super) fn learn(&mut self, cluster: ClusterId, entry: &Entry) {
        let Body::Government(government) = &entry.body else { return };
        match &government.cause {
            Cause::Founded { cluster, founder, .. } => {
                let count = self.clusters.values().filter(|known| known.ends_with(&*founder.name.0)).count();
                let label = format!("the {}cluster of {}", ordinal(count), founder.name);
                self.clusters.entry(*cluster).or_insert(label);
                self.name(*cluster, founder);
            }
            Cause::Arrived(newcomer) => self.name(cluster, newcomer),
            Cause::Elected | Cause::Departed { .. } | Cause::Seated | Cause::Rearranged | Cause::Recovered { .. } => {}
        }
    }

    fn name(&mut self, cluster: ClusterId, newcomer: &Newcomer) {
        let known = self.nodes.get(&(cluster, newcomer.node));
        if known.is_some_and(|(known, _)| known == newcomer) {
            return;
        }
        let same = |&(&(of, node), (other, _)): &(&(ClusterId, NodeId), &(Newcomer, String))| {
            of == cluster && node != newcomer.node && other.name == newcomer.name
        };
        let label = format!("{}{}", ordinal(self.nodes.iter().filter(same).count()), newcomer.name);
        self.nodes.insert((cluster, newcomer.node), (newcomer.clone(), label));
    }

    pub(super) fn node(&self, cluster: ClusterId, node: NodeId) -> String {
        match self.nodes.get(&(cluster, node)) {
            Some((_, label)) => label.clone(),
            None if node.is_nobody() => "nobody".to_owned(),
            None => format!("node {}", node.0),
        }
    }

    /// The id that was given last to a node of this name.
    pub(super) fn latest(&self, cluster: ClusterId, name: &str) -> Option<NodeId> {
        let named = |(known, _): &(Newcomer, String)| &*known.name.0 == name;
        let mut found = self.nodes.iter().filter(|((of, _), known)| *of == cluster && named(known));
        found.next_back().map(|(&(_, node), _)| node)
    }

    /// The id with this label, such as `n3` or `second n3`.
    pub(super) fn labelled(&self, cluster: ClusterId, wanted: &str) -> Option<NodeId> {
        self.nodes.iter().find(|((of, _), (_, label))| *of == cluster && label == wanted).map(|(&(_, node), _)| node)
    }

    pub(super) fn cluster(&self, cluster: ClusterId) -> String {
        self.clusters.get(&cluster).cloned().unwrap_or_else(|| "an unknown cluster".to_owned())
    }

    /// Texts of the core name a cluster by its number: drawn by lot, and no help to a reader.
    pub(super) fn in_words(&self, text: &str) -> String {
        self.clusters.iter().fold(text.to_owned(), |text, (cluster, label)| text.replace(&cluster.to_string(), label))
    }

    pub(super) fn nodes(&self, cluster: ClusterId, nodes: impl IntoIterator<Item = NodeId>) -> String {
        nodes.into_iter().map(|node| self.node(cluster, node)).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn generation(&self, cluster: ClusterId, generation: Generation) -> String {
        match generation.number {
            0 => "generation 0".to_owned(),
            number => format!("generation {number} by {}", self.node(cluster, generation.by)),
        }
    }

    pub(super) fn ballot(&self, cluster: ClusterId, ballot: Ballot) -> String {
        let text = format!("ballot {} of {}", ballot.round, self.node(cluster, ballot.node));
        match ballot.generation.number {
            0 => text,
            _later => format!("{text} in {}", self.generation(cluster, ballot.generation)),
        }
    }
}
