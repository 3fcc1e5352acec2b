//! Everything that the decided entries add up to: the cluster's own state, the distributor's, and that of whoever uses
//! the cluster log. All three are applied together, entry by entry, and stand together in snapshots, so they are always
//! of the same slot.
//!
//! Invariants: a function of the log alone; the bytes of a snapshot are a function of it. Nothing here waits for a
//! bucket: an entry is applied when it is decided, whatever the replicas do.

use atoll_cluster::snapshot::Snapshot;
use atoll_cluster::{Effect, Standing, State};
use atoll_distributor::{Decided, Distributor, Roster, Standing as Place};
use atoll_types::{At, Body, Bug, Cause, Entry, HashSlot, Offset, Operation, Payload, Slot, StateMachine, planted};

/// The first byte of a snapshot. 1 was of the cluster's state alone.
const FORMAT: u8 = 2;

#[derive(Debug)]
pub(crate) struct Replicated {
    pub(crate) state: State,
    pub(crate) distributor: Distributor,
    /// Of whoever uses the cluster log; the same kind on every node of a cluster, or none.
    pub(crate) user: Option<Box<dyn StateMachine>>,
}

/// What an entry brought about.
#[derive(Debug)]
pub(crate) struct Applied {
    /// For this node to act on or tell. Reports and operations are not among them: they are done.
    pub(crate) effects: Vec<Effect>,
    /// Somebody came, went, or has another standing, life or address.
    pub(crate) roster_changed: bool,
    /// What the user's machine answered.
    pub(crate) answer: Payload,
}

impl Replicated {
    /// Before the first entry.
    pub(crate) fn new(kind: Option<&dyn StateMachine>) -> Replicated {
        Replicated { state: State::new(), distributor: Distributor::new(), user: kind.map(StateMachine::empty) }
    }

    pub(crate) fn apply(&mut self, slot: Slot, entry: &Entry) -> Applied {
        let generation = self.state.generation;
        let effects = self.state.apply(slot, entry);
        let at = Decided { slot, generation: self.state.generation, time: self.state.time };
        let roster_changed =
            generation != at.generation || is_founding(&entry.body) || effects.iter().any(changes_standings);
        if roster_changed {
            self.distributor.on_roster(at, &roster(&self.state));
        }
        if let Body::Order(order) = &entry.body {
            self.distributor.on_order(at, order);
        }
        let place = self.at();
        if let Some(user) = &mut self.user {
            user.advance(place);
        }
        let mut answer = Vec::new();
        let effects = effects.into_iter().filter_map(|effect| self.carry_out(at, effect, &mut answer)).collect();
        Applied { effects, roster_changed, answer: answer.into() }
    }

    /// Gives on what concerns this node.
    fn carry_out(&mut self, at: Decided, effect: Effect, answer: &mut Vec<u8>) -> Option<Effect> {
        match effect {
            Effect::Reports { node, reports } => {
                self.distributor.on_reports(at, node, &reports);
                None
            }
            Effect::Operation { node, cookie, sequence, operation } => Some(if self.operate(at, &operation) {
                Effect::Taken { node, cookie, sequence }
            } else {
                Effect::NotPossible { node, cookie, sequence }
            }),
            Effect::Delivered { node, cookie, sequence, payload } => {
                let place = self.at();
                if let Some(user) = &mut self.user {
                    user.apply(place, payload.as_slice(), answer);
                }
                Some(Effect::Delivered { node, cookie, sequence, payload })
            }
            Effect::Taken { .. }
            | Effect::NotPossible { .. }
            | Effect::BarrierOpened { .. }
            | Effect::BarrierReduced { .. }
            | Effect::Arrived { .. }
            | Effect::Departed { .. }
            | Effect::StandingChanged
            | Effect::LevelRaised { .. } => Some(effect),
        }
    }

    fn operate(&mut self, at: Decided, operation: &Operation) -> bool {
        self.distributor.on_operation(at, operation).is_ok()
    }

    /// Where in the log, for the user's machine: a slot is its own offset.
    fn at(&self) -> At {
        At { offset: Offset(self.state.applied.0), time: self.state.time }
    }

    /// Asks the user's machine. Empty without one.
    pub(crate) fn query(&self, query: &[u8]) -> Payload {
        let mut answer = Vec::new();
        if let Some(user) = &self.user {
            user.read(self.at(), query, &mut answer);
        }
        answer.into()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let user = self.user.as_ref().map(|user| Payload::from(user.snapshot()));
        let parts = (self.state.for_snapshot(), &self.distributor, user);
        let bytes = postcard::to_extend(&parts, vec![FORMAT]).expect("a state always has bytes");
        Snapshot::new(self.state.applied, bytes)
    }

    /// What a snapshot's bytes hold. None if they are not sound, in any part.
    pub(crate) fn open(bytes: &[u8], kind: Option<&dyn StateMachine>) -> Option<Replicated> {
        let (&FORMAT, body) = bytes.split_first()? else { return None };
        let (parts, rest) = postcard::take_from_bytes::<(State, Distributor, Option<Payload>)>(body).ok()?;
        let (state, distributor, user) = parts;
        let user = match (kind, user) {
            (Some(kind), Some(bytes)) => {
                let mut machine = kind.empty();
                machine.install(bytes.as_slice()).ok()?;
                Some(machine)
            }
            (None, None) => None,
            // Another program's cluster: to go on without its state would be to lose it.
            (Some(_), None) | (None, Some(_)) => return None,
        };
        let sound = rest.is_empty() && state.is_sound() && is_sound(&distributor, &state);
        sound.then_some(Replicated { state, distributor, user })
    }

    pub(crate) fn check(&self) {
        self.distributor.check();
        if !planted(Bug::EmptySnapshot) {
            assert!(self.distributor.version() <= self.state.applied, "a table from the future");
        }
    }
}

/// The effects are told apart in `State`; a founding has none of its own.
fn is_founding(body: &Body) -> bool {
    match body {
        Body::Government(government) => matches!(government.cause, Cause::Founded { .. }),
        Body::Noop | Body::Edict(_) | Body::Order(_) | Body::Submission(_) => false,
    }
}

/// Does it change who may be given buckets?
pub fn changes_standings(effect: &Effect) -> bool {
    match effect {
        Effect::Arrived { .. } | Effect::Departed { .. } | Effect::StandingChanged => true,
        Effect::Taken { .. }
        | Effect::NotPossible { .. }
        | Effect::Delivered { .. }
        | Effect::BarrierOpened { .. }
        | Effect::BarrierReduced { .. }
        | Effect::LevelRaised { .. }
        | Effect::Reports { .. }
        | Effect::Operation { .. } => false,
    }
}

/// Whoever has acclimated. A node that is still arriving is given nothing.
pub fn roster(state: &State) -> Roster {
    let acclimated = state.members.iter().filter(|(_, member)| !member.is_arriving());
    let place = |member: &atoll_cluster::Member| Place {
        present: matches!(member.standing, Standing::Present | Standing::Leaving),
        incarnation: member.incarnation,
        zone: member.zone.clone(),
        weight: member.weight,
        durable: member.durable,
        leaving: member.is_to_go(),
        stopped: member.is_absent() && !member.may_return(),
        skewed: member.skewed,
    };
    acclimated.map(|(&node, member)| (node, place(member))).collect()
}

/// Can this be a table at all? What comes from elsewhere is not believed to be.
fn is_sound(distributor: &Distributor, state: &State) -> bool {
    let mut next = 0;
    for (id, bucket) in distributor.buckets() {
        let (first, last) = (bucket.range.first.0, bucket.range.last.0);
        if (id.0, first) != (next, next) || last < first || last >= HashSlot::COUNT {
            return false;
        }
        next = last + 1;
    }
    (distributor.buckets().is_empty() || next == HashSlot::COUNT) && distributor.version() <= state.applied
}
