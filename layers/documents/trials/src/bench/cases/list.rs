//! A page of a collection.

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use storage_tests::bench::case::{Case, Figure, Plan, Repetitions, Rig};
use storage_tests::bench::lander::{HELD, Landers};
use storage_tests::bench::place::{Arena, Place, owner_id};

use super::sides::{Sides, at_least};
use crate::bench::body::item;
use crate::bench::requests::{self, Requests};
use crate::bench::served::Served;

pub(super) fn case() -> Box<dyn Case> {
    Box::new(Page)
}

struct Page;

#[async_trait]
impl Case for Page {
    fn plan(&self) -> Plan {
        Plan {
            name: "list-100".to_owned(),
            ours: "GET of the first 100 items by id, of some 150 B each, 64 connections, a collection of 1,000 items, all landed, no worker"
                .to_owned(),
            baseline: "GET from a bare axum handler: the storage's own SELECT over as many connections of a sqlx pool, and the values of the rows \
                       as an array of JSON by serde"
                .to_owned(),
            figure: Figure::Rate,
            unit: "pages/s",
            goal: Some(at_least(0.6, 0.85)),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place_with(HELD).await?;
        let gateway = Arc::new(Served::gateway(&place).await?);
        fill(&place, &gateway, arena.scale.pick(150, 1_000, 1_000)).await?;
        let bare = Arc::new(Served::bare(&place).await?);
        let page = requests::get("content/members~?size=100");
        let rows = requests::get("list/members~");
        Ok(Box::new(Sides {
            ours: Requests::open(&gateway, [page]).await?,
            baseline: Requests::open(&bare, [rows]).await?,
            place,
            landers: None,
            time: arena.scale.slice(),
        }))
    }
}

/// Writes the items, and waits until they and their events have landed. The worker ends then.
async fn fill(place: &Place, gateway: &Arc<Served>, items: usize) -> Result<()> {
    let put = |number| requests::put(&owner_id("members~/", number), &item(number));
    let puts = Requests::open(gateway, (1..items).map(put)).await?;
    puts.send_all().await?;
    let mut landers = Landers::start(place, 1).await?;
    let last = requests::put_landed(&owner_id("members~/", 0), &item(0));
    gateway.connect().await?.call(&last).await?;
    landers.landed().await?;
    landers.stop().await
}
