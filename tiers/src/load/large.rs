//! Loads of owners that have too many rows to be kept whole.

use std::collections::BTreeMap;

use storage_dirty::{Fields, Filled, Header, HotRead, Load, Read};
use storage_model::{Cell, Field, Owner, Row, Version};

use super::{FullLoad, TRIES_MAX, contended, load_of};
use crate::{TierError, Tiers, is_suspect};

impl Tiers {
    /// Brings the named fields of an owner that has too many rows for [`Tiers::load`].
    ///
    /// # Errors
    /// As [`Tiers::load`].
    ///
    /// # Cancel safety
    /// Nothing is left behind but what was filled.
    pub async fn load_fields(
        &self,
        owner: &Owner,
        fields: &[Field],
    ) -> Result<FullLoad, TierError> {
        let load = || async {
            let mut rows = self.cold.load_fields(owner, fields).await?;
            // The hash's version is the owner's; without one it is that of the owner's newest row,
            // whichever fields were asked for.
            if !self.is_hot(owner).await
                && let Some(newest) = self.cold.load_newest(owner).await?
                && rows.iter().all(|row| row.field != newest.field)
            {
                rows.push(newest);
            }
            Ok((rows, true))
        };
        self.load_proved(owner, load).await
    }

    /// Reads all of an owner that has too many rows for [`Tiers::load`]. Its rows are not kept in
    /// the hot tier.
    ///
    /// # Errors
    /// As [`Tiers::load`].
    ///
    /// # Cancel safety
    /// Nothing is left behind.
    pub async fn load_large(&self, owner: &Owner) -> Result<HotRead, TierError> {
        let load = || async {
            let loaded = self
                .cold
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

    /// Whether the owner has a hash that may be believed.
    async fn is_hot(&self, owner: &Owner) -> bool {
        let read = Read {
            owner: owner.clone(),
            fields: Fields::Live(Vec::new()),
        };
        let read = self.hot.read(&[read]).await.pop().transpose();
        // A partition that is to be prepared first refuses the fill as well, and the load begins
        // anew.
        read.ok()
            .flatten()
            .is_some_and(|read| read.header.is_some() && !is_suspect(&read))
    }

    /// Repeats a load of one owner until it is proved. Rows that are not `kept` serve the caller
    /// only.
    async fn load_proved<F>(
        &self,
        owner: &Owner,
        rows: impl Fn() -> F,
    ) -> Result<FullLoad, TierError>
    where
        F: Future<Output = Result<(Vec<Row>, bool), TierError>>,
    {
        let mut healed = false;
        for _ in 0..TRIES_MAX {
            let Some(observed) = self.observe(std::slice::from_ref(owner)).await?.pop() else {
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
            match self.hot.fill(&[fill]).await.pop() {
                // Adopted since it was last compared: only all of its rows tell what it has lost.
                // A hot tier without memory does not keep what was found.
                Some(Ok(Filled::Accepted(read))) if is_suspect(&read) => {
                    match self.heal(owner).await? {
                        Some(read) if std::mem::replace(&mut healed, true) => {
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

/// The header of an owner that has no hash, since nothing of it was kept: its version is the newest
/// row's, or the marker's if there is none.
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
    })
}
