//! Writes: what they change, under which condition, and how safe they must be before they are
//! acknowledged.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use storage_model::{
    Attempt, Change, Condition, Durability, Field, Mutation, OpId, Owner, Version,
};

use crate::bulk::Changes;
use crate::core::Core;
use crate::{Ack, ByteOwner, Counters, Error, Kind, Result};

/// A write that is sent when it is awaited. All of its changes happen, or none.
///
/// One round trip when the owner is hot, or when it only sets fields without a condition. While the
/// answer is lost it is repeated under the same id, until its deadline; it is applied at most once.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let storage = storage_sdk::Storage::embedded(folder.path().join("game.db")).await?;
/// # let ann = storage.scope("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
/// use std::time::Duration;
/// use storage_sdk::{Durability, Kind, Outcome, Safety};
///
/// let gift = || ann.update([("gold", "100")]).if_absent(); // however often: once
/// gift().await?;
/// assert!(gift().await.unwrap_err().is_conflict());
///
/// let seen = ann.get(["gold"]).await?;
/// let landed = Durability::Landed { timeout: Duration::from_secs(10) };
/// let ack = ann.update([("gold", "90"), ("sword", "1")]).if_version(seen.version()).durability(landed).await?;
/// assert_eq!((ack.changed(), ack.durability()), (2, Safety::Landed));
///
/// let late = ann.update([("gold", "50")]).if_version(seen.version()).await.unwrap_err();
/// assert_eq!((late.kind(), late.outcome()), (Kind::Conflict, Outcome::NotApplied));
/// # Ok(()) }
/// ```
///
/// # Limits
/// A field's name has 1 to 255 bytes of UTF-8, without control characters. A value is 0 bytes to 1
/// MiB of anything (`limits.value_bytes_max`, at most half of the database's `max_allowed_packet`);
/// a call names 1 to 1,000 fields (`limits.fields_max`) and sets up to 8 MiB of values
/// (`limits.call_bytes_max`). Of two values for one field the later one in the list counts alone.
///
/// # Errors
/// What was found impossible when the write was made is told when it is awaited, and so is all
/// else, as a [`Kind`]:
/// - `Invalid`: it breaks a limit, or its deadline or durability is impossible;
/// - `Conflict`: its condition does not hold. `NotInteger` and `Overflow`: see [`ByteOwner::incr`].
///   `NotLanded`: see [`ByteOwner::purge`];
/// - `Overloaded`, `OutOfMemory`, `UnsafeEviction`, `Durability`: it is refused while things are
///   so. `Closed`: by [`Storage::close`](crate::Storage::close);
/// - `HotUnavailable`, `Timeout`, `Denied`, `Corrupt`: the hot tier did not answer in time, or not
///   as it should;
/// - `ColdUnavailable`, `Denied`, `Contended`: the owner had to be loaded first, and the database
///   is away, or refuses what an operator has to mend, or others kept writing the owner;
/// - with the outcome `Applied`, a `Timeout` or what [`ByteOwner::flush`] fails with: it is
///   written, but not yet as safe as it is to be.
///
/// The [`Outcome`](crate::Outcome) tells whether it was applied, [`Error::retry`] what makes sense
/// next. The outcome is `Unknown` if the answer was still lost at the deadline: with
/// [`Retry::SameId`](crate::Retry::SameId) a repeat of the same write [`with_id`](Write::with_id)
/// tells whether it was applied, or applies it; with [`Retry::Reread`](crate::Retry::Reread) the
/// hot tier has forgotten the id, and only a read tells.
///
/// # Cancel safety
/// Dropped before it is awaited, nothing happens. Dropped while it is awaited, it may or may not be
/// applied, whole.
#[must_use = "a write is sent when it is awaited"]
#[derive(Debug, Clone)]
pub struct Write<T = Ack> {
    core: Arc<Core>,
    owner: Owner,
    changes: Changes,
    condition: Condition,
    durability: Durability,
    deadline: Duration,
    id: Option<OpId>,
    attempt: Attempt,
    answer: fn(Ack, Vec<Field>) -> T,
}

pub(crate) fn plain(ack: Ack, _: Vec<Field>) -> Ack {
    ack
}

pub(crate) fn counters(ack: Ack, fields: Vec<Field>) -> Counters {
    Counters { ack, fields }
}

impl<T> Write<T> {
    pub(crate) fn new(
        core: &Arc<Core>,
        owner: &ByteOwner,
        changes: Changes,
        answer: fn(Ack, Vec<Field>) -> T,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            owner: owner.owner().clone(),
            changes,
            condition: Condition::None,
            durability: owner.default_durability(),
            deadline: core.deadline,
            id: None,
            attempt: Attempt::First,
            answer,
        }
    }

    /// Only if the owner's version still is this one; otherwise the write fails as a conflict. 0 is
    /// the version of an owner that was never written. Takes the place of [`Write::if_absent`].
    pub fn if_version(mut self, version: Version) -> Self {
        self.condition = Condition::Version(version);
        self
    }

    /// Only if none of the named fields is live; otherwise the write fails as a conflict. Takes the
    /// place of [`Write::if_version`].
    pub fn if_absent(mut self) -> Self {
        self.condition = Condition::Absent;
        self
    }

    /// How safe the write must be before it is acknowledged. Default: that of the owner's logic
    /// type, as the settings, the [builder](crate::StorageBuilder::durability) or the [object's
    /// type](crate::SaveObject::DURABILITY) have it; else `durability.default`, which is
    /// [`Durability::Cached`] unless set.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// For how long the write is repeated while its answer is lost; after it no copy of it is
    /// applied any more. More than 0 and at most 30 s. Default: `hot.operation_deadline`, 5 s.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sends the write under this id: if a write of the owner with it was applied within its
    /// deadline, be it this one or another, nothing happens and this one gets that one's answer. A
    /// refusal, such as a conflict, says what holds now: a copy of an earlier call under the id
    /// that is still on its way may find something else, until that call's deadline. A hot tier
    /// that came back older has forgotten the id: a process asks for
    /// [`Retry::Reread`](crate::Retry::Reread) where that may have befallen one of its last
    /// thousand calls that ended unknown or were dropped; another process can't know, and its
    /// repeat may be applied on top of what had landed. Such a write may be slowed down, but is
    /// never refused as `Overloaded`.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let storage = storage_sdk::Storage::embedded(folder.path().join("game.db")).await?;
    /// # let ann = storage.scope("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// let id = storage.next_id();
    /// let first = ann.incr("gold", 5).with_new_id(id).await?;
    /// let again = ann.incr("gold", 5).with_id(id).await?; // as if the first answer had been lost
    /// assert_eq!((again.value(), again == first), (5, true));
    /// # Ok(()) }
    /// ```
    pub fn with_id(mut self, id: OpId) -> Self {
        (self.id, self.attempt) = (Some(id), Attempt::RetryNamed);
        self
    }

    /// Sends the write under an id from [`Storage::next_id`](crate::Storage::next_id) under which
    /// none was sent before, for a caller that keeps it to repeat the write
    /// [`with_id`](Write::with_id). Under an id that was used, the write may be applied a second
    /// time.
    pub fn with_new_id(mut self, id: OpId) -> Self {
        (self.id, self.attempt) = (Some(id), Attempt::FirstNamed);
        self
    }

    /// Refuses what is not possible, and waits if writes are to be slowed down; answers how much of
    /// the deadline is left.
    async fn admitted(&self) -> Result<Duration> {
        let Self {
            core,
            owner,
            changes,
            deadline,
            attempt,
            ..
        } = self;
        let possible = changes
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|_| check_deadline(*deadline));
        possible.map_err(|error| error.of(owner))?;
        if core.check_open().is_err() {
            // It is refused when it is about to be sent, with what is known of an earlier call. A
            // brake that nobody looks after any more must not come before that.
            return Ok(*deadline);
        }
        core.brake
            .admit(*deadline, *attempt == Attempt::RetryNamed)
            .await
            .map_err(|error| error.of(owner))
    }

    /// What is sent, and the fields that are added to.
    fn mutation(self, left: Duration) -> Result<(Mutation, Vec<Field>)> {
        let Self {
            core,
            owner,
            changes,
            condition,
            durability,
            id,
            attempt,
            ..
        } = self;
        let id = id.unwrap_or_else(|| core.ids.next());
        let mutation = Mutation::new(owner, changes?, id, core.expiry(left)).as_attempt(attempt);
        let incremented = mutation
            .changes
            .iter()
            .filter(|(_, change)| matches!(change, Change::Incr(_)));
        let fields = incremented.map(|(field, _)| field.clone()).collect();
        Ok((mutation.when(condition).as_safe_as(durability), fields))
    }
}

/// The longest deadline: ids are remembered for twice as long.
pub(crate) const DEADLINE_MAX: Duration = Duration::from_secs(30);

pub(crate) fn check_deadline(deadline: Duration) -> Result<()> {
    if deadline.is_zero() || deadline > DEADLINE_MAX {
        let message = format!(
            "a deadline of {deadline:?} is not possible; it is more than 0 and at most {DEADLINE_MAX:?}"
        );
        return Err(Error::new(Kind::Invalid, message));
    }
    Ok(())
}

impl<T: Send + 'static> IntoFuture for Write<T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        // A block and not a function, whose future would hold its arguments twice: each write asks
        // for the room.
        Box::pin(async move {
            let left = self.admitted().await?;
            let (core, answer) = (Arc::clone(&self.core), self.answer);
            let (mutation, fields) = self.mutation(left)?;
            let ack = core.write(mutation, left).await?;
            Ok(answer(ack, fields))
        })
    }
}
