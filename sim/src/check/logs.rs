//! The canonical logs: what the cluster has decided, as the first node to say so said it. One per generation: a
//! recovery goes on from what one node knew, and what the others knew beyond that is void.
//!
//! Not here: whether a node may say what it says (`agreement.rs`, `quorum.rs`).

use atoll_types::{Body, Cause, ClusterId, Entry, Generation, Government, Slot};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Lineage {
    pub(crate) cluster: ClusterId,
    pub(crate) generation: Generation,
    /// Slot 1 first.
    entries: Vec<Arc<Entry>>,
    governments: Vec<Slot>,
    /// Where the government stands that an operator's word made, in a generation that began so.
    pub(crate) recovered: Option<Slot>,
}

impl Lineage {
    pub(crate) fn newest(&self) -> Slot {
        Slot(self.entries.len() as u64)
    }

    pub(crate) fn entry(&self, slot: Slot) -> Option<&Arc<Entry>> {
        self.entries.get(usize::try_from(slot.0.checked_sub(1)?).ok()?)
    }

    /// The entries up to and with `slot`.
    pub(crate) fn up_to(&self, slot: Slot) -> impl Iterator<Item = (Slot, &Arc<Entry>)> {
        self.entries.iter().take(slot.0 as usize).enumerate().map(|(index, entry)| (Slot(index as u64 + 1), entry))
    }

    pub(crate) fn government_at(&self, slot: Slot) -> Option<&Government> {
        match &self.entry(slot)?.body {
            Body::Government(government) => Some(government),
            Body::Noop | Body::Edict(_) | Body::Order(_) | Body::Submission(_) => None,
        }
    }

    /// The government in force at `slot`: the last one below it.
    pub(crate) fn in_force(&self, slot: Slot) -> Option<(Slot, &Government)> {
        let after = self.governments.partition_point(|&government| government < slot);
        let at = *self.governments.get(after.checked_sub(1)?)?;
        Some((at, self.government_at(at)?))
    }

    pub(crate) fn latest_government(&self) -> Option<(Slot, &Government)> {
        self.in_force(Slot(u64::MAX))
    }

    /// A recovery decides by one voice what was accepted before, and then its own government.
    pub(crate) fn is_recovering_at(&self, slot: Slot) -> bool {
        self.generation.number > 0 && self.recovered.is_none_or(|recovered| slot <= recovered)
    }

    fn append(&mut self, entry: Arc<Entry>) {
        let slot = self.newest().next();
        if let Body::Government(government) = &entry.body {
            self.governments.push(slot);
            if matches!(&government.cause, Cause::Recovered { generation } if *generation == self.generation) {
                self.recovered = Some(slot);
            }
        }
        self.entries.push(entry);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Logs {
    lineages: Vec<Lineage>,
    index: BTreeMap<(ClusterId, Generation), usize>,
}

impl Logs {
    pub(crate) fn find(&self, cluster: ClusterId, generation: Generation) -> Option<usize> {
        self.index.get(&(cluster, generation)).copied()
    }

    pub(crate) fn get(&self, lineage: usize) -> &Lineage {
        &self.lineages[lineage]
    }

    pub(crate) fn append(&mut self, lineage: usize, entry: Arc<Entry>) {
        self.lineages[lineage].append(entry);
    }

    /// Begins a log; with `parent`, as a copy of its first entries.
    pub(crate) fn begin(&mut self, cluster: ClusterId, generation: Generation, parent: Option<(usize, Slot)>) -> usize {
        let mut lineage =
            Lineage { cluster, generation, entries: Vec::new(), governments: Vec::new(), recovered: None };
        if let Some((parent, fork)) = parent {
            for (_, entry) in self.lineages[parent].up_to(fork) {
                lineage.append(entry.clone());
            }
        }
        self.lineages.push(lineage);
        self.index.insert((cluster, generation), self.lineages.len() - 1);
        self.lineages.len() - 1
    }
}
