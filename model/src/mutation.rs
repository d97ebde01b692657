//! What a write asks for and what it did.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Durability, Epoch, Fence, Field, OpId, Owner, Timestamp, Version};

/// What happens to one field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Change {
    /// The field gets this value; a tombstone is cleared. Never needs the old value.
    Set(Bytes),
    /// The field's integer grows by this much. A field that was never written or was removed starts
    /// at 0.
    Incr(i64),
    /// The field becomes a tombstone. Nothing happens to a field that is not live.
    Remove,
    /// A tombstone becomes live again with its last value. Nothing happens to any other field.
    Restore,
    /// A tombstone gives up its last value for ever. Nothing happens to any other field.
    Purge,
}

/// What must hold for a mutation to be applied; otherwise it changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Condition {
    /// Nothing.
    #[default]
    None,
    /// The owner's version is this one; [`Version::ZERO`] for an owner that was never written.
    Version(Version),
    /// None of the named fields is live.
    Absent,
}

/// Which copy of a mutation this is, and whether its caller keeps its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Attempt {
    /// The first copy. Nobody but its store knows the id.
    First,
    /// Another copy, from the store that sent the first, whose outcome is unknown. Nobody else
    /// knows the id.
    Retry,
    /// The first copy. The caller keeps the id, and may repeat the mutation from any process.
    FirstNamed,
    /// A copy under an id that a caller kept: another one may have been sent before.
    #[default]
    RetryNamed,
}

impl Attempt {
    /// Whether a caller keeps the id, so that the hot tier must remember it.
    #[must_use]
    pub fn is_named(self) -> bool {
        matches!(self, Self::FirstNamed | Self::RetryNamed)
    }
}

/// A write of one owner: all of its changes happen, or none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mutation {
    /// Whose fields change.
    pub owner: Owner,
    /// The fields and what happens to them. Each field at most once, in the order of their names;
    /// see [`Mutation::new`].
    pub changes: Arc<[(Field, Change)]>,
    /// What must hold.
    pub condition: Condition,
    /// By this a repeat of a mutation is recognised that its caller named, or that went alone: it
    /// changes nothing again and gets the first reply. Others are told apart by their store.
    pub id: OpId,
    /// Which copy this is, and who knows the id.
    pub attempt: Attempt,
    /// From this moment on, in the hot tier's time, the mutation is refused.
    pub deadline: Timestamp,
    /// The hot tier's epoch when this copy is sent. After an adoption it is refused: what it would
    /// be applied to may have forgotten its id, and what came after it. None: nobody asks.
    pub epoch: Option<Epoch>,
    /// The session that writes; refused if the owner has another one by then. None: a plain write,
    /// refused if a session holds the owner.
    pub fence: Option<Fence>,
    /// Whether it is the session's last write: the owner is free after it.
    pub closes: bool,
    /// How safe the hot tier is to have it before it answers. Of the database it knows nothing:
    /// `Landed` is `Cached` there.
    pub durability: Durability,
}

impl Mutation {
    /// A mutation without condition. Sorts the changes; of two changes of one field the later one
    /// in the list counts.
    #[must_use]
    pub fn new(owner: Owner, changes: Vec<(Field, Change)>, id: OpId, deadline: Timestamp) -> Self {
        let sorted = changes.is_sorted_by(|(one, _), (next, _)| one < next);
        let changes = if sorted {
            changes.into()
        } else {
            BTreeMap::from_iter(changes).into_iter().collect()
        };
        Self {
            owner,
            changes,
            condition: Condition::None,
            id,
            attempt: Attempt::RetryNamed,
            deadline,
            epoch: None,
            fence: None,
            closes: false,
            durability: Durability::Cached,
        }
    }

    /// The same mutation under a condition.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.condition = condition;
        self
    }

    /// The same mutation, as this copy of it.
    #[must_use]
    pub fn as_attempt(mut self, attempt: Attempt) -> Self {
        self.attempt = attempt;
        self
    }

    /// The same mutation, sent in this epoch of the hot tier.
    #[must_use]
    pub fn sent_in(mut self, epoch: Epoch) -> Self {
        self.epoch = Some(epoch);
        self
    }

    /// The same mutation, by this session.
    #[must_use]
    pub fn by(mut self, fence: Fence) -> Self {
        self.fence = Some(fence);
        self
    }

    /// The same mutation, as the last of its session.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.closes = true;
        self
    }

    /// The same mutation, answered when it is so safe.
    #[must_use]
    pub fn as_safe_as(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }
}

/// What an applied mutation did.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Applied {
    /// The owner's version after it. Unchanged if no field changed.
    pub version: Version,
    /// How many fields changed.
    pub changed: u32,
    /// The new values of the incremented fields, in the order of the mutation's changes.
    pub counters: Vec<i64>,
}
