//! Reading an owner without any write to either tier: for commands that only look, and for a
//! database that takes no writes.

use std::collections::BTreeMap;

use storage_dirty::{Header, HotError, HotKind, HotRead};
use storage_model::{Cell, Epoch, Field, Owner, Position, Row, Version, tries};

use crate::load::contended;
use crate::{TierError, Tiers};

impl Tiers {
    /// An owner as both tiers show it together. Writes nothing: no lease, no fill, no epoch.
    ///
    /// The hash is read before and after the rows, and must be the same both times. So hash and
    /// rows belong to one moment. If a row is newer than the hash, the rows win, all of them.
    /// Otherwise the hash wins over its rows (R16).
    ///
    /// # Errors
    /// A tier is away, or concurrent writes of the owner came first at each attempt.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn glance(&self, owner: &Owner) -> Result<HotRead, TierError> {
        for _ in 0..tries::OWNER {
            let before = self.hash_as_it_is(owner).await?;
            let loaded = self
                .cold
                .rows
                .load(std::slice::from_ref(owner), usize::MAX)
                .await?;
            if self.hash_as_it_is(owner).await? == before {
                return Ok(together(
                    before,
                    loaded.into_iter().flat_map(|loaded| loaded.rows),
                ));
            }
        }
        Err(contended(owner))
    }

    /// The owner's hash, whatever rows the database has. Empty if the hot tier has no record of the
    /// partition, because nothing in such a partition counts.
    ///
    /// # Errors
    /// The hot tier is away, or can't hand the hash over.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn hash_as_it_is(&self, owner: &Owner) -> Result<HotRead, TierError> {
        match self.whole_hash(owner).await {
            Err(TierError::Hot(error))
                if matches!(error.kind, HotKind::Unprepared(_))
                    && !self.has_record(owner).await? =>
            {
                Ok(HotRead::default())
            }
            read => read,
        }
    }

    /// Whether the hot tier has a record of the owner's partition, and so may hold data that the
    /// database lacks.
    async fn has_record(&self, owner: &Owner) -> Result<bool, HotError> {
        let partition = owner.partition(self.hot.partitions.partition_count());
        let state = self
            .hot
            .partitions
            .partition_states(&[partition])
            .await
            .pop()
            .transpose()?;
        Ok(state.is_some_and(|state| state.record.is_some()))
    }
}

/// A hash and the rows of its owner, as a comparison takes them together.
fn together(hash: HotRead, rows: impl Iterator<Item = Row>) -> HotRead {
    let rows: Vec<Row> = rows.collect();
    let held = hash.header.map(|header| header.version).unwrap_or_default();
    let newest = rows.iter().map(|row| row.version).fold(held, Version::max);
    let is_complete = hash.header.is_some_and(|header| header.complete);
    let mut cells: BTreeMap<Field, Cell> = hash.cells.into_iter().collect();
    if newest > held {
        cells.clear();
    }
    for row in rows {
        // A whole hash knows that a field was never there.
        let was_there = newest > held || !is_complete;
        let cell = if was_there { row.cell } else { Cell::Purged };
        cells.entry(row.field).or_insert(cell);
    }
    let none = Header {
        version: newest,
        complete: true,
        generation: Epoch(0),
        suspect: false,
        born: Version::ZERO,
        noted: Position::ZERO,
    };
    let exists = hash.header.is_some() || !cells.is_empty();
    let header = exists.then_some(Header {
        version: newest,
        complete: true,
        suspect: false,
        ..hash.header.unwrap_or(none)
    });
    HotRead {
        header,
        cells: cells.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use storage_model::Bytes;

    use super::*;

    fn live(value: &'static str) -> Cell {
        Cell::Live(Bytes::from_static(value.as_bytes()))
    }

    #[test]
    fn newer_rows_win_over_the_hash_and_the_hash_over_any_other_rows() {
        let owner = Owner::new("game", "eu", "player", "ann").unwrap();
        let (field, version) = (
            |name| Field::new(name).unwrap(),
            |number| Version::new(number).unwrap(),
        );
        let row = |name, value, number| Row {
            owner: owner.clone(),
            field: field(name),
            cell: live(value),
            version: version(number),
        };
        let hash = |complete| HotRead {
            header: Some(Header {
                version: version(5),
                complete,
                generation: Epoch(1),
                suspect: true,
                born: Version::ZERO,
                noted: Position::ZERO,
            }),
            cells: vec![(field("a"), live("hot")), (field("b"), live("hot"))],
        };
        let rows = |newest| [row("a", "row", newest), row("c", "row", 3)].into_iter();
        let seen = |read: HotRead| {
            let header = read.header.unwrap();
            assert!(header.complete && !header.suspect);
            (header.version, read.cells)
        };
        let newer = (
            version(6),
            vec![(field("a"), live("row")), (field("c"), live("row"))],
        );
        assert_eq!(seen(together(hash(true), rows(6))), newer);
        for (complete, c) in [(true, Cell::Purged), (false, live("row"))] {
            let older = vec![
                (field("a"), live("hot")),
                (field("b"), live("hot")),
                (field("c"), c),
            ];
            let read = together(hash(complete), rows(5));
            assert_eq!(seen(read), (version(5), older));
        }
        assert_eq!(
            together(HotRead::default(), std::iter::empty()),
            HotRead::default()
        );
        let cold = (version(2), vec![(field("a"), live("1"))]);
        let read = together(HotRead::default(), [row("a", "1", 2)].into_iter());
        assert_eq!(seen(read), cold);
    }
}
