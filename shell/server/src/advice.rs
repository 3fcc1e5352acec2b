//! What an operator can do about an alarm.

use atoll_distributor::Alarm;

pub(crate) const OUT_OF_MEMORY: &str = "Delete what is not needed, or add nodes: buckets move to them by themselves. \
     If this machine has more memory, restart the node with a higher `--max-memory`.";

pub(crate) fn advice(alarm: &Alarm) -> &'static str {
    match alarm {
        Alarm::Lost { .. } => {
            "Start the nodes that had a copy, with their data directories. If they are gone for good, \
             `atoll recover bucket` goes on from a copy that is left, or empty; acknowledged writes may be missing."
        }
        Alarm::Unserved { .. } => {
            "Start one of these nodes again, with its data directory. Nothing is lost while one of them can return."
        }
        Alarm::Stopped { .. } => {
            "Start the absent nodes, or add new ones with `atoll serve --join`: copies are made on them by themselves."
        }
        Alarm::Short { .. } => {
            "Add a node with `atoll serve --join`, or start an absent one: the missing copies are made by themselves. \
             Until then one failure less is survived."
        }
        Alarm::DrainWithoutSpare { .. } => {
            "Add a node before, or go on and have fewer copies meanwhile; `undrain` calls it off."
        }
        Alarm::Skewed { .. } => {
            "Set the clock of its machine right, then restart the node: it reads its clock when it starts."
        }
        Alarm::DrainBlocked { .. } => "Add a node, and the drain goes on by itself; or call it off with `undrain`.",
    }
}
