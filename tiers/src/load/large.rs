//! Loads of owners that are too large to keep them whole.

use std::collections::BTreeMap;

use storage_dirty::{Fields, Filled, Header, HotRead, Load, Read};
use storage_model::{Cell, Field, Owner, Position, Row, Version, tries};

use super::{FullLoad, contended, load_of};
use crate::{TierError, Tiers, is_suspect};

impl Tiers {
    /// Loads the named fields of an owner that is too large for [`Tiers::load`].
    ///
    /// # Errors
    /// As [`Tiers::load`]. `TooLarge`: even these fields are too large for one step.
    ///
    /// # Cancel safety
    /// Only the filled fields remain.
    pub async fn load_fields(
        &self,
        owner: &Owner,
        fields: &[Field],
    ) -> Result<FullLoad, TierError> {
        let load = || async {
            let mut rows = self.cold.rows.load_fields(owner, fields).await?;
            // The owner's version is that of the hash. Without a hash it is the version of the
            // owner's newest row, even if that field was not requested.
            if !self.is_hot(owner).await
                && let Some(newest) = self.cold.rows.load_newest(owner).await?
                && rows.iter().all(|row| row.field != newest.field)
            {
                rows.push(newest);
            }
            self.loader.bound.check(owner, &rows)?;
            Ok((rows, true))
        };
        self.load_proved(owner, load).await
    }

    /// Reads all fields of an owner that is too large for [`Tiers::load`]. The hot tier does
    /// not keep the rows.
    ///
    /// # Errors
    /// As [`Tiers::load`].
    ///
    /// # Cancel safety
    /// Nothing remains.
    pub async fn load_large(&self, owner: &Owner) -> Result<HotRead, TierError> {
        let load = || async {
            let loaded = self
                .cold
                .rows
                .load(std::slice::from_ref(owner), usize::MAX)
                .await?;
            Ok((
                loaded.into_iter().flat_map(|loaded| loaded.rows).collect(),
                false,
            ))
        };
        let FullLoad { load, read } = self.load_proved(owner, load).await?;
        let mut cells: BTreeMap<Field, Cell> = load
            .rows
            .into_iter()
            .map(|(field, cell, _)| (field, cell))
            .collect();
        cells.extend(read.cells);
        Ok(HotRead {
            header: read.header,
            cells: cells.into_iter().collect(),
        })
    }

    /// Whether the owner has a hash that is not suspect.
    async fn is_hot(&self, owner: &Owner) -> bool {
        let read = Read {
            owner: owner.clone(),
            fields: Fields::Live(Vec::new()),
        };
        let read = self.hot.owners.read(&[read]).await.pop().transpose();
        // A partition that must be prepared first rejects the fill, too. Then the load begins
        // again.
        read.ok()
            .flatten()
            .is_some_and(|read| read.header.is_some() && !is_suspect(&read))
    }

    /// Repeats a load of one owner until it is proved. If the rows are not `kept`, they serve only
    /// the caller.
    async fn load_proved<F>(
        &self,
        owner: &Owner,
        rows: impl Fn() -> F,
    ) -> Result<FullLoad, TierError>
    where
        F: Future<Output = Result<(Vec<Row>, bool), TierError>>,
    {
        let mut reconciled = false;
        for _ in 0..tries::OWNER {
            let Some(observed) = self.observe(owner).await? else {
                continue;
            };
            let (rows, kept) = rows().await?;
            self.loader.count(1);
            let load = load_of(owner, observed, rows, false);
            let fill = if kept {
                load.clone()
            } else {
                Load {
                    rows: Vec::new(),
                    ..load.clone()
                }
            };
            match self.hot.owners.fill(&[fill]).await.pop() {
                // The partition was adopted since the hash was last compared. Only all rows
                // together reveal the loss. A full hot tier does not keep the result of the
                // comparison.
                Some(Ok(Filled::Accepted(read))) if is_suspect(&read) => {
                    match self.reconcile(owner).await? {
                        Some(read) if std::mem::replace(&mut reconciled, true) => {
                            return Ok(FullLoad { load, read });
                        }
                        _ => {}
                    }
                }
                Some(Ok(Filled::Accepted(mut read))) => {
                    read.header = read.header.or_else(|| unkept(&load));
                    return Ok(FullLoad { load, read });
                }
                Some(Err(error)) => self.prepare_after(error).await?,
                _ => {}
            }
        }
        Err(contended(owner))
    }
}

/// The header of an owner without a hash, because nothing was kept. Its version is that of the
/// newest row, or else the marker's.
fn unkept(load: &Load) -> Option<Header> {
    let newest = load
        .rows
        .iter()
        .map(|(.., version)| *version)
        .max()
        .unwrap_or_default();
    let version = if newest > Version::ZERO {
        newest
    } else {
        load.observed.marker.version()
    };
    (version > Version::ZERO).then_some(Header {
        version,
        complete: false,
        generation: load.observed.epoch,
        suspect: false,
        born: Version::ZERO,
        noted: Position::ZERO,
    })
}
