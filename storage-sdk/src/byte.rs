//! ByteStorage: bytes per field.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use storage_dirty::Evicted;
use storage_model::{Change, Durability, Field, Owner, Scope, Version};
use storage_tiers::Flushed;

use crate::bulk::{Bulk, Changes};
use crate::core::Core;
use crate::owners::OwnerPages;
use crate::write::{counters, plain};
use crate::{Ack, Counters, Error, Kind, OwnerId, Record, Result, Value, Write};

/// Bytes per field, of the owners of one world. Cheap to clone.
///
/// A read of many owners is not one moment of them, and takes any number of them.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let storage = storage_sdk::Storage::embedded(folder.path().join("game.db")).await?;
/// # let bytes = storage.scope("mygame", "eu-1")?.bytes();
/// let (ann, bo) = (bytes.owner("player", 1_u64)?, bytes.owner("player", 2_u64)?);
/// bo.update([("level", "7")]).await?;
/// let levels: Vec<_> = bytes.get_many([&ann, &bo], ["level"]).await.into_iter().collect::<Result<_, _>>()?;
/// assert_eq!((levels[0].get("level"), levels[1].get("level")), (None, Some(&"7".into())));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct ByteStorage {
    pub(crate) core: Arc<Core>,
    pub(crate) scope: Scope,
}

/// The fields of one owner. Cheap to clone.
///
/// A write changes all fields that it names or none, a read finds them as they are at one moment.
/// See [`Write`](Write#limits) for the limits of both.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let storage = storage_sdk::Storage::embedded(folder.path().join("game.db")).await?;
/// # let bytes = storage.scope("mygame", "eu-1")?.bytes();
/// let ann = bytes.owner("player", 42_u64)?;
/// ann.update([("name", "Ann"), ("title", "Baroness")]).await?;
/// assert_eq!(ann.incr("gold", 5).await?.value(), 5);
///
/// ann.remove(["title"]).await?;
/// assert_eq!(ann.get(["title"]).await?.get("title"), None);
/// ann.restore(["title"]).await?;
/// assert_eq!(ann.get(["title"]).await?.get("title"), Some(&"Baroness".into()));
///
/// assert_eq!((ann.delete_owner().await?, ann.exists().await?), (3, false));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct ByteOwner {
    core: Arc<Core>,
    owner: Owner,
    /// What its writes wait for, unless they say otherwise.
    durability: Durability,
}

/// Conflicts after which the deletion of an owner gives up.
const DELETE_TRIES: u32 = 64;

impl ByteStorage {
    /// An owner, by logic type (1 to 64 bytes) and id (1 to 255 bytes). Nothing is read or made.
    ///
    /// # Errors
    /// `Invalid`: a name is empty, too long or holds a control character.
    pub fn owner(&self, logic_type: &str, id: impl OwnerId) -> Result<ByteOwner> {
        self.owner_with(logic_type, id, None)
    }

    /// An owner whose Rust type says what writes wait for, if nothing nearer does.
    pub(crate) fn owner_with(
        &self,
        logic_type: &str,
        id: impl OwnerId,
        derived: Option<Durability>,
    ) -> Result<ByteOwner> {
        let owner = self.scope.owner(logic_type, &id.to_owner_id())?;
        let durability = self.core.durability.of(&owner, derived);
        Ok(ByteOwner {
            core: Arc::clone(&self.core),
            owner,
            durability,
        })
    }

    /// Many writes of many owners, sent together.
    pub fn bulk(&self) -> Bulk {
        Bulk::new(&self.core)
    }

    /// Reads the same fields of many owners: results in the order asked, one for each. One round
    /// trip if all are hot.
    ///
    /// # Errors
    /// Each result as [`ByteOwner::get`].
    ///
    /// # Cancel safety
    /// Nothing is lost; loads under way go on.
    pub async fn get_many<'a>(
        &self,
        owners: impl IntoIterator<Item = &'a ByteOwner>,
        fields: impl IntoIterator<Item = &str>,
    ) -> Vec<Result<Record>> {
        let owners = owners_of(owners);
        match names(fields) {
            Ok(fields) => self.core.read_many(&owners, Some(&fields)).await,
            Err(error) => owners
                .iter()
                .map(|owner| Err(error.clone().of(owner)))
                .collect(),
        }
    }

    /// Reads all fields of many owners: results in the order asked, one for each. One round trip if
    /// all are hot.
    ///
    /// # Errors
    /// Each result as [`ByteOwner::get_all`].
    ///
    /// # Cancel safety
    /// Nothing is lost; loads under way go on.
    pub async fn get_all_many<'a>(
        &self,
        owners: impl IntoIterator<Item = &'a ByteOwner>,
    ) -> Vec<Result<Record>> {
        self.core.read_many(&owners_of(owners), None).await
    }

    /// Brings owners into the hot tier, at login or boot: results in the order given, with each
    /// owner's version, 0 if it was never written.
    ///
    /// An owner of more rows than `hot.load_rows_max` (4,096 by default) is read but not kept.
    ///
    /// # Errors
    /// Each result as [`ByteOwner::get_all`].
    ///
    /// # Cancel safety
    /// Nothing is lost; loads under way go on.
    pub async fn prefetch<'a>(
        &self,
        owners: impl IntoIterator<Item = &'a ByteOwner>,
    ) -> Vec<Result<Version>> {
        self.core.versions(&owners_of(owners)).await
    }

    /// Lists the owners of a logic type that have at least one live field, unlanded ones included,
    /// in key order; see [`OwnerPages`].
    ///
    /// The list is not one moment: owners that are written or removed meanwhile may or may not be
    /// in it. This call reads the marks of all unlanded owners and keeps the names of those of the
    /// type.
    ///
    /// # Errors
    /// `Invalid`: the name is impossible. Otherwise the hot tier is away.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn owners(&self, logic_type: &str) -> Result<OwnerPages> {
        self.scope.owner(logic_type, "-")?;
        OwnerPages::open(
            &self.core,
            Some((self.scope.clone(), logic_type.to_owned())),
        )
        .await
    }
}

fn owners_of<'a>(owners: impl IntoIterator<Item = &'a ByteOwner>) -> Vec<Owner> {
    owners
        .into_iter()
        .map(|owner| owner.owner.clone())
        .collect()
}

/// All items, or the first error. Unlike `collect` it makes room for them at once, since every call
/// of several fields comes by here.
fn all<T>(items: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    const ROOM_MAX: usize = 64; // the hint is the caller's word
    let mut list = Vec::with_capacity(items.size_hint().0.min(ROOM_MAX));
    for item in items {
        list.push(item?);
    }
    Ok(list)
}

fn names<'a>(fields: impl IntoIterator<Item = &'a str>) -> Result<Vec<Field>> {
    let mut fields = all(fields.into_iter().map(|field| Ok(Field::new(field)?)))?;
    fields.sort();
    fields.dedup();
    Ok(fields)
}

fn changes<'a>(fields: impl IntoIterator<Item = &'a str>, change: &Change) -> Changes {
    Ok(names(fields)?
        .into_iter()
        .map(|field| (field, change.clone()))
        .collect())
}

pub(crate) fn sets<F: AsRef<str>, V: Into<Value>>(
    fields: impl IntoIterator<Item = (F, V)>,
) -> Changes {
    all(fields.into_iter().map(|(field, value)| {
        Ok((
            Field::new(field.as_ref())?,
            Change::Set(value.into().into_bytes()),
        ))
    }))
}

pub(crate) fn incrs<F: AsRef<str>>(fields: impl IntoIterator<Item = (F, i64)>) -> Changes {
    let change = |(field, by): (F, i64)| Ok((Field::new(field.as_ref())?, Change::Incr(by)));
    let changes = all(fields.into_iter().map(change))?;
    // Of two values for a field the later one is meant, of two steps both.
    let mut named = HashSet::new();
    match changes
        .iter()
        .find(|(field, _)| changes.len() > 1 && !named.insert(field))
    {
        Some((field, _)) => {
            let message = format!(
                "the call adds to field {:?} twice; add the sum once",
                field.as_str()
            );
            Err(Error::new(Kind::Invalid, message))
        }
        None => Ok(changes),
    }
}

impl ByteOwner {
    /// Whose fields these are.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn default_durability(&self) -> Durability {
        self.durability
    }

    fn write<T>(&self, changes: Changes, answer: fn(Ack, Vec<Field>) -> T) -> Write<T> {
        Write::new(&self.core, self, changes, answer)
    }

    /// Sets fields, to text, bytes or integers; see [`Value`] for several of these in one call.
    /// Waits for the database only if it has a condition and the owner is cold, is to be
    /// [`Durability::Landed`], or the hot tier was replaced since the owner was written.
    ///
    /// # Errors
    /// As [`Write`].
    ///
    /// # Cancel safety
    /// As [`Write`].
    pub fn update<F: AsRef<str>, V: Into<Value>>(
        &self,
        fields: impl IntoIterator<Item = (F, V)>,
    ) -> Write {
        self.write(sets(fields), plain)
    }

    /// Adds to the integer in a field, exact over all 64 bits, signed; a field that does not exist
    /// starts at 0.
    ///
    /// The integer is kept as decimal text, as one may set it: `-3` and `10` are integers, `+3`,
    /// `010` and ` 10` are not. [`Record::int`] reads it.
    ///
    /// # Errors
    /// As [`Write`]; `NotInteger` if the field holds anything else, `Overflow` if the sum does not
    /// fit.
    ///
    /// # Cancel safety
    /// As [`Write`].
    pub fn incr(&self, field: &str, by: i64) -> Write<Counters> {
        self.incr_many([(field, by)])
    }

    /// Adds to the integers in several fields, all or none of them; see [`Counters`] for the new
    /// values.
    ///
    /// # Errors
    /// As [`Write`] and [`ByteOwner::incr`]; `Invalid` if a field is named twice.
    ///
    /// # Cancel safety
    /// As [`Write`].
    pub fn incr_many<F: AsRef<str>>(
        &self,
        fields: impl IntoIterator<Item = (F, i64)>,
    ) -> Write<Counters> {
        self.write(incrs(fields), counters)
    }

    /// Removes fields. Their last values are kept until they are purged; [`ByteOwner::restore`]
    /// brings them back. Does nothing to fields that are not live.
    ///
    /// # Errors
    /// As [`Write`].
    ///
    /// # Cancel safety
    /// As [`Write`].
    pub fn remove<'a>(&self, fields: impl IntoIterator<Item = &'a str>) -> Write {
        self.write(changes(fields, &Change::Remove), plain)
    }

    /// Brings removed fields back with their last values. Does nothing to fields that were not
    /// removed, or were purged.
    ///
    /// # Errors
    /// As [`Write`].
    ///
    /// # Cancel safety
    /// As [`Write`].
    pub fn restore<'a>(&self, fields: impl IntoIterator<Item = &'a str>) -> Write {
        self.write(changes(fields, &Change::Restore), plain)
    }

    /// Gives up the last values of removed fields for ever. Does nothing to other fields.
    ///
    /// # Errors
    /// As [`Write`]; `NotLanded` while the owner has changes, of any field, that have not landed,
    /// whose marks no worker has cleared yet (a pass or two after the last write, also after a
    /// flush), or that are still on probation (`landing.probation`).
    ///
    /// # Cancel safety
    /// As [`Write`].
    pub fn purge<'a>(&self, fields: impl IntoIterator<Item = &'a str>) -> Write {
        self.write(changes(fields, &Change::Purge), plain)
    }

    /// Reads fields: one moment of the owner. One round trip if it is hot; hot-loaded if it is
    /// cold.
    ///
    /// # Errors
    /// `Invalid`: a name is impossible, or none or too many are named. `HotUnavailable`, `Timeout`,
    /// `Denied`, `Corrupt`: the hot tier did not answer until `hot.operation_deadline` (5 s by
    /// default), or not as it should. If it had to ask the database, also `ColdUnavailable`,
    /// `Denied`, and `Contended` if others kept writing the owner. `Closed`: by
    /// [`Storage::close`](crate::Storage::close), as every call.
    ///
    /// # Cancel safety
    /// Nothing is lost; a load under way goes on.
    pub async fn get<'a>(&self, fields: impl IntoIterator<Item = &'a str>) -> Result<Record> {
        let fields = names(fields).map_err(|error| error.of(&self.owner))?;
        self.core.read(&self.owner, Some(fields)).await
    }

    /// Reads all live fields: one moment of the owner, of any size. Of an owner of more rows than
    /// `hot.load_rows_max` (4,096 by default) it asks the database each time.
    ///
    /// # Errors
    /// As [`ByteOwner::get`].
    ///
    /// # Cancel safety
    /// Nothing is lost; a load under way goes on.
    pub async fn get_all(&self) -> Result<Record> {
        self.core.read(&self.owner, None).await
    }

    /// Whether the owner has a live field. Brings the owner into the hot tier.
    ///
    /// # Errors
    /// As [`ByteOwner::get`].
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn exists(&self) -> Result<bool> {
        self.core
            .names(&self.owner)
            .await
            .map(|names| !names.is_empty())
            .map_err(|error| error.of(&self.owner))
    }

    /// The owner's version; 0 if it was never written. Brings the owner into the hot tier.
    ///
    /// # Errors
    /// As [`ByteOwner::get`].
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn version(&self) -> Result<Version> {
        self.core
            .names(&self.owner)
            .await
            .map(|names| names.version())
            .map_err(|error| error.of(&self.owner))
    }

    /// Removes all live fields of the owner, and answers how many; it then does not exist. Their
    /// last values are kept until they are purged. All at once, unless it has more fields than one
    /// call may name; then part by part.
    ///
    /// # Errors
    /// As [`ByteOwner::get`] and [`ByteOwner::remove`]; `Contended` if others kept writing the
    /// owner. Parts that were removed before stay so.
    ///
    /// # Cancel safety
    /// Dropped, each part may or may not be removed, whole.
    pub async fn delete_owner(&self) -> Result<u32> {
        let at_once = self.core.limits.fields_max;
        let (mut removed, mut conflicts) = (0, 0);
        while conflicts < DELETE_TRIES {
            let names = self
                .core
                .names(&self.owner)
                .await
                .map_err(|error| error.of(&self.owner))?;
            let part = names.iter().take(at_once).map(|(field, _)| field.as_str());
            if names.is_empty() {
                return Ok(removed);
            }
            match self.remove(part).if_version(names.version()).await {
                Err(error) if error.is_conflict() => conflicts += 1,
                Err(error) => return Err(error),
                Ok(ack) => removed += ack.changed(),
            }
        }
        Err(Error::new(
            Kind::Contended,
            "others wrote the owner each time it was to be deleted",
        )
        .of(&self.owner))
    }

    /// Waits until everything of the owner is in the database; answers the version up to which it
    /// is, 0 if the hot tier holds nothing of it.
    ///
    /// # Errors
    /// `Rejected` if the database refuses a value, `Timeout` after `within`, `Contended` if others
    /// kept landing the owner's partition; otherwise a tier is away. All writes stay as they are
    /// and land later.
    ///
    /// # Cancel safety
    /// Dropped, the owner may or may not have landed. Nothing is lost.
    pub async fn flush(&self, within: Duration) -> Result<Flushed> {
        self.core.flush(&self.owner, within).await
    }

    /// Drops the owner's cached data if all of it has landed and no probation is on, else as soon
    /// as that holds. Nothing is lost; the next read loads it.
    ///
    /// # Errors
    /// The hot tier is away.
    ///
    /// # Cancel safety
    /// Dropped, it may or may not have happened.
    pub async fn evict(&self) -> Result<Evicted> {
        let evict = async {
            let evicted = self
                .core
                .tiers
                .hot()
                .evict(std::slice::from_ref(&self.owner))
                .await
                .pop();
            evicted.unwrap_or(Ok(Evicted::Gone)).map_err(Error::from)
        };
        self.core
            .while_open(evict)
            .await
            .map_err(|error| error.of(&self.owner))
    }

    /// A logout: [`ByteOwner::flush`], then [`ByteOwner::evict`].
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let storage = storage_sdk::Storage::embedded(folder.path().join("game.db")).await?;
    /// # let ann = storage.scope("mygame", "eu-1")?.bytes().owner("player", 42_u64)?;
    /// use std::time::Duration;
    /// ann.update([("level", "7")]).await?;
    /// ann.unload(Duration::from_secs(10)).await?; // in the database, and out of the hot tier now or soon
    /// assert_eq!(ann.get(["level"]).await?.get("level"), Some(&"7".into()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As `flush`; then the data stays cached. As `evict`.
    ///
    /// # Cancel safety
    /// As `flush` and `evict`.
    pub async fn unload(&self, within: Duration) -> Result<Evicted> {
        self.flush(within).await?;
        self.evict().await
    }
}
