//! Changes of several items of one collection, in one step: all of them are made, or none.

use std::collections::HashSet;
use std::time::Duration;

use storage_sdk::layer::OWNERS_MAX;

use crate::{Conditions, Edit, Error, Kind, Path, Place, Result};

/// The most items that one step changes. The head of their collection changes with them. An idempotency
/// key takes the place of one item, and so does each item whose versions are kept.
pub const ITEMS_MAX: usize = OWNERS_MAX - 1;

/// A change of one item, as a part of a step.
#[derive(Debug, Clone)]
pub struct ItemChange {
    /// The item. A put of the collection itself adds an item under a new id.
    pub path: Path,
    /// The change of the item, as it was before the step.
    pub edit: Edit,
    /// The conditions of the item. Those of an item under a new id are about its collection.
    pub conditions: Conditions,
    /// The time until the item ends by itself, as in [`Call::lives`](crate::Call::lives).
    pub lives: Option<Duration>,
}

/// The collection whose items all of these changes are about.
///
/// # Errors
/// `Step`: there is no change or too many of them, a path is none of an item, an item occurs twice, or
/// the items are of several collections. `Collection`: a collection is changed by something else than a
/// put.
pub(crate) fn collection_of(changes: &[ItemChange]) -> Result<Path> {
    check_count(changes.len())?;
    let (mut common, mut items) = (None, HashSet::new());
    for (at, change) in changes.iter().enumerate() {
        let collection = collection(change).map_err(|error| error.at(at))?;
        let common = common.get_or_insert_with(|| collection.clone());
        if *common != collection {
            return Err(apart(&change.path, common).at(at));
        }
        if change.path != collection && !items.insert(&change.path) {
            let message = format!(
                "the step changes {} twice; put both changes into one",
                change.path
            );
            return Err(Error::new(Kind::Step, message).at(at));
        }
    }
    common.ok_or_else(|| Error::new(Kind::Step, "the step has no change"))
}

fn check_count(changes: usize) -> Result<()> {
    if (1..=ITEMS_MAX).contains(&changes) {
        return Ok(());
    }
    let message = format!(
        "the step has {changes} changes; one step takes 1 to {ITEMS_MAX}, so send several steps"
    );
    Err(Error::new(Kind::Step, message))
}

/// The collection of one change.
fn collection(change: &ItemChange) -> Result<Path> {
    let path = &change.path;
    match path.place() {
        Place::Item { collection, .. } => Path::new(&collection),
        Place::Collection if change.edit.creates() => Ok(path.clone()),
        Place::Collection => {
            let message = format!("{path} is a collection, and a step changes its items");
            Err(Error::new(Kind::Collection, message))
        }
        Place::Document => {
            let message = format!(
                "{path} is a document, and one step changes items of one collection, which are stored together; send the changes one by \
                 one, or keep what changes together as items of one collection"
            );
            Err(Error::new(Kind::Step, message))
        }
    }
}

/// The refusal of an item of another collection.
fn apart(path: &Path, common: &Path) -> Error {
    let message = format!(
        "{path} is not of the collection {common}, and one step changes items of one collection, which are stored together; send a \
         step for each collection, or keep what changes together in one"
    );
    Error::new(Kind::Step, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(paths: &[&str]) -> Vec<ItemChange> {
        let change = |path: &&str| ItemChange {
            path: Path::new(path).unwrap(),
            edit: Edit::put(b"{}").unwrap(),
            conditions: Conditions::default(),
            lives: None,
        };
        paths.iter().map(change).collect()
    }

    #[test]
    fn a_step_is_one_of_items_of_one_collection() {
        let of = |paths: &[&str]| collection_of(&changes(paths)).map(|path| path.to_string());
        assert_eq!(of(&["a~/1", "a~", "a~/2", "a~"]).unwrap(), "a~");
        for (paths, place) in [
            (&["a~/1", "a~/2", "a~/1"][..], Some(2)),
            (&["a~/1", "b~/1"], Some(1)),
            (&["a~/1", "a~x"], Some(1)),
            (&["a"], Some(0)),
            (&[], None),
            (&["a~"; ITEMS_MAX + 1], None),
        ] {
            let refused = of(paths).unwrap_err();
            assert_eq!((refused.kind(), refused.place()), (&Kind::Step, place));
        }
        let mut deletion = changes(&["a~"]);
        deletion[0].edit = Edit::delete();
        let refused = collection_of(&deletion).unwrap_err();
        assert_eq!(refused.kind(), &Kind::Collection);
    }
}
