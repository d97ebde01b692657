//! V2, V6, V7 and V9 of one field with one writer: its possible contents at each moment, and the
//! possible results of each read.

use std::collections::BTreeSet;

use super::cell::{Cell, States, TooMany};
use super::{Flaw, Rewind};
use crate::torture::history::{Call, Effect, End, Operation};
use crate::torture::moment::Micros;
use crate::torture::value::token_of;

/// The possible contents of the field from the beginning of one operation of its writer to the
/// beginning of the next.
#[derive(Debug)]
struct Step {
    begun: Micros,
    /// The time from which on it certainly holds. Never, for a write of unknown outcome.
    ended: Micros,
    /// The owner's version, if it is known.
    version: Option<u64>,
    /// It wrote a value, so its landing needs a row of this version or a later one.
    wrote: bool,
    era: usize,
    cells: BTreeSet<Cell>,
}

/// The possible contents of one field over time.
#[derive(Debug)]
pub struct Timeline {
    steps: Vec<Step>,
    states: States,
    /// The version up to which a flush told the writer that everything is in the database.
    flushed: u64,
}

/// The reason why a field has no timeline.
#[derive(Debug)]
pub enum NoTimeline {
    /// Too many concurrent writes of unknown outcome.
    Undecided,
    /// No state explains the answers to its writer.
    Flawed(Flaw),
}

impl From<TooMany> for NoTimeline {
    fn from(_: TooMany) -> Self {
        Self::Undecided
    }
}

fn change_of<'a>(operation: &'a Operation, field: &str) -> Option<(&'a Effect, bool)> {
    let Call::Write { changes, .. } = &operation.call else {
        return None;
    };
    changes
        .iter()
        .find(|(name, _)| name == field)
        .map(|(_, effect)| (effect, changes.len() == 1))
}

/// The result of a read for a field. None if the read did not ask for it.
#[must_use]
pub fn read_of<'a>(operation: &'a Operation, field: &str) -> Option<(Option<&'a str>, u64)> {
    let (Call::Read(asked), End::Found { version, fields }) = (&operation.call, &operation.end)
    else {
        return None;
    };
    let was_asked = asked
        .as_ref()
        .is_none_or(|asked| asked.iter().any(|name| name == field));
    let found = fields
        .iter()
        .find(|(name, _)| name == field)
        .map(|(_, token)| token.as_str());
    was_asked.then_some((found, *version))
}

/// Whether the acknowledgement of a change fits the cell before and after it.
fn fits(effect: &Effect, alone: bool, end: &End, field: &str, before: &Cell, after: &Cell) -> bool {
    let End::Acked {
        changed, counted, ..
    } = end
    else {
        return true;
    };
    match effect {
        Effect::Incr(_) => {
            let counted = counted
                .iter()
                .find(|(name, _)| name == field)
                .map(|(_, number)| number.to_string());
            counted.is_none() || counted.as_deref() == after.live()
        }
        Effect::Remove | Effect::Restore | Effect::Purge if alone => {
            (*changed > 0) == (before != after)
        }
        _ => true,
    }
}

impl Timeline {
    /// The timeline of `name`, a field, from the operations of its owner's only writer, in their
    /// order.
    ///
    /// # Errors
    /// No state explains the answers to the writer, or too many outcomes are unknown.
    pub fn of(
        name: &str,
        operations: &[&Operation],
        rewinds: &[Rewind],
    ) -> Result<Self, NoTimeline> {
        let field = name.rsplit('/').next().unwrap_or_default();
        let mut timeline = Self {
            steps: Vec::new(),
            states: States::default(),
            flushed: 0,
        };
        timeline.push(0, 0, None, 0);
        let mut era = 0;
        for operation in operations {
            while let Some(rewind) = rewinds
                .get(era)
                .filter(|rewind| operation.begun >= rewind.down)
            {
                timeline.rewind(name, rewind, era)?;
                era += 1;
            }
            let spans = rewinds.get(era).is_some_and(|rewind| {
                operation.ended >= rewind.down && operation.ended < Micros::MAX
            }) || era
                .checked_sub(1)
                .and_then(|last| rewinds.get(last))
                .is_some_and(|rewind| operation.begun < rewind.up);
            timeline.step(name, field, operation, era, spans)?;
        }
        for rewind in rewinds.iter().skip(era) {
            timeline.rewind(name, rewind, era)?;
            era += 1;
        }
        Ok(timeline)
    }

    fn push(&mut self, begun: Micros, ended: Micros, version: Option<u64>, era: usize) {
        self.steps.push(Step {
            begun,
            ended,
            version,
            wrote: false,
            era,
            cells: self.states.cells(),
        });
    }

    fn step(
        &mut self,
        name: &str,
        field: &str,
        operation: &Operation,
        era: usize,
        spans: bool,
    ) -> Result<(), NoTimeline> {
        self.states.expire(operation.begun);
        let (begun, ended) = (operation.begun, operation.ended);
        if let Some((effect, alone)) = change_of(operation, field) {
            match &operation.end {
                End::NotApplied(_) | End::Conflict => return Ok(()),
                // The hot tier that acknowledged it may not be the one that stayed.
                End::Acked { .. } | End::Applied(_) if spans => {
                    self.states.begin_unknown(effect.clone(), ended)?;
                    self.push(begun, ended, None, era);
                }
                End::Acked { version, .. } => {
                    self.states.apply(effect, |before, after| {
                        fits(effect, alone, &operation.end, field, before, after)
                    })?;
                    self.push(begun, ended, Some(*version), era);
                    if let Some(step) = self.steps.last_mut() {
                        step.wrote = matches!(effect, Effect::Set(_) | Effect::Incr(_));
                    }
                }
                End::Applied(_) => {
                    self.states.apply(effect, |_, _| true)?;
                    self.push(begun, ended, None, era);
                }
                _ => {
                    self.states
                        .begin_unknown(effect.clone(), operation.expires)?;
                    self.push(begun, Micros::MAX, None, era);
                }
            }
        } else if let Some((found, version)) = read_of(operation, field).filter(|_| !spans) {
            self.states.observe(found)?;
            self.push(begun, ended, Some(version), era);
        } else {
            if let (End::Flushed(version), false) = (&operation.end, spans) {
                self.flushed = self.flushed.max(*version);
            }
            return Ok(());
        }
        if self.states.is_impossible() {
            let may = self
                .steps
                .iter()
                .rev()
                .nth(1)
                .map(|step| step.cells.clone())
                .unwrap_or_default();
            let detail = format!(
                "its writer got {:?} at {begun} when it could only hold {may:?}",
                operation.end
            );
            return Err(NoTimeline::Flawed(Flaw::new("V6", name, detail).at(ended)));
        }
        Ok(())
    }

    /// The content from a hot tier that came back older: the landed cell, or any cell acknowledged
    /// since then.
    fn rewind(&mut self, name: &str, rewind: &Rewind, era: usize) -> Result<(), NoTimeline> {
        self.states.expire(rewind.down);
        let row = rewind.rows.get(name);
        let landed = row.map(|row| row.version).unwrap_or_default();
        let promised = |step: &&Step| {
            step.era == era
                && step.wrote
                && step.version.is_some_and(|version| version <= self.flushed)
        };
        if let Some(step) = self
            .steps
            .iter()
            .rev()
            .find(promised)
            .filter(|step| step.version > Some(landed))
        {
            let (version, flushed) = (step.version.unwrap_or_default(), self.flushed);
            let detail = format!(
                "a flush said that {flushed} is in the database; a write of {version} is not, the row has {landed}"
            );
            return Err(NoTimeline::Flawed(Flaw::new("V2", name, detail)));
        }
        self.flushed = 0;
        let begins = self.steps.iter().position(|step| step.era == era);
        let known = self.steps.iter().rposition(|step| {
            step.era == era && step.version.is_some_and(|version| version <= landed)
        });
        let first = known.or(begins);
        let mut cells: BTreeSet<Cell> = self
            .steps
            .iter()
            .skip(first.unwrap_or_default())
            .flat_map(|step| step.cells.iter().cloned())
            .collect();
        cells.insert(row.map_or(Cell::Absent, cell_of));
        self.states.rewind(cells)?;
        self.push(rewind.down, rewind.up, None, era + 1);
        Ok(())
    }

    /// Checks that a read by any process found a possible content of that time.
    ///
    /// # Errors
    /// The flaw.
    pub fn check_read(&self, name: &str, read: &Operation) -> Result<(), Flaw> {
        let field = name.rsplit('/').next().unwrap_or_default();
        let Some((found, version)) = read_of(read, field) else {
            return Ok(());
        };
        let mut first = self
            .steps
            .iter()
            .rposition(|step| step.ended <= read.begun)
            .unwrap_or_default();
        let mut last = self
            .steps
            .iter()
            .rposition(|step| step.begun <= read.ended)
            .unwrap_or_default()
            .max(first);
        let era = |at: usize| self.steps.get(at).map(|step| step.era);
        let first_era = era(first);
        if first_era == era(last) {
            // A record is one moment of its owner, and the version identifies the moment.
            let known = |step: &Step| step.version.filter(|_| Some(step.era) == first_era);
            let within = |at: &usize| self.steps.get(*at).and_then(known);
            first = (first..=last)
                .rev()
                .find(|at| within(at).is_some_and(|known| known <= version))
                .unwrap_or(first);
            last = (first + 1..=last)
                .find(|at| within(at).is_some_and(|known| known > version))
                .map_or(last, |at| at - 1);
        }
        let steps = self.steps.get(first..=last).unwrap_or_default();
        if steps
            .iter()
            .any(|step| step.cells.iter().any(|cell| cell.live() == found))
        {
            return Ok(());
        }
        let may: BTreeSet<_> = steps.iter().flat_map(|step| &step.cells).collect();
        let who = format!(
            "game {}.{} task {}",
            read.process.0, read.process.1, read.task
        );
        let detail = format!(
            "a read of {who} from {} to {} found {found:?} at version {version}; possible were {may:?}",
            read.begun, read.ended
        );
        Err(Flaw::new("V4", name, detail).at(read.ended))
    }

    /// The possible contents of the field after all pending writes have expired.
    #[must_use]
    pub fn last(&self) -> BTreeSet<Cell> {
        self.states.cells()
    }
}

/// The cell of a row.
#[must_use]
pub fn cell_of(row: &crate::StoredRow) -> Cell {
    match row.is_del {
        0 => Cell::Live(token_of(&row.value)),
        1 => Cell::Removed(token_of(&row.value)),
        _ => Cell::Purged,
    }
}
