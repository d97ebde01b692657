//! The state of a session.

use std::fmt;

use std::sync::Arc;
use storage_model::{Epoch, OpId, Version};
use tokio::time::Instant;

use super::content::SavedFields;
use crate::{Error, Kind};

/// The state of a session, as its server knows it.
///
/// ```
/// # storage_doc::with_bytes(async |bytes| {
/// use storage_sdk::{SessionOptions, SessionState};
/// let room = bytes.owner("room", 7_u64)?.session(SessionOptions::default()).await?;
/// match room.state() {
///     SessionState::Held => room.set("topic", "raid at nine")?,
///     SessionState::Suspect => println!("no trades now"),
///     SessionState::HandOverAsked { by } => println!("{by} wants the room"),
///     over => println!("tell the players to enter again: {over:?}"),
/// }
/// room.end().await?;
/// assert_eq!(room.state(), SessionState::Ended);
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// The server holds the owner.
    Held,
    /// Another server asks for the owner. The edits are already saved, and the game should end the
    /// session.
    HandOverAsked {
        /// The name of the other server.
        by: String,
    },
    /// The hot tier was replaced, or did not answer for a lease. The session claims its owner
    /// again. Edits go on in memory, and saves wait. Trades with other owners should wait too,
    /// because the session may turn out to be lost.
    Suspect,
    /// The session is lost. It saves nothing any more.
    Lost(LossReason),
    /// The session is ending. It accepts no edits, and the last save is under way.
    Closing,
    /// The session has ended, and its last edit is saved.
    Ended,
}

/// The reason for the loss of a session.
///
/// ```
/// # storage_doc::with_bytes(async |bytes| {
/// use storage_sdk::{LossReason, OnConflict, SessionOptions};
/// let room = bytes.owner("room", 7_u64)?;
/// let first = room.session(SessionOptions::default()).await?;
/// let steal = SessionOptions::default().on_conflict(OnConflict::Steal);
/// let _second = room.session(steal).await?;
/// first.set("topic", "cats")?; // it has not noticed yet
/// assert!(first.save().await.is_err());
/// assert!(matches!(first.lost().await, LossReason::Stolen { .. }));
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// Another session took the owner.
    Stolen {
        /// The name of the server that took the owner.
        by: String,
    },
    /// The session had lapsed or was forgotten, and another writer changed the owner.
    ///
    /// This reason also appears if the hot tier was replaced and the database holds a part of a
    /// save with an unknown outcome. Such an owner looks like the work of another writer. And it
    /// appears if the hot tier had lost a write when the session was opened, and came back with it
    /// before the session saved anything. The session never saw that write, so it overwrites nothing.
    Changed,
    /// The hot tier does not know the session any more. The session had lapsed for too long, or an
    /// operator ended it. Or the hot tier lost it, and this server did not claim it within a lease.
    Forgotten,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stolen { by } => write!(f, "{by} took the owner"),
            Self::Changed => f.write_str("other callers wrote the owner after the session lapsed"),
            Self::Forgotten => f.write_str("the hot tier does not know the session any more"),
        }
    }
}

/// Whether the session still holds the owner, as far as this process knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum HoldStatus {
    #[default]
    Held,
    Suspect,
    Lost(LossReason),
    Ended,
}

/// The knowledge about a session.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionFacts {
    pub(super) standing: HoldStatus,
    /// Whether its last save was requested.
    pub(super) closing: bool,
    /// The server that asks for the owner.
    pub(super) asked: Option<String>,
    /// The id of the last request for the owner, and when it was first heard.
    pub(super) heard: Option<(OpId, Instant)>,
    /// The epoch of the last opening or confirmation, or an earlier one.
    pub(super) epoch: Epoch,
    /// The greatest known version of the owner.
    pub(super) acked: Version,
    /// The epoch in which `acked` was acknowledged, or an earlier one.
    pub(super) acked_in: Epoch,
    /// The reason why the session can't be confirmed, if the reason is its own content.
    pub(super) trouble: Option<Error>,
    /// The greatest version that is known to be in the database.
    pub(super) landed: Version,
    /// The last edit that is saved.
    pub(super) saved: u64,
    /// The results of saves that are under way, or that have an unknown outcome or epoch.
    pub(super) doubtful: Vec<Arc<SavedFields>>,
    /// Whether a call that ends the session was sent, and may have succeeded.
    pub(super) ends_in_doubt: bool,
}

/// The most saves of unknown outcome that are remembered.
const DOUBTFUL_MAX: usize = 8;

impl SessionFacts {
    pub(super) fn state(&self) -> SessionState {
        match (&self.standing, self.closing, &self.asked) {
            (HoldStatus::Lost(why), ..) => SessionState::Lost(why.clone()),
            (HoldStatus::Ended, ..) => SessionState::Ended,
            (_, true, _) => SessionState::Closing,
            (HoldStatus::Suspect, ..) => SessionState::Suspect,
            (HoldStatus::Held, _, Some(by)) => SessionState::HandOverAsked { by: by.clone() },
            (HoldStatus::Held, _, None) => SessionState::Held,
        }
    }

    /// Whether the session is over: lost, or ended.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.standing, HoldStatus::Lost(_) | HoldStatus::Ended)
    }

    /// The reason why edits fail, if they do.
    pub(super) fn refusal(&self) -> Option<Error> {
        match &self.standing {
            HoldStatus::Lost(why) => Some(Error::new(
                Kind::Fenced,
                format!("the session is lost: {why}"),
            )),
            HoldStatus::Ended => Some(Error::new(
                Kind::Closing,
                "the session has ended; start another one",
            )),
            _ if self.closing => Some(Error::new(
                Kind::Closing,
                "the session is ending; start another one",
            )),
            _ => None,
        }
    }

    /// A save with all edits up to this one was acknowledged, in this epoch or a later one.
    pub(super) fn acknowledge(&mut self, version: Version, edit: u64, epoch: Epoch) {
        (self.acked, self.acked_in) = (self.acked.max(version), epoch);
        self.saved = self.saved.max(edit);
        self.doubtful.clear();
    }

    /// A save is about to be sent. From now on it may have been applied.
    pub(super) fn send(&mut self, left: &Arc<SavedFields>) {
        if self.doubtful.len() == DOUBTFUL_MAX {
            self.doubtful.remove(0);
        }
        self.doubtful.push(Arc::clone(left));
    }

    /// A save was not applied, and never will be.
    pub(super) fn refuse(&mut self, left: &Arc<SavedFields>) {
        self.doubtful.retain(|other| !Arc::ptr_eq(other, left));
    }
}
