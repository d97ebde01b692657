//! Somebody who lands the owner at once, in the steps of `Tiers::flush`.

use std::sync::Arc;

use storage_dirty::memory::{landing, read};
use storage_dirty::{Collected, HotRead, Settle, SnapshotId};
use storage_model::sabotage::broken;
use storage_model::{Field, Owner, Row, Version};

use crate::bounds::Bounds;
use crate::land::{self, Values, commit, fence, is_suspect};
use crate::load::{Loading, Went};
use crate::names::{PARTITION, fields, owner};
use crate::settle;
use crate::world::World;
use crate::{Take, step};

/// What a flush is about to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Flush {
    Idle,
    Ask(Asked),
    /// Whether a map named the owner.
    Collect(Asked, bool),
    Check(Asked, bool, Arc<Values>),
    Heal(Asked, Loading),
    Commit(Asked, Arc<(Collected, Vec<Row>)>),
    Fenced(Asked),
    Settle(Arc<Settle>),
}

/// Where each field stood when the flush began: so much it promises.
pub(super) type Asked = Vec<usize>;

/// What a flush can do next.
pub(super) fn steps(bounds: &Bounds, world: &World, take: Take<'_>) {
    match &world.flush {
        Flush::Idle if world.left.flushes > 0 => {
            let mut next = world.clone();
            next.left.flushes -= 1;
            to("begins", next, Flush::Ask(world.truth.places()), take);
        }
        Flush::Idle => {}
        Flush::Ask(asked) => {
            let is_marked = read::marked(&world.hot, &owner());
            to("looks for marks", world.clone(), Flush::Collect(asked.clone(), is_marked), take);
        }
        Flush::Collect(asked, is_marked) => {
            if let Some(read) = land::read(world, &wanted()) {
                to("reads values", world.clone(), Flush::Check(asked.clone(), *is_marked, read), take);
            }
        }
        Flush::Check(asked, is_marked, read) => check(world, asked, *is_marked, read, take),
        Flush::Fenced(asked) if world.is_prepared(bounds) => {
            to("finds the partition prepared", world.clone(), Flush::Ask(asked.clone()), take);
        }
        Flush::Fenced(_) => {}
        Flush::Heal(asked, at) => heal(world, asked, at, take),
        Flush::Commit(asked, batch) => {
            commit_but(bounds, world, asked, batch, None, take);
            for field in fields(bounds.fields).iter().filter(|_| world.left.refusals > 0) {
                commit_but(bounds, world, asked, batch, Some(field), take);
            }
        }
        Flush::Settle(settle) => {
            let mut next = world.clone();
            let mut settle = (**settle).clone();
            if broken("R5-flush") {
                (settle.marks, settle.snapshot) = (settle::all_of(world), settle::number(world));
            }
            let present = next.present();
            let allowed = landing::settle(next.hot(), &present, &settle).is_ok();
            to(if allowed { "settles" } else { "may not settle" }, next, Flush::Idle, take);
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

fn check(world: &World, asked: &Asked, is_marked: bool, read: &Values, take: Take<'_>) {
    let mut next = world.clone();
    let Some(collected) = land::checked(&mut next, &wanted(), read) else {
        return to("may not collect", next, Flush::Fenced(asked.clone()), take);
    };
    if is_suspect(&collected) {
        return to("meets a suspect hash", next, Flush::Heal(asked.clone(), Loading::Observe), take);
    }
    let rows = collected.reads.first().filter(|_| is_marked).map(unlanded).unwrap_or_default();
    if rows.is_empty() {
        return end(next, asked, "finds all landed", Flush::Idle, take);
    }
    to("reads the record", next, Flush::Commit(asked.clone(), Arc::new((collected, rows))), take);
}

fn unlanded(read: &HotRead) -> Vec<Row> {
    let Some(header) = read.header else { return Vec::new() };
    let row = |(field, cell): &(Field, _)| Row {
        owner: owner(),
        field: field.clone(),
        cell: Clone::clone(cell),
        version: header.version,
    };
    read.cells.iter().map(row).collect()
}

fn heal(world: &World, asked: &Asked, at: &Loading, take: Take<'_>) {
    let mut next = world.clone();
    match at.step(&mut next, &None) {
        Err(wrong) => take(step("flush", 0, "compares"), Err(wrong)),
        Ok((_, Went::Waits)) => {}
        Ok((what, Went::On(at))) => to(what, next, Flush::Heal(asked.clone(), at), take),
        Ok((what, Went::Brought(_))) => to(what, next, Flush::Ask(asked.clone()), take),
    }
}

fn commit_but(
    bounds: &Bounds,
    world: &World,
    asked: &Asked,
    (collected, rows): &(Collected, Vec<Row>),
    refused: Option<&Field>,
    take: Take<'_>,
) {
    let mut next = world.clone();
    let fine: Vec<Row> = rows.iter().filter(|row| Some(&row.field) != refused).cloned().collect();
    if refused.is_some() && fine.len() == rows.len() {
        return;
    }
    let fence = fence(collected, rows);
    match commit(&mut next, &fence, &fine) {
        Err(wrong) => take(step("flush", 0, "commits"), Err(wrong)),
        Ok(false) => to("is fenced", next, Flush::Fenced(asked.clone()), take),
        Ok(true) => {
            next.left.refusals -= u8::from(refused.is_some());
            let landed = if fine.is_empty() { collected.landed } else { fence.reaches };
            let rows: Vec<(_, _, Version)> = fine.into_iter().map(|row| (row.owner, row.field, row.version)).collect();
            let (epoch, probation) = (collected.epoch, bounds.probation);
            let snapshot = SnapshotId::default();
            let settle = Settle { partition: PARTITION, lock: None, epoch, snapshot, landed, marks: Vec::new(), rows, probation };
            let then = Flush::Settle(Arc::new(settle));
            match refused {
                Some(_) => to("is refused a row", next, then, take),
                None => end(next, asked, "commits", then, take),
            }
        }
    }
}

/// The flush says that all has landed.
fn end(world: World, asked: &Asked, what: &'static str, then: Flush, take: Take<'_>) {
    let landed = |field: &Field| world.truth.place(field, world.cold.cell(field)).unwrap_or_default();
    let missing =
        world.truth.fields().zip(asked).find(|((field, _), asked)| landed(field) < **asked).map(|((field, _), _)| field);
    match missing {
        Some(field) => take(step("flush", 0, what), Err(format!("a flush was told done, and {field} is not in the database"))),
        None => to(what, world, then, take),
    }
}
