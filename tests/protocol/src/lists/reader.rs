//! Lists: the head, the notes, the rows, and the newest states of items that the notes name.

use super::world::{GENERATIONS, ITEMS, Note, OWNERS, World, live, owner_of};
use super::{Broken, Lists, Take, step};

/// A step of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Notes,
    /// The rows of these items.
    Rows(&'static [usize]),
    /// The newest state of an item, if a note names it.
    Hot(usize),
    /// The head, for the revision that the list tells.
    Head,
}

use Look::{Hot, Notes, Rows};

const WHOLE: &[Look] = &[Notes, Rows(&[0, 1]), Hot(0), Hot(1)];
const PAGED: &[Look] = &[Notes, Rows(&[0]), Hot(0), Rows(&[1]), Hot(1)];
const ROWS_FIRST: &[Look] = &[Rows(&[0, 1]), Notes, Hot(0), Hot(1)];
const NO_OVERLAY: &[Look] = &[Notes, Rows(&[0, 1])];
const HEAD_LAST: &[Look] = &[Notes, Rows(&[0, 1]), Hot(0), Hot(1), Look::Head];

/// A list under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct List {
    generation: u8,
    /// The next step.
    at: usize,
    /// Whether notes name these items.
    fresh: [bool; ITEMS],
    /// The version that the list shows of each owner.
    shown: [Option<u8>; OWNERS],
    /// The oracle: the versions that each item had since the list began, a bit each. The first
    /// bit stands for its absence.
    had: [u8; ITEMS],
}

impl List {
    /// Keeps the present state of the items.
    pub(super) fn remember(&mut self, truth: &[Option<u8>; ITEMS]) {
        for (had, version) in self.had.iter_mut().zip(truth) {
            *had |= 1 << version.unwrap_or_default();
        }
    }

    /// An item in a state that it never had while the list was read.
    fn violation(&self) -> Option<String> {
        (0..ITEMS).find_map(|item| {
            let shown: Vec<u8> = (1..=GENERATIONS)
                .filter_map(|generation| self.shown[owner_of(generation, item)])
                .collect();
            let version = match shown[..] {
                [] => 0,
                [version] => version,
                _ => return Some(format!("the list shows item {item} twice")),
            };
            let had = self.had[item] & (1 << version) != 0;
            (!had).then(|| match version {
                0 => format!("the list lacks item {item}, which was there all the time"),
                _ => {
                    format!("the list shows version {version} of item {item}, which it had before")
                }
            })
        })
    }
}

fn plan(bounds: &Lists) -> &'static [Look] {
    match bounds.broken {
        Some(Broken::RowsFirst) => ROWS_FIRST,
        Some(Broken::NoOverlay) => NO_OVERLAY,
        Some(Broken::HeadLast) => HEAD_LAST,
        _ if bounds.paged => PAGED,
        _ => WHOLE,
    }
}

pub(super) fn steps(bounds: &Lists, world: &World, take: Take<'_>) {
    let Some(mut list) = world.list else {
        return begin(bounds, world, take);
    };
    let mut next = *world;
    let what = match plan(bounds).get(list.at) {
        Some(Look::Notes) => {
            for note in &world.notes {
                if let Note::Item(owner) = note {
                    list.fresh[owner % ITEMS] = true;
                }
            }
            "reads the notes"
        }
        Some(Look::Rows(items)) => {
            rows(bounds, world, &mut list, items);
            "reads rows"
        }
        Some(Look::Hot(item)) => {
            let owner = owner_of(list.generation, *item);
            list.shown[owner] = world.items[owner].live();
            "reads an item that a note names"
        }
        Some(Look::Head) => {
            list.had = [0; ITEMS];
            list.remember(&world.truth);
            "reads the head again"
        }
        None => return,
    };
    list.at += 1;
    while let Some(Look::Hot(item)) = plan(bounds).get(list.at)
        && !list.fresh[*item]
    {
        list.at += 1;
    }
    let is_done = list.at == plan(bounds).len();
    next.list = Some(list).filter(|_| !is_done);
    let violation = list.violation().filter(|_| is_done);
    take(step("list", 0, what), violation.map_or(Ok(next), Err));
}

/// The list begins as it reads the head.
fn begin(bounds: &Lists, world: &World, take: Take<'_>) {
    let mut next = *world;
    let head = if bounds.is(Broken::HeadOfRow) {
        world.head.row.map(|row| row.value).unwrap_or_default()
    } else {
        world.newest_head().value
    };
    let by = step("list", 0, "reads the head");
    if head.count.is_none() {
        if let Some(item) = world.truth.iter().position(Option::is_some) {
            let violation = format!("the list finds no collection, and item {item} is there");
            take(by, Err(violation));
        }
        return;
    }
    let mut list = List {
        generation: head.present(),
        at: 0,
        fresh: [false; ITEMS],
        shown: [None; OWNERS],
        had: [0; ITEMS],
    };
    list.remember(&world.truth);
    next.list = Some(list);
    take(by, Ok(next));
}

fn rows(bounds: &Lists, world: &World, list: &mut List, items: &[usize]) {
    for generation in 1..=GENERATIONS {
        if generation != list.generation && !bounds.is(Broken::AnyGeneration) {
            continue;
        }
        for item in items {
            let owner = owner_of(generation, *item);
            list.shown[owner] = live(world.items[owner].row);
        }
    }
}
