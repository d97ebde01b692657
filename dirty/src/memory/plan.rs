//! What a mutation would change, found out before anything is written (R10).

use bytes::Bytes;
use storage_model::sabotage::broken;
use storage_model::{Cell, Change, Condition, Epoch, Field, Mutation, Version};

use super::hash::OwnerHash;
use crate::{Marker, Refusal};

/// An owner as a mutation meets it: as it is, or as its load makes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Met<'a> {
    pub(super) hash: Option<&'a OwnerHash>,
    pub(super) marker: Marker,
    /// The partition's generation; a hash of a lower one is suspect.
    pub(super) generation: Epoch,
    /// Whether a map names the owner.
    pub(super) is_marked: bool,
    /// Whether a proved load came with the mutation. It brought all rows of the fields that the
    /// mutation names, if not more.
    pub(super) loaded: bool,
}

impl<'a> Met<'a> {
    /// The version, if it is known. A negative answer is version 0. A marker alone does not tell
    /// it: in a hot tier that came back older it lies behind what has landed (R14).
    pub(super) fn version(&self) -> Option<Version> {
        match (self.hash, self.marker) {
            (Some(hash), _) => Some(hash.version),
            (None, Marker::Absent) => Some(Version::ZERO),
            (None, marker) => self.loaded.then(|| marker.version()),
        }
    }

    fn is_suspect(&self) -> bool {
        self.hash
            .is_some_and(|hash| hash.generation < self.generation)
    }

    fn cell(&self, field: &Field) -> Option<&'a Cell> {
        self.hash.and_then(|hash| hash.cell(field))
    }

    /// Whether it is known what the field holds, be it nothing.
    fn knows(&self, field: &Field) -> bool {
        self.loaded
            || broken("R15-guess")
            || match self.hash {
                Some(hash) => hash.complete || hash.cell(field).is_some(),
                None => self.marker == Marker::Absent,
            }
    }
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unmet {
    /// It builds on something that is not known.
    Load,
    /// It must not happen.
    Refused(Refusal),
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Plan {
    /// The fields that change, and what they hold then.
    pub(super) cells: Vec<(Field, Cell)>,
    /// The new values of incremented fields.
    pub(super) counters: Vec<i64>,
}

/// Finds out what the mutation would change.
pub(super) fn plan(met: &Met<'_>, mutation: &Mutation) -> Result<Plan, Unmet> {
    // A hash that may be older than what has landed is compared with its rows before anything is
    // built on it, a blind write included: it would raise the owner's version above a row that the
    // hash has lost (R14).
    if met.is_suspect() && !broken("R14-suspect") {
        return Err(Unmet::Load);
    }
    check_version(met, mutation)?;
    let builds = |change: &Change| {
        mutation.condition == Condition::Absent || !matches!(change, Change::Set(_))
    };
    if mutation
        .changes
        .iter()
        .any(|(field, change)| builds(change) && !met.knows(field))
    {
        return Err(Unmet::Load);
    }
    check_absent(met, mutation)?;
    let mut plan = Plan::default();
    for (field, change) in mutation.changes.iter() {
        if let Some(cell) = planned(met, field, change, &mut plan).map_err(Unmet::Refused)? {
            plan.cells.push((field.clone(), cell));
        }
    }
    Ok(plan)
}

fn check_version(met: &Met<'_>, mutation: &Mutation) -> Result<(), Unmet> {
    match (mutation.condition, met.version()) {
        (Condition::Version(_), None) if !broken("R15-version") => Err(Unmet::Load),
        (Condition::Version(wanted), Some(version)) if version != wanted => {
            Err(Unmet::Refused(Refusal::Version(version)))
        }
        _ => Ok(()),
    }
}

fn check_absent(met: &Met<'_>, mutation: &Mutation) -> Result<(), Unmet> {
    let live = |field: &Field| matches!(met.cell(field), Some(Cell::Live(_)));
    match mutation
        .changes
        .iter()
        .find(|(field, _)| mutation.condition == Condition::Absent && live(field))
    {
        Some((field, _)) => Err(Unmet::Refused(Refusal::Exists(field.clone()))),
        None => Ok(()),
    }
}

/// What one field holds after its change; none if it stays as it is.
fn planned(
    met: &Met<'_>,
    field: &Field,
    change: &Change,
    plan: &mut Plan,
) -> Result<Option<Cell>, Refusal> {
    Ok(match change {
        Change::Set(value) => Some(Cell::Live(value.clone())),
        Change::Incr(by) => {
            let sum = sum(field, met.cell(field), *by)?;
            plan.counters.push(sum);
            Some(Cell::Live(Bytes::from(sum.to_string())))
        }
        Change::Remove => match met.cell(field) {
            Some(Cell::Live(value)) => Some(Cell::Removed(value.clone())),
            _ => None,
        },
        Change::Restore => match met.cell(field) {
            Some(Cell::Removed(value)) => Some(Cell::Live(value.clone())),
            _ => None,
        },
        Change::Purge => match met.cell(field) {
            _ if met.is_marked => return Err(Refusal::NotLanded),
            Some(Cell::Removed(_)) => Some(Cell::Purged),
            _ => None,
        },
    })
}

fn sum(field: &Field, cell: Option<&Cell>, by: i64) -> Result<i64, Refusal> {
    let held = match cell.and_then(Cell::live) {
        Some(value) => integer(value).ok_or_else(|| Refusal::NotInteger(field.clone()))?,
        None => 0,
    };
    held.checked_add(by)
        .ok_or_else(|| Refusal::Overflow(field.clone()))
}

/// The integer that these bytes are the canonical decimal form of: no sign but '-', no leading
/// zero, no space.
fn integer(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    text.parse()
        .ok()
        .filter(|number: &i64| number.to_string() == text)
}
