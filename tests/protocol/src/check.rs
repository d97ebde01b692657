//! The conditions that hold in every state.

use storage_dirty::Map;
use storage_dirty::memory::{invariant, marks};

use crate::names::PARTITION;
use crate::truth::is_same;
use crate::world::{World, held};

/// The condition that does not hold.
pub(super) fn violation(world: &World) -> Option<String> {
    invariant::violation(&world.hot)
        .or_else(|| of_marks(world))
        .or_else(|| of_hash(world))
}

/// A field whose last write the database does not hold has a mark, once the hash was compared. Every
/// marked field is in the hash.
fn of_marks(world: &World) -> Option<String> {
    let maps = [
        Map::Dirty,
        Map::Snapshot,
        Map::Error,
        Map::Landed,
        Map::Expiring,
    ];
    let marks: Vec<_> = maps
        .into_iter()
        .flat_map(|map| marks::scan(&world.hot, map, 0, usize::MAX).entries)
        .filter_map(|entry| entry.mark)
        .collect();
    let read = if marks.is_empty() {
        None
    } else {
        Some(world.read())
    };
    world.truth.fields().find_map(|(field, truth)| {
        let marked = marks.iter().any(|mark| mark.fields.contains(field));
        let landed = world.cold.cell(field);
        let is_known = world.truth.is_told(field) || world.is_uncompared();
        if !marked && !is_same(truth, landed) && !is_known {
            return Some(format!(
                "{field} is {landed:?} in the database and {truth:?}, without a mark"
            ));
        }
        let gone = marked
            && !world.truth.has_gone()
            && read.as_ref().is_none_or(|read| held(read, field).is_none());
        gone.then(|| format!("{field} is marked and gone"))
    })
}

/// A reader sees the present values.
fn of_hash(world: &World) -> Option<String> {
    let read = world.read();
    let header = read
        .header
        .filter(|header| !header.suspect && world.is_ready())?;
    let wrong = world.wrong(&read, header.complete, &None)?;
    Some(format!(
        "the hash of {PARTITION} at version {} is believed and {wrong}",
        header.version
    ))
}
