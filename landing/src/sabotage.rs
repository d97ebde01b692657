//! Landing that breaks R3, R5 or R6 on purpose, for `scripts/sabotage`.

use storage_dirty::{Collected, Lock, Settle};
use storage_model::sabotage::broken;
use storage_model::{Bytes, Cell, Field, Owner, Partition, Row, Version};

use crate::batch::{Part, Rows};
use storage_tiers::Tiers;

/// The collected values, with versions that were read later.
pub(crate) async fn collected(
    tiers: &Tiers,
    partition: Partition,
    wanted: &[(Owner, Vec<Field>)],
    mut collected: Collected,
) -> Collected {
    if broken("R3-apart")
        && let Ok(later) = tiers.hot().collect(partition, wanted).await
    {
        for (read, later) in collected.reads.iter_mut().zip(later.reads) {
            read.header = later.header;
        }
    }
    collected
}

/// The rows, each with the version of its mark. Or the rows plus the missing ones, as removed.
pub(crate) fn rows(part: &Part, wanted: &[(Owner, Vec<Field>)], mut rows: Rows) -> Rows {
    if broken("R3-mark-version") {
        for row in &mut rows.rows {
            let marks = part
                .entries
                .iter()
                .filter_map(|entry| Some((entry.mark.as_ref()?, entry.version)));
            let of_row = marks
                .filter(|(mark, _)| mark.owner == row.owner && mark.fields.contains(&row.field));
            row.version = of_row
                .map(|(_, version)| version)
                .max()
                .unwrap_or(row.version);
        }
    }
    if broken("R6-valueless") {
        for row in &mut rows.rows {
            if let Cell::Removed(value) = &mut row.cell {
                value.clear();
            }
        }
    }
    if broken("R6-null") {
        let asked = wanted
            .iter()
            .flat_map(|(owner, fields)| fields.iter().map(move |field| (owner, field)));
        let is_missing = |(owner, field): &(&Owner, &Field)| {
            !rows
                .rows
                .iter()
                .any(|row| (&row.owner, &row.field) == (owner, field))
        };
        let version = part
            .entries
            .iter()
            .map(|entry| entry.version)
            .max()
            .unwrap_or_default();
        let null = |(owner, field): (&Owner, &Field)| {
            let (owner, field) = (owner.clone(), field.clone());
            (
                Row {
                    owner,
                    field,
                    cell: Cell::Removed(Bytes::new()),
                    version,
                },
                Version::ZERO,
            )
        };
        let missing: Vec<_> = asked.filter(is_missing).map(null).collect();
        let mut all: Vec<_> = rows
            .rows
            .into_iter()
            .zip(rows.births)
            .chain(missing)
            .collect();
        all.sort_by(|(a, _), (b, _)| (&a.owner, &a.field).cmp(&(&b.owner, &b.field)));
        let (found, births) = all.into_iter().unzip();
        rows = Rows {
            rows: found,
            births,
        };
    }
    rows
}

/// Settles marks before their rows are committed.
pub(crate) async fn early(tiers: &Tiers, lock: &Lock, parts: &[Part]) {
    for part in parts.iter().filter(|_| broken("R5-early")) {
        let Ok(Collected { epoch, landed, .. }) =
            tiers.hot().collect(part.partition, &part.wanted()).await
        else {
            continue;
        };
        let marks = part.entries.clone();
        let (partition, lock) = (part.partition, Some(lock.clone()));
        let snapshot = part.snapshot;
        let settle = Settle {
            partition,
            lock,
            epoch,
            snapshot,
            landed,
            marks,
            rows: Vec::new(),
            probation: false,
        };
        let _ = tiers.hot().settle(&settle).await;
    }
}
