//! The items of present collections among all rows, as the database knows them.

use super::head::{collection_of, generation_of};
use crate::{Documents, Result};

/// The generation of the collection that a pass over the rows is in. Items come collection by
/// collection.
#[derive(Debug, Default)]
pub(crate) struct LandedGeneration(Option<(String, u64)>);

impl LandedGeneration {
    /// Whether an owner is no item of a collection that was deleted. The database says so: the hot
    /// tier can forget a deletion that has not landed, and then the items are needed again.
    pub(crate) async fn is_present(&mut self, documents: &Documents, id: &str) -> Result<bool> {
        let (Some(collection), Some(generation)) = (collection_of(id), generation_of(id)) else {
            return Ok(true);
        };
        let known = self.0.as_ref().filter(|(of, _)| of == collection);
        let present = match known {
            Some((_, present)) => *present,
            None => documents.landed_generation(collection).await?,
        };
        if known.is_none() {
            self.0 = Some((collection.to_owned(), present));
        }
        // A later generation than the one that was read is present, too.
        Ok(generation >= present)
    }
}
