//! Sessions in the hot tier: the holder of an owner, and the fence that each write is compared
//! with.
//!
//! A session belongs to a *holder*, the process that renews it ([`Holders`](crate::Holders)).
//!
//! After any change of the epoch the sessions in the hot tier are *claims*, since it may have
//! forgotten a later session. Each holder claims its session again, and the greatest fence wins.
//! Nothing is saved before the *grace* has ended.

use async_trait::async_trait;
use std::fmt;
use storage_model::{Epoch, Fence, OpId, Owner, Timestamp, Version};

use crate::{HotError, HotRead, Load, Observed};

/// A session of an owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Session {
    /// The fence that the session's writes carry.
    pub fence: Fence,
    /// The process that renews it.
    pub holder: OpId,
    /// The name of that process for people, one word.
    pub name: String,
    /// The epoch in which the session was opened, or last confirmed by a save. It is [`Epoch`] 0
    /// once the holder was gone. Then anybody can take the owner, and plain writes pass.
    pub epoch: Epoch,
    /// The name of the server that asked for the owner, if one did.
    pub asked: Option<String>,
}

impl Session {
    /// Whether the holder was gone. The session then goes on only if nobody took or changed the
    /// owner in the meantime.
    #[must_use]
    pub fn is_lapsed(&self) -> bool {
        self.epoch == Epoch(0)
    }
}

/// The opening of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenSession {
    /// The owner.
    pub owner: Owner,
    /// A random token of this session. A repeat carries the same token.
    pub token: OpId,
    /// The process that will renew it.
    pub holder: OpId,
    /// The name of that process for people.
    pub name: String,
    /// The session to replace. Without it, only a free owner is taken.
    pub takes: Option<Fence>,
    /// The hot tier rejects the opening from this moment on, by its own clock. A late copy must not
    /// open a session that was closed since.
    pub deadline: Timestamp,
    /// The load that the opening builds on, if one was requested.
    pub load: Option<Load>,
}

/// The result of an opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// The session is open, and this is the whole owner.
    Open {
        /// The fence that the session's writes carry.
        fence: Fence,
        /// The epoch of the opening.
        epoch: Epoch,
        /// The whole owner.
        read: HotRead,
    },
    /// The hot tier does not hold the whole owner. Load it, and repeat with the load.
    Load(Observed),
    /// Another session holds the owner.
    Held(Session),
    /// The epoch changed. Sessions that the hot tier may have forgotten are claimed first.
    Grace(Epoch),
    /// The deadline has passed. Nothing was opened.
    Expired,
}

/// A session that its holder claims after a change of the epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimSession {
    /// The owner.
    pub owner: Owner,
    /// The session.
    pub fence: Fence,
    /// The process that renews it.
    pub holder: OpId,
    /// The name of that process for people.
    pub name: String,
    /// The epoch in which the session was opened or last confirmed.
    pub epoch: Epoch,
    /// The greatest version of the owner that was acknowledged to the session. Versions go on above
    /// it and above the fence.
    pub acked: Version,
}

/// The result of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// No greater session is known. Once the grace of this epoch has ended, a save on condition of
    /// the owner's version confirms the claim.
    Yes {
        /// The epoch now.
        epoch: Epoch,
        /// Whether the grace of this epoch has ended.
        graced: bool,
        /// Where versions of this epoch begin. Every version that was given in this epoch is
        /// greater. If the clock was set back, a forgotten write of an earlier epoch may have had a
        /// greater version, too.
        begun: Version,
    },
    /// Another session holds the owner. Or none does, and this session was ended, or was not
    /// claimed before the grace had ended.
    No(Option<Session>),
}

/// A name for people as a session keeps it: one word that does not begin with "-". That character
/// stands for nobody.
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
/// A save is a mutation with a fence ([`Mutation::by`](storage_model::Mutation::by)). The hot tier
/// compares the fence in the same step. So no write of a former holder is ever applied (S1). While
/// a session holds an owner, its hash has no time to live.
///
/// The calls keep the rules of [`Hot`](crate::Hot).
#[async_trait]
pub trait Sessions: fmt::Debug + Send + Sync {
    /// Opens a session of a free owner, or replaces the session that is named. A repeat with the
    /// same token gets the same answer as long as the session is open. So a lost answer leaves no
    /// session behind that nobody has.
    async fn open_session(&self, open: &OpenSession) -> Result<Opened, HotError>;

    /// Claims a session after a change of the epoch (S8).
    async fn claim_session(&self, claim: &ClaimSession) -> Result<Claimed, HotError>;

    /// Ends a session without a save. Returns whether the session held the owner. Before the grace
    /// of the epoch has ended, it ends no session (S8).
    async fn close_session(&self, owner: &Owner, fence: Fence) -> Result<bool, HotError>;

    /// Asks the holder of a session for its owner. `by` is a name for people. Returns whether that
    /// session still holds the owner. The request is there until another one takes its place, or the
    /// session ends. Who still waits repeats it under another id, so that the holder can tell it from
    /// that of a process that is gone.
    async fn ask_session(
        &self,
        owner: &Owner,
        fence: Fence,
        ask: OpId,
        by: &str,
    ) -> Result<bool, HotError>;

    /// The sessions of owners. A lapsed session counts if nobody took the owner since.
    async fn sessions_of(&self, owners: &[Owner]) -> Vec<Result<Option<Session>, HotError>>;
}
