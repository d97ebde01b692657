//! R14: a partition is used only with a record that belongs to the server that holds it now.

use std::collections::BTreeSet;
use std::time::Duration;

use storage_dirty::{Adopt, HotError, HotKind, PartitionState};
use storage_model::sabotage::broken;
use storage_model::{DatabaseId, Epoch, Partition};
use storage_sql::{PartitionRecord, Raise};
use tokio::time::sleep;

use crate::{TierError, Tiers};

/// How often a partition whose epoch somebody has raised is looked at again before it is raised
/// once more, and after how long: that somebody is about to adopt it. Several who prepare a
/// partition at once would otherwise overtake each other again and again.
const LOOKS: u32 = 3;
const LOOK: Duration = Duration::from_millis(10);

/// More rounds than any sequence of concurrent takeovers needs.
const ROUNDS_MAX: u32 = 32;

/// What has to happen before a partition may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// Nothing: record, incarnation and epoch agree.
    Nothing,
    /// The database's epoch must rise first, so that no landing of the past commits.
    Raise(Raise),
    /// A commit was not settled: `landed` follows the database.
    Landed,
}

/// What both tiers' records of a partition, read one after the other, call for. `watched`: whether
/// the database's identity is to be recorded, since marks go on probation.
#[must_use]
pub fn need(state: &PartitionState, cold: PartitionRecord, watched: bool) -> Need {
    let recorded = state
        .record
        .as_ref()
        .map(|record| record.epoch)
        .unwrap_or_default();
    let of_partition = Raise {
        partition: cold.partition,
        seen: cold.epoch,
        above: recorded,
    };
    let raise = Need::Raise(of_partition);
    let Some(record) = state.record.as_ref().filter(|_| state.is_current()) else {
        return raise;
    };
    match cold.epoch.cmp(&record.epoch) {
        // Whoever raised it was lost before the record followed; or lands from another hot tier,
        // such as the one that has taken over while this one goes on without knowing it. With an
        // epoch of its own for each, what one lands is seen by the other.
        std::cmp::Ordering::Greater if broken("R14-shared") => Need::Raise(Raise {
            seen: Epoch(0),
            ..of_partition
        }),
        std::cmp::Ordering::Greater => raise,
        // The database is an older copy of itself: it has to overtake what the hot tier has seen.
        std::cmp::Ordering::Less => raise,
        // It is another server, which may lack what was settled; or nothing says which one that was
        // landed to.
        std::cmp::Ordering::Equal if is_another(record.database, cold.database, watched) => raise,
        // It lost commits that were settled. A new epoch makes both agree on what it still has.
        std::cmp::Ordering::Equal if record.landed > cold.last_version => raise,
        std::cmp::Ordering::Equal if record.landed < cold.last_version => Need::Landed,
        std::cmp::Ordering::Equal => Need::Nothing,
    }
}

fn is_another(recorded: Option<DatabaseId>, present: DatabaseId, watched: bool) -> bool {
    recorded.map_or(watched, |recorded| recorded != present) && !broken("H33-moved")
}

impl Tiers {
    /// Makes partitions usable: gives each a record of the present incarnation and epoch, and makes
    /// its `landed` agree with the database. Partitions that are in order are left alone.
    ///
    /// The order is what makes it safe: the epoch rises in the database first, waiting for landings
    /// under way, and from then on none of the past commits; only then does the hot tier take the
    /// new epoch, if it still is the one that was looked at.
    ///
    /// # Errors
    /// A tier is away, or others took over each time.
    ///
    /// # Cancel safety
    /// A dropped call leaves partitions that the next call finishes.
    pub async fn prepare(&self, partitions: &[Partition]) -> Result<(), TierError> {
        let (tiers, partitions) = (self.clone(), partitions.to_vec());
        let prepared = self
            .home
            .run(async move { tiers.prepare_each(&partitions).await })
            .await;
        prepared.unwrap_or_else(|ended| Err(ended.of_cold("prepare").into()))
    }

    /// As [`Tiers::prepare`], for a call that met a partition which is not in order. If the
    /// database is away, the error says what it was asked for.
    ///
    /// # Errors
    /// As [`Tiers::prepare`].
    ///
    /// # Cancel safety
    /// As [`Tiers::prepare`].
    pub async fn prepare_for_call(&self, partition: Partition) -> Result<(), TierError> {
        self.prepare(&[partition]).await.map_err(|error| match error {
            TierError::Cold(mut away) => {
                away.message = format!(
                    "the hot tier was restarted or replaced, and partition {} can't be used before it is compared with the database: {}",
                    partition.0, away.message
                );
                away.into()
            }
            other => other,
        })
    }

    async fn prepare_each(&self, partitions: &[Partition]) -> Result<(), TierError> {
        let mut left: Vec<Partition> = partitions
            .iter()
            .copied()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        for round in 0..ROUNDS_MAX {
            let overtaken;
            (left, overtaken) = self.prepare_round(&left, round < LOOKS).await?;
            if left.is_empty() {
                return Ok(());
            }
            if overtaken {
                sleep(LOOK).await;
            }
        }
        Err(TierError::Contended {
            what: format!("prepare {} partitions", left.len()),
            tries: ROUNDS_MAX,
        })
    }

    /// Looks at the partitions and acts once on each; returns those to look at again, and whether
    /// one of them is left to whoever has raised its epoch, as `patient` asks.
    async fn prepare_round(
        &self,
        partitions: &[Partition],
        patient: bool,
    ) -> Result<(Vec<Partition>, bool), TierError> {
        let states = self
            .hot
            .partition_states(partitions)
            .await
            .into_iter()
            .collect::<Result<Vec<_>, HotError>>()?;
        let records = self.cold.partitions(partitions).await?;
        let (mut again, mut raises, mut overtaken) = (Vec::new(), Vec::new(), false);
        for ((partition, seen), record) in partitions.iter().copied().zip(states).zip(records) {
            match need(&seen, record, self.has_probation()) {
                Need::Nothing => {
                    let (epoch, generation) = seen
                        .record
                        .map(|record| (record.epoch, record.generation))
                        .unwrap_or_default();
                    self.note(partition, epoch, generation);
                    continue;
                }
                Need::Raise(raise) if patient && raise.seen > raise.above => overtaken = true,
                Need::Raise(raise) => raises.push((raise, seen)),
                Need::Landed => {
                    // One that moved meanwhile is looked at again.
                    let _ = self
                        .hot
                        .raise_landed(partition, record.epoch, record.last_version)
                        .await;
                }
            }
            again.push(partition);
        }
        if !raises.is_empty() {
            // ORDER: after the records were read. A take-over since then has raised every epoch, so
            // what is raised below has moved.
            self.belong().await?;
            let asked: Vec<Raise> = raises.iter().map(|(raise, _)| *raise).collect();
            let raised = self.cold.raise(&asked).await?;
            // ORDER: who did not raise it looks again. The one who did may have done it for another
            // hot tier, which then lands in that epoch.
            let adopts: Vec<Adopt> = raises
                .into_iter()
                .zip(raised)
                .filter(|(_, raised)| raised.moved || broken("R14-joined"))
                .map(|((raise, seen), raised)| self.adoption(raise, seen, raised.record, false))
                .collect();
            // An adoption that the epoch forbids, or that another process made, is looked at again
            // like any other.
            self.hot
                .adopt(&adopts)
                .await
                .into_iter()
                .collect::<Result<Vec<bool>, HotError>>()?;
        }
        Ok((again, overtaken))
    }

    /// Gives every partition a new epoch, above those of both tiers, in which each hash is compared
    /// with its rows before it is used.
    pub(crate) async fn begin_anew(&self) -> Result<(), TierError> {
        let mut left: Vec<Partition> = (0..self.hot.partition_count()).map(Partition).collect();
        for _ in 0..ROUNDS_MAX {
            let states = self
                .hot
                .partition_states(&left)
                .await
                .into_iter()
                .collect::<Result<Vec<_>, HotError>>()?;
            let records = self.cold.partitions(&left).await?;
            let asked: Vec<Raise> = states
                .iter()
                .zip(&records)
                .map(|(seen, record)| above_both(seen, *record))
                .collect();
            let raised = self.cold.raise(&asked).await?;
            let asked = asked.into_iter().zip(states).zip(raised);
            let adopts: Vec<Adopt> = asked
                .filter(|(_, raised)| raised.moved)
                .map(|((raise, seen), raised)| self.adoption(raise, seen, raised.record, true))
                .collect();
            let adopted = self.hot.adopt(&adopts).await;
            for (adopt, adopted) in adopts.iter().zip(adopted) {
                if adopted? {
                    left.retain(|partition| *partition != adopt.partition);
                }
            }
            if left.is_empty() {
                return Ok(());
            }
        }
        Err(TierError::Contended {
            what: format!("begin {} partitions anew", left.len()),
            tries: ROUNDS_MAX,
        })
    }

    /// Prepares the partition that a call was refused for. Any other error is returned as it is.
    ///
    /// # Errors
    /// The error itself, or the failure of preparing.
    pub async fn prepare_after(&self, error: HotError) -> Result<(), TierError> {
        match error.kind {
            HotKind::Unprepared(partition) => self.prepare(&[partition]).await,
            _ => Err(error.into()),
        }
    }

    fn adoption(
        &self,
        raise: Raise,
        seen: PartitionState,
        cold: PartitionRecord,
        compare_all: bool,
    ) -> Adopt {
        let partition = raise.partition;
        let landed_here = landed_here(&seen, raise, cold);
        report(&seen, cold, landed_here);
        // Once watched, always watched: processes of other settings would undo each other's
        // records.
        let watched = self.has_probation()
            || seen
                .record
                .as_ref()
                .is_some_and(|record| record.database.is_some());
        let database = watched.then_some(cold.database);
        Adopt {
            partition,
            seen,
            epoch: cold.epoch,
            last_version: cold.last_version,
            landed_here,
            compare_all,
            database,
        }
    }
}

/// Whether all that has landed since the record was made was read from this hot tier, or from one
/// that it is a copy of: nothing has landed in a later epoch than the recorded one. An epoch that
/// was raised and never adopted, since who raised it was lost or the hot tier was replaced once
/// more, tells nothing. A database whose epoch was below the recorded one has forgotten epochs, and
/// gives them once more.
#[must_use]
pub fn landed_here(seen: &PartitionState, raise: Raise, cold: PartitionRecord) -> bool {
    let here = |record: &storage_dirty::PartitionRecord| {
        (cold.landed_epoch..=raise.seen).contains(&record.epoch)
    };
    seen.record.as_ref().is_some_and(here) || broken("R14-claimed")
}

/// The raise of an epoch above those of both tiers.
fn above_both(seen: &PartitionState, cold: PartitionRecord) -> Raise {
    let above = seen
        .record
        .as_ref()
        .map(|record| record.epoch)
        .unwrap_or_default();
    Raise {
        partition: cold.partition,
        seen: cold.epoch,
        above,
    }
}

fn report(seen: &PartitionState, cold: PartitionRecord, landed_here: bool) {
    let partition = cold.partition;
    if let Some(record) = &seen.record {
        if record.has_forgotten(cold.last_version, landed_here) {
            tracing::error!(
                partition = partition.0,
                landed = record.landed.get(),
                last_version = cold.last_version.get(),
                "the hot tier came back older than what has landed; hashes from before are suspect"
            );
        } else if record.landed > cold.last_version {
            tracing::error!(
                partition = partition.0,
                landed = record.landed.get(),
                last_version = cold.last_version.get(),
                "the database lost rows that had landed"
            );
        }
        if record
            .database
            .is_some_and(|database| database != cold.database)
        {
            tracing::warn!(
                partition = partition.0,
                database = %cold.database,
                "the database was restarted or replaced; what landed a short while ago is landed again"
            );
        }
    }
}
