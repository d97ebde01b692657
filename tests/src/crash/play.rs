//! The actions of one process: a game server's calls and a worker's landing, over tiers whose every
//! request is a point.

use std::future::{Future, IntoFuture};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use futures::future::join_all;
use storage_dirty::Hot;
use storage_dirty::redis::{Hooks, RedisStore};
use storage_landing::LandingWorker;
use storage_model::{Change, Field, RandomIds};
use storage_sdk::{Ack, ByteOwner, Counters, Error, Storage};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::held::Held;
use super::history::{Answer, History, TYPE};
use super::points::Points;
use super::repeat::repeating;
use super::site::{PARTITIONS, Place};
use crate::stack::bounded;

/// A game server and a landing worker in one process.
#[derive(Debug)]
pub struct Play<'a> {
    /// The place of the process.
    pub place: &'a Place<'a>,
    /// The answers that it got.
    pub history: &'a History,
    /// Its storage.
    pub storage: Storage,
    /// A session that began before points are counted.
    pub(super) kept: Mutex<Option<Held>>,
}

static WORKERS: AtomicU32 = AtomicU32::new(0);

impl<'a> Play<'a> {
    /// Starts. It tries again if that fails, as a supervisor does.
    ///
    /// # Errors
    /// It does not start within 30 s.
    pub async fn start(
        place: &'a Place<'a>,
        history: &'a History,
        points: &Arc<Points>,
    ) -> Result<Self> {
        let start = async {
            loop {
                match open(place, points).await {
                    Ok(storage) => return Ok(storage),
                    Err(_) => sleep(Duration::from_millis(1)).await,
                }
            }
        };
        Ok(Self {
            place,
            history,
            storage: bounded("the storage opens", start).await?,
            kept: Mutex::default(),
        })
    }

    /// A player.
    ///
    /// # Errors
    /// The id is impossible.
    pub fn owner(&self, id: &str) -> Result<ByteOwner> {
        Ok(self.storage.world("game", "eu")?.bytes().owner(TYPE, id)?)
    }

    async fn write<T>(
        &self,
        id: &str,
        changes: Vec<(Field, Change)>,
        write: impl IntoFuture<Output = Result<T, Error>>,
        answer: impl Fn(T) -> Answer,
    ) -> Result<bool> {
        let begun = self.history.begin(id, changes);
        let result = write.await.map(answer);
        self.history.end(id, begun, result)
    }

    /// Sets fields. Returns whether the write was acknowledged.
    ///
    /// # Errors
    /// The answer is wrong.
    pub async fn set(&self, id: &str, fields: &[(&str, &str)]) -> Result<bool> {
        self.write(
            id,
            sets(fields)?,
            self.owner(id)?.update(owned(fields)),
            plain,
        )
        .await
    }

    /// Adds to fields. Returns whether the write was acknowledged.
    ///
    /// # Errors
    /// The answer is wrong.
    pub async fn incr(&self, id: &str, fields: &[(&str, i64)]) -> Result<bool> {
        let changes = of(fields.iter().map(|(field, by)| (*field, Change::Incr(*by))))?;
        let names: Vec<String> = changes.iter().map(|(field, _)| field.to_string()).collect();
        let counted = |counters: Counters| {
            let values = names.iter().filter_map(|name| counters.get(name)).collect();
            (counters.version(), values)
        };
        self.write(
            id,
            changes,
            self.owner(id)?.incr_many(fields.iter().copied()),
            counted,
        )
        .await
    }

    /// Removes fields. Returns whether the write was acknowledged.
    ///
    /// # Errors
    /// The answer is wrong.
    pub async fn remove(&self, id: &str, fields: &[&str]) -> Result<bool> {
        self.write(
            id,
            each(fields, &Change::Remove)?,
            self.owner(id)?.remove(fields.iter().copied()),
            plain,
        )
        .await
    }

    /// Restores fields. Returns whether the write was acknowledged.
    ///
    /// # Errors
    /// The answer is wrong.
    pub async fn restore(&self, id: &str, fields: &[&str]) -> Result<bool> {
        self.write(
            id,
            each(fields, &Change::Restore)?,
            self.owner(id)?.restore(fields.iter().copied()),
            plain,
        )
        .await
    }

    /// Purges fields. Returns whether the write was acknowledged.
    ///
    /// # Errors
    /// The answer is wrong.
    pub async fn purge(&self, id: &str, fields: &[&str]) -> Result<bool> {
        self.write(
            id,
            each(fields, &Change::Purge)?,
            self.owner(id)?.purge(fields.iter().copied()),
            plain,
        )
        .await
    }

    /// Sets the same fields of many owners in one bulk.
    ///
    /// # Errors
    /// An answer is wrong.
    pub async fn set_all(&self, ids: &[&str], fields: &[(&str, &str)]) -> Result<()> {
        let mut bulk = self.storage.world("game", "eu")?.bytes().bulk();
        let mut begun = Vec::new();
        for id in ids {
            bulk = bulk.update(&self.owner(id)?, owned(fields));
            begun.push(self.history.begin(id, sets(fields)?));
        }
        let results = bulk.await;
        ensure!(
            results.len() == ids.len(),
            "a bulk of {} writes has {} results",
            ids.len(),
            results.len()
        );
        for ((id, begun), result) in ids.iter().zip(begun).zip(results) {
            self.history.end(id, begun, result.map(plain))?;
        }
        Ok(())
    }

    /// Reads an owner whole, if the tiers let it.
    ///
    /// # Errors
    /// The owner has an impossible state.
    pub async fn read(&self, id: &str) -> Result<bool> {
        let before = self.history.taken_over(id);
        match self.owner(id)?.get_all().await {
            Ok(record) => {
                let found: Vec<_> = record
                    .iter()
                    .map(|(field, value)| (field.clone(), value.clone()))
                    .collect();
                self.history
                    .read(id, before, &found, record.version())
                    .map(|()| true)
            }
            Err(_) => Ok(false),
        }
    }

    /// Lands an owner at once, and drops it from the hot tier, if the tiers let it.
    ///
    /// # Errors
    /// None but an impossible id.
    pub async fn unload(&self, id: &str) -> Result<bool> {
        Ok(self
            .owner(id)?
            .unload(Duration::from_secs(30))
            .await
            .is_ok())
    }

    /// Lands an owner at once, if the tiers let it.
    ///
    /// # Errors
    /// None but an impossible id.
    pub async fn flush(&self, id: &str) -> Result<bool> {
        Ok(self.owner(id)?.flush(Duration::from_secs(30)).await.is_ok())
    }

    /// Drops an owner from the hot tier as soon as it has landed, if the tiers let it.
    ///
    /// # Errors
    /// None but an impossible id.
    pub async fn evict(&self, id: &str) -> Result<bool> {
        Ok(self.owner(id)?.evict().await.is_ok())
    }

    /// Lets workers land until no mark waits.
    ///
    /// # Errors
    /// It takes more than 30 s.
    pub async fn land_with(&self, workers: u32) -> Result<()> {
        self.land_until(
            workers,
            async || Ok(self.place.look().await?.waiting() == 0),
        )
        .await
    }

    /// Lets one worker land until no mark waits.
    ///
    /// # Errors
    /// It takes more than 30 s.
    pub async fn land(&self) -> Result<()> {
        self.land_with(1).await
    }

    /// Lets workers land until a condition holds.
    ///
    /// # Errors
    /// It takes more than 30 s.
    pub async fn land_until(
        &self,
        workers: u32,
        mut holds: impl AsyncFnMut() -> Result<bool>,
    ) -> Result<()> {
        // The workers before these have stopped. The locks that they could not give back expire.
        self.place.time_passes().await?;
        let (stops, runs): (Vec<_>, Vec<_>) = (0..workers).map(|_| self.worker()).unzip();
        let watch = async {
            while !holds().await? {
                sleep(Duration::from_millis(4)).await;
            }
            Ok(())
        };
        let watch = async {
            let watched = bounded("everything has landed", watch).await;
            drop(stops);
            watched
        };
        tokio::join!(watch, join_all(runs)).0
    }

    /// A worker that runs until its sender is dropped.
    fn worker(&self) -> (oneshot::Sender<()>, impl Future<Output = ()> + use<>) {
        let name = format!("w{}", WORKERS.fetch_add(1, Ordering::Relaxed));
        let landing = self
            .place
            .landing()
            .with(|landing| landing.worker_name = Some(name));
        let (tiers, sessions) = (
            self.storage.tiers().clone(),
            &self.place.settings().sessions,
        );
        let worker = LandingWorker::new(tiers, &landing, sessions, &RandomIds);
        let (stop, stopped) = oneshot::channel::<()>();
        let run = async move {
            worker
                .run(async {
                    let _ = stopped.await;
                })
                .await;
        };
        (stop, run)
    }

    /// The partition of an owner.
    ///
    /// # Errors
    /// The id is impossible.
    pub fn partition(&self, id: &str) -> Result<storage_model::Partition> {
        Ok(self.owner(id)?.owner().partition(PARTITIONS))
    }

    /// Ends in order.
    ///
    /// # Errors
    /// Some writes are still under way.
    pub async fn close(self) -> Result<()> {
        let report = self.storage.close(Duration::from_secs(30)).await;
        ensure!(
            report.under_way == 0,
            "{} writes are under way at the end",
            report.under_way
        );
        Ok(())
    }
}

async fn open(place: &Place<'_>, points: &Arc<Points>) -> Result<Storage> {
    let settings = place.settings();
    let hooks = Hooks::intercept(Arc::clone(points) as _);
    let hot = RedisStore::open_through(&settings.redis, &settings.hot, hooks).await?;
    let hot = Arc::new(hot);
    let cold = storage_sql::Opening::new(&settings.sql)
        .through(Arc::clone(points) as _)
        .open()
        .await?;
    let cold = repeating(cold, Arc::clone(points));
    // A process that dies takes its connections with it at once.
    Ok(Storage::builder(settings.clone())
        .hot(Hot::of(&hot))
        .cold(cold)
        .own_runtime(false)
        .open()
        .await?)
}

fn plain(ack: Ack) -> Answer {
    (ack.version(), Vec::new())
}

fn of<'a>(changes: impl IntoIterator<Item = (&'a str, Change)>) -> Result<Vec<(Field, Change)>> {
    let mut changes = changes
        .into_iter()
        .map(|(field, change)| Ok((Field::new(field)?, change)))
        .collect::<Result<Vec<_>>>()?;
    changes.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(changes)
}

fn sets(fields: &[(&str, &str)]) -> Result<Vec<(Field, Change)>> {
    of(fields.iter().map(|(field, value)| {
        (
            *field,
            Change::Set(Bytes::copy_from_slice(value.as_bytes())),
        )
    }))
}

fn each(fields: &[&str], change: &Change) -> Result<Vec<(Field, Change)>> {
    of(fields.iter().map(|field| (*field, change.clone())))
}

fn owned(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields
        .iter()
        .map(|(field, value)| ((*field).to_owned(), (*value).to_owned()))
        .collect()
}
