//! The ready-made service of owners: whole owners of a storage, as they have landed.
//!
//! It is a cache with a limit in bytes, over the database alone. A miss is loaded with other misses by one statement.
//! A follower of the feed drops the owners that events name, so that the age of an answer is known.

mod cache;
mod follow;
mod load;
mod partitions;
mod read_ahead;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use storage_sdk::Owner;
use storage_sdk::feed::{Cursor, Partition, Position};
use storage_sdk::layer::{ColdTier, Follower};
use storage_shard_read::owners::{LandedOwner, Owners};
use storage_shard_read::{Place, ShardRange};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::cache::OwnerCache;
use self::load::Loader;
pub use self::read_ahead::ReadAhead;
use crate::moment::{BootClock, MomentClock};
use crate::{Call, KeyOutcome, LoadError, Moment, Shard, Unreachable};

/// The default of [`OwnerShard::memory_max`].
const MEMORY_MAX: u64 = 256 << 20;
/// The default of [`OwnerShard::lifetime`].
const LIFETIME: Duration = Duration::from_secs(600);
/// The greatest one.
const LIFETIME_MAX: Duration = Duration::from_hours(30 * 24);
/// The default of [`OwnerShard::round_every`].
const ROUND_EVERY: Duration = Duration::from_millis(200);
/// The least one.
const ROUND_EVERY_MIN: Duration = Duration::from_millis(1);

/// The owners of a range, as they have landed. The settings of the service.
#[derive(Debug)]
pub struct OwnerShard {
    cold: ColdTier,
    memory_max: u64,
    lifetime: Duration,
    round_every: Duration,
    read_ahead: Option<ReadAhead>,
    clock: Arc<dyn MomentClock>,
    held: Mutex<Option<Held>>,
}

/// What a loaded range has.
#[derive(Debug)]
struct Held {
    loader: Arc<Loader>,
    feed: Arc<Feed>,
    following: JoinHandle<()>,
}

/// How far the follower has come.
#[derive(Debug)]
struct Feed {
    partitions: Vec<Partition>,
    cursor: watch::Sender<Cursor>,
    /// Everything that had landed at this moment is reflected. None: nobody knows.
    fresh_at: watch::Sender<Option<Moment>>,
    clock: Arc<dyn MomentClock>,
    round_every: Duration,
}

impl OwnerShard {
    /// The owners in this database.
    #[must_use]
    pub fn new(cold: ColdTier) -> Self {
        Self {
            cold,
            memory_max: MEMORY_MAX,
            lifetime: LIFETIME,
            round_every: ROUND_EVERY,
            read_ahead: None,
            clock: Arc::new(BootClock),
            held: Mutex::default(),
        }
    }

    /// The most bytes of owners in memory, with their keys and what an entry costs. Default: 256 MiB.
    #[must_use]
    pub fn memory_max(mut self, bytes: u64) -> Self {
        self.memory_max = bytes;
        self
    }

    /// An owner is loaded again after this time, give or take a fifth. Rows can change without an event: of a
    /// logic type that is missing in `feed.every_change`, or when a rejected row lands later. Default: 10 minutes,
    /// and 30 days at most.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime.min(LIFETIME_MAX);
        self
    }

    /// The pause between two rounds of the follower. Default: 200 ms, and 1 ms at least.
    #[must_use]
    pub fn round_every(mut self, every: Duration) -> Self {
        self.round_every = every.max(ROUND_EVERY_MIN);
        self
    }

    /// Reads these owners before the server serves, until 90 % of the memory is taken. Default: none.
    #[must_use]
    pub fn read_ahead(mut self, owners: ReadAhead) -> Self {
        self.read_ahead = Some(owners);
        self
    }

    /// The clock of ages, for tests. It is that of the server.
    #[must_use]
    pub fn clock(mut self, clock: impl MomentClock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    fn held<T>(&self, of: impl FnOnce(&Held) -> T) -> Option<T> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().map(of)
    }

    fn put(&self, next: Option<Held>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held = next;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.following.abort();
    }
}

#[async_trait]
impl Shard<Owners> for OwnerShard {
    async fn load(&self, range: ShardRange) -> Result<(), LoadError> {
        let count = self.cold.partitions();
        if count == 0 {
            return Err(LoadError::new("no game has used the database yet"));
        }
        let partitions = partitions::of_range(range, count);
        // ORDER: before the first row is read (V5).
        let follower = Follower::begin(&self.cold, partitions.clone()).await;
        let follower = follower.map_err(|error| LoadError::new(error.to_string()))?;
        let cache = OwnerCache::new(self.memory_max, self.lifetime);
        let loader = Arc::new(Loader::new(self.cold.clone(), cache));
        let feed = Arc::new(Feed {
            partitions,
            cursor: watch::Sender::new(follower.cursor().clone()),
            fresh_at: watch::Sender::new(None),
            clock: Arc::clone(&self.clock),
            round_every: self.round_every,
        });
        let following = follow::run(
            self.cold.clone(),
            follower,
            Arc::clone(&feed),
            Arc::clone(&loader),
        );
        let held = Held {
            loader: Arc::clone(&loader),
            feed,
            following: tokio::spawn(following),
        };
        if let Some(ahead) = &self.read_ahead {
            let read = ahead.read(&self.cold, range, &loader, self.memory_max);
            read.await
                .map_err(|error| LoadError::new(error.to_string()))?;
        }
        self.put(Some(held));
        Ok(())
    }

    async fn get(&self, _call: &Call, keys: &[Owner]) -> Vec<KeyOutcome<Option<LandedOwner>>> {
        let Some(loader) = self.held(|held| Arc::clone(&held.loader)) else {
            return keys
                .iter()
                .map(|_| Err(load::unavailable("no range is loaded")))
                .collect();
        };
        join_all(keys.iter().map(|owner| loader.get(owner))).await
    }

    async fn unload(&self, _range: ShardRange) {
        self.put(None);
    }

    fn fresh_at(&self) -> Option<Moment> {
        self.held(|held| *held.feed.fresh_at.borrow()).flatten()
    }

    async fn reach(&self, places: &[Place]) -> Result<(), Unreachable> {
        let feed = self.held(|held| Arc::clone(&held.feed));
        let feed = feed.ok_or_else(|| Unreachable::new("no range is loaded"))?;
        for place in places {
            let partition = Partition(place.partition);
            if !feed.partitions.contains(&partition) {
                return Err(Unreachable::new(format!(
                    "this server follows no events of partition {partition}"
                )));
            }
            let position = Position::new(place.epoch, place.number);
            let has_passed =
                |cursor: &Cursor| cursor.of(partition).is_some_and(|at| at >= position);
            let mut cursor = feed.cursor.subscribe();
            // The sender lives as long as the feed.
            let _ = cursor.wait_for(has_passed).await;
        }
        Ok(())
    }
}
