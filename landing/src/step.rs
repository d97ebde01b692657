//! One step of landing: some marks in one transaction.

use std::collections::BTreeMap;

use futures::future::join_all;
use storage_dirty::{Collected, HotError, HotKind, HotRead, Park, Parked, Settle};
use storage_model::sabotage::broken;
use storage_model::{Field, Owner, Partition, Row, Version};
use storage_sql::{ColdError, ColdKind, Fence, LandError};
use tokio::time::Instant;

use crate::batch::{self, Faults, Part, Rows, Verdict};
use crate::pace::Size;
use crate::pass::Worker;
use storage_tiers::bisect;
use storage_tiers::{TierError, Tiers, is_suspect};

/// An attempt fails only if another landing of the same partition committed in between.
const TRIES_MAX: u32 = 64;
/// Attempts with several partitions in one transaction. Flushes may move one of the many fences
/// again and again. A partition alone gets through.
const TOGETHER_MAX: u32 = 4;

/// A part with its data from the hot tier.
struct Ready<'a> {
    part: &'a Part,
    collected: Collected,
    rows: Rows,
}

/// The size of one step.
fn size_of(ready: &[Ready<'_>]) -> Size {
    let rows = || ready.iter().flat_map(|one| &one.rows.rows);
    let fences = ready.iter().filter(|one| !one.rows.rows.is_empty()).count();
    Size {
        rows: rows().count(),
        bytes: rows().map(|row| row.cell.value().len()).sum(),
        fences,
    }
}

/// Lands parts, each of another partition, in one transaction. Then settles their marks or rejects
/// them to the error map.
///
/// A partition whose lock or epoch was lost meanwhile is left as it is. Another worker must land
/// its marks, and this call's commit does no harm.
///
/// # Errors
/// A tier is away. Marks of a part are settled only if its rows were committed.
pub(crate) async fn land(worker: &Worker, parts: &[Part]) -> Result<Size, TierError> {
    let Worker { tiers, metrics, .. } = worker;
    let mut ready = collect_all(tiers, parts).await?;
    let tries = if parts.len() > 1 {
        TOGETHER_MAX
    } else {
        TRIES_MAX
    };
    // Held over all attempts. A step that waited again after each attempt would lose against the
    // landing that moves the fence.
    let turn = worker.turns.begin().await;
    for _ in 0..tries {
        if ready.is_empty() {
            return Ok(Size::default());
        }
        #[cfg(feature = "sabotage")]
        crate::sabotage::early(tiers, worker.claims.lock(), parts).await;
        let begun = Instant::now();
        match commit(tiers, &ready).await {
            Ok(faults) => {
                let (size, time) = (size_of(&ready), begun.elapsed());
                // After a fault the batch was cut, and took more than one transaction.
                if size.rows > 0 && faults.is_empty() {
                    worker.turns.pace(|pace| pace.took(size, time));
                }
                drop(turn);
                metrics.landed(size.rows.saturating_sub(faults.len()));
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
        tries,
    })
}

async fn collect_all<'a>(
    tiers: &Tiers,
    parts: impl IntoIterator<Item = &'a Part>,
) -> Result<Vec<Ready<'a>>, TierError> {
    join_all(parts.into_iter().map(|part| collect(tiers, part)))
        .await
        .into_iter()
        .collect()
}

/// Reads the fields that a part's marks name. The values, the owner's version and the fence's
/// numbers belong together.
async fn collect<'a>(tiers: &Tiers, part: &'a Part) -> Result<Ready<'a>, TierError> {
    let wanted = part.wanted();
    let mut healed = false;
    for _ in 0..TRIES_MAX {
        match tiers.hot().collect(part.partition, &wanted).await {
            Ok(mut collected) => {
                let found = heal(tiers, &wanted, &mut collected).await?;
                // A full hot tier does not keep the result of the comparison. Then the step lands
                // that result (R13).
                let is_first = !std::mem::replace(&mut healed, true) || broken("R13-unkept");
                if found == Found::Anew || found == Found::Suspect && is_first {
                    continue;
                }
                #[cfg(feature = "sabotage")]
                let collected =
                    crate::sabotage::collected(tiers, part.partition, &wanted, collected).await;
                let rows = batch::rows(&wanted, &collected);
                #[cfg(feature = "sabotage")]
                let rows = crate::sabotage::rows(part, &wanted, rows);
                return Ok(Ready {
                    part,
                    collected,
                    rows,
                });
            }
            Err(error) => tiers.prepare_after(error).await?,
        }
    }
    Err(TierError::Contended {
        what: format!("collect partition {}", part.partition),
        tries: TRIES_MAX,
    })
}

/// The result of comparing suspect owners with their rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// No owner was suspect.
    Fine,
    /// The reads of suspect owners now include their rows.
    Suspect,
    /// Another process compared one of them meanwhile. All must be read again.
    Anew,
}

/// Compares suspect owners with their rows, and replaces their reads with the result.
async fn heal(
    tiers: &Tiers,
    wanted: &[(Owner, Vec<Field>)],
    collected: &mut Collected,
) -> Result<Found, TierError> {
    let mut found = Found::Fine;
    for ((owner, fields), read) in wanted
        .iter()
        .zip(&mut collected.reads)
        .filter(|(_, read)| is_suspect(read))
    {
        let Some(whole) = tiers.heal(owner).await? else {
            return Ok(Found::Anew);
        };
        let cells = whole
            .cells
            .into_iter()
            .filter(|(field, _)| fields.contains(field))
            .collect();
        (*read, found) = (
            HotRead {
                header: whole.header,
                cells,
            },
            Found::Suspect,
        );
    }
    Ok(found)
}

/// Commits all rows. Answers the rejected ones.
async fn commit(tiers: &Tiers, ready: &[Ready<'_>]) -> Result<Faults, LandError> {
    let rows: Vec<Row> = ready
        .iter()
        .flat_map(|one| one.rows.rows.iter().cloned())
        .collect();
    let mut faults = Faults::new();
    if !rows.is_empty() {
        let fences: Vec<Fence> = ready
            .iter()
            .filter(|one| !one.rows.rows.is_empty())
            .map(fence)
            .collect();
        for (row, fault) in bisect::land(tiers.cold().as_ref(), fences, rows).await? {
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
    let committed = ready.iter().map(|one| one.rows.rows.len()).sum::<usize>() > faults.len();
    let one = async |ready: &Ready<'_>| {
        let verdict = batch::judge(ready.part, &ready.rows, faults, ready.collected.has_errors);
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
    let Worker {
        tiers,
        metrics,
        settings,
        ..
    } = worker;
    let lock = worker.claims.lock();
    let partition = ready.part.partition;
    let epoch = ready.collected.epoch;
    if !verdict.settle.is_empty() || !verdict.rows.is_empty() {
        // ORDER: marks are cleared after the commit. A crash before this point leaves them for the
        // next worker.
        let settle = Settle {
            partition,
            lock: Some(lock.clone()),
            epoch,
            snapshot: ready.part.snapshot,
            landed: reached,
            marks: verdict.settle,
            rows: verdict.rows,
            probation: tiers.has_probation(),
        };
        let settled = tiers.hot().settle(&settle).await?;
        metrics.settled(settled.cleared);
    }
    if !verdict.park.is_empty() {
        let park = Park {
            partition,
            lock: lock.clone(),
            epoch,
            snapshot: ready.part.snapshot,
            retry_min: settings.error_retry_min,
            retry_max: settings.error_retry_max,
            probation: tiers.has_probation(),
            parked: verdict.park,
        };
        let is_there = tiers.hot().park(&park).await?;
        // A mark that landed meanwhile looks vanished, too. `park` tells which entries are still
        // there.
        let parked: Vec<_> = park
            .parked
            .iter()
            .zip(is_there)
            .filter_map(|(parked, is_there)| is_there.then_some(parked))
            .collect();
        report(partition, &parked);
        metrics.parked(parked.len());
    }
    Ok(())
}

/// Logs the rejected fields by reason, each reason with its first owner.
fn report(partition: Partition, parked: &[&Parked]) {
    let mut reasons: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    for (parked, fault) in parked
        .iter()
        .flat_map(|parked| parked.faults.iter().map(move |fault| (parked, fault)))
    {
        let first = || {
            parked
                .owner
                .as_ref()
                .map_or_else(|| "unreadable".to_owned(), Owner::to_string)
        };
        reasons
            .entry(&fault.message)
            .or_insert_with(|| (0, first()))
            .0 += 1;
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

/// Whether a failure concerns only some partitions and says nothing about others.
pub(crate) fn is_confined(error: &TierError) -> bool {
    match error {
        TierError::Hot(error) => error.kind == HotKind::Corrupt || is_lost(error),
        TierError::Cold(error) => error.kind == ColdKind::Unreadable,
        TierError::Contended { .. } | TierError::Panicked { .. } => true,
        _ => false,
    }
}

/// Whether a partition now belongs to another worker or another incarnation.
pub(crate) fn is_lost(error: &HotError) -> bool {
    matches!(
        error.kind,
        HotKind::LockLost | HotKind::EpochMoved | HotKind::Unprepared(_)
    )
}
