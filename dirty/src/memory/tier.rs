//! The hot tier as a whole: its time, its memory, and its workers.

use std::time::Duration;

use async_trait::async_trait;
use storage_model::Timestamp;

use super::store::MemoryStore;
use crate::{HotError, HotPaired, HotPairing, MemoryUse, Tier};
use storage_coalesce::locked;

#[async_trait]
impl Tier for MemoryStore {
    async fn time(&self) -> Result<Timestamp, HotError> {
        Ok(self.now())
    }

    fn is_named(&self) -> bool {
        true // no other process has it
    }

    async fn pairing(&self) -> Result<HotPairing, HotError> {
        Ok(self.read_pairing())
    }

    async fn pair(&self, seen: &HotPairing, paired: &HotPaired) -> Result<bool, HotError> {
        Ok(self.write_pairing(seen, *paired))
    }

    async fn check(&self) -> Result<(), HotError> {
        Ok(())
    }

    async fn memory(&self) -> Result<Vec<MemoryUse>, HotError> {
        Ok(self.taken().into_iter().collect())
    }

    async fn announce(&self, worker: &str, ttl: Duration) -> Result<Vec<String>, HotError> {
        let now = self.now();
        let mut workers = locked(&self.workers);
        workers.retain(|_, end| *end > now);
        workers.insert(worker.to_owned(), now.plus(ttl));
        Ok(workers.keys().cloned().collect())
    }

    async fn retire(&self, worker: &str) -> Result<(), HotError> {
        locked(&self.workers).remove(worker);
        Ok(())
    }
}
