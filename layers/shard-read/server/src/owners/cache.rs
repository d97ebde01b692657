//! Landed owners in memory, up to a limit in bytes (V14), and the loads that are under way (V8).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use storage_sdk::Owner;
use storage_shard_read::owners::LandedOwner;
use tokio::time::Instant;

/// The bytes that an entry takes beside its key and value, about.
const ENTRY_BYTES: u64 = 160;

/// An owner as it was loaded. None: it has no row.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) owner: Option<LandedOwner>,
    /// It is loaded again after this moment, because rows can change without an event.
    until: Instant,
}

#[derive(Debug, Clone)]
struct EntryBytes;

impl Weighter<Owner, Entry> for EntryBytes {
    fn weight(&self, key: &Owner, entry: &Entry) -> u64 {
        let value = entry.owner.as_ref().map_or(0, LandedOwner::size);
        let names = [key.app(), key.region(), key.logic_type(), key.id()];
        let names: usize = names.iter().map(|name| name.len()).sum();
        ENTRY_BYTES + (value + names) as u64
    }
}

/// The owners in memory.
pub(super) struct OwnerCache {
    entries: Cache<Owner, Entry, EntryBytes>,
    lifetime: Duration,
    /// The loads under way. True: an event came meanwhile, so what is loaded is not kept.
    loads: Mutex<HashMap<Owner, bool>>,
}

impl OwnerCache {
    /// With a limit in bytes, and a time after which an entry is loaded again.
    pub(super) fn new(bytes_max: u64, lifetime: Duration) -> Self {
        // As many entries as there can be, for the size of tables.
        let entries = usize::try_from(bytes_max / (2 * ENTRY_BYTES)).unwrap_or(usize::MAX);
        Self {
            entries: Cache::with_weighter(entries.clamp(16, 1 << 24), bytes_max, EntryBytes),
            lifetime,
            loads: Mutex::default(),
        }
    }

    fn loads(&self) -> MutexGuard<'_, HashMap<Owner, bool>> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An owner that is in memory and not too old.
    pub(super) fn get(&self, owner: &Owner) -> Option<Entry> {
        let entry = self.entries.get(owner)?;
        (Instant::now() < entry.until).then_some(entry)
    }

    /// A load of an owner begins. An owner has one load at a time.
    pub(super) fn begin_load(&self, owner: &Owner) {
        self.loads().insert(owner.clone(), false);
    }

    /// A load of an owner has ended. What it has loaded is kept, unless an event came meanwhile (V8).
    ///
    /// `chance` spreads the ends of entries: 0.8 to 1.2 of their lifetime.
    pub(super) fn end_load(&self, owner: &Owner, loaded: Option<Option<LandedOwner>>, chance: f64) {
        // ORDER: under the lock, which an event takes before it drops the entry.
        let mut loads = self.loads();
        let is_overtaken = loads.remove(owner).unwrap_or(true);
        if let Some(landed) = loaded.filter(|_| !is_overtaken) {
            let until = Instant::now() + self.lifetime.mul_f64(chance.clamp(0.8, 1.2));
            let entry = Entry {
                owner: landed,
                until,
            };
            self.entries.insert(owner.clone(), entry);
        }
    }

    /// An event names this owner.
    pub(super) fn drop_owner(&self, owner: &Owner) {
        let mut loads = self.loads();
        if let Some(is_overtaken) = loads.get_mut(owner) {
            *is_overtaken = true;
        }
        self.entries.remove(owner);
    }

    /// Nothing that is in memory or under way can be trusted any more.
    pub(super) fn drop_all(&self) {
        let mut loads = self.loads();
        loads
            .values_mut()
            .for_each(|is_overtaken| *is_overtaken = true);
        self.entries.clear();
    }

    /// The bytes in memory, about.
    pub(super) fn bytes(&self) -> u64 {
        self.entries.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(id: &str) -> Owner {
        Owner::new("game", "eu", "player", id).unwrap()
    }

    fn landed(version: u64, bytes: usize) -> Option<LandedOwner> {
        Some(LandedOwner::new(
            version,
            [("f".to_owned(), vec![0; bytes].into())],
        ))
    }

    fn cache() -> OwnerCache {
        OwnerCache::new(1 << 20, Duration::from_secs(60))
    }

    fn load(cache: &OwnerCache, id: &str, bytes: usize) {
        cache.begin_load(&owner(id));
        cache.end_load(&owner(id), Some(landed(1, bytes)), 1.0);
    }

    #[tokio::test]
    async fn a_load_that_an_event_overtook_is_not_kept() {
        let cache = cache();
        for drop in [
            (|cache: &OwnerCache| cache.drop_owner(&owner("ann"))) as fn(&OwnerCache),
            OwnerCache::drop_all,
        ] {
            cache.begin_load(&owner("ann"));
            drop(&cache);
            cache.end_load(&owner("ann"), Some(landed(1, 9)), 1.0);
            assert!(cache.get(&owner("ann")).is_none());
            load(&cache, "ann", 9);
            assert!(cache.get(&owner("ann")).is_some());
            drop(&cache);
            assert!(cache.get(&owner("ann")).is_none());
        }
    }

    #[tokio::test]
    async fn the_event_of_another_owner_changes_nothing() {
        let cache = cache();
        cache.begin_load(&owner("ann"));
        cache.drop_owner(&owner("bo"));
        cache.end_load(&owner("ann"), Some(landed(1, 9)), 1.0);
        assert!(cache.get(&owner("ann")).is_some());
    }

    #[tokio::test]
    async fn a_load_that_failed_leaves_nothing_and_an_absent_owner_is_an_entry() {
        let cache = cache();
        cache.begin_load(&owner("ann"));
        cache.end_load(&owner("ann"), None, 1.0);
        assert!(cache.get(&owner("ann")).is_none());
        cache.begin_load(&owner("ann"));
        cache.end_load(&owner("ann"), Some(None), 1.0);
        assert!(
            cache
                .get(&owner("ann"))
                .is_some_and(|entry| entry.owner.is_none())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_ends_after_its_lifetime() {
        let cache = cache();
        load(&cache, "ann", 9);
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(cache.get(&owner("ann")).is_some());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(cache.get(&owner("ann")).is_none());
    }

    /// V14.
    #[tokio::test]
    async fn the_memory_of_entries_stays_below_its_limit() {
        let cache = cache();
        for id in 0..5_000 {
            load(&cache, &id.to_string(), 1_000);
            assert!(cache.bytes() <= 1 << 20, "{}", cache.bytes());
        }
        assert!(cache.bytes() > 1 << 19);
        let held = (0..5_000).filter(|id| cache.get(&owner(&id.to_string())).is_some());
        let bytes = held.count() * 1_000;
        assert!(bytes <= 1 << 20, "the values alone have {bytes} bytes");
    }
}
