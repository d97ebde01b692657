//! The oracle: the applied writes in order, and the part that must be there.

use storage_model::{Applied, Bytes, Cell, Change, Condition, Field, Mutation, Row, Version};

/// All cells that one field ever had, and the cell that must be seen now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Story {
    field: Field,
    /// The first is the cell from before any write, if there was one.
    chapters: Vec<Chapter>,
    /// A failover may set it back to a cell of the copy, or to that of the row.
    now: usize,
    /// The fate of the last write's value, if the hash that held it was deleted.
    deleted: Option<Deleted>,
}

/// A value that was deleted before it had landed. No part can bring it back. So an older one may be
/// read and landed until the field is written again, but the loss must be reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Deleted {
    Untold,
    Told,
}

/// One cell of a field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Chapter {
    cell: Option<Cell>,
    /// The version of the write that made it.
    version: Version,
    /// A failover or a deletion took it, and the story went on without it.
    lost: bool,
}

/// All fields' stories.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Truth {
    stories: Vec<Story>,
    /// The owner's version. None after a failover, which may change it without a write.
    version: Option<Version>,
    /// How new the present state is: the version of the last write, or of the copy or the newest row
    /// that a failover left.
    as_new_as: Version,
    /// The version of the hash that was deleted, or that newer rows replaced.
    gone: Version,
    /// The states that the owner had: the cells of all fields. Empty for an owner of one field.
    states: Vec<Vec<Option<Cell>>>,
    /// The version with which the owner has landed in parts, if it has not landed as a whole since.
    torn: Option<Version>,
}

/// The place of a mutation in the stories: each changed field, with the index of its chapter.
pub(super) type Effect = Vec<(usize, usize)>;

impl Truth {
    /// The stories of fields with these first cells.
    pub(super) fn new(fields: impl Iterator<Item = (Option<Cell>, Field)>) -> Self {
        let story = |(cell, field)| Story {
            field,
            chapters: vec![Chapter {
                cell,
                version: Version::ZERO,
                lost: false,
            }],
            now: 0,
            deleted: None,
        };
        let stories: Vec<Story> = fields.map(story).collect();
        let is_new = stories.iter().all(|story| story.now().is_none());
        let mut truth = Self {
            stories,
            version: is_new.then_some(Version::ZERO),
            as_new_as: Version::ZERO,
            gone: Version::ZERO,
            states: Vec::new(),
            torn: None,
        };
        truth.keeps_state(|_| None);
        truth
    }

    /// The owner has its present state. `left` has the cells of fields whose last write was deleted
    /// by hand.
    pub(super) fn keeps_state(&mut self, left: impl Fn(&Field) -> Option<Cell>) {
        if self.stories.len() < 2 {
            return;
        }
        let cells = self.stories.iter().map(|story| match story.deleted {
            Some(_) => left(&story.field),
            None => story.now().cloned(),
        });
        let state = cells.collect();
        if !self.states.contains(&state) {
            self.states.push(state);
        }
    }

    /// A commit of this version, after which the rows are these. Fails if that is a state that the
    /// owner never had (R16). An owner that has landed in parts need not be whole before a later commit.
    pub(super) fn lands(
        &mut self,
        rows: Vec<Option<Cell>>,
        version: Version,
        in_parts: bool,
    ) -> Result<(), String> {
        if in_parts {
            self.torn = self.torn.max(Some(version));
        } else {
            self.torn = self.torn.filter(|torn| *torn > version);
        }
        let is_state = |state: &Vec<Option<Cell>>| {
            let mut cells = state.iter().zip(&rows);
            cells.all(|(truth, row)| is_same(truth.as_ref(), row.as_ref()))
        };
        let is_known = self.stories.len() < 2 || self.states.iter().any(is_state);
        if is_known || self.torn.is_some() {
            return Ok(());
        }
        Err(format!(
            "the rows are {rows:?}, a state that the owner never had"
        ))
    }

    pub(super) fn version(&self) -> Option<Version> {
        self.version
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (&Field, Option<&Cell>)> {
        self.stories.iter().map(|story| (&story.field, story.now()))
    }

    fn of(&self, field: &Field) -> Option<&Story> {
        self.stories.iter().find(|story| story.field == *field)
    }

    /// The place of a cell in the field's story. If it has several, the latest one.
    pub(super) fn place(&self, field: &Field, cell: Option<&Cell>) -> Option<usize> {
        let chapters = &self.of(field)?.chapters;
        let exactly = chapters
            .iter()
            .rposition(|known| known.cell.as_ref() == cell);
        exactly.or_else(|| {
            chapters
                .iter()
                .rposition(|known| is_same(known.cell.as_ref(), cell))
        })
    }

    /// Like [`Self::place`], but the first place.
    pub(super) fn first_place(&self, field: &Field, cell: Option<&Cell>) -> Option<usize> {
        let chapters = &self.of(field)?.chapters;
        let exactly = chapters
            .iter()
            .position(|known| known.cell.as_ref() == cell);
        exactly.or_else(|| {
            chapters
                .iter()
                .position(|known| is_same(known.cell.as_ref(), cell))
        })
    }

    /// Whether a row is older than the write that made its cell (R3).
    pub(super) fn is_antedated(&self, row: &Row) -> bool {
        let place = self.first_place(&row.field, Some(&row.cell));
        let story = self.of(&row.field).zip(place);
        story
            .and_then(|(story, place)| story.chapters.get(place))
            .is_some_and(|chapter| row.version < chapter.version)
    }

    /// The present place of each field.
    pub(super) fn places(&self) -> Vec<usize> {
        self.stories.iter().map(|story| story.now).collect()
    }

    /// After a failover: the owner goes on from this state, if it is newer.
    pub(super) fn goes_on_from(&mut self, version: Version, cell: impl Fn(&Field) -> Option<Cell>) {
        if version > self.as_new_as {
            self.turns_to(version, cell);
        }
    }

    /// After a failover: this state takes the place of the present one. A state is taken as a whole,
    /// since it may be of another history (R16).
    pub(super) fn turns_to(&mut self, version: Version, cell: impl Fn(&Field) -> Option<Cell>) {
        let before = self.places();
        for at in 0..self.stories.len() {
            let Some(story) = self.stories.get(at).filter(|story| story.deleted.is_none()) else {
                continue;
            };
            let place = self.place(&story.field, cell(&story.field).as_ref());
            if let Some(story) = self.stories.get_mut(at) {
                story.now = place.unwrap_or_default();
            }
        }
        if self.places() != before {
            self.gone = self.gone.max(self.as_new_as);
        }
        self.as_new_as = version;
    }

    /// Forgets all data that only the hot tier had, until `goes_on_from` says which of it is left.
    pub(super) fn forget(&mut self) {
        self.stories.iter_mut().for_each(|story| story.now = 0);
        (self.version, self.as_new_as) = (None, Version::ZERO);
    }

    /// Deletes the hash of this version by hand. Fields whose last write is in their row lose nothing
    /// by it. The owner goes on without the others' writes since their rows.
    pub(super) fn delete<'a>(
        &mut self,
        version: Version,
        landed: impl Fn(&Field) -> Option<&'a Cell>,
    ) {
        self.gone = version;
        for at in 0..self.stories.len() {
            let Some(story) = self.stories.get(at) else {
                continue;
            };
            let row = landed(&story.field);
            let place = self.place(&story.field, row).unwrap_or_default();
            if story.deleted.is_some() || story.now() == row {
                continue;
            }
            if let Some(story) = self.stories.get_mut(at) {
                story.deleted = Some(Deleted::Untold);
                let lost = story.chapters.iter_mut().skip(place + 1);
                lost.for_each(|chapter| chapter.lost = true);
            }
        }
    }

    /// Whether the owner goes on without this place of a field's story: a failover or a deletion took
    /// it. So a row that has it may be replaced by an older one.
    pub(super) fn is_forsaken(&self, field: &Field, place: Option<usize>) -> bool {
        let (Some(story), Some(place)) = (self.of(field), place) else {
            return false;
        };
        let is_lost = story.chapters.get(place).is_some_and(|one| one.lost);
        is_lost || place > story.now
    }

    /// Whether the hash was deleted by hand, or replaced by newer rows.
    pub(super) fn has_gone(&self) -> bool {
        self.gone > Version::ZERO
    }

    /// Whether the last write was deleted by hand, and no write came since.
    pub(super) fn is_deleted(&self, field: &Field) -> bool {
        self.of(field).is_some_and(|story| story.deleted.is_some())
    }

    /// Whether that loss was reported to the operator.
    pub(super) fn is_told(&self, field: &Field) -> bool {
        self.of(field)
            .is_some_and(|story| story.deleted == Some(Deleted::Told))
    }

    /// Reports to the operator that this version of a field is lost. Returns whether a hash with
    /// this version has gone.
    pub(super) fn tell(&mut self, field: &Field, version: Version) -> bool {
        for story in self
            .stories
            .iter_mut()
            .filter(|story| story.field == *field)
        {
            story.deleted = story.deleted.map(|_| Deleted::Told);
        }
        version <= self.gone
    }

    /// Takes a mutation for applied. Fails with the reason if it must not have been applied, or not
    /// with this reply.
    pub(super) fn apply(&mut self, mutation: &Mutation, reply: &Applied) -> Result<Effect, String> {
        if let (Condition::Version(wanted), Some(version)) = (mutation.condition, self.version)
            && wanted != version
        {
            return Err(format!(
                "a write that wanted version {wanted} was applied over version {version}"
            ));
        }
        let mut counters = Vec::new();
        let mut effect = Effect::new();
        for (field, change) in mutation.changes.iter() {
            let Some(at) = self.stories.iter().position(|story| story.field == *field) else {
                continue;
            };
            let Some(story) = self.stories.get_mut(at) else {
                continue;
            };
            let Some(cell) = after(story.now(), change, &mut counters)? else {
                continue;
            };
            story
                .chapters
                .iter_mut()
                .skip(story.now + 1)
                .for_each(|chapter| chapter.lost = true);
            story.chapters.push(Chapter {
                cell: Some(cell),
                version: reply.version,
                lost: false,
            });
            story.now = story.chapters.len() - 1;
            story.deleted = None;
            effect.push((at, story.now));
        }
        if counters != reply.counters {
            return Err(format!(
                "a counter became {:?} instead of {counters:?}",
                reply.counters
            ));
        }
        if effect.len() != usize::try_from(reply.changed).unwrap_or(usize::MAX) {
            return Err(format!(
                "{} fields changed instead of {}: {:?}",
                reply.changed,
                effect.len(),
                mutation.changes
            ));
        }
        if !effect.is_empty() {
            self.as_new_as = reply.version;
            if self.version.is_some() {
                self.version = Some(reply.version);
            }
        }
        Ok(effect)
    }

    /// Whether any effect of a mutation is still there, or was built upon.
    pub(super) fn holds(&self, effect: &Effect) -> bool {
        let there = |story: &Story, place| {
            story.now >= place
                && story
                    .chapters
                    .get(place)
                    .is_some_and(|chapter| !chapter.lost)
        };
        effect.iter().any(|(story, place)| {
            self.stories
                .get(*story)
                .is_some_and(|story| there(story, *place))
        })
    }
}

/// Whether a cell is the true one. A field that was never there may be purged.
pub(super) fn is_same(truth: Option<&Cell>, cell: Option<&Cell>) -> bool {
    cell == truth || truth.is_none() && cell == Some(&Cell::Purged)
}

impl Story {
    fn now(&self) -> Option<&Cell> {
        self.chapters.get(self.now)?.cell.as_ref()
    }
}

/// The cell of a field after a change. None if the change does nothing.
fn after(
    held: Option<&Cell>,
    change: &Change,
    counters: &mut Vec<i64>,
) -> Result<Option<Cell>, String> {
    Ok(match (change, held) {
        (Change::Set(value), _) => Some(Cell::Live(value.clone())),
        (Change::Incr(by), held) => {
            let text = held
                .and_then(Cell::live)
                .map_or("0", |value| std::str::from_utf8(value).unwrap_or_default());
            let sum = text
                .parse::<i64>()
                .map_err(|error| format!("{text:?} is no counter: {error}"))?
                + by;
            counters.push(sum);
            Some(Cell::Live(Bytes::from(sum.to_string())))
        }
        (Change::Remove, Some(Cell::Live(value))) => Some(Cell::Removed(value.clone())),
        (Change::Restore, Some(Cell::Removed(value))) => Some(Cell::Live(value.clone())),
        (Change::Purge, Some(Cell::Removed(_))) => Some(Cell::Purged),
        _ => None,
    })
}
