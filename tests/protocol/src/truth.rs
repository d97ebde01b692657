//! The oracle: what was applied, in order, and what of it must be there.

use storage_model::{Applied, Bytes, Cell, Change, Condition, Field, Mutation, Version};

/// Everything that one field ever held, and which of it must be seen now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Story {
    field: Field,
    /// The first is what was there before anybody wrote, if anything.
    chapters: Vec<Chapter>,
    /// A failover may set it back to what was landed or replicated.
    now: usize,
    /// What became of the last write's value, if somebody deleted the hash that held it.
    deleted: Option<Deleted>,
}

/// A value that somebody deleted before it had landed. Nobody can bring it back, so an older one
/// may be read and landed until the field is written again; but somebody must be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Deleted {
    Untold,
    Told,
}

/// One cell of a field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Chapter {
    cell: Option<Cell>,
    /// A failover took it, and the story went on without it.
    lost: bool,
}

/// All fields' stories.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Truth {
    stories: Vec<Story>,
    /// The owner's version; none after a failover, which may change it without a write.
    version: Option<Version>,
    /// The version of the hash that somebody deleted.
    deleted: Version,
}

/// Where a mutation stands in the stories: the fields that it changed, and as the how manieth.
pub(super) type Effect = Vec<(usize, usize)>;

impl Truth {
    /// Of fields that hold this at first.
    pub(super) fn new(fields: impl Iterator<Item = (Option<Cell>, Field)>) -> Self {
        let story = |(cell, field)| Story {
            field,
            chapters: vec![Chapter { cell, lost: false }],
            now: 0,
            deleted: None,
        };
        let stories: Vec<Story> = fields.map(story).collect();
        let is_new = stories.iter().all(|story| story.now().is_none());
        Self {
            stories,
            version: is_new.then_some(Version::ZERO),
            deleted: Version::ZERO,
        }
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

    /// How far in the field's story a cell stands; the latest place if it has several.
    pub(super) fn place(&self, field: &Field, cell: Option<&Cell>) -> Option<usize> {
        self.of(field)?
            .chapters
            .iter()
            .rposition(|known| known.cell.as_ref() == cell)
    }

    /// As [`Self::place`], but the first place.
    pub(super) fn first_place(&self, field: &Field, cell: Option<&Cell>) -> Option<usize> {
        self.of(field)?
            .chapters
            .iter()
            .position(|known| known.cell.as_ref() == cell)
    }

    /// Where each field stands now.
    pub(super) fn places(&self) -> Vec<usize> {
        self.stories.iter().map(|story| story.now).collect()
    }

    /// The field's story goes on from this cell, if that is later than where it stands.
    pub(super) fn reaches(&mut self, field: &Field, cell: Option<&Cell>) {
        let place = self.place(field, cell);
        if let Some(story) = self.stories.iter_mut().find(|story| story.field == *field) {
            story.now = story.now.max(place.unwrap_or_default());
        }
    }

    /// All that only the hot tier had is forgotten, until `reaches` says what is left.
    pub(super) fn forget(&mut self) {
        self.stories.iter_mut().for_each(|story| story.now = 0);
        self.version = None;
    }

    /// Somebody deletes the hash, which has this version; `has_landed` tells of which fields
    /// nothing is lost with it.
    pub(super) fn delete(
        &mut self,
        version: Version,
        has_landed: impl Fn(&Field, Option<&Cell>) -> bool,
    ) {
        self.deleted = version;
        for story in &mut self.stories {
            if story.deleted.is_none() && !has_landed(&story.field, story.now()) {
                story.deleted = Some(Deleted::Untold);
            }
        }
    }

    /// Whether somebody deleted the hash.
    pub(super) fn was_deleted(&self) -> bool {
        self.deleted > Version::ZERO
    }

    /// Whether somebody deleted what was written last, and nothing was written since.
    pub(super) fn is_deleted(&self, field: &Field) -> bool {
        self.of(field).is_some_and(|story| story.deleted.is_some())
    }

    /// Whether whoever operates the storage knows of that.
    pub(super) fn is_told(&self, field: &Field) -> bool {
        self.of(field)
            .is_some_and(|story| story.deleted == Some(Deleted::Told))
    }

    /// Whoever operates the storage is told that this version of a field is lost. Answers whether a
    /// hash that had it was deleted.
    pub(super) fn tell(&mut self, field: &Field, version: Version) -> bool {
        for story in self
            .stories
            .iter_mut()
            .filter(|story| story.field == *field)
        {
            story.deleted = story.deleted.map(|_| Deleted::Told);
        }
        version <= self.deleted
    }

    /// Takes a mutation for applied; or says why it must not have been, or not with this reply.
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
        if !effect.is_empty() && self.version.is_some() {
            self.version = Some(reply.version);
        }
        Ok(effect)
    }

    /// Whether something that a mutation did is still there, or was built upon.
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

impl Story {
    fn now(&self) -> Option<&Cell> {
        self.chapters.get(self.now)?.cell.as_ref()
    }
}

/// What a field holds after a change; none if the change does nothing.
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
