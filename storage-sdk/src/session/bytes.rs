//! Sessions of bytes per field.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use storage_coalesce::locked;
use storage_model::{Bytes, Change, Field, Version};

use super::content::{Content, ContentCopy, SavedFields};
use super::handle::Handle;
use super::state::{LossReason, SessionState};
use crate::{Ack, ByteOwner, Error, Kind, Record, Result, SessionOptions, Value};

/// The fields of an owner in a session. A removed field stays in the map as `None`, so that a save
/// removes it.
#[derive(Debug, Default)]
struct Fields(Mutex<EditedFields>);

#[derive(Debug, Default)]
struct EditedFields {
    fields: BTreeMap<Field, Edit>,
    /// The number of the last edit.
    edit: u64,
}

impl EditedFields {
    /// The live fields, sorted by name.
    fn live(&self) -> Vec<(Field, Bytes)> {
        let live = self
            .fields
            .iter()
            .filter_map(|(field, edit)| Some((field.clone(), edit.value.clone()?)));
        live.collect()
    }

    fn left(&self) -> SavedFields {
        SavedFields::All(self.live())
    }
}

/// A field's value, and the number of its last edit.
#[derive(Debug, Clone)]
struct Edit {
    value: Option<Bytes>,
    edit: u64,
}

impl Fields {
    fn of(record: &Record) -> Self {
        let fields = record.iter().map(|(field, value)| {
            (
                field.clone(),
                Edit {
                    value: Some(value.clone()),
                    edit: 0,
                },
            )
        });
        Self(Mutex::new(EditedFields {
            fields: fields.collect(),
            edit: 0,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, EditedFields> {
        locked(&self.0)
    }
}

fn change(value: Option<&Bytes>) -> Change {
    value.map_or(Change::Remove, |value| Change::Set(value.clone()))
}

impl Content for Fields {
    fn edit(&self) -> u64 {
        self.lock().edit
    }

    fn changed(&self, since: u64) -> Result<Option<ContentCopy>> {
        let edited = self.lock();
        if edited.edit <= since {
            return Ok(None);
        }
        let newer = edited.fields.iter().filter(|(_, edit)| edit.edit > since);
        let changes = newer
            .map(|(field, edit)| (field.clone(), change(edit.value.as_ref())))
            .collect();
        Ok(Some(ContentCopy::new(edited.edit, changes, edited.left())))
    }

    fn whole(&self, stored: &Record) -> Result<ContentCopy> {
        let edited = self.lock();
        let mut changes = Vec::new();
        for (field, edit) in &edited.fields {
            changes.push((field.clone(), change(edit.value.as_ref())));
        }
        for (field, _) in stored
            .iter()
            .filter(|(field, _)| !edited.fields.contains_key(*field))
        {
            changes.push((field.clone(), Change::Remove));
        }
        Ok(ContentCopy::new(edited.edit, changes, edited.left()))
    }
}

/// A session of an owner's fields. Only this process writes them. See [`Session`](super::Session)
/// for its guarantees.
///
/// ```
/// # storage_doc::with_bytes(async |bytes| {
/// use storage_sdk::{Kind, SessionOptions};
/// let room = bytes.owner("room", 7_u64)?;
/// let session = room.session(SessionOptions::default()).await?;
/// session.set("topic", "raid at nine")?;
/// session.save().await?;
/// assert_eq!(room.update([("topic", "cats")]).await.unwrap_err().kind(), Kind::Held);
/// assert_eq!(room.held_by().await?.is_some(), true);
///
/// session.remove("topic")?;
/// session.end().await?;
/// assert_eq!(room.get(["topic"]).await?.get("topic"), None);
/// # Ok(()) });
/// ```
pub struct ByteSession {
    handle: Handle,
    fields: Arc<Fields>,
    /// `limits.fields_max`. The session can save all of its fields in one call.
    fields_max: usize,
}

impl fmt::Debug for ByteSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ByteSession").field(&self.handle).finish()
    }
}

impl ByteSession {
    /// The value of a field, with all edits.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<Bytes> {
        let field = Field::new(field).ok()?;
        self.fields.lock().fields.get(&field)?.value.clone()
    }

    /// All fields with all edits, sorted by name.
    #[must_use]
    pub fn fields(&self) -> Vec<(Field, Bytes)> {
        self.fields.lock().live()
    }

    /// Sets a field in memory. The next save stores it.
    ///
    /// ```
    /// # storage_doc::with_bytes(async |bytes| {
    /// let room = bytes.owner("room", 7_u64)?.session(Default::default()).await?;
    /// room.set("topic", "raid at nine")?;
    /// room.set("seats", 40)?;
    /// assert_eq!(room.get("seats").as_deref(), Some(&b"40"[..]));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `Invalid`: the name is impossible, or the session would have more than `limits.fields_max`
    /// fields. `Fenced`: the session is lost. `Closing`: the session is ending, or has ended.
    pub fn set(&self, field: &str, value: impl Into<Value>) -> Result<()> {
        self.edit(field, Some(value.into().into_bytes()))
    }

    /// Removes a field in memory. The next save removes it from the owner.
    ///
    /// ```
    /// # storage_doc::with_bytes(async |bytes| {
    /// let owner = bytes.owner("room", 7_u64)?;
    /// owner.update([("topic", "raid at nine")]).await?;
    /// let room = owner.session(Default::default()).await?;
    /// room.remove("topic")?;
    /// assert!(room.fields().is_empty() && owner.exists().await?); // until the next save
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`ByteSession::set`].
    pub fn remove(&self, field: &str) -> Result<()> {
        self.edit(field, None)
    }

    fn edit(&self, field: &str, value: Option<Bytes>) -> Result<()> {
        let owner = self.handle.hold().owner();
        let field = Field::new(field).map_err(|error| Error::from(error).of(owner))?;
        let mut edited = self.fields.lock();
        // ORDER: under the lock. The last save copies the content after the session began to end.
        self.handle.hold().check_editable()?;
        if edited.fields.len() >= self.fields_max && !edited.fields.contains_key(&field) {
            let message = format!(
                "a session has at most {} fields (limits.fields_max), removed ones included",
                self.fields_max
            );
            return Err(Error::new(Kind::Invalid, message).of(owner));
        }
        edited.edit += 1;
        let edit = edited.edit;
        edited.fields.insert(field, Edit { value, edit });
        Ok(())
    }
}

impl ByteOwner {
    /// Starts a session of the owner. The owner need not exist yet.
    ///
    /// ```
    /// # storage_doc::with_bytes(async |bytes| {
    /// use storage_sdk::{Autosave, SessionOptions};
    /// let room = bytes.owner("room", 7_u64)?;
    /// let session = room.session(SessionOptions::default().autosave(Autosave::Off)).await?;
    /// session.set("topic", "raid at nine")?;
    /// session.end().await?;
    /// assert_eq!(room.get(["topic"]).await?["topic"].as_deref(), Some(&b"raid at nine"[..]));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Sessions::start`](super::Sessions::start). `Invalid`: the owner has more than
    /// `limits.fields_max` fields.
    ///
    /// # Cancel safety
    /// As [`Sessions::start`](super::Sessions::start).
    pub async fn session(&self, options: SessionOptions) -> Result<ByteSession> {
        let fields_max = self.core().limits.fields_max;
        let content = move |record: &Record| {
            if record.len() > fields_max {
                let message = format!(
                    "the owner has {} fields, and a session at most {fields_max} (limits.fields_max)",
                    record.len()
                );
                return Err(Error::new(Kind::Invalid, message));
            }
            Ok(Some(Arc::new(Fields::of(record))))
        };
        let (hold, fields) = self
            .core()
            .open_session(self.owner(), options, self.default_durability(), content)
            .await
            .map_err(|error| error.of(self.owner()))?
            .ok_or_else(|| Error::new(Kind::Corrupt, "a session has no fields").of(self.owner()))?;
        Ok(ByteSession {
            handle: Handle::new(hold, self.core()),
            fields,
            fields_max,
        })
    }

    /// The name of the server that holds the owner in a session. `None` if no session holds it. One
    /// round trip.
    ///
    /// ```
    /// # storage_doc::with_bytes(async |bytes| {
    /// let room = bytes.owner("room", 7_u64)?;
    /// assert_eq!(room.held_by().await?, None);
    /// let _session = room.session(Default::default()).await?;
    /// let server = room.held_by().await?.expect("this process holds it"); // players are sent there
    /// assert!(!server.is_empty());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// The hot tier is away. `Closed`: the storage was closed.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn held_by(&self) -> Result<Option<String>> {
        let held = async {
            let session = self
                .core()
                .tiers
                .hot()
                .sessions
                .sessions_of(std::slice::from_ref(self.owner()))
                .await
                .pop()
                .unwrap_or(Ok(None))?;
            Ok(session
                .filter(|session| !session.is_lapsed())
                .map(|session| session.name))
        };
        self.core()
            .while_open(held)
            .await
            .map_err(|error| error.of(self.owner()))
    }
}

super::handle::shared_by_sessions!(ByteSession);
