//! How a rejected batch lands: it is halved until only the culprits are left (H38).
//!
//! Owners that must land together are never cut apart (G1). If the database rejects one of their
//! rows, all of them are rejected.

use std::collections::BTreeSet;

use storage_dirty::{Collected, HotRead};
use storage_model::{Lead, Owner, Partition, Position, Row, Version};
use storage_sql::{Batch, ColdStore, Events, Fence, LandError, RowFault};

use crate::together::Units;

/// A row that the database rejects by itself, and the reason.
pub type Refused = (Row, RowFault);

/// What lands beside rows: events, and how far the rows are ahead of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Noted {
    /// Events for the feeds of partitions with a fence.
    pub events: Vec<Events>,
    /// The places of the last notes of owners with rows.
    pub leads: Vec<(Partition, Lead)>,
}

impl Noted {
    /// The places of the last notes of these owners, as they were read.
    pub fn keep<'a>(
        &mut self,
        partition: Partition,
        reads: impl Iterator<Item = (&'a Owner, &'a HotRead)>,
    ) {
        for (owner, read) in reads {
            let noted = read.header.map(|header| header.noted);
            let position = noted.filter(|position| *position > Position::ZERO);
            self.leads.extend(position.map(|position| {
                let owner = owner.clone();
                (partition, Lead { owner, position })
            }));
        }
    }

    /// The leads of the owners of these rows.
    fn leads_of(&self, rows: &[Row]) -> Vec<(Partition, Lead)> {
        if self.leads.is_empty() {
            return Vec::new();
        }
        let owners: BTreeSet<&Owner> = rows.iter().map(|row| &row.owner).collect();
        let leads = self.leads.iter();
        leads
            .filter(|(_, lead)| owners.contains(&lead.owner))
            .cloned()
            .collect()
    }
}

/// Lands rows under their fences, in one transaction if the database takes them all.
///
/// If the database rejects the batch, the rows land in halves, each half in its own transaction. An
/// owner is never cut in two (R16), and no unit of owners that must land together is (G1). When the
/// database rejects an owner alone, its rows land one by one. When it rejects a unit of several
/// owners, all rows of the unit are rejected.
///
/// Events land with the rows. If the rows land in parts, events follow in a transaction of their own
/// after the last part. Until then the rows are ahead of them, which each part remembers.
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
    units: &Units,
    noted: Noted,
) -> Result<Vec<Refused>, LandError> {
    let mut refused = Vec::new();
    let mut parts = vec![rows];
    let (mut events, mut late) = (noted.events.clone(), Vec::new());
    while let Some(rows) = parts.pop() {
        let whole = is_unit(&rows, units);
        let batch = Batch {
            fences,
            leads: noted.leads_of(&rows),
            rows,
            whole,
            events: std::mem::take(&mut events),
        };
        let landed = cold.land(&batch).await;
        let Batch {
            fences: before,
            rows,
            events: tried,
            ..
        } = batch;
        fences = before;
        if landed.is_err() {
            late.extend(tried);
        }
        match landed {
            // From now on the fences expect the commit that just happened.
            Ok(()) => fences
                .iter_mut()
                .for_each(|fence| fence.landed = fence.landed.max(fence.reaches)),
            Err(LandError::Refused(fault)) => match halves(rows, units) {
                Halves::Two(left, right) => parts.extend([right, left]),
                Halves::Whole(rows) => {
                    let fault = if whole { of_unit(fault) } else { fault };
                    refused.extend(rows.into_iter().map(|row| (row, fault.clone())));
                }
            },
            Err(error) => return Err(error),
        }
    }
    if !late.is_empty() {
        let batch = Batch {
            fences,
            events: late,
            ..Batch::default()
        };
        cold.land(&batch).await?;
    }
    Ok(refused)
}

/// The fault of each row of a unit, one of which the database rejects.
fn of_unit(fault: RowFault) -> RowFault {
    let message = format!(
        "with the other owners of its transaction: {}",
        fault.message
    );
    RowFault { message, ..fault }
}

/// Whether the rows are of several owners that must land together.
fn is_unit(rows: &[Row], units: &Units) -> bool {
    let [first, others @ ..] = rows else {
        return false;
    };
    let lead = units.lead(&first.owner);
    let mut owners = others.iter().map(|row| &row.owner);
    owners.clone().all(|owner| units.lead(owner) == lead)
        && owners.any(|owner| *owner != first.owner)
}

enum Halves {
    Two(Vec<Row>, Vec<Row>),
    /// Rows that can't be cut: one row, or all rows of a unit of several owners.
    Whole(Vec<Row>),
}

/// Cuts rows near the middle, in the order of unit, owner and field. Cuts between two units if there
/// are several, else between two rows of an owner.
fn halves(mut rows: Vec<Row>, units: &Units) -> Halves {
    rows.sort_by(|a, b| {
        let (one, other) = (units.lead(&a.owner), units.lead(&b.owner));
        (one, &a.owner, &a.field).cmp(&(other, &b.owner, &b.field))
    });
    let middle = rows.len() / 2;
    let owner_at = |at: usize| rows.get(at).map(|row| &row.owner);
    let lead_at = |at: usize| owner_at(at).map(|owner| units.lead(owner));
    let between_units = (1..rows.len())
        .filter(|at| lead_at(at - 1) != lead_at(*at))
        .min_by_key(|at| at.abs_diff(middle));
    let is_one_owner = owner_at(0) == owner_at(rows.len().saturating_sub(1));
    match between_units {
        None if rows.len() < 2 || !is_one_owner => Halves::Whole(rows),
        cut => {
            let right = rows.split_off(cut.unwrap_or(middle));
            Halves::Two(rows, right)
        }
    }
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
        stamp,
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
        stamp,
        landed,
        reaches,
        database,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use storage_dirty::{Fields, Member};
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

    fn lengths(rows: Vec<Row>, units: &Units) -> (usize, usize) {
        match halves(rows, units) {
            Halves::Two(left, right) => (left.len(), right.len()),
            Halves::Whole(rows) => (rows.len(), 0),
        }
    }

    #[test]
    fn a_refused_batch_is_cut_between_owners_before_any_owner_is_cut() {
        let units = Units::default();
        let rows = vec![
            row("1", "a"),
            row("2", "a"),
            row("2", "b"),
            row("2", "c"),
            row("2", "d"),
        ];
        let Halves::Two(left, right) = halves(rows, &units) else {
            panic!("not cut")
        };
        assert_eq!((left.len(), right.len()), (1, 4));
        assert_eq!(lengths(right, &units), (2, 2));
        assert_eq!(lengths(vec![row("1", "a")], &units), (1, 0));
        assert_eq!(lengths(Vec::new(), &units), (0, 0));
    }

    #[test]
    fn owners_that_must_land_together_are_never_cut_apart() {
        let member = |id: &str, partner: &str| Member {
            owner: row(id, "a").owner,
            fields: Fields::All,
            partners: vec![row(partner, "a").owner],
            rejected_for: None,
            mark: None,
        };
        let members = [member("1", "3"), member("3", "1")];
        let units = Units::of(&members, Duration::from_secs(1));
        let rows = vec![row("1", "a"), row("2", "a"), row("3", "a"), row("3", "b")];
        let Halves::Two(left, right) = halves(rows, &units) else {
            panic!("not cut")
        };
        assert_eq!((left.len(), right.len()), (3, 1));
        assert_eq!(lengths(left, &units), (3, 0));
    }
}
