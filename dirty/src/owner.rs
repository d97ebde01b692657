//! One owner's data in the hot tier: reading it, filling it from the cold tier, and changing it.

use storage_model::{Applied, Cell, Epoch, Field, Owner, Version};

use crate::Session;

/// The fields that a read asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fields {
    /// These fields, without tombstones.
    Live(Vec<Field>),
    /// These fields, with tombstones and purged fields.
    Cells(Vec<Field>),
    /// All fields, with tombstones and purged fields.
    All,
    /// As [`Fields::All`], but with empty values.
    Names,
}

/// A read of one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// The owner.
    pub owner: Owner,
    /// The requested fields.
    pub fields: Fields,
}

/// The header of an owner's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// The version of the owner's last write.
    pub version: Version,
    /// The all-cached marker: the hash holds every field that has a row. So a field that is not
    /// there was never written.
    pub complete: bool,
    /// The generation under which the hash was written.
    pub generation: Epoch,
    /// Whether that generation is lower than the partition's. Then the hot tier came back older
    /// since, and rows may be newer than the hash (R14).
    pub suspect: bool,
    /// A mark belongs to this hash if its version is at or above this one and not above
    /// [`Header::version`]. Any other mark belongs to a hash that was lost (R6).
    ///
    /// Only a hash that was made while a map named its owner has this version. For any other hash
    /// it is [`Version::ZERO`]. It is also [`Version::ZERO`] in a read of some live fields, which
    /// does not ask for it.
    pub born: Version,
}

/// The result of one atomic read of an owner's hash.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct HotRead {
    /// `None` if the owner has no hash: never written, or evicted after it landed.
    pub header: Option<Header>,
    /// The requested fields that the hash holds, in the order of the request. They are sorted by
    /// name if all fields were requested.
    pub cells: Vec<(Field, Cell)>,
}

/// The exist marker of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Marker {
    /// No marker. Nothing is known of the owner, so only the cold tier can tell (R8).
    Unknown,
    /// The cold tier was asked a short while ago and had no row.
    Absent,
    /// The owner has or had a hash. This is the number of the hash that was made last. No two
    /// hashes have the same number.
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

/// The state of an owner before the cold tier is asked. It proves later that the loaded rows are
/// still valid (R7, R15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Observed {
    /// The owner's exist marker.
    pub marker: Marker,
    /// Whether the owner had a hash. The hash is checked after the marker.
    pub present: bool,
    /// The epoch of the owner's partition.
    pub epoch: Epoch,
}

/// Rows loaded from the cold tier, with the observation that proves them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Load {
    /// The owner of the rows.
    pub owner: Owner,
    /// The observation from before the cold tier was asked.
    pub observed: Observed,
    /// The rows: field, cell and the row's version.
    pub rows: Vec<(Field, Cell, Version)>,
    /// Whether these are all rows of the owner.
    pub complete: bool,
}

/// The result of a fill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filled {
    /// The load was proved. This is the whole owner, rows and hash taken together. Fields of the
    /// hash win.
    Accepted(HotRead),
    /// The owner or the epoch changed since the observation. Observe and load again.
    Refused,
}

/// The result of a mutation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutated {
    /// All changes happened, now or when the same id was first applied.
    Applied(Applied),
    /// The mutation builds on a value that the hash does not hold. Nothing changed. Load, and
    /// repeat with the load.
    Load(Observed),
    /// The mutation is rejected. Nothing changed.
    Refused(Refusal),
}

/// Why a mutation is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The deadline has passed, by the hot tier's clock.
    Expired,
    /// The partition was adopted since the mutation was sent. If the generation is still the same,
    /// the hot tier still knows the ids of landed writes, and a repeat is applied once. Otherwise
    /// nobody can tell whether an earlier copy was applied.
    Moved {
        /// The epoch now.
        epoch: Epoch,
        /// The generation now.
        generation: Epoch,
    },
    /// The owner has this version, and the condition names another one.
    Version(Version),
    /// This field is live, and the condition requires that it is not.
    Exists(Field),
    /// The field to increment does not hold an integer of 64 bits in canonical decimal form.
    NotInteger(Field),
    /// The sum does not fit in 64 bits.
    Overflow(Field),
    /// A purge before all changes of the owner have landed and ended their probation.
    NotLanded,
    /// A plain write of an owner that a session holds.
    Held(Box<Session>),
    /// A write of a session that does not hold the owner, or no longer does. The session that does,
    /// if there is one.
    Fenced(Option<Box<Session>>),
    /// A write of a session after the epoch became this one, before the grace of the epoch has
    /// ended.
    Grace(Epoch),
    /// A write of a session that was not confirmed in this epoch. Claim the session, and save on
    /// condition of the owner's version.
    Unconfirmed(Epoch),
}

/// The result of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evicted {
    /// The hash is gone, or was not there.
    Gone,
    /// The hash stays. It has unlanded marks or marks on probation, or a session holds the owner.
    /// It goes with the last of these.
    WhenLanded,
}
