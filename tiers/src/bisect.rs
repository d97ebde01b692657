//! How a rejected batch lands: it is halved until only the culprits are left (H38).
//!
//! An owner is never cut (R16), and owners that must land together are never cut apart (G1). If the
//! database rejects one of their rows, all of them are rejected.

use std::collections::{BTreeMap, BTreeSet};

use storage_dirty::{Collected, HotRead};
use storage_model::{Lead, Owner, Partition, Position, Row, Version};
use storage_sql::{Batch, Events, Fence, LandError, LandStore, RowFault};

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
/// If the database rejects the batch, the rows land in halves, each half in its own transaction. No
/// owner is cut in two (R16), and no unit of owners that must land together is (G1). When the
/// database rejects a unit, all of its rows are rejected. The culprits among them come first, and the
/// others say that they wait for them. Owners that land in parts are cut, down to single rows.
///
/// A unit that has been rejected before lands in a transaction of its own. So it spoils no batch
/// again.
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
    landing: &dyn LandStore,
    fences: Vec<Fence>,
    rows: Vec<Row>,
    units: &Units,
    noted: Noted,
) -> Result<Vec<Refused>, LandError> {
    let mut refused = Vec::new();
    let mut parts = apart_from_rejected(rows, units);
    let (mut events, mut late) = (noted.events.clone(), Vec::new());
    let mut batch = Batch {
        fences,
        ..Batch::default()
    };
    while let Some(rows) = parts.pop() {
        batch.whole = is_unit(&rows, units);
        batch.leads = noted.leads_of(&rows);
        batch.rows = rows;
        batch.events = std::mem::take(&mut events);
        let landed = landing.land(&batch).await;
        let tried = std::mem::take(&mut batch.events);
        if landed.is_err() {
            late.extend(tried);
        }
        match landed {
            // From now on the fences expect the commit that just happened.
            Ok(()) => batch
                .fences
                .iter_mut()
                .for_each(|fence| fence.landed = fence.landed.max(fence.reaches)),
            Err(LandError::Refused(fault)) => {
                match halves(std::mem::take(&mut batch.rows), units) {
                    Halves::Two(left, right) => parts.extend([right, left]),
                    Halves::Whole(rows) => {
                        let culprits = culprits(landing, &batch.fences, &rows, &fault).await?;
                        refused.extend(of_unit(rows, culprits, &fault));
                    }
                }
            }
            Err(error) => return Err(error),
        }
    }
    if !late.is_empty() {
        batch.rows.clear();
        batch.leads.clear();
        batch.events = late;
        landing.land(&batch).await?;
    }
    Ok(refused)
}

/// The rows, and apart from them those of each unit that was rejected before. The last lands first.
fn apart_from_rejected(rows: Vec<Row>, units: &Units) -> Vec<Vec<Row>> {
    let mut rejected: BTreeMap<Owner, Vec<Row>> = BTreeMap::new();
    let mut others = Vec::with_capacity(rows.len());
    for row in rows {
        if units.is_rejected(&row.owner) {
            let lead = units.lead(&row.owner).clone();
            rejected.entry(lead).or_default().push(row);
        } else {
            others.push(row);
        }
    }
    let mut parts: Vec<_> = rejected.into_values().collect();
    if !others.is_empty() || parts.is_empty() {
        parts.push(others);
    }
    parts
}

/// The most culprits of a unit that are searched, since each costs some transactions.
const CULPRITS_MAX: usize = 16;

/// The first rows of a rejected unit that the database rejects by themselves. It writes some at a
/// time, and keeps nothing. Empty if it takes each half of them.
async fn culprits(
    landing: &dyn LandStore,
    fences: &[Fence],
    rows: &[Row],
    fault: &RowFault,
) -> Result<Vec<Refused>, LandError> {
    if let [row] = rows {
        return Ok(vec![(row.clone(), fault.clone())]);
    }
    let halved = |rows: &[Row]| {
        let (left, right) = rows.split_at(rows.len() / 2);
        [right.to_vec(), left.to_vec()]
    };
    let (mut found, mut parts) = (Vec::new(), Vec::from(halved(rows)));
    while let Some(rows) = parts.pop().filter(|_| found.len() < CULPRITS_MAX) {
        let batch = Batch {
            fences: fences.to_vec(),
            rows,
            trial: true,
            ..Batch::default()
        };
        match landing.land(&batch).await {
            Ok(()) => {}
            Err(LandError::Refused(fault)) => match batch.rows.as_slice() {
                [row] => found.push((row.clone(), fault)),
                rows => parts.extend(halved(rows)),
            },
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// All rows of a rejected unit: the culprits with their faults, then those that wait for them.
fn of_unit(rows: Vec<Row>, culprits: Vec<Refused>, fault: &RowFault) -> Vec<Refused> {
    let Some((first, _)) = culprits.first() else {
        let rejected = rows.into_iter().map(|row| (row, fault.clone()));
        return rejected.collect();
    };
    let waits = RowFault {
        code: 0,
        message: format!("{WAITS}{} of {}", first.field, first.owner),
    };
    let is_culprit = |row: &Row| culprits.iter().any(|(culprit, _)| culprit == row);
    let waiting: Vec<_> = rows
        .into_iter()
        .filter(|row| !is_culprit(row))
        .map(|row| (row, waits.clone()))
        .collect();
    culprits.into_iter().chain(waiting).collect()
}

/// The begin of the reason of a row that the database would take: it lands with the rejected field
/// that the reason names.
pub const WAITS: &str = "waits for ";

/// Whether all rows are of one unit that must not be cut.
fn is_unit(rows: &[Row], units: &Units) -> bool {
    let [first, others @ ..] = rows else {
        return false;
    };
    let lead = units.lead(&first.owner);
    !units.lands_in_parts(&first.owner)
        && !others.is_empty()
        && others.iter().all(|row| units.lead(&row.owner) == lead)
}

enum Halves {
    Two(Vec<Row>, Vec<Row>),
    /// Rows that can't be cut: one row, or all rows of a unit.
    Whole(Vec<Row>),
}

/// Cuts rows near the middle, in the order of unit, owner and field. Cuts between two units if there
/// are several, else between two rows of an owner that lands in parts.
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
    let in_parts = owner_at(0).is_some_and(|owner| units.lands_in_parts(owner));
    match between_units {
        None if rows.len() < 2 || !in_parts => Halves::Whole(rows),
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
    fn a_refused_batch_is_cut_between_owners_and_no_owner_is_cut() {
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
        assert_eq!(lengths(right, &units), (4, 0));
        assert_eq!(lengths(vec![row("1", "a")], &units), (1, 0));
        assert_eq!(lengths(Vec::new(), &units), (0, 0));
    }

    /// A member without partners, which was rejected so many seconds ago.
    fn rejected(id: &str, seconds: u64) -> Member {
        Member {
            owner: row(id, "a").owner,
            fields: Fields::All,
            partners: Vec::new(),
            rejected_for: Some(Duration::from_secs(seconds)),
            mark: None,
        }
    }

    #[test]
    fn an_owner_that_was_rejected_for_too_long_is_cut_down_to_single_rows() {
        let units = Units::of(
            &[rejected("1", 9), rejected("2", 8)],
            Duration::from_secs(9),
        );
        let rows = |id: &str| ["a", "b", "c"].map(|field| row(id, field)).to_vec();
        assert_eq!(lengths(rows("1"), &units), (1, 2));
        assert_eq!(lengths(rows("2"), &units), (3, 0));
        assert!(is_unit(&rows("2"), &units) && !is_unit(&rows("1"), &units));
    }

    #[test]
    fn a_unit_that_was_rejected_before_does_not_land_in_the_batch_of_others() {
        let units = Units::of(&[rejected("2", 1)], Duration::from_secs(9));
        let rows = vec![row("1", "a"), row("2", "a"), row("2", "b"), row("3", "a")];
        let parts = apart_from_rejected(rows, &units);
        let lengths: Vec<usize> = parts.iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 2]);
        assert_eq!(apart_from_rejected(Vec::new(), &units), [Vec::new()]);
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
