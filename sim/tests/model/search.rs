//! Through every world that can come about: first all that need no edict, then all that need one, and so on; within
//! that, breadth first. What is found needs as few edicts as can be.

use super::law::{Epoch, NODES, Node, Rules, name};
use super::world::{Action, Violation, World};
use std::collections::HashSet;
use std::fmt;
use xxhash_rust::xxh3::xxh3_128;

pub(crate) struct Outcome {
    pub(crate) states: usize,
    /// How many edicts were needed, or allowed.
    pub(crate) edicts: usize,
    /// The way to what was found, in words.
    pub(crate) trace: Option<Vec<String>>,
}

/// Visits everything that can be reached from `start` with so many edicts, until something is found that `counts`.
pub(crate) fn search(start: &World, edicts: usize, rules: Rules, counts: impl Fn(&Violation) -> bool) -> Outcome {
    let mut seen = HashSet::from([fingerprint(start)]);
    // How each world was first reached: from which, and by what.
    let mut path: Vec<(u32, Option<Action>)> = vec![(0, None)];
    let mut layer = vec![(0u32, start.clone())];
    for used in 0..=edicts {
        // By one edict more. Some of these may yet be reached without it, so they are not counted as seen.
        let mut next_layer = Vec::new();
        let mut waiting = HashSet::new();
        while !layer.is_empty() {
            let mut next = Vec::new();
            for (id, world) in layer {
                for action in world.actions(rules) {
                    let is_edict = matches!(action, Action::Append(_));
                    if is_edict && used == edicts {
                        continue;
                    }
                    let mut after = world.clone();
                    if let Some(violation) = after.step(action, rules)
                        && counts(&violation)
                    {
                        path.push((id, Some(action)));
                        let trace = Some(trace(start, rules, &path));
                        return Outcome { states: seen.len(), edicts: used + usize::from(is_edict), trace };
                    }
                    let print = fingerprint(&after);
                    if is_edict {
                        if !seen.contains(&print) && waiting.insert(print) {
                            next_layer.push((id, action, print, after));
                        }
                    } else if seen.insert(print) {
                        path.push((id, Some(action)));
                        next.push((path.len() as u32 - 1, after));
                    }
                }
            }
            layer = next;
        }
        for (id, action, print, world) in next_layer {
            if seen.insert(print) {
                path.push((id, Some(action)));
                layer.push((path.len() as u32 - 1, world));
            }
        }
    }
    Outcome { states: seen.len(), edicts, trace: None }
}

/// 128 bits: that two of some millions of worlds are confused is out of the question.
fn fingerprint(world: &World) -> u128 {
    xxh3_128(&encode(world))
}

/// Equal for worlds that differ only in the names of nodes and the numbers of epochs, whose order alone matters.
///
/// All that the world knows of a node is what the node holds and which part it has in each view and epoch; so the
/// nodes are written one by one, each with all of its parts, and sorted.
fn encode(world: &World) -> Vec<u8> {
    let views = world.views.iter().chain(world.sent.iter().map(|sent| &sent.view));
    let logs = world.nodes.iter().map(|replica| &replica.log).chain(world.sent.iter().map(|sent| &sent.log));
    let mut used: Vec<Epoch> = views.map(|view| view.epoch).collect();
    used.extend(logs.flat_map(|log| log.entries()));
    used.extend(world.committed.iter().flat_map(|committed| [committed.value, committed.by]));
    used.sort_unstable();
    used.dedup();
    let rank = |epoch: Epoch| used.partition_point(|&other| other < epoch) as u8;
    let mut nodes: [Vec<u8>; NODES] = std::array::from_fn(|index| {
        let (node, replica) = (index as Node, &world.nodes[index]);
        let mut bytes = vec![replica.at as u8, world.present.has(node).into(), replica.log.length as u8];
        bytes.extend(replica.log.entries().iter().map(|&epoch| rank(epoch)));
        bytes.extend(world.views.iter().map(|view| view.part(node)));
        for sent in &world.sent {
            bytes.push(sent.view.part(node));
            bytes.push(sent.acknowledged[index].map_or(0, |held| held as u8 + 1));
        }
        bytes
    });
    nodes.sort_unstable();
    let mut bytes = vec![world.views.len() as u8, world.sent.len() as u8];
    bytes.extend(nodes.concat());
    bytes.extend(world.views.iter().flat_map(|view| [rank(view.epoch), view.settled.into()]));
    for sent in &world.sent {
        bytes.extend([u8::MAX, rank(sent.view.epoch), sent.opened.into(), sent.base as u8, sent.log.length as u8]);
        bytes.extend(sent.log.entries().iter().map(|&epoch| rank(epoch)));
    }
    bytes.push(u8::MAX);
    bytes.extend(world.committed.iter().flat_map(|committed| [rank(committed.value), rank(committed.by)]));
    bytes.extend([u8::MAX, world.writes_left]);
    bytes
}

/// The way to the last world of `path` once more, in words.
fn trace(start: &World, rules: Rules, path: &[(u32, Option<Action>)]) -> Vec<String> {
    let mut actions = Vec::new();
    let mut at = path.len() - 1;
    while let (parent, Some(action)) = path[at] {
        actions.push(action);
        at = parent as usize;
    }
    let mut world = start.clone();
    let mut lines = Vec::new();
    let mut told = None;
    for &action in actions.iter().rev() {
        let before = world.clone();
        let violation = world.step(action, rules);
        lines.push(describe(&world, action, &before));
        if violation != told {
            lines.extend(violation.map(|violation| format!("=> {violation}")));
            told = violation;
        }
    }
    lines
}

/// What the action did, for people.
fn describe(world: &World, action: Action, before: &World) -> String {
    let log = |node: Node| format!("{:?}", world.nodes[node as usize].log.entries());
    let epoch = |node: Node| before.view_of(node).epoch;
    let mut line = match action {
        Action::Append(edict) => format!("log: {edict:?} -> {}", world.present_view()),
        Action::Settle => format!("log: settled -> {}", world.present_view()),
        Action::Apply(node) => format!("{} applies: {}", name(node), world.view_of(node)),
        Action::Join(node) => format!("{} joins epoch {}, its log is {}", name(node), epoch(node), log(node)),
        Action::Write(node) => format!("{} writes in epoch {}, its log is {}", name(node), epoch(node), log(node)),
        Action::Receive(node) => format!("{} acknowledges in epoch {}: {}", name(node), epoch(node), log(node)),
        Action::JoinAgain(node) => {
            format!("{} truncates again in epoch {}: {}", name(node), epoch(node), log(node))
        }
        Action::AnswerLate(node) => format!("{} answers in an epoch before {}", name(node), epoch(node)),
    };
    for (offset, committed) in world.committed.iter().enumerate().skip(before.committed.len()) {
        line += &format!(" => epoch {} commits value {} at offset {}", committed.by, committed.value, offset + 1);
    }
    line
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::TwoValues { offset } => write!(f, "two values are committed at offset {offset}"),
            Violation::Missing { offset, epoch } => {
                write!(f, "the primary of epoch {epoch} lacks what is committed at offset {offset}")
            }
            Violation::FewEligible => write!(f, "too few are eligible"),
            Violation::ReadsTooLittle { node, epoch } => {
                write!(f, "{} may answer a read in epoch {epoch}, and lacks what is committed", name(*node))
            }
            Violation::Unlike { offset } => write!(f, "two logs differ below offset {offset}, where they agree"),
        }
    }
}
