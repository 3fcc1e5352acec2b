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
    // Sessions.
    /// A session that was forgotten is taken for a new one when it comes back.
    SessionForgottenEarly,
    /// A write that was applied, but whose answer was too long to be kept, is taken for a new one.
    DuplicateAnswerLost,
    // The distributor.
    /// A primary is changed and members are dropped before the union has settled.
    AbdicateUnsettled,
    /// Any member may become primary after a removal, eligible or not.
    IneligibleUsurps,
    /// A removal during a hand-over keeps the members that have not settled, as if they had.
    FallsForwardUnsettled,
    /// A bucket without an eligible copy is placed anew, empty.
    LostRecreatedEmpty,
    /// A copy is purged as soon as the bucket no longer names its node.
    LastEligiblePurged,
    /// `ready` and `settled` of an older epoch count for the present one.
    StaleReportCounts,
    /// A member removed while too few remain is no longer eligible.
    BelowMinForgets,
    /// A union commits although somebody outside of it is still eligible.
    CommitBeforeSettledUnion,
    /// Orders from before the last removal are taken, and so are duplicates.
    OldOrderTaken,
    /// The buckets of a node that was restarted keep their epoch.
    RestartKeepsEpoch,
    /// The upper half of a split bucket forgets a member that is eligible.
    UpperHalfForgetsMember,
    /// A complaint removes a member although too few remain, and takes its eligibility.
    ComplaintBelowMin,
    // The bucket log.
    /// Time-to-live goes by the node's own clock.
    ExpiryByOwnClock,
    /// A snapshot of a bucket leaves out its sessions.
    SnapshotWithoutSessions,
    /// A snapshot is installed although its checksum is wrong.
    BadSnapshotInstalled,
    /// The upper half of a split bucket begins without the sessions.
    SplitForgetsSessions,
    /// A usurper keeps only the last entry of what was written and not committed.
    UsurpKeepsLastOnly,
    /// A backup takes writes of an older epoch until the new one has committed something.
    FenceAfterCommit,
    /// A read is answered without a round.
    ReadWithoutRound,
    /// A read is confirmed by one member only.
    ReadOneMember,
    /// A read is answered by what members vouched for before it came.
    VouchedBefore,
    /// A node that vouches says nothing of the epochs it has seen.
    VouchedUnheard,
    /// A primary takes the word of a node that has heard of edicts which are not known here yet.
    VouchTakenBehind,
    /// A member answers reads although it holds entries of which it does not know whether they are committed.
    BesideUnknown,
    /// A member answers reads before it was told that its epoch serves.
    BesideEarly,
    /// A read does not wait for the writes before it.
    ReadBeforeWrites,
    /// The acknowledgement of a node that only catches up counts like a member's.
    NonMemberAckCounts,
    /// The primary enters a write into its session table before it is committed.
    SessionEnteredAtWrite,
    /// A primary drops a member that does not answer from its own set.
    PrimaryShrinksSet,
    /// A copy applies what is not committed.
    UncommittedShown,
    /// A late truncation is carried out a second time.
    TruncatesTwice,
    /// A member acknowledges a write before its disk has it.
    BucketAckBeforePersist,
    /// The primary does not count its own disk.
    OwnDiskIgnored,
    /// The highest epoch seen is not written down before it is acted on.
    EpochNotPersisted,
    /// A primary that was restarted goes on in its old epoch.
    RestartedPrimaryGoesOn,
    /// A write that was cut is sent again before the cutting epoch serves.
    CutSentAgainEarly,
    /// A suffix that the new primary lacks is kept, and comes back.
    SuffixNotCut,
    /// Entries commit below the least number of copies.
    CommitBelowMin,
    /// The halves of a bucket serve before the dividing edict.
    HalvesServeEarly,
    /// Requests that waited are sent on twice.
    BacklogTwice,
    /// A write of unknown fate is repeated although it has no session.
    UnknownRepeated,
    /// A request takes the new route while those before it are still on the old one.
    LaneOvertakes,
    /// A hop that arrives twice is carried out twice.
    HopTakenTwice,
    /// A full backlog drops its callers without an answer.
    FullBacklogSilent,
    /// A duplicate is answered with the state of now instead of its first answer.
    DuplicateAnsweredAnew,
    /// A read that waits for a position is answered before the log has reached it.
    WaitingReadEarly,
    /// A bucket that an operator revived goes on in the generation of what was lost.
    RevivedSameGeneration,
    /// A backup serves stale reads although its node hears nothing of the cluster log.
    StaleBehindDeposed,
    /// A lease counts from when the answer to a heartbeat came, not from when the heartbeat was sent.
    LeaseFromReceipt,
    /// A lease counts although the node has not applied all that was decided before it.
    LeaseOfUnappliedLog,
    /// A usurper does not wait for the lease of the one before it.
    UsurperDoesNotWait,
    /// A member whose epoch is over takes what it holds for committed although that epoch had not settled.
    FatesBeforeSettled,
    /// The directory is not synced after an image got its name, nor when the one before it goes.
    RenameNotSynced,
    /// A copy that cannot be read is begun anew on the word of a duty that was given to the life before.
    DamagedBeginsAnew,
    /// A checksum on the disk that is wrong counts for nothing.
    BadChecksumTaken,
    /// Damage in the middle of the log on disk is taken for its torn end.
    MiddleCut,
    /// A write-ahead log says that it is safe without having synced.
    SyncNotDone,
    /// The write-ahead log is cut at its beginning although a bucket still needs it.
    LogCutTooFar,
    /// A disk or a shard that does not move goes unnoticed while its node is heard.
    StallUnnoticed,
    /// A part of a node that has nothing to do is taken for one that does not move.
    IdleTakenForStall,
    /// The time that a message takes is taken for a clock that is off.
    DelayTakenForSkew,
    /// A node whose clock is off leads like any other.
    SkewedLeads,
    /// A bucket that was lent to where its requests came in is not given back.
    LentForEver,
    /// A backup that was not told what is committed does not ask.
    CommitToldOnce,
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
