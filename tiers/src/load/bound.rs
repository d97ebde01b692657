//! The bounds of a load: the rows and the bytes of one owner that a script of the hot tier takes.

use storage_model::{Owner, Row};
use storage_sql::Loaded;

use crate::TierError;

/// The most that a load brings into the hot tier. A script serves nobody else while it writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadBound {
    /// The rows of an owner.
    pub(crate) rows: usize,
    /// The bytes of an owner's fields and values.
    pub(crate) bytes: usize,
}

impl LoadBound {
    /// The rows of an owner, or none of them if they are too large to be kept whole.
    pub(super) fn kept(self, loaded: Loaded) -> Loaded {
        if bytes_of(&loaded.rows) <= self.bytes {
            return loaded;
        }
        Loaded::default()
    }

    /// Fails if these rows of an owner are too large for one step.
    pub(super) fn check(self, owner: &Owner, rows: &[Row]) -> Result<(), TierError> {
        let bytes = bytes_of(rows);
        if bytes <= self.bytes {
            return Ok(());
        }
        let (count, most) = (rows.len(), self.bytes);
        let size = format!("{bytes} B in {count} rows, and hot.load_bytes_max is {most}");
        Err(TierError::too_large(owner, size))
    }

    /// The rows of a whole owner. Fails if they are too many or too large.
    pub(super) fn whole(self, owner: &Owner, loaded: Loaded) -> Result<Vec<Row>, TierError> {
        if !loaded.complete {
            let size = format!("more rows than hot.load_rows_max, which is {}", self.rows);
            return Err(TierError::too_large(owner, size));
        }
        self.check(owner, &loaded.rows)?;
        Ok(loaded.rows)
    }
}

fn bytes_of(rows: &[Row]) -> usize {
    let bytes = |row: &Row| {
        row.field
            .as_str()
            .len()
            .saturating_add(row.cell.value().len())
    };
    rows.iter().map(bytes).fold(0, usize::saturating_add)
}
