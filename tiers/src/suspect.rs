//! R14: after a rewind of the hot tier, an earlier hash is compared with its rows before anything
//! builds on it.

use std::collections::BTreeSet;

use storage_dirty::{Collected, Filled, HotRead, Read};
use storage_model::{Field, Owner, tries};

use crate::load::{contended, load_of};
use crate::{TierError, Tiers};

impl Tiers {
    /// Compares an owner's hash with all of its rows. If a row is newer than the hash, the rows win,
    /// all of them. Otherwise the hash wins, and where it differs from its rows it is marked (R16).
    /// Returns the whole owner after that. `None` if the owner is not suspect, and then nothing
    /// changes.
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
            match self.hot.owners.read(&[read]).await.pop() {
                Some(Ok(read)) if is_suspect(&read) => {}
                Some(Err(error)) => {
                    self.prepare_after(error).await?;
                    continue;
                }
                _ => return Ok(None),
            }
            let loaded = self
                .cold
                .rows
                .load(std::slice::from_ref(owner), usize::MAX)
                .await?;
            let rows = loaded.into_iter().flat_map(|loaded| loaded.rows).collect();
            match self
                .hot
                .owners
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
    /// whole result takes the place of its read, and lands as a whole (R16). `before` has the suspect
    /// owners of the read before.
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
        for ((owner, _), read) in wanted.iter().zip(&mut collected.reads) {
            if !suspects.contains(owner) {
                continue;
            }
            // `None`: another process has compared it meanwhile.
            let Some(mut whole) = self.reconcile(owner).await? else {
                return Ok(false);
            };
            // Only a worker's read knows the gap that tells the last note.
            if let (Some(header), Some(seen)) = (&mut whole.header, read.header) {
                header.noted = header.noted.max(seen.noted);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use storage_config::{ColdUrl, HotSettings, HotUrl, RedisSettings, SqlSettings};
    use storage_dirty::{Adopt, Hot, Marks, MemoryStore, Owners, Partitions};
    use storage_model::{
        Bytes, Change, Epoch, ManualClock, Mutation, OpId, Partition, Timestamp, Version,
    };

    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000_000);
    const PARTITION: Partition = Partition(0);

    async fn adopt(hot: &MemoryStore, epoch: u64, compare_all: bool) {
        let seen = hot.partition_states(&[PARTITION]).await.remove(0).unwrap();
        let adopt = Adopt {
            partition: PARTITION,
            seen,
            epoch: Epoch(epoch),
            stamp: storage_model::Stamp::NONE,
            until: storage_model::Timestamp(u64::MAX),
            last_version: Version::ZERO,
            landed_here: false,
            compare_all,
            feed: storage_model::Position::ZERO,
            database: None,
        };
        assert_eq!(hot.adopt(&[adopt]).await, [Ok(true)]);
    }

    /// Otherwise a part of a transaction could be of another moment than the rest.
    #[tokio::test]
    async fn an_owner_that_becomes_suspect_later_is_read_again_with_all_others() {
        let settings = RedisSettings::new(HotUrl::Memory).with(|redis| redis.partitions = 1);
        let clock = Arc::new(ManualClock::new(NOW));
        let hot = MemoryStore::new(&settings, &HotSettings::default(), clock);
        adopt(&hot, 1, false).await;
        let gold = Field::new("gold").unwrap();
        let owners = ["ann", "bob"].map(|id| Owner::new("game", "eu", "player", id).unwrap());
        for (number, owner) in (1..).zip(&owners) {
            let set = vec![(gold.clone(), Change::Set(Bytes::from("1")))];
            let (id, deadline) = (OpId::new([number; 16]), Timestamp(NOW.0 + 1_000_000));
            let write = Mutation::new(owner.clone(), set, id, deadline);
            hot.mutate(&[(write, Vec::new())]).await.remove(0).unwrap();
        }
        // Each hash is compared with its rows from now on.
        adopt(&hot, 2, true).await;
        let wanted = owners.clone().map(|owner| (owner, vec![gold.clone()]));
        let read = hot.collect(PARTITION, &wanted, None).await.unwrap();
        assert!(read.reads.iter().all(is_suspect));
        let cold = storage_sql::open(&SqlSettings::new(ColdUrl::SqliteMemory))
            .await
            .unwrap();
        let tiers = Tiers::new(Hot::of(&Arc::new(hot)), cold, 100);

        let [ann, _] = owners;
        let (mut collected, mut before) = (read, BTreeSet::from([ann]));
        let mut compare = async |collected: &mut Collected| {
            let compared = tiers.reconcile_all(&wanted, collected, &mut before);
            compared.await.unwrap()
        };
        assert!(!compare(&mut collected).await, "Bob was not suspect before");
        let mut again = tiers
            .hot()
            .marks
            .collect(PARTITION, &wanted, None)
            .await
            .unwrap();
        assert!(!again.reads.iter().any(is_suspect));
        assert!(compare(&mut again).await);
        assert_eq!(again.reads, collected.reads);
    }
}
