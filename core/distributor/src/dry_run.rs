//! What would happen if: the moves, worked out on a copy of the state whose nodes all do their part at once.

use crate::alarm::Alarm;
use crate::operations::Impossible;
use crate::orders::Settings;
use crate::state::{Decided, Distributor, Roster, Standing};
use atoll_types::{BucketId, Incarnation, Name, NodeId, Operation, Report, Step, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Buckets moved at a time: nobody is disturbed.
const WIDTH: usize = 16;
/// A run that is not done after so many orders is not worth waiting for.
const ORDERS_MOST: usize = 1000;
const ORDERS_PER_BUCKET: usize = 20;

/// What somebody thinks of doing, or fears.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hypothesis {
    Arrival {
        zone: Name,
        weight: u32,
    },
    Departure {
        node: NodeId,
    },
    Drain {
        node: NodeId,
    },
    Split {
        bucket: Option<BucketId>,
    },
    /// As things are: what is still to be done.
    Nothing,
}

/// One thing that happens to one bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Move {
    /// A copy is made; data moves.
    Copy {
        bucket: BucketId,
        from: NodeId,
        to: NodeId,
    },
    /// A copy is given up.
    Drop {
        bucket: BucketId,
        node: NodeId,
    },
    Lead {
        bucket: BucketId,
        from: NodeId,
        to: NodeId,
    },
    Halve {
        bucket: BucketId,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub moves: Vec<Move>,
    /// What is still wrong afterwards.
    pub alarms: Vec<Alarm>,
    /// Why the wish would not be granted at all, if it would not.
    pub refused: Option<Impossible>,
}

impl Distributor {
    /// The moves that would follow, and what would still be wrong after them. Changes nothing.
    pub fn plan(&self, what: &Hypothesis) -> Plan {
        let mut run = Run::of(self);
        let refused = run.suppose(what).err();
        run.play();
        Plan { moves: run.moves, alarms: run.state.alarms(), refused }
    }
}

/// The state as it would be, and how it got there.
#[derive(Debug)]
struct Run {
    state: Distributor,
    at: Decided,
    moves: Vec<Move>,
}

impl Run {
    fn of(distributor: &Distributor) -> Run {
        let state = distributor.clone();
        let last = state.buckets.values().map(|bucket| bucket.epoch().slot).max().unwrap_or_default();
        let slot = last.max(state.removal).max(state.version);
        // A dry run waits for nobody: what runs out by time has run out.
        let at = Decided { slot, generation: state.generation, time: Time::NEVER };
        Run { state, at, moves: Vec::new() }
    }

    fn suppose(&mut self, what: &Hypothesis) -> Result<(), Impossible> {
        let mut roster: Roster = self.state.nodes.iter().map(|(&node, known)| (node, known.standing.clone())).collect();
        let at = self.next();
        match what {
            Hypothesis::Arrival { zone, weight } => {
                let node = NodeId(roster.keys().map(|node| node.0).max().unwrap_or(0).saturating_add(1));
                let (zone, weight) = (zone.clone(), *weight);
                let incarnation = Incarnation::default();
                let standing = Standing {
                    present: true,
                    incarnation,
                    zone,
                    weight,
                    durable: true,
                    leaving: false,
                    stopped: false,
                    skewed: false,
                };
                roster.insert(node, standing);
                self.state.on_roster(at, &roster);
            }
            Hypothesis::Departure { node } => {
                roster.remove(node);
                let before = self.state.buckets.clone();
                self.state.on_roster(at, &roster);
                for (&bucket, after) in &self.state.buckets {
                    let from = before.get(&bucket).map_or(NodeId::NOBODY, |bucket| bucket.primary());
                    if from != after.primary() {
                        self.moves.push(Move::Lead { bucket, from, to: after.primary() });
                    }
                }
            }
            Hypothesis::Drain { node } => self.state.on_operation(at, &Operation::Drain { node: *node })?,
            Hypothesis::Split { bucket } => self.state.on_operation(at, &Operation::Split { bucket: *bucket })?,
            Hypothesis::Nothing => {}
        }
        Ok(())
    }

    /// Orders and reports by turns, until there is nothing to do.
    fn play(&mut self) {
        let settings = Settings { width: WIDTH, ..Settings::default() };
        let mut open: BTreeSet<BucketId> = self.state.buckets.keys().copied().collect();
        let most = ORDERS_MOST + self.state.buckets.len() * ORDERS_PER_BUCKET;
        for _ in 0..most {
            self.report(&open);
            let Some(order) = self.state.next_order(Time::NEVER, &settings) else { return };
            order.steps.iter().for_each(|step| self.note(step));
            let at = self.next();
            self.state.on_order(at, &order);
            open = self.state.take_changed();
        }
    }

    /// Everybody does at once what is expected, until nothing is.
    fn report(&mut self, open: &BTreeSet<BucketId>) {
        let mut open = open.clone();
        while !open.is_empty() {
            let mut reports: BTreeMap<NodeId, Vec<Report>> = BTreeMap::new();
            for (bucket, known) in open.iter().filter_map(|id| Some((*id, self.state.buckets.get(id)?))) {
                let epoch = known.epoch();
                let from = reports.entry(known.primary()).or_default();
                if !known.settled {
                    from.push(Report::Settled { bucket, epoch });
                }
                if known.splitting {
                    from.push(Report::Divided { bucket, epoch });
                }
                from.extend(known.catching_up().iter().map(|&node| Report::Ready { bucket, epoch, node }));
            }
            let at = self.next();
            self.state.take_changed();
            for (from, reports) in reports {
                self.state.on_reports(at, from, &reports);
            }
            open = self.state.take_changed();
        }
    }

    fn note(&mut self, step: &Step) {
        let primary =
            |bucket: &BucketId| self.state.buckets.get(bucket).map_or(NodeId::NOBODY, |known| known.primary());
        match step {
            Step::Expand { bucket, add, epoch: _ } => {
                let from = primary(bucket);
                self.moves.extend(add.iter().map(|&to| Move::Copy { bucket: *bucket, from, to }));
            }
            Step::Abandon { bucket, drop, epoch: _ } | Step::Contract { bucket, drop, epoch: _ } => {
                self.moves.extend(drop.iter().map(|&node| Move::Drop { bucket: *bucket, node }));
            }
            Step::Abdicate { bucket, to, epoch: _ } => {
                self.moves.push(Move::Lead { bucket: *bucket, from: primary(bucket), to: *to });
            }
            Step::Split { bucket, epoch: _ } => self.moves.push(Move::Halve { bucket: *bucket }),
            Step::Place { .. } | Step::Unite { .. } => {}
        }
    }

    fn next(&mut self) -> Decided {
        self.at.slot = self.at.slot.next();
        self.at
    }
}
