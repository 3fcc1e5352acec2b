//! Nodes come, go, restart, and are found by an operator's recovery in a new generation.

use crate::node::Node;
use crate::removal::Blow;
use crate::state::{Decided, Distributor, Roster};
use atoll_types::NodeId;

impl Distributor {
    /// Called after an entry that changed anybody's standing, with everybody's standing.
    pub fn on_roster(&mut self, at: Decided, roster: &Roster) {
        let mut blow = Blow { renews_all: at.generation > self.generation, ..Blow::default() };
        self.generation = self.generation.max(at.generation);
        let departed: Vec<NodeId> = self.nodes.keys().copied().filter(|node| !roster.contains_key(node)).collect();
        for node in departed {
            self.nodes.remove(&node);
            self.shuns.retain(|shun| shun.by != node && shun.about != node);
            blow.gone.insert(node);
            blow.forgotten.insert(node);
        }
        let mut returned = false;
        for (&id, standing) in roster {
            let Some(node) = self.nodes.get_mut(&id) else {
                self.nodes.insert(id, Node::new(standing.clone()));
                continue;
            };
            let was_present = node.standing.present;
            let restarted = node.standing.incarnation != standing.incarnation;
            node.standing = standing.clone();
            if was_present && !standing.present {
                if !standing.stopped {
                    node.on_absent(at.time);
                }
                blow.gone.insert(id);
            }
            if !was_present && standing.present {
                node.on_return(at.time);
                returned = true;
            }
            if restarted {
                node.stepped_back = false;
                if standing.durable {
                    blow.restarted.insert(id);
                } else {
                    blow.gone.insert(id);
                    blow.forgotten.insert(id);
                }
            }
            if restarted || (!was_present && standing.present) {
                // Another process, or another network: what was said of its links says nothing now.
                self.shuns.retain(|shun| shun.by != id && shun.about != id);
            }
        }
        if !blow.gone.is_empty() {
            self.removal = at.slot;
        }
        if returned || blow.renews_all || !blow.gone.is_empty() || !blow.restarted.is_empty() {
            self.strike(at, &blow);
        }
    }

    /// The first entry of a new generation may change nobody's standing. The epochs are of the new generation anyway:
    /// what is left of the old one must not be taken for the present.
    pub(crate) fn enter_generation(&mut self, at: Decided) {
        if at.generation > self.generation {
            self.generation = at.generation;
            self.strike(at, &Blow { renews_all: true, ..Blow::default() });
        }
    }
}
