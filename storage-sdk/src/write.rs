//! Writes, with their changes, their condition and their durability.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use storage_model::{
    Bytes, Change, Condition, DEADLINE_MAX, Durability, Field, Mutation, OpId, Owner, Version,
};

use crate::bulk::Changes;
use crate::core::Shared;
use crate::{Ack, ByteOwner, Counters, Error, Kind, Result, Value};

/// A write, which is sent when it is awaited. All of its changes happen, or none.
///
/// A write takes one round trip if its owner is hot, and also if the owner is cold and the write
/// only sets fields, without a condition. If the answer is lost, the SDK retries the write until
/// its deadline. The write is applied at most once.
///
/// ```
/// # storage_doc::with_player(async |ann| {
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
/// # Ok(()) });
/// ```
///
/// # Limits
/// A field's name has 1 to 255 bytes of UTF-8, without control characters. A value has 0 bytes to 1
/// MiB of anything (`limits.value_bytes_max`), and at most half of the database's
/// `max_allowed_packet`. A call names 1 to 1,000 fields (`limits.fields_max`), and sets up to 8 MiB
/// of values (`limits.call_bytes_max`). If a call sets a field twice, the later value counts.
///
/// # Errors
/// All errors appear when the write is awaited, even those of an impossible argument. The [`Kind`]
/// tells the cause:
/// - `Invalid`: the write breaks a limit, or its deadline or durability is impossible.
/// - `Conflict`: the condition does not hold.
/// - `NotInteger` and `Overflow`: see [`ByteOwner::incr`].
/// - `NotLanded`: see [`ByteOwner::purge`].
/// - `Held`: a session holds the owner. See [`Sessions`](crate::Sessions).
/// - `Overloaded`, `OutOfMemory`, `UnsafeEviction`, `Durability`, `Unpaired`: the state of the
///   tiers does not allow the write.
/// - `Closed`: the storage was closed; see [`Storage::close`](crate::Storage::close).
/// - `HotUnavailable`, `Timeout`, `Denied`, `Corrupt`: the hot tier gave no valid answer in time.
/// - `ColdUnavailable`, `Denied`, `Contended`: the SDK had to load the owner first. The database is
///   away, an operator has to repair something, or concurrent writes of the owner did not stop.
/// - With the outcome `Applied`, a `Timeout` or an error of [`ByteOwner::flush`]: the write is
///   applied, but not yet as safe as its durability asks for.
///
/// The [`Outcome`](crate::Outcome) tells whether the write was applied, and [`Error::retry`] tells
/// the next step. If the answer is still lost at the deadline, the outcome is `Unknown`:
/// - [`Retry::SameId`](crate::Retry::SameId): retry the same write by
///   [`id`](Write::id). The retry tells whether the write was applied, or applies it.
/// - [`Retry::Reread`](crate::Retry::Reread): the hot tier has forgotten the id. Only a read tells
///   whether the write was applied.
///
/// # Cancel safety
/// If the write is dropped before it is awaited, nothing happens. If it is dropped while it is
/// awaited, it may or may not be applied, as a whole.
#[must_use = "a write is sent when it is awaited"]
#[derive(Debug, Clone)]
pub struct Write<T = Ack> {
    core: Shared,
    owner: Owner,
    changes: Changes,
    condition: Condition,
    note: Option<Bytes>,
    durability: Durability,
    deadline: Duration,
    id: Option<OpId>,
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
        core: &Shared,
        owner: &ByteOwner,
        changes: Changes,
        answer: fn(Ack, Vec<Field>) -> T,
    ) -> Self {
        Self {
            core: Arc::clone(core),
            owner: owner.owner().clone(),
            changes,
            condition: Condition::None,
            note: None,
            durability: owner.default_durability(),
            deadline: core.deadline,
            id: None,
            answer,
        }
    }

    /// Writes only if the owner still has this version. Otherwise the write fails as a conflict. 0
    /// is the version of an owner that was never written. Replaces [`Write::if_absent`].
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// ann.update([("offer", "sword for 90")]).await?;
    /// let seen = ann.get(["offer"]).await?; // another server changes the offer meanwhile
    /// ann.update([("offer", "sword for 900")]).await?;
    /// let accept = ann.update([("sold", "1")]).if_version(seen.version()).await;
    /// assert!(accept.unwrap_err().is_conflict()); // so read again, and ask again
    /// # Ok(()) });
    /// ```
    pub fn if_version(mut self, version: Version) -> Self {
        self.condition = Condition::Version(version);
        self
    }

    /// Writes only if none of the named fields is live. Otherwise the write fails as a conflict.
    /// Replaces [`Write::if_version`].
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// ann.update([("name", "Ann")]).if_absent().await?;
    /// let again = ann.update([("name", "Bo"), ("level", "1")]).if_absent().await;
    /// assert!(again.unwrap_err().is_conflict());
    /// assert_eq!(ann.get(["level"]).await?["level"], None); // nothing of it was written
    /// # Ok(()) });
    /// ```
    pub fn if_absent(mut self) -> Self {
        self.condition = Condition::Absent;
        self
    }

    /// Leaves a note of this body in the [feed](crate::feed), in the same step. A write that changes
    /// nothing leaves none. The body has 0 bytes to `limits.value_bytes_max`.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// let ack = ann.incr("gold", 50).note("sold a sword").await?;
    /// assert!(ack.ack().position().is_some()); // where followers find the note
    /// assert_eq!(ann.remove(["title"]).note("lost a title").await?.position(), None); // there was no title
    /// # Ok(()) });
    /// ```
    pub fn note(mut self, body: impl Into<Value>) -> Self {
        self.note = Some(body.into().into_bytes());
        self
    }

    /// How safe the write must be before it is acknowledged. The first of these defaults counts:
    /// - the owner's logic type in the settings or the [builder](crate::StorageBuilder::durability)
    /// - the [type of the object](crate::SaveObject::DURABILITY)
    /// - `durability.default` in the settings, which is [`Durability::Cached`] unless set
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// use std::time::Duration;
    /// use storage_sdk::{Durability, Safety};
    /// let landed = Durability::Landed { timeout: Duration::from_secs(10) };
    /// let bought = ann.incr("gems", 500).durability(landed).await?; // for real money
    /// let moved = ann.update([("x", 3), ("y", 4)]).await?;
    /// assert_eq!((bought.ack().durability(), moved.durability()), (Safety::Landed, Safety::Cached));
    /// # Ok(()) });
    /// ```
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// The time for retries while the answer is lost. After the deadline the hot tier applies no
    /// copy of the write any more. More than 0 and at most 30 s. Default: `hot.operation_deadline`,
    /// 5 s.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// use std::time::Duration;
    /// use storage_sdk::Kind;
    /// ann.update([("x", 3)]).deadline(Duration::from_secs(2)).await?; // stale afterwards anyway
    /// let endless = ann.update([("x", 3)]).deadline(Duration::from_secs(3_600)).await;
    /// assert_eq!(endless.unwrap_err().kind(), Kind::Invalid);
    /// # Ok(()) });
    /// ```
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sends the write under this id, which the caller keeps, from
    /// [`Storage::next_id`](crate::Storage::next_id). The same call under the same id is the retry.
    /// If a write of the owner with this id was applied, the retry changes nothing and returns the
    /// first answer. The hot tier remembers an id for at least 30 seconds. Another write under the id of
    /// an applied one gets that answer, too, as a success, and is not applied: keep the id beside the
    /// exact call.
    ///
    /// Such a write can be a retry. Until the hot tier has looked for the id, the outcome of a failure
    /// is `Unknown`, since an earlier call may have applied the write. Back-pressure may delay such a
    /// write, but never fails it as `Overloaded`.
    ///
    /// A rejection, such as a conflict, describes the present. A copy of an earlier call under the
    /// id can still arrive until the deadline of that call, and can find another state.
    ///
    /// A hot tier that came back with older data has forgotten the id. This process remembers its
    /// last 1,000 writes that ended unknown or were dropped, and returns
    /// [`Retry::Reread`](crate::Retry::Reread) for their retries. Another process can't know that
    /// the id is forgotten. Its retry may apply the write a second time, on top of the landed row.
    ///
    /// ```
    /// # storage_doc::with_storage(async |storage| {
    /// let ann = storage.world("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// let id = storage.next_id();
    /// let first = ann.incr("gold", 5).id(id).await?;
    /// let again = ann.incr("gold", 5).id(id).await?; // as if the first answer had been lost
    /// assert_eq!((again.value(), again == first), (5, true));
    /// # Ok(()) });
    /// ```
    pub fn id(mut self, id: OpId) -> Self {
        self.id = Some(id);
        self
    }

    /// Rejects an impossible write, and waits under back-pressure. Returns the rest of the
    /// deadline.
    async fn admitted(&self) -> Result<Duration> {
        let Self {
            core,
            owner,
            changes,
            deadline,
            id,
            ..
        } = self;
        let possible = changes
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|_| check_deadline(*deadline));
        possible.map_err(|error| error.of(owner))?;
        core.admit(*deadline, *id)
            .await
            .map_err(|error| error.of(owner))
    }

    /// The mutation to send, and its incremented fields.
    fn mutation(self, left: Duration) -> Result<(Mutation, Vec<Field>)> {
        let Self {
            core,
            owner,
            changes,
            condition,
            note,
            durability,
            id,
            ..
        } = self;
        let (id, attempt) = core.id_and_attempt(id);
        let mut mutation =
            Mutation::new(owner, changes?, id, core.expiry(left)).as_attempt(attempt);
        mutation.note = note;
        let incremented = mutation
            .changes
            .iter()
            .filter(|(_, change)| matches!(change, Change::Incr(_)));
        let fields = incremented.map(|(field, _)| field.clone()).collect();
        Ok((mutation.when(condition).as_safe_as(durability), fields))
    }
}

pub(crate) fn check_deadline(deadline: Duration) -> Result<()> {
    if deadline.is_zero() || deadline > DEADLINE_MAX {
        let message = format!(
            "deadline is {deadline:?}; it must be more than 0 and at most {DEADLINE_MAX:?}"
        );
        return Err(Error::new(Kind::Invalid, message));
    }
    Ok(())
}

impl<T: Send + 'static> IntoFuture for Write<T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        // A block, because the future of a function would hold its arguments twice. Every write
        // allocates this future.
        Box::pin(async move {
            let left = self.admitted().await?;
            let (core, answer) = (Arc::clone(&self.core), self.answer);
            let (mutation, fields) = self.mutation(left)?;
            let ack = core.write(mutation, left).await?;
            Ok(answer(ack, fields))
        })
    }
}
