//! Shards and their claims on the model of the database.

use async_trait::async_trait;
use storage_sql::ColdError;
use storage_sql::claims::{
    ClaimStore, ClaimToken, DataCentre, Holder, Ranges, ServiceName, ShardKey, ShardRow,
};

use super::store::ModelStore;

#[async_trait]
impl ClaimStore for ModelStore {
    async fn list(
        &self,
        service: &ServiceName,
        dc: Option<&DataCentre>,
    ) -> Result<Vec<ShardRow>, ColdError> {
        self.read("list_shards").await?;
        let database = &self.way.database;
        let shards = database.tables(|tables| tables.shards.list(service, dc));
        self.way.answer("list_shards").await;
        Ok(shards)
    }

    async fn claim(
        &self,
        seen: &ShardRow,
        token: ClaimToken,
        holder: &Holder,
    ) -> Result<bool, ColdError> {
        let (seen, holder) = (seen.clone(), holder.clone());
        self.change("claim_shard", move |tables| {
            tables.shards.claim(&seen, token, holder)
        })
        .await
    }

    async fn renew(&self, key: &ShardKey, token: ClaimToken) -> Result<bool, ColdError> {
        let key = key.clone();
        self.change("renew_claim", move |tables| {
            tables.shards.renew(&key, token)
        })
        .await
    }

    async fn release(&self, key: &ShardKey, token: ClaimToken) -> Result<bool, ColdError> {
        let key = key.clone();
        self.change("release_claim", move |tables| {
            tables.shards.release(&key, token)
        })
        .await
    }

    async fn add_plan(
        &self,
        service: &ServiceName,
        dc: &DataCentre,
        ranges: &Ranges,
    ) -> Result<u32, ColdError> {
        let (service, dc, ranges) = (service.clone(), dc.clone(), ranges.clone());
        self.change("add_plan", move |tables| {
            tables.shards.add_plan(&service, &dc, &ranges)
        })
        .await
    }

    async fn drop_plan(
        &self,
        service: &ServiceName,
        dc: &DataCentre,
        plan: u32,
    ) -> Result<u64, ColdError> {
        let (service, dc) = (service.clone(), dc.clone());
        self.change("drop_plan", move |tables| {
            tables.shards.drop_plan(&service, &dc, plan)
        })
        .await
    }
}
