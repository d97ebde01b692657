//! One owner's data in the hot tier: how it is read, filled from the cold tier, and changed.

use storage_model::{Applied, Cell, Epoch, Field, Owner, Version};

use crate::Session;

/// Which fields a read asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fields {
    /// These, tombstones left out.
    Live(Vec<Field>),
    /// These, tombstones and purged fields included.
    Cells(Vec<Field>),
    /// All, tombstones and purged fields included.
    All,
    /// All, as with [`Fields::All`], but with empty values.
    Names,
}

/// A read of one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Whose fields.
    pub owner: Owner,
    /// Which fields.
    pub fields: Fields,
}

/// What an owner's hash says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// The version of the owner's last write.
    pub version: Version,
    /// The all-cached marker: every field that has a row is in the hash, so a field that is not
    /// there was never written.
    pub complete: bool,
    /// The generation the hash was written under.
    pub generation: Epoch,
    /// Whether that is lower than the partition's: the hot tier came back older since, so rows may
    /// be newer than this (R14).
    pub suspect: bool,
    /// A mark is of this hash if its version is at or above this one and not above
    /// [`Header::version`]; any other is of a hash that was lost (R6). Only a hash that was made
    /// while a map named its owner says so; of any other it is [`Version::ZERO`], as in the answer
    /// to a read of some live fields, which does not ask.
    pub born: Version,
}

/// What one atomic read of an owner's hash saw.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct HotRead {
    /// None if the owner has no hash: never written, or evicted after it landed.
    pub header: Option<Header>,
    /// The asked fields that the hash holds, in the order asked; by name if all were asked.
    pub cells: Vec<(Field, Cell)>,
}

/// The exist marker of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Marker {
    /// No marker: nothing is known of the owner, so only the cold tier can tell (R8).
    Unknown,
    /// The cold tier was asked a short while ago, and had no row.
    Absent,
    /// The owner has or had a hash, and this is the number of the one that was made last: no two
    /// have the same.
    At(Version),
}

impl Marker {
    /// The version, or [`Version::ZERO`] for an owner without a version.
    #[must_use]
    pub fn version(self) -> Version {
        match self {
            Self::At(version) => version,
            Self::Unknown | Self::Absent => Version::ZERO,
        }
    }
}

/// What a reader remembers before it asks the cold tier, so that what it brings back can be checked
/// (R7, R15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Observed {
    /// The owner's exist marker.
    pub marker: Marker,
    /// Whether the owner had a hash, looked at after the marker.
    pub present: bool,
    /// The epoch of the owner's partition.
    pub epoch: Epoch,
}

/// Rows brought back from the cold tier, with the proof that they may still be believed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Load {
    /// Whose rows.
    pub owner: Owner,
    /// What was observed before the cold tier was asked.
    pub observed: Observed,
    /// The rows: field, cell and the row's version.
    pub rows: Vec<(Field, Cell, Version)>,
    /// Whether these are all rows of the owner.
    pub complete: bool,
}

/// What became of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filled {
    /// The load was proved. This is the whole owner, rows and hash taken together; fields of the
    /// hash won.
    Accepted(HotRead),
    /// The owner or the epoch moved since it was observed. Observe and load again.
    Refused,
}

/// What became of a mutation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutated {
    /// All of it happened, now or when the same id was first applied.
    Applied(Applied),
    /// It builds on something that the hash does not hold. Nothing changed: load, and repeat with
    /// the load.
    Load(Observed),
    /// It must not happen. Nothing changed.
    Refused(Refusal),
}

/// Why a mutation must not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The deadline has passed in the hot tier's time.
    Expired,
    /// The partition was adopted since the mutation was sent. If the generation is the one of then,
    /// the hot tier still knows the ids of what landed, so a repeat is applied once; otherwise
    /// nobody can tell whether an earlier copy was applied.
    Moved {
        /// The epoch now.
        epoch: Epoch,
        /// The generation now.
        generation: Epoch,
    },
    /// The owner has another version than the condition names.
    Version(Version),
    /// A field is live that the condition wants absent.
    Exists(Field),
    /// The field to increment does not hold an integer of 64 bits in canonical decimal form.
    NotInteger(Field),
    /// The sum does not fit in 64 bits.
    Overflow(Field),
    /// A purge of an owner whose changes have not all landed, or are still on probation.
    NotLanded,
    /// A plain write of an owner that a session holds.
    Held(Box<Session>),
    /// A write of a session that is not the owner's, or no longer; the one that is, if there is
    /// one.
    Fenced(Option<Box<Session>>),
    /// A write of a session after the epoch became this one, and before its grace has ended.
    Grace(Epoch),
    /// A write of a session that was not confirmed in this epoch: claim it, and save on condition
    /// of the owner's version.
    Unconfirmed(Epoch),
}

/// What became of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evicted {
    /// The hash is gone, or was not there.
    Gone,
    /// The hash has unlanded marks, or marks on probation, and stays; it goes with the last of
    /// them.
    WhenLanded,
}
