//! What a caller can do about a failure.

use std::fmt;
use std::time::Duration;

use storage_dirty::{HotError, HotKind, Refusal};
use storage_model::{LimitError, NameError, Outcome, Owner, Retry};
use storage_sql::{ColdError, ColdKind};
use storage_tiers::TierError;

use crate::codec::CodecError;

/// A result of the SDK.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, by what a caller can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A name, value or call that breaks a limit, or a setting that can't work, such as a host that
    /// no name server knows or a file in no folder. Nothing was sent.
    Invalid,
    /// The owner has another version than the write was built on, or exists and should not.
    Conflict,
    /// A field to increment, or to read as a number, does not hold a 64-bit integer.
    NotInteger,
    /// A counter would leave 64 bits.
    Overflow,
    /// A purge of an owner whose changes have not all landed, or landed just now, or are still on
    /// probation (`landing.probation`); once it is not written any more, a worker clears its marks
    /// within two passes.
    NotLanded,
    /// A session holds the owner, so only its holder writes it. The message names the holder.
    Held,
    /// The session is lost: another one took the owner, or others wrote it after the session had
    /// lapsed. It saves nothing any more; read the owner anew, in another session.
    Fenced,
    /// The session has ended, or is ending.
    Closing,
    /// The hot tier is away.
    HotUnavailable,
    /// The hot tier has no memory left. Reads and landing go on; writes succeed again when landed
    /// data was evicted.
    OutOfMemory,
    /// More is written than lands, or the hot tier's memory is nearly full: writes are refused
    /// until the workers have caught up, or until an operator did what the message says. Reads and
    /// landing go on.
    Overloaded,
    /// The hot tier's eviction policy may drop unlanded data, so writes are refused.
    UnsafeEviction,
    /// The durability that the write asks for can't be had: too few replicas follow the server, or
    /// it has no disk to wait for. Nothing was written. One that was not reached in time is a
    /// `Timeout` with the outcome `Applied`.
    Durability,
    /// The cold tier is away, and the call needed it.
    ColdUnavailable,
    /// The database refuses a value; it stays in the hot tier.
    Rejected,
    /// No answer in time.
    Timeout,
    /// A tier refuses what an operator has to mend: a wrong user, password, right or certificate; a
    /// database or table that is missing, a full disk.
    Denied,
    /// Stored bytes are not what this program wrote, or a newer program wrote them.
    Corrupt,
    /// The hot tier and the database do not belong together: another one took over, or the settings
    /// name a wrong one. Nothing was written; an operator has to act.
    Unpaired,
    /// Others changed the same owner each time it was tried.
    Contended,
    /// The storage was closed, before the call or while it was under way. Every further call ends
    /// like this, at once.
    Closed,
}

/// A failure: its kind, whether the write took place, and whether trying again makes sense.
///
/// ```
/// # use storage_sdk::{Error, Retry};
/// fn advice(error: &Error) -> &'static str {
///     match error.retry() {
///         Retry::SameId => "repeat under the same id: it is applied at most once",
///         Retry::Reread => "read again, decide again",
///         Retry::After(_) => "the same call may succeed later",
///         Retry::Never => "tell the player",
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    outcome: Outcome,
    retry: Retry,
    owner: Option<Owner>,
    message: String,
    /// What a session goes on from.
    refusal: Option<Box<Refusal>>,
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.owner {
            Some(owner) => write!(f, "{owner}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// How soon a tier that was away is worth asking again.
const SOON: Duration = Duration::from_millis(200);
/// How soon it is worth asking again where an operator has to act first.
const MENDED: Duration = Duration::from_mins(1);

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        let retry = match kind {
            Kind::HotUnavailable
            | Kind::ColdUnavailable
            | Kind::OutOfMemory
            | Kind::Timeout
            | Kind::Contended
            | Kind::Held => Retry::After(SOON),
            Kind::UnsafeEviction | Kind::Durability | Kind::Denied => Retry::After(MENDED),
            Kind::Conflict | Kind::NotLanded | Kind::Fenced => Retry::Reread,
            _ => Retry::Never,
        };
        Self {
            kind,
            outcome: Outcome::NotApplied,
            retry,
            owner: None,
            message: message.into(),
            refusal: None,
        }
    }

    /// A write that is refused since too much waits to be landed; `soon` is when it is looked
    /// again.
    pub(crate) fn overloaded(message: impl Into<String>, soon: Duration) -> Self {
        Self {
            retry: Retry::After(soon),
            ..Self::new(Kind::Overloaded, message)
        }
    }

    pub(crate) fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        match outcome {
            // A closed storage answers all calls alike.
            Outcome::Unknown if matches!(self.kind, Kind::Closed | Kind::Unpaired) => {}
            // The same call without its id could be applied a second time.
            Outcome::Unknown => self.retry = Retry::SameId,
            Outcome::Applied => self.retry = Retry::Never,
            Outcome::NotApplied => {}
        }
        self
    }

    /// The hot tier that may have applied the write is gone, and the one in its place is older.
    pub(crate) fn forgotten() -> Self {
        let message = "the hot tier came back older than it was and can't tell whether the write was applied; read before deciding";
        Self::new(Kind::HotUnavailable, message)
    }

    /// That the storage was closed while the call was under way. What is known of its outcome
    /// stays.
    pub(crate) fn closed(self) -> Self {
        if self.kind == Kind::Closed || self.outcome == Outcome::Applied {
            return self;
        }
        let message = format!(
            "the storage was closed while the call was under way: {}",
            self.message
        );
        Self {
            kind: Kind::Closed,
            retry: Retry::Never,
            message,
            ..self
        }
    }

    /// To be decided anew by what a read finds.
    pub(crate) fn reread(mut self) -> Self {
        self.retry = Retry::Reread;
        self
    }

    pub(crate) fn of(mut self, owner: &Owner) -> Self {
        self.owner.get_or_insert_with(|| owner.clone());
        self
    }

    pub(crate) fn refused(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Expired => Self::new(
                Kind::Timeout,
                "the deadline passed before the write was applied",
            ),
            Refusal::Version(version) => Self::new(
                Kind::Conflict,
                format!("the owner has version {version} by now"),
            ),
            Refusal::Exists(field) => {
                Self::new(Kind::Conflict, format!("field {:?} exists", field.as_str()))
            }
            Refusal::NotInteger(field) => Self::new(
                Kind::NotInteger,
                format!("field {:?} does not hold a 64-bit integer", field.as_str()),
            ),
            Refusal::Overflow(field) => Self::new(
                Kind::Overflow,
                format!(
                    "the sum in field {:?} does not fit in 64 bits",
                    field.as_str()
                ),
            ),
            Refusal::NotLanded => Self::new(
                Kind::NotLanded,
                "the owner has changes that workers have not landed and cleared yet; purge it an interval later",
            ),
            Refusal::Held(session) => Self::new(
                Kind::Held,
                format!(
                    "{} holds the owner; only its session writes it",
                    session.name
                ),
            ),
            Refusal::Fenced(by) => {
                let by = by
                    .as_ref()
                    .map_or("nobody".to_owned(), |session| session.name.clone());
                let error = Self::new(
                    Kind::Fenced,
                    format!("the session is not the owner's any more; {by} holds it"),
                );
                error.because(refusal)
            }
            Refusal::Grace(_) | Refusal::Unconfirmed(_) => {
                let message = "the hot tier was replaced, and the session is not confirmed yet";
                Self::new(Kind::HotUnavailable, message).because(refusal)
            }
            other => Self::new(Kind::Invalid, format!("refused: {other:?}")),
        }
    }

    fn because(self, refusal: &Refusal) -> Self {
        Self {
            refusal: Some(Box::new(refusal.clone())),
            ..self
        }
    }

    /// Why the hot tier refused the save of a session.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_deref()
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the write took place. For reads, always `NotApplied`.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether trying again makes sense.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.retry
    }

    /// Whose data it was about, if it was one owner's.
    #[must_use]
    pub fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// Whether the owner changed since it was read, or exists and should not.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.kind == Kind::Conflict
    }
}

impl From<NameError> for Error {
    fn from(error: NameError) -> Self {
        Self::new(Kind::Invalid, error.to_string())
    }
}

impl From<LimitError> for Error {
    fn from(error: LimitError) -> Self {
        Self::new(Kind::Invalid, error.to_string())
    }
}

impl From<HotError> for Error {
    fn from(error: HotError) -> Self {
        let kind = match &error.kind {
            HotKind::Interrupted | HotKind::NotReached => Kind::Timeout,
            HotKind::Durability => Kind::Durability,
            HotKind::OutOfMemory => Kind::OutOfMemory,
            HotKind::Policy => Kind::UnsafeEviction,
            HotKind::Settings => Kind::Invalid,
            HotKind::Denied => Kind::Denied,
            HotKind::Corrupt => Kind::Corrupt,
            _ => Kind::HotUnavailable,
        };
        Self::new(kind, error.to_string()).with_outcome(error.outcome)
    }
}

impl From<CodecError> for Error {
    fn from(error: CodecError) -> Self {
        let kind = match &error {
            CodecError::Encode { .. }
            | CodecError::Unreadable { .. }
            | CodecError::TooDeep { .. } => Kind::Invalid,
            _ => Kind::Corrupt,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<ColdError> for Error {
    fn from(error: ColdError) -> Self {
        let kind = match error.kind {
            ColdKind::Schema | ColdKind::Settings => Kind::Invalid,
            ColdKind::Operator => Kind::Denied,
            ColdKind::Unreadable => Kind::Corrupt,
            _ => Kind::ColdUnavailable,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<TierError> for Error {
    fn from(error: TierError) -> Self {
        match error {
            TierError::Hot(error) => error.into(),
            TierError::Cold(error) => error.into(),
            TierError::Refused { ref owner, .. } => {
                Self::new(Kind::Rejected, error.to_string()).of(&owner.clone())
            }
            TierError::Unpaired(ref why) => Self::new(Kind::Unpaired, why.to_string()),
            other => Self::new(Kind::Contended, other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_outcome_is_to_be_repeated_under_the_same_id_and_an_applied_write_never() {
        let error = |outcome| {
            Error::new(Kind::Timeout, "no answer")
                .with_outcome(outcome)
                .retry()
        };
        assert_eq!(error(Outcome::Unknown), Retry::SameId);
        assert_eq!(error(Outcome::Applied), Retry::Never);
        assert!(matches!(error(Outcome::NotApplied), Retry::After(_)));
    }

    #[test]
    fn what_an_operator_has_to_mend_is_not_asked_for_again_at_once() {
        let cold = |kind| {
            Error::from(ColdError {
                kind,
                operation: "load",
                message: "access denied".into(),
            })
        };
        assert_eq!(
            (
                cold(ColdKind::Operator).kind(),
                cold(ColdKind::Operator).retry()
            ),
            (Kind::Denied, Retry::After(MENDED))
        );
        assert_eq!(
            (
                cold(ColdKind::Unwell).kind(),
                cold(ColdKind::Unwell).retry()
            ),
            (Kind::ColdUnavailable, Retry::After(SOON))
        );
    }
}
