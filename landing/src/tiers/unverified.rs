//! R14 while the database is away: a hot tier that was replaced can't be compared with it.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use storage_model::{Epoch, Partition};

use super::{TierError, Tiers};

impl Tiers {
    /// Prepares a partition for reads and writes of values that are there. If the database is away, and the settings say to serve
    /// all the same, the partition is used as it is, and noted for [`Tiers::verify_trusted`].
    ///
    /// # Errors
    /// The hot tier is away; the database is away, and the partition has no record (so no version would be safe) or the settings say
    /// to refuse.
    ///
    /// # Cancel safety
    /// As [`Tiers::prepare`].
    pub async fn prepare_or_trust(&self, partition: Partition) -> Result<(), TierError> {
        let away = match self.prepare(&[partition]).await {
            Err(TierError::Cold(away)) if self.serve_unverified => away,
            other => return other,
        };
        let state = self.hot.partition_states(&[partition]).await.pop().transpose()?;
        let Some(state) = state.filter(|state| state.record.is_some()) else { return Err(away.into()) };
        if !self.hot.trust(partition, &state).await? {
            // Replaced once more, or adopted by somebody else: the caller's next try finds out.
            return Ok(());
        }
        self.note(partition, Epoch(0), Epoch(0));
        self.trusted.lock().unwrap_or_else(PoisonError::into_inner).insert(partition);
        tracing::warn!(
            partition = partition.0, error = %away,
            "the hot tier was replaced and the database is away; it is served unverified until they can be compared"
        );
        Ok(())
    }

    /// How many partitions are served unverified.
    #[must_use]
    pub fn trusted(&self) -> usize {
        self.trusted.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Tries to prepare the partitions that are served unverified.
    ///
    /// # Errors
    /// A tier is still away; they stay as they are.
    ///
    /// # Cancel safety
    /// As [`Tiers::prepare`].
    pub async fn verify_trusted(&self) -> Result<(), TierError> {
        let trusted: BTreeSet<Partition> = self.trusted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if trusted.is_empty() {
            return Ok(());
        }
        self.prepare(&trusted.iter().copied().collect::<Vec<_>>()).await?;
        self.trusted.lock().unwrap_or_else(PoisonError::into_inner).retain(|partition| !trusted.contains(partition));
        tracing::info!(partitions = trusted.len(), "the hot tier was compared with the database");
        Ok(())
    }
}
