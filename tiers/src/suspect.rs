//! R14: a hash from before the hot tier came back older is compared with its rows before anything
//! is built on it.

use storage_dirty::{Filled, HotRead, Read};
use storage_model::Owner;

use crate::load::{contended, load_of};
use crate::{TierError, Tiers};

/// Each try fails only if a write of the same owner came in between.
const TRIES_MAX: u32 = 64;

impl Tiers {
    /// Compares an owner's hash with all of its rows: a row that is newer than the owner's version
    /// wins. Does nothing to an owner that is not suspect; of one that is, answers the whole owner
    /// as it is with its rows.
    ///
    /// The comparison is part of the fill, which is refused, and begun anew, when the owner or the
    /// epoch moved meanwhile. A hot tier without memory does not keep what it found: the hash stays
    /// suspect.
    ///
    /// # Errors
    /// A tier is away, or writes of the same owner came in between each time.
    ///
    /// # Cancel safety
    /// Dropped, it may or may not have happened; repeating it is harmless.
    pub async fn heal(&self, owner: &Owner) -> Result<Option<HotRead>, TierError> {
        for _ in 0..TRIES_MAX {
            let Some(observed) = self.observe(std::slice::from_ref(owner)).await?.pop() else {
                continue;
            };
            let read = Read {
                owner: owner.clone(),
                fields: storage_dirty::Fields::Live(Vec::new()),
            };
            match self.hot.read(&[read]).await.pop() {
                Some(Ok(read)) if is_suspect(&read) => {}
                Some(Err(error)) => {
                    self.prepare_after(error).await?;
                    continue;
                }
                _ => return Ok(None),
            }
            let loaded = self
                .cold
                .load(std::slice::from_ref(owner), usize::MAX)
                .await?;
            let rows = loaded.into_iter().flat_map(|loaded| loaded.rows).collect();
            match self
                .hot
                .fill(&[load_of(owner, observed, rows, true)])
                .await
                .pop()
            {
                Some(Ok(Filled::Accepted(read))) => return Ok(Some(read)),
                Some(Err(error)) => self.prepare_after(error).await?,
                _ => {}
            }
        }
        Err(contended(owner))
    }
}

/// Whether a read saw a hash from before the hot tier came back older.
#[must_use]
pub fn is_suspect(read: &HotRead) -> bool {
    read.header.is_some_and(|header| header.suspect)
}
