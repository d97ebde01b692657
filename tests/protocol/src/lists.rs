//! Lists of a collection: every interleaving of changes of its items and of itself, of landings,
//! and of one list after the other. The collection has a head and two items in one partition.
//!
//! A list must show every change that was acknowledged before it began. It shows each item in a
//! state that the item had while the list was read, so an item that did not change is there once.
//! In every state, the head's count is the number of items, its revision is the number of changes,
//! and no item of an earlier generation is left.
//!
//! The rules: a change leaves its note in its step. A note lands with the rows that it tells of, and
//! is trimmed after the commit. A list reads the head first, from the newest state, then the notes,
//! and then the rows of the head's generation. The newest states of items that notes name are laid
//! over the rows. A write of an item depends on the item's version and on the generation, and
//! adds to the count. A deletion of the collection depends on the head's version, and raises the
//! generation.
//!
//! Other searches have the parts that lists rely on. Here a read of a cold owner is one step, and
//! one worker lands the partition. A hash expires as soon as it has landed. No tier forgets
//! anything, and no row is rejected. A list reads all notes in one step.
//!
//! | module | concept |
//! | --- | --- |
//! | `world` | the state, and the conditions that hold in each |
//! | `writer` | changes of items and of the collection |
//! | `landing` | landings and trims |
//! | `reader` | lists, and the conditions on what they show |

#![expect(
    clippy::indexing_slicing,
    reason = "all items, generations, writers and versions are numbered below the arrays' lengths"
)]

use crate::search::{Model, Step};

mod landing;
mod reader;
mod world;
mod writer;

pub use world::World;

/// A rule of lists or collections that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// A list reads the rows before the notes.
    RowsFirst,
    /// A list shows the rows alone.
    NoOverlay,
    /// A list reads the rows of every generation.
    AnyGeneration,
    /// A list takes the head from its row.
    HeadOfRow,
    /// A list reads its revision at the end.
    HeadLast,
    /// A change leaves its note in a later step.
    NoteApart,
    /// Notes are trimmed before the commit that lands them.
    TrimFirst,
    /// Marks are cleared before the commit that lands their owners.
    SettleFirst,
    /// A note lands with the row of the head, whether or not the item's row lands.
    NoteUnlinked,
    /// A write of an item does not depend on the generation.
    AnyHead,
    /// A write of an item does not depend on the item's version.
    AnyItem,
    /// A write of an item sets the count by the one that it has read.
    CountWritten,
    /// A deletion of the collection does not depend on the head's version.
    DeleteUnconditional,
    /// A deletion of the collection leaves the generation.
    DeleteUnraised,
}

/// Lists within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Lists {
    /// How many changes are made.
    pub changes: u8,
    /// How many clients make them at once.
    pub writers: usize,
    /// Whether the collection exists already. Then it has one item, and both have landed.
    pub stored: bool,
    /// Whether owners of one change may land one by one. The notes wait for them.
    pub apart: bool,
    /// Whether lists are read.
    pub lists: bool,
    /// Whether a list reads the items on two pages.
    pub paged: bool,
    /// The rule that is broken.
    pub broken: Option<Broken>,
}

/// Takes a step and its result.
type Take<'a> = &'a mut dyn FnMut(Step, Result<World, String>);

fn step(who: &'static str, number: usize, what: &'static str) -> Step {
    Step { who, number, what }
}

impl Lists {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }
}

impl Model for Lists {
    type State = World;

    fn start(&self) -> World {
        if self.stored {
            World::stored()
        } else {
            World::default()
        }
    }

    fn steps(&self, world: &World, take: Take<'_>) {
        for number in 0..self.writers {
            writer::steps(self, world, number, take);
        }
        landing::steps(self, world, take);
        if self.lists {
            reader::steps(self, world, take);
        }
    }

    fn violation(&self, world: &World) -> Option<String> {
        let torn = || world.torn().filter(|_| !self.apart);
        world
            .miscounted()
            .or_else(|| world.misplaced())
            .or_else(torn)
    }
}
