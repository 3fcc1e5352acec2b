//! Rule: a log is trimmed only to what every present node that runs has; beyond its limit it no longer waits for them.
//!
//! Who is present is what the whole log says, not what the node that trims has heard of it so far: the leader told it
//! how far it may go. A node that was absent at the slot up to which the log is trimmed was not waited for, though it
//! may be back since.

use super::roll::{Roll, Stands};
use crate::Violation;
use crate::host::Host;
use crate::plan::host_name;
use atoll_types::Slot;

pub(crate) fn on_trimmed(roll: &Roll, hosts: &[Host], host: usize, slot: Slot) -> Result<(), Violation> {
    let Some(view) = hosts[host].view() else { return Ok(()) };
    let Some(identity) = view.identity else { return Ok(()) };
    let bound = Slot(view.decided.0.saturating_sub(hosts[host].config.limits.log as u64));
    if slot <= bound {
        return Ok(());
    }
    for other in hosts {
        let Some(seen) = other.view() else { continue };
        let Some(them) = seen.identity.filter(|them| them.cluster == identity.cluster) else { continue };
        let waited_for = roll.members.get(&them.node).is_some_and(|listed| {
            listed.incarnation == them.incarnation
                && matches!(listed.stands, Stands::Present | Stands::Leaving)
                && listed.since <= slot
        });
        // One without a state fetches a snapshot in any case.
        let waited_for = waited_for && seen.state.is_some();
        if waited_for && seen.generation == view.generation && seen.decided < slot {
            let detail = format!(
                "{} trims to {slot}, and {} ({}) has only {}",
                host_name(host),
                other.config.name,
                them.node,
                seen.decided
            );
            return Err(Violation::of("trim", detail));
        }
    }
    Ok(())
}
