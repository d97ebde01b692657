//! Sessions in the hot tier: who holds an owner, and what the fence of a write is compared with.
//!
//! A session belongs to a *holder*, the process that renews it. Each holder has a *beat* in each
//! partition, a number that it raises. Nobody's clock says when a holder is gone: whoever sees the
//! same beat for longer than a lease, by its own clock, says so ([`Beats`]).
//!
//! After any change of the epoch the sessions that the hot tier names are *claims*: it may have
//! forgotten a later one. Whoever holds one claims it again, the greatest fence wins, and nothing
//! is saved before the *grace* has ended.

use async_trait::async_trait;
use storage_model::{Epoch, Fence, OpId, Owner, Partition, Timestamp, Version};

use crate::{HotError, HotRead, Load, Observed};

/// A session of an owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Session {
    /// What the session's writes carry.
    pub fence: Fence,
    /// The process that renews it.
    pub holder: OpId,
    /// What people call that process; one word.
    pub name: String,
    /// The epoch in which the session was opened, or last confirmed by a save. [`Epoch`] 0 once its
    /// holder was gone: then anybody may take it, and plain writes pass.
    pub epoch: Epoch,
    /// Who asked for the owner, if somebody did.
    pub asked: Option<String>,
}

impl Session {
    /// Whether its holder was gone: the session goes on only if nobody took or changed the owner
    /// meanwhile.
    #[must_use]
    pub fn is_lapsed(&self) -> bool {
        self.epoch == Epoch(0)
    }
}

/// The opening of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenSession {
    /// Whose.
    pub owner: Owner,
    /// Drawn at random for this session; a repeat carries the same.
    pub token: OpId,
    /// The process that will renew it.
    pub holder: OpId,
    /// What people call that process.
    pub name: String,
    /// The session whose place it takes; without this, only a free owner is taken.
    pub takes: Option<Fence>,
    /// From this moment on, in the hot tier's time, it is refused: a late copy must not open what
    /// was closed since.
    pub deadline: Timestamp,
    /// What it builds on, if it was asked for.
    pub load: Option<Load>,
}

/// What became of an opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// The session is open, and this is the whole owner.
    Open {
        /// What its writes carry.
        fence: Fence,
        /// In which epoch.
        epoch: Epoch,
        /// All of the owner.
        read: HotRead,
    },
    /// The hot tier does not hold the whole owner. Load it, and repeat with the load.
    Load(Observed),
    /// Another session holds the owner.
    Held(Session),
    /// The epoch changed: sessions that it may have forgotten are claimed first.
    Grace(Epoch),
    /// The deadline has passed. Nothing was opened.
    Expired,
}

/// A session that its holder claims after a change of the epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimSession {
    /// Whose.
    pub owner: Owner,
    /// The session.
    pub fence: Fence,
    /// The process that renews it.
    pub holder: OpId,
    /// What people call that process.
    pub name: String,
    /// The epoch in which it was opened or last confirmed.
    pub epoch: Epoch,
    /// The greatest version of the owner that it was told of. Versions go on above it and above the
    /// fence.
    pub acked: Version,
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// No greater one is known. Once the grace of this epoch has ended, a save on condition of the
    /// owner's version confirms it.
    Yes {
        /// The epoch now.
        epoch: Epoch,
        /// Whether its grace has ended.
        graced: bool,
        /// Where versions of this epoch begin: each that was given in it is greater. A write of an
        /// earlier epoch that the hot tier forgot may have had a greater one, too, if the clock was
        /// set back.
        begun: Version,
    },
    /// The owner has another session; or none, and this one was ended, or was not claimed before
    /// the grace had ended.
    No(Option<Session>),
}

/// The beats of all holders of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beats {
    /// Each holder's last beat.
    pub beats: Vec<(OpId, u64)>,
    /// The epoch.
    pub epoch: Epoch,
    /// Whether the grace of the epoch has ended.
    pub graced: bool,
}

/// A session that somebody asks its holder for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Asked {
    /// The owner of the session.
    pub owner: Owner,
    /// The fence of the session.
    pub fence: Fence,
    /// The name of the server that asks.
    pub by: String,
}

/// A name for people as a session keeps it: one word, which does not begin as "-", the mark of
/// nobody.
pub(crate) fn one_word(name: &str) -> String {
    let letter = |letter: char| {
        if letter.is_whitespace() || letter.is_control() {
            '_'
        } else {
            letter
        }
    };
    let word: String = name.chars().map(letter).collect();
    match word.strip_prefix('-') {
        Some(rest) => format!("_{rest}"),
        None if word.is_empty() => "_".to_owned(),
        None => word,
    }
}

/// Sessions: one server at a time writes an owner. Each call is one atomic step of the owner's
/// partition.
///
/// A save is a mutation with a fence ([`Mutation::by`](storage_model::Mutation::by)), which the hot
/// tier compares in the same step; so no write of a former holder is ever applied (S1). While a
/// session holds an owner, its hash has no time to live.
#[async_trait]
pub trait SessionStore {
    /// Opens a session of a free owner, or takes the place of the session that is named. Repeated
    /// with one token, it answers the same as long as the session is open: a lost answer leaves no
    /// session behind that nobody has.
    async fn open_session(&self, open: &OpenSession) -> Result<Opened, HotError>;

    /// Claims a session after a change of the epoch (S8).
    async fn claim_session(&self, claim: &ClaimSession) -> Result<Claimed, HotError>;

    /// Ends a session without a save; answers whether it was the owner's. Before the grace of the
    /// epoch has ended it ends none (S8).
    async fn close_session(&self, owner: &Owner, fence: Fence) -> Result<bool, HotError>;

    /// Asks the holder of a session for its owner, with a name for people; answers whether the
    /// session still is that one.
    async fn ask_session(&self, owner: &Owner, fence: Fence, by: &str) -> Result<bool, HotError>;

    /// The sessions of owners; one whose holder was gone, if nobody took the owner since.
    async fn sessions_of(&self, owners: &[Owner]) -> Vec<Result<Option<Session>, HotError>>;

    /// Raises a holder's beat in partitions, if one is given; answers the beats of all holders.
    async fn beat(
        &self,
        partitions: &[Partition],
        raise: Option<(OpId, u64)>,
    ) -> Vec<Result<Beats, HotError>>;

    /// The sessions of a holder that others ask for.
    async fn asked(
        &self,
        partitions: &[Partition],
        holder: OpId,
    ) -> Vec<Result<Vec<Asked>, HotError>>;

    /// The sessions of a holder in a partition that have not lapsed. One that begins or ends
    /// meanwhile may be among them or not.
    async fn held_by(
        &self,
        partition: Partition,
        holder: OpId,
    ) -> Result<Vec<(Owner, Fence)>, HotError>;

    /// Says that a holder is gone, if its beat is still this one (S5): its sessions lapse. Answers
    /// how many. The beat is 0 until the holder raises it.
    async fn lapse(&self, partition: Partition, holder: OpId, beat: u64) -> Result<u32, HotError>;

    /// The sessions of a partition that have lapsed and that nobody took since.
    async fn lapsed(&self, partition: Partition) -> Result<Vec<(Owner, Fence)>, HotError>;

    /// Forgets these sessions, if they are lapsed still: their holders, should they come back, have
    /// lost them. Answers how many.
    async fn forget_lapsed(
        &self,
        partition: Partition,
        sessions: &[(Owner, Fence)],
    ) -> Result<u32, HotError>;

    /// Ends the grace of an epoch. Whoever says so has seen that epoch for longer than a lease.
    /// Answers whether it is the epoch still.
    async fn end_grace(&self, partition: Partition, epoch: Epoch) -> Result<bool, HotError>;
}
