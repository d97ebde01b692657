//! All checks over a whole run.

use std::collections::{BTreeMap, BTreeSet};

use storage_sdk::codec;

use super::cell::Cell;
use super::chain::Stored;
use super::field::{NoTimeline, Timeline, cell_of};
use super::{Flaw, Rewind, balance, chain, counter, versions};
use crate::StoredRow;
use crate::torture::history::{Call, End, Operation};
use crate::torture::play::TASKS;
use crate::torture::play::shared::{AMOUNTS, Room};

/// Live values by `logic_type/owner_id/field`.
pub type Values = BTreeMap<String, Vec<u8>>;

/// The stored data after the run, seen in three ways.
#[derive(Debug, Default)]
pub struct Finals {
    /// The database by plain SQL.
    pub rows: BTreeMap<String, StoredRow>,
    /// The reads of the SDK with its cached data.
    pub hot: Values,
    /// The reads of the SDK after all cached data was dropped.
    pub cold: Values,
}

/// The verdict of the oracle.
#[derive(Debug, Default)]
pub struct Judgement {
    /// The flaws.
    pub flaws: Vec<Flaw>,
    /// Fields that were judged.
    pub fields: usize,
    /// Fields with too many concurrent writes of unknown outcome to be judged.
    pub undecided: usize,
    /// Reads that were compared with their possible results.
    pub reads: usize,
}

/// More flaws tell nothing new.
const FLAWS_MAX: usize = 20;
/// The number of lines of history shown with a flaw, and the number of those from after it.
const LINES_MAX: usize = 60;
const LINES_AFTER: usize = 15;

/// The one task that writes an owner: its server and its number. None if many tasks do.
fn writer(owner: &str) -> Option<(u32, u32)> {
    let (server, at) = owner.strip_prefix("player/p")?.split_once('-')?;
    Some((server.parse().ok()?, at.parse::<u32>().ok()? % TASKS))
}

fn room(row: Option<&StoredRow>) -> Stored {
    let room = row.and_then(|row| codec::decode::<Room>(&row.value, 1).ok());
    room.map(|room| Stored {
        number: room.number,
        token: room.token,
    })
    .unwrap_or_default()
}

/// Judges a run.
#[must_use]
pub fn judge(operations: &[Operation], rewinds: &[Rewind], finals: &Finals) -> Judgement {
    let mut of_owner: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in operations
        .iter()
        .filter(|operation| !operation.owner.is_empty())
    {
        of_owner
            .entry(&operation.owner)
            .or_default()
            .push(operation);
    }
    for operations in of_owner.values_mut() {
        operations.sort_by_key(|operation| operation.begun);
    }
    let mut judgement = Judgement::default();
    for (owner, operations) in &of_owner {
        let mut flaws: Vec<Flaw> = versions::check(owner, operations, rewinds)
            .into_iter()
            .collect();
        match (writer(owner), owner.split('/').next()) {
            (Some(writer), _) => flaws.extend(judge_own(
                &mut judgement,
                owner,
                writer,
                operations,
                rewinds,
                finals,
            )),
            (None, Some("guild")) => flaws.extend(judge_guild(
                &mut judgement,
                owner,
                operations,
                rewinds,
                finals,
            )),
            (None, Some("purse")) => {
                judgement.fields += AMOUNTS.len();
                flaws.extend(balance::check(owner, rewinds, finals));
            }
            _ => {
                let name = format!("{owner}/data");
                judgement.fields += 1;
                let landed: Vec<Stored> = rewinds
                    .iter()
                    .map(|rewind| room(rewind.rows.get(&name)))
                    .collect();
                flaws.extend(chain::check(
                    &name,
                    operations,
                    rewinds,
                    &landed,
                    &room(finals.rows.get(&name)),
                ));
            }
        }
        let left = FLAWS_MAX.saturating_sub(judgement.flaws.len());
        judgement.flaws.extend(
            flaws
                .into_iter()
                .take(left)
                .map(|flaw| with_history(flaw, operations)),
        );
    }
    judgement.flaws.extend(
        compare(finals)
            .into_iter()
            .chain(strangers(&of_owner, finals))
            .take(FLAWS_MAX),
    );
    judgement
}

fn judge_own(
    judgement: &mut Judgement,
    owner: &str,
    (server, task): (u32, u32),
    operations: &[&Operation],
    rewinds: &[Rewind],
    finals: &Finals,
) -> Vec<Flaw> {
    let (own, others): (Vec<&Operation>, Vec<&Operation>) = operations
        .iter()
        .partition(|operation| operation.process.0 == server && operation.task == task);
    let mut flaws: Vec<Flaw> = versions::check_conflicts(owner, &own, rewinds)
        .into_iter()
        .collect();
    let named = own.iter().filter_map(|operation| match &operation.call {
        Call::Write { changes, .. } => Some(changes.iter().map(|(field, _)| field.as_str())),
        _ => None,
    });
    for field in named.flatten().collect::<BTreeSet<&str>>() {
        let name = format!("{owner}/{field}");
        judgement.fields += 1;
        let timeline = match Timeline::of(&name, &own, rewinds) {
            Ok(timeline) => timeline,
            Err(NoTimeline::Undecided) => {
                judgement.undecided += 1;
                continue;
            }
            Err(NoTimeline::Flawed(flaw)) => {
                flaws.push(flaw);
                continue;
            }
        };
        judgement.reads += others.len();
        flaws.extend(
            others
                .iter()
                .find_map(|read| timeline.check_read(&name, read).err()),
        );
        let stored = finals.rows.get(&name).map_or(Cell::Absent, cell_of);
        let last = timeline.last();
        if !last.contains(&stored) {
            flaws.push(Flaw::new(
                "V2",
                &name,
                format!("the database holds {stored:?}; it may hold {last:?}"),
            ));
        }
    }
    flaws
}

fn judge_guild(
    judgement: &mut Judgement,
    owner: &str,
    operations: &[&Operation],
    rewinds: &[Rewind],
    finals: &Finals,
) -> Vec<Flaw> {
    let name = format!("{owner}/gold");
    judgement.fields += 1;
    let stored = finals
        .rows
        .get(&name)
        .and_then(|row| std::str::from_utf8(&row.value).ok()?.parse().ok())
        .unwrap_or(0);
    let mut flaws: Vec<Flaw> = counter::check_reads(&name, operations, rewinds)
        .into_iter()
        .collect();
    match counter::check(&name, operations, rewinds, stored) {
        counter::Verdict::Fine => {}
        counter::Verdict::Undecided => judgement.undecided += 1,
        counter::Verdict::Flawed(flaw) => flaws.push(flaw),
    }
    flaws
}

/// Database and SDK, hot and cold, must agree to the byte.
fn compare(finals: &Finals) -> Vec<Flaw> {
    let live = finals
        .rows
        .iter()
        .filter(|(_, row)| row.is_del == 0)
        .map(|(name, row)| (name.clone(), row.value.clone()));
    let rows: Values = live.collect();
    let mut flaws = Vec::new();
    for (what, read) in [("cached", &finals.hot), ("loaded", &finals.cold)] {
        let names: BTreeSet<&String> = rows.keys().chain(read.keys()).collect();
        for name in names {
            let show =
                |value: Option<&Vec<u8>>| value.map(|value| crate::torture::value::token_of(value));
            if rows.get(name) != read.get(name) {
                let (row, read) = (show(rows.get(name)), show(read.get(name)));
                flaws.push(Flaw::new(
                    "V2",
                    name,
                    format!("the database holds {row:?}, the SDK reads {read:?} ({what})"),
                ));
            }
        }
    }
    flaws
}

/// Rows without a writer.
fn strangers(of_owner: &BTreeMap<&str, Vec<&Operation>>, finals: &Finals) -> Vec<Flaw> {
    let known = |name: &str| {
        name.rsplit_once('/')
            .is_some_and(|(owner, _)| of_owner.contains_key(owner))
    };
    let strange = finals.rows.keys().filter(|name| !known(name));
    strange
        .map(|name| Flaw::new("V2", name, "no operation wrote this row"))
        .collect()
}

fn with_history(mut flaw: Flaw, operations: &[&Operation]) -> Flaw {
    let field = flaw.name.split('/').nth(2).map(str::to_owned);
    let concerns = |operation: &&&Operation| match (&operation.call, &field) {
        (Call::Write { changes, .. }, Some(field)) => changes.iter().any(|(name, _)| name == field),
        (Call::Read(Some(asked)), Some(field)) => asked.contains(field),
        _ => true,
    };
    let concerning: Vec<_> = operations.iter().filter(concerns).collect();
    let until = concerning
        .iter()
        .filter(|operation| operation.begun <= flaw.at)
        .count()
        .saturating_add(LINES_AFTER);
    let first = until.min(concerning.len()).saturating_sub(LINES_MAX);
    flaw.history = concerning
        .iter()
        .skip(first)
        .take(LINES_MAX)
        .map(|operation| line(operation, field.as_deref()))
        .collect();
    flaw
}

fn line(operation: &Operation, field: Option<&str>) -> String {
    let end = match (&operation.end, field) {
        (End::Found { version, fields }, Some(field)) => {
            let found = fields
                .iter()
                .find(|(name, _)| name == field)
                .map(|(_, token)| token);
            format!("found {found:?} at version {version}")
        }
        (end, _) => format!("{end:?}"),
    };
    let ended = if operation.ended == u64::MAX {
        "?".to_owned()
    } else {
        operation.ended.to_string()
    };
    let (server, generation) = operation.process;
    format!(
        "{} to {ended} game {server}.{generation} task {}: {:?}: {end}",
        operation.begun, operation.task, operation.call
    )
}
