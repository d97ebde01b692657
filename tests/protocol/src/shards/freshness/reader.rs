//! Loads of the owner's row, and a call that reads it.

use super::world::{At, Call, Load, Named, Row, World};
use super::{Broken, Freshness, Take, step};
use crate::shards::decisions::{Position, has_heard, is_followed};

pub(super) fn steps(bounds: &Freshness, world: &World, take: Take<'_>) {
    loads(bounds, world, take);
    let Some(cursor) = world.cursor else {
        return;
    };
    match world.call {
        None => begin(bounds, world, cursor, take),
        Some(call) => go_on(bounds, world, cursor, call, take),
    }
}

fn loads(bounds: &Freshness, world: &World, take: Take<'_>) {
    let mut next = world.clone();
    let Some(load) = world.load else {
        let is_early = world.cursor.is_none() && world.cache.is_none();
        if is_early && bounds.is(Broken::Cursor) {
            next.load = Some(Load::default());
            take(
                step("load", 0, "begins before the cursor is known"),
                Ok(next),
            );
        }
        return;
    };
    let Some(row) = load.row else {
        return read(world, load, take);
    };
    end(bounds, &mut next, row, load.is_void);
    take(step("load", 0, "ends"), Ok(next));
}

/// Reads the row of the present database, or of the former one over a connection that is left.
fn read(world: &World, load: Load, take: Take<'_>) {
    let present = Row {
        database: world.database.identity,
        version: world.database.row,
    };
    let former = world.former.map(|former| Row {
        database: former.last.position.database,
        version: former.row,
    });
    let after = |row| {
        let mut next = world.clone();
        next.load = Some(Load {
            row: Some(row),
            ..load
        });
        next
    };
    take(step("load", 0, "reads the row"), Ok(after(present)));
    if let Some(row) = former {
        let what = "reads the row of the former database";
        take(step("load", 0, what), Ok(after(row)));
    }
}

/// Ends a load. Its row goes to the call that waits for it.
fn end(bounds: &Freshness, world: &mut World, row: Row, is_void: bool) {
    let counts = is_followed(world.cursor, row.database) || bounds.is(Broken::Row);
    if counts && (!is_void || bounds.is(Broken::Touched)) {
        world.cache = Some(row.version);
    }
    world.load = None;
    let Some(mut call) = world.call else {
        return;
    };
    call.at = match call.at {
        At::Waits if counts && is_answered(bounds, world.cursor, call.named) => {
            At::Has(row.version)
        }
        At::Waits => At::Begins,
        At::Queues => {
            world.load = Some(Load::default());
            At::Waits
        }
        At::Begins | At::Has(_) => call.at,
    };
    world.call = Some(call);
}

/// Whether a call may get values now, by the position that it names.
fn is_answered(bounds: &Freshness, cursor: Option<Position>, named: Option<Named>) -> bool {
    let (Some(cursor), Some(named)) = (cursor, named) else {
        return true;
    };
    let mut position = named.position;
    if bounds.is(Broken::Position) {
        position.database = cursor.database;
    }
    has_heard(cursor, position) || bounds.is(Broken::Place)
}

/// Begins a call that names no position, the last one of the feed, or the last one of the former feed.
fn begin(bounds: &Freshness, world: &World, cursor: Position, take: Take<'_>) {
    let mut names = vec![
        (None, "begins"),
        (Some(world.last()), "begins, and names the last event"),
    ];
    names.extend(world.former.map(|former| {
        let what = "begins, and names the last event of the former database";
        (Some(former.last), what)
    }));
    for (named, what) in names {
        let mut next = world.clone();
        next.call = Some(Call {
            mark: world.mark,
            at: At::Begins,
            named,
        });
        if is_answered(bounds, Some(cursor), named) {
            take(step("call", 0, what), Ok(next));
        }
    }
}

fn go_on(bounds: &Freshness, world: &World, cursor: Position, call: Call, take: Take<'_>) {
    let mut next = world.clone();
    next.call = None;
    take(step("call", 0, "is given up"), Ok(next.clone()));
    match call.at {
        At::Begins if is_answered(bounds, Some(cursor), call.named) => {
            let (at, what) = look(bounds, &mut next);
            next.call = Some(Call { at, ..call });
            take(step("call", 0, what), Ok(next));
        }
        At::Has(value) => {
            // A call that takes the mark late has a mark from after its value.
            let mark = if bounds.is(Broken::Age) {
                world.mark
            } else {
                call.mark
            };
            let violation = world.violation(value, mark, call.named);
            take(
                step("call", 0, "is answered"),
                violation.map_or(Ok(next), Err),
            );
        }
        At::Begins | At::Waits | At::Queues => {}
    }
}

/// Looks for a value: in the cache, or else by a load.
fn look(bounds: &Freshness, world: &mut World) -> (At, &'static str) {
    if let Some(version) = world.cache {
        return (At::Has(version), "reads the cache");
    }
    match world.load {
        None => {
            world.load = Some(Load::default());
            (At::Waits, "begins a load")
        }
        Some(load) if !load.is_void || bounds.is(Broken::Join) => (At::Waits, "joins a load"),
        Some(_) => (At::Queues, "waits for the next load"),
    }
}
