//! An exhaustive check of a small model of the bucket protocol (`docs/protocol/bucket.md`; the moves: `moves.md`).
//!
//! Four nodes, one bucket, two writes, a handful of edicts: every order in which the cluster log grows, the nodes apply
//! it, and messages arrive, once, often, late or never. The model shares no code with the real thing. It is small
//! enough to be read, and what it claims holds for every run of this size, not for those somebody thought of.
//!
//! What must hold: never are two values committed at one offset; a primary that has opened its epoch holds all that any
//! lower epoch commits, before or after (rule 5); a member that may answer reads holds all that is committed; there are
//! never fewer eligible nodes than `min_copies`; and logs that agree at an offset agree below it.
//!
//! Each rule is also taken away, and then something must give, in all cases but one: two values are committed at an
//! offset. That shows that the rule is needed, and that the search can see. Run with `--nocapture` to read how.
//!
//! | Rule taken away | What comes of it |
//! |---|---|
//! | 4: eligible once settled | a newcomer without the log is made primary by a removal, and cuts the others |
//! | 4: moves wait until settled | a contraction of an unsettled union leaves a single eligible node; nothing worse |
//! | 6, the gate: see below | a union commits without one who is still eligible, and who then leads |
//! | 1: the fence | one that serves in a new epoch still answers in the old one |
//! | 3: members only | one that catches up acknowledges in a member's place |
//! | truncate once | an old handshake cuts off what was acknowledged after it |
//! | reads: all members vouch | a read asks a primary that was deposed without knowing, and another has committed |
//! | reads: at the gate | a read is answered by a union that lacks one who is eligible, and who has committed |
//!
//! The gate. Rule 6 keeps a removed member eligible while too few remain. Then a union with a newcomer has enough
//! members to commit, without that one, who may still be made primary: so nothing commits while anybody eligible is not
//! a member.
//!
//! Not modelled: splits, restarts that forget (a new node in the protocol), damage, departures, snapshots, how somebody
//! is asked for a read.
//!
//! | File | What it holds |
//! |---|---|
//! | `model/law.rs` | what an edict makes of the appointment; the rules that can be taken away |
//! | `model/world.rs` | what the nodes do, and what must hold |
//! | `model/search.rs` | the search |

#[path = "model/law.rs"]
mod law;
#[path = "model/search.rs"]
mod search;
#[path = "model/world.rs"]
mod world;

use law::{ALL_RULES, Rules};
use search::{Outcome, search};
use std::time::Instant;
use world::{Violation, World};

fn explore(what: &str, start: &World, edicts: usize, rules: Rules, counts: fn(&Violation) -> bool) -> Outcome {
    let began = Instant::now();
    let outcome = search(start, edicts, rules, counts);
    println!("{what}: {} states, {} edicts, {:.1?}", outcome.states, outcome.edicts, began.elapsed());
    for (index, line) in outcome.trace.iter().flatten().enumerate() {
        println!("  {:2} {line}", index + 1);
    }
    outcome
}

fn holds(what: &str, start: &World, edicts: usize, rules: Rules) {
    let outcome = explore(what, start, edicts, rules, |_| true);
    assert!(outcome.trace.is_none(), "{what}: a rule is missing");
}

/// Two values are committed at one offset: by two primaries, since a primary writes one value at an offset.
fn breaks(what: &str, start: &World, edicts: usize, rules: Rules) {
    let outcome = explore(what, start, edicts, rules, |violation| matches!(violation, Violation::TwoValues { .. }));
    assert!(outcome.trace.is_some(), "{what}: the search does not see that a rule is missing");
}

#[test]
fn two_members_are_safe() {
    holds("two members", &World::healthy(2, 2), 4, ALL_RULES);
}

#[test]
fn three_members_are_safe() {
    holds("three members", &World::healthy(3, 2), 3, ALL_RULES);
}

#[test]
fn a_degraded_bucket_is_safe() {
    holds("degraded", &World::degraded(2), 4, ALL_RULES);
}

#[test]
#[ignore = "six million states: a minute alone, more in company"]
fn one_edict_more_is_safe() {
    holds("two members, five edicts", &World::healthy(2, 2), 5, ALL_RULES);
    holds("degraded, five edicts", &World::degraded(2), 5, ALL_RULES);
    holds("one copy is enough", &World::healthy(2, 2), 4, Rules { min_copies: 1, ..ALL_RULES });
    holds("three members, four edicts", &World::healthy(3, 2), 4, ALL_RULES);
}

#[test]
fn without_rule_four_two_primaries_commit() {
    let rules = Rules { eligible_once_settled: false, move_once_settled: false, ..ALL_RULES };
    breaks("no rule 4", &World::healthy(2, 2), 3, rules);
}

#[test]
fn without_the_gate_two_primaries_commit() {
    breaks("no gate", &World::degraded(2), 4, Rules { gate: false, ..ALL_RULES });
}

#[test]
fn without_the_fence_two_primaries_commit() {
    breaks("no fence", &World::healthy(3, 2), 1, Rules { fence: false, ..ALL_RULES });
}

#[test]
fn if_any_acknowledgement_counts_two_primaries_commit() {
    breaks("anybody's acknowledgement", &World::healthy(2, 2), 2, Rules { members_only: false, ..ALL_RULES });
}

#[test]
fn if_truncation_is_repeated_two_primaries_commit() {
    breaks("truncates twice", &World::healthy(2, 2), 1, Rules { truncate_once: false, ..ALL_RULES });
}

#[test]
fn if_moves_do_not_wait_too_few_are_left_eligible() {
    let rules = Rules { move_once_settled: false, ..ALL_RULES };
    let few = |violation: &Violation| *violation == Violation::FewEligible;
    let start = World::healthy(2, 2);
    assert!(explore("moves do not wait", &start, 3, rules, few).trace.is_some());
    let other = |violation: &Violation| *violation != Violation::FewEligible;
    assert!(explore("moves do not wait, else", &start, 3, rules, other).trace.is_none());
}

#[test]
fn if_only_the_primary_vouches_reads_are_stale() {
    let stale = |violation: &Violation| matches!(violation, Violation::ReadsTooLittle { .. });
    let rules = Rules { all_vouch: false, ..ALL_RULES };
    assert!(explore("only the primary vouches", &World::healthy(3, 2), 2, rules, stale).trace.is_some());
}

#[test]
fn if_reads_do_not_wait_for_the_gate_they_are_stale() {
    let stale = |violation: &Violation| matches!(violation, Violation::ReadsTooLittle { .. });
    let rules = Rules { reads_at_gate: false, ..ALL_RULES };
    assert!(explore("reads before the gate", &World::degraded(2), 5, rules, stale).trace.is_some());
}
