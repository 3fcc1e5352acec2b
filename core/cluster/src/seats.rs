//! Which government the leader should propose. Pure functions of the state and of whom the leader hears.
//!
//! Voters are 1, 3 or 5, as many as acclimated nodes allow; two only after one of three was lost, never one again
//! unless the cluster was founded as one node. An absent voter keeps its seat until an acclimated learner can take it.

use crate::member::{Member, Standing};
use crate::state::State;
use atoll_types::{Bug, Cause, Government, Newcomer, NodeId, Why, planted};
use std::collections::BTreeSet;

pub const VOTERS_MOST: usize = 5;

/// What the leader knows beyond the log.
#[derive(Debug)]
pub struct Sight<'a> {
    pub me: NodeId,
    /// Members of the majority that do not answer.
    pub silent: &'a [NodeId],
    /// Nodes the leader itself hears.
    pub near: &'a BTreeSet<NodeId>,
    /// Nodes heard recently, by the leader or through others.
    pub healthy: &'a BTreeSet<NodeId>,
}

/// How many voters, given how many could sit.
fn seats_for(candidates: usize, seated: usize, alone: bool) -> Option<usize> {
    match candidates {
        0 => None,
        1 if seated == 1 || alone => Some(1),
        1 => None,
        2 if seated == 1 => Some(1),
        2 => Some(2),
        3 | 4 => Some(3),
        _ => Some(VOTERS_MOST), // tidy: a count, not an enum
    }
}

/// The voters as they should be without `gone`, the leader first; None if too few would be left.
fn voters(state: &State, sight: &Sight<'_>, gone: Option<NodeId>) -> Option<Vec<NodeId>> {
    let member = |node: &NodeId| state.members.get(node).filter(|_| Some(*node) != gone);
    let absent = |node: &NodeId| member(node).is_some_and(Member::is_absent);
    let seated: Vec<NodeId> = state.government.voters().filter(|node| member(node).is_some()).collect();
    let mut order: Vec<NodeId> = vec![sight.me];
    order.extend(seated.iter().copied().filter(|node| *node != sight.me && !absent(node)));
    let seatable = |node: &NodeId| {
        let acclimated = member(node).is_some_and(|member| member.standing == Standing::Present)
            || (planted(Bug::SeatWithoutAcclimation) && member(node).is_some_and(Member::is_arriving));
        acclimated && (sight.healthy.contains(node) || planted(Bug::SeatWithoutAcclimation))
    };
    order.extend(state.government.learners.iter().copied().filter(seatable));
    order.extend(seated.iter().copied().filter(|node| *node != sight.me && absent(node)));
    let leaving = state.members.get(&sight.me).is_some_and(Member::is_to_go);
    let seats = seats_for(order.len(), state.government.voter_count(), state.alone)?;
    // The only voter cannot leave before there is another to lead.
    let seats = if leaving && seats == 1 { order.len().min(2) } else { seats };
    order.truncate(seats);
    Some(order)
}

fn same_voters(government: &Government, voters: &[NodeId]) -> bool {
    government.voter_count() == voters.len() && voters.iter().all(|&voter| government.is_voter(voter))
}

/// A government that names `newcomer`.
pub fn with_arrival(state: &State, me: NodeId, mut newcomer: Newcomer) -> Government {
    let reused = state.named(&newcomer.name).filter(|_| planted(Bug::NodeIdReused));
    newcomer.node = reused.map_or(state.next_node, |(node, _)| node);
    let voters: Vec<NodeId> = led_by(me, state.government.voters());
    let everybody = state.members.keys().copied().chain([newcomer.node]);
    Government::of(&voters, everybody, Cause::Arrived(newcomer))
}

fn led_by(me: NodeId, voters: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
    std::iter::once(me).chain(voters.filter(|&voter| voter != me)).collect()
}

/// A government without `node`; None if that would leave too few voters.
pub fn without(state: &State, sight: &Sight<'_>, node: NodeId, why: Why) -> Option<Government> {
    if node == sight.me || !state.members.contains_key(&node) {
        return None;
    }
    let voters = voters(state, sight, Some(node))?;
    let everybody = state.members.keys().copied().filter(|&other| other != node);
    let order = silent_last(sight, voters, &state.government);
    let smaller = Government::of(&order, everybody, Cause::Departed { node, why });
    within_reach(sight, &smaller).then_some(smaller)
}

/// A government with other voters, or another majority of the same, if one is better than what there is.
pub fn improved(state: &State, sight: &Sight<'_>) -> Option<Government> {
    let voters = voters(state, sight, None)?;
    let everybody = || state.members.keys().copied();
    if !same_voters(&state.government, &voters) {
        let order = silent_last(sight, voters, &state.government);
        let seated = Government::of(&order, everybody(), Cause::Seated);
        return within_reach(sight, &seated).then_some(seated);
    }
    let absent = |node: NodeId| state.members.get(&node).is_none_or(Member::is_absent);
    let unfit = |node: NodeId| node != sight.me && (sight.silent.contains(&node) || absent(node));
    if !state.government.majority.iter().any(|&node| unfit(node)) {
        return None;
    }
    let order = silent_last(sight, state.government.voters().collect(), &state.government);
    let better = Government::of(&order, everybody(), Cause::Rearranged);
    let fit = |node: &NodeId| !unfit(*node) && (*node == sight.me || sight.near.contains(node));
    // Without enough that answer, a swap only trades one silent node for another.
    better.majority.iter().all(fit).then_some(better)
}

/// A government that the leader cannot reach a majority of would be the last one.
fn within_reach(sight: &Sight<'_>, government: &Government) -> bool {
    government.majority.iter().all(|node| *node == sight.me || sight.near.contains(node))
}

/// The leader, then whoever is near in the majority, then those near that stand by, then the rest.
fn silent_last(sight: &Sight<'_>, voters: Vec<NodeId>, government: &Government) -> Vec<NodeId> {
    let rank = |node: &NodeId| {
        let silent = sight.silent.contains(node) || !sight.near.contains(node);
        (*node != sight.me, silent, !government.majority.contains(node))
    };
    let mut order = voters;
    order.sort_by_key(rank);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_types::{Incarnation, Level, Slot};

    fn newcomer(node: u32) -> Newcomer {
        Newcomer {
            node: NodeId(node),
            name: format!("n{node}").as_str().into(),
            address: format!("n{node}").as_str().into(),
            endpoints: atoll_types::Endpoints::default(),
            incarnation: Incarnation::default(),
            zone: "".into(),
            weight: 1,
            level: Level(1),
            durable: false,
        }
    }

    /// `voters` of `nodes`, all present but those in `absent`.
    fn state(voters: u32, nodes: u32, absent: &[u32]) -> State {
        let mut state = State::new();
        for node in 1..=nodes {
            let why = Why::Silent;
            let away = absent.contains(&node);
            let standing = if away { Standing::Absent { why, at: Slot(1) } } else { Standing::Present };
            state.members.insert(NodeId(node), Member::new(&newcomer(node), Slot(1), standing));
        }
        state.next_node = NodeId(nodes + 1);
        let voters: Vec<NodeId> = (1..=voters).map(NodeId).collect();
        state.government = Government::of(&voters, (1..=nodes).map(NodeId), Cause::Seated);
        state
    }

    fn ids(nodes: &[u32]) -> Vec<NodeId> {
        nodes.iter().copied().map(NodeId).collect()
    }

    fn all_healthy(silent: &[NodeId]) -> Sight<'_> {
        static ALL: std::sync::LazyLock<BTreeSet<NodeId>> = std::sync::LazyLock::new(|| (1..=9).map(NodeId).collect());
        Sight { me: NodeId(1), silent, near: &ALL, healthy: &ALL }
    }

    fn voters_of(government: Option<Government>) -> Option<Vec<NodeId>> {
        government.map(|government| government.voters().collect())
    }

    #[test]
    fn voters_grow_from_one_to_three_to_five() {
        assert_eq!(voters_of(improved(&state(1, 2, &[]), &all_healthy(&[]))), None, "two nodes keep one voter");
        assert_eq!(voters_of(improved(&state(1, 3, &[]), &all_healthy(&[]))), Some(ids(&[1, 2, 3])));
        assert_eq!(voters_of(improved(&state(3, 4, &[]), &all_healthy(&[]))), None);
        assert_eq!(voters_of(improved(&state(3, 5, &[]), &all_healthy(&[]))), Some(ids(&[1, 2, 3, 4, 5])));
        assert_eq!(voters_of(improved(&state(5, 9, &[]), &all_healthy(&[]))), None, "five are enough");
    }

    #[test]
    fn a_departure_shrinks_five_to_three_to_two_and_no_further() {
        let gone = |state: &State, node| voters_of(without(state, &all_healthy(&[]), NodeId(node), Why::Dead));
        assert_eq!(gone(&state(5, 5, &[]), 4), Some(ids(&[1, 2, 3])));
        assert_eq!(gone(&state(3, 3, &[]), 2), Some(ids(&[1, 3])));
        assert_eq!(gone(&state(2, 2, &[]), 2), None);
        let mut founded_alone = state(2, 2, &[]);
        founded_alone.alone = true;
        assert_eq!(gone(&founded_alone, 2), Some(ids(&[1])));
        assert_eq!(gone(&state(3, 4, &[]), 2), Some(ids(&[1, 3, 4])), "a learner takes the seat");
        assert_eq!(gone(&state(3, 3, &[]), 1), None, "a leader does not remove itself");
    }

    #[test]
    fn an_absent_voter_keeps_its_seat_unless_a_learner_can_take_it() {
        let without_learner = improved(&state(3, 3, &[3]), &all_healthy(&[]));
        assert_eq!(voters_of(without_learner), None, "it stands by already");
        assert_eq!(voters_of(improved(&state(3, 4, &[2]), &all_healthy(&[]))), Some(ids(&[1, 3, 4])));
    }

    #[test]
    fn a_silent_member_of_the_majority_changes_places_with_one_that_answers() {
        let silent = ids(&[2]);
        let swapped = improved(&state(3, 3, &[]), &all_healthy(&silent)).unwrap();
        assert_eq!((swapped.majority, swapped.minority), (ids(&[1, 3]), ids(&[2])));
        assert_eq!(swapped.cause, Cause::Rearranged);
        let healthy = BTreeSet::from([NodeId(1), NodeId(2)]);
        let nobody_else = Sight { me: NodeId(1), silent: &silent, near: &healthy, healthy: &healthy };
        assert_eq!(improved(&state(3, 3, &[]), &nobody_else), None);
    }

    #[test]
    fn a_departure_waits_until_the_rest_is_within_reach() {
        let (near, healthy) = (BTreeSet::from([NodeId(1), NodeId(2)]), (1..=9).map(NodeId).collect());
        let sight = Sight { me: NodeId(1), silent: &[], near: &near, healthy: &healthy };
        assert_eq!(without(&state(3, 3, &[]), &sight, NodeId(2), Why::Ordered), None, "3 is heard through 2 only");
        assert_eq!(voters_of(without(&state(3, 3, &[]), &sight, NodeId(3), Why::Ordered)), Some(ids(&[1, 2])));
    }

    #[test]
    fn an_arrival_gets_the_next_id_and_no_seat() {
        let government = with_arrival(&state(3, 3, &[]), NodeId(1), newcomer(0));
        assert_eq!(government.learners, ids(&[4]));
        government.check();
    }
}
