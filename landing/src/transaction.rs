//! One landing transaction: the rows of some marks, from their collection to their settle.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use storage_dirty::{Collected, Entry, HotError, Reject, Rejected, Settle, SnapshotId};
use storage_model::{Content, Epoch, Event, Lead, Partition, Position, Version, tries};
use storage_sql::{ColdError, ColdKind, Events, FeedEnds, Fence, LandError};

use crate::failure::is_lost;
use crate::limiter::Size;
use crate::marks::{self, Faults, LandingPart, Rows, Verdict};
use crate::worker::Worker;
use storage_tiers::bisect::{self, Noted, WAITS};
use storage_tiers::{TierError, Tiers, Together, Units};

/// A part with its data from the hot tier.
struct Ready<'a> {
    part: &'a LandingPart,
    collected: Collected,
    rows: Rows,
    units: Units,
    /// Partners of the part's owners: their marks in the part's snapshot.
    beside: LandingPart,
    /// The events that land with the rows.
    events: Option<Events>,
    leads: Vec<(Partition, Lead)>,
}

impl Ready<'_> {
    fn has_work(&self) -> bool {
        !self.rows.rows.is_empty() || self.events.is_some()
    }
}

/// The size of all rows together.
fn size_of(ready: &[Ready<'_>]) -> Size {
    let mut size = Size::default();
    for one in ready {
        size.rows += one.rows.rows.len();
        for row in &one.rows.rows {
            size.bytes += row.cell.value().len();
        }
        for event in one.events.iter().flat_map(|events| &events.events) {
            size.rows += 1;
            if let Content::Note(note) = &event.content {
                size.bytes += note.body.len();
            }
        }
    }
    size
}

/// Lands parts, each of another partition, in one transaction. Then settles their marks or rejects
/// them to the error map.
///
/// A partition whose lock or epoch was lost meanwhile is left as it is. Another worker must land
/// its marks, and this call's commit does no harm.
///
/// # Errors
/// A tier is away. Marks of a part are settled only if its rows were committed.
pub(crate) async fn commit_rows(worker: &Worker, parts: &[LandingPart]) -> Result<Size, TierError> {
    let Worker { tiers, metrics, .. } = worker;
    let mut ready = collect_all(tiers, parts).await?;
    let attempts = if parts.len() > 1 {
        tries::LANDING_TOGETHER
    } else {
        tries::LANDING
    };
    // Held over all attempts. A wait before each attempt would lose against the landing that moves
    // the fence.
    let transaction = worker.limiter.begin().await;
    for _ in 0..attempts {
        worker.pulse.beat();
        if ready.is_empty() {
            return Ok(Size::default());
        }
        match attempt(tiers, &ready).await {
            Ok(faults) => {
                let size = size_of(&ready);
                drop(transaction);
                report_committed(worker, &ready, &faults);
                report_torn(worker, &ready);
                finish(worker, ready, &faults).await?;
                return Ok(size);
            }
            Err(LandError::Fenced(partitions)) => {
                metrics.fenced();
                tiers.prepare(&partitions).await?;
                let (moved, kept): (Vec<_>, Vec<_>) = ready
                    .into_iter()
                    .partition(|one| partitions.contains(&one.part.partition));
                ready = kept;
                ready.extend(collect_all(tiers, moved.into_iter().map(|one| one.part)).await?);
            }
            Err(LandError::Cold(error)) => return Err(error.into()),
            Err(LandError::Refused(fault)) => {
                // Bisection ends at single rows, so a rejection without a culprit is a fault of the
                // database itself.
                return Err(ColdError {
                    kind: ColdKind::Unwell,
                    operation: "land",
                    message: format!("{} (error {})", fault.message, fault.code),
                }
                .into());
            }
        }
    }
    let partitions: Vec<_> = ready
        .iter()
        .map(|one| one.part.partition.to_string())
        .collect();
    Err(TierError::Contended {
        what: format!("land partitions {}", partitions.join(", ")),
        tries: attempts,
    })
}

async fn collect_all<'a>(
    tiers: &Tiers,
    parts: impl IntoIterator<Item = &'a LandingPart>,
) -> Result<Vec<Ready<'a>>, TierError> {
    let parts: Vec<&LandingPart> = parts.into_iter().collect();
    let ends = feed_ends(tiers, &parts).await?;
    let collected = parts.into_iter().map(|part| {
        let mut ends = ends.iter();
        let end = ends.find(|ends| ends.partition == part.partition);
        collect(tiers, part, end.map(|ends| ends.last).unwrap_or_default())
    });
    join_all(collected).await.into_iter().collect()
}

/// How far the feeds of the parts with notes reach.
async fn feed_ends(tiers: &Tiers, parts: &[&LandingPart]) -> Result<Vec<FeedEnds>, TierError> {
    let noted: Vec<Partition> = parts
        .iter()
        .filter(|part| part.notes.is_some())
        .map(|part| part.partition)
        .collect();
    Ok(tiers.cold().events.feeds(&noted).await?)
}

/// The events of a part that go behind this end of the feed. None if the notes were read in another
/// epoch, or if the database has forgotten events before them. Then the next pass reads them again.
fn events_of(part: &LandingPart, end: Position, epoch: Epoch) -> Option<Events> {
    let notes = part.notes.as_ref()?;
    if notes.epoch != epoch || end < notes.after {
        return None;
    }
    // By number, since a gap that another worker has told had a position of an earlier epoch.
    let is_beyond = |event: &&Event| event.position.number > end.number;
    let events: Vec<Event> = notes.events.iter().filter(is_beyond).cloned().collect();
    (!events.is_empty()).then_some(Events {
        partition: part.partition,
        after: end,
        events,
    })
}

/// Reads the fields that a part's marks name. The values, the owner's version and the fence's
/// numbers belong together.
async fn collect<'a>(
    tiers: &Tiers,
    part: &'a LandingPart,
    end: Position,
) -> Result<Ready<'a>, TierError> {
    let asked = part.wanted();
    let known = (!part.replay).then_some(part.snapshot);
    let mut suspects = BTreeSet::new();
    for _ in 0..tries::LANDING {
        match tiers
            .collect_together(part.partition, &asked, known, tiers.torn_after())
            .await
        {
            Ok(Together {
                wanted,
                mut collected,
                units,
                marks,
            }) => {
                let compared = tiers.reconcile_all(&wanted, &mut collected, &mut suspects);
                if !compared.await? {
                    continue;
                }
                let rows = marks::rows(&wanted, &collected);
                let events = events_of(part, end, collected.epoch);
                let mut noted = Noted::default();
                let reads = wanted.iter().zip(&collected.reads);
                noted.keep(
                    part.partition,
                    reads.map(|((owner, _), read)| (owner, read)),
                );
                return Ok(Ready {
                    part,
                    collected,
                    rows,
                    units,
                    beside: beside(part, marks),
                    events,
                    leads: noted.leads,
                });
            }
            Err(error) => tiers.prepare_after(error).await?,
        }
    }
    Err(TierError::Contended {
        what: format!("collect partition {}", part.partition),
        tries: tries::LANDING,
    })
}

/// The partners of a part's owners, with their marks. A replay has no snapshot to settle them in.
fn beside(part: &LandingPart, marks: Vec<(SnapshotId, Entry)>) -> LandingPart {
    let known: BTreeSet<_> = part.entries.iter().map(|entry| &entry.raw).collect();
    let is_beside = |(snapshot, entry): &(SnapshotId, Entry)| {
        !part.replay && *snapshot == part.snapshot && !known.contains(&entry.raw)
    };
    let marks = marks.into_iter().filter(is_beside);
    LandingPart {
        partition: part.partition,
        snapshot: part.snapshot,
        entries: marks.map(|(_, entry)| entry).collect(),
        replay: part.replay,
        notes: None,
    }
}

/// Commits all rows once. Returns the rejected ones.
async fn attempt(tiers: &Tiers, ready: &[Ready<'_>]) -> Result<Faults, LandError> {
    let (mut rows, mut fences, mut faults) = (Vec::new(), Vec::new(), Faults::new());
    let (mut units, mut noted) = (Units::default(), Noted::default());
    for one in ready {
        units.extend(&one.units);
        noted.events.extend(one.events.clone());
        noted.leads.extend_from_slice(&one.leads);
        if one.has_work() {
            rows.extend_from_slice(&one.rows.rows);
            fences.push(fence(one));
        }
    }
    if !fences.is_empty() {
        let landed = bisect::land(tiers.cold().landing.as_ref(), fences, rows, &units, noted);
        for (row, fault) in landed.await? {
            faults.insert((row.owner, row.field), (fault.code, fault.message));
        }
    }
    Ok(faults)
}

fn fence(ready: &Ready<'_>) -> Fence {
    bisect::fence(
        ready.part.partition,
        &ready.collected,
        ready.rows.rows.iter(),
    )
}

/// Settles landed marks and rejects the others to the error map.
async fn finish(worker: &Worker, ready: Vec<Ready<'_>>, faults: &Faults) -> Result<(), TierError> {
    // Each transaction raises the fences of all parts that have rows. So one landed row of any part
    // has raised them all. A part without rows has nothing to settle.
    let has_events = ready.iter().any(|one| one.events.is_some());
    let rows: usize = ready.iter().map(|one| one.rows.rows.len()).sum();
    let committed = has_events || rows > faults.len();
    let one = async |ready: &Ready<'_>| {
        let has_errors = ready.collected.has_errors;
        let judge = |part| marks::judge(part, &ready.rows, faults, has_errors);
        let mut verdict = judge(ready.part);
        // Partners that have landed need not land again. Others are judged in their own batch.
        verdict.settle.extend(judge(&ready.beside).settle);
        if has_errors {
            let beside = marks::landed_beside(ready.part, &ready.rows, faults);
            verdict.rows.extend(beside);
        }
        let reached = if committed {
            fence(ready).reaches
        } else {
            ready.collected.landed
        };
        finish_part(worker, ready, reached, verdict).await
    };
    for result in join_all(ready.iter().map(one)).await {
        match result {
            Ok(()) => {}
            Err(error) if is_lost(&error) => {
                tracing::info!(%error, "a partition changed hands while it was landed")
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn finish_part(
    worker: &Worker,
    ready: &Ready<'_>,
    reached: Version,
    verdict: Verdict,
) -> Result<(), HotError> {
    let Worker { tiers, metrics, .. } = worker;
    if !verdict.settle.is_empty() || !verdict.rows.is_empty() || ready.events.is_some() {
        // ORDER: marks are cleared after the commit. A crash before this point leaves them for the
        // next worker.
        let settle = Settle {
            partition: ready.part.partition,
            lock: Some(worker.claims.lock().clone()),
            epoch: ready.collected.epoch,
            snapshot: ready.part.snapshot,
            landed: reached,
            marks: verdict.settle,
            rows: verdict.rows,
            probation: tiers.has_probation(),
        };
        let settled = tiers.hot().marks.settle(&settle).await?;
        metrics.settled(settled.cleared);
    }
    trim_notes(worker, ready).await?;
    if verdict.reject.is_empty() {
        return Ok(());
    }
    reject_part(worker, ready, verdict.reject).await
}

/// Drops the notes of a part, which have landed.
async fn trim_notes(worker: &Worker, ready: &Ready<'_>) -> Result<(), HotError> {
    let events = ready.events.as_ref();
    let last = events.and_then(|events| events.events.last());
    let Some(last) = last else { return Ok(()) };
    let drop = !worker.tiers.has_probation();
    let (partition, epoch) = (ready.part.partition, ready.collected.epoch);
    worker
        .landed_upto(partition, epoch, last.position, drop)
        .await
}

/// Moves entries of a part to the error map.
async fn reject_part(
    worker: &Worker,
    ready: &Ready<'_>,
    mut rejected: Vec<Rejected>,
) -> Result<(), HotError> {
    for one in &mut rejected {
        // A torn group is none any more. Its partners go on without this owner.
        let owner = one.owner.as_ref();
        let torn = owner.and_then(|owner| ready.units.torn().get(owner));
        one.leaves = torn.cloned().unwrap_or_default();
    }
    let source = Source {
        partition: ready.part.partition,
        epoch: ready.collected.epoch,
        snapshot: ready.part.snapshot,
    };
    reject(worker, source, rejected).await
}

/// Where rejected entries come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    pub(crate) partition: Partition,
    /// The epoch of the attempt.
    pub(crate) epoch: Epoch,
    pub(crate) snapshot: SnapshotId,
}

/// Moves entries to the error map, counts them, and logs why.
pub(crate) async fn reject(
    worker: &Worker,
    source: Source,
    rejected: Vec<Rejected>,
) -> Result<(), HotError> {
    let reject = Reject {
        partition: source.partition,
        lock: worker.claims.lock().clone(),
        epoch: source.epoch,
        snapshot: source.snapshot,
        retry_min: worker.settings.error_retry_min(),
        retry_max: worker.settings.error_retry_max,
        probation: worker.tiers.has_probation(),
        rejected,
    };
    let is_there = worker.tiers.hot().marks.reject(&reject).await?;
    // A mark that landed meanwhile looks vanished, too. `reject` tells which entries are still
    // there.
    let there = reject.rejected.iter().zip(is_there);
    let rejected: Vec<_> = there
        .filter_map(|(entry, is_there)| is_there.then_some(entry))
        .collect();
    report(reject.partition, &rejected);
    worker.metrics.rejected(rejected.len());
    Ok(())
}

/// Counts the rows and events of a commit.
fn report_committed(worker: &Worker, ready: &[Ready<'_>], faults: &Faults) {
    let rows: usize = ready.iter().map(|one| one.rows.rows.len()).sum();
    let events: usize = ready
        .iter()
        .filter_map(|one| one.events.as_ref())
        .map(|feed| feed.events.len())
        .sum();
    worker.metrics.committed(rows.saturating_sub(faults.len()));
    worker.metrics.noted(events);
}

/// Counts and logs owners that landed in parts (R16), or apart from their partners (G1).
fn report_torn(worker: &Worker, ready: &[Ready<'_>]) {
    for one in ready {
        let torn = one.units.torn();
        if torn.is_empty() {
            continue;
        }
        worker.metrics.torn(torn.len());
        let names: Vec<_> = torn.keys().take(16).map(ToString::to_string).collect();
        tracing::warn!(
            partition = one.part.partition.0,
            owners = torn.len(),
            first = names.join(", "),
            "owners landed in parts, or apart from those of their transaction, because the database has rejected a field for landing.torn_after, or because more than 8,192 rows or 8 MiB of them waited in several marks"
        );
    }
}

/// Logs the rejected fields by reason, each reason with its first owner.
fn report(partition: Partition, rejected: &[&Rejected]) {
    let mut reasons: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    for rejected in rejected {
        let owner = match &rejected.owner {
            Some(owner) => owner.to_string(),
            None => "unreadable".to_owned(),
        };
        let culprits = rejected.faults.iter();
        for fault in culprits.filter(|fault| !fault.message.starts_with(WAITS)) {
            let (fields, _) = reasons
                .entry(&fault.message)
                .or_insert_with(|| (0, owner.clone()));
            *fields += 1;
        }
    }
    for (reason, (fields, owner)) in reasons {
        tracing::error!(
            partition = partition.0,
            fields,
            owner,
            reason,
            "fields could not be landed, the first of them of this owner: they stay in the hot tier, and landing-worker errors shows the ways out"
        );
    }
}

#[cfg(test)]
mod tests {
    use storage_dirty::Mark;
    use storage_model::{Bytes, Field, Owner};

    use super::*;

    fn entry(id: &str) -> Entry {
        let owner = Owner::new("game", "eu", "player", id).unwrap();
        let fields = vec![Field::new("gold").unwrap()];
        Entry {
            raw: Bytes::copy_from_slice(id.as_bytes()),
            mark: Some(Mark { owner, fields }),
            version: Version::new(5).unwrap(),
        }
    }

    #[test]
    fn partners_are_settled_by_their_marks_of_the_parts_own_snapshot() {
        let (this, other) = (SnapshotId(7), SnapshotId(8));
        let part = |replay| LandingPart {
            partition: Partition(1),
            snapshot: this,
            entries: vec![entry("ann")],
            replay,
            notes: None,
        };
        let marks = || {
            let marks = [(this, "ann"), (this, "bob"), (other, "cay")];
            marks.map(|(snapshot, id)| (snapshot, entry(id))).to_vec()
        };
        let beside_of = |replay| beside(&part(replay), marks());
        let bob = LandingPart {
            entries: vec![entry("bob")],
            ..part(false)
        };
        assert_eq!(beside_of(false), bob);
        assert_eq!(beside_of(true).entries, [], "a replay has no snapshot");
    }
}
