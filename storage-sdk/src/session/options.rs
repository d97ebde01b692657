//! How sessions begin, and how often they save by themselves.

use std::time::Duration;

/// The reaction of a start if another session holds the owner.
///
/// ```
/// # storage_doc::with_world(async |world| { use storage_doc::Hero;
/// use std::time::Duration;
/// use storage_sdk::{OnConflict, SessionOptions};
/// // The servers of a match never take a hero from each other.
/// let on_conflict = OnConflict::Wait { at_most: Duration::from_millis(50) };
/// let heroes = world.sessions::<Hero>(SessionOptions::default().on_conflict(on_conflict));
/// let hero = heroes.start_or(42_u64, || Hero { id: 42, level: 1 }).await?;
/// assert_eq!(heroes.start(42_u64).await.unwrap_err().kind(), storage_sdk::Kind::Held);
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnConflict {
    /// The start fails as [`Held`](crate::Kind::Held), at once.
    Fail,
    /// The start waits until the owner is free. It fails as `Held` after `at_most`.
    Wait {
        /// The longest wait.
        at_most: Duration,
    },
    /// The start asks the holder for the owner, and waits. The holder saves at once, and its game
    /// learns of the request; see [`Session::asked`](crate::Session::asked).
    Ask {
        /// The time for the holder to end its session.
        after: Duration,
        /// The reaction after that time.
        then: Otherwise,
    },
    /// The start takes the owner at once. Unsaved edits of the holder are lost.
    Steal,
}

/// The reaction of a start if the holder was asked and did not end its session in time.
///
/// ```
/// # storage_doc::with_world(async |world| { use storage_doc::Hero;
/// use std::time::Duration;
/// use storage_sdk::{OnConflict, Otherwise, SessionOptions};
/// let ask = OnConflict::Ask { after: Duration::from_millis(50), then: Otherwise::Steal };
/// let heroes = world.sessions(SessionOptions::default().on_conflict(ask));
/// let hangs = heroes.start_or(42_u64, || Hero { id: 42, level: 1 }).await?;
/// let hero = heroes.start_or(42_u64, || Hero { id: 42, level: 1 }).await?; // after 50 ms
/// assert!(hangs.save().await.is_err()); // it can't overwrite the new session
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Otherwise {
    /// The start fails as [`Held`](crate::Kind::Held).
    Fail,
    /// The start takes the owner. Unsaved edits of the holder are lost.
    Steal,
}

/// How often a session saves by itself. It does so only if there are edits since the last save.
///
/// ```
/// # storage_doc::with_world(async |world| { use storage_doc::Hero;
/// use std::time::Duration;
/// use storage_sdk::{Autosave, SessionOptions};
/// let often = SessionOptions::default().autosave(Autosave::Every(Duration::from_millis(20)));
/// let hero = world.sessions(often).start_or(42_u64, || Hero { id: 42, level: 1 }).await?;
/// let before = hero.saved();
/// while hero.saved() == before {
///     tokio::time::sleep(Duration::from_millis(5)).await; // the game goes on
/// }
/// assert!(world.objects::<Hero>().load(42_u64).await?.is_some());
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Autosave {
    /// Never: the game saves.
    Off,
    /// About once in this time. The first save comes at a random moment within it, so that sessions
    /// that begin together save at different moments.
    Every(Duration),
}

/// How sessions begin and save.
///
/// ```
/// use std::time::Duration;
/// use storage_sdk::{Autosave, OnConflict, SessionOptions};
///
/// const STRICT: SessionOptions = SessionOptions::new()
///     .on_conflict(OnConflict::Fail)
///     .autosave(Autosave::Every(Duration::from_secs(10)))
///     .within(Duration::from_secs(5));
/// assert_eq!(STRICT.within, Duration::from_secs(5));
/// assert_eq!(SessionOptions::default().autosave, Autosave::Every(Duration::from_secs(60)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionOptions {
    /// The reaction of a start if another session holds the owner. Default: ask, and take the owner
    /// after 10 s.
    pub on_conflict: OnConflict,
    /// How often a session saves by itself. Default: every 60 s.
    pub autosave: Autosave,
    /// The longest time for a start. Default: 60 s. After the hot tier was replaced, no session
    /// starts for a lease and a tenth of it.
    pub within: Duration,
}

impl SessionOptions {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            on_conflict: OnConflict::Ask {
                after: Duration::from_secs(10),
                then: Otherwise::Steal,
            },
            autosave: Autosave::Every(Duration::from_mins(1)),
            within: Duration::from_mins(1),
        }
    }

    /// Sets the reaction of a start if another session holds the owner.
    #[must_use]
    pub const fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.on_conflict = on_conflict;
        self
    }

    /// Sets how often a session saves by itself.
    #[must_use]
    pub const fn autosave(mut self, autosave: Autosave) -> Self {
        self.autosave = autosave;
        self
    }

    /// Sets the longest time for a start.
    #[must_use]
    pub const fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self::new()
    }
}
