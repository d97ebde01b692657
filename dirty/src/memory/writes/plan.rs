//! The effect of a mutation, computed before anything is written (R10).

use bytes::Bytes;
use storage_model::sabotage::{is_kept, keeps};
use storage_model::{Cell, Change, Condition, Epoch, Field, Mutation, Version};

use super::super::hash::OwnerHash;
use crate::{Marker, Refusal};

/// An owner as a mutation finds it: as it is, or as its load makes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnerState<'a> {
    pub(super) hash: Option<&'a OwnerHash>,
    pub(super) marker: Marker,
    /// The partition's generation. A hash of a lower generation is suspect.
    pub(super) generation: Epoch,
    /// Whether a map names the owner.
    pub(super) is_marked: bool,
    /// Whether a proved load came with the mutation. It brought at least all rows of the fields
    /// that the mutation names.
    pub(super) loaded: bool,
}

impl<'a> OwnerState<'a> {
    /// The version, if it is known. A negative answer means version 0. A marker alone does not tell
    /// the version: in a hot tier that came back older it lies behind landed data (R14).
    pub(super) fn version(&self) -> Option<Version> {
        match (self.hash, self.marker) {
            (Some(hash), _) => Some(hash.version),
            (None, Marker::Absent(_)) => Some(Version::ZERO),
            (None, marker) => self.loaded.then(|| marker.version()),
        }
    }

    fn is_suspect(&self) -> bool {
        self.hash
            .is_some_and(|hash| hash.generation < self.generation)
    }

    /// Whether the rows are known, even if there are none.
    fn is_loaded(&self) -> bool {
        self.loaded || self.marker.is_absent()
    }

    fn cell(&self, field: &Field) -> Option<&'a Cell> {
        self.hash.and_then(|hash| hash.cell(field))
    }

    /// Whether the content of the field is known, even if it is nothing.
    fn knows(&self, field: &Field) -> bool {
        let is_known = self.loaded
            || match self.hash {
                Some(hash) => hash.complete || hash.cell(field).is_some(),
                None => self.marker.is_absent(),
            };
        keeps("R15-guess", is_known)
    }
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PlanFailure {
    /// The mutation builds on a value that is not known.
    Load,
    /// The mutation is rejected.
    Refused(Refusal),
}

/// The changes to write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Plan {
    /// The fields that change, and their new content.
    pub(super) cells: Vec<(Field, Cell)>,
    /// The new values of incremented fields.
    pub(super) counters: Vec<i64>,
}

/// Computes the effect of the mutation.
pub(super) fn plan(met: &OwnerState<'_>, mutation: &Mutation) -> Result<Plan, PlanFailure> {
    // A hash that may be older than landed data is compared with its rows before anything builds on
    // it. That includes a blind write. It would raise the owner's version above a row that the hash
    // has lost (R14).
    if met.is_suspect() && is_kept("R14-suspect") {
        return Err(PlanFailure::Load);
    }
    // A hash that takes the place of a lost one lands as a whole, so its rows must be known (R16).
    let is_reborn = met.hash.is_none() && met.is_marked;
    if is_reborn && !met.is_loaded() && is_kept("R16-unloaded") {
        return Err(PlanFailure::Load);
    }
    check_version(met, mutation)?;
    let builds = |change: &Change| {
        mutation.condition == Condition::Absent || !matches!(change, Change::Set(_))
    };
    let mut changes = mutation.changes.iter();
    let mut expected = mutation.expected.iter();
    if changes.any(|(field, change)| builds(change) && !met.knows(field))
        || expected.any(|(field, _)| !met.knows(field))
    {
        return Err(PlanFailure::Load);
    }
    check_absent(met, mutation)?;
    check_expected(met, mutation)?;
    let mut plan = Plan::default();
    for (field, change) in mutation.changes.iter() {
        if let Some(cell) = planned(met, field, change, &mut plan).map_err(PlanFailure::Refused)? {
            plan.cells.push((field.clone(), cell));
        }
    }
    Ok(plan)
}

fn check_version(met: &OwnerState<'_>, mutation: &Mutation) -> Result<(), PlanFailure> {
    match (mutation.condition, met.version()) {
        (Condition::Version(_), None) if is_kept("R15-version") => Err(PlanFailure::Load),
        (Condition::Version(wanted), Some(version)) if version != wanted => {
            Err(PlanFailure::Refused(Refusal::Version(version)))
        }
        _ => Ok(()),
    }
}

fn check_absent(met: &OwnerState<'_>, mutation: &Mutation) -> Result<(), PlanFailure> {
    let live = |field: &Field| matches!(met.cell(field), Some(Cell::Live(_)));
    match mutation
        .changes
        .iter()
        .find(|(field, _)| mutation.condition == Condition::Absent && live(field))
    {
        Some((field, _)) => Err(PlanFailure::Refused(Refusal::Exists(field.clone()))),
        None => Ok(()),
    }
}

fn check_expected(met: &OwnerState<'_>, mutation: &Mutation) -> Result<(), PlanFailure> {
    for (field, wanted) in &mutation.expected {
        if met.cell(field).and_then(Cell::live) != wanted.as_ref() {
            return Err(PlanFailure::Refused(Refusal::Differs(field.clone())));
        }
    }
    Ok(())
}

/// The content of one field after its change. `None` if it stays as it is.
fn planned(
    met: &OwnerState<'_>,
    field: &Field,
    change: &Change,
    plan: &mut Plan,
) -> Result<Option<Cell>, Refusal> {
    Ok(match change {
        Change::Set(value) => Some(Cell::Live(value.clone())),
        Change::Incr(by) => Some(counted(sum(field, met.cell(field), *by)?, plan)),
        Change::Add { by, floor, ceiling } => {
            let sum = sum(field, met.cell(field), *by)?;
            if !(*floor..=*ceiling).contains(&sum) {
                let value = sum - by;
                return Err(Refusal::OutOfBounds {
                    field: field.clone(),
                    value,
                });
            }
            Some(counted(sum, plan))
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

/// The content of a counter, whose value joins the reply.
fn counted(sum: i64, plan: &mut Plan) -> Cell {
    plan.counters.push(sum);
    Cell::Live(Bytes::from(sum.to_string()))
}

fn sum(field: &Field, cell: Option<&Cell>, by: i64) -> Result<i64, Refusal> {
    let held = match cell.and_then(Cell::live) {
        Some(value) => integer(value).ok_or_else(|| Refusal::NotInteger(field.clone()))?,
        None => 0,
    };
    held.checked_add(by)
        .ok_or_else(|| Refusal::Overflow(field.clone()))
}

/// Parses an integer in canonical decimal form: no sign but '-', no leading zero, no space.
fn integer(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    text.parse()
        .ok()
        .filter(|number: &i64| number.to_string() == text)
}
