//! Posts: new items and documents whose ids the storage gives.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use storage_coalesce::locked;
use storage_sdk::{Durability, Part, Timestamp};
use tokio::sync::OwnedMutexGuard;

use super::head::{Head, LAST};
use super::items::{ItemWrite, with_id};
use crate::attempts::Attempts;
use crate::condition::Tags;
use crate::edit::Edit;
use crate::once::Entry;
use crate::{Call, Changed, Conditions, Documents, Error, Kind, Path, Place, Result};

/// The digits of ids: in the order of their bytes.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// The length of an id. Enough for any number below 2^55.
const LENGTH: usize = 11;

/// An id that grows with the number, compared as text.
pub(crate) fn id_of(number: u64) -> String {
    let digit = |place: usize| {
        let bits = u32::try_from(place.saturating_mul(5)).unwrap_or(u32::MAX);
        let digit = number.checked_shr(bits).unwrap_or_default() & 31;
        let digit = usize::try_from(digit).unwrap_or_default();
        DIGITS.get(digit).copied().map_or('0', char::from)
    };
    (0..LENGTH).rev().map(digit).collect()
}

/// Posts and steps of one collection in this process, one after the other. Otherwise posts would draw the
/// same id, and all but one would have to begin again.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// Waits for the turn of a call. One that waits for more than Redis must not hold up the others, so
    /// it has none.
    pub(super) async fn take(
        &self,
        path: &Path,
        call: &Call,
        attempts: &Attempts<'_>,
    ) -> Result<Option<OwnedMutexGuard<()>>> {
        match call.durability {
            Durability::Cached => attempts.turn(self.of(path).lock_owned()).await.map(Some),
            _ => Ok(None),
        }
    }

    fn of(&self, path: &Path) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = locked(&self.0);
        if let Some(turn) = turns.get(path.as_str()).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(path.as_str().to_owned(), Arc::downgrade(&turn));
        turn
    }
}

impl Documents {
    /// Adds an item to a collection, or a document below a path, under a new id. The body is an
    /// object, whose member `id` becomes that id.
    ///
    /// The ids of a collection's items grow in the order of their commits. So a reader that asks for
    /// greater ids than its last one misses no item.
    ///
    /// # Errors
    /// As [`Documents::put`]. `Collection`: the path names an item.
    ///
    /// # Cancel safety
    /// As [`Documents::edit`].
    pub async fn post(&self, path: &Path, body: &[u8], call: &Call) -> Result<Changed> {
        let edit = Edit::put(body)?;
        match path.place() {
            Place::Collection => self.post_item(path, &edit, call).await,
            Place::Document => self.post_document(path, &edit, call).await,
            Place::Item { .. } => {
                let message = format!("{path} is an item; post to its collection");
                Err(Error::new(Kind::Collection, message))
            }
        }
    }

    async fn post_item(&self, path: &Path, edit: &Edit, call: &Call) -> Result<Changed> {
        let (collection, attempts) = (path.as_str(), Attempts::begin(path, call));
        let _turn = self.turns.take(path, call, &attempts).await?;
        let owner = self.head_owner(collection)?;
        let entry = self.entry(collection, path, call)?;
        loop {
            let (head, left) = (self.head(collection).await?, attempts.left()?);
            // ORDER: the head before the entry. A first call that ends in between has drawn an id.
            let entry = entry.as_ref();
            if let Some(done) = self.repeat(entry, &owner, head.revision, left).await? {
                return Ok(done);
            }
            call.conditions.check(head.tag())?;
            let sent = self.draw(path, edit, &head, call, entry, left);
            if let Some(Some(done)) = attempts.ended(sent.await).await? {
                return Ok(done);
            }
        }
    }

    /// Draws the next id of a collection, and adds the item under it. `None` if somebody has put an
    /// item under that id.
    async fn draw(
        &self,
        path: &Path,
        edit: &Edit,
        head: &Head,
        call: &Call,
        entry: Option<&Entry<'_>>,
        left: Duration,
    ) -> Result<Option<Changed>> {
        let (collection, now) = (path.as_str(), self.clock.now());
        let number = next_number(head, now);
        let id = id_of(number);
        let item = Path::item(collection, &id)?;
        let (_, found) = self.find_item(collection, &id).await?;
        if found.is_stored {
            self.skip_id(head, collection, number, left).await?;
            return Ok(None);
        }
        let edited = with_id(edit.of(None)?, &item, &id)?;
        let of_head = |part: Part| {
            let part = head.unchanged(drawn(head, part, number));
            let is_conditional = call.conditions != Conditions::default();
            match is_conditional {
                true => part.if_version(head.version),
                false => part,
            }
        };
        let write = ItemWrite {
            path: &item,
            collection,
            id: &id,
            call,
            entry,
        };
        let sent = self.send_item(&write, head, &found, edited, left, of_head);
        sent.await.map(Some)
    }

    /// Leaves an id out. Another writer that was faster did the same.
    async fn skip_id(
        &self,
        head: &Head,
        collection: &str,
        number: u64,
        left: Duration,
    ) -> Result<()> {
        let owner = self.head_owner(collection)?;
        let write = owner.transaction(|part| drawn(head, part, number));
        match write.deadline(left).await {
            Err(error) if !error.is_conflict() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// A document below a path. Its id is the time, or the number of the key, or the next free one. So a
    /// repeat finds the document that the first call made.
    async fn post_document(&self, path: &Path, edit: &Edit, call: &Call) -> Result<Changed> {
        if call.conditions != Conditions::default() {
            let message = "a document below a path is posted without If-Match and If-None-Match";
            return Err(Error::new(Kind::Tags, message));
        }
        let call = Call {
            conditions: Conditions {
                if_match: None,
                if_none_match: Some(Tags::Any),
            },
            ..call.clone()
        };
        let of_key = call.once.as_ref().map(|once| once.number(path));
        let mut number = of_key.unwrap_or(self.clock.now().0);
        loop {
            let id = id_of(number);
            let document = Path::item(path.as_str(), &id)?;
            let with_id = edit.clone().with_id(&id)?;
            match self.edit_document(&document, &with_id, &call).await {
                Err(error) if matches!(error.kind(), Kind::Condition(_)) => {
                    number = number.saturating_add(1);
                }
                done => return done,
            }
        }
    }
}

/// The number of the next id: the time, or more than any that was given before.
pub(super) fn next_number(head: &Head, now: Timestamp) -> u64 {
    let next = head.last.map_or(0, |last| last.saturating_add(1));
    next.max(now.0 / 1_000)
}

/// The part of a head that gives a number, unless another writer gave one since.
pub(super) fn drawn(head: &Head, part: Part, number: u64) -> Part {
    let part = match head.last {
        Some(last) => part.if_equal(LAST, last.to_string()),
        None => part.if_missing(LAST),
    };
    part.set(LAST, number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_with_their_numbers() {
        let numbers = [
            0,
            1,
            31,
            32,
            1_700_000_000_000,
            1_700_000_000_001,
            (1 << 55) - 1,
        ];
        let ids: Vec<String> = numbers.into_iter().map(id_of).collect();
        assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
        assert!(ids.iter().all(|id| id.len() == LENGTH));
    }
}
