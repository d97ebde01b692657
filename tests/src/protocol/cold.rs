//! The database: rows with versions, and the record of the partition.

use std::collections::BTreeMap;

use storage_model::{Cell, Epoch, Field, Row, Version};
use storage_sql::{Fence, PartitionRecord};

use super::names::{PARTITION, owner};
use super::variant::Break;

/// All that the database has committed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Cold {
    rows: BTreeMap<Field, (Cell, Version)>,
    pub(super) record: PartitionRecord,
}

impl Cold {
    pub(super) fn new() -> Self {
        Self {
            rows: BTreeMap::new(),
            record: PartitionRecord { partition: PARTITION, epoch: Epoch(0), last_version: Version::ZERO },
        }
    }

    pub(super) fn cell(&self, field: &Field) -> Option<&Cell> {
        self.rows.get(field).map(|(cell, _)| cell)
    }

    pub(super) fn version(&self, field: &Field) -> Option<Version> {
        self.rows.get(field).map(|(_, version)| *version)
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

    /// One landing transaction: the fence, then the versioned upsert. Answers whether it committed.
    pub(super) fn land(&mut self, fence: &Fence, rows: &[Row], broken: Break) -> bool {
        let PartitionRecord { epoch, last_version, .. } = self.record;
        if (fence.epoch, fence.landed) != (epoch, last_version) && broken != Break::Unfenced {
            return false;
        }
        self.record.last_version = last_version.max(fence.reaches);
        for row in rows {
            let newer = self.version(&row.field).is_none_or(|version| row.version > version);
            if newer || broken == Break::Unguarded {
                self.rows.insert(row.field.clone(), (row.cell.clone(), row.version));
            }
        }
        true
    }

    /// Raises the epoch, if it still is the one seen.
    pub(super) fn raise(&mut self, seen: Epoch) {
        if self.record.epoch == seen {
            self.record.epoch = Epoch(seen.0 + 1);
        }
    }
}
