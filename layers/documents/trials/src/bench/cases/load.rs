//! Reads and writes of single documents and items by many connections.

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use storage_tests::bench::case::{Case, Figure, Plan, Repetitions, Rig};
use storage_tests::bench::lander::Landers;
use storage_tests::bench::place::{Arena, owner_id};

use super::sides::{Sides, at_least};
use crate::bench::body::{document, item};
use crate::bench::requests::{self, Requests};
use crate::bench::served::Served;

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![
        Box::new(Load::Get),
        Box::new(Load::Put),
        Box::new(Load::Item),
    ]
}

#[derive(Debug, Clone, Copy)]
enum Load {
    Get,
    Put,
    Item,
}

#[async_trait]
impl Case for Load {
    fn plan(&self) -> Plan {
        let (name, ours, baseline, unit, goal) = match self {
            Self::Get => (
                "get-document",
                "GET of documents of 1,024 B, 64 connections, 4,096 documents, hot and unlanded",
                "GET from a bare axum handler: HMGET of the same bytes, one multiplexed connection to Redis",
                "reads/s",
                at_least(0.8, 0.92),
            ),
            Self::Put => (
                "put-document",
                "PUT of documents of 1,024 B, 64 connections, 4,096 documents that are there, unlanded",
                "PUT to a bare axum handler: HSET of the same bytes, one multiplexed connection to Redis",
                "writes/s",
                at_least(0.4, 0.6),
            ),
            Self::Item => (
                "put-item",
                "PUT of items of some 150 B into one collection, 64 connections, 4,096 items that are there, a landing worker at work",
                "PUT of documents of the same bodies through the same gateway, 64 connections, 4,096 documents, the same worker at work",
                "writes/s",
                at_least(0.6, 0.85),
            ),
        };
        Plan {
            name: name.to_owned(),
            ours: ours.to_owned(),
            baseline: baseline.to_owned(),
            figure: Figure::Rate,
            unit,
            goal: Some(goal),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place().await?;
        let paths = arena.scale.pick(256, 4_096, 4_096);
        let gateway = Arc::new(Served::gateway(&place).await?);
        let bare = Arc::new(Served::bare(&place).await?);
        let documents = async |served| puts(served, "guilds/", paths, document).await;
        let items = async |prefix| puts(&gateway, prefix, paths, item).await;
        let (landers, ours, baseline) = match self {
            Self::Get => {
                let (ours, baseline) = (documents(&gateway).await?, documents(&bare).await?);
                (None, ours.others(gets(paths)), baseline.others(gets(paths)))
            }
            Self::Put => (None, documents(&gateway).await?, documents(&bare).await?),
            Self::Item => {
                let landers = Landers::start(&place, 1).await?;
                (
                    Some(landers),
                    items("members~/").await?,
                    items("members/").await?,
                )
            }
        };
        Ok(Box::new(Sides {
            place,
            landers,
            ours,
            baseline,
            time: arena.scale.slice(),
        }))
    }
}

/// PUTs of bodies below a prefix. Each of them is sent once.
pub(super) async fn puts(
    served: &Arc<Served>,
    prefix: &str,
    paths: usize,
    body: fn(usize) -> String,
) -> Result<Requests> {
    let put = |number| requests::put(&owner_id(prefix, number), &body(number));
    let requests = Requests::open(served, (0..paths).map(put)).await?;
    requests.send_all().await?;
    Ok(requests)
}

/// GETs of the same documents.
fn gets(paths: usize) -> impl Iterator<Item = Vec<u8>> {
    let get = |number| requests::get(&owner_id("content/guilds/", number));
    (0..paths).map(get)
}
