//! Rule: a log is trimmed only to what every present node that runs has; beyond its limit it no longer waits for them.
//!
//! A node that was absent at the slot up to which the log is trimmed was not waited for, though it may be back since.

use super::roll::Roll;
use crate::Violation;
use crate::host::Host;
use crate::plan::host_name;
use atoll_cluster::Standing;
use atoll_types::Slot;

pub(crate) fn on_trimmed(roll: &Roll, hosts: &[Host], host: usize, slot: Slot) -> Result<(), Violation> {
    let Some(view) = hosts[host].view() else { return Ok(()) };
    let (Some(state), Some(identity)) = (view.state, view.identity) else { return Ok(()) };
    let bound = Slot(view.decided.0.saturating_sub(hosts[host].config.limits.log as u64));
    if slot <= bound {
        return Ok(());
    }
    for other in hosts {
        let Some(seen) = other.view() else { continue };
        let Some(them) = seen.identity.filter(|them| them.cluster == identity.cluster) else { continue };
        let was_there = roll.members.get(&them.node).is_some_and(|listed| listed.since <= slot);
        let present = state.members.get(&them.node).is_some_and(|member| {
            member.incarnation == them.incarnation && matches!(member.standing, Standing::Present | Standing::Leaving)
        });
        if present && was_there && seen.generation == view.generation && seen.decided < slot {
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
