//! Which node to ask: the table as it was last told, and the addresses that the client was given.

use atoll_protocol::Table;
use atoll_types::HashSlot;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct Routes {
    given: Vec<String>,
    table: Mutex<Arc<Table>>,
    /// Somebody found the table wanting.
    pub(crate) stale: Notify,
    /// Whose turn it is, where any node will do.
    turn: AtomicUsize,
}

impl Routes {
    pub(crate) fn new(given: Vec<String>) -> Routes {
        Routes { given, table: Mutex::default(), stale: Notify::new(), turn: AtomicUsize::new(0) }
    }

    pub(crate) fn table(&self) -> Arc<Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes it, unless one that is newer is known. A table of another cluster counts: the old one was founded anew;
    /// but a node that belongs to none has nothing to say.
    pub(crate) fn learn(&self, table: Table) {
        let mut known = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = table.cluster != known.cluster && table.cluster != 0;
        if is_other || (table.cluster == known.cluster && table.version >= known.version) {
            *known = Arc::new(table);
        }
    }

    /// Every address there is, those of present nodes first.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let table = self.table();
        let (present, absent): (Vec<_>, Vec<_>) = table.nodes.iter().partition(|node| node.present);
        let mut addresses = Vec::new();
        let known = present.into_iter().map(|node| &node.address).chain(&self.given);
        for address in known.chain(absent.into_iter().map(|node| &node.address)) {
            if !address.is_empty() && !addresses.contains(address) {
                addresses.push(address.clone());
            }
        }
        addresses
    }

    /// Where to send a request for this slot; not to `avoid`, if there is anybody else.
    pub(crate) fn pick(&self, slot: HashSlot, avoid: Option<&str>) -> String {
        let table = self.table();
        if let Some(node) = table.primary_of(slot)
            && node.present
            && !node.address.is_empty()
            && avoid != Some(&node.address)
        {
            return node.address.clone();
        }
        self.any(avoid)
    }

    /// Anybody, in turn.
    pub(crate) fn any(&self, avoid: Option<&str>) -> String {
        let table = self.table();
        let present: Vec<&String> = table
            .nodes
            .iter()
            .filter(|node| node.present && !node.address.is_empty())
            .map(|node| &node.address)
            .collect();
        let candidates = if present.is_empty() { self.given.iter().collect() } else { present };
        let others: Vec<&String> =
            candidates.iter().copied().filter(|address| Some(address.as_str()) != avoid).collect();
        // Of those in the table nobody else is left: perhaps the table is wrong, and somebody else answers.
        let choices = if others.is_empty() { self.given.iter().collect() } else { others };
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        choices.get(turn % choices.len().max(1)).map(|address| (*address).clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_protocol::{Node, Range};
    use atoll_types::NodeId;

    fn table(cluster: u64, version: u64) -> Table {
        let node = |id, present| Node { id: NodeId(id), present, name: format!("n{id}"), address: format!("at{id}") };
        let range =
            |first, last, primary| Range { first: HashSlot(first), last: HashSlot(last), primary: NodeId(primary) };
        let nodes = vec![node(1, true), node(2, true), node(3, false)];
        Table { cluster, version, nodes, ranges: vec![range(0, 9, 1), range(10, 19, 2), range(20, 29, 3)] }
    }

    #[test]
    fn a_slot_is_asked_for_at_its_primary_or_else_at_anybody_who_is_there() {
        let routes = Routes::new(vec!["given".to_owned()]);
        assert_eq!(routes.pick(HashSlot(3), None), "given");
        routes.learn(table(1, 5));
        assert_eq!(routes.pick(HashSlot(3), None), "at1");
        assert_eq!(routes.pick(HashSlot(15), None), "at2");
        assert_eq!(routes.pick(HashSlot(15), Some("at2")), "at1");
        let absent: Vec<String> = (0..2).map(|_| routes.pick(HashSlot(25), None)).collect();
        assert!(absent.contains(&"at1".to_owned()) && absent.contains(&"at2".to_owned()), "{absent:?}");
        assert_eq!(routes.addresses(), ["at1", "at2", "given", "at3"]);
    }

    #[test]
    fn an_older_table_does_not_count_but_one_of_another_cluster_does() {
        let routes = Routes::new(vec!["given".to_owned()]);
        routes.learn(table(1, 5));
        routes.learn(table(1, 4));
        assert_eq!(routes.table().version, 5);
        routes.learn(table(2, 1));
        routes.learn(Table::default());
        assert_eq!((routes.table().cluster, routes.table().version), (2, 1));
    }
}
