//! The head of a collection as the database knows it.

use storage_sdk::{Field, Version};

use crate::collection::{COUNT, GENERATION, Head};
use crate::stored::REVISION;
use crate::{Documents, Result};

impl Documents {
    /// The head of a collection, as far as its changes have landed. So a list of landed changes has
    /// their revision and their count.
    pub(super) async fn landed_head(&self, collection: &str) -> Result<Head> {
        let field = |name: &str| Field::new(name).map_err(storage_sdk::Error::from);
        let fields = [field(GENERATION)?, field(REVISION)?, field(COUNT)?];
        let owner = self.head_owner(collection)?;
        let rows = self.cold.fields(owner.owner(), &fields).await?;
        let number = |name: &Field| {
            let row = rows.iter().find(|row| row.field == *name);
            let value = row.and_then(|row| row.cell.live());
            value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok())
        };
        let [generation, revision, count] = fields.each_ref().map(number);
        let last = rows.iter().map(|row| row.version).max();
        Ok(Head {
            generation: generation.unwrap_or_default(),
            revision: revision.unwrap_or_default(),
            count,
            last: None,
            version: last.unwrap_or(Version::ZERO),
        })
    }
}
