//! One owner's data in the hot tier: reading it, filling it from the cold tier, and changing it.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use storage_model::{Applied, Cell, Epoch, Evicted, Field, Mutation, Owner, Position, Version};

use crate::{HotError, Session};

/// The fields that a read asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    /// The place of the owner's last note, as far as the hash knows. [`Position::ZERO`] if it knows
    /// none, and in a read of some live fields. A worker reads the place of a later gap that tells
    /// the note.
    pub noted: Position,
}

impl Header {
    /// With the place of the gap that tells the notes of a hot tier that came back older than the
    /// feed.
    pub(crate) fn told_by(&mut self, gap: Option<Position>) {
        if self.noted > Position::ZERO {
            self.noted = gap.map_or(self.noted, |gap| gap.max(self.noted));
        }
    }
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

/// The exist marker of an owner, with its number. A marker may vanish at any moment. No number is
/// given twice in an epoch, so a marker that vanished never comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Marker {
    /// Nothing is known of the owner, so only the cold tier can tell (R8). An observation found no
    /// marker and set this one.
    Unknown(Version),
    /// The cold tier was asked a short while ago and had no row.
    Absent(Version),
    /// The owner has or had a hash. This is the number of the hash that was made last.
    At(Version),
    /// No marker, and no room for one. This is the version source of the partition. While it stays,
    /// no hash is made.
    Missing(Version),
}

impl Marker {
    /// The number of the last hash, or [`Version::ZERO`] if none is known.
    #[must_use]
    pub fn version(self) -> Version {
        match self {
            Self::At(version) => version,
            Self::Unknown(_) | Self::Absent(_) | Self::Missing(_) => Version::ZERO,
        }
    }

    /// Whether only the cold tier can tell if the owner exists (R8).
    #[must_use]
    pub fn is_unknown(self) -> bool {
        matches!(self, Self::Unknown(_) | Self::Missing(_))
    }

    /// Whether the cold tier had no row a short while ago.
    #[must_use]
    pub fn is_absent(self) -> bool {
        matches!(self, Self::Absent(_))
    }

    /// The number, whatever it tells.
    pub(crate) fn number(self) -> Version {
        match self {
            Self::Unknown(number)
            | Self::Absent(number)
            | Self::At(number)
            | Self::Missing(number) => number,
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
    /// The sum is below the floor or above the ceiling of the change.
    OutOfBounds {
        /// The field.
        field: Field,
        /// Its present integer.
        value: i64,
    },
    /// This field has another value than the expected one.
    Differs(Field),
    /// The part of a further owner of the mutation is rejected.
    Partner {
        /// Which one: [`Mutation::also`] at this place, counted from 1.
        at: usize,
        /// Why.
        refusal: Box<Refusal>,
    },
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

/// Owners: their hashes, exist markers, and the right to load them from the cold tier.
///
/// The calls keep the rules of [`Hot`](crate::Hot).
#[async_trait]
pub trait Owners: fmt::Debug + Send + Sync {
    /// Reads hashes as they are. Never waits for the cold tier, never writes.
    async fn read(&self, reads: &[Read]) -> Vec<Result<HotRead, HotError>>;

    /// Applies mutations, each with the loads that it builds on, if it needs some.
    ///
    /// A mutation can change several owners of a partition. Then all below holds for each of them,
    /// and for all together: everything is validated first, and all owners that change get the same
    /// version. Their marks lead to each other, so that they land together (G1).
    ///
    /// All of this happens in one step, after everything was validated:
    ///
    /// - The mutation gets a version. It is at least the hot tier's time, and greater than every
    ///   version of the owner and of earlier calls of the partition.
    /// - The fields change, and the owner's version is raised to the new one.
    /// - The changed fields join the owner's mark in the dirty map.
    /// - The note of the mutation joins the stream of the partition, and the hash remembers its
    ///   place. A part that changes nothing leaves no note. See [`Feed`](crate::Feed).
    /// - The reply is remembered for a repeat.
    /// - The hash loses its time to live.
    ///
    /// A hash that the step creates has this version as its number in the exist marker. The hash is
    /// complete only if the owner is known to have no rows, or if the load brought all rows. If a
    /// map names an owner without a hash, the new hash says so
    /// ([`Header::born`](crate::Header::born)). A mark in the dirty map is then put aside under a
    /// name of its own, for the worker to report (R6).
    ///
    /// A load is used under the same conditions as in [`Owners::fill`]. If a needed load is
    /// missing or not proved, the answer is [`Mutated::Load`].
    ///
    /// A repeat under an id that its caller keeps gets the answer of the first copy, within the
    /// deadline and after any number of other writes. Other writes are repeated by the store that
    /// sent them first ([`Attempt`](storage_model::Attempt)).
    ///
    /// Only the session that holds an owner can write it. See [`Sessions`](crate::Sessions).
    ///
    /// A mutation that asks for more than `Cached` is acknowledged only when it is that safe, also
    /// if an earlier copy applied it. If the durability can't be had, the mutation fails before
    /// anything is written (`Durability`). If it takes too long, the mutation fails as applied
    /// (`NotReached`).
    async fn mutate(&self, mutations: &[(Mutation, Vec<Load>)]) -> Vec<Result<Mutated, HotError>>;

    /// The markers and epochs to remember before the cold tier is asked. Fails as `Unprepared`
    /// under another incarnation, if the engine has noticed that incarnation as a read would. An
    /// observation under an unnoticed incarnation proves nothing (see [`Owners::fill`]). `Absent`
    /// can be as old as a read can be. The parts of an observation can be of different moments. A
    /// load that this could make stale is rejected.
    async fn observe(&self, owners: &[Owner]) -> Vec<Result<Observed, HotError>>;

    /// Takes the right to load owners from the cold tier, for `ttl`. Returns which rights it got. A
    /// right only saves work of the cold tier. A load is proved by its fill, with or without the
    /// right.
    async fn lease(&self, owners: &[Owner], ttl: Duration) -> Vec<Result<bool, HotError>>;

    /// Returns the right to load owners.
    async fn release(&self, owners: &[Owner]) -> Result<(), HotError>;

    /// Writes loads that can be proved. Epoch and marker must still be those observed, and there
    /// must be a hash if and only if there was one. Then no hash was made since, and a hash that
    /// was there holds all later writes. So its fields win, tombstones included.
    ///
    /// A hash that the fill creates is clean. It has the highest version of the rows, or the
    /// marker's if there are none. It has a number of its own in the marker, and the time to live
    /// of landed data. An owner without rows and without a marker is remembered as absent for a
    /// short time.
    ///
    /// At the memory limit nothing is written, but the load is still proved or rejected.
    async fn fill(&self, loads: &[Load]) -> Vec<Result<Filled, HotError>>;

    /// Whether a map names each owner, because a change has not landed, was rejected, or is on
    /// probation. If no map names an owner, all of it that was read before the call has landed. If
    /// an epoch is given, fails under another epoch or incarnation.
    async fn marked(&self, owners: &[Owner], epoch: Option<Epoch>) -> Vec<Result<bool, HotError>>;

    /// Drops hashes after all their changes have landed. Other hashes go once no map names their
    /// owner and no session holds it.
    async fn evict(&self, owners: &[Owner]) -> Vec<Result<Evicted, HotError>>;

    /// Restores the full time to live of hashes that have one. Never gives one to a hash without.
    async fn refresh_ttl(&self, owners: &[Owner]) -> Result<(), HotError>;
}
