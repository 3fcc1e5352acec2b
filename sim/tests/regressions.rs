//! Seeds that once failed, and what it was. A seed's run changes with the generator; its cause stays worth telling.

use atoll_sim::{Options, run};

const ONCE_FAILED: &[(u64, f64, &str)] = &[
    (9, 0.5, "a submission went straight to the leader only, over a link that stays cut"),
    (15, 0.5, "messages that came before a node's identity was safe counted as taken"),
    (19, 1.0, "two nodes left behind fed each other what both knew and asked nobody else"),
    (23, 1.0, "two leaders that were to depart handed the lead to each other for ever"),
    (31, 1.0, "a change of leader began the time until an absent node departs anew"),
    (52, 0.5, "a newcomer out of the leader's reach was never welcomed"),
    (146, 1.0, "a fetched snapshot that did not fit was fetched again at once, without end"),
    (207, 0.5, "a ping and the answer of a blank process chased each other"),
    (208, 0.5, "a restarted voter forgot which of its votes belong together, and refused its leader for ever"),
    (289, 1.0, "an answer to a barrier was lost when it came before the node was ready"),
    (304, 1.0, "a departure left two voters that cannot reach each other"),
    (428, 1.0, "two clusters refused each other's refusals"),
    (453, 0.5, "a member cut off from everybody it knew never asked the addresses it was told to join"),
    (552, 1.0, "a fenced node numbered its submissions anew under the same cookie"),
    (617, 1.0, "a node told that it departed before its disk had it"),
    (912, 1.0, "a node recovered while arriving stayed arriving, as leader"),
    (947, 1.0, "an election adopted a stale government from before the one in force"),
    (1092, 1.0, "an order to depart made an arriving node look present"),
    (1762, 1.0, "a newcomer was let in that did not understand the level raised meanwhile"),
    (2063, 1.0, "a founder with only its identity safe could never found"),
    (2524, 0.5, "heartbeats were answered only when a slow disk was done"),
    (9607, 1.0, "a fetch with nobody to ask was due at once, for ever"),
    (4035, 1.0, "candidates stood again before promises that wait for a slow disk came in"),
    (1, 1.0, "the upper half of a bucket spoke in an epoch that its own disk did not know"),
    (2, 1.0, "a split began with too few members to commit it, and kept others from coming"),
    (5, 1.0, "a primary wanted to be woken at a moment that had passed, for ever"),
    (13, 1.0, "a restarted node served in an epoch that was given to its earlier life"),
    (37, 1.0, "a primary had trimmed the split it was to divide at"),
    (133, 1.0, "a log trimmed within one epoch seemed to share nothing with a shorter one"),
    (206, 1.0, "a node that departed was judged by the log of an older generation"),
    (248, 1.0, "a copy was emptied on the word of a table older than the disk"),
    (373, 1.0, "a barrier that opened with nobody there was never reduced"),
    (661, 1.0, "requests went to a node behind a link that stays cut"),
    (874, 1.0, "stopping in good order counted as flapping"),
    (1226, 1.0, "a joiner that was called ready by an old hint held more than its primary: no divergence"),
    (1226, 1.0, "a read whose answer was lost was asked again after a later write of its connection was done"),
    (1487, 1.0, "a bucket revived empty forgot where it begins when it was moved on"),
    (1517, 1.0, "levelling gave up a zone when its cheapest node was a member already"),
    (732, 1.0, "a checker judged sessions by a log of which it had not seen the beginning"),
    (138, 0.5, "a copy that had fallen behind the trimmed log took no snapshot, because it was open"),
    (508, 1.0, "a copy whose very beginning was damaged was begun anew, with nothing, and served"),
    (567, 1.0, "damage to what a node had forgotten itself was taken for damage to what it promised"),
    (38, 1.0, "a damaged record without a width left a copy with a shard that does not own the bucket"),
    (704, 1.0, "what a shard that hung did in a former life of its node was put down to the present one"),
    (1202, 1.0, "a life that ended before its disk knew that all is forgotten left its damage to the next one"),
    (1499, 1.0, "a revived bucket had trimmed what it began with before a checker looked"),
    (1751, 1.0, "a copy that could not be read was begun anew by a duty that was given to the life before"),
    (1087, 1.0, "a leader that was to go and one that stopped handed the lead to each other for ever"),
    (1629, 1.0, "what a disk lost after it was acknowledged was held against whoever had counted on it"),
    (29, 0.5, "a damaged copy was noticed by its primary before it could say so itself"),
    (107, 1.0, "a copy found damaged at a start said so only when it had waited long for its primary"),
    (31, 1.0, "two voters of which one has a slow disk led in turn for ever: neither was given the time to decide"),
    (1099, 1.0, "a node whose disk was gone could not be removed while another that was to go waited for it"),
    (
        126,
        1.0,
        "a member took an epoch that had settled for one that had committed, while its primary waited for a lease",
    ),
    (
        882,
        1.0,
        "a bucket was revived from a copy on disk that reached beyond what is committed: a checker missed the rest",
    ),
    (1994, 1.0, "a shard's last commit was taken for one of the next life, which its node began in the same step"),
    (1578, 1.0, "a bucket began anew while a member restarted, which without a beginning was taken for diverged"),
    (2265, 1.0, "the only node that knew a recovered cluster lost its memory, and the operator waited for it for ever"),
];

#[test]
fn seeds_that_once_failed_are_clean() {
    for &(seed, minutes, cause) in ONCE_FAILED {
        let report = run(seed, &Options { minutes, ..Options::default() });
        assert!(report.violation.is_none(), "seed {seed} fails again (once: {cause}): {:?}", report.violation);
    }
}
