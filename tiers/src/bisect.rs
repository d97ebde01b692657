//! How a rejected batch lands: it is halved until only the culprits are left (H38).

use storage_dirty::Collected;
use storage_model::{Partition, Row, Version};
use storage_sql::{Batch, ColdStore, Fence, LandError, RowFault};

/// A row that the database rejects by itself, and the reason.
pub type Refused = (Row, RowFault);

/// Lands rows under their fences, in one transaction if the database takes them all.
///
/// If the database rejects the batch, the rows land in halves, each half in its own transaction. An
/// owner is never cut in two (R16). When the database rejects an owner alone, its rows land one by
/// one.
///
/// One culprit among `n` rows costs about `2 log2(n)` transactions. The call returns the rows that
/// stay rejected. All other rows have landed.
///
/// # Errors
/// `Fenced` and `Cold` as they come. Rows that landed before the error stay landed. Landing them
/// again is harmless.
pub async fn land(
    cold: &dyn ColdStore,
    mut fences: Vec<Fence>,
    rows: Vec<Row>,
) -> Result<Vec<Refused>, LandError> {
    let mut refused = Vec::new();
    let mut parts = vec![rows];
    while let Some(rows) = parts.pop() {
        let batch = Batch { fences, rows };
        let landed = cold.land(&batch).await;
        let Batch {
            fences: before,
            rows,
        } = batch;
        fences = before;
        match landed {
            // From now on the fences expect the commit that just happened.
            Ok(()) => fences
                .iter_mut()
                .for_each(|fence| fence.landed = fence.landed.max(fence.reaches)),
            Err(LandError::Refused(fault)) => match halves(rows) {
                Halves::Two(left, right) => parts.extend([right, left]),
                Halves::One(row) => refused.push((row, fault)),
                Halves::None => {}
            },
            Err(error) => return Err(error),
        }
    }
    Ok(refused)
}

enum Halves {
    Two(Vec<Row>, Vec<Row>),
    One(Row),
    None,
}

/// Cuts rows near the middle, in the order of owner and field. Cuts between two owners if there are
/// several, else between two rows.
fn halves(mut rows: Vec<Row>) -> Halves {
    if rows.len() < 2 {
        return rows.pop().map_or(Halves::None, Halves::One);
    }
    rows.sort_by(|a, b| (&a.owner, &a.field).cmp(&(&b.owner, &b.field)));
    let middle = rows.len() / 2;
    let owner_at = |at: usize| rows.get(at).map(|row| &row.owner);
    let cut = |at: &usize| owner_at(at - 1) != owner_at(*at);
    let between_owners = (1..rows.len())
        .filter(cut)
        .min_by_key(|at| at.abs_diff(middle));
    let right = rows.split_off(between_owners.unwrap_or(middle));
    Halves::Two(rows, right)
}

/// The fence of a partition's rows.
#[must_use]
pub fn fence<'a>(
    partition: Partition,
    collected: &Collected,
    rows: impl Iterator<Item = &'a Row>,
) -> Fence {
    let &Collected {
        epoch,
        landed,
        reaches,
        database,
        ..
    } = collected;
    let reaches = rows
        .map(|row| row.version)
        .fold(reaches.max(landed), Version::max);
    Fence {
        partition,
        epoch,
        landed,
        reaches,
        database,
    }
}

#[cfg(test)]
mod tests {
    use storage_model::{Bytes, Cell, Field, Owner};

    use super::*;

    fn row(owner: &str, field: &str) -> Row {
        let owner = Owner::new("a", "r", "t", owner).unwrap();
        Row {
            owner,
            field: Field::new(field).unwrap(),
            cell: Cell::Live(Bytes::new()),
            version: Version::ZERO,
        }
    }

    #[test]
    fn a_refused_batch_is_cut_between_owners_before_any_owner_is_cut() {
        let rows = vec![
            row("1", "a"),
            row("2", "a"),
            row("2", "b"),
            row("2", "c"),
            row("2", "d"),
        ];
        let Halves::Two(left, right) = halves(rows) else {
            panic!("not cut")
        };
        assert_eq!((left.len(), right.len()), (1, 4));
        let Halves::Two(left, right) = halves(right) else {
            panic!("not cut")
        };
        assert_eq!((left.len(), right.len()), (2, 2));
        assert!(matches!(halves(vec![row("1", "a")]), Halves::One(_)));
        assert!(matches!(halves(Vec::new()), Halves::None));
    }
}
