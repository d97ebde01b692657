//! The state: both tiers, the notes, who is at work, and the truth.

use super::landing::Batch;
use super::reader::List;
use super::writer::Writer;

/// How many items there are.
pub(super) const ITEMS: usize = 2;
/// How many generations there are.
pub(super) const GENERATIONS: u8 = 3;
/// An item has an owner for each generation.
pub(super) const OWNERS: usize = ITEMS * 3;
/// How many clients there are at most.
const WRITERS: usize = 2;
/// The number of changes is below this.
const CHANGES: usize = 8;

/// The number of an item's owner.
pub(super) fn owner_of(generation: u8, item: usize) -> usize {
    (usize::from(generation) - 1) * ITEMS + item
}

/// A value with its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Cell<T> {
    pub(super) version: u8,
    pub(super) value: T,
}

/// An owner in both tiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Owner<T> {
    /// The hash. It is marked, and it expires as soon as the mark is cleared.
    pub(super) hot: Option<Cell<T>>,
    pub(super) row: Option<Cell<T>>,
}

impl<T: Copy> Owner<T> {
    /// The state that a read finds: of the hash, or else of the row.
    pub(super) fn newest(&self) -> Option<Cell<T>> {
        self.hot.or(self.row)
    }

    pub(super) fn write(&mut self, version: u8, value: T) {
        self.hot = Some(Cell { version, value });
    }

    /// Whether the row has this change or a later one.
    pub(super) fn has_landed(&self, version: u8) -> bool {
        self.row.is_some_and(|row| row.version >= version)
    }
}

impl Owner<bool> {
    /// The version of the item, if it is there.
    pub(super) fn live(&self) -> Option<u8> {
        live(self.newest())
    }
}

/// The version of an item, unless it was removed.
pub(super) fn live(cell: Option<Cell<bool>>) -> Option<u8> {
    cell.filter(|cell| cell.value).map(|cell| cell.version)
}

/// The value of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Head {
    /// 0 before the first item.
    pub(super) generation: u8,
    /// `None` if there is no collection.
    pub(super) count: Option<i8>,
    pub(super) revision: u8,
}

impl Head {
    /// The generation of items that are written now.
    pub(super) fn present(&self) -> u8 {
        self.generation.max(1)
    }
}

/// A note in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum Note {
    /// There is none, or it was trimmed.
    #[default]
    None,
    /// The collection was created or deleted.
    Head,
    /// The item of this owner was changed.
    Item(usize),
}

/// A state of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct World {
    pub(super) head: Owner<Head>,
    pub(super) items: [Owner<bool>; OWNERS],
    /// The version of the last change. Each change has the next one, so it is their number, too.
    pub(super) version: u8,
    /// The note of each change.
    pub(super) notes: [Note; CHANGES],
    /// The last note that has landed.
    pub(super) landed: u8,
    pub(super) batch: Option<Batch>,
    pub(super) writers: [Writer; WRITERS],
    pub(super) list: Option<List>,
    /// The oracle: the version of each item that is there.
    pub(super) truth: [Option<u8>; ITEMS],
}

impl World {
    /// A collection with one item. Both have landed, and are cold.
    pub(super) fn stored() -> Self {
        let head = Head {
            generation: 1,
            count: Some(1),
            revision: 1,
        };
        let mut world = Self {
            version: 1,
            landed: 1,
            ..Self::default()
        };
        world.head.row = Some(Cell {
            version: 1,
            value: head,
        });
        world.items[owner_of(1, 0)].row = Some(Cell {
            version: 1,
            value: true,
        });
        world.truth[0] = Some(1);
        world
    }

    /// The head that a read finds.
    pub(super) fn newest_head(&self) -> Cell<Head> {
        self.head.newest().unwrap_or(Cell {
            version: 0,
            value: Head::default(),
        })
    }

    /// A head whose count or revision is wrong.
    pub(super) fn miscounted(&self) -> Option<String> {
        let Head {
            count, revision, ..
        } = self.newest_head().value;
        let items = self.truth.iter().flatten().count();
        let counted = usize::try_from(count.unwrap_or_default()).ok();
        if counted != Some(items) {
            return Some(format!("the count is {count:?}, and there are {items}"));
        }
        (revision != self.version)
            .then(|| format!("the revision is {revision} after {} changes", self.version))
    }

    /// An item of the present generation that is not what it should be.
    pub(super) fn misplaced(&self) -> Option<String> {
        let generation = self.newest_head().value.present();
        (0..ITEMS).find_map(|item| {
            let (found, truth) = (
                self.items[owner_of(generation, item)].live(),
                self.truth[item],
            );
            (found != truth).then(|| {
                format!("item {item} of generation {generation} is {found:?}, not {truth:?}")
            })
        })
    }

    /// A head in the database whose count is not the number of its rows.
    pub(super) fn torn(&self) -> Option<String> {
        let head = self.head.row?.value;
        let of = |item| live(self.items[owner_of(head.present(), item)].row);
        let rows = (0..ITEMS).filter_map(of).count();
        let counted = usize::try_from(head.count.unwrap_or_default()).ok();
        (counted != Some(rows)).then(|| {
            format!(
                "the database has the count {:?} and {rows} rows",
                head.count
            )
        })
    }
}
