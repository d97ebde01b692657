//! Worlds of few and of many owners. They take minutes to make, so the cases that need them share
//! them.

use std::sync::Arc;

use anyhow::Result;
use tokio::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};

use crate::bench::fill::fill;
use crate::bench::lander::{HELD, Landers};
use crate::bench::place::{Arena, Place};
use crate::bench::plain::fields;

/// Owners of series "o" with 1 field of 64 B. All of them are in Redis.
pub(super) struct World {
    pub(super) place: Place,
    /// None as long as all writes wait for the first worker.
    landers: Option<Landers>,
    pub(super) owners: usize,
    /// The number of writes after those that made the world.
    pub(super) written: usize,
    pub(super) round: u64,
}

impl World {
    /// A world of which no write has landed.
    async fn open(arena: &Arena, owners: usize) -> Result<Self> {
        let place = arena.place_with(HELD).await?;
        arena.say(format_args!("writing {owners} owners"));
        fill(&place, "o", owners, &fields(1, 64, 0)).await?;
        arena.say(format_args!("{owners} owners wait for a worker"));
        Ok(Self {
            place,
            landers: None,
            owners,
            written: 0,
            round: 0,
        })
    }

    /// Its worker, started if there is none.
    pub(super) async fn landers(&mut self) -> Result<&mut Landers> {
        if self.landers.is_none() {
            self.landers = Some(Landers::start(&self.place, 1).await?);
        }
        self.running()
    }

    /// Its worker.
    pub(super) fn running(&mut self) -> Result<&mut Landers> {
        self.landers
            .as_mut()
            .ok_or_else(|| anyhow::anyhow!("no worker was started"))
    }

    /// The worker's process.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.landers.iter().flat_map(Landers::pids).collect()
    }

    /// Makes this number of marks wait for a worker that has just been started. The first time,
    /// these are the writes that made the world.
    pub(super) async fn backlog(&mut self, marks: usize) -> Result<()> {
        if let Some(mut landers) = self.landers.take() {
            landers.landed().await?;
            landers.stop().await?;
            self.round += 1;
            fill(&self.place, "o", marks, &fields(1, 64, self.round)).await?;
        }
        self.landers().await.map(drop)
    }
}

/// A world of few owners, all landed, and one of many.
pub(super) struct Worlds {
    pub(super) few: World,
    pub(super) many: World,
}

/// The worlds. The first case that needs them makes them, and the last one drops them.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Option<Worlds>>>);

/// The worlds, while a case has them.
pub(super) type Held = OwnedMappedMutexGuard<Option<Worlds>, Worlds>;

impl Shared {
    pub(super) async fn open(&self, arena: &Arena) -> Result<Held> {
        let mut worlds = Arc::clone(&self.0).lock_owned().await;
        if worlds.is_none() {
            let mut few = World::open(arena, arena.scale.pick(200, 10_000, 10_000)).await?;
            few.landers().await?.landed().await?;
            let many = World::open(arena, arena.scale.pick(600, 100_000, 10_000_000)).await?;
            *worlds = Some(Worlds { few, many });
        }
        OwnedMutexGuard::try_map(worlds, Option::as_mut).map_err(|_| anyhow::anyhow!("no worlds"))
    }
}
