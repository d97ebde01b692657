//! Keeping what is read in the hot tier: a read gives a clean owner its full time to live again, thinned out.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use storage_model::Owner;
use tokio::time::Instant;

/// Owners remembered by their hash; two that share a slot are touched more often than needed.
const SLOTS: usize = 1 << 14;
/// Owners that wait to be touched; more than this are dropped, since another read comes.
const PENDING_MAX: usize = 10_000;

/// Which owners were touched lately, and which wait for it. Readers write both; the maintenance task takes what waits.
#[derive(Debug)]
pub(crate) struct Touches {
    interval: Duration,
    start: Instant,
    /// Without a key of its own: names chosen to collide cost a touch more, no more than that.
    hasher: BuildHasherDefault<DefaultHasher>,
    /// Per slot: the upper half of the owner's hash and the second of its last touch.
    slots: Vec<AtomicU64>,
    pending: Mutex<Vec<Owner>>,
}

impl Touches {
    pub(crate) fn new(interval: Duration) -> Self {
        let slots = std::iter::repeat_with(AtomicU64::default).take(SLOTS).collect();
        Self { interval, start: Instant::now(), hasher: BuildHasherDefault::default(), slots, pending: Mutex::default() }
    }

    /// Remembers that the owner was read; it is touched soon, unless that was done within the interval.
    pub(crate) fn read(&self, owner: &Owner) {
        let hash = self.hasher.hash_one(owner);
        let slot = usize::try_from(hash).unwrap_or_default() % SLOTS;
        let Some(slot) = self.slots.get(slot) else { return };
        let now = self.start.elapsed().as_secs() & 0xffff_ffff;
        let seen = slot.load(Ordering::Relaxed);
        let same = seen >> 32 == hash >> 32;
        if same && now.saturating_sub(seen & 0xffff_ffff) < self.interval.as_secs().max(1) {
            return;
        }
        slot.store((hash >> 32) << 32 | now, Ordering::Relaxed);
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.len() < PENDING_MAX {
            pending.push(owner.clone());
        }
    }

    /// Takes the owners that wait.
    pub(crate) fn take(&self) -> Vec<Owner> {
        std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
