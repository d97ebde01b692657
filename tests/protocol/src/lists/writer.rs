//! Changes: each reads, and then changes head, item and notes in one step, or nothing.

use super::world::{Cell, GENERATIONS, Head, ITEMS, Note, World, owner_of};
use super::{Broken, Lists, Take, step};

/// A change that a client makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Change {
    Put(usize),
    Remove(usize),
    Create,
    Delete,
}

const CHANGES: [Change; 6] = [
    Change::Put(0),
    Change::Put(1),
    Change::Remove(0),
    Change::Remove(1),
    Change::Create,
    Change::Delete,
];

impl Change {
    fn item(self) -> Option<usize> {
        match self {
            Self::Put(item) | Self::Remove(item) => Some(item),
            Self::Create | Self::Delete => None,
        }
    }

    /// Whether there is anything to change, by the head that was read.
    fn fits(self, head: &Head) -> bool {
        match self {
            Self::Put(_) => true,
            Self::Remove(_) => head.count.is_some(),
            Self::Create => head.count.is_none(),
            Self::Delete => head.count.is_some() && head.present() < GENERATIONS,
        }
    }

    fn reads(self) -> &'static str {
        match self {
            Self::Put(0) => "reads the head, to put item 0",
            Self::Put(_) => "reads the head, to put item 1",
            Self::Remove(0) => "reads the head, to remove item 0",
            Self::Remove(_) => "reads the head, to remove item 1",
            Self::Create => "reads the head, to create the collection",
            Self::Delete => "reads the head, to delete the collection",
        }
    }

    fn applies(self) -> &'static str {
        match self {
            Self::Put(_) => "puts the item",
            Self::Remove(_) => "removes the item",
            Self::Create => "creates the collection",
            Self::Delete => "deletes the collection",
        }
    }
}

/// How far a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum Writer {
    #[default]
    Idle,
    /// The client has read the head. An item is still to be read.
    Half(Change, Cell<Head>),
    /// The client has read all. The item's state, if it is a change of one.
    Ready(Change, Cell<Head>, Option<Cell<bool>>),
    /// The note of this version is still to be left.
    Noting(u8, Note),
}

pub(super) fn steps(bounds: &Lists, world: &World, number: usize, take: Take<'_>) {
    let mut next = *world;
    let slot = &mut next.writers[number];
    let what = match world.writers[number] {
        Writer::Idle => return begin(bounds, world, number, take),
        Writer::Half(change, head) => {
            let item = change.item().unwrap_or_default();
            let owner = world.items[owner_of(head.value.present(), item)];
            *slot = if owner.live().is_none() && matches!(change, Change::Remove(_)) {
                Writer::Idle
            } else {
                Writer::Ready(change, head, owner.newest())
            };
            "reads the item"
        }
        Writer::Ready(change, head, item) => {
            *slot = Writer::Idle;
            if !holds(bounds, world, change, (head, item)) {
                take(step("client", number, "finds a conflict"), Ok(next));
                return;
            }
            let note = apply(bounds, &mut next, change, (head.value, item));
            leave(bounds, &mut next, number, note);
            change.applies()
        }
        Writer::Noting(version, note) => {
            *slot = Writer::Idle;
            next.notes[usize::from(version)] = note;
            "leaves the note"
        }
    };
    take(step("client", number, what), Ok(next));
}

fn begin(bounds: &Lists, world: &World, number: usize, take: Take<'_>) {
    let head = world.newest_head();
    let is_left = world.version < bounds.changes;
    for change in CHANGES {
        if !is_left || !change.fits(&head.value) {
            continue;
        }
        let mut next = *world;
        let known = known(bounds, change, head);
        next.writers[number] = match change.item() {
            Some(_) => Writer::Half(change, known),
            None => Writer::Ready(change, known, None),
        };
        take(step("client", number, change.reads()), Ok(next));
    }
}

/// The part of the head that a change depends on. Fewer states differ without the rest.
fn known(bounds: &Lists, change: Change, head: Cell<Head>) -> Cell<Head> {
    let Head {
        generation, count, ..
    } = head.value;
    let depends_on_version = change.item().is_none();
    let depends_on_count = bounds.is(Broken::CountWritten);
    Cell {
        version: if depends_on_version { head.version } else { 0 },
        value: Head {
            generation,
            count: count.filter(|_| depends_on_count),
            revision: 0,
        },
    }
}

/// Whether the conditions of a change hold.
fn holds(
    bounds: &Lists,
    world: &World,
    change: Change,
    (head, item): (Cell<Head>, Option<Cell<bool>>),
) -> bool {
    let now = world.newest_head();
    if world.version >= bounds.changes {
        return false;
    }
    let Some(number) = change.item() else {
        let is_any = bounds.is(Broken::DeleteUnconditional) && change == Change::Delete;
        return is_any || now.version == head.version;
    };
    let found = world.items[owner_of(head.value.present(), number)].newest();
    let version = |cell: Option<Cell<bool>>| cell.map(|cell| cell.version);
    (bounds.is(Broken::AnyHead) || now.value.generation == head.value.generation)
        && (bounds.is(Broken::AnyItem) || version(found) == version(item))
}

/// Changes head and item. Returns the note.
fn apply(
    bounds: &Lists,
    world: &mut World,
    change: Change,
    (read, item): (Head, Option<Cell<bool>>),
) -> Note {
    world.version += 1;
    let (version, mut head) = (world.version, world.newest_head().value);
    head.revision += 1;
    let Some(number) = change.item() else {
        match change {
            Change::Delete => {
                let raise = u8::from(!bounds.is(Broken::DeleteUnraised));
                (head.generation, head.count) = (read.present() + raise, None);
                world.truth = [None; ITEMS];
            }
            _ => (head.generation, head.count) = (head.present(), Some(0)),
        }
        world.head.write(version, head);
        return Note::Head;
    };
    let is_put = matches!(change, Change::Put(_));
    let more = i8::from(is_put) - i8::from(item.is_some_and(|item| item.value));
    let count = if bounds.is(Broken::CountWritten) {
        read.count
    } else {
        head.count
    };
    (head.generation, head.count) = (head.present(), Some(count.unwrap_or_default() + more));
    world.head.write(version, head);
    let owner = owner_of(read.present(), number);
    world.items[owner].write(version, is_put);
    world.truth[number] = is_put.then_some(version);
    Note::Item(owner)
}

/// Leaves the note of the last change, and tells the list's oracle of it.
fn leave(bounds: &Lists, world: &mut World, number: usize, note: Note) {
    if bounds.is(Broken::NoteApart) {
        world.writers[number] = Writer::Noting(world.version, note);
    } else {
        world.notes[usize::from(world.version)] = note;
    }
    let truth = world.truth;
    if let Some(list) = &mut world.list {
        list.remember(&truth);
    }
}
