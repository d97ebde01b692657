//! The hot tier as a whole.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use storage_model::Timestamp;

use crate::{HotError, HotPaired, HotPairing, MemoryUse};

/// The hot tier as a whole: its time, its database, its memory and its workers.
///
/// The calls keep the rules of [`Hot`](crate::Hot).
#[async_trait]
pub trait Tier: fmt::Debug + Send + Sync {
    /// Whether Sentinels or a cluster name the servers, or the hot tier serves one process alone. Then
    /// it waits for no other hot tier (R14).
    fn is_named(&self) -> bool;

    /// The hot tier's time, which deadlines refer to.
    async fn time(&self) -> Result<Timestamp, HotError>;

    /// The database that the hot tier belongs to, and the server that answered. Only reads.
    async fn pairing(&self) -> Result<HotPairing, HotError>;

    /// Records the database that the hot tier belongs to, if its server and its token are still
    /// those seen. Returns whether it did. Works at the memory limit.
    async fn pair(&self, seen: &HotPairing, paired: &HotPaired) -> Result<bool, HotError>;

    /// Whether unlanded data is safe in the hot tier. Fails if the hot tier can drop unlanded data
    /// by itself, or lacks a promise of this contract.
    async fn check(&self) -> Result<(), HotError>;

    /// Memory use of each server that answers and has a limit. Two looks tell whether a server that
    /// evicts landed data is full ([`MemoryUse::is_full`]).
    async fn memory(&self) -> Result<Vec<MemoryUse>, HotError>;

    /// Announces a worker for `ttl`. Returns the names of all announced workers, sorted.
    async fn announce(&self, worker: &str, ttl: Duration) -> Result<Vec<String>, HotError>;

    /// Withdraws an announcement.
    async fn retire(&self, worker: &str) -> Result<(), HotError>;
}
