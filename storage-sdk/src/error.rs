//! Errors, by the possible reactions of a caller.

use std::fmt;
use std::time::Duration;

use storage_dirty::{HotError, HotKind, Refusal};
use storage_model::{Change, Field, LimitError, Mutation, NameError, Outcome, Owner, Retry};
use storage_sql::{ColdError, ColdKind};
use storage_tiers::TierError;

use crate::codec::CodecError;

/// A result of the SDK.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of a failure, by the possible reaction of a caller.
///
/// ```
/// # storage_doc::with_player(async |ann| {
/// use storage_sdk::Kind;
/// let answer = match ann.transaction(|part| part.add_within("gold", -90, 0..)).await {
///     Ok(_) => "sold",
///     Err(error) => match error.kind() {
///         Kind::OutOfBounds => "you have not enough gold",
///         Kind::Overloaded | Kind::HotUnavailable | Kind::Timeout => "the shop is closed; come back later",
///         _ => return Err(error.into()),
///     },
/// };
/// assert_eq!(answer, "you have not enough gold");
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A name, value or call breaks a limit. Or a setting can't work, such as an unknown host or a
    /// file in no folder. Nothing was sent.
    Invalid,
    /// The owner has another version than the write expects, a field exists that must not, or a
    /// field has another value than a transaction expects.
    Conflict,
    /// A field to increment, or to read as a number, does not hold a 64-bit integer.
    NotInteger,
    /// The sum of a counter does not fit in 64 bits.
    Overflow,
    /// The sum of a counter is below the floor or above the ceiling of its change. The message names
    /// the present value.
    OutOfBounds,
    /// A purge of an owner with changes that have not all landed, landed just now, or are still on
    /// probation (`landing.probation`). After the last write of the owner, a worker clears its
    /// marks within two passes.
    NotLanded,
    /// A session holds the owner, so only this session can write it. The message names the holder.
    Held,
    /// The session is lost. Another session took the owner, or another writer changed it after the
    /// session had lapsed. The session saves nothing any more. Read the owner in another session.
    Fenced,
    /// The session has ended, or is ending.
    Closing,
    /// The hot tier is away. Or it lacks landed data or is blank, and waits until nobody uses another
    /// one any more. The message names that one.
    HotUnavailable,
    /// The hot tier has no memory left. Reads and landing go on. Writes succeed again once landed
    /// data was evicted.
    OutOfMemory,
    /// More is written than lands, or the memory of the hot tier is nearly full. Writes fail until
    /// the workers catch up, or until an operator follows the advice of the message. Reads and
    /// landing go on.
    Overloaded,
    /// The eviction policy of the hot tier may drop unlanded data, so writes fail.
    UnsafeEviction,
    /// The durability of the write is not available: too few replicas follow the server, or the
    /// server has no disk to wait for. Nothing was written. A durability that is not reached in
    /// time is a `Timeout` with the outcome `Applied`.
    Durability,
    /// The cold tier is away, and the call needed it.
    ColdUnavailable,
    /// The database rejects a value. The value stays in the hot tier.
    Rejected,
    /// No answer in time.
    Timeout,
    /// A tier denies the call until an operator acts. Examples are a wrong user, password, right or
    /// certificate, a missing database or table, or a full disk.
    Denied,
    /// No program of this kind wrote the stored bytes, or they were altered.
    Corrupt,
    /// A newer program wrote the object, with a schema version or a format that this program does not
    /// know. Nothing is wrong with the data. Update this program. Until then, use the object on
    /// servers of the newer release.
    TooNew,
    /// The hot tier and the database do not belong together. Another hot tier took over, or the
    /// settings name a wrong tier. Nothing was written. An operator has to act.
    Unpaired,
    /// A reader of the feed stands before events that were dropped for their age, so it has missed
    /// some. Read the data again, and begin with a new cursor.
    CursorTooOld,
    /// The cursor of a reader of the feed is of another database. Or the database was replaced by an
    /// older copy, and its feed does not reach the cursor, or went on from before it. Read the data
    /// again, and begin with a new cursor.
    CursorForeign,
    /// Other callers changed the same owner at each attempt.
    Contended,
    /// The storage was closed, before or during the call. Every further call fails like this, at
    /// once.
    Closed,
}

/// A failure: its kind, the outcome of the write, and the advice for a retry.
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
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    outcome: Outcome,
    retry: Retry,
    owner: Option<Owner>,
    message: String,
    /// The rejection by the hot tier, from which a session continues.
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

/// For people, because a program whose `main` returns an error prints this: the text, and in brackets
/// kind, outcome and advice.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            outcome,
            retry,
            ..
        } = self;
        write!(f, "{self} [{kind:?}, {outcome:?}, retry: {retry:?}]")
    }
}

/// The pause before a retry, after a failure that passes by itself.
const SOON: Duration = Duration::from_millis(200);
/// The pause before a retry, after a failure that needs an operator.
const MENDED: Duration = Duration::from_mins(1);

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        let retry = match kind {
            Kind::HotUnavailable
            | Kind::ColdUnavailable
            | Kind::OutOfMemory
            | Kind::Timeout
            | Kind::Contended
            | Kind::Overloaded
            | Kind::Held => Retry::After(SOON),
            Kind::UnsafeEviction | Kind::Durability | Kind::Denied => Retry::After(MENDED),
            Kind::Conflict
            | Kind::OutOfBounds
            | Kind::NotLanded
            | Kind::Fenced
            | Kind::CursorTooOld
            | Kind::CursorForeign => Retry::Reread,
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

    /// A write is rejected because too much waits to be landed. `soon` is the time until the next
    /// look at the backlog.
    pub(crate) fn overloaded(message: impl Into<String>, soon: Duration) -> Self {
        Self {
            retry: Retry::After(soon),
            ..Self::new(Kind::Overloaded, message)
        }
    }

    pub(crate) fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        match outcome {
            // These give all calls the same advice.
            Outcome::Unknown if matches!(self.kind, Kind::Closed | Kind::Unpaired) => {}
            // Without the id, a retry could apply the write a second time.
            Outcome::Unknown => self.retry = Retry::SameId,
            Outcome::Applied => self.retry = Retry::Never,
            Outcome::NotApplied => {}
        }
        self
    }

    /// The failure of a write under an id that the caller keeps, before the hot tier has looked for the
    /// id. An earlier call may have applied the write. The advice stays, so that a loop that obeys it
    /// waits.
    pub(crate) fn before_a_look(mut self) -> Self {
        self.outcome = Outcome::Unknown;
        self
    }

    /// The hot tier that may have applied the write is gone, and its replacement has older data.
    pub(crate) fn forgotten() -> Self {
        let message = "the hot tier came back with older data and can't tell whether the write was applied; read the owner, then decide";
        Self::new(Kind::HotUnavailable, message)
    }

    /// The same error, for a storage that was closed during the call. The known outcome stays.
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

    /// The same error. The caller must read before it decides.
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
                format!("the owner has version {version} now; read it again"),
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
            Refusal::OutOfBounds { field, value } => {
                let message = format!(
                    "field {:?} holds {value}, and the sum is out of its bounds",
                    field.as_str()
                );
                Self::new(Kind::OutOfBounds, message).because(refusal)
            }
            Refusal::Differs(field) => {
                let message = format!(
                    "field {:?} has another value; read it again",
                    field.as_str()
                );
                Self::new(Kind::Conflict, message).because(refusal)
            }
            // Keeps the place of the owner, whose name the caller of this knows.
            Refusal::Partner {
                refusal: reason, ..
            } => Self::refused(reason).because(refusal),
            Refusal::NotLanded => Self::new(
                Kind::NotLanded,
                "the owner has changes that workers have not landed and cleared yet; retry the purge after landing.interval",
            ),
            Refusal::Held(session) => Self::new(
                Kind::Held,
                format!(
                    "{} holds the owner, and only its session can write it; wait for its end, or start a session",
                    session.name
                ),
            ),
            Refusal::Fenced(by) => {
                let by = by
                    .as_ref()
                    .map_or("nobody".to_owned(), |session| session.name.clone());
                let error = Self::new(
                    Kind::Fenced,
                    format!("the session is lost, and {by} holds the owner; start another one"),
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

    /// The same error, in words of the part of the write that was refused.
    pub(crate) fn explained(self, part: &Mutation) -> Self {
        let reason = match self.refusal() {
            Some(Refusal::Partner { refusal, .. }) => refusal.as_ref(),
            Some(refusal) => refusal,
            None => return self,
        };
        let message = match reason {
            Refusal::OutOfBounds { field, value } => out_of_bounds(part, field, *value),
            Refusal::Differs(field) => is_there(part, field),
            _ => None,
        };
        match message {
            Some(message) => Self { message, ..self },
            None => self,
        }
    }

    fn because(self, refusal: &Refusal) -> Self {
        Self {
            refusal: Some(Box::new(refusal.clone())),
            ..self
        }
    }

    /// The place of the owner of a mutation whose part failed.
    pub(crate) fn part(&self) -> usize {
        match self.refusal() {
            Some(Refusal::Partner { at, .. }) => *at,
            _ => 0,
        }
    }

    /// The reason why the hot tier rejected the save of a session.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_deref()
    }

    /// The kind of the failure.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the write was applied. Always `NotApplied` for reads.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// use storage_sdk::Outcome;
    /// let told = match ann.incr("gold", -90).await {
    ///     Ok(_) => "sold",
    ///     Err(error) => match error.outcome() {
    ///         Outcome::NotApplied => "nothing happened",
    ///         Outcome::Applied => "sold, and not yet as safe as you wanted",
    ///         Outcome::Unknown => "wait", // and retry under the same id
    ///     },
    /// };
    /// assert_eq!(told, "sold");
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether a retry makes sense.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// use storage_sdk::Retry;
    /// ann.update([("level", "7")]).if_absent().await?;
    /// let error = ann.update([("level", "1")]).if_absent().await.unwrap_err();
    /// assert_eq!(error.retry(), Retry::Reread); // the player is not new
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.retry
    }

    /// The owner of the call, if the call was about one owner.
    #[must_use]
    pub fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// Whether the owner has another version than the write expects, or a field exists that must
    /// not.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.kind == Kind::Conflict
    }
}

/// The bound that a sum breaks.
fn out_of_bounds(part: &Mutation, field: &Field, value: i64) -> Option<String> {
    let change = part.changes.iter().find(|(name, _)| name == field);
    let Some((_, Change::Add { by, floor, ceiling })) = change else {
        return None;
    };
    let sum = i128::from(value) + i128::from(*by);
    let bound = if sum < i128::from(*floor) {
        format!("below the floor of {floor}")
    } else {
        format!("above the ceiling of {ceiling}")
    };
    Some(format!(
        "field {:?} holds {value}, and a change of {by:+} makes {sum}, {bound}",
        field.as_str()
    ))
}

/// A field exists that must not.
fn is_there(part: &Mutation, field: &Field) -> Option<String> {
    let expected = part.expected.iter().find(|(name, _)| name == field);
    let is_missing = expected.is_some_and(|(_, value)| value.is_none());
    is_missing.then(|| {
        format!(
            "field {:?} exists, and the write expects it not to; read it again",
            field.as_str()
        )
    })
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
            HotKind::Backlog => Kind::Overloaded,
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
            CodecError::SchemaTooNew { .. }
            | CodecError::Format { .. }
            | CodecError::Codec { .. }
            | CodecError::Compression { .. } => Kind::TooNew,
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

impl Error {
    /// The failure of both tiers together. No `From`, since a caller of the SDK never meets that type.
    pub(crate) fn of_tiers(error: TierError) -> Self {
        match error {
            TierError::Hot(error) => error.into(),
            TierError::Cold(error) => error.into(),
            TierError::Refused { ref owner, .. } => {
                Self::new(Kind::Rejected, error.to_string()).of(&owner.clone())
            }
            TierError::TooLarge {
                ref owner,
                ref size,
            } => Self::new(
                Kind::Invalid,
                format!(
                    "the call needs {size}: ask for fewer fields at once, split the owner, or raise the setting"
                ),
            )
            .of(&owner.clone()),
            TierError::Unreadable { ref owner } => {
                Self::new(Kind::HotUnavailable, error.to_string()).of(&owner.clone())
            }
            TierError::Behind(ref why) => Self::new(Kind::HotUnavailable, why.to_string()),
            TierError::Unpaired(ref why) => Self::new(Kind::Unpaired, why.to_string()),
            other => Self::new(Kind::Contended, other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_a_program_ends_with_is_printed_for_people() {
        let owner = Owner::new("game", "eu", "player", "42").unwrap();
        let error = Error::new(
            Kind::NotInteger,
            "field \"gold\" does not hold a 64-bit integer",
        );
        let error: Box<dyn std::error::Error> = error.of(&owner).into();
        let printed = format!("{error:?}");
        assert!(
            printed.ends_with(
                ": field \"gold\" does not hold a 64-bit integer [NotInteger, NotApplied, retry: Never]"
            ),
            "{printed}"
        );
        assert!(
            printed.contains("player") && printed.contains("42"),
            "{printed}"
        );
    }

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
    fn an_owner_with_too_much_to_land_takes_writes_later() {
        let backlog = HotError::not_applied(HotKind::Backlog, "update", "retry later");
        let error = Error::from(backlog);
        assert_eq!(
            (error.kind(), error.retry()),
            (Kind::Overloaded, Retry::After(SOON))
        );
    }

    #[test]
    fn a_failure_before_a_look_for_the_id_is_unknown_and_a_loop_that_obeys_its_advice_waits() {
        let denied = Error::new(Kind::Denied, "the user may not run EVALSHA").before_a_look();
        assert_eq!(
            (denied.outcome(), denied.retry()),
            (Outcome::Unknown, Retry::After(MENDED))
        );
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
