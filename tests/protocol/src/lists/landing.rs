//! Landings of owners and notes, and trims of the stream.

use super::world::{Cell, Head, Note, OWNERS, Owner, World};
use super::{Broken, Lists, Take, step};

/// A landing under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Batch {
    head: Option<Cell<Head>>,
    items: [Option<Cell<bool>>; OWNERS],
    /// The last note that lands.
    until: u8,
    is_committed: bool,
}

pub(super) fn steps(bounds: &Lists, world: &World, take: Take<'_>) {
    let mut next = *world;
    match world.batch {
        None => begin(bounds, world, take),
        Some(batch) => {
            next.batch = None;
            take(step("worker", 0, "dies"), Ok(next));
            if batch.is_committed {
                settle(&mut next, &batch);
                take(step("worker", 0, "settles"), Ok(next));
            } else {
                let mut early = next;
                settle(&mut early, &batch);
                if bounds.is(Broken::SettleFirst) && early.head.hot != next.head.hot {
                    early.batch = Some(batch);
                    take(step("worker", 0, "settles before the commit"), Ok(early));
                }
                commit(&mut next, batch);
                take(step("worker", 0, "commits"), Ok(next));
            }
        }
    }
    trim(bounds, world, take);
}

/// Reads owners in one step. Without torn transactions, all owners are linked by the head.
fn begin(bounds: &Lists, world: &World, take: Take<'_>) {
    let marked: Vec<usize> = (0..OWNERS)
        .filter(|owner| world.items[*owner].hot.is_some())
        .collect();
    // The first bit stands for the head.
    let all = (1_u32 << (marked.len() + 1)) - 1;
    let first = if bounds.apart { 0 } else { all };
    for set in first..=all {
        let mut batch = Batch {
            head: world.head.hot,
            items: [None; OWNERS],
            until: world.landed,
            is_committed: false,
        };
        if set & 1 == 0 && batch.head.take().is_none() {
            continue;
        }
        for (bit, owner) in marked.iter().enumerate() {
            if set & (2 << bit) != 0 {
                batch.items[*owner] = world.items[*owner].hot;
            }
        }
        notes(bounds, world, batch, take);
    }
}

/// Adds notes, as far as the rows that they tell of land with them or have landed.
fn notes(bounds: &Lists, world: &World, mut batch: Batch, take: Take<'_>) {
    let has_rows = batch.head.is_some() || batch.items.iter().any(Option::is_some);
    loop {
        if has_rows || batch.until > world.landed {
            let mut next = *world;
            next.batch = Some(batch);
            take(step("worker", 0, "collects rows and notes"), Ok(next));
        }
        let version = batch.until + 1;
        let lands = |owner: usize| {
            bounds.is(Broken::NoteUnlinked)
                || batch.items[owner].is_some()
                || world.items[owner].has_landed(version)
        };
        let has_item = match world.notes[usize::from(version)] {
            Note::None => return,
            Note::Head => true,
            Note::Item(owner) => lands(owner),
        };
        if !has_item || batch.head.is_none() && !world.head.has_landed(version) {
            return;
        }
        batch.until = version;
    }
}

fn commit(world: &mut World, batch: Batch) {
    land(&mut world.head, batch.head);
    for (owner, cell) in world.items.iter_mut().zip(batch.items) {
        land(owner, cell);
    }
    world.landed = batch.until;
    world.batch = Some(Batch {
        is_committed: true,
        ..batch
    });
}

/// An older row never replaces a newer one.
fn land<T: Copy>(owner: &mut Owner<T>, cell: Option<Cell<T>>) {
    if let Some(cell) = cell
        && !owner.has_landed(cell.version)
    {
        owner.row = Some(cell);
    }
}

/// Clears the marks of owners that were not written since they were read. Their hashes expire.
fn settle(world: &mut World, batch: &Batch) {
    clear(&mut world.head, batch.head);
    for (owner, cell) in world.items.iter_mut().zip(batch.items) {
        clear(owner, cell);
    }
}

fn clear<T: PartialEq>(owner: &mut Owner<T>, cell: Option<Cell<T>>) {
    if cell.is_some() && owner.hot == cell {
        owner.hot = None;
    }
}

/// Drops the notes that have landed.
fn trim(bounds: &Lists, world: &World, take: Take<'_>) {
    let early = world.batch.filter(|_| bounds.is(Broken::TrimFirst));
    let until = early.map_or(world.landed, |batch| batch.until);
    let mut next = *world;
    next.notes[..=usize::from(until)].fill(Note::None);
    if next != *world {
        take(step("worker", 0, "trims the notes"), Ok(next));
    }
}
