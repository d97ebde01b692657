//! Landing one owner at once, in the caller's process, because somebody waits for it.

use storage_dirty::{Collected, HotError, HotKind, Settle, SnapshotId};
use storage_model::sabotage::broken;
use storage_model::{Epoch, Owner, Row, Version};
use storage_sql::LandError;

use crate::bisect;
use crate::{TierError, Tiers, is_suspect};

/// Each try fails only if another landing of the same partition committed in between.
const TRIES_MAX: u32 = 256;

/// What a flush found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flushed {
    /// The version up to which everything of the owner is in the database.
    pub version: Version,
    /// How many rows this call committed, of fields that had landed before too as long as a mark of
    /// the owner stands; 0 if none does.
    pub rows: usize,
}

impl Tiers {
    /// Commits everything of an owner to the database and returns when it is there. Marks are left
    /// to the worker, which finds the rows in place.
    ///
    /// All rows go in one transaction. If the database refuses one of them, the others are
    /// committed by themselves.
    ///
    /// # Errors
    /// `Refused` names the first field that the database refuses; the value stays in the hot tier
    /// and all others have landed. Otherwise a tier is away, and some or all rows may have landed.
    ///
    /// # Cancel safety
    /// A dropped flush may or may not have landed the owner. Repeating it is harmless.
    pub async fn flush(&self, owner: &Owner) -> Result<Flushed, TierError> {
        self.flush_in_epoch(owner, true)
            .await
            .map(|(flushed, _)| flushed)
    }

    /// As [`Tiers::flush`], for a write that was applied in this epoch and gave the owner this
    /// version. Answers whether it is in the database: it is not if the hot tier has forgotten it
    /// on the way, as one that a replica took over which never had it.
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
        // What has just been written is hardly ever landed already, and landing it again does no
        // harm.
        let (flushed, found) = self.flush_in_epoch(owner, false).await?;
        // An owner has a version once. What is later was built on it in the same epoch; in another
        // one, perhaps on what was before it.
        let holds = |version| {
            version == written || version > written && found == epoch || broken("R14-landed")
        };
        if holds(flushed.version) {
            return Ok(true);
        }
        // A hash goes when all of it has landed, and when the hot tier is lost: the rows tell which
        // it was.
        let newest = self.cold.load_newest(owner).await?;
        Ok(newest.is_some_and(|row| holds(row.version)))
    }

    /// Flushes, and says in which epoch the owner was found. If it `looks`, it commits nothing of
    /// an owner that has landed.
    async fn flush_in_epoch(
        &self,
        owner: &Owner,
        looks: bool,
    ) -> Result<(Flushed, Epoch), TierError> {
        let partition = owner.partition(self.hot.partition_count());
        let mut healed = false;
        for _ in 0..TRIES_MAX {
            let Some(collected) = self.collect_whole(owner, &mut healed).await? else {
                continue;
            };
            let Some((version, rows)) = rows_of(owner, &collected) else {
                return Ok((
                    Flushed {
                        version: Version::ZERO,
                        rows: 0,
                    },
                    collected.epoch,
                ));
            };
            // ORDER: behind the hash: if no map names the owner then, all that was read has landed.
            let Some(is_marked) = self.is_marked(owner, looks, collected.epoch).await? else {
                continue;
            };
            if !is_marked || rows.is_empty() {
                return Ok((Flushed { version, rows: 0 }, collected.epoch));
            }
            let fence = bisect::fence(partition, &collected, rows.iter());
            let outcome = match bisect::land(self.cold.as_ref(), vec![fence], rows.clone()).await {
                Ok(outcome) => outcome,
                Err(LandError::Fenced(_)) => {
                    self.prepare(&[partition]).await?;
                    continue;
                }
                Err(LandError::Cold(error)) => return Err(error.into()),
                Err(LandError::Refused(fault)) => return Err(refused(owner, String::new(), fault)),
            };
            self.settle_flush(owner, &collected, fence.reaches, &rows, &outcome)
                .await;
            return match outcome.into_iter().next() {
                None => Ok((
                    Flushed {
                        version,
                        rows: rows.len(),
                    },
                    collected.epoch,
                )),
                Some((row, fault)) => Err(refused(owner, row.field.to_string(), fault)),
            };
        }
        Err(TierError::Contended {
            what: format!("flush {owner}"),
            tries: TRIES_MAX,
        })
    }

    /// All of an owner; none if it is to be read again.
    async fn collect_whole(
        &self,
        owner: &Owner,
        healed: &mut bool,
    ) -> Result<Option<Collected>, TierError> {
        let partition = owner.partition(self.hot.partition_count());
        let mut collected = match self
            .hot
            .collect(partition, &[(owner.clone(), Vec::new())])
            .await
        {
            Ok(collected) => collected,
            Err(error) => return self.prepare_after(error).await.map(|()| None),
        };
        if collected.reads.iter().any(is_suspect) {
            // A hot tier without memory does not keep what was found; then it is landed as it was
            // found.
            match self.heal(owner).await? {
                Some(read) if std::mem::replace(healed, true) => collected.reads = vec![read],
                _ => return Ok(None),
            }
        }
        Ok(Some(collected))
    }

    /// Whether a map names the owner, or nobody looks; none if the epoch is another one by now.
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

    /// Tells the hot tier what has landed. Whatever fails here is made up for by the next landing
    /// of the partition.
    async fn settle_flush(
        &self,
        owner: &Owner,
        collected: &Collected,
        reaches: Version,
        rows: &[Row],
        refused: &[bisect::Refused],
    ) {
        let landed = rows
            .iter()
            .filter(|row| !refused.iter().any(|(bad, _)| bad.field == row.field));
        let settle = Settle {
            partition: owner.partition(self.hot.partition_count()),
            lock: None,
            epoch: collected.epoch,
            // It settles no mark.
            snapshot: SnapshotId::default(),
            // Nothing was committed if all was refused; then the fence has not moved either.
            landed: if refused.len() < rows.len() {
                reaches
            } else {
                collected.landed
            },
            marks: Vec::new(),
            rows: landed
                .map(|row| (row.owner.clone(), row.field.clone(), row.version))
                .collect(),
            probation: self.has_probation(),
        };
        if let Err(error) = self.hot.settle(&settle).await
            && !matches!(error.kind, HotKind::Unprepared(_) | HotKind::EpochMoved)
        {
            tracing::warn!(%owner, %error, "a flush has landed but the hot tier could not be told");
        }
    }
}

/// The owner's version and rows; none without a hash.
fn rows_of(owner: &Owner, collected: &Collected) -> Option<(Version, Vec<Row>)> {
    let read = collected.reads.first()?;
    let header = read.header?;
    let row = |(field, cell): &(storage_model::Field, storage_model::Cell)| Row {
        owner: owner.clone(),
        field: field.clone(),
        cell: cell.clone(),
        version: header.version,
    };
    Some((header.version, read.cells.iter().map(row).collect()))
}

fn refused(owner: &Owner, field: String, fault: storage_sql::RowFault) -> TierError {
    TierError::Refused {
        owner: owner.clone(),
        field,
        fault,
    }
}
