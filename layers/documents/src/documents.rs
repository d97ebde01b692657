//! Reads and writes of documents.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use storage_sdk::feed::Position;
use storage_sdk::{
    ByteOwner, ByteStorage, Bytes, Clock, Durability, Storage, SystemClock, Timestamp, Version,
};
use tokio::time::Instant;

use crate::event::Note;
use crate::json::Json;
use crate::stored::{self, BODY, Found, LOGIC_TYPE, REVISION};
use crate::{Conditions, Error, Kind, Method, Path, Result, Tag};

/// The most bytes of a body. With its frame it fits in a value of the storage.
pub const BODY_BYTES_MAX: usize = (1 << 20) - 1_024;

/// A document as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The body, as JSON.
    pub body: Bytes,
    /// The number of changes of the path so far, deletions included.
    pub revision: u64,
    /// The version of the storage, which [`Document::tag`] shows.
    pub version: Version,
    /// When the document was created.
    pub created: Timestamp,
    /// When it was changed last.
    pub modified: Timestamp,
}

impl Document {
    /// The entity tag.
    #[must_use]
    pub fn tag(&self) -> Tag {
        Tag::of(self.version)
    }
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The revision since then.
    pub revision: u64,
    /// The version since then.
    pub version: Version,
    /// Whether there was no document before.
    pub created: bool,
    /// The partition and the place of the event in the feed.
    pub event: (u32, Position),
}

/// How a write is made.
#[derive(Debug, Clone)]
pub struct Call {
    /// The conditions of the present document.
    pub conditions: Conditions,
    /// How safe the change must be before it is acknowledged.
    pub durability: Durability,
    /// The time for all attempts. While other writers change the document, the write is tried again.
    pub within: Duration,
}

impl Default for Call {
    fn default() -> Self {
        Self {
            conditions: Conditions::default(),
            durability: Durability::Cached,
            within: Duration::from_secs(10),
        }
    }
}

/// The documents of one world. Clones share its connections.
#[derive(Debug, Clone)]
pub struct Documents {
    bytes: ByteStorage,
    clock: Arc<dyn Clock>,
}

/// A change of the present document.
struct Change {
    method: Method,
    /// The whole body after the change. `None` deletes the document.
    body: Option<String>,
    /// The body of the event.
    told: Option<Box<RawValue>>,
}

impl Documents {
    /// The documents of a world.
    ///
    /// # Errors
    /// `Storage`: a name is not allowed.
    pub fn new(storage: &Storage, app: &str, region: &str) -> Result<Self> {
        Ok(Self {
            bytes: storage.world(app, region)?.bytes(),
            clock: Arc::new(SystemClock),
        })
    }

    /// Takes the times of documents and events from another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The document of a path. `None` if there is none.
    ///
    /// # Errors
    /// `Storage`: the tiers can't be read.
    ///
    /// # Cancel safety
    /// Nothing changes.
    pub async fn get(&self, path: &Path) -> Result<Option<Document>> {
        Ok(self.find(&self.owner(path)?).await?.document)
    }

    /// Creates or replaces a document. Members that are null are dropped, at every depth.
    ///
    /// # Errors
    /// `Body`: the body is no JSON, or is null. `BodyTooLarge`. `Condition`, `Contended`, `Storage`.
    ///
    /// # Cancel safety
    /// The change may or may not be made, as a whole.
    pub async fn put(&self, path: &Path, body: &[u8], call: &Call) -> Result<Changed> {
        let body = parsed(body)?.without_nulls();
        if body == Json::Null {
            return Err(Error::new(
                Kind::Body,
                "the body is null; delete the document instead",
            ));
        }
        let text = body.to_text();
        let told = raw(&text)?;
        let decide = |_: &Found| {
            Ok(Change {
                method: Method::Put,
                body: Some(text.clone()),
                told: Some(told.clone()),
            })
        };
        self.write(path, call, decide).await
    }

    /// Applies a merge patch (RFC 7396), which must be an object.
    ///
    /// # Errors
    /// `Missing`: there is no document. `Body`: the patch is no object. Otherwise as
    /// [`Documents::put`].
    ///
    /// # Cancel safety
    /// As [`Documents::put`].
    pub async fn patch(&self, path: &Path, patch: &[u8], call: &Call) -> Result<Changed> {
        let patch = parsed(patch)?;
        if !matches!(patch, Json::Object(_)) {
            return Err(Error::new(
                Kind::Body,
                "a merge patch must be an object; put the document to replace it",
            ));
        }
        let told = raw(&patch.to_text())?;
        let decide = |found: &Found| {
            let document = found.document.as_ref().ok_or_else(|| missing(path))?;
            let body = parsed(&document.body)?.merged(patch.clone());
            Ok(Change {
                method: Method::Patch,
                body: Some(body.without_nulls().to_text()),
                told: Some(told.clone()),
            })
        };
        self.write(path, call, decide).await
    }

    /// Deletes a document. Its revision goes on, and its path can be put again.
    ///
    /// # Errors
    /// `Missing`: there is no document. `Condition`, `Contended`, `Storage`.
    ///
    /// # Cancel safety
    /// As [`Documents::put`].
    pub async fn delete(&self, path: &Path, call: &Call) -> Result<Changed> {
        let decide = |found: &Found| {
            found.document.as_ref().ok_or_else(|| missing(path))?;
            Ok(Change {
                method: Method::Delete,
                body: None,
                told: None,
            })
        };
        self.write(path, call, decide).await
    }

    fn owner(&self, path: &Path) -> Result<ByteOwner> {
        Ok(self.bytes.owner(LOGIC_TYPE, path.as_str())?)
    }

    async fn find(&self, owner: &ByteOwner) -> Result<Found> {
        Found::of(&owner.get([BODY, REVISION]).await?)
    }

    /// Reads the document, checks the conditions, and writes on condition of the version that was
    /// read. So check and write are one step. If another writer was faster, it begins again.
    async fn write(
        &self,
        path: &Path,
        call: &Call,
        decide: impl Fn(&Found) -> Result<Change>,
    ) -> Result<Changed> {
        let (owner, begun) = (self.owner(path)?, Instant::now());
        loop {
            let found = self.find(&owner).await?;
            call.conditions.check(found.tag())?;
            let change = decide(&found)?;
            let left = call.within.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(contended(path));
            }
            let write = self.change(&owner, &found, change, call.durability, left);
            match write.await {
                Err(error) if is_conflict(&error) => tokio::task::yield_now().await,
                done => return done,
            }
        }
    }

    /// Writes body, revision and event in one step, if the owner still has the version that was
    /// found.
    async fn change(
        &self,
        owner: &ByteOwner,
        found: &Found,
        change: Change,
        durability: Durability,
        left: Duration,
    ) -> Result<Changed> {
        let (now, revision) = (self.clock.now(), found.revision + 1);
        let created = found
            .document
            .as_ref()
            .map_or(now, |document| document.created);
        let value = change
            .body
            .map(|body| value_of(created, now, &body))
            .transpose()?;
        let note = Note {
            m: change.method,
            r: revision,
            t: now.0 / 1_000,
            b: change.told.as_deref(),
        };
        let note =
            serde_json::to_vec(&note).map_err(|error| Error::new(Kind::Body, error.to_string()))?;
        let write = owner.transaction(|part| {
            let part = match value {
                Some(value) => part.set(BODY, value),
                None => part.remove(BODY),
            };
            let part = part.set(REVISION, revision.to_string());
            part.if_version(found.version).note(note)
        });
        let receipt = write.durability(durability).deadline(left).await?;
        let position = receipt
            .of(owner)
            .and_then(|counters| counters.ack().position());
        Ok(Changed {
            revision,
            version: receipt.version(),
            created: found.document.is_none(),
            event: (owner.partition().0, position.unwrap_or(Position::ZERO)),
        })
    }
}

fn value_of(created: Timestamp, now: Timestamp, body: &str) -> Result<Vec<u8>> {
    check_size(body.len())?;
    stored::value_of(created, now, body)
}

fn is_conflict(error: &Error) -> bool {
    matches!(error.kind(), Kind::Storage(error) if error.is_conflict())
}

fn parsed(body: &[u8]) -> Result<Json> {
    check_size(body.len())?;
    Json::parse(body)
        .map_err(|error| Error::new(Kind::Body, format!("the body is no JSON: {error}")))
}

fn raw(text: &str) -> Result<Box<RawValue>> {
    let raw = RawValue::from_string(text.to_owned());
    raw.map_err(|error| Error::new(Kind::Body, error.to_string()))
}

fn check_size(bytes: usize) -> Result<()> {
    if bytes <= BODY_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "the body has {bytes} bytes; the limit is {BODY_BYTES_MAX}, so split it into several documents"
    );
    Err(Error::new(Kind::BodyTooLarge, message))
}

fn contended(path: &Path) -> Error {
    let message = format!("other writers changed {path} at each attempt; try again later");
    Error::new(Kind::Contended, message)
}

fn missing(path: &Path) -> Error {
    Error::new(Kind::Missing, format!("there is no document {path}"))
}
