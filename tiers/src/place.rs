//! R14: the hot tier that has the partitions, while programs use it.
//!
//! Each program compares the tiers every two seconds. A program whose hot tier has its partitions
//! tells the database that it is used. A program whose hot tier was replaced writes nothing more
//! from then on.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use storage_coalesce::locked;
use storage_dirty::{HotPairing, PartitionState};
use storage_model::sabotage::is_kept;
use storage_model::{Epoch, HotId, Partition, Stamp, Timestamp};
use storage_sql::{ColdPairing, HotTier, PartitionRecord};
use tokio::time::{Instant, sleep};

use crate::refusal::Look;
use crate::take::Silence;
use crate::watch::Watch;
use crate::{Mismatch, Need, SILENCE, TierError, Tiers};

/// How long the opening of a storage waits for a hot tier that may fall silent.
const OPEN_WAIT: Duration = SILENCE.saturating_add(Duration::from_secs(2));
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What this process knows of the places. Each mutex is held for a moment, never across an await.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// What the last look at all partitions found.
    known: Mutex<Option<KnownPartitions>>,
    watch: Mutex<Watch>,
}

/// Partitions that the hot tier has, one for each of its servers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownPartitions {
    /// The last raise of any partition. Another one can have taken a partition away.
    last_raise: Stamp,
    held: Vec<HeldPartition>,
}

/// A partition that a server of the hot tier has, for all partitions of that server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HeldPartition {
    partition: Partition,
    hot: HotId,
    epoch: Epoch,
    stamp: Stamp,
}

impl HeldPartition {
    fn of(state: &PartitionState, partition: Partition) -> Option<Self> {
        let record = state.record.as_ref().filter(|_| state.is_current())?;
        Some(Self {
            partition,
            hot: HotId::of(&state.incarnation),
            epoch: record.epoch,
            stamp: record.stamp,
        })
    }
}

impl Places {
    fn known(&self) -> Option<KnownPartitions> {
        let known = locked(&self.known);
        known.clone()
    }

    fn set(&self, known: Option<KnownPartitions>) {
        *locked(&self.known) = known;
    }

    /// For how long the database has answered this process.
    pub(crate) fn watch(&self) -> MutexGuard<'_, Watch> {
        locked(&self.watch)
    }
}

/// What a look at partitions found.
#[derive(Debug, Default)]
struct PlaceReport {
    held: Vec<HeldPartition>,
    replaced: Option<PartitionRecord>,
    /// Partitions that this hot tier has, and that only programs of an older version have raised.
    unnamed: Vec<Partition>,
    /// Other hot tiers that this one waits for.
    behind: BTreeSet<HotId>,
    /// Whether a server did not answer.
    is_partial: bool,
}

impl PlaceReport {
    fn add(&mut self, need: Need, state: &PartitionState, record: &PartitionRecord) {
        match need {
            Need::Nothing | Need::Landed => {
                let held = HeldPartition::of(state, record.partition);
                let is_new = |new: &HeldPartition| self.held.iter().all(|held| held.hot != new.hot);
                self.held.extend(held.filter(is_new));
            }
            Need::Replaced => self.replaced = self.replaced.or(Some(*record)),
            Need::Raise(raise) if raise.if_silent.is_some() => {
                self.behind.insert(record.hot);
            }
            Need::Raise(_) if state.is_current() && record.hot == HotId::NONE => {
                self.unnamed.push(record.partition);
            }
            Need::Raise(_) => {}
        }
    }
}

impl Tiers {
    /// Compares the tiers, as [`Tiers::belong`] does, and then the partitions. Tells the database
    /// that the hot tier is used, if it has its partitions. Remembers for [`Tiers::refusal`] if
    /// another hot tier took one.
    ///
    /// A call costs one read of the database and two reads of the hot tier, and now and then a write
    /// of one row, unless an epoch was raised since the last call.
    ///
    /// # Errors
    /// As [`Tiers::belong`]. `Unpaired`: another hot tier took a partition. `Behind`: the hot tier
    /// has no partition, and waits for another one.
    ///
    /// # Cancel safety
    /// As [`Tiers::belong`].
    pub async fn compare_tiers(&self) -> Result<(), TierError> {
        let look = self.refusals.look();
        // ORDER: the database before the hot tier. A record of the hot tier that is as new can't look
        // replaced.
        let (here, cold) = self.paired().await?;
        let known = match self.places.known() {
            Some(known) if known.last_raise == cold.last_raise && self.has_still(&known).await => {
                known
            }
            _ => self.look_at_all(look, &here, &cold).await?,
        };
        let used: Vec<HotId> = known.held.iter().map(|held| held.hot).collect();
        self.watched(self.cold.hot_tiers.touch(&used).await)?;
        Ok(())
    }

    /// As [`Tiers::compare_tiers`]. Waits up to 6.5 s for another hot tier that may fall silent, because its
    /// server has just ended.
    ///
    /// # Errors
    /// As [`Tiers::compare_tiers`].
    ///
    /// # Cancel safety
    /// As [`Tiers::belong`].
    pub async fn compare_patiently(&self) -> Result<(), TierError> {
        let until = Instant::now() + OPEN_WAIT;
        loop {
            match self.compare_tiers().await {
                Err(TierError::Behind(_)) if Instant::now() < until => sleep(LOOK_EVERY).await,
                compared => return compared,
            }
        }
    }

    /// Compares the tiers and writes to neither. A hot tier that waits for another one counts as one
    /// that does not belong to the database, even if it waits for a single partition.
    ///
    /// # Errors
    /// As [`Tiers::compare_tiers`].
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn compare_only(&self) -> Result<(), TierError> {
        self.compare_once(SILENCE).await
    }

    /// As [`Tiers::compare_only`]. It also counts if nobody uses the hot tier that has the partition.
    ///
    /// # Errors
    /// As [`Tiers::compare_only`].
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn compare_to_adopt(&self) -> Result<(), TierError> {
        self.compare_once(Duration::MAX).await
    }

    async fn compare_once(&self, silence: Duration) -> Result<(), TierError> {
        self.compare_pairing().await?;
        let look = self.refusals.look();
        let (cold, here) = (
            self.cold.database.pairing().await?,
            self.hot.tier.pairing().await?,
        );
        let silence = Silence::Told(silence);
        if here.paired.is_none() {
            return self.is_to_wait(&here, &cold, silence).await.map(drop);
        }
        let seen = self.see_all(&here).await?;
        if let Some(record) = seen.replaced {
            return Err(self.taken(look, &here, record).await?);
        }
        if seen.behind.is_empty() {
            return Ok(());
        }
        let waits = self.heard(&here, silence, |known| seen.behind.contains(&known.id));
        waits.await?.map_or(Ok(()), Err)
    }

    /// The other hot tiers that have partitions of the database.
    ///
    /// # Errors
    /// A tier is away.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn others(&self) -> Result<Vec<HotTier>, TierError> {
        if self.cold.database.pairing().await?.hot.is_none() {
            // It may have no tables.
            return Ok(Vec::new());
        }
        let here = HotId::of(&self.hot.tier.pairing().await?.incarnation);
        let mut others = self.cold.hot_tiers.hot_tiers().await?;
        others.retain(|other| other.partitions > 0 && other.id != here);
        Ok(others)
    }

    async fn has_still(&self, known: &KnownPartitions) -> bool {
        let partitions: Vec<_> = known.held.iter().map(|held| held.partition).collect();
        // If a server does not answer, the look at all partitions passes it over and goes on.
        let Ok(states) = self.states(&partitions).await else {
            return false;
        };
        partitions
            .iter()
            .zip(&states)
            .map(|(partition, state)| HeldPartition::of(state, *partition))
            .eq(known.held.iter().copied().map(Some))
    }

    /// Looks at all partitions, and remembers what it finds.
    async fn look_at_all(
        &self,
        look: Look,
        here: &HotPairing,
        cold: &ColdPairing,
    ) -> Result<KnownPartitions, TierError> {
        let seen = self.see_all(here).await?;
        if let Some(record) = seen.replaced {
            // Not told as used, so that the other one gets the partitions that are left, too.
            return Err(self.taken(look, here, record).await?);
        }
        if !seen.is_partial {
            self.refusals.replaced(look, None);
        }
        // An older copy would take a partition that names no hot tier at once. Calls to a partition
        // in order would never name this one.
        if !seen.unnamed.is_empty() && is_kept("R14-unnamed") {
            self.prepare_at_home(&seen.unnamed).await?;
        }
        if seen.held.is_empty()
            && !seen.behind.is_empty()
            && let fits = (|known: &HotTier| seen.behind.contains(&known.id))
            && let Some(waits) = self.heard(here, Silence::Watched, fits).await?
        {
            return Err(waits);
        }
        let known = KnownPartitions {
            last_raise: cold.last_raise,
            held: seen.held,
        };
        self.places.set((!seen.is_partial).then(|| known.clone()));
        Ok(known)
    }

    /// Looks at all partitions. Of the server that has just answered, one partition is enough: no other
    /// hot tier has the others. Servers that do not answer are passed over, and looked at again.
    async fn see_all(&self, here: &HotPairing) -> Result<PlaceReport, TierError> {
        let all: Vec<_> = (0..self.hot.partitions.partition_count())
            .map(Partition)
            .collect();
        let records = self.watched(self.cold.partitions.partitions(&all).await)?;
        let id = HotId::of(&here.incarnation);
        let (mine, rest): (Vec<_>, Vec<_>) = records.into_iter().partition(|r| r.hot == id);
        let mut seen = PlaceReport::default();
        let (one, others) = mine.split_at(mine.len().min(1));
        self.look_at(one, &mut seen).await;
        if seen.held.is_empty() {
            // Its raise was not adopted, or not yet.
            self.look_at(others, &mut seen).await;
        }
        self.look_at(&rest, &mut seen).await;
        Ok(seen)
    }

    async fn look_at(&self, records: &[PartitionRecord], seen: &mut PlaceReport) {
        let partitions: Vec<_> = records.iter().map(|record| record.partition).collect();
        let states = self.hot.partitions.partition_states(&partitions).await;
        for (record, state) in records.iter().zip(states) {
            match state {
                Ok(state) => seen.add(self.need(&state, *record), &state, record),
                Err(_) => seen.is_partial = true,
            }
        }
    }

    /// Fails if a hot tier was replaced in one of these partitions, and remembers that.
    pub(crate) async fn refuse_if_replaced(
        &self,
        look: Look,
        replaced: &[PartitionRecord],
    ) -> Result<(), TierError> {
        if replaced.is_empty() {
            return Ok(());
        }
        // ORDER: the hot tier again, after the database. The first look may be of a server that has
        // ended since.
        let partitions: Vec<_> = replaced.iter().map(|record| record.partition).collect();
        let states = self.states(&partitions).await?;
        let mut pairs = replaced.iter().zip(&states);
        match pairs.find(|(record, state)| self.need(state, **record) == Need::Replaced) {
            None => Ok(()),
            Some((record, _)) => {
                let here = self.hot.tier.pairing().await?;
                Err(self.taken(look, &here, *record).await?)
            }
        }
    }

    /// The error of a hot tier that was replaced. Writes fail with it from now on.
    async fn taken(
        &self,
        look: Look,
        here: &HotPairing,
        record: PartitionRecord,
    ) -> Result<TierError, TierError> {
        let known = self.cold.hot_tiers.hot_tiers().await?;
        let by = known.into_iter().find(|known| known.id == record.hot);
        let since = |by: &HotTier| Timestamp(here.now.0.saturating_sub(micros(by.known_for)));
        let error = TierError::Unpaired(Box::new(Mismatch::Taken {
            hot: here.address.clone(),
            address: self.cold.database.pairing().await?.address,
            since: by.as_ref().map(since),
            by: by.map(|by| by.address),
        }));
        self.refusals.replaced(look, Some(error.clone()));
        // The next comparison looks at all partitions, and takes the refusal back if it must.
        self.places.set(None);
        if self.hot.tier.is_named() {
            // Sentinels may have named another server long ago. A process that still reaches the old one does
            // not notice. The next comparison is with the server that they name now.
            if let Err(error) = self.hot.tier.check().await {
                tracing::debug!(%error, "the servers could not be asked for again");
            }
        }
        Ok(error)
    }

    /// The error of a hot tier that waits for another one: for the first that is used and fits.
    pub(crate) async fn heard(
        &self,
        here: &HotPairing,
        silence: Silence,
        fits: impl Fn(&HotTier) -> bool,
    ) -> Result<Option<TierError>, TierError> {
        let used = self.used(silence).await?;
        Ok(used
            .iter()
            .find(|used| fits(used))
            .map(|by| behind_of(here, by)))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn behind_of(here: &HotPairing, by: &HotTier) -> TierError {
    TierError::Behind(Box::new(Behind {
        hot: here.address.clone(),
        is_blank: here.paired.is_none(),
        by: by.address.clone(),
        seen_ago: by.seen_ago,
    }))
}

/// A hot tier that waits for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behind {
    /// The address of the hot tier that waits.
    pub hot: String,
    /// Whether it holds no data at all.
    pub is_blank: bool,
    /// The address of the hot tier that has the partitions.
    pub by: String,
    /// How long ago a program used that one.
    pub seen_ago: Duration,
}

impl std::fmt::Display for Behind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { hot, by, .. } = self;
        let lack = if self.is_blank {
            "is blank, and the database belongs to"
        } else {
            "is behind: it lacks data that landed from"
        };
        write!(
            f,
            "the hot tier at {hot} {lack} the one at {by}, which was used {:.1} s ago. It waits until it has seen for {} s that nobody uses that one: \
             stop the programs that use that one, connect to that one, or run `landing-worker adopt` to replace it now",
            self.seen_ago.as_secs_f64(),
            SILENCE.as_secs_f64()
        )
    }
}
