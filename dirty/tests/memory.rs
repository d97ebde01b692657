//! The engine in memory passes the suite of the hot tier.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use storage_dirty::conformance::{Capabilities, Life, Rig};
use storage_dirty::memory::MemoryState;
use storage_dirty::{HotStore, MemorySettings, MemoryStore};
use storage_model::{Clock, ManualClock, Owner, Partition, Timestamp};

#[derive(Debug)]
struct Memory {
    store: MemoryStore,
    clock: Arc<ManualClock>,
    saved: Mutex<Option<MemoryState>>,
}

async fn memory() -> Box<dyn Rig> {
    let clock = Arc::new(ManualClock::new(Timestamp(1_800_000_000_000_000)));
    let settings = MemorySettings { partitions: 4, ..MemorySettings::default() };
    let store = MemoryStore::new(settings, clock.clone());
    Box::new(Memory { store, clock, saved: Mutex::default() })
}

#[async_trait]
impl Rig for Memory {
    fn store(&self) -> &dyn HotStore {
        &self.store
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            advance: true,
            reincarnate: true,
            rewind: true,
            wipe: true,
            life: true,
            exhaust: true,
            foreign_mark: false,
        }
    }
    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
    async fn reincarnate(&self) {
        self.store.replace_incarnation();
    }
    async fn save(&self) {
        *self.saved.lock().unwrap() = Some(self.store.clone_state());
    }
    async fn rewind(&self) {
        let saved = self.saved.lock().unwrap().take().expect("saved before");
        self.store.restore(saved);
    }
    async fn wipe(&self) {
        self.store.wipe();
    }
    async fn life(&self, owner: &Owner) -> Life {
        match self.store.clone_state().end_of(owner) {
            None => Life::Gone,
            Some(None) => Life::Lasting,
            Some(Some(end)) => Life::Ends(end.since(self.clock.now())),
        }
    }
    async fn exhaust(&self) {
        self.store.limit(0);
    }
    async fn foreign_mark(&self, _: Partition, _: &[u8]) {}
}

storage_dirty::hot_conformance!(conformance, memory());
