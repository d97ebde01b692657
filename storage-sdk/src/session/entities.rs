//! Many sessions of one type, started on demand and ended when they are idle.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use storage_coalesce::locked;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::end::{Closed, end_all};
use super::keep::AT_ONCE;
use super::object::{Session, Sessions};
use super::state::SessionState;
use crate::{Error, Home, Kind, OwnerId, Result, SaveObject, SessionOptions};

/// The number of kept sessions, and the time for which they are kept.
///
/// ```
/// # storage_doc::with_world(async |world| { use storage_doc::Hero;
/// use std::time::Duration;
/// use storage_sdk::{EntityOptions, OnConflict, SessionOptions};
/// let options = EntityOptions::new()
///     .max(1)
///     .idle(Duration::from_secs(60))
///     .session(SessionOptions::new().on_conflict(OnConflict::Fail));
/// let heroes = world.entities(options);
/// heroes.get_or(1_u64, || Hero { id: 1, level: 1 }).await?;
/// heroes.get_or(2_u64, || Hero { id: 2, level: 1 }).await?; // the first one is saved, and ends
/// assert_eq!(heroes.len(), 1);
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntityOptions {
    /// The most sessions. Default: 20,000. At the maximum, the least recently used session that is
    /// not in use ends to make room for the next one.
    pub max: usize,
    /// The time for which an unused session is kept. Default: 5 min.
    pub idle: Duration,
    /// How the sessions begin and save.
    pub session: SessionOptions,
}

impl EntityOptions {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            max: 20_000,
            idle: Duration::from_mins(5),
            session: SessionOptions::new(),
        }
    }

    /// Sets the most sessions.
    #[must_use]
    pub const fn max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// Sets the time for which an unused session is kept.
    #[must_use]
    pub const fn idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// Sets how the sessions begin and save.
    #[must_use]
    pub const fn session(mut self, session: SessionOptions) -> Self {
        self.session = session;
        self
    }
}

impl Default for EntityOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The sessions of many objects of one type. A session starts when its object is first asked for.
/// It ends when it is idle for a while, when another server asks for its owner, or with
/// [`Entities::close`]. If this is dropped without a close, all sessions end in the background at
/// once.
///
/// ```
/// # storage_doc::with_world(async |world| { use storage_doc::Hero;
/// use std::time::Duration;
/// use storage_sdk::EntityOptions;
/// let heroes = world.entities::<Hero>(EntityOptions::default());
/// let hero = heroes.get_or(42_u64, || Hero { id: 42, level: 1 }).await?;
/// hero.edit(|hero| hero.level += 1)?;
/// let again = heroes.get(42_u64).await?.expect("it is there"); // the same session
/// assert_eq!(again.get().level, 2);
/// let closed = heroes.close(Duration::from_secs(5)).await;
/// assert_eq!((closed.ended, closed.unsaved.len()), (1, 0));
/// # Ok(()) });
/// ```
pub struct Entities<T: SaveObject + Send + Sync + 'static> {
    shared: Arc<EntitiesState<T>>,
}

struct EntitiesState<T: SaveObject + Send + Sync + 'static> {
    sessions: Sessions<T>,
    options: EntityOptions,
    home: Home,
    // A plain mutex: held for map operations only, never across an await.
    entries: Mutex<Entries<T>>,
}

struct Entries<T: SaveObject + Send + Sync + 'static> {
    by_id: BTreeMap<String, Entry<T>>,
    closed: bool,
    /// Whether the task that ends idle sessions runs.
    is_tended: bool,
}

/// The result of a start: whether the object exists. The session itself is among the entries,
/// because a second handle would count as a use.
type StartResult = Option<Result<bool>>;

/// A session, or the start of one.
enum Entry<T: SaveObject + Send + Sync + 'static> {
    Starting(watch::Receiver<StartResult>),
    Open(Arc<Session<T>>, Instant),
}

impl<T: SaveObject + Send + Sync> Clone for Entities<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T: SaveObject + Send + Sync> fmt::Debug for Entities<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entities")
            .field("options", &self.shared.options)
            .field("open", &self.len())
            .finish()
    }
}

type MakeObject<T> = Box<dyn FnOnce() -> Option<T> + Send>;

impl<T: SaveObject + Send + Sync + 'static> Entities<T> {
    pub(crate) fn new(sessions: Sessions<T>, home: Home, options: EntityOptions) -> Self {
        let entries = Mutex::new(Entries {
            by_id: BTreeMap::new(),
            closed: false,
            is_tended: false,
        });
        Self {
            shared: Arc::new(EntitiesState {
                sessions,
                options,
                home,
                entries,
            }),
        }
    }

    /// The number of sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.entries().by_id.len()
    }

    /// Whether there are no sessions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The session of an object. Starts it if needed. Returns `None` if no such object exists.
    /// Concurrent callers get the same session. A session in use does not become idle, so keep it
    /// for one action and ask again for the next one.
    ///
    /// ```
    /// # storage_doc::with_world(async |world| { use storage_doc::Hero;
    /// let heroes = world.entities::<Hero>(Default::default());
    /// assert!(heroes.get(42_u64).await?.is_none());
    /// world.objects().save(&Hero { id: 42, level: 7 }).await?;
    /// let hero = heroes.get(42_u64).await?.expect("it was saved");
    /// assert_eq!(hero.get().level, 7);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Sessions::start`]. `Overloaded`: all [`EntityOptions::max`] sessions are in use.
    /// `Closed`: [`Entities::close`] was called.
    ///
    /// # Cancel safety
    /// A start goes on if other callers wait for it.
    pub async fn get(&self, id: impl OwnerId) -> Result<Option<Arc<Session<T>>>> {
        self.session_of(&id.to_owner_id(), None).await
    }

    /// As [`Entities::get`]. If the object does not exist, `make` makes it.
    ///
    /// ```
    /// # storage_doc::with_world(async |world| { use storage_doc::Hero;
    /// let heroes = world.entities(Default::default());
    /// for _ in 0..3 {
    ///     // Each request of the player asks again, and gets the same session.
    ///     let hero = heroes.get_or(42_u64, || Hero { id: 42, level: 1 }).await?;
    ///     hero.edit(|hero| hero.level += 1)?;
    /// }
    /// assert_eq!(heroes.get(42_u64).await?.map(|hero| hero.get().level), Some(4));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Entities::get`].
    ///
    /// # Cancel safety
    /// As [`Entities::get`].
    pub async fn get_or(
        &self,
        id: impl OwnerId,
        make: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Arc<Session<T>>> {
        let session = self
            .session_of(&id.to_owner_id(), Some(Box::new(|| Some(make()))))
            .await?;
        session.ok_or_else(|| Error::new(Kind::Corrupt, "a session has no object"))
    }

    async fn session_of(
        &self,
        id: &str,
        mut make: Option<MakeObject<T>>,
    ) -> Result<Option<Arc<Session<T>>>> {
        loop {
            let mut starting = match self.shared.look(id)? {
                EntryLookup::Open(session) => return Ok(Some(session)),
                EntryLookup::Starting(starting) => starting,
                EntryLookup::Nothing { start, frees } => {
                    let (shared, id) = (Arc::clone(&self.shared), id.to_owned());
                    let make = make.take().unwrap_or_else(|| Box::new(|| None));
                    let starting = start.subscribe();
                    self.shared
                        .home
                        .spawn(async move { shared.start(&id, make, &start, frees).await });
                    starting
                }
            };
            let started = starting
                .wait_for(Option::is_some)
                .await
                .ok()
                .and_then(|started| started.clone());
            match started {
                // Found, unless the session has ended since.
                Some(Ok(true)) => {}
                // Another caller asked first, and had no object to make.
                Some(Ok(false)) if make.is_some() => {}
                Some(Ok(false)) => return Ok(None),
                Some(Err(error)) => return Err(error),
                None => {
                    return Err(Error::new(
                        Kind::Closed,
                        "the storage's background tasks ended before the session was started",
                    ));
                }
            }
        }
    }

    /// Ends all sessions until the deadline, those with unsaved edits first. Starts no more
    /// sessions. Reports the owners with unsaved edits.
    ///
    /// ```
    /// # storage_doc::with_world(async |world| { use storage_doc::Hero;
    /// use std::time::Duration;
    /// let heroes = world.entities(Default::default());
    /// heroes.get_or(42_u64, || Hero { id: 42, level: 7 }).await?;
    /// assert_eq!(heroes.close(Duration::from_secs(5)).await.ended, 1);
    /// assert!(heroes.get(42_u64).await.is_err()); // it starts no more sessions
    /// assert!(world.objects::<Hero>().load(42_u64).await?.is_some());
    /// # Ok(()) });
    /// ```
    ///
    /// # Cancel safety
    /// After a dropped call, the remaining sessions go on. Call it again.
    pub async fn close(&self, deadline: Duration) -> Closed {
        let sessions = self.shared.close();
        let holds = sessions
            .iter()
            .map(|session| Arc::clone(session.hold()))
            .collect();
        let closed = self
            .shared
            .home
            .run(async move { end_all(holds, Instant::now() + deadline).await })
            .await;
        closed.unwrap_or_default()
    }
}

/// The entry of an object, for a caller.
enum EntryLookup<T: SaveObject + Send + Sync + 'static> {
    Open(Arc<Session<T>>),
    Starting(watch::Receiver<StartResult>),
    /// No entry. The caller starts the session, and first ends `frees` to make room.
    Nothing {
        start: watch::Sender<StartResult>,
        frees: Option<Arc<Session<T>>>,
    },
}

impl<T: SaveObject + Send + Sync + 'static> EntitiesState<T> {
    fn entries(&self) -> MutexGuard<'_, Entries<T>> {
        locked(&self.entries)
    }

    fn look(self: &Arc<Self>, id: &str) -> Result<EntryLookup<T>> {
        let mut entries = self.entries();
        if entries.closed {
            return Err(Error::new(Kind::Closed, "the entities were closed"));
        }
        match entries.by_id.get_mut(id) {
            // A start without a sender has panicked.
            Some(Entry::Starting(starting)) if starting.has_changed().is_ok() => {
                return Ok(EntryLookup::Starting(starting.clone()));
            }
            Some(Entry::Open(session, used)) if is_usable(session) => {
                *used = Instant::now();
                return Ok(EntryLookup::Open(Arc::clone(session)));
            }
            _ => {}
        }
        // A session that is over, or that another server asks for, ends before the next one begins.
        let mut frees = match entries.by_id.remove(id) {
            Some(Entry::Open(session, _)) => Some(session),
            _ => None,
        };
        if entries.by_id.len() >= self.options.max {
            frees = Some(entries.take_oldest(self.options.max)?);
        }
        let (start, starting) = watch::channel(None);
        entries
            .by_id
            .insert(id.to_owned(), Entry::Starting(starting));
        if !std::mem::replace(&mut entries.is_tended, true) {
            self.home
                .spawn(tend(Arc::downgrade(self), self.options.idle));
        }
        Ok(EntryLookup::Nothing { start, frees })
    }

    async fn start(
        &self,
        id: &str,
        make: MakeObject<T>,
        start: &watch::Sender<StartResult>,
        frees: Option<Arc<Session<T>>>,
    ) {
        if let Some(session) = frees
            && let Some(error) = session
                .end()
                .await
                .err()
                .filter(|error| error.kind() != Kind::Closing)
        {
            tracing::warn!(%error, "a session that nobody used could not be ended");
            self.entries().by_id.remove(id);
            self.keep(session);
            start.send_replace(Some(Err(error)));
            return;
        }
        let started = self.sessions.begin_with(id, make).await;
        let answer = started.as_ref().map(Option::is_some).map_err(Clone::clone);
        let mut entries = self.entries();
        match started {
            Ok(Some(session)) if !entries.closed => {
                entries.by_id.insert(
                    id.to_owned(),
                    Entry::Open(Arc::new(session), Instant::now()),
                );
            }
            // A dropped session ends by itself.
            _ => drop(entries.by_id.remove(id)),
        }
        drop(entries);
        start.send_replace(Some(answer));
    }

    /// Puts back a session after a failed end, unless it is over. The end is tried again.
    fn keep(&self, session: Arc<Session<T>>) {
        let mut entries = self.entries();
        if !session.hold().is_over() && !entries.closed {
            let id = session.hold().owner().id().to_owned();
            entries
                .by_id
                .entry(id)
                .or_insert_with(|| Entry::Open(session, Instant::now()));
        }
    }

    fn close(&self) -> Vec<Arc<Session<T>>> {
        let mut entries = self.entries();
        entries.closed = true;
        let all = std::mem::take(&mut entries.by_id).into_values();
        all.filter_map(|entry| {
            if let Entry::Open(session, _) = entry {
                Some(session)
            } else {
                None
            }
        })
        .collect()
    }

    /// Takes out the sessions that must end: idle ones, those that are asked for, and those that
    /// are over.
    fn take_due(&self) -> Vec<Arc<Session<T>>> {
        let mut entries = self.entries();
        let is_due = |entry: &Entry<T>| match entry {
            Entry::Starting(_) => false,
            Entry::Open(session, used) => {
                let is_idle = is_unused(session) && used.elapsed() >= self.options.idle;
                is_idle || !is_usable(session)
            }
        };
        let due: Vec<String> = entries
            .by_id
            .iter()
            .filter(|(_, entry)| is_due(entry))
            .map(|(id, _)| id.clone())
            .collect();
        let mut sessions = Vec::new();
        for id in due {
            if let Some(Entry::Open(session, _)) = entries.by_id.remove(&id) {
                sessions.push(session);
            }
        }
        sessions
    }
}

impl<T: SaveObject + Send + Sync + 'static> Entries<T> {
    /// Takes out the least recently used session that is not in use.
    fn take_oldest(&mut self, max: usize) -> Result<Arc<Session<T>>> {
        let unused = self.by_id.iter().filter_map(|(id, entry)| match entry {
            Entry::Open(session, used) if is_unused(session) => Some((*used, id.clone())),
            _ => None,
        });
        let oldest = unused.min_by_key(|(used, _)| *used);
        match oldest.and_then(|(_, id)| self.by_id.remove(&id)) {
            Some(Entry::Open(session, _)) => Ok(session),
            _ => {
                let message = format!(
                    "all {max} sessions (EntityOptions::max) are in use; raise the limit, or keep a session only for one action"
                );
                Err(Error::overloaded(message, Duration::from_millis(200)))
            }
        }
    }
}

/// Whether a session is unused. A suspect session stays, because it alone may have data that the
/// hot tier forgot.
fn is_unused<T: SaveObject + Send + Sync>(session: &Arc<Session<T>>) -> bool {
    Arc::strong_count(session) == 1 && session.state() != SessionState::Suspect
}

/// Whether a session can be returned: it is not over, and no server asks for its owner.
fn is_usable<T: SaveObject + Send + Sync>(session: &Session<T>) -> bool {
    matches!(session.state(), SessionState::Held | SessionState::Suspect)
}

/// Ends the due sessions, while the entities exist.
async fn tend<T: SaveObject + Send + Sync + 'static>(
    shared: Weak<EntitiesState<T>>,
    idle: Duration,
) {
    let rhythm = (idle / 8).clamp(Duration::from_millis(20), Duration::from_millis(200));
    loop {
        let Some(strong) = shared.upgrade() else {
            return;
        };
        let due = strong.take_due();
        drop(strong);
        let kept = &shared;
        let ends = stream::iter(due).for_each_concurrent(AT_ONCE, async |session: Arc<Session<T>>| {
            let ended = session.end().await;
            if let Some(error) = ended.err().filter(|error| error.kind() != Kind::Closing) {
                tracing::warn!(%error, "a session that nobody used, or that another server asked for, could not be ended");
                if let Some(shared) = kept.upgrade() {
                    shared.keep(session);
                }
            }
        });
        ends.await;
        sleep(rhythm).await;
    }
}
