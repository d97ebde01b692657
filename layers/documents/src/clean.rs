//! The sweeper: ends documents whose time to live is over, removes items of deleted collections, and
//! forgets idempotency keys.

use storage_sdk::Field;
use storage_sdk::layer::{Row, RowRange};

use crate::collection::{LandedGeneration, path_of};
use crate::edit::Edit;
use crate::stored::{BODY, DOCUMENT, ITEM, KEY, document_of};
use crate::{Call, Documents, Kind, Result};

/// The least and the most rows of one step, and about how many bytes it reads. A sweeper passes over
/// all documents again and again, so it reads little at a time.
const ROWS: std::ops::RangeInclusive<usize> = 4..=256;
const BYTES: usize = 1 << 20;

/// The rows of the next step, by the rows of this one.
fn limit_of(bytes: usize, rows: usize) -> usize {
    let average = bytes.checked_div(rows).unwrap_or(1).max(1);
    let fits = BYTES.checked_div(average).unwrap_or(1);
    fits.clamp(*ROWS.start(), *ROWS.end())
}

/// Passes over all documents and items, a page at a time.
#[derive(Debug)]
pub struct Sweeper {
    documents: Documents,
    range: RowRange,
    landed: LandedGeneration,
}

/// A step of a [`Sweeper`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Documents and items that have ended.
    pub ended: u64,
    /// Items of deleted collections that were removed.
    pub removed: u64,
    /// Idempotency keys that were forgotten.
    pub forgotten: u64,
    /// Whether the pass is at its end. The next step begins another one.
    pub is_whole: bool,
}

impl Documents {
    /// A sweeper of these documents. Several at once do no harm.
    ///
    /// # Errors
    /// `Storage`: a name is not allowed.
    pub fn sweeper(&self) -> Result<Sweeper> {
        // Documents, items and entries of keys have it.
        let body = Field::new(BODY).map_err(storage_sdk::Error::from)?;
        Ok(Sweeper {
            documents: self.clone(),
            range: RowRange::new(self.world.scope().clone(), DOCUMENT, vec![body])
                .limit(*ROWS.start()),
            landed: LandedGeneration::default(),
        })
    }
}

impl Sweeper {
    /// Reads the next page, and sweeps it. A document that ends is deleted like any other: its
    /// revision rises, the collection counts it no more, and the feed tells it.
    ///
    /// # Errors
    /// The last error of a document of the page. The others were swept, and the next pass tries this
    /// one again. `Storage`: the page can't be read, and the next step repeats it.
    ///
    /// # Cancel safety
    /// Documents of the page may or may not be swept.
    pub async fn step(&mut self) -> Result<Swept> {
        let rows = self.documents.cold.rows(&self.range).await?;
        let (mut swept, mut failed, mut bytes) = (Swept::default(), Ok(()), 0_usize);
        for row in &rows {
            bytes = bytes.saturating_add(row.cell.value().len());
            // One document that can't be swept keeps no other from it.
            if let Err(error) = self.sweep(row, &mut swept).await {
                failed = Err(error);
            }
        }
        let is_full = rows.len() == self.range.limit;
        self.range.limit = limit_of(bytes, rows.len());
        match rows.last() {
            Some(last) if is_full => self.range.from = format!("{}\0", last.owner.id()),
            _ => swept.is_whole = self.turn(),
        }
        failed.map(|()| swept)
    }

    /// Goes on with the next kind of owners. Returns whether that begins another pass.
    fn turn(&mut self) -> bool {
        // Collections may be deleted until the next pass.
        self.landed = LandedGeneration::default();
        let range = &mut self.range;
        // What was forgotten has landed as removed some time later.
        let (next, removed) = match range.logic_type.as_str() {
            DOCUMENT => (ITEM, false),
            ITEM => (KEY, false),
            _ if !range.removed => (KEY, true),
            _ => (DOCUMENT, false),
        };
        (range.logic_type, range.removed, range.from) = (next.to_owned(), removed, String::new());
        next == DOCUMENT
    }

    async fn sweep(&mut self, row: &Row, swept: &mut Swept) -> Result<()> {
        let id = row.owner.id();
        if row.owner.logic_type() == KEY {
            let owner = self.documents.bytes.owner(KEY, id)?;
            match row.cell.live() {
                None => self.documents.give_up(&owner).await?,
                // Most are not, so they are not loaded.
                Some(entry) if self.documents.is_old(entry)? => {
                    swept.forgotten += u64::from(self.documents.forget(&owner).await?);
                }
                Some(_) => {}
            }
            return Ok(());
        }
        if !self.landed.is_present(&self.documents, id).await? {
            let owner = self.documents.bytes.owner(ITEM, id)?;
            self.documents.versions_of(&owner)?.delete_owner().await?;
            // The row of one that was removed before has not landed yet.
            if owner.delete_owner().await? > 0 {
                swept.removed += 1;
            }
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
}
