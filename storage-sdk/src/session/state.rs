//! How a session stands.

use std::fmt;

use std::sync::Arc;
use storage_model::{Epoch, Version};

use super::content::Left;
use crate::{Error, Kind};

/// How a session stands, as its server knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// The server holds the owner.
    Held,
    /// Another server asks for the owner. What was edited is saved already; the game should end the
    /// session.
    HandOverAsked {
        /// The name of that server.
        by: String,
    },
    /// The hot tier was replaced, or did not answer for a lease. The session is claimed anew. Edits
    /// go on in memory and saves wait. Trades with other owners should wait, too, since the session
    /// may turn out to be lost.
    Suspect,
    /// The session is lost: it saves nothing any more.
    Lost(LossReason),
    /// The session ends: nothing can be edited any more, and the last save is under way.
    Closing,
    /// The session has ended, and its last edit is saved.
    Ended,
}

/// Why a session was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// Another session took the owner.
    Stolen {
        /// The name of the server that has it.
        by: String,
    },
    /// The session had lapsed, or was forgotten, and others wrote the owner meanwhile. It is also
    /// the answer if the hot tier was replaced and the database holds a part of a save whose
    /// outcome the session never learned: such an owner looks as if others wrote it.
    Changed,
    /// The session had lapsed for so long that it was forgotten; or the hot tier lost it, and this
    /// server did not claim it within a lease; or an operator ended it.
    Forgotten,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stolen { by } => write!(f, "{by} took the owner"),
            Self::Changed => f.write_str("others wrote the owner after the session had lapsed"),
            Self::Forgotten => f.write_str("the session was ended elsewhere"),
        }
    }
}

/// Whether the session still is the owner's, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Standing {
    #[default]
    Held,
    Suspect,
    Lost(LossReason),
    Ended,
}

/// What is known of a session.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) standing: Standing,
    /// Whether its last save was asked for.
    pub(super) closing: bool,
    /// Who asks for the owner.
    pub(super) asked: Option<String>,
    /// The epoch in which it was opened or confirmed last, or an earlier one.
    pub(super) epoch: Epoch,
    /// The greatest version of the owner that it was told of.
    pub(super) acked: Version,
    /// The epoch in which that was acknowledged, or an earlier one.
    pub(super) acked_in: Epoch,
    /// Why the session can't be confirmed, if it is its own fault.
    pub(super) trouble: Option<Error>,
    /// The greatest version that is known to be in the database.
    pub(super) landed: Version,
    /// The last edit that is saved.
    pub(super) saved: u64,
    /// What saves leave that are under way, whose outcome stayed unknown, or whose epoch did.
    pub(super) doubtful: Vec<Arc<Left>>,
    /// Whether a call that ends the session was sent, and may have been carried out.
    pub(super) ends_in_doubt: bool,
}

/// Saves of unknown outcome that are remembered.
const DOUBTFUL_MAX: usize = 8;

impl Known {
    pub(super) fn state(&self) -> SessionState {
        match (&self.standing, self.closing, &self.asked) {
            (Standing::Lost(why), ..) => SessionState::Lost(why.clone()),
            (Standing::Ended, ..) => SessionState::Ended,
            (_, true, _) => SessionState::Closing,
            (Standing::Suspect, ..) => SessionState::Suspect,
            (Standing::Held, _, Some(by)) => SessionState::HandOverAsked { by: by.clone() },
            (Standing::Held, _, None) => SessionState::Held,
        }
    }

    /// Whether it is over: lost, or ended.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.standing, Standing::Lost(_) | Standing::Ended)
    }

    /// Why nothing can be edited any more, if so.
    pub(super) fn refusal(&self) -> Option<Error> {
        match &self.standing {
            Standing::Lost(why) => Some(Error::new(
                Kind::Fenced,
                format!("the session is lost: {why}"),
            )),
            Standing::Ended => Some(Error::new(
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

    /// A save was acknowledged in this epoch, or a later one, that holds all up to this edit.
    pub(super) fn acknowledge(&mut self, version: Version, edit: u64, epoch: Epoch) {
        (self.acked, self.acked_in) = (self.acked.max(version), epoch);
        self.saved = self.saved.max(edit);
        self.doubtful.clear();
    }

    /// A save is about to be sent: from now on it may have been applied.
    pub(super) fn send(&mut self, left: &Arc<Left>) {
        if self.doubtful.len() == DOUBTFUL_MAX {
            self.doubtful.remove(0);
        }
        self.doubtful.push(Arc::clone(left));
    }

    /// A save was not applied, and will not be.
    pub(super) fn refuse(&mut self, left: &Arc<Left>) {
        self.doubtful.retain(|other| !Arc::ptr_eq(other, left));
    }
}
