//! Many writes of many owners in one call.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use storage_model::{Attempt, Bytes, Change, Durability, Field, Mutation, Owner};

use crate::byte::{incrs, sets};
use crate::core::Shared;
use crate::{Ack, ByteOwner, Error, Result, Value};

/// The changes of a write, or the reason why it can't be sent.
pub(crate) type Changes = Result<Vec<(Field, Change)>>;

/// Many writes, which are sent together when this is awaited. It returns one result for each write,
/// in the order of their addition.
///
/// Each write is atomic, and the bulk is not. Two writes of one owner in a bulk may be applied in
/// either order. Each write has the limits of a [`Write`](crate::Write) and the deadline of the
/// settings. The number of writes has no limit. No write has a condition or an id of the caller, so
/// send a write that may need a retry by itself.
///
/// ```
/// # storage_doc::with_bytes(async |bytes| {
/// use storage_sdk::Kind;
/// let (ann, bo) = (bytes.owner("player", 1_u64)?, bytes.owner("player", 2_u64)?);
/// ann.update([("name", "Ann")]).await?;
/// let results = bytes.bulk().incr(&ann, "name", 1).update(&bo, [("level", "7")]).await;
/// assert_eq!(results[0].as_ref().unwrap_err().kind(), Kind::NotInteger); // a name is no counter
/// assert_eq!(results[1].as_ref().map(|ack| ack.changed()), Ok(1));
/// # Ok(()) });
/// ```
///
/// # Errors
/// Each result fails as [`Write`](crate::Write).
///
/// # Cancel safety
/// If the bulk is dropped before it is awaited, nothing happens. If it is dropped while it is
/// awaited, each write may or may not be applied.
#[must_use = "a bulk is sent when it is awaited"]
#[derive(Debug, Clone)]
pub struct Bulk {
    core: Shared,
    writes: Vec<BulkWrite>,
    durability: Option<Durability>,
}

/// A write of a bulk.
#[derive(Debug, Clone)]
struct BulkWrite {
    owner: Owner,
    changes: Changes,
    note: Option<Bytes>,
    durability: Durability,
}

impl Bulk {
    pub(crate) fn new(core: &Shared) -> Self {
        Self {
            core: Arc::clone(core),
            writes: Vec::new(),
            durability: None,
        }
    }

    fn add(mut self, owner: &ByteOwner, changes: Changes) -> Self {
        self.writes.push(BulkWrite {
            owner: owner.owner().clone(),
            changes,
            note: None,
            durability: owner.default_durability(),
        });
        self
    }

    /// Sets fields of an owner, all of them or none.
    pub fn update<F: AsRef<str>, V: Into<Value>>(
        self,
        owner: &ByteOwner,
        fields: impl IntoIterator<Item = (F, V)>,
    ) -> Self {
        self.add(owner, sets(fields))
    }

    /// Adds to the integer in a field of an owner, as [`ByteOwner::incr`]. The result does not
    /// contain the new value.
    pub fn incr(self, owner: &ByteOwner, field: &str, by: i64) -> Self {
        self.add(owner, incrs([(field, by)]))
    }

    /// Removes a field of an owner.
    ///
    /// ```
    /// # storage_doc::with_bytes(async |bytes| {
    /// let (ann, bo) = (bytes.owner("player", 1_u64)?, bytes.owner("player", 2_u64)?);
    /// bytes.bulk().update(&ann, [("guild", "red")]).update(&bo, [("guild", "red")]).await;
    /// let left = bytes.bulk().remove(&ann, "guild").remove(&bo, "guild").await; // the guild is disbanded
    /// assert!(left.iter().flatten().all(|ack| ack.changed() == 1));
    /// # Ok(()) });
    /// ```
    pub fn remove(self, owner: &ByteOwner, field: &str) -> Self {
        let changes = Field::new(field)
            .map(|field| vec![(field, Change::Remove)])
            .map_err(Error::from);
        self.add(owner, changes)
    }

    /// Leaves a note of this body in the [feed](crate::feed) with the write that was added last, in
    /// the same step; see [`Write::note`](crate::Write::note). Without a write, there is no note.
    ///
    /// ```
    /// # storage_doc::with_bytes(async |bytes| {
    /// let (ann, bo) = (bytes.owner("player", 1_u64)?, bytes.owner("player", 2_u64)?);
    /// let acks = bytes.bulk().incr(&ann, "gold", 5).note("a prize").incr(&bo, "gold", 1).await;
    /// let has_note: Vec<_> = acks.iter().flatten().map(|ack| ack.position().is_some()).collect();
    /// assert_eq!(has_note, [true, false]);
    /// # Ok(()) });
    /// ```
    pub fn note(mut self, body: impl Into<Value>) -> Self {
        if let Some(last) = self.writes.last_mut() {
            last.note = Some(body.into().into_bytes());
        }
        self
    }

    /// How safe each write must be before it is acknowledged. Default: as
    /// [`Write::durability`](crate::Write::durability).
    ///
    /// ```
    /// # storage_doc::with_bytes(async |bytes| {
    /// use std::time::Duration;
    /// use storage_sdk::{Durability, Safety};
    /// let players = [bytes.owner("player", 1_u64)?, bytes.owner("player", 2_u64)?];
    /// let landed = Durability::Landed { timeout: Duration::from_secs(10) };
    /// let bulk = players.iter().fold(bytes.bulk(), |bulk, player| bulk.incr(player, "gems", 10));
    /// assert!(bulk.durability(landed).await.iter().flatten().all(|ack| ack.durability() == Safety::Landed));
    /// # Ok(()) });
    /// ```
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    async fn send(self) -> Vec<Result<Ack>> {
        let Self {
            core,
            writes,
            durability,
        } = self;
        let admitted = match core.check_open() {
            Ok(()) => core.backpressure.admit(core.deadline, false).await,
            Err(closed) => Err(closed),
        };
        let left = match admitted {
            Ok(left) => left,
            Err(error) => {
                return writes
                    .iter()
                    .map(|one| Err(error.clone().of(&one.owner)))
                    .collect();
            }
        };
        let deadline = core.expiry(left);
        let mutation = |one: BulkWrite| {
            let changes = one.changes.map_err(|error| error.of(&one.owner))?;
            let mut mutation = Mutation::new(one.owner, changes, core.ids.next(), deadline)
                .as_attempt(Attempt::First);
            mutation.note = one.note;
            Ok(mutation.as_safe_as(durability.unwrap_or(one.durability)))
        };
        core.write_many(writes.into_iter().map(mutation), left)
            .await
    }
}

impl IntoFuture for Bulk {
    type Output = Vec<Result<Ack>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
