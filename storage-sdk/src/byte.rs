//! ByteStorage: bytes per field.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use storage_model::{
    Change, Durability, Evicted, Field, Flushed, Owner, Partition, Scope, Version, tries,
};

use crate::bulk::{Bulk, Changes};
use crate::core::Shared;
use crate::durability::default_of;
use crate::owners::OwnerPages;
use crate::write::{counters, plain};
use crate::{Ack, Counters, Error, Kind, OwnerId, Record, Result, Value, Write};

/// The owners of one world, as bytes per field. Cheap to clone.
///
/// A read of many owners takes any number of them. It shows each owner at one moment, but not all
/// of them at the same moment.
///
/// ```
/// # storage_doc::with_bytes(async |bytes| {
/// let (ann, bo) = (bytes.owner("player", 1_u64)?, bytes.owner("player", 2_u64)?);
/// bo.update([("level", "7")]).await?;
/// let levels: Vec<_> = bytes.get_many([&ann, &bo], ["level"]).await.into_iter().collect::<Result<_, _>>()?;
/// assert_eq!((levels[0].get("level"), levels[1].get("level")), (None, Some(&"7".into())));
/// # Ok(()) });
/// ```
#[derive(Debug, Clone)]
pub struct ByteStorage {
    pub(crate) core: Shared,
    pub(crate) scope: Scope,
}

/// The fields of one owner. Cheap to clone.
///
/// A write changes all fields that it names, or none. A read shows its fields at one moment. See
/// [`Write`](Write#limits) for the limits of both.
///
/// ```
/// # storage_doc::with_bytes(async |bytes| {
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
/// # Ok(()) });
/// ```
#[derive(Debug, Clone)]
pub struct ByteOwner {
    core: Shared,
    owner: Owner,
    /// The durability of a write that sets none.
    durability: Durability,
}

impl ByteStorage {
    /// An owner by logic type (1 to 64 bytes) and id (1 to 255 bytes). The call reads nothing and
    /// creates nothing.
    ///
    /// # Errors
    /// `Invalid`: a name is empty, too long or holds a control character.
    pub fn owner(&self, logic_type: &str, id: impl OwnerId) -> Result<ByteOwner> {
        self.owner_with(logic_type, id, None)
    }

    /// An owner, with the durability that its Rust type asks for. The settings of the logic type
    /// override it.
    pub(crate) fn owner_with(
        &self,
        logic_type: &str,
        id: impl OwnerId,
        derived: Option<Durability>,
    ) -> Result<ByteOwner> {
        let owner = self.scope.owner(logic_type, &id.to_owner_id())?;
        let durability = default_of(&self.core.durability, &owner, derived);
        Ok(ByteOwner {
            core: Arc::clone(&self.core),
            owner,
            durability,
        })
    }

    /// Many writes of many owners, sent together.
    ///
    /// ```
    /// # storage_doc::with_bytes(async |bytes| {
    /// let winners = [bytes.owner("player", 1_u64)?, bytes.owner("player", 2_u64)?];
    /// let prizes = winners.iter().fold(bytes.bulk(), |bulk, player| bulk.incr(player, "gold", 50));
    /// assert!(prizes.await.iter().all(|result| result.is_ok()));
    /// # Ok(()) });
    /// ```
    pub fn bulk(&self) -> Bulk {
        Bulk::new(&self.core)
    }

    /// Reads the same fields of many owners. Returns one result for each owner, in their order. One
    /// round trip if all of them are hot.
    ///
    /// # Errors
    /// Each result fails as [`ByteOwner::get`].
    ///
    /// # Cancel safety
    /// Nothing is lost. Loads under way go on.
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

    /// Reads all fields of many owners. Returns one result for each owner, in their order. One
    /// round trip if all of them are hot.
    ///
    /// ```
    /// # storage_doc::with_bytes(async |bytes| {
    /// let party = [bytes.owner("player", 1_u64)?, bytes.owner("player", 2_u64)?];
    /// party[0].update([("name", "Ann"), ("class", "bard")]).await?;
    /// let members = bytes.get_all_many(&party).await;
    /// assert_eq!(members[0].as_ref().map(|ann| ann.len()), Ok(2));
    /// assert!(members[1].as_ref().is_ok_and(|bo| bo.is_empty())); // never written
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// Each result fails as [`ByteOwner::get_all`].
    ///
    /// # Cancel safety
    /// Nothing is lost. Loads under way go on.
    pub async fn get_all_many<'a>(
        &self,
        owners: impl IntoIterator<Item = &'a ByteOwner>,
    ) -> Vec<Result<Record>> {
        self.core.read_many(&owners_of(owners), None).await
    }

    /// Brings owners into the hot tier, for a login or the start of a server. Returns the version
    /// of each owner, in their order. The version of an owner that was never written is 0.
    ///
    /// An owner with more rows than `hot.load_rows_max` (4,096 by default) or more bytes than
    /// `hot.load_bytes_max` (8 MiB) is read but not kept.
    ///
    /// ```
    /// # storage_doc::with_bytes(async |bytes| {
    /// let ids = 1..=3_u64; // the players of the last hour
    /// let players: Vec<_> = ids.map(|id| bytes.owner("player", id)).collect::<Result<_, _>>()?;
    /// let first = players[0].update([("level", "7")]).await?;
    /// let versions = bytes.prefetch(&players).await;
    /// assert_eq!(versions[0], Ok(first.version()));
    /// assert_eq!(versions[1], Ok(storage_sdk::Version::ZERO)); // never written
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// Each result fails as [`ByteOwner::get_all`].
    ///
    /// # Cancel safety
    /// Nothing is lost. Loads under way go on.
    pub async fn prefetch<'a>(
        &self,
        owners: impl IntoIterator<Item = &'a ByteOwner>,
    ) -> Vec<Result<Version>> {
        self.core.versions(&owners_of(owners)).await
    }

    /// Lists the owners of a logic type that have a live field, in key order. Unlanded owners are
    /// in the list. See [`OwnerPages`].
    ///
    /// The list does not show one moment: concurrent writes and removals may or may not be in it.
    /// The call reads the marks of all unlanded owners, and keeps the names of this type's owners.
    ///
    /// ```
    /// # storage_doc::with_bytes(async |bytes| {
    /// bytes.owner("guild", "red")?.update([("level", "1")]).await?;
    /// bytes.owner("player", 42_u64)?.update([("level", "1")]).await?;
    /// let first = bytes.owners("guild").await?.next().await?.expect("there is a guild");
    /// assert_eq!(first.iter().map(|owner| owner.id()).collect::<Vec<_>>(), ["red"]);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `Invalid`: the name is impossible. `Closed`: the storage was closed. Otherwise the hot tier
    /// is away.
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

/// All items, or the first error. Unlike `collect` it reserves the memory at once, because every
/// call with several fields runs through here.
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
    // Two values for one field mean the later one, but two steps mean both.
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
    /// The owner of these fields.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The partition that holds the owner. All owners of a group are in one partition.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.owner
            .partition(self.core.tiers.hot().partitions.partition_count())
    }

    pub(crate) fn core(&self) -> &Shared {
        &self.core
    }

    pub(crate) fn default_durability(&self) -> Durability {
        self.durability
    }

    fn write<T>(&self, changes: Changes, answer: fn(Ack, Vec<Field>) -> T) -> Write<T> {
        Write::new(&self.core, self, changes, answer)
    }

    /// Sets fields to text, bytes or integers. See [`Value`] for a mix of these in one call.
    ///
    /// Normally this is one round trip. The write waits for the database in three cases: it has a
    /// condition and the owner is cold, its durability is [`Durability::Landed`], or the hot tier
    /// was replaced since the owner was last written.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// let ack = ann.update([("name", "Ann"), ("class", "bard")]).await?;
    /// assert_eq!(ack.changed(), 2);
    ///
    /// let wrong = ann.update([("class", "thief"), ("", "no name")]).await.unwrap_err();
    /// assert_eq!(wrong.kind(), storage_sdk::Kind::Invalid); // and the class is as before
    /// # Ok(()) });
    /// ```
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

    /// Adds to the integer in a field, exactly over all 64 bits, signed. A missing field counts as
    /// 0.
    ///
    /// The integer is stored as decimal text, like an integer of [`ByteOwner::update`]. `-3` and
    /// `10` are integers, but `+3`, `010` and ` 10` are not. [`Record::int`] reads it.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// use storage_sdk::Kind;
    /// assert_eq!(ann.incr("gold", 10).await?.value(), 10); // a missing field counts as 0
    /// assert_eq!(ann.incr("gold", -15).await?.value(), -5); // `Part::add_within` keeps a floor
    ///
    /// ann.update([("name", "Ann")]).await?;
    /// assert_eq!(ann.incr("name", 1).await.unwrap_err().kind(), Kind::NotInteger);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Write`]. `NotInteger`: the field holds anything else. `Overflow`: the sum does not fit.
    ///
    /// # Cancel safety
    /// As [`Write`].
    pub fn incr(&self, field: &str, by: i64) -> Write<Counters> {
        self.incr_many([(field, by)])
    }

    /// Adds to the integers in several fields, in all of them or in none. See [`Counters`] for the
    /// new values.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// let potion = [("potions", -1), ("health", 30)];
    /// ann.update([("potions", 2), ("health", 40)]).await?;
    /// let now = ann.incr_many(potion).await?;
    /// assert_eq!((now.get("potions"), now.get("health")), (Some(1), Some(70)));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Write`] and [`ByteOwner::incr`]. `Invalid`: a field is named twice.
    ///
    /// # Cancel safety
    /// As [`Write`].
    pub fn incr_many<F: AsRef<str>>(
        &self,
        fields: impl IntoIterator<Item = (F, i64)>,
    ) -> Write<Counters> {
        self.write(incrs(fields), counters)
    }

    /// Removes fields. Their last values are kept until a purge, and [`ByteOwner::restore`] brings
    /// them back. A field that is not live stays as it is.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// ann.update([("guild", "red"), ("rank", "officer")]).await?;
    /// assert_eq!(ann.remove(["guild", "rank", "title"]).await?.changed(), 2); // there was no title
    /// assert!(!ann.exists().await?);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Write`].
    ///
    /// # Cancel safety
    /// As [`Write`].
    pub fn remove<'a>(&self, fields: impl IntoIterator<Item = &'a str>) -> Write {
        self.write(changes(fields, &Change::Remove), plain)
    }

    /// Brings removed fields back with their last values. A field that was not removed, or was
    /// purged, stays as it is.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// ann.update([("name", "Ann"), ("sword", "of dawn")]).await?;
    /// ann.remove(["sword"]).await?; // sold by mistake
    /// assert_eq!(ann.restore(["sword"]).await?.changed(), 1);
    /// assert_eq!(ann.get(["sword"]).await?["sword"].as_deref(), Some(&b"of dawn"[..]));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Write`].
    ///
    /// # Cancel safety
    /// As [`Write`].
    pub fn restore<'a>(&self, fields: impl IntoIterator<Item = &'a str>) -> Write {
        self.write(changes(fields, &Change::Restore), plain)
    }

    /// Deletes the last values of removed fields for ever. Any other field stays as it is.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// use std::time::Duration;
    /// use storage_sdk::Kind;
    ///
    /// ann.update([("e-mail", "ann@example.org")]).await?;
    /// ann.remove(["e-mail"]).await?; // the database still has the last value
    /// let mut purged = ann.purge(["e-mail"]).await;
    /// while purged.as_ref().is_err_and(|error| error.kind() == Kind::NotLanded) {
    ///     tokio::time::sleep(Duration::from_millis(50)).await;
    ///     purged = ann.purge(["e-mail"]).await;
    /// }
    /// assert_eq!(purged?.changed(), 1);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Write`]. The purge fails as `NotLanded` in three cases:
    /// - The owner has unlanded changes of any field.
    /// - No worker has cleared the owner's marks yet. That takes a pass or two after the last
    ///   write, even after a flush.
    /// - The marks are still on probation (`landing.probation`).
    ///
    /// # Cancel safety
    /// As [`Write`].
    pub fn purge<'a>(&self, fields: impl IntoIterator<Item = &'a str>) -> Write {
        self.write(changes(fields, &Change::Purge), plain)
    }

    /// Reads fields of the owner, as they are at one moment. One round trip if the owner is hot. A
    /// cold owner is hot-loaded.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// ann.update([("name", "Ann"), ("level", "7"), ("biography", "long")]).await?;
    /// let ann = ann.get(["name", "level"]).await?;
    /// assert_eq!(ann["name"].as_deref(), Some(&b"Ann"[..]));
    /// assert_eq!(ann.int("level")?, Some(7));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// - `Invalid`: a name is impossible, or the call names no field or too many.
    /// - `HotUnavailable`, `Timeout`, `Denied`, `Corrupt`: the hot tier gave no valid answer within
    ///   `hot.operation_deadline` (5 s by default).
    /// - `ColdUnavailable`, `Denied`: the call needed the database.
    /// - `Contended`: the call needed the database, and concurrent writes of the owner did not
    ///   stop.
    /// - `Closed`: the storage was closed; see [`Storage::close`](crate::Storage::close).
    ///
    /// # Cancel safety
    /// Nothing is lost. A load under way goes on.
    pub async fn get<'a>(&self, fields: impl IntoIterator<Item = &'a str>) -> Result<Record> {
        let fields = names(fields).map_err(|error| error.of(&self.owner))?;
        self.core.read(&self.owner, Some(fields)).await
    }

    /// Reads all live fields of an owner of any size, as they are at one moment. If the owner has
    /// more rows than `hot.load_rows_max` (4,096 by default), each call asks the database.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// ann.update([("sword", 1), ("potions", 3)]).await?;
    /// let bag = ann.get_all().await?;
    /// let items: Vec<_> = bag.iter().map(|(item, _)| item.as_str()).collect();
    /// assert_eq!(items, ["potions", "sword"]);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`ByteOwner::get`].
    ///
    /// # Cancel safety
    /// Nothing is lost. A load under way goes on.
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

    /// The owner's version, 0 if it was never written. Brings the owner into the hot tier.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// assert_eq!(ann.version().await?, storage_sdk::Version::ZERO); // never written
    /// let seen = ann.update([("level", "7")]).await?.version();
    /// ann.incr("level", 1).await?;
    /// assert!(ann.version().await? > seen);
    /// # Ok(()) });
    /// ```
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

    /// Removes all live fields of the owner and returns their number. The owner then does not
    /// exist. The last values are kept until a purge.
    ///
    /// All fields go at once, unless the owner has more fields than one call may name, or is cold and
    /// has more bytes than `hot.load_bytes_max`. Such an owner is removed part by part.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// ann.update([("name", "Ann"), ("level", "7")]).await?;
    /// assert_eq!(ann.delete_owner().await?, 2);
    /// assert!(!ann.exists().await?);
    /// ann.restore(["name", "level"]).await?; // the player has changed her mind
    /// assert_eq!(ann.get(["level"]).await?.int("level")?, Some(7));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`ByteOwner::get`] and [`ByteOwner::remove`]. `Contended`: concurrent writes of the owner
    /// did not stop. Parts that are already removed stay removed.
    ///
    /// # Cancel safety
    /// After a dropped call, each part is either removed or not, as a whole.
    pub async fn delete_owner(&self) -> Result<u32> {
        let mut at_once = self.core.limits.fields_max;
        let (mut removed, mut conflicts) = (0, 0);
        while conflicts < tries::OWNER {
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
                // So many fields have more bytes than a load takes.
                Err(error) if error.kind() == Kind::Invalid && at_once > 1 => {
                    at_once = at_once.min(names.len()).div_ceil(2);
                    if names.len() == 1 {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
                Ok(ack) => removed += ack.changed(),
            }
        }
        Err(Error::new(
            Kind::Contended,
            format!(
                "gave up after {} attempts: other callers wrote the owner each time; retry later",
                tries::OWNER
            ),
        )
        .of(&self.owner))
    }

    /// Waits until all changes of the owner are in the database. Returns the version up to which
    /// they are there, 0 if the hot tier holds nothing of the owner.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// use std::time::Duration;
    /// let bought = ann.incr("gems", 500).await?;
    /// let flushed = ann.flush(Duration::from_secs(10)).await?;
    /// assert!(flushed.version >= bought.version()); // the purchase is in the database
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// - `Rejected`: the database rejects a value.
    /// - `Timeout`: `within` has passed.
    /// - `Contended`: concurrent landings of the owner's partition did not stop.
    /// - Otherwise a tier is away.
    ///
    /// After an error, all writes stay in the hot tier and land later.
    ///
    /// # Cancel safety
    /// After a dropped call, the owner may or may not have landed. Nothing is lost.
    pub async fn flush(&self, within: Duration) -> Result<Flushed> {
        self.core.flush(&self.owner, within).await
    }

    /// Drops the cached data of the owner. If the owner has unlanded marks or marks on probation,
    /// the data goes with the last of these marks. Nothing is lost, and the next read loads the
    /// owner.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// use storage_sdk::Evicted;
    /// ann.update([("level", "7")]).await?;
    /// ann.flush(std::time::Duration::from_secs(10)).await?;
    /// match ann.evict().await? {
    ///     Evicted::Gone => println!("the memory is free"),
    ///     Evicted::WhenLanded => println!("it will be"), // a mark still names the owner
    /// }
    /// assert_eq!(ann.get(["level"]).await?.int("level")?, Some(7)); // from the database, if it is gone
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The hot tier is away. `Closed`: the storage was closed.
    ///
    /// # Cancel safety
    /// After a dropped call, the data may or may not be gone.
    pub async fn evict(&self) -> Result<Evicted> {
        let evict = async {
            let evicted = self
                .core
                .tiers
                .hot()
                .owners
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
    /// # storage_doc::with_player(async |ann| {
    /// use std::time::Duration;
    /// ann.update([("level", "7")]).await?;
    /// ann.unload(Duration::from_secs(10)).await?; // in the database, and out of the hot tier now or soon
    /// assert_eq!(ann.get(["level"]).await?.get("level"), Some(&"7".into()));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`ByteOwner::flush`], and the data then stays cached. As [`ByteOwner::evict`].
    ///
    /// # Cancel safety
    /// As [`ByteOwner::flush`] and [`ByteOwner::evict`].
    pub async fn unload(&self, within: Duration) -> Result<Evicted> {
        self.flush(within).await?;
        self.evict().await
    }
}
