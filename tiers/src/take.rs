//! R14: a hot tier takes all partitions of another one, or none of them.
//!
//! A copy can have everything of some partitions, and lack landed data of others. If it took the
//! former at once, the programs of a hot tier that is used would be refused in all of them. Then
//! nobody would use that one any more, and the copy would take the rest, too.

use std::collections::BTreeSet;
use std::time::Duration;

use storage_dirty::{HotPairing, PartitionState};
use storage_model::sabotage::is_kept;
use storage_model::{HotId, Partition};
use storage_sql::{ColdError, HotTier, Raise};
use tokio::time::Instant;

use crate::place::behind_of;
use crate::refusal::Look;
use crate::{Need, SILENCE, TierError, Tiers};

/// A partition that another hot tier has, and the raise that takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Take {
    pub(crate) raise: Raise,
    pub(crate) from: HotId,
}

/// How it is found that nobody uses another hot tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// This process has watched it for [`SILENCE`].
    Watched,
    /// The database's clock tells so, for a command that looks once and writes nothing.
    Told(Duration),
}

impl Tiers {
    /// Adds the raises of all partitions of the other hot tiers that these are of. If one of them is
    /// used and has landed data that is missing here, its partitions are left alone. The error tells
    /// which one that is.
    pub(crate) async fn take(
        &self,
        look: Look,
        here: &HotPairing,
        asked: &[Take],
        raises: &mut Vec<(Raise, PartitionState)>,
    ) -> Result<Option<TierError>, TierError> {
        let others: BTreeSet<HotId> = asked.iter().map(|take| take.from).collect();
        if others.is_empty() {
            return Ok(None);
        }
        let used = self.used(Silence::Watched).await?;
        let mut waits = None;
        for from in others {
            let of_it: Vec<Raise> = asked
                .iter()
                .filter(|take| take.from == from)
                .map(|take| take.raise)
                .collect();
            let user = used.iter().find(|other| other.id == from);
            match self.take_one(look, from, &of_it, user.is_some()).await? {
                Some(all) => raises.extend(all),
                None => waits = waits.or_else(|| user.map(|user| behind_of(here, user))),
            }
        }
        Ok(waits)
    }

    /// The raises that take all partitions of one other hot tier. `None` if that one is used, and
    /// landed data is missing here.
    async fn take_one(
        &self,
        look: Look,
        from: HotId,
        asked: &[Raise],
        is_used: bool,
    ) -> Result<Option<Vec<(Raise, PartitionState)>>, TierError> {
        let is_behind = |raise: &Raise| raise.if_silent.is_some();
        // The other partitions need no look then.
        if is_used && asked.iter().any(is_behind) {
            return Ok(None);
        }
        let all = self.all_of(look, from, asked).await?;
        if !all.iter().any(|(raise, _)| is_behind(raise)) {
            return Ok(Some(all));
        }
        if is_used {
            return Ok(None);
        }
        tracing::warn!(
            "a hot tier that lacks landed data takes the partitions of another one, which nobody has used for a while: unlanded data of that one is not visible here"
        );
        let all = all.into_iter();
        Ok(Some(
            all.map(|(raise, state)| (behind(raise), state)).collect(),
        ))
    }

    /// The raises of all partitions that another hot tier has.
    async fn all_of(
        &self,
        look: Look,
        from: HotId,
        asked: &[Raise],
    ) -> Result<Vec<(Raise, PartitionState)>, TierError> {
        // ORDER: the database before the hot tier. A record of the hot tier that is as new can't look
        // replaced.
        let all: Vec<_> = (0..self.hot.partitions.partition_count())
            .map(Partition)
            .collect();
        let mut records = self.cold.partitions.partitions(&all).await?;
        let is_asked = |partition| asked.iter().any(|raise| raise.partition == partition);
        records.retain(|record| {
            record.hot == from && (is_kept("R14-whole") || is_asked(record.partition))
        });
        let partitions: Vec<_> = records.iter().map(|record| record.partition).collect();
        let states = self.states(&partitions).await?;
        let (mut raises, mut replaced) = (Vec::new(), Vec::new());
        for (record, state) in records.into_iter().zip(states) {
            match self.need(&state, record) {
                Need::Raise(raise) => raises.push((raise, state)),
                Need::Replaced => replaced.push(record),
                Need::Nothing | Need::Landed => {}
            }
        }
        self.refuse_if_replaced(look, &replaced).await?;
        Ok(raises)
    }

    /// The hot tiers that have partitions and are used.
    pub(crate) async fn used(&self, silence: Silence) -> Result<Vec<HotTier>, TierError> {
        let mut known = self.watched(self.cold.hot_tiers.hot_tiers().await)?;
        let within = match silence {
            Silence::Told(within) => within,
            Silence::Watched => {
                // Nobody can tell a database that takes no writes that a hot tier is used. No hot
                // tier has this number.
                self.watched(self.cold.hot_tiers.touch(&[HotId::NONE]).await)?;
                let is_watched = self.places.watch().lasts() >= SILENCE;
                if is_watched || !is_kept("R14-watched") {
                    SILENCE
                } else {
                    Duration::MAX
                }
            }
        };
        known.retain(|tier| tier.is_heard(within));
        Ok(known)
    }

    /// Notes whether a look at the database succeeded.
    pub(crate) fn watched<T>(&self, look: Result<T, ColdError>) -> Result<T, ColdError> {
        let mut watch = self.places.watch();
        match look {
            Ok(_) => watch.looked(Instant::now()),
            Err(_) => watch.failed(),
        }
        look
    }
}

/// The raise of a hot tier that lacks landed data of another partition, if not of this one.
fn behind(raise: Raise) -> Raise {
    Raise {
        reach: None,
        if_silent: Some(SILENCE),
        ..raise
    }
}
