//! Every planted bug is caught: the checkers see.
//!
//! A hunt begins at the seed that caught the bug when it was last looked for, so that the test is quick; where that one
//! no longer does, the seeds are tried from the first. `HUNT=all cargo test -p atoll-sim --test planted -- --nocapture`
//! forgets what is known and tells how many seeds each takes; `HUNT=` with names of bugs does so for these.

use atoll_sim::{Options, Violation, run};
use atoll_types::Bug;
use atoll_types::bugs::plant;
use std::sync::Mutex;

/// A bug that shows in none of so many seeds is one that the checkers do not see.
const SEEDS: u64 = 2000;

/// These show only where the simulator seldom or never gets to. `OldOrderTaken`: the random walks of core/distributor;
/// `DuplicateAnswerLost`: the tests of sessions in core/replica; `DamagedBeginsAnew`: the tests of damage in core/node
/// (by the simulator at seed 1751, when it was none that was planted); `RenameNotSynced`: the lives of core/journal.
const ELSEWHERE: &[Bug] = &[Bug::OldOrderTaken, Bug::DuplicateAnswerLost, Bug::DamagedBeginsAnew, Bug::RenameNotSynced];

/// These take so rare a run that a transcript leads up to it; with the bug, it tells something else.
const TRANSCRIPTS: &[(Bug, &str)] = &[
    (Bug::VoidVotesAdopted, include_str!("../scenarios/void_votes.txt")),
    (Bug::StaleBehindDeposed, include_str!("../scenarios/stale_behind_deposed.txt")),
    (Bug::LeaseFromReceipt, include_str!("../scenarios/lease_is_waited_for.txt")),
    (Bug::LeaseOfUnappliedLog, include_str!("../scenarios/lease_of_the_unaware.txt")),
    (Bug::DelayTakenForSkew, include_str!("../scenarios/slow_link_is_no_skew.txt")),
    (Bug::StallUnnoticed, include_str!("../scenarios/hung_shard.txt")),
    (Bug::UsurperDoesNotWait, include_str!("../scenarios/lease_is_waited_for.txt")),
    (Bug::CommitToldOnce, include_str!("../scenarios/bucket_commit_lost.txt")),
];

/// The seed that caught each.
const KNOWN: &[(Bug, u64)] = &[
    (Bug::ElectionIgnoresAccepted, 18),
    (Bug::PromiseForgottenOnRestart, 20),
    (Bug::OldIncarnationCounts, 1),
    (Bug::NodeIdReused, 1),
    (Bug::HalfDecides, 2),
    (Bug::SeatWithoutAcclimation, 1),
    (Bug::EmptySnapshot, 2),
    (Bug::BarrierCountsLateArrival, 74),
    (Bug::BarrierWaitsForRemoved, 2),
    (Bug::SubmitterRenumbers, 1),
    (Bug::DuplicateApplied, 2),
    (Bug::TrimPastLaggard, 1),
    (Bug::DepartedStillVotes, 1),
    (Bug::PromiseWithoutDecidedMark, 30),
    (Bug::InEffectTooEarly, 1),
    (Bug::ElectionUnderOldVoters, 10),
    (Bug::BeyondUndecidedGovernment, 1),
    (Bug::EqualSeeds, 2),
    (Bug::AcceptBelowPromise, 32),
    (Bug::AckBeforePersist, 1),
    (Bug::DecidedMarkForOldBallot, 43),
    (Bug::ServeBeforeOwnGovernment, 1),
    (Bug::SnapshotWithoutSubmissions, 2),
    (Bug::EveryFounderFounds, 2),
    (Bug::OldGenerationTaken, 109),
    (Bug::BallotBeforeItsRecord, 1),
    (Bug::SessionForgottenEarly, 5),
    (Bug::AbdicateUnsettled, 1),
    (Bug::IneligibleUsurps, 1),
    (Bug::FallsForwardUnsettled, 1),
    (Bug::LostRecreatedEmpty, 3),
    (Bug::LastEligiblePurged, 10),
    (Bug::StaleReportCounts, 1),
    (Bug::BelowMinForgets, 3),
    (Bug::CommitBeforeSettledUnion, 5),
    (Bug::RestartKeepsEpoch, 10),
    (Bug::UpperHalfForgetsMember, 1),
    (Bug::ComplaintBelowMin, 5),
    (Bug::ExpiryByOwnClock, 1),
    (Bug::SnapshotWithoutSessions, 1),
    (Bug::BadSnapshotInstalled, 3),
    (Bug::SplitForgetsSessions, 18),
    (Bug::UsurpKeepsLastOnly, 1),
    (Bug::FenceAfterCommit, 1),
    (Bug::ReadWithoutRound, 1),
    (Bug::ReadOneMember, 1),
    (Bug::ReadBeforeWrites, 1),
    (Bug::NonMemberAckCounts, 1),
    (Bug::SessionEnteredAtWrite, 1),
    (Bug::PrimaryShrinksSet, 1),
    (Bug::UncommittedShown, 1),
    (Bug::TruncatesTwice, 19),
    (Bug::BucketAckBeforePersist, 1),
    (Bug::OwnDiskIgnored, 1),
    (Bug::EpochNotPersisted, 1),
    (Bug::RestartedPrimaryGoesOn, 1),
    (Bug::CutSentAgainEarly, 1),
    (Bug::FatesBeforeSettled, 111),
    (Bug::SuffixNotCut, 5),
    (Bug::CommitBelowMin, 2),
    (Bug::HalvesServeEarly, 1),
    (Bug::BacklogTwice, 1),
    (Bug::UnknownRepeated, 6),
    (Bug::LaneOvertakes, 1),
    (Bug::HopTakenTwice, 1),
    (Bug::FullBacklogSilent, 25),
    (Bug::DuplicateAnsweredAnew, 2),
    (Bug::WaitingReadEarly, 1),
    (Bug::RevivedSameGeneration, 3),
    (Bug::BadChecksumTaken, 45),
    (Bug::MiddleCut, 1),
    (Bug::SyncNotDone, 1),
    (Bug::LogCutTooFar, 4),
    (Bug::IdleTakenForStall, 1),
    (Bug::SkewedLeads, 2),
    (Bug::VouchedBefore, 1),
    (Bug::VouchedUnheard, 1),
    (Bug::VouchTakenBehind, 1),
    (Bug::BesideUnknown, 4),
    (Bug::BesideEarly, 1),
    (Bug::LentForEver, 27),
];

fn violation(seed: u64) -> Option<Violation> {
    run(seed, &Options { minutes: 0.75, ..Options::default() }).violation
}

/// Does this seed fail with the bug, and only with it?
fn catches(bug: Bug, seed: u64) -> Option<Violation> {
    plant(Some(bug));
    let caught = violation(seed);
    plant(None);
    caught.filter(|_| violation(seed).is_none())
}

fn hunt(bug: Bug, known: Option<u64>) -> Result<String, String> {
    for seed in known.into_iter().chain(1..=SEEDS) {
        if let Some(caught) = catches(bug, seed) {
            return Ok(format!("caught {bug:?} by {} at seed {seed}", caught.rule));
        }
    }
    Err(format!("{bug:?} was not caught in {SEEDS} seeds: {}", bug.describe()))
}

#[test]
fn every_planted_bug_is_caught() {
    let wanted = std::env::var("HUNT").unwrap_or_default();
    let named = |bug: Bug| wanted.split(',').any(|name| name == format!("{bug:?}"));
    let some = Bug::ALL.iter().any(|bug| named(*bug));
    let known = |bug| KNOWN.iter().find(|(known, _)| *known == bug && wanted.is_empty()).map(|(_, seed)| *seed);
    let told = |bug: Bug| TRANSCRIPTS.iter().any(|(known, _)| *known == bug);
    let hunted =
        Bug::ALL.iter().copied().filter(|bug| !ELSEWHERE.contains(bug) && !told(*bug) && (!some || named(*bug)));
    let queue = Mutex::new(hunted.collect::<Vec<Bug>>());
    let missed = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut missed = Vec::new();
                    loop {
                        let Some(bug) = queue.lock().unwrap().pop() else { return missed };
                        match hunt(bug, known(bug)) {
                            Ok(line) => println!("{line}"),
                            Err(line) => missed.push(line),
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<String>>()
    });
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// A panic tells something else, too: an assertion of the core saw it.
fn told_with(bug: Option<Bug>, transcript: &str) -> Option<String> {
    plant(bug);
    let told = std::panic::catch_unwind(|| atoll_sim::scenario::run(transcript));
    plant(None);
    told.ok()?.ok()
}

#[test]
fn transcripts_tell_their_bugs() {
    for (bug, transcript) in TRANSCRIPTS {
        assert_eq!(told_with(None, transcript).as_deref(), Some(*transcript), "it is true without {bug:?}");
        assert_ne!(told_with(Some(*bug), transcript).as_deref(), Some(*transcript), "{bug:?} cannot be seen in it");
    }
}
