//! The head of a collection, and where its items are.

use std::collections::HashMap;
use std::sync::Mutex;

use storage_coalesce::locked;
use storage_sdk::{ByteOwner, Field, Owner, Part, Record, Version};

use crate::history;
use crate::stored::{BODY, DOCUMENT, HEAD, ITEM, PathState, REVISION, counter};
use crate::{Documents, Path, Result, Tag};

/// The field of the generation.
pub(crate) const GENERATION: &str = "gen";
/// The field of the number of items. A deleted collection has none.
pub(crate) const COUNT: &str = "count";
/// The field of the last id that a post gave.
pub(crate) const LAST: &str = "last";
/// The most hints that are kept.
const HINTS_MAX: usize = 10_000;

/// The state of a collection.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    /// The generation of the items. 0 before the first item.
    pub(crate) generation: u64,
    pub(crate) revision: u64,
    /// The number of items. `None` if there is no collection.
    pub(crate) count: Option<u64>,
    /// The last id that a post gave.
    pub(crate) last: Option<u64>,
    pub(crate) version: Version,
}

/// The generation of collections that were used lately. A hint only: the head is always read, too.
#[derive(Debug, Default)]
pub(crate) struct Generations(Mutex<HashMap<String, u64>>);

impl Generations {
    fn hint(&self, collection: &str) -> u64 {
        let known = locked(&self.0);
        known.get(collection).copied().unwrap_or(1)
    }

    fn learn(&self, collection: &str, generation: u64) {
        if self.hint(collection) == generation {
            return;
        }
        let mut known = locked(&self.0);
        if known.len() >= HINTS_MAX {
            known.clear();
        }
        known.insert(collection.to_owned(), generation);
    }
}

impl Head {
    pub(crate) fn of(record: &Record) -> Result<Self> {
        Ok(Self {
            generation: counter(record, GENERATION)?.unwrap_or_default(),
            revision: counter(record, REVISION)?.unwrap_or_default(),
            count: counter(record, COUNT)?,
            last: counter(record, LAST)?,
            version: record.version(),
        })
    }

    /// The generation of items that are written now.
    pub(crate) fn present(&self) -> u64 {
        self.generation.max(1)
    }

    /// The tag of the collection, if there is one.
    pub(crate) fn tag(&self) -> Option<Tag> {
        self.count.map(|_| Tag::of(self.version))
    }

    /// The condition that the collection has not changed at all since.
    pub(crate) fn at_revision(&self, part: Part) -> Part {
        if self.revision == 0 {
            part.if_missing(REVISION)
        } else {
            part.if_equal(REVISION, self.revision.to_string())
        }
    }

    /// The condition that the collection was not deleted since.
    pub(crate) fn unchanged(&self, part: Part) -> Part {
        if self.generation == 0 {
            part.if_missing(GENERATION).set(GENERATION, "1")
        } else {
            part.if_equal(GENERATION, self.generation.to_string())
        }
    }
}

/// The id of a document and of the head of a collection: the tag of its group.
pub(crate) fn head_id(collection: &str) -> String {
    format!("{{{collection}}}")
}

/// The document or the collection that the id of an owner of its group names.
pub(crate) fn collection_of(id: &str) -> Option<&str> {
    Some(id.strip_prefix('{')?.split_once('}')?.0)
}

/// The texts before the first and behind the last id of a generation's items.
pub(crate) fn ids_of(collection: &str, generation: u64) -> (String, String) {
    // 0 is the character behind the slash.
    let of = |end| format!("{}{generation}{end}", head_id(collection));
    (of('/'), of('0'))
}

/// The path of the document, the item or the collection that an owner keeps.
pub(crate) fn path_of(owner: &Owner) -> Option<Path> {
    let id = owner.id();
    match owner.logic_type() {
        DOCUMENT | HEAD => Path::new(collection_of(id)?).ok(),
        ITEM => Path::item(collection_of(id)?, item_of(id)?).ok(),
        _ => None,
    }
}

/// The generation of an item's owner.
pub(crate) fn generation_of(id: &str) -> Option<u64> {
    id.split_once('}')?.1.split_once('/')?.0.parse().ok()
}

/// The item of an owner's id.
pub(crate) fn item_of(id: &str) -> Option<&str> {
    Some(id.split_once('}')?.1.split_once('/')?.1)
}

impl Documents {
    pub(crate) fn head_owner(&self, collection: &str) -> Result<ByteOwner> {
        Ok(self.bytes.owner(HEAD, head_id(collection))?)
    }

    pub(crate) fn item_owner(
        &self,
        collection: &str,
        generation: u64,
        id: &str,
    ) -> Result<ByteOwner> {
        let (before, _) = ids_of(collection, generation);
        Ok(self.bytes.owner(ITEM, before + id)?)
    }

    /// The state of a collection.
    pub(crate) async fn head(&self, collection: &str) -> Result<Head> {
        let fields = [GENERATION, REVISION, COUNT, LAST];
        let head = Head::of(&self.head_owner(collection)?.get(fields).await?)?;
        self.generations.learn(collection, head.present());
        Ok(head)
    }

    /// The generation of a collection in the database. 0 if it has none there.
    pub(crate) async fn landed_generation(&self, collection: &str) -> Result<u64> {
        let owner = self.head_owner(collection)?;
        let field = Field::new(GENERATION).map_err(storage_sdk::Error::from)?;
        let rows = self.cold.fields(owner.owner(), &[field]).await?;
        let value = rows.first().and_then(|row| row.cell.live());
        let number = value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
        Ok(number.unwrap_or_default())
    }

    /// The state of an item and of its collection. One round trip, unless the collection was deleted
    /// lately.
    pub(crate) async fn find_item(&self, collection: &str, id: &str) -> Result<(Head, PathState)> {
        let guess = self.generations.hint(collection);
        let owners = [
            self.head_owner(collection)?,
            self.item_owner(collection, guess, id)?,
        ];
        let fields = [GENERATION, REVISION, COUNT, LAST, BODY, history::FIELD];
        let mut read = self.bytes.get_many(&owners, fields).await.into_iter();
        let (Some(head), Some(item)) = (read.next(), read.next()) else {
            return Err(unanswered());
        };
        let (head, now) = (Head::of(&head?)?, self.clock.now());
        if head.present() == guess {
            return Ok((head, PathState::of(&item?, now)?));
        }
        self.generations.learn(collection, head.present());
        let owner = self.item_owner(collection, head.present(), id)?;
        let item = owner.get([BODY, history::FIELD]).await?;
        Ok((head, PathState::of(&item, now)?))
    }
}

fn unanswered() -> crate::Error {
    crate::Error::new(crate::Kind::Corrupt, "a read of two owners answered less")
}
