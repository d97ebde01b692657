//! Why writes fail: nothing would land them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use storage_coalesce::locked;
use storage_sql::ColdKind;

use crate::{TierError, Tiers};

/// The last findings.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// Read by every write. Set by each finding.
    any: AtomicBool,
    /// How many looks at the tiers have begun.
    looks: AtomicU64,
    why: Mutex<Why>,
}

/// A look at the tiers. Of two looks that overlap, the later one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Look(u64);

/// Locked for a look or a change, never across an await.
#[derive(Debug, Default)]
struct Why {
    /// The tiers do not belong together, or the hot tier could not take over.
    pairing: Option<TierError>,
    /// The last look at the pairing.
    look: Look,
    /// Another hot tier took a partition.
    replaced: Option<TierError>,
    /// The last look at the partitions.
    places: Look,
    /// The database takes no rows, and the hot tier ends with this process.
    landing: Option<TierError>,
}

impl Refusals {
    /// Begins a look, before anything is read.
    pub(crate) fn look(&self) -> Look {
        Look(self.looks.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Records the result of a look at the pairing. A look that began before the last recorded one
    /// changes nothing.
    pub(crate) fn pairing(&self, look: Look, found: Option<TierError>) {
        let mut why = self.lock();
        if look >= why.look {
            why.look = look;
            self.set(&mut why, found, |why| &mut why.pairing);
        }
    }

    /// Records whether another hot tier took a partition, as [`Refusals::pairing`] does.
    pub(crate) fn replaced(&self, look: Look, found: Option<TierError>) {
        let mut why = self.lock();
        if look >= why.places {
            why.places = look;
            self.set(&mut why, found, |why| &mut why.replaced);
        }
    }

    fn landing(&self, found: Option<TierError>) {
        self.set(&mut self.lock(), found, |why| &mut why.landing);
    }

    fn lock(&self) -> MutexGuard<'_, Why> {
        locked(&self.why)
    }

    fn set(
        &self,
        why: &mut Why,
        found: Option<TierError>,
        slot: fn(&mut Why) -> &mut Option<TierError>,
    ) {
        let held = slot(why);
        match (&*held, &found) {
            (old, Some(new)) if old.as_ref() != Some(new) => {
                tracing::error!(why = %new, "writes are refused")
            }
            (Some(_), None) => tracing::info!("writes are no longer refused"),
            _ => {}
        }
        *held = found;
        self.any.store(
            why.pairing.is_some() || why.replaced.is_some() || why.landing.is_some(),
            Ordering::Release,
        );
    }
}

impl TierError {
    /// Whether the database is reachable but takes no writes, for example on a full disk. Reads may
    /// still succeed.
    #[must_use]
    pub fn database_takes_no_writes(&self) -> bool {
        matches!(self, Self::Cold(error) if error.kind == ColdKind::Operator)
    }
}

impl Tiers {
    /// Why writes fail: nothing would land them. `None` if they do not fail, which costs one atomic
    /// read.
    #[must_use]
    pub fn refusal(&self) -> Option<TierError> {
        if !self.refusals.any.load(Ordering::Acquire) {
            return None;
        }
        let why = self.refusals.lock();
        let first = why.pairing.as_ref().or(why.replaced.as_ref());
        first.or(why.landing.as_ref()).cloned()
    }

    /// Whether another hot tier took partitions from this one, as this process found it last.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        self.refusals.any.load(Ordering::Acquire) && self.refusals.lock().replaced.is_some()
    }

    /// Records how a worker's pass ended. If the hot tier ends with this process, writes fail while
    /// the database takes none, for example on a full disk.
    pub fn note_landing(&self, ended: Result<(), &TierError>) {
        match ended {
            _ if !self.alone => {}
            Ok(()) => self.refusals.landing(None),
            Err(error) if error.database_takes_no_writes() => {
                self.refusals.landing(Some(error.clone()))
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_look_does_not_undo_what_a_later_one_found() {
        let refusals = Refusals::default();
        let refused = || {
            Some(TierError::Contended {
                what: "compare the tiers".into(),
                tries: 1,
            })
        };
        let (slow, quick) = (refusals.look(), refusals.look());
        refusals.pairing(quick, refused());
        refusals.pairing(slow, None);
        assert_eq!(refusals.lock().pairing, refused());
        refusals.pairing(refusals.look(), None);
        assert_eq!(refusals.lock().pairing, None);

        // Looks at the partitions, among which are looks at the pairing.
        let (slow, quick) = (refusals.look(), refusals.look());
        refusals.replaced(quick, refused());
        refusals.pairing(refusals.look(), None);
        refusals.replaced(slow, None);
        assert_eq!(refusals.lock().replaced, refused());
        refusals.replaced(refusals.look(), None);
        assert_eq!(refusals.lock().replaced, None);
    }
}
