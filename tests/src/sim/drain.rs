//! The end of a run: everything lands, or the operator was told that it is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use storage_dirty::{ErrorEntry, Hot, HotError};
use storage_landing::Backlog;
use storage_model::{Owner, Partition};
use tokio::time::{sleep, timeout};

use super::database::tables::{Kept, Tables};
use super::process::Process;
use super::world::World;

/// V8: after the last fault everything lands within this.
pub const DRAIN_MAX: Duration = Duration::from_secs(600);

/// The owners with error marks of lost values, counted for each partition.
///
/// A Redis that came back older can have a change that the later one never had. If the later one's
/// rows have landed, they replace the whole owner. The mark then tells the operator of the lost
/// change, and stays until the field is written.
#[derive(Debug, Default)]
pub struct Lost(BTreeMap<Partition, u64>);

impl Lost {
    /// Whether a key lasts with such marks: an error map, or its partition's requests for evictions.
    #[must_use]
    pub fn keep(&self, key: &str) -> bool {
        self.0.keys().any(|Partition(at)| {
            key == format!("slug-marks:{{{at}}}:error") || key == format!("slug-evict:{{{at}}}")
        })
    }

    async fn read(world: &World, hot: &Hot) -> Result<Self, HotError> {
        let mut lost = Self::default();
        if !world.plan.redis_loses() {
            return Ok(lost);
        }
        for partition in (0..world.plan.partitions).map(Partition) {
            let mut owners: BTreeMap<Owner, bool> = BTreeMap::new();
            let mut cursor = Some(0);
            while let Some(from) = cursor {
                let page = hot.marks.errors(partition, from, 100).await?;
                cursor = page.next;
                for error in page.entries {
                    if let Some((owner, _)) = error.target.clone() {
                        let is_lost = world.database.tables(|tables| is_lost(&error, tables));
                        *owners.entry(owner).or_insert(true) &= is_lost;
                    }
                }
            }
            let count = owners.values().filter(|is_lost| **is_lost).count() as u64;
            if count > 0 {
                lost.0.insert(partition, count);
            }
        }
        Ok(lost)
    }
}

/// Whether an error mark is of a value that newer rows of its owner have replaced.
fn is_lost(error: &ErrorEntry, tables: &Tables) -> bool {
    let Some((owner, field)) = &error.target else {
        return false;
    };
    let is_newer = |kept: &Kept| kept.version > error.version;
    error.message.starts_with("vanished")
        && tables.owner(owner).is_some_and(|rows| {
            rows.values().any(is_newer) && !rows.get(field).is_some_and(is_newer)
        })
}

/// Whether no mark and no note is left but the marks of lost values, and no row is ahead of its notes.
fn is_empty(backlog: &Backlog, world: &World, lost: &Lost) -> bool {
    let errors = backlog.errors().saturating_sub(lost.0.values().sum());
    let marks = backlog.marks() + errors + backlog.probation();
    let leads = world
        .database
        .tables(|tables| !tables.all_leads().is_empty());
    let mut partitions = backlog.partitions.iter();
    let streams = partitions.any(|(_, peek)| peek.stream > 0);
    marks + backlog.notes() == 0 && !leads && !streams
}

/// V8: waits until nothing is left to land, and the database keeps everything that has landed.
pub async fn drain(world: &World) -> Result<Lost, String> {
    let hot = world.hot(&Arc::new(Process::default())).await;
    let drained = timeout(DRAIN_MAX, async {
        loop {
            if let (Ok(backlog), Ok(lost)) =
                (Backlog::read(&hot).await, Lost::read(world, &hot).await)
                && is_empty(&backlog, world, &lost)
            {
                return lost;
            }
            sleep(Duration::from_millis(100)).await;
        }
    });
    if let Ok(lost) = drained.await {
        return Ok(lost);
    }
    let left = Backlog::read(&hot).await;
    let leads = world.database.tables(|tables| tables.all_leads().clone());
    Err(format!(
        "V8: {DRAIN_MAX:?} after the last fault something has not landed: leads {leads:?}, {left:?}"
    ))
}
