//! A write and its result.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Durability, Epoch, Fence, Field, OpId, Owner, Position, Timestamp, Version};

/// The change of one field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Change {
    /// The field gets this value, and a tombstone is cleared. The old value is never needed.
    Set(Bytes),
    /// The field's integer grows by this much. A field that was never written or was removed starts
    /// at 0.
    Incr(i64),
    /// As [`Change::Incr`], but the whole mutation is rejected if the sum is below `floor` or above
    /// `ceiling`.
    Add {
        /// How much the integer grows.
        by: i64,
        /// The least sum.
        floor: i64,
        /// The greatest sum.
        ceiling: i64,
    },
    /// The field becomes a tombstone. A field that is not live stays as it is.
    Remove,
    /// A tombstone becomes live again with its last value. Any other field stays as it is.
    Restore,
    /// A tombstone gives up its last value for ever. Any other field stays as it is.
    Purge,
}

impl Change {
    /// Whether the change gives the field an integer, which the reply names.
    #[must_use]
    pub fn is_counter(&self) -> bool {
        matches!(self, Self::Incr(_) | Self::Add { .. })
    }
}

/// The condition of a mutation. If it does not hold, the mutation changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Condition {
    /// No condition.
    #[default]
    None,
    /// The owner has this version. [`Version::ZERO`] stands for an owner that was never written.
    Version(Version),
    /// None of the named fields is live.
    Absent,
}

/// Which copy of a mutation this is, and whether a caller keeps the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Attempt {
    /// The first copy. Only its store knows the id.
    First,
    /// A later copy from the store that sent the first one, because an earlier outcome is unknown.
    /// Only this store knows the id.
    Retry,
    /// A copy under an id that a caller keeps. Any process may have sent an earlier copy.
    #[default]
    Named,
}

impl Attempt {
    /// Whether the caller keeps the id. The hot tier must remember such an id.
    #[must_use]
    pub fn is_named(self) -> bool {
        self == Self::Named
    }
}

/// A write: all of its changes happen, or none. It changes one owner, or several owners of one
/// partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mutation {
    /// The owner of the fields.
    pub owner: Owner,
    /// The changes, sorted by the names of the fields. No field occurs twice. See
    /// [`Mutation::new`].
    pub changes: Arc<[(Field, Change)]>,
    /// The condition under which the mutation is applied.
    pub condition: Condition,
    /// The hot tier recognises a repeat by this id, if the caller named the mutation or if it went
    /// alone. The repeat changes nothing and gets the first reply. The store tells all other
    /// mutations apart by the numbers of its calls.
    pub id: OpId,
    /// Which copy this is, and whether the caller keeps the id.
    pub attempt: Attempt,
    /// The hot tier rejects the mutation from this moment on, by its own clock.
    pub deadline: Timestamp,
    /// The hot tier's epoch when this copy is sent. After an adoption the hot tier rejects the
    /// copy, because it may have forgotten the id of the copy and all later writes. `None` skips
    /// the check.
    pub epoch: Option<Epoch>,
    /// The session that writes. The write fails if the owner has another session by then. `None` is
    /// a plain write. It fails if a session holds the owner.
    pub fence: Option<Fence>,
    /// Whether this is the last write of the session. The owner is free after it.
    pub closes: bool,
    /// How safe the hot tier must have the mutation before it answers. The hot tier knows nothing
    /// of the database, so it treats `Landed` as `Cached`.
    pub durability: Durability,
    /// Fields that must have this value, or must not be live (`None`). Sorted by name. If one
    /// differs, nothing changes.
    pub expected: Vec<(Field, Option<Bytes>)>,
    /// The body of the note that the write leaves in the feed, in the same step. A part that changes
    /// nothing leaves no note.
    pub note: Option<Bytes>,
    /// Further owners of the same partition that change in the same step. Each has its own changes,
    /// condition, expected fields, session and note. All else is as in this mutation. See
    /// [`Mutation::with`].
    pub also: Vec<Mutation>,
}

/// The most owners of one mutation.
pub const OWNERS_MAX: usize = 16;

impl Mutation {
    /// A mutation without a condition. Sorts the changes. If a field occurs twice, the later change
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
            attempt: Attempt::Named,
            deadline,
            epoch: None,
            fence: None,
            closes: false,
            durability: Durability::Cached,
            expected: Vec::new(),
            note: None,
            also: Vec::new(),
        }
    }

    /// The same mutation with the changes of further owners. All happen in one step, or none. The
    /// caller makes sure that no owner occurs twice, and that all are of one partition.
    #[must_use]
    pub fn with(mut self, also: Vec<Mutation>) -> Self {
        self.also = also;
        self
    }

    /// The mutation's part of each owner.
    pub fn parts(&self) -> impl Iterator<Item = &Mutation> {
        std::iter::once(self).chain(&self.also)
    }

    /// How many fields all parts change.
    #[must_use]
    pub fn fields(&self) -> usize {
        self.parts().map(|part| part.changes.len()).sum()
    }

    /// The same mutation, if these fields have these values (`None`: if they are not live).
    #[must_use]
    pub fn expecting(mut self, mut fields: Vec<(Field, Option<Bytes>)>) -> Self {
        fields.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.expected = fields;
        self
    }

    /// The same mutation, with a note of this body in the feed.
    #[must_use]
    pub fn noting(mut self, body: Bytes) -> Self {
        self.note = Some(body);
        self
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

    /// The same mutation, acknowledged at this durability.
    #[must_use]
    pub fn as_safe_as(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }
}

/// The result of an applied mutation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Applied {
    /// The owner's version after the mutation. It stays the same if no field changed.
    pub version: Version,
    /// The number of changed fields.
    pub changed: u32,
    /// The new values of the incremented fields, in the order of the mutation's changes.
    pub counters: Vec<i64>,
    /// The place of the write's note in the feed. `None` without a note, and without a change.
    pub position: Option<Position>,
    /// The results of the mutation's further owners, in their order.
    pub also: Vec<Applied>,
}
