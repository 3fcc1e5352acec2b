//! Rule: at the same slot of a log all nodes have the same state: snapshots made there have one digest, whoever
//! installs one gets what was made, and the hash chain over all entries is the same.

use crate::Violation;
use crate::plan::host_name;
use atoll_types::Slot;
use std::collections::BTreeMap;

const RULE: &str = "snapshot";

#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    made: BTreeMap<(usize, Slot), u64>,
    histories: BTreeMap<(usize, Slot), u64>,
}

impl Snapshots {
    pub(crate) fn on_made(&mut self, lineage: usize, host: usize, slot: Slot, digest: u64) -> Result<(), Violation> {
        let first = *self.made.entry((lineage, slot)).or_insert(digest);
        if first != digest {
            let name = host_name(host);
            let detail = format!("{name} made a snapshot at {slot} with digest {digest:x}, another {first:x}");
            return Err(Violation::of(RULE, detail));
        }
        Ok(())
    }

    pub(crate) fn on_installed(
        &mut self,
        lineage: usize,
        host: usize,
        slot: Slot,
        digest: u64,
    ) -> Result<(), Violation> {
        if self.made.get(&(lineage, slot)) != Some(&digest) {
            let made = self.made.get(&(lineage, slot));
            let detail = format!("{} installed {digest:x} at {slot}; {made:x?} was made", host_name(host));
            return Err(Violation::of(RULE, detail));
        }
        Ok(())
    }

    /// What was made before a new generation began was made in it as well.
    pub(crate) fn on_fork(&mut self, parent: usize, fork: Slot, child: usize) {
        for known in [&mut self.made, &mut self.histories] {
            let kept: Vec<(Slot, u64)> = known
                .range((parent, Slot::ZERO)..=(parent, fork))
                .map(|(&(_, slot), &digest)| (slot, digest))
                .collect();
            known.extend(kept.into_iter().map(|(slot, digest)| ((child, slot), digest)));
        }
    }

    pub(crate) fn on_history(
        &mut self,
        lineage: usize,
        host: usize,
        slot: Slot,
        history: u64,
    ) -> Result<(), Violation> {
        let first = *self.histories.entry((lineage, slot)).or_insert(history);
        if first != history {
            let detail = format!("{} has another history at {slot} than the others", host_name(host));
            return Err(Violation::of(RULE, detail));
        }
        Ok(())
    }
}
