//! A flush that lands the owner at once, in the steps of `Tiers::flush`.

use std::sync::Arc;

use storage_dirty::memory::{marks, owner};
use storage_dirty::{Collected, HotRead, LandedRow, Settle, SnapshotId};
use storage_model::sabotage::broken;
use storage_model::{Field, Owner, Row, Version};

use crate::bounds::Bounds;
use crate::land::{self, Values, commit, fence, is_suspect};
use crate::load::{Loading, Went};
use crate::names::{PARTITION, owner};
use crate::settle;
use crate::world::World;
use crate::{Take, step};

/// The next step of a flush.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Flush {
    Idle,
    Collect(Asked),
    Check(Asked, Arc<Values>),
    /// The values are read. Next it looks at the marks.
    Look(Asked, Arc<(Collected, Vec<Row>)>),
    Reconcile(Asked, Loading),
    Commit(Asked, Arc<(Collected, Vec<Row>)>),
    Fenced(Asked),
    Settle(Arc<Settle>),
}

/// The place of each field when the flush began. The flush promises to land that much.
pub(super) type Asked = Vec<usize>;

/// The next steps of a flush.
pub(super) fn steps(bounds: &Bounds, world: &World, take: Take<'_>) {
    match &world.flush {
        Flush::Idle if world.left.flushes > 0 => {
            let mut next = world.clone();
            next.left.flushes -= 1;
            to("begins", next, Flush::Collect(world.truth.places()), take);
        }
        Flush::Idle => {}
        Flush::Collect(asked) => {
            if let Some(read) = land::read(world, &wanted(), None) {
                to(
                    "reads values",
                    world.clone(),
                    Flush::Check(asked.clone(), read),
                    take,
                );
            }
        }
        Flush::Check(asked, read) => check(world, asked, read, take),
        Flush::Look(asked, read) => look(world, asked, read, take),
        Flush::Fenced(asked) if world.is_prepared(bounds) => {
            to(
                "finds the partition prepared",
                world.clone(),
                Flush::Collect(asked.clone()),
                take,
            );
        }
        Flush::Fenced(_) => {}
        Flush::Reconcile(asked, at) => reconcile(world, asked, at, take),
        Flush::Commit(asked, batch) => {
            commit_but(bounds, world, asked, batch, false, take);
            if world.left.refusals > 0 {
                commit_but(bounds, world, asked, batch, true, take);
            }
        }
        Flush::Settle(settle) => {
            let mut next = world.clone();
            let mut settle = (**settle).clone();
            if broken("R5-flush") {
                (settle.marks, settle.snapshot) = (settle::all_of(world), settle::number(world));
            }
            let present = next.present();
            let allowed = marks::settle(next.hot(), &present, &settle).is_ok();
            to(
                if allowed { "settles" } else { "may not settle" },
                next,
                Flush::Idle,
                take,
            );
        }
    }
}

fn to(what: &'static str, mut world: World, flush: Flush, take: Take<'_>) {
    world.flush = flush;
    take(step("flush", 0, what), Ok(world));
}

fn wanted() -> Vec<(Owner, Vec<Field>)> {
    vec![(owner(), Vec::new())]
}

fn check(world: &World, asked: &Asked, read: &Values, take: Take<'_>) {
    let mut next = world.clone();
    let Some(collected) = land::checked(&mut next, &wanted(), None, read) else {
        return to("may not collect", next, Flush::Fenced(asked.clone()), take);
    };
    if is_suspect(&collected) {
        return to(
            "meets a suspect hash",
            next,
            Flush::Reconcile(asked.clone(), Loading::Observe),
            take,
        );
    }
    let rows = collected.reads.first().map(rows_of).unwrap_or_default();
    to(
        "reads the record",
        next,
        Flush::Look(asked.clone(), Arc::new((collected, rows))),
        take,
    );
}

/// Looks after the hash was read: if no map names the owner, all read fields have landed.
fn look(world: &World, asked: &Asked, read: &Arc<(Collected, Vec<Row>)>, take: Take<'_>) {
    let next = world.clone();
    match owner::marked(&world.hot, PARTITION, &owner(), Some(read.0.epoch)) {
        Err(_) => to("may not look", next, Flush::Fenced(asked.clone()), take),
        Ok(true) if !read.1.is_empty() => to(
            "finds marks",
            next,
            Flush::Commit(asked.clone(), Arc::clone(read)),
            take,
        ),
        Ok(_) => end(next, asked, "finds all landed", Flush::Idle, take),
    }
}

fn rows_of(read: &HotRead) -> Vec<Row> {
    let Some(header) = read.header else {
        return Vec::new();
    };
    let row = |(field, cell): &(Field, _)| Row {
        owner: owner(),
        field: field.clone(),
        cell: Clone::clone(cell),
        version: header.version,
    };
    read.cells.iter().map(row).collect()
}

fn reconcile(world: &World, asked: &Asked, at: &Loading, take: Take<'_>) {
    let mut next = world.clone();
    match at.step(&mut next, &None) {
        Err(wrong) => take(step("flush", 0, "compares"), Err(wrong)),
        Ok((_, Went::Waits)) => {}
        Ok((what, Went::On(at))) => to(what, next, Flush::Reconcile(asked.clone(), at), take),
        Ok((what, Went::Brought(_))) => to(what, next, Flush::Collect(asked.clone()), take),
    }
}

fn commit_but(
    bounds: &Bounds,
    world: &World,
    asked: &Asked,
    (collected, rows): &(Collected, Vec<Row>),
    is_refused: bool,
    take: Take<'_>,
) {
    let mut next = world.clone();
    // A rejected row keeps all others back (R16).
    let fine: Vec<Row> = match is_refused {
        true => Vec::new(),
        false => rows.clone(),
    };
    let fence = fence(collected, rows);
    match commit(&mut next, &fence, &fine, false) {
        Err(wrong) => take(step("flush", 0, "commits"), Err(wrong)),
        Ok(false) => to("is fenced", next, Flush::Fenced(asked.clone()), take),
        Ok(true) => {
            next.left.refusals -= u8::from(is_refused);
            let landed = if fine.is_empty() {
                collected.landed
            } else {
                fence.reaches
            };
            let rows = fine.into_iter().map(|row| landed_row(row, collected));
            let rows = rows.collect();
            let (epoch, probation) = (collected.epoch, bounds.probation);
            let snapshot = SnapshotId::default();
            let settle = Settle {
                partition: PARTITION,
                lock: None,
                epoch,
                snapshot,
                landed,
                marks: Vec::new(),
                rows,
                probation,
            };
            let then = Flush::Settle(Arc::new(settle));
            match is_refused {
                true => to("is refused a row", next, then, take),
                false => end(next, asked, "commits", then, take),
            }
        }
    }
}

/// A landed row, with the birth of the hash that it was read from.
fn landed_row(row: Row, collected: &Collected) -> LandedRow {
    let header = collected.reads.first().and_then(|read| read.header);
    LandedRow {
        owner: row.owner,
        field: row.field,
        version: row.version,
        from: header.map_or(Version::ZERO, |header| header.born),
    }
}

/// The flush reports that all has landed.
fn end(world: World, asked: &Asked, what: &'static str, then: Flush, take: Take<'_>) {
    let landed = |field: &Field| {
        world
            .truth
            .place(field, world.cold.cell(field))
            .unwrap_or_default()
    };
    let missing = world
        .truth
        .fields()
        .zip(asked.iter().zip(world.truth.places()))
        // A failover may have set the owner back since.
        .find(|((field, _), (asked, now))| landed(field) < (*now).min(**asked))
        .map(|((field, _), _)| field);
    match missing {
        Some(field) => take(
            step("flush", 0, what),
            Err(format!(
                "a flush reported its end, and {field} is not in the database"
            )),
        ),
        None => to(what, world, then, take),
    }
}
