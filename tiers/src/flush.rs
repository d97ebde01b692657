//! Landing one owner at once, in the process of the caller that waits for it.

use std::collections::BTreeSet;
use std::time::Duration;

use storage_dirty::{Collected, HotError, HotKind, LandedRow, Settle, SnapshotId};
use storage_model::{Epoch, Field, Flushed, Owner, Row, Version, tries};
use storage_sql::LandError;

use crate::bisect::{self, Noted};
use crate::{TierError, Tiers, Units};

impl Tiers {
    /// Commits all data of an owner to the database, and returns when it is there. The marks stay
    /// for the worker, which finds the rows in place.
    ///
    /// All rows go in one transaction, so they land as a whole or not at all.
    ///
    /// # Errors
    /// `Refused` names the first field that the database rejects. No field of the owner has landed,
    /// and none of the owners that a transaction links it with. Their values stay in the hot tier.
    /// `Linked`: more is linked than one transaction takes. For any other error a tier is away, and
    /// the rows may have landed.
    ///
    /// # Cancel safety
    /// A dropped flush may have landed the owner or not. Repeating it is harmless.
    pub async fn flush(&self, owner: &Owner) -> Result<Flushed, TierError> {
        self.flush_in_epoch(owner, true)
            .await
            .map(|(flushed, _)| flushed)
    }

    /// As [`Tiers::flush`], for a write that was applied in this epoch and gave the owner this
    /// version. Returns whether the write is in the database. It is not if the hot tier has
    /// forgotten it meanwhile, for example after a failover to a replica that never had it.
    ///
    /// # Errors
    /// As [`Tiers::flush`].
    ///
    /// # Cancel safety
    /// As [`Tiers::flush`].
    pub async fn flush_write(
        &self,
        owner: &Owner,
        written: Version,
        epoch: Epoch,
    ) -> Result<bool, TierError> {
        // A write that was just applied has hardly ever landed. Landing it again does no harm.
        let (flushed, found) = self.flush_with_others(owner).await?;
        // An owner has a version once. In the same epoch, a later version was built on the write.
        // In another epoch, a later version may be built on the state before the write.
        let holds = |version| version == written || version > written && found == epoch;
        if holds(flushed.version) {
            return Ok(true);
        }
        // The hash goes after all of it has landed, or when the hot tier is lost. The rows tell the
        // two cases apart.
        let newest = self.cold.rows.load_newest(owner).await?;
        Ok(newest.is_some_and(|row| holds(row.version)))
    }

    /// Flushes, and also returns the epoch in which the owner was found. With `looks`, commits
    /// nothing of a landed owner.
    pub(crate) async fn flush_in_epoch(
        &self,
        owner: &Owner,
        looks: bool,
    ) -> Result<(Flushed, Epoch), TierError> {
        let mut suspects = BTreeSet::new();
        for _ in 0..tries::FLUSH {
            let owners = std::slice::from_ref(owner);
            let Some((wanted, collected, units)) =
                self.collect_whole(owners, &mut suspects).await?
            else {
                continue;
            };
            if !units.torn().is_empty() {
                return Err(TierError::Linked {
                    owner: owner.clone(),
                });
            }
            let rows = rows_of(&wanted, &collected);
            let Some(version) = version_of(owner, &wanted, &collected) else {
                return Ok((Flushed::new(Version::ZERO, 0), collected.epoch));
            };
            // ORDER: after the hash. If no map names the owner then, all fields of that read have
            // landed.
            let Some(is_marked) = self.is_marked(owner, looks, collected.epoch).await? else {
                continue;
            };
            if !is_marked || rows.is_empty() {
                return Ok((Flushed::new(version, 0), collected.epoch));
            }
            let whole = (wanted, collected, units);
            let Some(outcome) = self.land_whole(owner, &whole, &rows).await? else {
                continue;
            };
            return match outcome.into_iter().next() {
                None => Ok((Flushed::new(version, rows.len()), whole.1.epoch)),
                Some((row, fault)) => Err(refused(&row.owner, row.field.to_string(), fault)),
            };
        }
        Err(TierError::Contended {
            what: format!("flush {owner}"),
            tries: tries::FLUSH,
        })
    }

    /// Commits the rows of a flush. `None` if they must be read again.
    pub(crate) async fn land_whole(
        &self,
        owner: &Owner,
        whole: &Whole,
        rows: &[Row],
    ) -> Result<Option<Vec<bisect::Refused>>, TierError> {
        let (wanted, collected, units) = whole;
        let partition = owner.partition(self.hot.partitions.partition_count());
        let fence = bisect::fence(partition, collected, rows.iter());
        let mut noted = Noted::default();
        let reads = wanted.iter().zip(&collected.reads);
        noted.keep(partition, reads.map(|((owner, _), read)| (owner, read)));
        let landed = bisect::land(
            self.cold.landing.as_ref(),
            vec![fence],
            rows.to_vec(),
            units,
            noted,
        );
        let outcome = match landed.await {
            Ok(outcome) => outcome,
            Err(LandError::Fenced(_)) => {
                self.prepare(&[partition]).await?;
                return Ok(None);
            }
            Err(LandError::Cold(error)) => return Err(error.into()),
            Err(LandError::Refused(fault)) => return Err(refused(owner, String::new(), fault)),
        };
        self.settle_flush(owner, whole, fence.reaches, rows, &outcome)
            .await;
        Ok(Some(outcome))
    }

    /// All data of owners of one partition, given in order, and the marked fields of the owners that must land together with
    /// them. `None` if the caller must read it again.
    pub(crate) async fn collect_whole(
        &self,
        owners: &[Owner],
        suspects: &mut BTreeSet<Owner>,
    ) -> Result<Option<Whole>, TierError> {
        let Some(first) = owners.first() else {
            return Ok(None);
        };
        let partition = first.partition(self.hot.partitions.partition_count());
        let asked: Vec<_> = owners
            .iter()
            .map(|owner| (owner.clone(), Vec::new()))
            .collect();
        let together = match self
            .collect_together(partition, &asked, None, Duration::MAX)
            .await
        {
            Ok(together) => together,
            Err(error) => return self.prepare_after(error).await.map(|()| None),
        };
        let (wanted, mut collected) = (together.wanted.into_owned(), together.collected);
        let is_ready = self
            .reconcile_all(&wanted, &mut collected, suspects)
            .await?;
        Ok(is_ready.then_some((wanted, collected, together.units)))
    }

    /// Whether a map names the owner. Always true without `looks`. `None` if the epoch has changed.
    async fn is_marked(
        &self,
        owner: &Owner,
        looks: bool,
        epoch: Epoch,
    ) -> Result<Option<bool>, TierError> {
        if !looks {
            return Ok(Some(true));
        }
        match self
            .hot
            .owners
            .marked(std::slice::from_ref(owner), Some(epoch))
            .await
            .pop()
            .unwrap_or(Ok(true))
        {
            Ok(is_marked) => Ok(Some(is_marked)),
            Err(HotError {
                kind: HotKind::EpochMoved,
                ..
            }) => Ok(None),
            Err(error) => self.prepare_after(error).await.map(|()| None),
        }
    }

    /// Tells the hot tier which rows have landed. After a failure here, the next landing of the
    /// partition makes up for it.
    async fn settle_flush(
        &self,
        owner: &Owner,
        whole: &Whole,
        reaches: Version,
        rows: &[Row],
        refused: &[bisect::Refused],
    ) {
        let (_, collected, _) = whole;
        let landed = rows
            .iter()
            .filter(|row| !refused.iter().any(|(bad, _)| bad == *row));
        let settle = Settle {
            partition: owner.partition(self.hot.partitions.partition_count()),
            lock: None,
            epoch: collected.epoch,
            // This call settles no mark.
            snapshot: SnapshotId::default(),
            // If all rows were rejected, nothing was committed and the fence has not moved.
            landed: if refused.len() < rows.len() {
                reaches
            } else {
                collected.landed
            },
            marks: Vec::new(),
            rows: landed.map(|row| landed_row(row, whole)).collect(),
            probation: self.has_probation(),
        };
        if let Err(error) = self.hot.marks.settle(&settle).await
            && !matches!(error.kind, HotKind::Unprepared(_) | HotKind::EpochMoved)
        {
            tracing::warn!(%owner, %error, "a flush has landed, but its settle failed: the next landing of the partition makes up for it");
        }
    }
}

/// Owners, a read of each, and those of them that must land together.
pub(crate) type Whole = (Vec<(Owner, Vec<Field>)>, Collected, Units);

/// An owner's version, which it has if it has a hash.
pub(crate) fn version_of(
    owner: &Owner,
    wanted: &[(Owner, Vec<Field>)],
    collected: &Collected,
) -> Option<Version> {
    let mut reads = wanted.iter().zip(&collected.reads);
    let (_, read) = reads.find(|((of, _), _)| of == owner)?;
    read.header.map(|header| header.version)
}

/// The rows of all owners.
pub(crate) fn rows_of(wanted: &[(Owner, Vec<Field>)], collected: &Collected) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((of, _), read) in wanted.iter().zip(&collected.reads) {
        let Some(header) = read.header else { continue };
        rows.extend(read.cells.iter().map(|(field, cell)| Row {
            owner: of.clone(),
            field: field.clone(),
            cell: cell.clone(),
            version: header.version,
        }));
    }
    rows
}

/// A landed row, with the birth of the hash that it was read from.
fn landed_row(row: &Row, (wanted, collected, _): &Whole) -> LandedRow {
    let at = wanted.binary_search_by(|(owner, _)| owner.cmp(&row.owner));
    let read = at.ok().and_then(|at| collected.reads.get(at));
    LandedRow {
        owner: row.owner.clone(),
        field: row.field.clone(),
        version: row.version,
        from: read
            .and_then(|read| read.header)
            .map_or(Version::ZERO, |header| header.born),
    }
}

fn refused(owner: &Owner, field: String, fault: storage_sql::RowFault) -> TierError {
    TierError::Refused {
        owner: owner.clone(),
        field,
        fault,
    }
}
