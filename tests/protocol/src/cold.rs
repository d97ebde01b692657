//! The database: its rows with their versions, the record of the partition, and the part that would
//! survive a crash.

use std::collections::BTreeMap;
use std::sync::Arc;

use storage_model::sabotage::broken;
use storage_model::{Bytes, Cell, DatabaseId, Epoch, Field, HotId, Row, Stamp, Version};
use storage_sql::{Fence, PartitionRecord, Raise};

use crate::bounds::Bounds;
use crate::names::{PARTITION, owner};
use crate::world::World;
use crate::{Take, step};

/// All committed data of the database.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Cold {
    rows: BTreeMap<Field, (Cell, Version)>,
    pub(super) record: PartitionRecord,
    /// The flushed part.
    flushed: Option<Arc<Self>>,
    /// Whether a period of probation may have passed since it began. Then the server has flushed
    /// since, or is another one.
    kept: bool,
}

impl Cold {
    pub(super) fn new() -> Self {
        let (epoch, last_version, database) = (Epoch(0), Version::ZERO, DatabaseId(0));
        let record = PartitionRecord {
            partition: PARTITION,
            epoch,
            last_version,
            landed_epoch: epoch,
            stamp: Stamp::NONE,
            hot: HotId::NONE,
            database,
        };
        Self {
            rows: BTreeMap::new(),
            record,
            flushed: None,
            kept: false,
        }
    }

    /// Begins with rows of these fields, all of one write.
    pub(super) fn store(&mut self, fields: Vec<Field>) {
        let version = Version::new(1).unwrap_or_default();
        self.record.last_version = version;
        self.rows = fields
            .into_iter()
            .map(|field| (field, (Cell::Live(Bytes::from_static(b"0")), version)))
            .collect();
    }

    pub(super) fn cell(&self, field: &Field) -> Option<&Cell> {
        self.rows.get(field).map(|(cell, _)| cell)
    }

    pub(super) fn version(&self, field: &Field) -> Option<Version> {
        self.rows.get(field).map(|(_, version)| *version)
    }

    /// The version of the newest row.
    pub(super) fn newest(&self) -> Version {
        let versions = self.rows.values().map(|(_, version)| *version);
        versions.max().unwrap_or_default()
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        let row = |(field, (cell, version)): (&Field, &(Cell, Version))| Row {
            owner: owner(),
            field: field.clone(),
            cell: cell.clone(),
            version: *version,
        };
        self.rows.iter().map(row).collect()
    }

    /// One landing transaction: the fence, then the versioned upsert. Returns whether it committed.
    pub(super) fn land(&mut self, fence: &Fence, rows: &[Row]) -> bool {
        let PartitionRecord {
            epoch,
            last_version,
            stamp,
            database,
            ..
        } = self.record;
        let elsewhere =
            fence.database.is_some_and(|expected| expected != database) && !broken("H33-moved");
        let same = (fence.epoch, fence.stamp, fence.landed) == (epoch, stamp, last_version);
        let moved = !same && !broken("R14-fence");
        if elsewhere || moved {
            return false;
        }
        (self.record.last_version, self.record.landed_epoch) =
            (last_version.max(fence.reaches), epoch);
        for row in rows {
            let held = self.version(&row.field);
            let newer = held.is_none_or(|held| {
                row.version > held || (row.version == held && broken("R3-equal"))
            });
            if newer || broken("R3-unguarded") {
                self.rows
                    .insert(row.field.clone(), (row.cell.clone(), row.version));
            }
        }
        true
    }

    /// Raises the epoch if the record still is the one seen. Returns whether it did. A server that
    /// ended is silent, so nobody waits for it.
    pub(super) fn raise(&mut self, raise: Raise) -> bool {
        let record = &mut self.record;
        let same = (record.epoch, record.stamp) == (raise.seen, raise.seen_stamp)
            && raise.reach.is_none_or(|reach| reach == record.last_version);
        let moves = same || broken("R14-raised-blindly");
        if moves {
            record.epoch = Epoch(record.epoch.max(raise.above).0 + 1);
            // No other raise has it, also not of an older copy of the database.
            record.stamp = Stamp(record.epoch.0 << 8 | record.database.0);
            record.hot = raise.by;
        }
        moves
    }

    pub(super) fn begin_period(&mut self) {
        self.kept = false;
    }

    pub(super) fn has_kept(&self) -> bool {
        self.kept
    }

    fn flush(&mut self) {
        let all = Self {
            flushed: None,
            kept: true,
            ..self.clone()
        };
        (self.flushed, self.kept) = (Some(Arc::new(all)), true);
    }

    /// Another server, with the data that this one had flushed.
    fn crashed(&self) -> Self {
        let mut next = self
            .flushed
            .as_ref()
            .map_or_else(Self::new, |flushed| (**flushed).clone());
        next.record.database = DatabaseId(self.record.database.0 + 1);
        next.flush();
        next
    }
}

/// Faults of the database itself.
pub(super) fn faults(bounds: &Bounds, world: &World, take: Take<'_>) {
    if bounds.losses == 0 {
        return;
    }
    let mut flushed = world.clone();
    flushed.cold.flush();
    take(step("database", 0, "flushes"), Ok(flushed));
    if world.left.losses > 0 {
        let mut next = world.clone();
        next.left.losses -= 1;
        next.cold = world.cold.crashed();
        take(
            step("database", 0, "restarts without its unflushed data"),
            Ok(next),
        );
    }
}
