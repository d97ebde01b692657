//! A database whose calls may be carried out twice.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use storage_model::Partition;
use storage_sql::{
    Batch, Cold, ColdError, ColdPairing, DatabaseStore, LandError, LandStore, Pair,
    PartitionRecord, PartitionStore, Raise, Raised,
};

use super::points::Points;

/// Repeats the call at the point. A single statement is never repeated, because no network does
/// that inside a transaction.
#[derive(Debug)]
struct Repeating {
    cold: Cold,
    points: Arc<Points>,
}

/// A database that repeats its writes at the points that say so.
pub(super) fn repeating(cold: Cold, points: Arc<Points>) -> Cold {
    let repeating = Arc::new(Repeating {
        cold: cold.clone(),
        points,
    });
    Cold {
        landing: Arc::clone(&repeating) as _,
        partitions: Arc::clone(&repeating) as _,
        database: repeating,
        ..cold
    }
}

#[async_trait]
impl LandStore for Repeating {
    async fn land(&self, batch: &Batch) -> Result<(), LandError> {
        let landed = self.cold.landing.land(batch).await;
        if self.points.again() {
            self.cold.landing.land(batch).await
        } else {
            landed
        }
    }

    fn value_bytes_max(&self) -> usize {
        self.cold.landing.value_bytes_max()
    }
}

#[async_trait]
impl PartitionStore for Repeating {
    async fn partitions(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<PartitionRecord>, ColdError> {
        self.cold.partitions.partitions(partitions).await
    }

    async fn raise(&self, raises: &[Raise]) -> Result<Vec<Raised>, ColdError> {
        let raised = self.cold.partitions.raise(raises).await;
        if self.points.again() {
            self.cold.partitions.raise(raises).await
        } else {
            raised
        }
    }
}

#[async_trait]
impl DatabaseStore for Repeating {
    async fn pairing(&self) -> Result<ColdPairing, ColdError> {
        self.cold.database.pairing().await
    }

    async fn pair(&self, seen: &ColdPairing, pair: &Pair) -> Result<bool, ColdError> {
        let paired = self.cold.database.pair(seen, pair).await;
        if self.points.again() {
            self.cold.database.pair(seen, pair).await
        } else {
            paired
        }
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
