//! The sweeper: ends documents whose time to live is over, and removes items of deleted collections.

use std::collections::HashMap;

use storage_model::{Field, Row};
use storage_sql::ItemPage;

use crate::collection::{collection_of, generation_of, path_of};
use crate::edit::Edit;
use crate::stored::{BODY, DOCUMENT, ITEM, document_of};
use crate::{Call, Documents, Kind, Result};

/// The rows of one step.
const ROWS: usize = 128;

/// Passes over all documents and items, a page at a time.
#[derive(Debug)]
pub struct Sweeper {
    documents: Documents,
    page: ItemPage,
    /// The present generation of the collection that the pass is in.
    generations: HashMap<String, u64>,
}

/// A step of a [`Sweeper`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Documents and items that have ended.
    pub ended: u64,
    /// Items of deleted collections that were removed.
    pub removed: u64,
    /// Whether the pass is at its end. The next step begins another one.
    pub is_whole: bool,
}

impl Documents {
    /// A sweeper of these documents. Several at once do no harm.
    ///
    /// # Errors
    /// `Storage`: a name is not allowed.
    pub fn sweeper(&self) -> Result<Sweeper> {
        Ok(Sweeper {
            documents: self.clone(),
            page: ItemPage {
                scope: self.world.scope().clone(),
                logic_type: DOCUMENT.to_owned(),
                field: Field::new(BODY).map_err(storage_sdk::Error::from)?,
                from: String::new(),
                before: "\u{10ffff}".to_owned(),
                backwards: false,
                limit: ROWS,
            },
            generations: HashMap::new(),
        })
    }
}

impl Sweeper {
    /// Reads the next page, and sweeps it. A document that ends is deleted like any other: its
    /// revision rises, the collection counts it no more, and the feed tells it.
    ///
    /// # Errors
    /// `Storage`: a tier can't be read or written. The next step repeats the page.
    ///
    /// # Cancel safety
    /// Documents of the page may or may not be swept.
    pub async fn step(&mut self) -> Result<Swept> {
        let cold = self.documents.storage.tiers().cold();
        let rows = cold
            .items(&self.page)
            .await
            .map_err(storage_sdk::Error::from)?;
        let mut swept = Swept::default();
        for row in &rows {
            self.sweep(row, &mut swept).await?;
        }
        match rows.last() {
            Some(last) if rows.len() == ROWS => self.page.from = format!("{}\0", last.owner.id()),
            _ => swept.is_whole = self.turn(),
        }
        Ok(swept)
    }

    /// Goes on with the other kind of owners. Returns whether that begins another pass.
    fn turn(&mut self) -> bool {
        let is_whole = self.page.logic_type == ITEM;
        let next = if is_whole { DOCUMENT } else { ITEM };
        self.page.logic_type = next.to_owned();
        self.page.from = String::new();
        self.generations.clear();
        is_whole
    }

    async fn sweep(&mut self, row: &Row, swept: &mut Swept) -> Result<()> {
        if !self.is_present(row.owner.id()).await? {
            let owner = self.documents.bytes.owner(ITEM, row.owner.id())?;
            owner.delete_owner().await?;
            swept.removed += 1;
            return Ok(());
        }
        let (Some(value), Some(path)) = (row.cell.live(), path_of(&row.owner)) else {
            return Ok(());
        };
        let document = document_of(value, 0, row.version)?;
        if !document.has_ended(self.documents.clock.now()) {
            return Ok(());
        }
        match self
            .documents
            .edit(&path, &Edit::end(), &Call::default())
            .await
        {
            Ok(_) => swept.ended += 1,
            // It was written again since.
            Err(error) if *error.kind() == Kind::Missing => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether an owner is one of the present generation of its collection.
    async fn is_present(&mut self, id: &str) -> Result<bool> {
        let (Some(collection), Some(generation)) = (collection_of(id), generation_of(id)) else {
            return Ok(true);
        };
        if !self.generations.contains_key(collection) {
            // Items come collection by collection.
            self.generations.clear();
            let head = self.documents.head(collection).await?;
            self.generations
                .insert(collection.to_owned(), head.present());
        }
        // A later generation than the one that was read is present, too.
        Ok(self
            .generations
            .get(collection)
            .is_none_or(|present| generation >= *present))
    }
}
