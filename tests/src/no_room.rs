//! A database that takes no writes for a while, like one with a full disk.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use storage_model::{Partition, Position, SinkName};
use storage_sql::{
    Batch, Cold, ColdError, ColdKind, ColdPairing, DatabaseStore, LandError, LandStore, Pair,
    Parked, PartitionRecord, PartitionStore, Raise, Raised, SinkStore,
};

/// A cold tier with a disk that a test can fill.
#[derive(Debug)]
pub struct NoRoom {
    cold: Cold,
    full: AtomicBool,
}

impl NoRoom {
    /// This cold tier, with room.
    #[must_use]
    pub fn new(cold: Cold) -> Arc<Self> {
        Arc::new(Self {
            cold,
            full: AtomicBool::new(false),
        })
    }

    /// The cold tier whose writes need room.
    #[must_use]
    pub fn cold(self: &Arc<Self>) -> Cold {
        Cold {
            landing: Arc::clone(self) as _,
            partitions: Arc::clone(self) as _,
            database: Arc::clone(self) as _,
            sinks: Arc::clone(self) as _,
            ..self.cold.clone()
        }
    }

    /// Fills the disk, or empties it.
    pub fn fill(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    fn room(&self, operation: &'static str) -> Result<(), ColdError> {
        let message = "error 13: database or disk is full".to_owned();
        if self.full.load(Ordering::SeqCst) {
            return Err(ColdError {
                kind: ColdKind::Operator,
                operation,
                message,
            });
        }
        Ok(())
    }
}

#[async_trait]
impl LandStore for NoRoom {
    async fn land(&self, batch: &Batch) -> Result<(), LandError> {
        self.room("land")?;
        self.cold.landing.land(batch).await
    }

    fn value_bytes_max(&self) -> usize {
        self.cold.landing.value_bytes_max()
    }
}

#[async_trait]
impl PartitionStore for NoRoom {
    async fn partitions(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<PartitionRecord>, ColdError> {
        self.cold.partitions.partitions(partitions).await
    }

    async fn raise(&self, raises: &[Raise]) -> Result<Vec<Raised>, ColdError> {
        self.room("raise")?;
        self.cold.partitions.raise(raises).await
    }
}

#[async_trait]
impl DatabaseStore for NoRoom {
    async fn pairing(&self) -> Result<ColdPairing, ColdError> {
        self.cold.database.pairing().await
    }

    async fn pair(&self, seen: &ColdPairing, pair: &Pair) -> Result<bool, ColdError> {
        self.room("pair")?;
        self.cold.database.pair(seen, pair).await
    }

    async fn forgets(&self) -> Result<Option<String>, ColdError> {
        self.cold.database.forgets().await
    }

    async fn backup(&self, to: &Path) -> Result<(), ColdError> {
        self.cold.database.backup(to).await
    }

    async fn close(&self) {
        self.cold.database.close().await;
    }
}

#[async_trait]
impl SinkStore for NoRoom {
    async fn sink_positions(
        &self,
        sink: &SinkName,
        partitions: &[Partition],
    ) -> Result<Vec<Position>, ColdError> {
        self.cold.sinks.sink_positions(sink, partitions).await
    }

    async fn advance_sink(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
    ) -> Result<(), ColdError> {
        self.room("advance_sink")?;
        self.cold
            .sinks
            .advance_sink(sink, partition, position)
            .await
    }

    async fn park(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
        message: &str,
    ) -> Result<(), ColdError> {
        self.room("park")?;
        self.cold
            .sinks
            .park(sink, partition, position, message)
            .await
    }

    async fn parked(
        &self,
        sink: &SinkName,
        after: (Partition, Position),
        limit: usize,
    ) -> Result<Vec<Parked>, ColdError> {
        self.cold.sinks.parked(sink, after, limit).await
    }

    async fn parked_count(&self, sink: &SinkName) -> Result<u64, ColdError> {
        self.cold.sinks.parked_count(sink).await
    }

    async fn unpark(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
    ) -> Result<(), ColdError> {
        self.room("unpark")?;
        self.cold.sinks.unpark(sink, partition, position).await
    }
}
