//! A database that takes no writes for a while, like one with a full disk.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use storage_model::{Field, Owner, Partition, Position, Row, Scope, SinkName};
use storage_sql::{
    Batch, ColdError, ColdKind, ColdPairing, ColdStore, LandError, Loaded, Pair, Parked,
    PartitionRecord, Raise, Raised, SinkStore,
};

/// A cold tier with a disk that a test can fill.
#[derive(Debug)]
pub struct NoRoom {
    cold: Arc<dyn ColdStore>,
    full: AtomicBool,
}

impl NoRoom {
    /// This cold tier, with room.
    #[must_use]
    pub fn new(cold: Arc<dyn ColdStore>) -> Arc<Self> {
        Arc::new(Self {
            cold,
            full: AtomicBool::new(false),
        })
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
impl ColdStore for NoRoom {
    async fn load(&self, owners: &[Owner], rows_max: usize) -> Result<Vec<Loaded>, ColdError> {
        self.cold.load(owners, rows_max).await
    }

    async fn load_fields(&self, owner: &Owner, fields: &[Field]) -> Result<Vec<Row>, ColdError> {
        self.cold.load_fields(owner, fields).await
    }

    async fn load_newest(&self, owner: &Owner) -> Result<Option<Row>, ColdError> {
        self.cold.load_newest(owner).await
    }

    async fn land(&self, batch: &Batch) -> Result<(), LandError> {
        self.room("land")?;
        self.cold.land(batch).await
    }

    async fn owners(
        &self,
        scope: &Scope,
        logic_type: &str,
        after: Option<&Owner>,
        limit: usize,
    ) -> Result<Vec<Owner>, ColdError> {
        self.cold.owners(scope, logic_type, after, limit).await
    }

    async fn all_owners(
        &self,
        after: Option<&Owner>,
        limit: usize,
    ) -> Result<Vec<Owner>, ColdError> {
        self.cold.all_owners(after, limit).await
    }

    async fn partitions(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<PartitionRecord>, ColdError> {
        self.cold.partitions(partitions).await
    }

    async fn raise(&self, raises: &[Raise]) -> Result<Vec<Raised>, ColdError> {
        self.room("raise")?;
        self.cold.raise(raises).await
    }

    async fn forgets(&self) -> Result<Option<String>, ColdError> {
        self.cold.forgets().await
    }

    async fn pairing(&self) -> Result<ColdPairing, ColdError> {
        self.cold.pairing().await
    }

    async fn pair(&self, seen: &ColdPairing, pair: &Pair) -> Result<bool, ColdError> {
        self.room("pair")?;
        self.cold.pair(seen, pair).await
    }

    fn value_bytes_max(&self) -> usize {
        self.cold.value_bytes_max()
    }

    async fn backup(&self, to: &Path) -> Result<(), ColdError> {
        self.cold.backup(to).await
    }

    async fn close(&self) {
        self.cold.close().await;
    }
}

crate::forward::rest!(NoRoom);

#[async_trait]
impl SinkStore for NoRoom {
    async fn sink_positions(
        &self,
        sink: &SinkName,
        partitions: &[Partition],
    ) -> Result<Vec<Position>, ColdError> {
        self.cold.sink_positions(sink, partitions).await
    }

    async fn advance_sink(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
    ) -> Result<(), ColdError> {
        self.room("advance_sink")?;
        self.cold.advance_sink(sink, partition, position).await
    }

    async fn park(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
        message: &str,
    ) -> Result<(), ColdError> {
        self.room("park")?;
        self.cold.park(sink, partition, position, message).await
    }

    async fn parked(
        &self,
        sink: &SinkName,
        after: (Partition, Position),
        limit: usize,
    ) -> Result<Vec<Parked>, ColdError> {
        self.cold.parked(sink, after, limit).await
    }

    async fn parked_count(&self, sink: &SinkName) -> Result<u64, ColdError> {
        self.cold.parked_count(sink).await
    }

    async fn unpark(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
    ) -> Result<(), ColdError> {
        self.room("unpark")?;
        self.cold.unpark(sink, partition, position).await
    }
}
