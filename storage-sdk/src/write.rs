//! Writes: what they change, under which condition, and how safe they must be before they are acknowledged.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use storage_model::{Change, Condition, Durability, Field, Known, Mutation, OpId, Owner, Version};

use crate::bulk::Changes;
use crate::core::Core;
use crate::{Ack, ByteOwner, Counters, Error, Kind, Result};

/// A write that is sent when it is awaited. All of its changes happen, or none.
///
/// One round trip when the owner is hot, or when it only sets fields without a condition. While the answer is lost it is repeated
/// under the same id, until its deadline; it is applied at most once.
///
/// # Errors
/// Any [`Kind`] but `Closed` means what its text says. The [`Outcome`](crate::Outcome) is `Unknown` if the answer was still lost at the deadline: then a
/// repeat of the same write [`with_id`](Write::with_id) tells whether it was applied, or applies it.
///
/// # Cancel safety
/// Dropped before it is awaited, nothing happens. Dropped while it is awaited, it may or may not be applied, whole.
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
    known: Known,
    answer: fn(Ack, Vec<Field>) -> T,
}

pub(crate) fn plain(ack: Ack, _: Vec<Field>) -> Ack {
    ack
}

pub(crate) fn counters(ack: Ack, fields: Vec<Field>) -> Counters {
    Counters { ack, fields }
}

impl<T> Write<T> {
    pub(crate) fn new(core: &Arc<Core>, owner: &ByteOwner, changes: Changes, answer: fn(Ack, Vec<Field>) -> T) -> Self {
        Self {
            core: Arc::clone(core),
            owner: owner.owner().clone(),
            changes,
            condition: Condition::None,
            durability: owner.default_durability(),
            deadline: core.deadline,
            id: None,
            known: Known::Nobody,
            answer,
        }
    }

    /// Only if the owner's version still is this one; otherwise the write fails as a conflict. 0 is the version of an owner that
    /// was never written.
    pub fn if_version(mut self, version: Version) -> Self {
        self.condition = Condition::Version(version);
        self
    }

    /// Only if none of the named fields is live; otherwise the write fails as a conflict.
    pub fn if_absent(mut self) -> Self {
        self.condition = Condition::Absent;
        self
    }

    /// How safe the write must be before it is acknowledged. Default: that of the owner's logic type, as the settings, the
    /// [builder](crate::StorageBuilder::durability) or the [object's type](crate::SaveObject::DURABILITY) have it; else
    /// [`Durability::Cached`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// For how long the write is repeated while its answer is lost; after it no copy of it is applied any more. At most 30 s.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sends the write under this id: if a write with it was applied within its deadline, nothing happens again and this one gets
    /// that one's answer. A refusal, such as a conflict, says what holds now: a copy of an earlier call under the id that is still on
    /// its way may find something else, until that call's deadline. A hot tier that came back older has forgotten the id, and the write may
    /// then be applied on top of what had landed of it: read first if [`Retry::Reread`](crate::Retry::Reread) was asked for.
    pub fn with_id(mut self, id: OpId) -> Self {
        (self.id, self.known) = (Some(id), Known::Sent);
        self
    }

    /// Sends the write under an id from [`Storage::next_id`](crate::Storage::next_id) under which none was sent before, for a caller that
    /// keeps it to repeat the write [`with_id`](Write::with_id). Under an id that was used, the write may be applied a second time.
    pub fn with_new_id(mut self, id: OpId) -> Self {
        (self.id, self.known) = (Some(id), Known::Caller);
        self
    }

    /// Refuses what is not possible, and waits if writes are to be slowed down; answers how much of the deadline is left.
    async fn admitted(&self) -> Result<Duration> {
        let Self { core, owner, changes, deadline, id, .. } = self;
        let possible = changes.as_ref().map_err(Clone::clone).and_then(|_| check_deadline(*deadline));
        possible.map_err(|error| error.of(owner))?;
        core.brake.admit(*deadline, id.is_some()).await.map_err(|error| error.of(owner))
    }

    /// What is sent, and the fields that are added to.
    fn mutation(self, left: Duration) -> Result<(Mutation, Vec<Field>)> {
        let Self { core, owner, changes, condition, durability, id, known, .. } = self;
        let id = id.unwrap_or_else(|| core.ids.next());
        let mutation = Mutation::new(owner, changes?, id, core.expiry(left)).known_to(known);
        let incremented = mutation.changes.iter().filter(|(_, change)| matches!(change, Change::Incr(_)));
        let fields = incremented.map(|(field, _)| field.clone()).collect();
        Ok((mutation.when(condition).as_safe_as(durability), fields))
    }
}

/// The longest deadline: ids are remembered for twice as long.
const DEADLINE_MAX: Duration = Duration::from_secs(30);

fn check_deadline(deadline: Duration) -> Result<()> {
    if deadline.is_zero() || deadline > DEADLINE_MAX {
        let message = format!("a deadline of {deadline:?} is not possible; it is more than 0 and at most {DEADLINE_MAX:?}");
        return Err(Error::new(Kind::Invalid, message));
    }
    Ok(())
}

impl<T: Send + 'static> IntoFuture for Write<T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        // A block and not a function, whose future would hold its arguments twice: each write asks for the room.
        Box::pin(async move {
            let left = self.admitted().await?;
            let (core, answer) = (Arc::clone(&self.core), self.answer);
            let (mutation, fields) = self.mutation(left)?;
            let ack = core.write(mutation, left).await?;
            Ok(answer(ack, fields))
        })
    }
}
