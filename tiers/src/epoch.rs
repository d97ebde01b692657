//! R14: a partition is used only with a record that belongs to the server that holds it now.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use storage_dirty::{Adopt, HotError, HotKind, PartitionState};
use storage_model::sabotage::is_kept;
use storage_model::{HotId, Partition, Position, Stamp, Timestamp, times, tries};
use storage_sql::{PartitionRecord, Raise, Raised};
use tokio::time::sleep;

use crate::refusal::Look;
use crate::take::Take;
use crate::{Need, TierError, Tiers, need};

/// How often, and after how long, a partition is looked at again before its epoch is raised once
/// more. A process that raised the epoch is about to adopt it. Without the pause, several processes
/// that prepare a partition at once would overtake each other again and again.
const LOOKS: u32 = 3;
const LOOK: Duration = Duration::from_millis(10);

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
        match partitions {
            [partition] if is_kept("R14-alone") => self.prepare_with_others(*partition).await,
            several => self.prepare_at_home(several).await,
        }
    }

    pub(crate) async fn prepare_at_home(&self, partitions: &[Partition]) -> Result<(), TierError> {
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

    pub(crate) async fn prepare_each(&self, partitions: &[Partition]) -> Result<(), TierError> {
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
        let look = self.refusals.look();
        let states = self.states(partitions).await?;
        let records = self.cold.partitions.partitions(partitions).await?;
        let mut found = PartitionActions::default();
        for ((partition, seen), record) in partitions.iter().copied().zip(states).zip(records) {
            match self.need(&seen, record) {
                Need::Nothing => {
                    let (epoch, generation) = seen
                        .record
                        .map(|record| (record.epoch, record.generation))
                        .unwrap_or_default();
                    self.note(partition, epoch, generation);
                    continue;
                }
                Need::Raise(raise)
                    if patient && raise.seen > raise.above && record.hot == raise.by =>
                {
                    found.overtaken = true
                }
                Need::Raise(raise) if raise.takes() && !self.hot.tier.is_named() => {
                    let from = record.hot;
                    found.takes.push(Take { raise, from });
                }
                Need::Raise(raise) => found.raises.push((raise, seen)),
                Need::Replaced => found.replaced.push(record),
                Need::Landed => {
                    // If the record moved, the partition is looked at again.
                    let _ = self
                        .hot
                        .partitions
                        .raise_landed(partition, record.epoch, record.last_version)
                        .await;
                }
            }
            found.again.push(partition);
        }
        self.refuse_if_replaced(look, &found.replaced).await?;
        if !(found.raises.is_empty() && found.takes.is_empty()) {
            self.raise_and_adopt(look, found.raises, &found.takes)
                .await?;
        }
        Ok((found.again, found.overtaken))
    }

    /// Raises epochs, and adopts those that this call raised. The partitions of another hot tier are
    /// left alone while that one is used and landed data is missing here, and then the call fails.
    async fn raise_and_adopt(
        &self,
        look: Look,
        mut raises: Vec<(Raise, PartitionState)>,
        takes: &[Take],
    ) -> Result<(), TierError> {
        // ORDER: after the records were read. A takeover since then has raised every epoch, so the
        // raise below finds another one.
        let (here, _) = self.paired().await?;
        let waits = self.take(look, &here, takes, &mut raises).await?;
        if raises.is_empty() {
            return waits.map_or(Ok(()), Err);
        }
        let partitions = raises.iter().map(|(raise, _)| raise.partition);
        let until = self.deadlines(partitions).await?;
        let asked: Vec<Raise> = raises.iter().map(|(raise, _)| *raise).collect();
        let raised = self.raise(&asked, &here.address).await?;
        // ORDER: only the process that raised an epoch adopts it. Any other process looks again,
        // because the epoch may have been raised for another hot tier, which then lands in it.
        let adopts: Vec<Adopt> = raises
            .into_iter()
            .zip(raised)
            .filter(|(_, (raised, _))| raised.moved)
            .map(|((raise, seen), raised)| self.adoption(raise, seen, raised, &until))
            .collect();
        // An adoption can fail because of the epoch or because another process made it. Such a
        // partition is looked at again like any other.
        self.hot
            .partitions
            .adopt(&adopts)
            .await
            .into_iter()
            .collect::<Result<Vec<bool>, HotError>>()?;
        waits.map_or(Ok(()), Err)
    }

    /// Until when an adoption of each partition may take effect, by the clock of its server.
    async fn deadlines(
        &self,
        partitions: impl Iterator<Item = Partition>,
    ) -> Result<BTreeMap<Partition, Timestamp>, HotError> {
        let partitions: Vec<_> = partitions.collect();
        let times = self.hot.partitions.times(&partitions).await;
        let each = partitions.into_iter().zip(times);
        each.map(|(partition, now)| Ok((partition, now?.plus(times::ADOPT_WITHIN))))
            .collect()
    }

    /// The verdict on a partition.
    pub(crate) fn need(&self, seen: &PartitionState, record: PartitionRecord) -> Need {
        need(seen, record, self.has_probation(), self.hot.tier.is_named())
    }

    pub(crate) async fn states(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<PartitionState>, HotError> {
        let states = self.hot.partitions.partition_states(partitions).await;
        states.into_iter().collect()
    }

    /// Raises epochs for hot tiers at this address, and reads how far the feeds reach.
    // ORDER: the feeds after the raise. No event is added in an earlier epoch from then on.
    async fn raise(
        &self,
        raises: &[Raise],
        address: &str,
    ) -> Result<Vec<(Raised, Position)>, TierError> {
        let takers: BTreeSet<HotId> = raises.iter().map(|raise| raise.by).collect();
        for hot in takers {
            self.cold.hot_tiers.introduce(hot, address).await?;
        }
        let stamp = Stamp::draw(self.ids.as_ref());
        let raises: Vec<_> = raises
            .iter()
            .map(|raise| Raise { stamp, ..*raise })
            .collect();
        let raised = self.cold.partitions.raise(&raises).await?;
        let partitions: Vec<_> = raises.iter().map(|raise| raise.partition).collect();
        let feeds = self.cold.events.feeds(&partitions).await?;
        let ends = feeds.into_iter().map(|ends| ends.last);
        Ok(raised.into_iter().zip(ends).collect())
    }

    /// Gives every partition a new epoch, above those of both tiers. In this epoch each hash is
    /// compared with its rows before it is used.
    pub(crate) async fn begin_anew(&self) -> Result<(), TierError> {
        let mut left: Vec<Partition> = (0..self.hot.partitions.partition_count())
            .map(Partition)
            .collect();
        for _ in 0..tries::TAKEOVERS {
            let here = self.hot.tier.pairing().await?;
            let until = self.deadlines(left.iter().copied()).await?;
            let states = self.states(&left).await?;
            let records = self.cold.partitions.partitions(&left).await?;
            let asked: Vec<Raise> = states
                .iter()
                .zip(&records)
                .map(|(seen, record)| above_both(seen, *record))
                .collect();
            let raised = self.raise(&asked, &here.address).await?;
            let asked = asked.into_iter().zip(states).zip(raised);
            let adopts: Vec<Adopt> = asked
                .filter(|(_, (raised, _))| raised.moved)
                .map(|((raise, seen), raised)| Adopt {
                    compare_all: true,
                    ..self.adoption(raise, seen, raised, &until)
                })
                .collect();
            let adopted = self.hot.partitions.adopt(&adopts).await;
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
        until: &BTreeMap<Partition, Timestamp>,
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
            stamp: cold.stamp,
            // Without a deadline the partition is looked at again.
            until: until.get(&partition).copied().unwrap_or_default(),
            last_version: cold.last_version,
            landed_here,
            compare_all: false,
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
/// Such a database has forgotten epochs, and gives them a second time. So does one with another
/// stamp in the recorded epoch.
#[must_use]
pub fn landed_here(seen: &PartitionState, raise: Raise, cold: PartitionRecord) -> bool {
    let here = |record: &storage_dirty::PartitionRecord| {
        (cold.landed_epoch..=raise.seen).contains(&record.epoch)
            && (record.epoch != raise.seen || record.stamp == raise.seen_stamp)
    };
    seen.record.as_ref().is_some_and(here)
}

/// The raise of an epoch above those of both tiers.
fn above_both(seen: &PartitionState, cold: PartitionRecord) -> Raise {
    let recorded = seen.record.as_ref();
    Raise {
        above: recorded.map(|record| record.epoch).unwrap_or_default(),
        seen_stamp: cold.stamp,
        by: HotId::of(&seen.incarnation),
        ..Raise::by_one(cold.partition, cold.epoch)
    }
}

/// What a look at partitions calls for.
#[derive(Debug, Default)]
struct PartitionActions {
    /// To be looked at again.
    again: Vec<Partition>,
    raises: Vec<(Raise, PartitionState)>,
    /// Partitions that other hot tiers have.
    takes: Vec<Take>,
    replaced: Vec<PartitionRecord>,
    /// Whether a partition was left to the process that raised its epoch.
    overtaken: bool,
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
