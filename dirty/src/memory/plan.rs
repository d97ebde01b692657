//! What a mutation would change, found out before anything is written (R10).

use bytes::Bytes;
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
    pub(super) marks: u32,
}

impl<'a> Met<'a> {
    /// The version, if it is known. A negative answer is version 0.
    pub(super) fn version(&self) -> Option<Version> {
        match (self.hash, self.marker) {
            (Some(hash), _) => Some(hash.version),
            (None, Marker::Unknown) => None,
            (None, marker) => Some(marker.version()),
        }
    }

    fn is_suspect(&self) -> bool {
        self.hash.is_some_and(|hash| hash.generation < self.generation)
    }

    /// A field's cell, none if it was never written; or that it is not known.
    fn cell(&self, field: &Field) -> Result<Option<&'a Cell>, Unmet> {
        match self.hash {
            Some(hash) => match hash.cell(field) {
                None if !hash.complete => Err(Unmet::Load),
                cell => Ok(cell),
            },
            None if self.marker == Marker::Absent => Ok(None),
            None => Err(Unmet::Load),
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
    /// Whether a tombstone gives up its value.
    pub(super) purges: bool,
}

/// Finds out what the mutation would change.
pub(super) fn plan(met: &Met<'_>, mutation: &Mutation) -> Result<Plan, Unmet> {
    // A hash that may be older than what has landed is compared with its rows before anything is built on it, a blind write
    // included: it would raise the owner's version above a row that the hash has lost (R14).
    if met.is_suspect() {
        return Err(Unmet::Load);
    }
    check_condition(met, mutation)?;
    let mut plan = Plan::default();
    for (field, change) in &mutation.changes {
        if let Some(cell) = planned(met, field, change, &mut plan)? {
            plan.cells.push((field.clone(), cell));
        }
    }
    Ok(plan)
}

fn check_condition(met: &Met<'_>, mutation: &Mutation) -> Result<(), Unmet> {
    match mutation.condition {
        Condition::None => Ok(()),
        Condition::Version(wanted) => match met.version() {
            None => Err(Unmet::Load),
            Some(version) if version == wanted => Ok(()),
            Some(version) => Err(Unmet::Refused(Refusal::Version(version))),
        },
        Condition::Absent => mutation.changes.iter().try_for_each(|(field, _)| match met.cell(field)? {
            Some(Cell::Live(_)) => Err(Unmet::Refused(Refusal::Exists(field.clone()))),
            _ => Ok(()),
        }),
    }
}

/// What one field holds after its change; none if it stays as it is.
fn planned(met: &Met<'_>, field: &Field, change: &Change, plan: &mut Plan) -> Result<Option<Cell>, Unmet> {
    Ok(match change {
        Change::Set(value) => Some(Cell::Live(value.clone())),
        Change::Incr(by) => {
            let sum = sum(field, met.cell(field)?, *by).map_err(Unmet::Refused)?;
            plan.counters.push(sum);
            Some(Cell::Live(Bytes::from(sum.to_string())))
        }
        Change::Remove => match met.cell(field)? {
            Some(Cell::Live(value)) => Some(Cell::Removed(value.clone())),
            _ => None,
        },
        Change::Restore => match met.cell(field)? {
            Some(Cell::Removed(value)) => Some(Cell::Live(value.clone())),
            _ => None,
        },
        Change::Purge => match met.cell(field)? {
            _ if met.marks > 0 => return Err(Unmet::Refused(Refusal::NotLanded)),
            Some(Cell::Removed(_)) => {
                plan.purges = true;
                Some(Cell::Purged)
            }
            _ => None,
        },
    })
}

fn sum(field: &Field, cell: Option<&Cell>, by: i64) -> Result<i64, Refusal> {
    let held = match cell.and_then(Cell::live) {
        Some(value) => integer(value).ok_or_else(|| Refusal::NotInteger(field.clone()))?,
        None => 0,
    };
    held.checked_add(by).ok_or_else(|| Refusal::Overflow(field.clone()))
}

/// The integer that these bytes are the canonical decimal form of: no sign but '-', no leading zero, no space.
fn integer(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}
