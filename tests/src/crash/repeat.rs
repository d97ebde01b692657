//! A database whose calls may be carried out twice.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use storage_model::{Field, Owner, Partition, Position, Row, Scope, SinkName};
use storage_sql::{
    Batch, ColdError, ColdPairing, ColdStore, LandError, Loaded, Pair, Parked, PartitionRecord,
    Raise, Raised, SinkStore,
};

use super::points::Points;

/// Repeats the call at the point. A single statement is never repeated, because no network does
/// that inside a transaction.
#[derive(Debug)]
pub(super) struct Repeating {
    pub(super) cold: Arc<dyn ColdStore>,
    pub(super) points: Arc<Points>,
}

#[async_trait]
impl ColdStore for Repeating {
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
        let landed = self.cold.land(batch).await;
        if self.points.again() {
            self.cold.land(batch).await
        } else {
            landed
        }
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
        let raised = self.cold.raise(raises).await;
        if self.points.again() {
            self.cold.raise(raises).await
        } else {
            raised
        }
    }

    async fn forgets(&self) -> Result<Option<String>, ColdError> {
        self.cold.forgets().await
    }

    async fn pairing(&self) -> Result<ColdPairing, ColdError> {
        self.cold.pairing().await
    }

    async fn pair(&self, seen: &ColdPairing, pair: &Pair) -> Result<bool, ColdError> {
        let paired = self.cold.pair(seen, pair).await;
        if self.points.again() {
            self.cold.pair(seen, pair).await
        } else {
            paired
        }
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

crate::forward::rest!(Repeating);

#[async_trait]
impl SinkStore for Repeating {
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
        self.cold.advance_sink(sink, partition, position).await
    }

    async fn park(
        &self,
        sink: &SinkName,
        partition: Partition,
        position: Position,
        message: &str,
    ) -> Result<(), ColdError> {
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
        self.cold.unpark(sink, partition, position).await
    }
}
