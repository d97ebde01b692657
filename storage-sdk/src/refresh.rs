//! Keeps owners that are read in the hot tier. A read gives a clean owner its full time to live
//! again, at most once in each interval.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use storage_coalesce::locked;
use storage_model::Owner;
use tokio::time::Instant;

/// Owners are remembered by their digest. Two owners in one slot are refreshed more often than
/// needed.
const SLOTS: usize = 1 << 14;
/// The most owners that wait for a refresh. More are dropped, because another read follows.
const PENDING_MAX: usize = 10_000;

/// The owners that were refreshed lately, and those that wait for it. Readers write both. The
/// maintenance task takes the waiting ones.
#[derive(Debug)]
pub(crate) struct Refreshes {
    /// The interval in whole seconds, at least one.
    interval: u64,
    start: Instant,
    /// In each slot: the upper half of the owner's digest, and the second of its last refresh.
    /// Names that are chosen to collide cost an extra refresh, and no more.
    slots: Vec<AtomicU64>,
    pending: Mutex<Vec<Owner>>,
}

impl Refreshes {
    pub(crate) fn new(interval: Duration) -> Self {
        let slots = std::iter::repeat_with(AtomicU64::default)
            .take(SLOTS)
            .collect();
        let interval = interval.as_secs().max(1);
        Self {
            interval,
            start: Instant::now(),
            slots,
            pending: Mutex::default(),
        }
    }

    /// Notes a read of the owner. The owner is refreshed soon, unless that was done within the
    /// interval.
    pub(crate) fn read(&self, owner: &Owner) {
        let digest = owner.digest();
        let slot = usize::try_from(digest).unwrap_or_default() % SLOTS;
        let Some(slot) = self.slots.get(slot) else {
            return;
        };
        let now = self.start.elapsed().as_secs() & 0xffff_ffff;
        let seen = slot.load(Ordering::Relaxed);
        let same = seen >> 32 == digest >> 32;
        if same && now.saturating_sub(seen & 0xffff_ffff) < self.interval {
            return;
        }
        let mut pending = locked(&self.pending);
        if pending.len() < PENDING_MAX {
            pending.push(owner.clone());
            slot.store((digest >> 32) << 32 | now, Ordering::Relaxed);
        }
    }

    /// Takes the waiting owners.
    pub(crate) fn take(&self) -> Vec<Owner> {
        std::mem::take(&mut *locked(&self.pending))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_touched_once_an_interval_and_one_that_found_no_room_by_the_next_read() {
        let owner = |id: usize| Owner::new("app", "eu", "player", &id.to_string()).unwrap();
        let minute = Duration::from_mins(1);
        let mut refreshes = Refreshes::new(minute);
        (0..3).for_each(|_| refreshes.read(&owner(0)));
        assert_eq!(refreshes.take(), [owner(0)]);
        refreshes.read(&owner(0));
        assert_eq!(refreshes.take(), []);
        refreshes.start -= minute;
        refreshes.read(&owner(0));
        assert_eq!(refreshes.take(), [owner(0)]);

        let refreshes = Refreshes::new(Duration::ZERO);
        (1..=PENDING_MAX).for_each(|id| refreshes.read(&owner(id)));
        assert_eq!(refreshes.pending.lock().unwrap().len(), PENDING_MAX);
        refreshes.read(&owner(0));
        assert_eq!(refreshes.take().len(), PENDING_MAX);
        refreshes.read(&owner(0));
        assert_eq!(refreshes.take(), [owner(0)]);
    }
}
