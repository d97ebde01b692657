//! The whole hash of one owner, also if it is larger than a reply of the server may be.

use storage_dirty::{Fields, HotError, HotRead, Read};
use storage_model::{Field, Owner};

use crate::{TierError, Tiers};

/// How often the connection breaks on one owner before that owner counts as unreadable. A connection
/// also breaks by chance.
pub const BREAKS: u32 = 3;

/// How often an owner is read in parts that is written meanwhile.
const TRIES: u32 = 8;

impl Tiers {
    /// The owner's whole hash. If the connection breaks on it, as it does at
    /// `client-output-buffer-limit`, the hash is read in parts. All of them show one version, so
    /// they belong to one moment.
    ///
    /// # Errors
    /// `Unreadable`: the connection breaks on one field, or on the names of the fields, although the
    /// hot tier answers. `Contended`: the owner was written during each try. `Hot`: the hot tier is
    /// away.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn whole_hash(&self, owner: &Owner) -> Result<HotRead, TierError> {
        let mut read = match self.read_alone(owner, Fields::All).await {
            Err(error) if error.is_cut_off() => Err(error),
            read => return Ok(read?),
        };
        let mut breaks = 0;
        for _ in 0..=TRIES {
            match read {
                Ok(Some(hash)) => return Ok(hash),
                Ok(None) => {}
                Err(error) if error.is_cut_off() && self.answers_for(owner).await => breaks += 1,
                Err(error) => return Err(error.into()),
            }
            if breaks >= BREAKS {
                return Err(TierError::Unreadable {
                    owner: owner.clone(),
                });
            }
            read = self.hash_in_parts(owner).await;
        }
        Err(TierError::Contended {
            what: format!("read {owner} in parts"),
            tries: TRIES,
        })
    }

    /// The owner's hash in parts that get smaller, down to single fields. `None` if it was written
    /// in between.
    async fn hash_in_parts(&self, owner: &Owner) -> Result<Option<HotRead>, HotError> {
        let names = self.read_alone(owner, Fields::Names).await?;
        let fields: Vec<Field> = names.cells.into_iter().map(|(field, _)| field).collect();
        let mut cells = Vec::with_capacity(fields.len());
        let mut parts = halves(fields);
        while let Some(part) = parts.pop() {
            match self.read_alone(owner, Fields::Cells(part.clone())).await {
                Ok(read) if read.header != names.header => return Ok(None),
                Ok(read) => cells.extend(read.cells),
                Err(error)
                    if error.is_cut_off() && part.len() > 1 && self.answers_for(owner).await =>
                {
                    parts.extend(halves(part));
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
        let mut reads = self.hot.owners.read(&[read]).await;
        reads.pop().unwrap_or_else(|| Ok(HotRead::default()))
    }

    /// Whether the hot tier answers about the owner's partition. A read of the owner that broke its
    /// connection was the cause then.
    async fn answers_for(&self, owner: &Owner) -> bool {
        let partition = owner.partition(self.hot.partitions.partition_count());
        self.answers(&[partition]).await
    }
}

/// Both halves of some fields. The first half is the last one, since the last one is read first.
fn halves(mut fields: Vec<Field>) -> Vec<Vec<Field>> {
    if fields.len() < 2 {
        return vec![fields];
    }
    let second = fields.split_off(fields.len() / 2);
    vec![second, fields]
}
