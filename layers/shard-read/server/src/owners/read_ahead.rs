//! Owners that are read before a server serves.

use std::sync::Arc;

use futures::future::join_all;
use storage_sdk::layer::{ColdTier, RowRange};
use storage_sdk::{Error, Field, NameError, Owner, Scope};
use storage_shard_read::owners::Owners;
use storage_shard_read::{Schema as _, ShardRange};

use super::load::Loader;

/// The rows of a page.
const PAGE: usize = 1_000;
/// The owners that are loaded at once.
const AT_ONCE: usize = 256;

/// The owners of a logic type, which are read before a server serves. They have this field.
#[derive(Debug, Clone)]
pub struct ReadAhead(RowRange);

impl ReadAhead {
    /// The owners of this logic type with this field, which all that matter should have.
    ///
    /// # Errors
    /// A name is empty, too long, or has a character that no name has.
    pub fn new(app: &str, region: &str, logic_type: &str, field: &str) -> Result<Self, NameError> {
        let scope = Scope::new(app, region)?;
        // The names of an owner are checked together.
        Owner::new(app, region, logic_type, "0")?;
        let fields = vec![Field::new(field)?];
        Ok(Self(RowRange::new(scope, logic_type, fields).limit(PAGE)))
    }

    /// Reads the owners of a range in the order of their ids, until the memory is almost full.
    pub(super) async fn read(
        &self,
        cold: &ColdTier,
        range: ShardRange,
        loader: &Arc<Loader>,
        bytes_max: u64,
    ) -> Result<(), Error> {
        let mut rows = self.0.clone();
        loop {
            let page = cold.rows(&rows).await?;
            let owners = page.iter().map(|row| &row.owner);
            let owners: Vec<&Owner> = owners
                .filter(|owner| range.contains(Owners::sharding_key(owner)))
                .collect();
            for some in owners.chunks(AT_ONCE) {
                // An owner that can't be read fails its callers, and holds up no server.
                join_all(some.iter().map(|owner| loader.get(owner))).await;
                if loader.cache.bytes() > bytes_max / 10 * 9 {
                    return Ok(());
                }
            }
            match page.last() {
                // The last one is read again, which finds it in memory.
                Some(last) if page.len() == PAGE => rows.from = last.owner.id().to_owned(),
                _ => return Ok(()),
            }
        }
    }
}
