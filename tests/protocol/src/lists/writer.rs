//! Changes of items and of the collection. A client reads, and then changes head, item and notes in
//! one step, or nothing.

use super::world::{Cell, GENERATIONS, Head, ITEMS, Note, World, live, owner_of};
use super::{Broken, Lists, Take, step};

const PUTS: [&str; ITEMS] = ["puts item 0", "puts item 1"];
const REMOVES: [&str; ITEMS] = ["removes item 0", "removes item 1"];
const BEGINS: [&str; ITEMS] = ["reads the head for item 0", "reads the head for item 1"];

/// How far a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum Writer {
    #[default]
    Idle,
    /// The client has read the head. This item is still to be read.
    Half(usize, Head),
    /// The client has read the head and this item.
    Item(usize, Head, Option<Cell<bool>>),
    /// The client has read the head, and creates or deletes the collection.
    Collection(Cell<Head>),
    /// The note of this change is still to be left.
    Noting(u8, Note),
}

pub(super) fn steps(bounds: &Lists, world: &World, client: usize, take: Take<'_>) {
    let mut give = |what, writer, mut next: World| {
        next.writers[client] = writer;
        take(step("client", client, what), Ok(next));
    };
    let is_left = world.version < bounds.changes;
    match world.writers[client] {
        Writer::Idle if is_left => {
            let head = world.newest_head();
            for (item, what) in BEGINS.into_iter().enumerate() {
                give(what, Writer::Half(item, known(bounds, head.value)), *world);
            }
            if head.value.present() < GENERATIONS {
                let writer = Writer::Collection(head);
                give("reads the head for the collection", writer, *world);
            }
        }
        Writer::Half(item, head) => {
            let found = world.items[owner_of(head.present(), item)].newest();
            give("reads the item", Writer::Item(item, head, found), *world);
        }
        Writer::Item(item, head, found)
            if is_left && may_write(bounds, world, item, (head, found)) =>
        {
            let (next, writer) = write(bounds, world, item, (head, found), true);
            give(PUTS[item], writer, next);
            if live(found).is_some() {
                let (next, writer) = write(bounds, world, item, (head, found), false);
                give(REMOVES[item], writer, next);
            }
        }
        Writer::Collection(head) if is_left && may_change(bounds, world, head) => {
            let (what, next, writer) = change(bounds, world, head.value);
            give(what, writer, next);
        }
        Writer::Item(..) | Writer::Collection(_) => give("finds a change", Writer::Idle, *world),
        Writer::Noting(version, note) => {
            let mut next = *world;
            next.notes[usize::from(version)] = note;
            give("leaves the note", Writer::Idle, next);
        }
        Writer::Idle => {}
    }
}

/// The part of the head that a write of an item depends on. Fewer states differ without the rest.
fn known(bounds: &Lists, head: Head) -> Head {
    Head {
        generation: head.generation,
        count: head.count.filter(|_| bounds.is(Broken::CountWritten)),
        revision: 0,
    }
}

/// The conditions of a write of an item.
fn may_write(
    bounds: &Lists,
    world: &World,
    item: usize,
    (head, found): (Head, Option<Cell<bool>>),
) -> bool {
    let now = world.items[owner_of(head.present(), item)].newest();
    let is_present = world.newest_head().value.generation == head.generation;
    let is_same = now.map(|cell| cell.version) == found.map(|cell| cell.version);
    (is_present || bounds.is(Broken::AnyHead)) && (is_same || bounds.is(Broken::AnyItem))
}

/// Puts or removes an item.
fn write(
    bounds: &Lists,
    world: &World,
    item: usize,
    (read, found): (Head, Option<Cell<bool>>),
    is_put: bool,
) -> (World, Writer) {
    let mut next = *world;
    let mut head = next.newest_head().value;
    let count = if bounds.is(Broken::CountWritten) {
        read.count
    } else {
        head.count
    };
    let more = i8::from(is_put) - i8::from(live(found).is_some());
    head.generation = head.present();
    head.count = Some(count.unwrap_or_default() + more);
    let owner = owner_of(read.present(), item);
    next.items[owner].write(next.version + 1, is_put);
    next.truth[item] = is_put.then_some(next.version + 1);
    let writer = finish(bounds, &mut next, head, Note::Item(owner));
    (next, writer)
}

/// The conditions of a change of the collection.
fn may_change(bounds: &Lists, world: &World, head: Cell<Head>) -> bool {
    let deletes = head.value.count.is_some();
    let is_any = deletes && bounds.is(Broken::DeleteUnconditional);
    is_any || world.newest_head().version == head.version
}

/// Creates the collection, or deletes it.
fn change(bounds: &Lists, world: &World, read: Head) -> (&'static str, World, Writer) {
    let mut next = *world;
    let mut head = next.newest_head().value;
    let what = if read.count.is_none() {
        (head.generation, head.count) = (head.present(), Some(0));
        "creates the collection"
    } else {
        let raise = u8::from(!bounds.is(Broken::DeleteUnraised));
        (head.generation, head.count) = (read.present() + raise, None);
        next.truth = [None; ITEMS];
        "deletes the collection"
    };
    let writer = finish(bounds, &mut next, head, Note::Head);
    (what, next, writer)
}

/// Writes the head and the note of a change. A list that is under way may show the change.
fn finish(bounds: &Lists, world: &mut World, head: Head, note: Note) -> Writer {
    world.version += 1;
    let (version, revision) = (world.version, head.revision + 1);
    world.head.write(version, Head { revision, ..head });
    let truth = world.truth;
    if let Some(list) = &mut world.list {
        list.remember(&truth);
    }
    if bounds.is(Broken::NoteApart) {
        return Writer::Noting(version, note);
    }
    world.notes[usize::from(version)] = note;
    Writer::Idle
}
