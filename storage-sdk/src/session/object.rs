//! Sessions of objects.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use storage_model::{Bytes, Change, Field, Version};

use super::content::{Content, ContentCopy, SavedFields};
use super::handle::Handle;
use super::hold::Hold;
use super::options::SessionOptions;
use super::state::{LossReason, SessionState};
use crate::byte::ByteStorage;
use crate::object::decode;
use crate::{Ack, ByteOwner, Error, ModifyError, OwnerId, Record, Result, SaveObject};

/// Starts sessions of the objects of one type. Cheap to clone.
///
/// While a session holds an owner, only this session can write it. A server that was paused, cut
/// off or replaced can never overwrite a later one, because the script of each save compares the
/// session's fence. The session keeps the object in memory. The game edits it there, and the
/// session saves it from time to time.
///
/// ```
/// # storage_doc::with_world(async |world| {
/// use serde::{Deserialize, Serialize};
/// use storage_sdk::{Kind, OnConflict, SaveObject, SessionOptions};
///
/// #[derive(Debug, Clone, Serialize, Deserialize, SaveObject)]
/// #[save_object(logic_type = "hero")]
/// struct Hero {
///     #[save_object(owner_id)]
///     id: u64,
///     level: u32,
/// }
///
/// let heroes = world.sessions::<Hero>(SessionOptions::default().on_conflict(OnConflict::Fail));
/// let hero = heroes.start_or(42_u64, || Hero { id: 42, level: 1 }).await?;
/// hero.edit(|hero| hero.level += 1)?;
/// hero.save().await?;
///
/// assert_eq!(heroes.start(42_u64).await.unwrap_err().kind(), Kind::Held); // one session at a time
/// let plain = world.objects::<Hero>().save(&Hero { id: 42, level: 9 }).await;
/// assert_eq!(plain.unwrap_err().kind(), Kind::Held); // and nobody writes around it
///
/// hero.edit(|hero| hero.level += 1)?;
/// hero.end().await?; // the last save and the end are one step
/// assert_eq!(heroes.start(42_u64).await?.expect("it was saved").get().level, 3);
/// # Ok(()) });
/// ```
pub struct Sessions<T> {
    bytes: ByteStorage,
    options: SessionOptions,
    object: PhantomData<fn() -> T>,
}

impl<T> Clone for Sessions<T> {
    fn clone(&self) -> Self {
        Self {
            bytes: self.bytes.clone(),
            options: self.options,
            object: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Sessions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("scope", &self.bytes.scope)
            .field("options", &self.options)
            .finish()
    }
}

impl<T: SaveObject + Send + Sync + 'static> Sessions<T> {
    pub(crate) fn new(bytes: ByteStorage, options: SessionOptions) -> Self {
        Self {
            bytes,
            options,
            object: PhantomData,
        }
    }

    /// Starts a session of an existing object. A cold object is hot-loaded. Returns `None` if no
    /// such object exists, and the owner stays free.
    ///
    /// ```
    /// # storage_doc::with_world(async |world| { use storage_doc::Hero;
    /// let heroes = world.sessions::<Hero>(Default::default());
    /// assert!(heroes.start(42_u64).await?.is_none()); // no such hero, and nobody holds it
    /// world.objects().save(&Hero { id: 42, level: 7 }).await?;
    /// let hero = heroes.start(42_u64).await?.expect("it was saved");
    /// assert_eq!(hero.get().level, 7);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// - `Held`: another session holds the owner, and did not end in time; see
    ///   [`OnConflict`](super::OnConflict).
    /// - `Invalid`: the id is impossible, or the owner has more rows than `hot.load_rows_max` or
    ///   more bytes than `hot.load_bytes_max`.
    /// - `Corrupt`: the stored bytes are not such an object. The owner stays free.
    /// - `TooNew`: a newer program wrote the object. The owner stays free.
    /// - `Overloaded`: this process holds `sessions.max` sessions, or writes fail under
    ///   back-pressure.
    /// - `HotUnavailable`, `ColdUnavailable`, `Timeout`, `Denied`, `Contended`, `Closed`: as
    ///   [`Write`](crate::Write).
    ///
    /// # Cancel safety
    /// A dropped call may leave the owner held. The process gives it back by itself, within one
    /// lease for each partition: 80 s with the default settings.
    pub async fn start(&self, id: impl OwnerId) -> Result<Option<Session<T>>> {
        self.begin_with(id, || None).await
    }

    /// As [`Sessions::start`]. If the object does not exist, `make` makes it, and the first save
    /// stores it.
    ///
    /// ```
    /// # storage_doc::with_world(async |world| { use storage_doc::Hero;
    /// let heroes = world.sessions(Default::default());
    /// let new = heroes.start_or(42_u64, || Hero { id: 42, level: 1 }).await?;
    /// new.edit(|hero| hero.level += 1)?;
    /// new.end().await?;
    /// let back = heroes.start_or(42_u64, || Hero { id: 42, level: 1 }).await?;
    /// assert_eq!(back.get().level, 2); // the stored one, and not another new one
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Sessions::start`].
    ///
    /// # Cancel safety
    /// As [`Sessions::start`].
    pub async fn start_or(
        &self,
        id: impl OwnerId,
        make: impl FnOnce() -> T + Send,
    ) -> Result<Session<T>> {
        let started = self.begin_with(id, || Some(make())).await?;
        started.ok_or_else(|| Error::new(crate::Kind::Corrupt, "a session has no object"))
    }

    /// As [`Sessions::start`]. If the object does not exist, `make` may make it.
    pub(super) async fn begin_with(
        &self,
        id: impl OwnerId,
        make: impl FnOnce() -> Option<T> + Send,
    ) -> Result<Option<Session<T>>> {
        let owner = self.bytes.owner_with(T::LOGIC_TYPE, id, T::DURABILITY)?;
        let durability = owner.default_durability();
        let its = owner.clone();
        let object = move |record: &Record| {
            let found = decode::<T>(&its, record)?.map(crate::Versioned::into_inner);
            let (object, edit) = match found {
                Some(object) => (object, 0),
                None => match make() {
                    Some(object) => (object, 1),
                    None => return Ok(None),
                },
            };
            Object::new(&its, object, edit).map(|object| Some(Arc::new(object)))
        };
        let opened = self
            .bytes
            .core
            .open_session(owner.owner(), self.options, durability, object)
            .await
            .map_err(|error| error.of(owner.owner()))?;
        Ok(opened.map(|(hold, object)| Session {
            handle: Handle::new(hold, &self.bytes.core),
            object,
        }))
    }
}

/// The object of a session, and the field that stores it.
struct Object<T> {
    field: Field,
    owner_id: String,
    edited: RwLock<EditedObject<T>>,
    /// The same number as `edit` under the lock. Readable without the lock, so that no task waits
    /// for a game that looks at its object.
    last: AtomicU64,
}

struct EditedObject<T> {
    object: T,
    /// The number of the last edit.
    edit: u64,
}

impl<T> fmt::Debug for Object<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("owner_id", &self.owner_id)
            .finish_non_exhaustive()
    }
}

impl<T: SaveObject> Object<T> {
    fn new(owner: &ByteOwner, object: T, edit: u64) -> Result<Self> {
        let owner_id = owner.owner().id().to_owned();
        Ok(Self {
            field: Field::new(T::FIELD)?,
            owner_id,
            edited: RwLock::new(EditedObject { object, edit }),
            last: AtomicU64::new(edit),
        })
    }

    fn encoded(&self, edited: &EditedObject<T>) -> Result<Bytes> {
        crate::object::encode(&edited.object, &self.owner_id)
    }

    fn count(&self, edited: &mut EditedObject<T>) {
        edited.edit += 1;
        self.last.store(edited.edit, Ordering::SeqCst);
    }

    fn read(&self) -> RwLockReadGuard<'_, EditedObject<T>> {
        self.edited.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: SaveObject + Send + Sync> Content for Object<T> {
    fn edit(&self) -> u64 {
        self.last.load(Ordering::SeqCst)
    }

    fn changed(&self, since: u64) -> Result<Option<ContentCopy>> {
        if self.edit() <= since {
            Ok(None)
        } else {
            self.whole(&Record::default()).map(Some)
        }
    }

    fn whole(&self, _: &Record) -> Result<ContentCopy> {
        let edited = self.read();
        let bytes = self.encoded(&edited)?;
        let left = SavedFields::Field(self.field.clone(), bytes.clone());
        Ok(ContentCopy::new(
            edited.edit,
            vec![(self.field.clone(), Change::Set(bytes))],
            left,
        ))
    }
}

/// A session of one object. Only this process writes the object.
///
/// [`Session::end`] ends a session. A session that is dropped without it is saved and ended in the
/// background. Such a drop is counted and logged as a warning.
///
/// ```
/// # storage_doc::with_world(async |world| { use storage_doc::Hero;
/// let heroes = world.sessions(Default::default());
/// let hero = heroes.start_or(42_u64, || Hero { id: 42, level: 1 }).await?;
/// hero.edit(|hero| hero.level += 1)?; // in memory, as often as the game likes
/// assert_eq!(hero.get().level, 2);
/// let ack = hero.save().await?;
/// assert_eq!(hero.saved(), ack.version());
/// hero.end().await?;
/// # Ok(()) });
/// ```
pub struct Session<T: SaveObject + Send + Sync + 'static> {
    handle: Handle,
    object: Arc<Object<T>>,
}

impl<T: SaveObject + Send + Sync> fmt::Debug for Session<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.handle).finish()
    }
}

/// The current object of a session. Edits and saves of the object wait while this reference lives,
/// so drop it soon. An edit by the thread that holds it waits for ever.
///
/// ```
/// # storage_doc::with_world(async |world| { use storage_doc::Hero;
/// let heroes = world.sessions(Default::default());
/// let hero = heroes.start_or(42_u64, || Hero { id: 42, level: 1 }).await?;
/// let level = hero.get().level; // the reference is gone at the end of the line
/// hero.edit(|hero| hero.level = level + 1)?;
/// assert_eq!(*hero.get(), Hero { id: 42, level: 2 });
/// # Ok(()) });
/// ```
pub struct ObjectRef<'a, T>(RwLockReadGuard<'a, EditedObject<T>>);

impl<T> Deref for ObjectRef<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.object
    }
}

impl<T: fmt::Debug> fmt::Debug for ObjectRef<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.object.fmt(f)
    }
}

impl<T: SaveObject + Send + Sync + 'static> Session<T> {
    pub(super) fn hold(&self) -> &Arc<Hold> {
        self.handle.hold()
    }

    /// The object, with all edits.
    #[must_use]
    pub fn get(&self) -> ObjectRef<'_, T> {
        ObjectRef(self.object.read())
    }

    /// Edits the object in memory, for the next save. Returns the answer of the closure. If the
    /// closure panics, its changes stay. [`Session::try_edit`] changes all or nothing.
    ///
    /// ```
    /// # storage_doc::with_world(async |world| { use storage_doc::Hero;
    /// let heroes = world.sessions(Default::default());
    /// let hero = heroes.start_or(42_u64, || Hero { id: 42, level: 1 }).await?;
    /// let level = hero.edit(|hero| { hero.level += 1; hero.level })?;
    /// assert_eq!(level, 2);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `Fenced`: the session is lost. `Closing`: the session is ending, or has ended. Nothing was
    /// changed.
    pub fn edit<R>(&self, change: impl FnOnce(&mut T) -> R) -> Result<R> {
        let mut edited = self
            .object
            .edited
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        // ORDER: under the lock. The last save copies the content after the session began to end.
        self.handle.hold().check_editable()?;
        self.object.count(&mut edited);
        Ok(change(&mut edited.object))
    }

    /// Edits a copy of the object. The copy replaces the object if the closure succeeds. If the
    /// closure refuses or panics, nothing changes.
    ///
    /// ```
    /// # storage_doc::with_world(async |world| { use storage_doc::Hero;
    /// use storage_sdk::ModifyError;
    /// let heroes = world.sessions(Default::default());
    /// let hero = heroes.start_or(42_u64, || Hero { id: 42, level: 59 }).await?;
    /// let train = || hero.try_edit(|hero| {
    ///     hero.level += 1;
    ///     if hero.level > 60 { Err("the highest level") } else { Ok(hero.level) }
    /// });
    /// assert_eq!(train(), Ok(60));
    /// assert_eq!(train(), Err(ModifyError::Aborted("the highest level")));
    /// assert_eq!(hero.get().level, 60); // a refused edit leaves nothing
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `Aborted`: the closure returned this error. `Storage`: as [`Session::edit`].
    pub fn try_edit<R, E>(
        &self,
        change: impl FnOnce(&mut T) -> Result<R, E>,
    ) -> Result<R, ModifyError<E>>
    where
        T: Clone,
    {
        let mut edited = self
            .object
            .edited
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        self.handle.hold().check_editable()?;
        let mut copy = edited.object.clone();
        let answer = change(&mut copy).map_err(ModifyError::Aborted)?;
        edited.object = copy;
        self.object.count(&mut edited);
        Ok(answer)
    }
}

super::handle::shared_by_sessions!(Session<T> where T: SaveObject + Send + Sync + 'static);
