//! Flushes of one partition, shared by all writes that wait for the database.
//!
//! A landing holds the record of its partition, so flushes of one partition follow each other in any case. While one is under way,
//! the writes that come meanwhile wait, and the next flush lands all of them in one transaction. A write joins only a flush that
//! has not begun.

use std::collections::{BTreeMap, BTreeSet};

use storage_coalesce::{Coalescer, Group};
use storage_model::{Epoch, Flushed, Owner, Partition, tries};

use crate::flush::{rows_of, version_of};
use crate::{TierError, Tiers};

/// The most writes of one flush. Each of them reads a whole owner.
const WRITES_MAX: usize = 64;
/// The most rows of a shared flush. More owners land one after the other.
const ROWS_MAX: usize = 8_192;
/// The most partitions in which flushes are under way at once.
const PARTITIONS_MAX: usize = 64;

/// The result of a flush for one owner, and the epoch in which the owner was found.
pub(crate) type Answer = Result<(Flushed, Epoch), TierError>;

/// The writes that wait for a flush, by partition.
pub(crate) type Flushes = Coalescer<Partition, Owner, Answer>;

pub(crate) fn flushes() -> Flushes {
    Flushes::of_weight(PARTITIONS_MAX, 1, WRITES_MAX, |_| 1)
}

impl Tiers {
    /// Commits all data of an owner, together with the other owners of its partition that wait for the same.
    pub(crate) async fn flush_with_others(&self, owner: &Owner) -> Answer {
        let partition = owner.partition(self.hot.partitions.partition_count());
        let (answered, carrier) = self.flushes.join(partition, owner.clone());
        if let Some(carrier) = carrier {
            let tiers = self.clone();
            self.home.spawn(async move {
                let tiers = &tiers;
                let flush = |groups| async move { tiers.flush_groups(groups).await };
                carrier.carry(flush).await;
            });
        }
        match answered.await {
            Ok(answer) => answer,
            // The task of the flush has ended without an answer.
            Err(_) => self.flush_in_epoch(owner, false).await,
        }
    }

    async fn flush_groups(&self, groups: Vec<Group<Partition, Owner, Answer>>) {
        for group in groups {
            let owners: BTreeSet<Owner> = group.inputs().cloned().collect();
            let owners: Vec<Owner> = owners.into_iter().collect();
            let answers = self.flush_all(&owners).await;
            let missing = |owner: &Owner| TierError::Contended {
                what: format!("flush {owner}"),
                tries: tries::FLUSH,
            };
            let answer = |owner: &Owner| answers.get(owner).cloned();
            let each = group.inputs();
            let each: Vec<Answer> = each
                .map(|owner| answer(owner).unwrap_or_else(|| Err(missing(owner))))
                .collect();
            group.answer(each);
        }
    }

    /// Flushes owners of one partition, given in order: in one transaction, or else one after the other.
    async fn flush_all(&self, owners: &[Owner]) -> BTreeMap<Owner, Answer> {
        let mut flushed = BTreeMap::new();
        if owners.len() > 1 {
            match self.flush_in_one(owners).await {
                Ok(together) => flushed.extend(together),
                Err(error) => {
                    let failed = |owner: &Owner| (owner.clone(), Err(error.clone()));
                    return owners.iter().map(failed).collect();
                }
            }
        }
        for owner in owners {
            if !flushed.contains_key(owner) {
                flushed.insert(owner.clone(), self.flush_in_epoch(owner, false).await);
            }
        }
        flushed
    }

    /// Flushes owners in one transaction. Leaves out those that need a flush each: the database rejects a row that must land with
    /// them, or all of them are too large together.
    ///
    /// # Errors
    /// A tier is away.
    async fn flush_in_one(&self, owners: &[Owner]) -> Result<BTreeMap<Owner, Answer>, TierError> {
        let Some(first) = owners.first() else {
            return Ok(BTreeMap::new());
        };
        let mut suspects = BTreeSet::new();
        for _ in 0..tries::FLUSH {
            let Some(whole) = self.collect_whole(owners, &mut suspects).await? else {
                continue;
            };
            let (wanted, collected, units) = &whole;
            let rows = rows_of(wanted, collected);
            if !units.torn().is_empty() || rows.len() > ROWS_MAX {
                break;
            }
            let refused = match self.land_whole(first, &whole, &rows).await {
                Ok(Some(refused)) => refused,
                Ok(None) => continue,
                Err(TierError::Refused { .. }) => break,
                Err(error) => return Err(error),
            };
            let refused: BTreeSet<&Owner> = refused
                .iter()
                .map(|(row, _)| units.lead(&row.owner))
                .collect();
            let has_landed = |owner: &&Owner| !refused.contains(units.lead(owner));
            let flushed = |owner: &Owner| {
                let version = version_of(owner, wanted, collected).unwrap_or_default();
                let rows = rows.iter().filter(|row| row.owner == *owner).count();
                let flushed = Flushed::new(version, rows);
                (owner.clone(), Ok((flushed, collected.epoch)))
            };
            return Ok(owners.iter().filter(has_landed).map(flushed).collect());
        }
        Ok(BTreeMap::new())
    }
}
