//! Documents, items and collections: reads and writes.

use std::sync::Arc;

use storage_sdk::layer::ColdTier;
use storage_sdk::{
    ByteOwner, ByteStorage, Bytes, Clock, Storage, SystemClock, Timestamp, Version, World,
};

use crate::collection::{Generations, Turns, head_id};
use crate::history::{self, History};
use crate::list::Budget;
use crate::missed::Pages;
use crate::stored::{BODY, DOCUMENT, PathState, REVISION};
use crate::{Call, Changed, Edit, Error, Kind, Path, Place, Result, Tag};

/// The most bytes of a body. With its frame it fits in a value of the storage.
pub const BODY_BYTES_MAX: usize = (1 << 20) - 1_024;

/// A document or an item as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The body, as JSON.
    pub body: Bytes,
    /// The number of changes of the path so far, deletions included. For an item, that of its
    /// collection.
    pub revision: u64,
    /// The version of the storage, which [`Document::tag`] shows.
    pub version: Version,
    /// When the document was created.
    pub created: Timestamp,
    /// When it was changed last.
    pub modified: Timestamp,
    /// When it ends by itself.
    pub ends: Option<Timestamp>,
}

impl Document {
    /// The entity tag.
    #[must_use]
    pub fn tag(&self) -> Tag {
        Tag::of(self.version)
    }

    /// Whether its time to live is over.
    pub(crate) fn has_ended(&self, now: Timestamp) -> bool {
        self.ends.is_some_and(|ends| ends <= now)
    }
}

/// The documents and collections of one world. Clones share its connections.
#[derive(Debug, Clone)]
pub struct Documents {
    pub(crate) storage: Storage,
    pub(crate) world: World,
    pub(crate) bytes: ByteStorage,
    pub(crate) cold: ColdTier,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) generations: Arc<Generations>,
    pub(crate) turns: Arc<Turns>,
    pub(crate) history: Arc<[History]>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) sorts: Arc<Budget>,
}

impl Documents {
    /// The documents of a world.
    ///
    /// # Errors
    /// `Storage`: a name is not allowed.
    pub fn new(storage: &Storage, app: &str, region: &str) -> Result<Self> {
        let world = storage.world(app, region)?;
        Ok(Self {
            storage: storage.clone(),
            bytes: world.bytes(),
            cold: ColdTier::of(storage),
            world,
            clock: Arc::new(SystemClock),
            generations: Arc::default(),
            turns: Arc::default(),
            history: Arc::default(),
            pages: Arc::default(),
            sorts: Arc::default(),
        })
    }

    /// The storage.
    #[must_use]
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Takes the times of documents and events from another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Bounds the bytes of items that all sorts keep together. Default: 256 MiB.
    #[must_use]
    pub fn with_sort_bytes(mut self, bytes: usize) -> Self {
        self.sorts = Arc::new(Budget::of(bytes));
        self
    }

    /// The document or item of a path. `None` if there is none, or if the path names a collection.
    ///
    /// # Errors
    /// `Storage`: the tiers can't be read.
    ///
    /// # Cancel safety
    /// Nothing changes.
    pub async fn get(&self, path: &Path) -> Result<Option<Document>> {
        match path.place() {
            Place::Document => Ok(self.find(&self.owner(path)?).await?.document),
            Place::Item { collection, id } => {
                let (head, found) = self.find_item(&collection, &id).await?;
                Ok(found.document.map(|document| Document {
                    revision: head.revision,
                    ..document
                }))
            }
            Place::Collection => Ok(None),
        }
    }

    /// Creates or replaces a document or an item. Members that are null are dropped, at every depth.
    /// The body of an item is an object, whose member `id` becomes the item's id.
    ///
    /// # Errors
    /// As [`Edit::put`] and [`Documents::edit`].
    ///
    /// # Cancel safety
    /// As [`Documents::edit`].
    pub async fn put(&self, path: &Path, body: &[u8], call: &Call) -> Result<Changed> {
        self.edit(path, &Edit::put(body)?, call).await
    }

    /// Applies a merge patch (RFC 7396), which must be an object.
    ///
    /// # Errors
    /// As [`Edit::merge`] and [`Documents::edit`].
    ///
    /// # Cancel safety
    /// As [`Documents::edit`].
    pub async fn patch(&self, path: &Path, patch: &[u8], call: &Call) -> Result<Changed> {
        self.edit(path, &Edit::merge(patch)?, call).await
    }

    /// Deletes a document, an item, or a whole collection. Revisions go on, and the path can be put
    /// again. A collection of any size is deleted in one step.
    ///
    /// # Errors
    /// As [`Documents::edit`].
    ///
    /// # Cancel safety
    /// As [`Documents::edit`].
    pub async fn delete(&self, path: &Path, call: &Call) -> Result<Changed> {
        match path.place() {
            Place::Collection => self.delete_collection(path, call).await,
            _ => self.edit(path, &Edit::delete(), call).await,
        }
    }

    /// Changes a document or an item. Body, revision and event are written in one step.
    ///
    /// # Errors
    /// `Missing`: there is no document, and the change is no put. `Unfit`: the change does not fit
    /// the document. `Protected`: it changes the id of an item. `Collection`: the path names a
    /// collection. `Condition`, `KeyReused`, `Unsafe`, `Lost`, `BodyTooLarge`, `Contended`, `Storage`.
    ///
    /// # Cancel safety
    /// The change may or may not be made, as a whole.
    pub async fn edit(&self, path: &Path, edit: &Edit, call: &Call) -> Result<Changed> {
        match path.place() {
            Place::Document => self.edit_document(path, edit, call).await,
            Place::Item { collection, id } => {
                self.edit_item(path, &collection, &id, edit, call).await
            }
            Place::Collection => {
                let message = format!("{path} is a collection; change its items");
                Err(Error::new(Kind::Collection, message))
            }
        }
    }

    pub(crate) fn owner(&self, path: &Path) -> Result<ByteOwner> {
        // In a group of its own, with its kept versions and the entries of its keys.
        Ok(self.bytes.owner(DOCUMENT, head_id(path.as_str()))?)
    }

    pub(crate) async fn find(&self, owner: &ByteOwner) -> Result<PathState> {
        let record = owner.get([BODY, REVISION, history::FIELD]).await?;
        PathState::of(&record, self.clock.now())
    }
}
