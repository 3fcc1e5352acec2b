//! Whom the leader hears, and what follows from silence. Only ever suspicion: it costs availability, never safety.
//!
//! Silence counts only after the leader itself has asked the node, so that a dead relay does not silence those below
//! it. Not so a node that says of itself that its disk or a shard does not move: it was heard, and is of no
//! use. It is absent until it says that all of it moves again.

use crate::member::Standing;
use crate::message::{Sighting, keep_later};
use crate::seats::VOTERS_MOST;
use crate::skew::{self, Ahead, Verdict};
use crate::state::State;
use crate::vitals::Vitals;
use atoll_types::{Address, Bug, Edict, Incarnation, Level, NodeId, Slot, Time, Why, planted};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Patience {
    pub heartbeat: Duration,
    pub silence: Duration,
    pub evidence: Duration,
    pub depart_after: Duration,
    pub arrival: Duration,
    /// A clock may be off the median by so much; zero: nobody looks.
    pub max_skew: Duration,
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
    /// What it last said of itself, and when that came.
    vitals: Option<Vitals>,
    said: Time,
    /// Since when its clock is seen to be off.
    off: Option<Time>,
}

impl Seen {
    /// What it says of itself, if that is news.
    fn news(&self, now: Time, patience: &Patience) -> Option<&Vitals> {
        self.vitals.as_ref().filter(|_| now.since(self.said) < patience.silence)
    }

    /// For how long a part of it has not moved although something waits for it.
    fn stalled(&self, now: Time, patience: &Patience) -> Duration {
        let known = self.news(now, patience).filter(|_| !planted(Bug::StallUnnoticed));
        known.map_or(Duration::ZERO, Vitals::stalled)
    }
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
                vitals: None,
                said: now,
                off: None,
            });
        }
    }

    /// The leader before this one did not answer when it was asked, or there would be no other. Its silence did not
    /// begin with the election: counted from then, a machine that froze while it led would be missed twice as long.
    pub fn on_forerunner(&mut self, node: NodeId, heard: Time, asked: Time) {
        if let Some(seen) = self.seen.get_mut(&node) {
            (seen.heard, seen.asked) = (seen.heard.min(heard), Some(asked));
        }
    }

    /// The leader itself was paused: nobody is to blame for not being heard.
    pub fn start_afresh(&mut self, now: Time) {
        for seen in self.seen.values_mut() {
            (seen.heard, seen.asked, seen.off) = (seen.heard.max(now), None, None);
            // Compared with a clock that may have been set since.
            seen.vitals.iter_mut().for_each(|vitals| vitals.ahead = None);
        }
    }

    pub fn on_heard(&mut self, now: Time, sighting: Sighting) {
        let Some(seen) = self.seen.get_mut(&sighting.node) else { return };
        if sighting.incarnation < seen.incarnation {
            return;
        }
        if sighting.incarnation > seen.incarnation {
            (seen.incarnation, seen.position, seen.returned) = (sighting.incarnation, None, None);
            seen.vitals = None;
        }
        (seen.heard, seen.asked, seen.dead) = (now, None, None);
        seen.position = seen.position.max(Some(sighting.position));
        seen.returned = sighting.returned.or(seen.returned.take());
        let before = seen.vitals.as_ref().map(|vitals| vitals.clock);
        keep_later(&mut seen.vitals, sighting.vitals);
        if seen.vitals.as_ref().map(|vitals| vitals.clock) != before {
            seen.said = now;
        }
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
            let moves = seen.stalled(now, &self.patience) < self.patience.silence;
            let heard = now.since(seen.heard) < self.patience.silence / 2;
            seen.position.is_some() && seen.dead.is_none() && heard && moves
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

    /// What this node last said of itself, if that is news.
    pub fn vitals(&self, now: Time, node: NodeId) -> Option<&Vitals> {
        self.seen.get(&node)?.news(now, &self.patience)
    }

    /// Whose mark of a clock that is off should change. Concluded only where more than half of all clocks are known,
    /// and from what is seen for as long as silence has to last: one reading may be older than another, and a clock
    /// on the way from it to here have been set meanwhile.
    pub fn judge_clocks(&mut self, now: Time, me: NodeId, state: &State) -> Vec<Edict> {
        let active = state.active();
        let reading = |&node: &NodeId| {
            if node == me {
                return Some((me, Ahead::leader(me)));
            }
            let seen = self.seen.get(&node)?;
            let known = state.members.get(&node).is_some_and(|member| member.incarnation == seen.incarnation);
            let ahead = self.vitals(now, node)?.ahead;
            ahead.filter(|ahead| ahead.of == me && known).map(|ahead| (node, ahead))
        };
        let readings = active.iter().filter_map(reading).collect();
        let mut verdicts = skew::judge(&readings, self.patience.max_skew);
        if verdicts.len() * 2 <= active.len() {
            verdicts.clear();
        }
        for (node, seen) in &mut self.seen {
            let off = verdicts.get(node) == Some(&Verdict::Off);
            seen.off = if off { seen.off.or(Some(now)) } else { None };
        }
        let for_long = |node: &NodeId| {
            let since = self.seen.get(node).and_then(|seen| seen.off);
            since.is_some_and(|since| now.since(since) >= self.patience.silence)
        };
        let edict = |(&node, verdict): (&NodeId, &Verdict)| {
            let member = state.members.get(&node)?;
            let skewed = match verdict {
                Verdict::Off if for_long(&node) => true,
                Verdict::Near => false,
                Verdict::Off | Verdict::Unsure => return None,
            };
            let incarnation = member.incarnation;
            (member.skewed != skewed).then_some(Edict::Skewed { node, incarnation, skewed })
        };
        verdicts.iter().filter_map(edict).collect()
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
                seen.vitals = None;
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
            let view = Look { now, silent, absent, asked_long, dead };
            judge_one(&self.patience, level, node, member, seen, view, &mut verdicts);
        }
        verdicts
    }
}

/// How a node looks at the moment.
#[derive(Clone, Copy, Debug)]
struct Look {
    now: Time,
    silent: Duration,
    absent: Duration,
    asked_long: bool,
    dead: bool,
}

/// One table of cases, read at one place.
fn judge_one(
    patience: &Patience,
    level: Level,
    node: NodeId,
    member: &crate::Member,
    seen: &Seen,
    look: Look,
    verdicts: &mut Verdicts,
) {
    let Look { now, silent, absent, asked_long, dead } = look;
    let stalled = seen.stalled(now, patience);
    let incarnation = member.incarnation;
    let current = seen.incarnation == incarnation;
    if member.is_to_go() {
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
            } else if current && stalled >= patience.silence {
                verdicts.edicts.push(Edict::Absent { node, incarnation, why: Why::Stalled });
            }
        }
        Standing::Absent { why, .. } => {
            // One that did not move says itself when it does again: other words of it prove nothing.
            let moves = match why {
                Why::Stalled => seen.news(now, patience).is_some_and(|vitals| vitals.stalled() < patience.silence / 2),
                Why::Silent
                | Why::Dead
                | Why::Ordered
                | Why::Replaced
                | Why::Unreachable
                | Why::AbsentTooLong
                | Why::LevelTooLow
                | Why::Stopped => stalled < patience.silence,
            };
            let heard = seen.position.is_some() && silent < patience.silence / 2 && seen.dead.is_none() && moves;
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
        let (arrival, max_skew) = (SECOND * 5, SECOND / 2);
        Patience { heartbeat, silence: SECOND, evidence, depart_after: SECOND * 10, arrival, max_skew }
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

    /// Frozen at 0, asked by who canvassed at 500, replaced at 700: absent at 1000 as anybody else, not at 1700.
    #[test]
    fn a_leader_that_went_silent_is_not_given_its_time_again() {
        let state = state(Standing::Present, true);
        let mut health = Health::new(at(700), patience(), &state);
        health.on_forerunner(OTHER, at(0), at(500));
        assert_eq!(judged(&mut health, &state, 700, 900).edicts, []);
        let edict = Edict::Absent { node: OTHER, incarnation: LIFE, why: Why::Silent };
        assert_eq!(judged(&mut health, &state, 1000, 1000).edicts, [edict]);
        let mut answered = Health::new(at(700), patience(), &state);
        answered.on_forerunner(OTHER, at(0), at(500));
        answered.on_heard(at(800), Sighting::of(OTHER, LIFE));
        assert_eq!(judged(&mut answered, &state, 800, 1200).edicts, []);
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

    fn says(health: &mut Health, millis: u64, disk: u64) {
        let vitals = Some(Vitals { clock: at(millis), disk: Duration::from_millis(disk), ..Vitals::default() });
        health.on_heard(at(millis), Sighting { vitals, ..Sighting::of(OTHER, LIFE) });
    }

    #[test]
    fn a_node_that_does_not_move_is_absent_until_it_says_that_it_does() {
        let present = state(Standing::Present, true);
        let mut health = Health::new(at(0), patience(), &present);
        says(&mut health, 100, 900);
        assert_eq!(judged(&mut health, &present, 200, 200).edicts, []);
        says(&mut health, 300, 1100);
        let edict = Edict::Absent { node: OTHER, incarnation: LIFE, why: Why::Stalled };
        assert_eq!(judged(&mut health, &present, 400, 400).edicts, [edict]);
        assert!(!health.is_healthy(at(400), OTHER), "nor is it seated");
        let absent = state(Standing::Absent { why: Why::Stalled, at: Slot(1) }, true);
        health.on_heard(at(1500), Sighting::of(OTHER, LIFE));
        assert_eq!(judged(&mut health, &absent, 1600, 1600).edicts, [], "it has not said so");
        says(&mut health, 1700, 2500);
        assert_eq!(judged(&mut health, &absent, 1800, 1800).edicts, []);
        says(&mut health, 1900, 0);
        let edict = Edict::Present { node: OTHER, incarnation: LIFE };
        assert_eq!(judged(&mut health, &absent, 2000, 2000).edicts, [edict]);
    }

    #[test]
    fn old_words_do_not_replace_newer_ones() {
        let present = state(Standing::Present, true);
        let mut health = Health::new(at(0), patience(), &present);
        says(&mut health, 500, 0);
        let old = Some(Vitals { clock: at(100), disk: SECOND * 3, ..Vitals::default() });
        health.on_heard(at(600), Sighting { vitals: old, ..Sighting::of(OTHER, LIFE) });
        assert_eq!(judged(&mut health, &present, 700, 700).edicts, []);
    }

    #[test]
    fn a_clock_that_is_off_is_marked_and_one_that_is_right_again_is_not() {
        const THIRD: NodeId = NodeId(3);
        let mut state = state(Standing::Present, true);
        state.members.insert(THIRD, state.members[&OTHER].clone());
        let mut health = Health::new(at(0), patience(), &state);
        let mut says = |of, node, clock, least, most| {
            let ahead = Some(Ahead { of, least, most });
            let vitals = Some(Vitals { clock: Time(clock), ahead, ..Vitals::default() });
            health.on_heard(at(100 * clock), Sighting { vitals, ..Sighting::of(node, LIFE) });
            health.judge_clocks(at(100 * clock), ME, &state)
        };
        let off = |skewed| vec![Edict::Skewed { node: OTHER, incarnation: LIFE, skewed }];
        assert_eq!(says(ME, OTHER, 1, 700_000, 800_000), [], "of two nobody knows which");
        assert_eq!(says(THIRD, THIRD, 1, -10_000, 20_000), [], "compared with another leader");
        assert_eq!(says(ME, THIRD, 2, -10_000, 20_000), [], "not at once");
        assert_eq!(says(ME, OTHER, 7, 700_000, 800_000), []);
        assert_eq!(says(ME, THIRD, 12, -10_000, 20_000), off(true), "but if it stays so");
        state.members.get_mut(&OTHER).expect("it is there").skewed = true;
        let mut says = |clock, least, most| {
            let vitals = Vitals { clock: Time(clock), ahead: Some(Ahead { of: ME, least, most }), ..Vitals::default() };
            health.on_heard(at(100 * clock), Sighting { vitals: Some(vitals), ..Sighting::of(OTHER, LIFE) });
            health.judge_clocks(at(100 * clock), ME, &state)
        };
        assert_eq!(says(13, 300_000, 480_000), [], "not near enough to be sure");
        assert_eq!(says(14, 100_000, 140_000), off(false));
    }
}
