//! Why writes are refused: nothing would land them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use storage_model::sabotage::broken;
use storage_sql::ColdKind;

use super::{TierError, Tiers};

/// What was found last.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Read by every write; set by whoever finds something.
    any: AtomicBool,
    why: Mutex<Why>,
}

/// Held for a look or a change, never across an await.
#[derive(Debug, Default)]
struct Why {
    /// The tiers do not belong together, or the hot tier could not take over.
    pairing: Option<TierError>,
    /// The database takes no rows, and the hot tier ends with this process.
    landing: Option<TierError>,
}

impl Refusals {
    pub(super) fn pairing(&self, found: Option<TierError>) {
        self.set(found, |why| &mut why.pairing);
    }

    fn set(&self, found: Option<TierError>, slot: fn(&mut Why) -> &mut Option<TierError>) {
        let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        let held = slot(&mut why);
        match (&*held, &found) {
            (old, Some(new)) if old.as_ref() != Some(new) => tracing::error!(why = %new, "writes are refused"),
            (Some(_), None) => tracing::info!("writes are no longer refused"),
            _ => {}
        }
        *held = found;
        self.any.store(why.pairing.is_some() || why.landing.is_some(), Ordering::Release);
    }
}

impl TierError {
    /// Whether the database is there and takes no writes, as on a full disk: reads may still be served.
    #[must_use]
    pub fn database_takes_no_writes(&self) -> bool {
        matches!(self, Self::Cold(error) if error.kind == ColdKind::Operator)
    }
}

impl Tiers {
    /// Why writes are refused, since nothing would land them; none if they are not. One atomic read where they are not.
    #[must_use]
    pub fn refusal(&self) -> Option<TierError> {
        if !self.refusals.any.load(Ordering::Acquire) || broken("H76-unrefused") {
            return None;
        }
        let why = self.refusals.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.pairing.clone().or_else(|| why.landing.clone())
    }

    /// Takes note of how a pass of a worker ended. Where the hot tier ends with this process, writes are refused while the database takes
    /// none, such as on a full disk.
    pub(crate) fn note_landing(&self, ended: Result<(), &TierError>) {
        match ended {
            _ if !self.alone => {}
            Ok(()) => self.refusals.set(None, |why| &mut why.landing),
            Err(error) if error.database_takes_no_writes() => self.refusals.set(Some(error.clone()), |why| &mut why.landing),
            Err(_) => {}
        }
    }
}
