//! R14: after a rewind of the hot tier, an earlier hash is compared with its rows before anything
//! builds on it.

use std::collections::BTreeSet;

use storage_dirty::{Collected, Filled, HotRead, Read};
use storage_model::{Field, Owner, tries};

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

    /// Compares suspect owners of a read with their rows. False if the owners must be read again.
    ///
    /// After a comparison the hot tier has the result, and the owners are read again, all at one
    /// moment. Only a full hot tier keeps no result, and such an owner is suspect again. Then the
    /// result takes the place of its read. `before` has the suspect owners of the read before.
    ///
    /// # Errors
    /// As [`Tiers::reconcile`].
    ///
    /// # Cancel safety
    /// As [`Tiers::reconcile`].
    pub async fn reconcile_all(
        &self,
        wanted: &[(Owner, Vec<Field>)],
        collected: &mut Collected,
        before: &mut BTreeSet<Owner>,
    ) -> Result<bool, TierError> {
        let reads = wanted.iter().zip(&collected.reads);
        let suspect = reads.filter(|(_, read)| is_suspect(read));
        let suspects: BTreeSet<Owner> = suspect.map(|((owner, _), _)| owner.clone()).collect();
        let is_full = suspects.is_subset(before);
        for ((owner, fields), read) in wanted.iter().zip(&mut collected.reads) {
            if !suspects.contains(owner) {
                continue;
            }
            // `None`: another process has compared it meanwhile.
            let Some(mut whole) = self.reconcile(owner).await? else {
                return Ok(false);
            };
            if !fields.is_empty() {
                whole.cells.retain(|(field, _)| fields.contains(field));
            }
            *read = whole;
        }
        *before = suspects;
        Ok(is_full)
    }
}

/// Whether a read saw a hash from before a rewind of the hot tier.
#[must_use]
pub fn is_suspect(read: &HotRead) -> bool {
    read.header.is_some_and(|header| header.suspect)
}
