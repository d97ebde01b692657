//! ObjStorage: serde objects, each in one field of its owner.

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::Pin;
use std::time::Duration;

use storage_model::{Bytes, Evicted, Flushed, OpId, Outcome, Owner, Version, tries};

use crate::{
    Ack, ByteOwner, ByteStorage, Durability, Error, Kind, OwnerId, Record, Result, SaveObject,
    Value, Write, codec,
};

/// The objects of one type, by the ids of their owners. Cheap to clone.
///
/// A struct can gain fields (with `#[serde(default)]`) and lose fields, because an object is
/// MessagePack with named fields behind a small header; see [`codec`]. An object is one value of
/// its owner. The [limit](Write#limits) of a value includes the header.
///
/// ```
/// # storage_doc::with_storage(async |storage| {
/// use serde::{Deserialize, Serialize};
/// use storage_sdk::{ObjStorage, SaveObject};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize, SaveObject)]
/// #[save_object(logic_type = "hero")]
/// struct Hero {
///     #[save_object(owner_id)]
///     id: u64,
///     level: u32,
/// }
///
/// let heroes: ObjStorage<Hero> = storage.world("mygame", "eu-1")?.objects();
/// heroes.create(&Hero { id: 42, level: 1 }).await?;
/// assert!(heroes.create(&Hero { id: 42, level: 9 }).await.unwrap_err().is_conflict());
///
/// let hero = heroes.load(42_u64).await?.expect("it was created");
/// let (version, mut hero) = (hero.version(), hero.into_inner());
/// hero.level += 1;
/// heroes.save(&hero).if_version(version).await?; // `modify` does all of this, and again if need be
/// assert_eq!(heroes.load(42_u64).await?.map(|hero| hero.level), Some(2));
/// # Ok(()) });
/// ```
pub struct ObjStorage<T> {
    bytes: ByteStorage,
    object: PhantomData<fn() -> T>,
}

impl<T> Clone for ObjStorage<T> {
    fn clone(&self) -> Self {
        Self {
            bytes: self.bytes.clone(),
            object: PhantomData,
        }
    }
}

impl<T> fmt::Debug for ObjStorage<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjStorage")
            .field("scope", &self.bytes.scope)
            .finish_non_exhaustive()
    }
}

/// An object, and the version of its owner at the time of the load.
///
/// ```
/// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
/// heroes.save(&Hero { id: 42, level: 7 }).await?;
/// let hero = heroes.load(42_u64).await?.expect("it was saved");
/// assert_eq!(hero.level, 7); // it derefs to the object
/// let (version, mut hero) = (hero.version(), hero.into_inner());
/// hero.level += 1;
/// heroes.save(&hero).if_version(version).await?;
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned<T> {
    object: T,
    version: Version,
}

impl<T> Versioned<T> {
    /// The owner's version at the time of the load.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The object without the version.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.object
    }
}

impl<T> Deref for Versioned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

/// A save, which is sent when it is awaited.
///
/// ```
/// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
/// use std::time::Duration;
/// use storage_sdk::{Durability, Safety};
/// let hero = Hero { id: 42, level: 60 };
/// let save = heroes.save(&hero).note("the highest level").deadline(Duration::from_secs(2));
/// let landed = Durability::Landed { timeout: Duration::from_secs(10) };
/// assert_eq!(save.durability(landed).await?.durability(), Safety::Landed);
/// # Ok(()) });
/// ```
///
/// # Errors
/// As [`Write`]. `Invalid`: the object can't be encoded.
///
/// # Cancel safety
/// As [`Write`].
#[must_use = "a save is sent when it is awaited"]
#[derive(Debug, Clone)]
pub struct Save(Result<Write>);

impl Save {
    fn with(self, change: impl FnOnce(Write) -> Write) -> Self {
        Self(self.0.map(change))
    }

    /// Saves only if the owner still has this version. Otherwise the save fails as a conflict. See
    /// [`Write::if_version`].
    ///
    /// ```
    /// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
    /// let first = heroes.save(&Hero { id: 42, level: 7 }).await?;
    /// heroes.edit(42_u64, |hero| hero.level += 1).await?; // another server
    /// let late = heroes.save(&Hero { id: 42, level: 3 }).if_version(first.version()).await;
    /// assert!(late.unwrap_err().is_conflict());
    /// # Ok(()) });
    /// ```
    pub fn if_version(self, version: Version) -> Self {
        self.with(|write| write.if_version(version))
    }

    /// Leaves a note of this body in the feed, in the same step; see [`Write::note`].
    ///
    /// ```
    /// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
    /// let ack = heroes.save(&Hero { id: 42, level: 60 }).note("the highest level").await?;
    /// assert!(ack.position().is_some()); // where followers find the note
    /// # Ok(()) });
    /// ```
    pub fn note(self, body: impl Into<Value>) -> Self {
        self.with(|write| write.note(body))
    }

    /// How safe the save must be before it is acknowledged; see [`Write::durability`].
    ///
    /// ```
    /// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
    /// use std::time::Duration;
    /// use storage_sdk::{Durability, Safety};
    /// let landed = Durability::Landed { timeout: Duration::from_secs(10) };
    /// let ack = heroes.save(&Hero { id: 42, level: 60 }).durability(landed).await?;
    /// assert_eq!(ack.durability(), Safety::Landed);
    /// # Ok(()) });
    /// ```
    pub fn durability(self, durability: Durability) -> Self {
        self.with(|write| write.durability(durability))
    }

    /// The time for retries while the answer is lost; see [`Write::deadline`].
    ///
    /// ```
    /// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
    /// use std::time::Duration;
    /// heroes.save(&Hero { id: 42, level: 7 }).deadline(Duration::from_secs(2)).await?;
    /// # Ok(()) });
    /// ```
    pub fn deadline(self, deadline: Duration) -> Self {
        self.with(|write| write.deadline(deadline))
    }

    /// Sends the save under this id, which the caller keeps; see [`Write::id`].
    ///
    /// ```
    /// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
    /// use storage_sdk::{Ids, RandomIds};
    /// let id = RandomIds.next(); // or `Storage::next_id`
    /// let save = || heroes.save(&Hero { id: 42, level: 7 }).id(id);
    /// let first = save().await?;
    /// heroes.edit(42_u64, |hero| hero.level += 1).await?;
    /// assert_eq!(save().await?, first); // the retry changes nothing
    /// assert_eq!(heroes.load(42_u64).await?.map(|hero| hero.level), Some(8));
    /// # Ok(()) });
    /// ```
    pub fn id(self, id: OpId) -> Self {
        self.with(|write| write.id(id))
    }
}

impl IntoFuture for Save {
    type Output = Result<Ack>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Ack>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        match self.0 {
            Ok(write) => write.into_future(),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

/// The reason why [`ObjStorage::modify`] did not return an answer.
///
/// ```
/// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
/// use storage_sdk::ModifyError;
/// heroes.save(&Hero { id: 42, level: 60 }).await?;
/// let levelled = heroes.modify(42_u64, |hero| match hero.level {
///     60.. => Err("the highest level"),
///     _ => Ok(hero.level += 1),
/// });
/// match levelled.await {
///     Err(ModifyError::Aborted(why)) => assert_eq!(why, "the highest level"),
///     Err(ModifyError::Missing(_)) => println!("no such hero"),
///     Err(ModifyError::Storage(error)) => return Err(error.into()),
///     Ok(()) => println!("levelled up"),
/// }
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModifyError<E> {
    /// The closure refused. Nothing was saved.
    #[error("{0}")]
    Aborted(E),
    /// No such object exists.
    #[error("{0} does not exist")]
    Missing(String),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] Error),
}

impl<T: SaveObject> ObjStorage<T> {
    pub(crate) fn new(bytes: ByteStorage) -> Self {
        Self {
            bytes,
            object: PhantomData,
        }
    }

    fn owner(&self, id: impl OwnerId) -> Result<ByteOwner> {
        self.bytes.owner_with(T::LOGIC_TYPE, id, T::DURABILITY)
    }

    fn write(&self, object: &T) -> Result<Write> {
        let owner = self.owner(object.owner_id())?;
        let bytes = encode(object, owner.owner().id()).map_err(|error| error.of(owner.owner()))?;
        Ok(owner.update([(T::FIELD, bytes)]))
    }

    /// Saves an object as a whole, in one field. Other fields of its owner stay as they are. The
    /// last save wins, unless [`Save::if_version`] sets a condition.
    ///
    /// ```
    /// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
    /// heroes.save(&Hero { id: 42, level: 7 }).await?;
    /// heroes.save(&Hero { id: 42, level: 8 }).await?; // the last save wins
    /// assert_eq!(heroes.load(42_u64).await?.map(|hero| hero.level), Some(8));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Save`].
    ///
    /// # Cancel safety
    /// As [`Save`].
    pub fn save(&self, object: &T) -> Save {
        Save(self.write(object))
    }

    /// Saves an object that must not exist yet.
    ///
    /// ```
    /// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
    /// heroes.create(&Hero { id: 42, level: 1 }).await?;
    /// match heroes.create(&Hero { id: 42, level: 1 }).await {
    ///     Err(error) if error.is_conflict() => {} // another server was faster
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Save`]. `Conflict`: the object exists.
    ///
    /// # Cancel safety
    /// As [`Save`].
    pub fn create(&self, object: &T) -> Save {
        Save(self.write(object).map(Write::if_absent))
    }

    /// Loads an object. A cold object is hot-loaded. Returns `None` if it does not exist.
    ///
    /// ```
    /// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
    /// heroes.save(&Hero { id: 42, level: 7 }).await?;
    /// let hero = heroes.load(42_u64).await?.expect("it was saved");
    /// assert_eq!((hero.level, heroes.load(43_u64).await?), (7, None));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`ByteOwner::get`]. `Invalid`: the id is impossible. `Corrupt`: the stored bytes are not
    /// such an object. `TooNew`: a newer program wrote the object.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn load(&self, id: impl OwnerId) -> Result<Option<Versioned<T>>> {
        let owner = self.owner(id)?;
        let record = owner.get([T::FIELD]).await?;
        decode(&owner, &record)
    }

    /// Loads many objects. The results have the order of the ids. One round trip if all owners are
    /// hot.
    ///
    /// ```
    /// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
    /// heroes.save(&Hero { id: 1, level: 7 }).await?;
    /// let party = heroes.load_many([1_u64, 2]).await;
    /// let party: Vec<_> = party.into_iter().collect::<Result<_, _>>()?;
    /// assert_eq!(party[0].as_ref().map(|hero| hero.level), Some(7));
    /// assert_eq!(party[1], None);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// Each result fails as [`ObjStorage::load`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn load_many<I: OwnerId>(
        &self,
        ids: impl IntoIterator<Item = I>,
    ) -> Vec<Result<Option<Versioned<T>>>> {
        let owners: Vec<Result<ByteOwner>> = ids.into_iter().map(|id| self.owner(id)).collect();
        let known: Vec<&ByteOwner> = owners
            .iter()
            .filter_map(|owner| owner.as_ref().ok())
            .collect();
        let mut records = self.bytes.get_many(known, [T::FIELD]).await.into_iter();
        let missing = || Err(Error::new(Kind::Corrupt, "the hot tier gave no answer"));
        let one = |owner: Result<ByteOwner>| {
            let owner = owner?;
            decode(&owner, &records.next().unwrap_or_else(missing)?)
        };
        owners.into_iter().map(one).collect()
    }

    /// Loads an object, changes it with the closure, and saves it if the owner has not changed
    /// since the load. Otherwise it loads the object again and repeats, which means that the
    /// closure can run several times, each time on the newest object. Returns the answer of the
    /// last run. For a closure that never refuses, use [`ObjStorage::edit`].
    ///
    /// ```
    /// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
    /// use storage_sdk::ModifyError;
    /// heroes.save(&Hero { id: 42, level: 10 }).await?;
    /// let curse = |levels: u32| {
    ///     heroes.modify(42_u64, move |hero| {
    ///         hero.level = hero.level.checked_sub(levels).ok_or("too strong a curse")?;
    ///         Ok(hero.level)
    ///     })
    /// };
    /// assert_eq!(curse(7).await?, 3);
    /// assert_eq!(curse(7).await, Err(ModifyError::Aborted("too strong a curse")));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// - `Aborted`: the closure returned this error. Nothing was saved.
    /// - `Missing`: no such object exists.
    /// - `Storage`: as [`ObjStorage::load`] and [`Save`]. `Contended`: each of 256 attempts met a
    ///   concurrent write of the owner.
    ///
    /// If the outcome is `Unknown`, load the object before you modify it again.
    ///
    /// # Cancel safety
    /// As a write: the last save may or may not be applied.
    pub async fn modify<R, E>(
        &self,
        id: impl OwnerId,
        mut change: impl FnMut(&mut T) -> Result<R, E>,
    ) -> Result<R, ModifyError<E>> {
        let owner = self.owner(id)?;
        for _ in 0..tries::MODIFY {
            let record = owner.get([T::FIELD]).await?;
            let Some(Versioned {
                mut object,
                version,
            }) = decode(&owner, &record)?
            else {
                return Err(ModifyError::Missing(owner.owner().to_string()));
            };
            let answer = change(&mut object).map_err(ModifyError::Aborted)?;
            let bytes =
                encode(&object, owner.owner().id()).map_err(|error| error.of(owner.owner()))?;
            match owner.update([(T::FIELD, bytes)]).if_version(version).await {
                Ok(_) => return Ok(answer),
                Err(error) if error.is_conflict() => {}
                // The caller has no id to retry this write with.
                Err(error) if error.outcome() == Outcome::Unknown => {
                    return Err(error.reread().into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::new(
            Kind::Contended,
            format!(
                "gave up after {} attempts: other callers wrote the owner each time; retry later",
                tries::MODIFY
            ),
        )
        .of(owner.owner())
        .into())
    }

    /// As [`ObjStorage::modify`], with a closure that can't refuse. Returns `None` if no such
    /// object exists.
    ///
    /// ```
    /// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
    /// heroes.save(&Hero { id: 42, level: 1 }).await?;
    /// let level = heroes.edit(42_u64, |hero| { hero.level += 1; hero.level }).await?;
    /// assert_eq!((level, heroes.edit(43_u64, |hero| hero.level = 9).await?), (Some(2), None));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As the `Storage` errors of [`ObjStorage::modify`].
    ///
    /// # Cancel safety
    /// As a write: the last save may or may not be applied.
    pub async fn edit<R>(
        &self,
        id: impl OwnerId,
        mut change: impl FnMut(&mut T) -> R,
    ) -> Result<Option<R>> {
        match self
            .modify(id, |object| Ok::<_, Infallible>(change(object)))
            .await
        {
            Ok(answer) => Ok(Some(answer)),
            Err(ModifyError::Missing(_)) => Ok(None),
            Err(ModifyError::Storage(error)) => Err(error),
            Err(ModifyError::Aborted(never)) => match never {},
        }
    }

    /// Removes an object. Returns whether it existed. Its last bytes are kept, as those of any
    /// field; see [`ByteOwner::remove`].
    ///
    /// ```
    /// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
    /// heroes.save(&Hero { id: 42, level: 7 }).await?;
    /// assert_eq!((heroes.remove(42_u64).await?, heroes.remove(42_u64).await?), (true, false));
    /// assert_eq!(heroes.load(42_u64).await?, None);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Write`]. `Invalid`: the id is impossible.
    ///
    /// # Cancel safety
    /// As [`Write`].
    pub async fn remove(&self, id: impl OwnerId) -> Result<bool> {
        Ok(self.owner(id)?.remove([T::FIELD]).await?.changed() > 0)
    }

    /// Waits until the object is in the database; see [`ByteOwner::flush`].
    ///
    /// ```
    /// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
    /// use std::time::Duration;
    /// let saved = heroes.save(&Hero { id: 42, level: 60 }).await?;
    /// let flushed = heroes.flush(42_u64, Duration::from_secs(10)).await?;
    /// assert!(flushed.version >= saved.version());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`ByteOwner::flush`].
    ///
    /// # Cancel safety
    /// As [`ByteOwner::flush`].
    pub async fn flush(&self, id: impl OwnerId, within: Duration) -> Result<Flushed> {
        self.owner(id)?.flush(within).await
    }

    /// A logout; see [`ByteOwner::unload`].
    ///
    /// ```
    /// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
    /// use std::time::Duration;
    /// heroes.save(&Hero { id: 42, level: 7 }).await?;
    /// heroes.unload(42_u64, Duration::from_secs(10)).await?; // in the database
    /// assert_eq!(heroes.load(42_u64).await?.map(|hero| hero.level), Some(7)); // the next login
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`ByteOwner::unload`].
    ///
    /// # Cancel safety
    /// As [`ByteOwner::unload`].
    pub async fn unload(&self, id: impl OwnerId, within: Duration) -> Result<Evicted> {
        self.owner(id)?.unload(within).await
    }

    /// Brings objects into the hot tier. The results have the order of the ids. See
    /// [`ByteStorage::prefetch`].
    ///
    /// ```
    /// # storage_doc::with_heroes(async |heroes| { use storage_doc::Hero;
    /// let saved = heroes.save(&Hero { id: 1, level: 7 }).await?;
    /// let versions = heroes.prefetch([1_u64, 2]).await;
    /// assert_eq!(versions[0], Ok(saved.version()));
    /// assert_eq!(versions[1], Ok(storage_sdk::Version::ZERO)); // there is no hero 2
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// Each result fails as [`ByteOwner::get_all`]. `Invalid`: the id is impossible.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn prefetch<I: OwnerId>(
        &self,
        ids: impl IntoIterator<Item = I>,
    ) -> Vec<Result<Version>> {
        let owners: Vec<Result<ByteOwner>> = ids.into_iter().map(|id| self.owner(id)).collect();
        let known: Vec<Owner> = owners
            .iter()
            .flatten()
            .map(|owner| owner.owner().clone())
            .collect();
        let mut versions = self.bytes.core.versions(&known).await.into_iter();
        let missing = || Err(Error::new(Kind::Corrupt, "the hot tier gave no answer"));
        owners
            .into_iter()
            .map(|owner| owner.and_then(|_| versions.next().unwrap_or_else(missing)))
            .collect()
    }
}

/// The bytes of an object of this owner, if they give back an object of the same owner.
pub(crate) fn encode<T: SaveObject>(object: &T, owner_id: &str) -> Result<Bytes> {
    let id = object.owner_id().to_owner_id();
    if id != owner_id {
        let message = format!("the object's owner id became {id:?}; it must not change");
        return Err(Error::new(Kind::Invalid, message));
    }
    let (bytes, read) = codec::encode_and_read(object, T::SCHEMA_VERSION)?;
    let back = read.owner_id().to_owner_id();
    if back != owner_id {
        let message = format!(
            "the owner id {id:?} would be read back as {back:?}, and later saves would go there: store it as it is, without a serde \
             attribute that drops or changes it"
        );
        return Err(Error::new(Kind::Invalid, message));
    }
    Ok(bytes)
}

pub(crate) fn decode<T: SaveObject>(
    owner: &ByteOwner,
    record: &Record,
) -> Result<Option<Versioned<T>>> {
    let Some(bytes) = record.get(T::FIELD) else {
        return Ok(None);
    };
    let object: T = codec::decode(bytes, T::SCHEMA_VERSION)
        .map_err(|error| Error::from(error).of(owner.owner()))?;
    if object.owner_id().to_owner_id() != owner.owner().id() {
        let message = format!(
            "the object says that its owner has the id {:?}, and its next save would go there: its id was not stored as it was, or somebody stored it here",
            object.owner_id().to_owner_id()
        );
        return Err(Error::new(Kind::Corrupt, message).of(owner.owner()));
    }
    Ok(Some(Versioned {
        object,
        version: record.version(),
    }))
}
