//! Landings of versions and events, and the replacement of the database by a copy.

use super::world::{Database, Event, FIRST, Former, World};
use super::{Broken, Freshness, Take, step};

pub(super) fn steps(bounds: &Freshness, world: &World, take: Take<'_>) {
    landings(bounds, world, take);
    if bounds.replacement && world.former.is_none() {
        replacements(bounds, world, take);
    }
}

fn landings(bounds: &Freshness, world: &World, take: Take<'_>) {
    let Database {
        row, ref events, ..
    } = world.database;
    let is_ahead = Database::told(events) < row;
    if is_ahead {
        let next = with_event(world, Some(row));
        take(step("worker", 0, "lands the event of the row"), Ok(next));
    } else if let Some(version) = next_version(bounds, world) {
        let mut next = world.clone();
        next.database.row = version;
        let whole = with_event(&next, Some(version));
        take(
            step("worker", 0, "lands a version with its event"),
            Ok(whole),
        );
        take(
            step("worker", 0, "lands a version ahead of its event"),
            Ok(next),
        );
    }
    let others = events
        .iter()
        .filter(|event| event.version.is_none())
        .count();
    if others < bounds.others {
        let next = with_event(world, None);
        take(
            step("worker", 0, "lands an event of another owner"),
            Ok(next),
        );
    }
}

/// The next version of the row. The versions of the present database are greater than those of the
/// former one.
fn next_version(bounds: &Freshness, world: &World) -> Option<u8> {
    let of_first = FIRST + bounds.versions;
    let (last, most) = match world.former {
        None => (world.database.row, of_first),
        Some(_) => (world.database.row.max(of_first), of_first + bounds.versions),
    };
    Some(last + 1).filter(|version| *version <= most)
}

fn with_event(world: &World, version: Option<u8>) -> World {
    let mut next = world.clone();
    next.database.events.push(Event {
        committed: world.now,
        version,
    });
    next
}

/// Replaces the database by each copy: the first events, and a row that is not behind them.
fn replacements(bounds: &Freshness, world: &World, take: Take<'_>) {
    let Database {
        identity,
        row,
        ref events,
    } = world.database;
    for number in 1..=events.len() {
        let events: Vec<Event> = events.iter().take(number).copied().collect();
        for copied in Database::told(&events)..=row {
            let mut next = world.clone();
            next.former = Some(Former {
                replaced: world.now,
                row,
                copied,
                last: world.last(),
            });
            next.database = Database {
                identity: identity + u8::from(!bounds.is(Broken::Identity)),
                row: copied,
                events: events.clone(),
            };
            take(step("database", 0, "is replaced by a copy"), Ok(next));
        }
    }
}
