//! The feed at the end of a play in which each change left a note: each change that has landed was
//! told once, in order.

use std::collections::BTreeSet;

use anyhow::Result;
use storage_model::{Content, Epoch, Event, Owner, Partition, Position};
use storage_sql::Cold;

/// Above any epoch.
const EVERY_EPOCH: Epoch = Epoch(u64::MAX >> 1);

/// Whether a row is ahead of its notes.
///
/// # Errors
/// The database can't be read.
pub async fn has_leads(cold: &Cold, partitions: u32) -> Result<bool> {
    for partition in (0..partitions).map(Partition) {
        if !cold.events.leads(partition, EVERY_EPOCH).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The first event that is missing, comes twice or in another order. The last change of each of
/// these owners must be told.
///
/// # Errors
/// The database can't be read.
pub async fn flaw(cold: &Cold, partitions: u32, owners: &[Owner]) -> Result<Option<String>> {
    let mut all = Vec::new();
    for partition in (0..partitions).map(Partition) {
        let events = cold
            .events
            .events(partition, Position::ZERO, usize::MAX)
            .await?;
        if let Some(flaw) = of_order(&events) {
            return Ok(Some(flaw));
        }
        all.extend(events);
    }
    for owner in owners {
        let Some(row) = cold.rows.load_newest(owner).await? else {
            continue;
        };
        let is_told = all.iter().any(|event| match &event.content {
            Content::Note(note) => note.owner == *owner && note.version == row.version,
            Content::Resync { owner: told } => told == owner,
            _ => false,
        });
        if !is_told {
            let version = row.version;
            return Ok(Some(format!(
                "{owner} ends at version {version}, which no event tells"
            )));
        }
    }
    Ok(None)
}

/// The events of a partition have numbers without a gap, and no write is told twice.
fn of_order(events: &[Event]) -> Option<String> {
    let (mut last, mut seen): (_, BTreeSet<(&Owner, _)>) = (Position::ZERO, BTreeSet::new());
    for event in events {
        if event.position <= last || event.position.number != last.number + 1 {
            return Some(format!("{event:?} comes after {last}"));
        }
        last = event.position;
        if let Content::Note(note) = &event.content
            && !seen.insert((&note.owner, note.version))
        {
            return Some(format!("{event:?} comes twice"));
        }
    }
    None
}
