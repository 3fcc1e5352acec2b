//! Rule: every decided government follows lawfully from the one before. Nobody stands in it twice and its majority is
//! just over half; there are 1, 2, 3 or 5 voters, and one only where it was founded or recovered so; a new leader keeps
//! the voters, a newcomer is one id never given before, a departure takes exactly one away; only acclimated nodes are
//! seated; whoever leads was a voter. A level is raised only when everybody who is there understands it.

use super::logs::Lineage;
use super::roll::{Roll, Stands};
use crate::Violation;
use atoll_types::{Body, Cause, Entry, Government, NodeId, Slot};
use std::collections::BTreeSet;

const RULE: &str = "government";

/// Checks an entry that is about to be applied to `roll`. `log` has it already.
pub(crate) fn on_entry(log: &Lineage, roll: &Roll, slot: Slot, entry: &Entry) -> Result<(), Violation> {
    match &entry.body {
        Body::Government(government) => lawful(log, roll, slot, entry, government).map_err(|why| {
            let before = log.in_force(slot).map(|(_, before)| before);
            Violation::of(RULE, format!("slot {slot}: {why}; {government:?} after {before:?}"))
        }),
        Body::Edict(_) | Body::Order(_) | Body::Noop | Body::Submission(_) => Ok(()),
    }
}

fn lawful(log: &Lineage, roll: &Roll, slot: Slot, entry: &Entry, government: &Government) -> Result<(), String> {
    shape(government)?;
    if entry.leader != government.leader() {
        return Err(format!("{} proposed a government led by {}", entry.leader, government.leader()));
    }
    if let Cause::Founded { founder, .. } = &government.cause {
        let alone = government.voter_count() == 1 && government.learners.is_empty();
        return if slot == Slot(1) && alone && government.leader() == founder.node {
            Ok(())
        } else {
            Err("not the founding of a cluster by one node".to_owned())
        };
    }
    let Some((_, before)) = log.in_force(slot) else { return Err("there was none before".to_owned()) };
    match &government.cause {
        Cause::Founded { .. } => Ok(()),
        Cause::Recovered { generation } => {
            if *generation != log.generation || government.voter_count() != 1 {
                return Err(format!("not the recovery that began generation {}", log.generation));
            }
            same(&nodes(before), &nodes(government), "the nodes")
        }
        Cause::Elected | Cause::Rearranged => {
            led_by_voter(before, government)?;
            same(&voters(before), &voters(government), "the voters")?;
            same(&nodes(before), &nodes(government), "the nodes")
        }
        Cause::Arrived(newcomer) => {
            led_by_voter(before, government)?;
            if roll.given.contains(&newcomer.node) {
                return Err(format!("{} was given before", newcomer.node));
            }
            let mut expected = nodes(before);
            expected.insert(newcomer.node);
            same(&expected, &nodes(government), "the nodes")?;
            seats(roll, before, government)
        }
        Cause::Departed { node, .. } => {
            led_by_voter(before, government)?;
            let mut expected = nodes(before);
            if !expected.remove(node) {
                return Err(format!("{node} was no member"));
            }
            same(&expected, &nodes(government), "the nodes")?;
            seats(roll, before, government)
        }
        Cause::Seated => {
            led_by_voter(before, government)?;
            same(&nodes(before), &nodes(government), "the nodes")?;
            seats(roll, before, government)
        }
    }
}

fn shape(government: &Government) -> Result<(), String> {
    let all: Vec<NodeId> = government.nodes().collect();
    if nodes(government).len() != all.len() {
        return Err("a node stands in it twice".to_owned());
    }
    if government.majority.len() != government.voter_count() / 2 + 1 {
        return Err("its majority is not just over half".to_owned());
    }
    match government.voter_count() {
        1 | 2 | 3 | 5 => Ok(()),
        count => Err(format!("{count} voters")),
    }
}

/// Who votes now and did not before must be acclimated; and one voter never remains of several.
fn seats(roll: &Roll, before: &Government, government: &Government) -> Result<(), String> {
    for voter in government.voters().filter(|&voter| !before.is_voter(voter)) {
        // It may have gone absent, or been told to leave, while this government was on its way.
        let acclimated = matches!(roll.stands(voter), Some(Stands::Present | Stands::Absent | Stands::Leaving));
        if !acclimated {
            return Err(format!("{voter} is given a seat, and is {:?}", roll.stands(voter)));
        }
    }
    if government.voter_count() == 1 && before.voter_count() > 1 && !roll.alone {
        return Err("one voter is left of several".to_owned());
    }
    Ok(())
}

fn led_by_voter(before: &Government, government: &Government) -> Result<(), String> {
    let leader = government.leader();
    if before.is_voter(leader) && government.is_voter(leader) {
        Ok(())
    } else {
        Err(format!("{leader} leads and was no voter"))
    }
}

fn voters(government: &Government) -> BTreeSet<NodeId> {
    government.voters().collect()
}

fn nodes(government: &Government) -> BTreeSet<NodeId> {
    government.nodes().collect()
}

fn same(expected: &BTreeSet<NodeId>, found: &BTreeSet<NodeId>, what: &str) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("{what} should be {expected:?} and are {found:?}")) }
}
