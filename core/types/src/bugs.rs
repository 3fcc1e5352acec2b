//! The bank of planted bugs. Each breaks one rule on purpose; the simulator must catch every one of them, which shows
//! that its checkers see. Compiled in only with the feature `planted-bugs`; without it `planted` is always false.

macro_rules! bank {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug { $($(#[doc = $doc])+ $name,)* }

        impl Bug {
            pub const ALL: &[Bug] = &[$(Bug::$name,)*];

            /// What the bug does, in words.
            pub fn describe(self) -> &'static str {
                match self { $(Bug::$name => concat!($($doc),+).trim_ascii(),)* }
            }
        }
    };
}

bank! {
    /// An election ignores values accepted in normal operation.
    ElectionIgnoresAccepted,
    /// An acceptor forgets its promise on restart.
    PromiseForgottenOnRestart,
    /// Messages of an old incarnation count.
    OldIncarnationCounts,
    /// A blank process that comes back under its name gets its old id, and so its old vote.
    NodeIdReused,
    /// Half of the voters decide.
    HalfDecides,
    /// A newcomer is given a seat before it has acclimated.
    SeatWithoutAcclimation,
    /// A newcomer whose fetch failed starts from an empty state.
    EmptySnapshot,
    /// A barrier counts the answer of a node that arrived after it was opened.
    BarrierCountsLateArrival,
    /// A barrier still waits for a node that was removed.
    BarrierWaitsForRemoved,
    /// A submitter gives a submission a new number when it tries again.
    SubmitterRenumbers,
    /// The state applies a submission each time it stands in the log.
    DuplicateApplied,
    /// The log is trimmed past a live node that is behind.
    TrimPastLaggard,
    /// The voters of the government before still vote beyond the one that removed them.
    DepartedStillVotes,
    /// Promises come without the decided mark, so gaps below it become no-ops.
    PromiseWithoutDecidedMark,
    /// A government takes effect before all of its own majority hold it.
    InEffectTooEarly,
    /// A candidate goes on beyond a government with promises of the voters before it only.
    ElectionUnderOldVoters,
    /// Entries are proposed beyond a government that is not in effect.
    BeyondUndecidedGovernment,
    /// Every node draws its back-off from the same seed, so candidates duel for ever.
    EqualSeeds,
    /// A voter accepts in a ballot lower than it promised.
    AcceptBelowPromise,
    /// A voter acknowledges before its disk has the entry.
    AckBeforePersist,
    /// The decided mark is believed for entries accepted in an older ballot.
    DecidedMarkForOldBallot,
    /// A leader takes submissions before its own government is decided.
    ServeBeforeOwnGovernment,
    /// A snapshot leaves out the table that makes submissions count once.
    SnapshotWithoutSubmissions,
    /// A founder that is not the first-named founds as well.
    EveryFounderFounds,
    /// Messages of an older generation are taken.
    OldGenerationTaken,
    /// An election adopts votes from before the government in force.
    VoidVotesAdopted,
    /// A candidate asks for promises before its own is safe, and may ask twice with one ballot.
    BallotBeforeItsRecord,
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Switches one bug on for this thread, or all off.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    ACTIVE.with(|active| active.set(bug));
}

/// Is this bug switched on?
#[cfg(feature = "planted-bugs")]
pub fn planted(bug: Bug) -> bool {
    ACTIVE.with(|active| active.get() == Some(bug))
}

#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub fn planted(_: Bug) -> bool {
    false
}
