//! R14: a partition is used only with a record that belongs to the server that holds it now.

use std::collections::BTreeSet;
use std::time::Duration;

use storage_dirty::{Adopt, HotError, HotKind, PartitionState};
use storage_model::{DatabaseId, Partition, Position, tries};
use storage_sql::{PartitionRecord, Raise, Raised};
use tokio::time::sleep;

use crate::{TierError, Tiers};

/// How often, and after how long, a partition is looked at again before its epoch is raised once
/// more. A process that raised the epoch is about to adopt it. Without the pause, several processes
/// that prepare a partition at once would overtake each other again and again.
const LOOKS: u32 = 3;
const LOOK: Duration = Duration::from_millis(10);

/// The step that a partition needs before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// Nothing: record, incarnation and epoch agree.
    Nothing,
    /// The database's epoch must rise first, so that no landing of the past commits.
    Raise(Raise),
    /// A commit was not settled: `landed` must follow the database.
    Landed,
}

/// The step that both tiers' records of a partition call for. The records were read one after the
/// other. With `watched`, the database's identity must be recorded, because marks go on probation.
#[must_use]
pub fn need(state: &PartitionState, cold: PartitionRecord, watched: bool) -> Need {
    let recorded = state
        .record
        .as_ref()
        .map(|record| record.epoch)
        .unwrap_or_default();
    let raise = Need::Raise(Raise {
        partition: cold.partition,
        seen: cold.epoch,
        above: recorded,
    });
    let Some(record) = state.record.as_ref().filter(|_| state.is_current()) else {
        return raise;
    };
    match cold.epoch.cmp(&record.epoch) {
        // The process that raised it died before the record followed. Or it lands from another hot
        // tier, which took over while this one goes on unnoticed. With an epoch for each hot tier,
        // each sees the landings of the other.
        std::cmp::Ordering::Greater => raise,
        // The database is an older copy of itself. Its epoch must overtake the hot tier's.
        std::cmp::Ordering::Less => raise,
        // The database is another server, which may lack settled rows. Or no record tells which
        // server the landings went to.
        std::cmp::Ordering::Equal if is_another(record.database, cold.database, watched) => raise,
        // The database lost settled commits. A new epoch makes both tiers agree on the rows that
        // are left.
        std::cmp::Ordering::Equal if record.landed > cold.last_version => raise,
        std::cmp::Ordering::Equal if record.landed < cold.last_version => Need::Landed,
        std::cmp::Ordering::Equal => Need::Nothing,
    }
}

fn is_another(recorded: Option<DatabaseId>, present: DatabaseId, watched: bool) -> bool {
    recorded.map_or(watched, |recorded| recorded != present)
}

impl Tiers {
    /// Makes partitions usable. Each gets a record of the present incarnation and epoch, and its
    /// `landed` agrees with the database. Partitions in order are left alone.
    ///
    /// The order makes this safe. The epoch rises in the database first, after landings under way.
    /// From then on no landing of an earlier epoch commits. Only then the hot tier takes the new
    /// epoch, if its state is still the one that was seen.
    ///
    /// # Errors
    /// A tier is away, or concurrent takeovers came first each time.
    ///
    /// # Cancel safety
    /// A dropped call can leave partitions half prepared. The next call finishes them.
    pub async fn prepare(&self, partitions: &[Partition]) -> Result<(), TierError> {
        let (tiers, partitions) = (self.clone(), partitions.to_vec());
        let prepared = self
            .home
            .run(async move { tiers.prepare_each(&partitions).await })
            .await;
        prepared.unwrap_or_else(|ended| Err(ended.of_cold("prepare").into()))
    }

    /// As [`Tiers::prepare`], for a call that met a partition out of order. If the database is
    /// away, the error tells why the call needs it.
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
        for round in 0..tries::TAKEOVERS {
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
            tries: tries::TAKEOVERS,
        })
    }

    /// Looks at the partitions and acts once on each. Returns the partitions to look at again. The
    /// flag tells whether one of them was left to the process that raised its epoch, which happens
    /// only if `patient`.
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
                    // If the record moved, the partition is looked at again.
                    let _ = self
                        .hot
                        .raise_landed(partition, record.epoch, record.last_version)
                        .await;
                }
            }
            again.push(partition);
        }
        if !raises.is_empty() {
            // ORDER: after the records were read. A takeover since then has raised every epoch, so
            // the raise below finds another one.
            self.belong().await?;
            let asked: Vec<Raise> = raises.iter().map(|(raise, _)| *raise).collect();
            let raised = self.raise(&asked).await?;
            // ORDER: only the process that raised an epoch adopts it. Any other process looks
            // again, because the epoch may have been raised for another hot tier, which then lands
            // in it.
            let adopts: Vec<Adopt> = raises
                .into_iter()
                .zip(raised)
                .filter(|(_, (raised, _))| raised.moved)
                .map(|((raise, seen), raised)| self.adoption(raise, seen, raised, false))
                .collect();
            // An adoption can fail because of the epoch or because another process made it. Such a
            // partition is looked at again like any other.
            self.hot
                .adopt(&adopts)
                .await
                .into_iter()
                .collect::<Result<Vec<bool>, HotError>>()?;
        }
        Ok((again, overtaken))
    }

    /// Raises epochs, and reads how far the feeds reach.
    // ORDER: the feeds after the raise. No event is added in an earlier epoch from then on.
    async fn raise(&self, raises: &[Raise]) -> Result<Vec<(Raised, Position)>, TierError> {
        let raised = self.cold.raise(raises).await?;
        let partitions: Vec<_> = raises.iter().map(|raise| raise.partition).collect();
        let feeds = self.cold.feeds(&partitions).await?;
        let ends = feeds.into_iter().map(|ends| ends.last);
        Ok(raised.into_iter().zip(ends).collect())
    }

    /// Gives every partition a new epoch, above those of both tiers. In this epoch each hash is
    /// compared with its rows before it is used.
    pub(crate) async fn begin_anew(&self) -> Result<(), TierError> {
        let mut left: Vec<Partition> = (0..self.hot.partition_count()).map(Partition).collect();
        for _ in 0..tries::TAKEOVERS {
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
            let raised = self.raise(&asked).await?;
            let asked = asked.into_iter().zip(states).zip(raised);
            let adopts: Vec<Adopt> = asked
                .filter(|(_, (raised, _))| raised.moved)
                .map(|((raise, seen), raised)| self.adoption(raise, seen, raised, true))
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
            tries: tries::TAKEOVERS,
        })
    }

    /// Prepares the partition that a call failed for. Returns any other error as it is.
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
        (raised, feed): (Raised, Position),
        compare_all: bool,
    ) -> Adopt {
        let (partition, cold) = (raise.partition, raised.record);
        let landed_here = landed_here(&seen, raise, cold);
        report(&seen, cold, landed_here);
        // A watched partition stays watched. Otherwise processes with different settings would undo
        // each other's records.
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
            feed,
        }
    }
}

/// True if all data that landed since the record was made was read from this hot tier, or from one
/// that it is a copy of.
///
/// That holds if nothing has landed in a later epoch than the recorded one. An epoch that was
/// raised and never adopted does not count. It remains when its process dies, or when the hot tier
/// is replaced once more. If the database's epoch was below the recorded one, the answer is false.
/// Such a database has forgotten epochs, and gives them a second time.
#[must_use]
pub fn landed_here(seen: &PartitionState, raise: Raise, cold: PartitionRecord) -> bool {
    let here = |record: &storage_dirty::PartitionRecord| {
        (cold.landed_epoch..=raise.seen).contains(&record.epoch)
    };
    seen.record.as_ref().is_some_and(here)
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
                "the hot tier came back older than the landed data: earlier hashes are suspect"
            );
        } else if record.landed > cold.last_version {
            tracing::error!(
                partition = partition.0,
                landed = record.landed.get(),
                last_version = cold.last_version.get(),
                "the database lost landed rows"
            );
        }
        if record
            .database
            .is_some_and(|database| database != cold.database)
        {
            tracing::warn!(
                partition = partition.0,
                database = %cold.database,
                "the database was restarted or replaced: marks on probation land again"
            );
        }
    }
}
