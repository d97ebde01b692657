//! Loading owners from the database: misses that come together go by one statement.

use std::fmt;
use std::sync::Arc;

use storage_coalesce::{Coalescer, Group};
use storage_sdk::layer::{ColdTier, Row};
use storage_sdk::{Kind, Owner};
use storage_shard_read::owners::LandedOwner;
use storage_shard_read::{FailureKind, KeyFailure};

use super::cache::OwnerCache;
use crate::KeyOutcome;

/// Statements at once, and owners of one statement.
const STATEMENTS: usize = 4;
const OWNERS: usize = 64;
/// The most rows of an owner.
const ROWS_MAX: usize = 100_000;

type Loaded = KeyOutcome<Option<LandedOwner>>;

/// The owners in memory, and the way to the others.
pub(super) struct Loader {
    cold: ColdTier,
    pub(super) cache: OwnerCache,
    waiting: Coalescer<Owner, (), Loaded>,
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.cache.bytes();
        f.debug_struct("Loader")
            .field("bytes", &bytes)
            .finish_non_exhaustive()
    }
}

pub(super) fn unavailable(why: impl fmt::Display) -> KeyFailure {
    KeyFailure::new(FailureKind::Unavailable, why.to_string())
}

impl Loader {
    pub(super) fn new(cold: ColdTier, cache: OwnerCache) -> Self {
        Self {
            cold,
            cache,
            waiting: Coalescer::of_wanted(STATEMENTS, OWNERS),
        }
    }

    /// An owner from memory, or from the database.
    pub(super) async fn get(self: &Arc<Self>, owner: &Owner) -> Loaded {
        if let Some(entry) = self.cache.get(owner) {
            return Ok(entry.owner);
        }
        // A caller joins only a load that has not begun. So no event has overtaken what it gets (V8).
        let (loaded, carrier) = self.waiting.join(owner.clone(), ());
        if let Some(carrier) = carrier {
            let loader = Arc::clone(self);
            tokio::spawn(async move {
                carrier.carry(|groups| loader.load(groups)).await;
            });
        }
        let lost = |_| Err(unavailable("the load has ended without an answer"));
        loaded.await.unwrap_or_else(lost)
    }

    /// Loads owners, and answers their callers.
    async fn load(&self, groups: Vec<Group<Owner, (), Loaded>>) {
        let owners: Vec<Owner> = groups.iter().map(|group| group.key().clone()).collect();
        // ORDER: before the rows are read. An event that comes meanwhile finds the load.
        owners.iter().for_each(|owner| self.cache.begin_load(owner));
        let loaded = self.read(&owners).await;
        for (group, loaded) in groups.into_iter().zip(loaded) {
            let kept = loaded.as_ref().ok().cloned();
            self.cache
                .end_load(group.key(), kept, rand::random_range(0.8..1.2));
            group.answer_all(loaded);
        }
    }

    async fn read(&self, owners: &[Owner]) -> Vec<Loaded> {
        match self.cold.owners(owners, ROWS_MAX).await {
            Ok(all) => all.into_iter().map(landed).collect(),
            // One owner has a row that can't be read. It fails no other one.
            Err(error) if error.kind() == Kind::Corrupt && owners.len() > 1 => {
                let mut all = Vec::with_capacity(owners.len());
                for owner in owners {
                    let alone = self
                        .cold
                        .owners(std::slice::from_ref(owner), ROWS_MAX)
                        .await;
                    let one = alone.map(|mut rows| rows.pop().unwrap_or_default());
                    all.push(one.map_err(unavailable).and_then(landed));
                }
                all
            }
            Err(error) => owners.iter().map(|_| Err(unavailable(&error))).collect(),
        }
    }
}

/// An owner of its rows. None: it has no row.
fn landed(rows: Option<Vec<Row>>) -> Loaded {
    let Some(rows) = rows else {
        let reason = format!("the owner has more than {ROWS_MAX} rows");
        return Err(KeyFailure::new(FailureKind::Invalid, reason));
    };
    let Some(version) = rows.iter().map(|row| row.version.get()).max() else {
        return Ok(None);
    };
    let live = rows.iter().filter_map(|row| {
        let value = row.cell.live()?;
        Some((row.field.as_str().to_owned(), value.clone()))
    });
    Ok(Some(LandedOwner::new(version, live)))
}
