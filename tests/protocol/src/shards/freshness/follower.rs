//! The follower of the feed: rounds, events, and the cursor that begins anew.

use super::world::{Round, World};
use super::{Broken, Freshness, Take, step};
use crate::shards::decisions::{Position, is_replaced};

pub(super) fn steps(bounds: &Freshness, world: &World, take: Take<'_>) {
    let mut next = world.clone();
    let what = match world.round {
        None => {
            next.round = Some(Round {
                began: world.now,
                end: None,
            });
            "begins a round"
        }
        Some(Round { began, end: None }) => {
            next.round = Some(Round {
                began,
                end: Some(world.database.end()),
            });
            "finds the end of the feed"
        }
        Some(Round {
            began,
            end: Some(end),
        }) => go_on(bounds, &mut next, began, end),
    };
    take(step("follower", 0, what), Ok(next));
}

/// The next step of a round that knows the end.
fn go_on(bounds: &Freshness, world: &mut World, began: u8, end: Position) -> &'static str {
    let mark = if bounds.is(Broken::Received) {
        world.now
    } else {
        began
    };
    let Some(cursor) = world.cursor else {
        begin(world, end, mark);
        return "begins at the end of the feed";
    };
    if begins_anew(bounds, cursor, end) {
        forget(bounds, world);
        begin(world, end, mark);
        return "begins anew at the end of another feed";
    }
    let is_other = world.database.identity != end.database && !bounds.is(Broken::Events);
    if cursor.number < end.number && is_other {
        world.round = None;
        return "meets another database";
    }
    take_event(world, cursor.number, end);
    let is_whole = world
        .cursor
        .is_none_or(|cursor| cursor.number >= end.number);
    if is_whole || bounds.is(Broken::Partial) {
        world.mark = world.mark.max(mark);
    }
    if is_whole {
        world.round = None;
    }
    "takes an event, or ends the round"
}

/// Whether the server begins anew at the end that a round found.
fn begins_anew(bounds: &Freshness, cursor: Position, mut end: Position) -> bool {
    if bounds.is(Broken::Number) {
        end.database = cursor.database;
    }
    is_replaced(cursor, end) && !bounds.is(Broken::Back)
}

fn begin(world: &mut World, end: Position, mark: u8) {
    world.cursor = Some(end);
    world.mark = mark;
    world.round = None;
}

/// Nothing of the former database stays.
fn forget(bounds: &Freshness, world: &mut World) {
    if !bounds.is(Broken::Entries) {
        world.cache = None;
    }
    if let Some(load) = world.load.as_mut().filter(|_| !bounds.is(Broken::Load)) {
        load.is_void = true;
    }
}

/// Takes the event after the cursor, if there is one before the end.
fn take_event(world: &mut World, heard: usize, end: Position) {
    let number = heard.max(end.number.min(heard + 1));
    let mut events = world.database.events.iter().take(number).skip(heard);
    let is_told = events.any(|event| event.version.is_some());
    world.cursor = Some(Position { number, ..end });
    if !is_told {
        return;
    }
    world.cache = None;
    if let Some(load) = &mut world.load {
        load.is_void = true;
    }
}
