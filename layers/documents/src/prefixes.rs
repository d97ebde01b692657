//! The paths that a follower of a feed is told of.

use crate::{Change, Error, Kind, Path, Result};

/// The most prefixes of one follower.
pub const PREFIXES_MAX: usize = 32;

/// Prefixes of paths. A follower is told of what lies below any of them.
///
/// ```
/// use storage_documents::{Path, Prefixes};
/// let rooms = Prefixes::new(["rooms/red", "rooms/blue"]).unwrap();
/// let path = |text| Path::new(text).unwrap();
/// assert!(rooms.have(&path("rooms/red/seats")) && rooms.have(&path("rooms/blue")));
/// assert!(!rooms.have(&path("rooms/reds")));
/// assert!(Prefixes::default().have(&path("rooms/reds")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefixes(Vec<String>);

/// All paths.
impl Default for Prefixes {
    fn default() -> Self {
        Self(vec![String::new()])
    }
}

impl Prefixes {
    /// Up to 32 prefixes. Without any, all paths.
    ///
    /// # Errors
    /// `Query`: there are more.
    pub fn new<T: Into<String>>(prefixes: impl IntoIterator<Item = T>) -> Result<Self> {
        let prefixes: Vec<String> = prefixes.into_iter().map(Into::into).collect();
        if prefixes.len() > PREFIXES_MAX {
            let message = format!(
                "{} prefixes were given; the most is {PREFIXES_MAX}, so give shorter ones or follow twice",
                prefixes.len()
            );
            return Err(Error::new(Kind::Query, message));
        }
        if prefixes.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self(prefixes))
    }

    /// The prefixes.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether a path lies below one of them.
    #[must_use]
    pub fn have(&self, path: &Path) -> bool {
        self.iter().any(|prefix| path.is_below(prefix))
    }

    /// Whether all that lies below other prefixes lies below these.
    ///
    /// ```
    /// use storage_documents::Prefixes;
    /// let of = |prefix: &str| Prefixes::new([prefix]).unwrap();
    /// assert!(of("rooms/red").cover(&of("rooms/red/seats")));
    /// assert!(!of("rooms/red").cover(&of("rooms/reds")));
    /// assert!(!of("rooms/red").cover(&Prefixes::default()));
    /// ```
    #[must_use]
    pub fn cover(&self, others: &Self) -> bool {
        let is_covered = |other| self.iter().any(|prefix| is_below(other, prefix));
        others.iter().all(is_covered)
    }

    /// Whether a follower is told of a change. A follower of an item is told of its collection, too.
    #[must_use]
    pub fn concern(&self, change: &Change) -> bool {
        let path = match change {
            Change::Event(event) => Some(&event.path),
            Change::Reset { path, .. } => path.as_ref(),
        };
        path.is_none_or(|path| self.have(path) || self.iter().any(|prefix| path.holds(prefix)))
    }
}

/// Whether a path, or a prefix of paths, is `prefix` or lies below it.
pub(crate) fn is_below(text: &str, prefix: &str) -> bool {
    let is_whole = |rest: &str| rest.is_empty() || rest.starts_with('/');
    let rest = text.strip_prefix(prefix);
    rest.is_some_and(|rest| prefix.is_empty() || prefix.ends_with('/') || is_whole(rest))
}
