//! Documents and items as lines of JSON, to copy them from one storage to another.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use storage_sdk::feed::Cursor;
use storage_sdk::layer::{Row, RowRange};
use storage_sdk::{Field, Timestamp};

use crate::collection::{LandedGeneration, path_of};
use crate::stored::{BODY, DOCUMENT, ITEM, document_of};
use crate::{Call, Changed, Document, Documents, Error, Kind, Path, Result};

/// The rows of one step.
const ROWS: usize = 256;

/// A document or an item.
#[derive(Serialize, Deserialize)]
struct DocumentLine {
    path: String,
    /// When it ends by itself: milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ends: Option<u64>,
    body: Box<RawValue>,
}

/// A pass over all documents and items below a prefix, in the order of their owners.
#[derive(Debug)]
pub struct Export {
    documents: Documents,
    prefix: String,
    range: RowRange,
    landed: LandedGeneration,
    is_done: bool,
}

impl Documents {
    /// Begins an export of all documents and items below a prefix. It waits until all changes have
    /// landed that were acknowledged before. Later changes may or may not be in it.
    ///
    /// # Errors
    /// `Storage`: a tier can't be read. `Contended`: the changes have not landed in this time.
    pub async fn export(&self, prefix: &str, until: &Cursor, within: Duration) -> Result<Export> {
        let message = "earlier changes have not landed in time; try again later";
        self.until_landed(until, within, message).await?;
        let group = group_of(prefix);
        let body = Field::new(BODY).map_err(storage_sdk::Error::from)?;
        Ok(Export {
            documents: self.clone(),
            prefix: prefix.to_owned(),
            range: RowRange::new(self.world.scope().clone(), DOCUMENT, vec![body])
                .between(group.clone(), behind(&group))
                .limit(ROWS),
            landed: LandedGeneration::default(),
            is_done: false,
        })
    }

    /// Waits until all changes up to a place have landed.
    ///
    /// # Errors
    /// `Contended`, with this message: they have not in time. `Storage`.
    pub(crate) async fn until_landed(
        &self,
        until: &Cursor,
        within: Duration,
        message: &str,
    ) -> Result<()> {
        match self.cold.until_landed(until, within).await {
            Err(error) if error.kind() == storage_sdk::Kind::Timeout => {
                Err(Error::new(Kind::Contended, message))
            }
            landed => Ok(landed?),
        }
    }

    /// Puts the document or the item of one line of an export.
    ///
    /// # Errors
    /// As [`Documents::put`]. `Body`: the line is none of an export.
    ///
    /// # Cancel safety
    /// As [`Documents::edit`].
    pub async fn import(&self, line: &[u8]) -> Result<Option<Changed>> {
        let line: DocumentLine = serde_json::from_slice(line).map_err(|error| {
            Error::new(
                Kind::Body,
                format!("the line is none of an export: {error}"),
            )
        })?;
        let (path, now) = (Path::new(&line.path)?, self.clock.now());
        let ends = line.ends.map(|ends| Timestamp(ends.saturating_mul(1_000)));
        if ends.is_some_and(|ends| ends <= now) {
            return Ok(None);
        }
        let call = Call {
            lives: ends.map(|ends| ends.since(now)),
            ..Call::default()
        };
        self.put(&path, line.body.get().as_bytes(), &call)
            .await
            .map(Some)
    }
}

/// The beginning of the ids of owners below a prefix.
fn group_of(prefix: &str) -> String {
    format!("{{{prefix}")
}

/// The text behind all that begin with a prefix.
fn behind(prefix: &str) -> String {
    format!("{prefix}\u{10ffff}")
}

impl Export {
    /// The next lines, each with its line feed. `None` at the end.
    ///
    /// # Errors
    /// `Storage`: a tier can't be read. `Corrupt`: a stored document is none that this layer wrote.
    pub async fn next(&mut self) -> Result<Option<String>> {
        while !self.is_done {
            let rows = self.documents.cold.rows(&self.range).await?;
            let is_last = rows.len() < ROWS;
            if let Some(last) = rows.last() {
                self.range.from = format!("{}\0", last.owner.id());
            }
            let mut lines = String::new();
            for row in &rows {
                if let Some(line) = self.line(row).await? {
                    lines.push_str(&line);
                    lines.push('\n');
                }
            }
            if is_last {
                self.turn();
            }
            if !lines.is_empty() {
                return Ok(Some(lines));
            }
        }
        Ok(None)
    }

    /// Goes on with the items behind the documents.
    fn turn(&mut self) {
        if self.range.logic_type == ITEM {
            self.is_done = true;
            return;
        }
        // A prefix can end inside of an item's id. Then its collection is read as a whole.
        let collection = match self.prefix.rsplit_once("~/") {
            Some((collection, id)) if !id.contains('/') => format!("{collection}~"),
            _ => self.prefix.clone(),
        };
        let from = group_of(&collection);
        self.range.logic_type = ITEM.to_owned();
        self.range.before = behind(&from);
        self.range.from = from;
    }

    /// The line of a row, unless the document is not there any more.
    async fn line(&mut self, row: &Row) -> Result<Option<String>> {
        let (Some(value), Some(path)) = (row.cell.live(), path_of(&row.owner)) else {
            return Ok(None);
        };
        let document = document_of(value, 0, row.version)?;
        let is_there = path.is_below(&self.prefix)
            && !document.has_ended(self.documents.clock.now())
            && self
                .landed
                .is_present(&self.documents, row.owner.id())
                .await?;
        if !is_there {
            return Ok(None);
        }
        text_of(&path, &document).map(Some)
    }
}

fn text_of(path: &Path, document: &Document) -> Result<String> {
    let unreadable = |error: serde_json::Error| Error::new(Kind::Corrupt, error.to_string());
    let line = DocumentLine {
        path: path.as_str().to_owned(),
        ends: document.ends.map(|ends| ends.0 / 1_000),
        body: serde_json::from_slice(&document.body).map_err(unreadable)?,
    };
    serde_json::to_string(&line).map_err(unreadable)
}
