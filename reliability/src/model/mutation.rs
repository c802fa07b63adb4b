//! Faults of the protocol: the model with one of them must break a promise.

/// One fault, planted into the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mutation {
    /// The leader does not say where its commit frame goes.
    SkipAnnouncement,
    /// The leader says that the commit cannot fail before it has written it.
    SealEarly,
    /// The leader does not say that it is about to publish its commit.
    PublishUnsaid,
    /// The leader says that nothing can undo the commit when one copy of the header has it.
    SealAtTheBarrier,
    /// The successor looks for the frame of a sealed batch, too.
    IgnoreSeal,
    /// The successor takes an announced batch for committed.
    AnnouncedIsCommitted,
    /// The successor takes an announced batch for lost.
    AnnouncedIsLost,
    /// The successor takes any frame in the announced place for the announced one.
    AnyFrameIsTheFrame,
    /// The successor takes a restarted WAL for proof that the frame was never seen.
    RestartIsLost,
    /// The successor leaves a frame that was written and not committed where it is.
    LeaveTheFrame,
    /// The successor does not settle: it executes what waits.
    NoSettlement,
    /// Nobody takes the place of a dead leader.
    NoSuccession,
    /// The successor leaves the requests that its predecessor had taken.
    TakenIsLost,
    /// A leader that gives up forgets to say that its predecessor's batch is unresolved.
    ForgetTheBatch,
    /// Clients are answered before the sync.
    AnswerBeforeSync,
    /// The leader does not sync.
    NoSync,
    /// The commit is published before the sync.
    VisibleBeforeDurable,
    /// The database file is not synced before the WAL may be restarted.
    NoSyncOfDatabase,
    /// A slot is claimed again before its answer was fetched.
    SlotReusedEarly,
    /// The leader does not write the answer into the slot.
    NoAnswer,
    /// A client withdraws a request that a leader has taken.
    WithdrawTaken,
    /// Slots of dead clients are not taken back.
    NoSweep,
    /// The turn of a dead client is waited for.
    DeadTurnStays,
    /// A batch may hold every slot.
    BatchOfAllSlots,
    /// A transaction on a snapshot is promoted though others have committed since.
    PromoteTheStale,
}
