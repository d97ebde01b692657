//! The parts of a cold tier that a decorator of the tests leaves as they are.

/// Implements [`EventStore`](storage_sql::EventStore), [`HookStore`](storage_sql::HookStore),
/// [`RangeStore`](storage_sql::RangeStore), [`HotTierStore`](storage_sql::HotTierStore) and
/// [`SweepStore`](storage_sql::SweepStore) for a type by its field `cold`.
macro_rules! rest {
    ($decorator:ty) => {
        #[async_trait::async_trait]
        impl storage_sql::HotTierStore for $decorator {
            async fn introduce(
                &self,
                hot: storage_model::HotId,
                address: &str,
            ) -> Result<(), storage_sql::ColdError> {
                self.cold.introduce(hot, address).await
            }

            async fn hot_tiers(&self) -> Result<Vec<storage_sql::HotTier>, storage_sql::ColdError> {
                self.cold.hot_tiers().await
            }

            async fn touch(
                &self,
                hot: &[storage_model::HotId],
            ) -> Result<(), storage_sql::ColdError> {
                self.cold.touch(hot).await
            }
        }

        #[async_trait::async_trait]
        impl storage_sql::EventStore for $decorator {
            async fn feeds(
                &self,
                partitions: &[storage_model::Partition],
            ) -> Result<Vec<storage_sql::FeedEnds>, storage_sql::ColdError> {
                self.cold.feeds(partitions).await
            }

            async fn events(
                &self,
                partition: storage_model::Partition,
                after: storage_model::Position,
                limit: usize,
            ) -> Result<Vec<storage_model::Event>, storage_sql::ColdError> {
                self.cold.events(partition, after, limit).await
            }

            async fn leads(
                &self,
                partition: storage_model::Partition,
                before: storage_model::Epoch,
            ) -> Result<Vec<storage_model::Lead>, storage_sql::ColdError> {
                self.cold.leads(partition, before).await
            }

            async fn drop_events(
                &self,
                partition: storage_model::Partition,
                older_than: std::time::Duration,
                limit: usize,
            ) -> Result<usize, storage_sql::ColdError> {
                self.cold.drop_events(partition, older_than, limit).await
            }
        }

        #[async_trait::async_trait]
        impl storage_sql::HookStore for $decorator {
            async fn hooks(&self) -> Result<Vec<storage_sql::Hook>, storage_sql::ColdError> {
                self.cold.hooks().await
            }

            async fn define(
                &self,
                name: &str,
                is_needed: bool,
            ) -> Result<(), storage_sql::ColdError> {
                self.cold.define(name, is_needed).await
            }
        }

        #[async_trait::async_trait]
        impl storage_sql::RangeStore for $decorator {
            async fn between(
                &self,
                range: &storage_sql::RowRange,
            ) -> Result<Vec<storage_model::Row>, storage_sql::ColdError> {
                self.cold.between(range).await
            }
        }

        #[async_trait::async_trait]
        impl storage_sql::SweepStore for $decorator {
            async fn purged(
                &self,
                after: Option<&storage_sql::RowKey>,
                older_than: std::time::Duration,
                limit: usize,
            ) -> Result<storage_sql::PurgedPage, storage_sql::ColdError> {
                self.cold.purged(after, older_than, limit).await
            }

            async fn sweep(
                &self,
                fence: &storage_sql::Fence,
                rows: &[(storage_model::Owner, storage_model::Field)],
                older_than: std::time::Duration,
            ) -> Result<Option<u64>, storage_sql::ColdError> {
                self.cold.sweep(fence, rows, older_than).await
            }
        }
    };
}
pub(crate) use rest;
