//! R14: after a rewind of the hot tier, an earlier hash is compared with its rows before anything
//! builds on it.

use storage_dirty::{Filled, HotRead, Read};
use storage_model::{Owner, tries};

use crate::load::{contended, load_of};
use crate::{TierError, Tiers};

impl Tiers {
    /// Compares an owner's hash with all of its rows: a row that is newer than the owner's version
    /// wins. Answers the whole owner as it is with its rows. `None` if the owner is not suspect,
    /// and then nothing changes.
    ///
    /// The comparison is part of the fill. If the owner or the epoch changed meanwhile, the fill
    /// fails, and the comparison begins again. A full hot tier does not keep the result: the hash
    /// stays suspect.
    ///
    /// # Errors
    /// A tier is away, or concurrent writes of the owner came first at each attempt.
    ///
    /// # Cancel safety
    /// If the call is dropped, the comparison may have happened or not. Repeating it is harmless.
    pub async fn reconcile(&self, owner: &Owner) -> Result<Option<HotRead>, TierError> {
        for _ in 0..tries::OWNER {
            let Some(observed) = self.observe(owner).await? else {
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

/// Whether a read saw a hash from before a rewind of the hot tier.
#[must_use]
pub fn is_suspect(read: &HotRead) -> bool {
    read.header.is_some_and(|header| header.suspect)
}
