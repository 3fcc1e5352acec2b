//! Whom the leader hears, and what follows from silence. Only ever suspicion: it costs availability, never safety.
//!
//! Silence counts only after the leader itself has asked the node, so that a dead relay does not silence those below
//! it.

use crate::member::Standing;
use crate::message::Sighting;
use crate::seats::VOTERS_MOST;
use crate::state::State;
use atoll_types::{Address, Edict, Incarnation, Level, NodeId, Slot, Time, Why};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Patience {
    pub heartbeat: Duration,
    pub silence: Duration,
    pub evidence: Duration,
    pub depart_after: Duration,
    pub arrival: Duration,
}

#[derive(Clone, Debug)]
struct Seen {
    /// The life that was heard.
    incarnation: Incarnation,
    heard: Time,
    /// When it was heard by the leader itself, not through others.
    direct: Option<Time>,
    /// None until it is really heard under this leader.
    position: Option<Slot>,
    /// When the leader began to ask it directly.
    asked: Option<Time>,
    /// When the leader last asked it although it is absent.
    called: Option<Time>,
    /// Since when its process is known to be gone.
    dead: Option<Time>,
    /// Where a new life was heard from, and what it understands.
    returned: Option<(Address, Level)>,
}

/// What the leader should do about the nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    pub ask: Vec<NodeId>,
    pub edicts: Vec<Edict>,
    pub departures: Vec<(NodeId, Why)>,
}

#[derive(Debug)]
pub struct Health {
    patience: Patience,
    seen: BTreeMap<NodeId, Seen>,
}

impl Health {
    /// Begins without any suspicion.
    pub fn new(now: Time, patience: Patience, state: &State) -> Health {
        let mut health = Health { patience, seen: BTreeMap::new() };
        health.notice_members(now, state);
        health
    }

    fn notice_members(&mut self, now: Time, state: &State) {
        self.seen.retain(|node, _| state.members.contains_key(node));
        for (&node, member) in &state.members {
            self.seen.entry(node).or_insert(Seen {
                incarnation: member.incarnation,
                heard: now,
                direct: None,
                position: None,
                asked: None,
                called: None,
                dead: None,
                returned: None,
            });
        }
    }

    /// The leader itself was paused: nobody is to blame for not being heard.
    pub fn start_afresh(&mut self, now: Time) {
        for seen in self.seen.values_mut() {
            (seen.heard, seen.asked) = (seen.heard.max(now), None);
        }
    }

    pub fn on_heard(&mut self, now: Time, sighting: Sighting) {
        let Some(seen) = self.seen.get_mut(&sighting.node) else { return };
        if sighting.incarnation < seen.incarnation {
            return;
        }
        if sighting.incarnation > seen.incarnation {
            (seen.incarnation, seen.position, seen.returned) = (sighting.incarnation, None, None);
        }
        (seen.heard, seen.asked, seen.dead) = (now, None, None);
        seen.position = seen.position.max(Some(sighting.position));
        seen.returned = sighting.returned.or(seen.returned.take());
    }

    /// The node itself spoke to the leader.
    pub fn on_direct(&mut self, now: Time, node: NodeId) {
        if let Some(seen) = self.seen.get_mut(&node) {
            seen.direct = Some(now);
        }
    }

    /// Does the leader itself hear this node?
    pub fn is_near(&self, now: Time, node: NodeId) -> bool {
        let direct = self.seen.get(&node).and_then(|seen| seen.direct);
        direct.is_some_and(|direct| now.since(direct) < self.patience.silence) && self.is_healthy(now, node)
    }

    /// Hard evidence: the process of that life is gone.
    pub fn on_dead(&mut self, now: Time, node: NodeId, incarnation: Incarnation) {
        if let Some(seen) = self.seen.get_mut(&node)
            && seen.incarnation == incarnation
        {
            seen.dead.get_or_insert(now);
        }
    }

    pub fn is_healthy(&self, now: Time, node: NodeId) -> bool {
        self.seen.get(&node).is_some_and(|seen| {
            seen.position.is_some() && seen.dead.is_none() && now.since(seen.heard) < self.patience.silence / 2
        })
    }

    /// Is a node of this life known to run?
    pub fn is_alive(&self, now: Time, node: NodeId) -> bool {
        self.seen.get(&node).is_some_and(|seen| seen.dead.is_none() && now.since(seen.heard) < self.patience.silence)
    }

    /// Every live node has all up to here, as far as this leader has heard.
    pub fn floor(&self, me: NodeId, decided: Slot, state: &State) -> Slot {
        let position = |(node, member): (&NodeId, &crate::Member)| match member.standing {
            _ if *node == me => Some(decided), // tidy: the leader itself, whatever its standing
            Standing::Absent { .. } => None,
            Standing::Arriving => {
                Some(self.seen.get(node).and_then(|seen| seen.position).unwrap_or_default().max(member.arrived))
            }
            Standing::Present | Standing::Leaving => {
                Some(self.seen.get(node).and_then(|seen| seen.position).unwrap_or_default())
            }
        };
        state.members.iter().filter_map(position).min().unwrap_or(decided).min(decided)
    }

    /// Looks at everybody. To be called once a heartbeat.
    pub fn judge(&mut self, now: Time, me: NodeId, state: &State, absent_since: &BTreeMap<NodeId, Time>) -> Verdicts {
        self.notice_members(now, state);
        let mut verdicts = Verdicts::default();
        for (&node, member) in state.members.iter().filter(|&(&node, _)| node != me) {
            let Some(seen) = self.seen.get_mut(&node) else { continue };
            if seen.incarnation.life > member.incarnation.life
                && let Some((address, level)) = seen.returned.clone()
            {
                let incarnation = seen.incarnation;
                verdicts.edicts.push(Edict::Restarted { node, incarnation, address, level });
                continue;
            }
            if seen.incarnation != member.incarnation && seen.incarnation.life <= member.incarnation.life {
                (seen.incarnation, seen.position, seen.dead) = (member.incarnation, None, None);
            }
            let silent = now.since(seen.heard);
            // A voter that is only heard through others may be needed in the majority: is it within reach? And so may
            // the first learners, when there are seats to give.
            let far = seen.direct.is_none_or(|direct| now.since(direct) >= self.patience.silence / 2);
            let next = state.government.learners.iter().take(VOTERS_MOST).any(|&learner| learner == node);
            if far && !member.is_absent() && (state.government.is_voter(node) || next) {
                verdicts.ask.push(node);
            }
            // An absent node is called now and then: it may live on with others, in another generation even, and none
            // of them would speak first.
            if member.is_absent() && seen.called.is_none_or(|called| now.since(called) >= self.patience.silence) {
                seen.called = Some(now);
                verdicts.ask.push(node);
            }
            if silent >= self.patience.silence / 2 {
                seen.asked.get_or_insert(now);
                if !member.is_absent() && !verdicts.ask.contains(&node) {
                    verdicts.ask.push(node);
                }
            }
            let asked_long = seen.asked.is_some_and(|asked| now.since(asked) >= self.patience.silence / 2);
            let dead = seen.dead.is_some_and(|since| now.since(since) >= self.patience.evidence);
            let level = state.level;
            let absent = now.since(absent_since.get(&node).copied().unwrap_or(now));
            judge_one(&self.patience, level, node, member, seen, silent, absent, asked_long, dead, &mut verdicts);
        }
        verdicts
    }
}

#[allow(clippy::too_many_arguments)] // One table of cases, read at one place.
fn judge_one(
    patience: &Patience,
    level: Level,
    node: NodeId,
    member: &crate::Member,
    seen: &Seen,
    silent: Duration,
    absent: Duration,
    asked_long: bool,
    dead: bool,
    verdicts: &mut Verdicts,
) {
    let incarnation = member.incarnation;
    let current = seen.incarnation == incarnation;
    if member.ordered_out {
        return verdicts.departures.push((node, Why::Ordered));
    }
    match member.standing {
        Standing::Leaving => {}
        Standing::Arriving => {
            if asked_long && silent >= patience.arrival || dead {
                verdicts.departures.push((node, Why::Unreachable));
            }
        }
        Standing::Present => {
            if dead && !member.durable {
                // What a memory-mode process knew is gone with it.
                verdicts.departures.push((node, Why::Dead));
            } else if dead {
                verdicts.edicts.push(Edict::Absent { node, incarnation, why: Why::Dead });
            } else if asked_long && silent >= patience.silence {
                verdicts.edicts.push(Edict::Absent { node, incarnation, why: Why::Silent });
            }
        }
        Standing::Absent { .. } => {
            let heard = seen.position.is_some() && silent < patience.silence / 2 && seen.dead.is_none();
            if heard && current && member.may_return() && member.level >= level {
                verdicts.edicts.push(Edict::Present { node, incarnation });
            } else if dead && !member.durable {
                verdicts.departures.push((node, Why::Dead));
            } else if !heard && absent >= patience.depart_after {
                verdicts.departures.push((node, Why::AbsentTooLong));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Member;
    use atoll_types::{Cause, Cookie, Government, Newcomer};

    const SECOND: Duration = Duration::from_secs(1);
    const ME: NodeId = NodeId(1);
    const OTHER: NodeId = NodeId(2);
    const LIFE: Incarnation = Incarnation { life: 1, cookie: Cookie(7) };

    fn patience() -> Patience {
        let (heartbeat, evidence) = (SECOND / 10, SECOND / 20);
        Patience { heartbeat, silence: SECOND, evidence, depart_after: SECOND * 10, arrival: SECOND * 5 }
    }

    fn state(standing: Standing, durable: bool) -> State {
        let mut state = State::new();
        for node in [ME, OTHER] {
            let newcomer = Newcomer {
                node,
                name: "n".into(),
                address: "n".into(),
                endpoints: atoll_types::Endpoints::default(),
                incarnation: LIFE,
                zone: "".into(),
                weight: 1,
                level: Level(1),
                durable,
            };
            let standing = if node == ME { Standing::Present } else { standing };
            state.members.insert(node, Member::new(&newcomer, Slot(1), standing));
        }
        state.government = Government::of(&[ME], [ME, OTHER].into_iter(), Cause::Seated);
        state
    }

    fn at(millis: u64) -> Time {
        Time(millis * 1000)
    }

    /// Judged every 100 ms from `from` to `to`; the last verdict.
    fn judged(health: &mut Health, state: &State, from: u64, to: u64) -> Verdicts {
        let absent = BTreeMap::from([(OTHER, at(0))]);
        let times = (from..=to).step_by(100);
        times.map(|millis| health.judge(at(millis), ME, state, &absent)).last().unwrap()
    }

    #[test]
    fn silence_counts_only_after_a_direct_ask() {
        let state = state(Standing::Present, true);
        let mut health = Health::new(at(0), patience(), &state);
        assert_eq!(judged(&mut health, &state, 0, 400).edicts, []);
        assert_eq!(judged(&mut health, &state, 500, 900).ask, [OTHER]);
        let edict = Edict::Absent { node: OTHER, incarnation: LIFE, why: Why::Silent };
        assert_eq!(judged(&mut health, &state, 1000, 1000).edicts, [edict]);
        let mut unasked = Health::new(at(0), patience(), &state);
        assert_eq!(judged(&mut unasked, &state, 5000, 5000).edicts, [], "it was not asked before");
    }

    #[test]
    fn being_heard_ends_all_suspicion() {
        let state = state(Standing::Present, true);
        let mut health = Health::new(at(0), patience(), &state);
        judged(&mut health, &state, 0, 900);
        health.on_dead(at(950), OTHER, LIFE);
        health.on_heard(at(960), Sighting::of(OTHER, LIFE));
        assert_eq!(judged(&mut health, &state, 1000, 1400).edicts, []);
    }

    #[test]
    fn evidence_of_death_does_not_wait_for_silence() {
        let died = |durable| {
            let state = state(Standing::Present, durable);
            let mut health = Health::new(at(0), patience(), &state);
            health.on_dead(at(0), OTHER, LIFE);
            judged(&mut health, &state, 100, 100)
        };
        assert_eq!(died(true).edicts, [Edict::Absent { node: OTHER, incarnation: LIFE, why: Why::Dead }]);
        assert_eq!(died(false).departures, [(OTHER, Why::Dead)], "without a disk it is gone for good");
    }

    #[test]
    fn evidence_against_another_life_says_nothing() {
        let state = state(Standing::Present, true);
        let mut health = Health::new(at(0), patience(), &state);
        health.on_dead(at(0), OTHER, Incarnation { life: 0, cookie: Cookie(1) });
        assert_eq!(judged(&mut health, &state, 100, 100).edicts, []);
    }

    #[test]
    fn an_absent_node_returns_or_departs_in_time() {
        let absent = state(Standing::Absent { why: Why::Silent, at: Slot(1) }, true);
        let mut health = Health::new(at(0), patience(), &absent);
        assert_eq!(judged(&mut health, &absent, 0, 9900).departures, []);
        assert_eq!(judged(&mut health, &absent, 10_000, 10_000).departures, [(OTHER, Why::AbsentTooLong)]);
        health.on_heard(at(10_050), Sighting::of(OTHER, LIFE));
        let verdicts = judged(&mut health, &absent, 10_100, 10_100);
        assert_eq!(verdicts.edicts, [Edict::Present { node: OTHER, incarnation: LIFE }]);
        assert_eq!(verdicts.departures, []);
    }

    #[test]
    fn a_leader_that_was_paused_blames_nobody() {
        let state = state(Standing::Present, true);
        let mut health = Health::new(at(0), patience(), &state);
        judged(&mut health, &state, 0, 900);
        health.start_afresh(at(30_000));
        assert_eq!(judged(&mut health, &state, 30_000, 30_400).edicts, []);
    }
}
