//! The whole hash of one owner, also if it is larger than a reply of the server may be.

use storage_dirty::{Fields, HotError, HotRead, Read};
use storage_model::{Field, Owner};

use crate::load::contended;
use crate::{TierError, Tiers};

/// How often an owner is read at which the connection breaks. It also breaks by chance.
const TRIES: u32 = 3;

impl Tiers {
    /// The owner's whole hash. If the connection breaks on it, as it does at
    /// `client-output-buffer-limit`, the hash is read in parts. All of them show one version, so
    /// they belong to one moment.
    ///
    /// # Errors
    /// The hot tier is away, or the connection breaks on one field alone. Or each try was cut off by
    /// a concurrent write.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn whole_hash(&self, owner: &Owner) -> Result<HotRead, TierError> {
        let mut broken = None;
        for _ in 0..TRIES {
            let error = match self.read_alone(owner, Fields::All).await {
                Err(error) if error.is_cut_off() => error,
                read => return Ok(read?),
            };
            if !self.answers_for(owner).await {
                return Err(error.into());
            }
            match self.hash_in_parts(owner).await {
                Err(error) if error.is_cut_off() => broken = Some(error),
                Err(error) => return Err(error.into()),
                Ok(None) => {}
                Ok(Some(hash)) => return Ok(hash),
            }
        }
        Err(broken.map_or_else(|| contended(owner), TierError::from))
    }

    /// The owner's hash in parts that get smaller, down to single fields. `None` if it was written
    /// in between.
    async fn hash_in_parts(&self, owner: &Owner) -> Result<Option<HotRead>, HotError> {
        let names = self.read_alone(owner, Fields::Names).await?;
        let fields: Vec<Field> = names.cells.into_iter().map(|(field, _)| field).collect();
        let mut cells = Vec::with_capacity(fields.len());
        let mut parts = vec![fields];
        while let Some(mut part) = parts.pop() {
            match self.read_alone(owner, Fields::Cells(part.clone())).await {
                Ok(read) if read.header != names.header => return Ok(None),
                Ok(read) => cells.extend(read.cells),
                Err(error) if error.is_cut_off() && part.len() > 1 => {
                    if !self.answers_for(owner).await {
                        return Err(error);
                    }
                    // ORDER: the first half is read first, so the fields stay sorted.
                    parts.push(part.split_off(part.len() / 2));
                    parts.push(part);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(HotRead {
            header: names.header,
            cells,
        }))
    }

    async fn read_alone(&self, owner: &Owner, fields: Fields) -> Result<HotRead, HotError> {
        let read = Read {
            owner: owner.clone(),
            fields,
        };
        let mut reads = self.hot.read(&[read]).await;
        reads.pop().unwrap_or_else(|| Ok(HotRead::default()))
    }

    /// Whether the hot tier answers about the partition of an owner, so that a read of the owner
    /// itself broke the connection.
    pub async fn answers_for(&self, owner: &Owner) -> bool {
        let partition = owner.partition(self.hot.partition_count());
        self.answers(&[partition]).await
    }
}
