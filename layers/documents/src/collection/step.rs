//! Writes of several items of one collection in one step.
//!
//! The step needs the head as it was read, since each change has a revision of its own. So steps of one
//! collection wait for one another, and begin again if a single item changes in between.

use std::collections::HashSet;
use std::time::Duration;

use storage_sdk::{ByteOwner, Durability, Timestamp, Version};

use super::head::{COUNT, Head};
use super::items::with_id;
use super::post::{drawn, id_of, next_number};
use crate::attempts::Attempts;
use crate::edit::Edited;
use crate::event::Note;
use crate::history::{self, Keeping};
use crate::once::{Entry, id_in};
use crate::single::{edited, stored_value};
use crate::step::{ITEMS_MAX, ItemChange, collection_of};
use crate::stored::{BODY, Found, REVISION};
use crate::{Call, Changed, Documents, Error, Kind, Path, Result};

/// The item of a change, and its state before the step.
struct Target {
    path: Path,
    /// The number of an id that the step gives.
    number: Option<u64>,
    owner: ByteOwner,
    found: Found,
}

/// The collection before a change of the step.
#[derive(Clone, Copy)]
struct Before {
    revision: u64,
    count: u64,
    now: Timestamp,
}

/// A change that can be written, if the item has this version.
struct Ready {
    owner: ByteOwner,
    version: Version,
    value: Option<Vec<u8>>,
    note: Vec<u8>,
    keeping: Keeping,
    /// What comes of it, but for its version and its event.
    changed: Changed,
}

impl Ready {
    /// The bytes that the change writes.
    fn bytes(&self) -> usize {
        let parts = [
            self.value.as_deref(),
            Some(&self.note),
            self.keeping.value(),
        ];
        let parts = parts.into_iter().flatten().map(<[u8]>::len);
        parts.fold(0, usize::saturating_add)
    }
}

/// A step that can be written.
struct Step {
    changes: Vec<Ready>,
    now: Timestamp,
    /// By how much the number of items changes.
    more: i64,
    /// The number of the last id that it gives.
    last: Option<u64>,
}

/// What a step is written with.
struct StepWrite<'a> {
    collection: &'a Path,
    head: &'a ByteOwner,
    call: &'a Call,
    entry: Option<&'a Entry<'a>>,
}

impl Documents {
    /// Changes several items of one collection in one step: all of them, or none. Each change has a
    /// revision and an event of its own, in their order. The conditions of the call are those of the
    /// collection, and its time to live says nothing.
    ///
    /// A step takes up to [`ITEMS_MAX`](crate::step::ITEMS_MAX) items, each once, and as many bytes as
    /// the storage takes in one call (`limits.call_bytes_max`, 8 MiB by default).
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let storage = storage_sdk::Storage::embedded(folder.path().join("game.db")).await?;
    /// # let documents = storage_documents::Documents::new(&storage, "mygame", "eu-1")?;
    /// use storage_documents::step::ItemChange;
    /// use storage_documents::{Call, Conditions, Edit, Path};
    ///
    /// let change = |path: &str, gold: i32| {
    ///     Ok::<_, storage_documents::Error>(ItemChange {
    ///         path: Path::new(path)?,
    ///         edit: Edit::increment(format!(r#"{{"gold":{gold}}}"#).as_bytes())?,
    ///         conditions: Conditions::default(),
    ///         lives: None,
    ///     })
    /// };
    /// for purse in ["purses~/ann", "purses~/bob"] {
    ///     documents.put(&Path::new(purse)?, br#"{"gold":10}"#, &Call::default()).await?;
    /// }
    /// let pay = [change("purses~/ann", -7)?, change("purses~/bob", 7)?];
    /// let paid = documents.edit_together(&pay, &Call::default()).await?;
    /// assert_eq!((paid[0].revision, paid[1].revision), (3, 4));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of [`Documents::edit`] for one of the changes, whose number is [`Error::place`]. `Step`: the
    /// changes can't be made in one step. `BodyTooLarge`: they have too many bytes together.
    ///
    /// # Cancel safety
    /// The changes may or may not be made, all together.
    pub async fn edit_together(&self, changes: &[ItemChange], call: &Call) -> Result<Vec<Changed>> {
        let collection = collection_of(changes)?;
        let mut attempts = Attempts::begin(&collection, call);
        // Otherwise steps of this process would make each other begin again. One that waits for more
        // than Redis must not hold up the others.
        let turn = self.turns.of(&collection);
        let _turn = match call.durability {
            Durability::Cached => Some(attempts.turn(turn.lock()).await?),
            _ => None,
        };
        let owner = self.head_owner(collection.as_str())?;
        let entry = self.entry(collection.as_str(), &collection, call)?;
        let write = StepWrite {
            collection: &collection,
            head: &owner,
            call,
            entry: entry.as_ref(),
        };
        loop {
            let (head, left) = (self.head(collection.as_str()).await?, attempts.left()?);
            // ORDER: the head before the entry. A first call that ends in between changes its version.
            if let Some(done) = self.repeat_step(write.entry, &owner, left).await? {
                return Ok(done);
            }
            call.conditions.check(head.tag())?;
            let step = self.prepare(&write, &head, changes).await?;
            let sent = self.send_step(&write, &head, step, left);
            if let Some(done) = attempts.ended(sent.await).await? {
                return Ok(done);
            }
        }
    }

    /// Applies the changes to the items as they are.
    async fn prepare(
        &self,
        write: &StepWrite<'_>,
        head: &Head,
        changes: &[ItemChange],
    ) -> Result<Step> {
        let targets = self.targets(write.collection, head, changes).await?;
        let mut step = Step {
            changes: Vec::new(),
            now: self.clock.now(),
            more: 0,
            last: targets.iter().filter_map(|target| target.number).max(),
        };
        let mut before = Before {
            revision: head.revision,
            count: head.count.unwrap_or_default(),
            now: step.now,
        };
        for (at, (change, target)) in changes.iter().zip(targets).enumerate() {
            let ready = self.ready(change, target, head, before);
            let (ready, more) = ready.map_err(|error| error.at(at))?;
            before.revision = ready.changed.revision;
            before.count = ready.changed.count.unwrap_or_default();
            step.more = step.more.saturating_add(more);
            step.changes.push(ready);
        }
        let bytes = step.changes.iter().map(Ready::bytes);
        self.check_step(bytes.fold(0, usize::saturating_add))?;
        check_owners(&step, write.entry.is_some())?;
        Ok(step)
    }

    /// The items of the changes, as they are. A put of the collection gets the next id that is free.
    async fn targets(
        &self,
        collection: &Path,
        head: &Head,
        changes: &[ItemChange],
    ) -> Result<Vec<Target>> {
        let mut next = next_number(head, self.clock.now());
        loop {
            let named = self.named(collection, head, changes, next)?;
            let owners: Vec<ByteOwner> = named.iter().map(|(_, owner, _)| owner.clone()).collect();
            let reads = self.bytes.get_many(&owners, [BODY, history::FIELD]).await;
            let (mut targets, now) = (Vec::new(), self.clock.now());
            for ((path, owner, number), record) in named.into_iter().zip(reads) {
                let found = Found::of(&record?, now)?;
                targets.push(Target {
                    path,
                    number,
                    owner,
                    found,
                });
            }
            let is_taken = |target: &&Target| target.number.is_some() && target.found.is_stored;
            let taken = targets.iter().filter(is_taken);
            match taken.filter_map(|target| target.number).max() {
                Some(taken) => next = taken.saturating_add(1),
                None => return Ok(targets),
            }
        }
    }

    /// The paths and the owners of the changes, with new ids from a number on.
    fn named(
        &self,
        collection: &Path,
        head: &Head,
        changes: &[ItemChange],
        mut next: u64,
    ) -> Result<Vec<(Path, ByteOwner, Option<u64>)>> {
        let given: HashSet<&Path> = changes.iter().map(|change| &change.path).collect();
        let mut named = Vec::new();
        for change in changes {
            let (mut path, mut number) = (change.path.clone(), None);
            while given.contains(&path) && (number.is_some() || path == *collection) {
                path = Path::item(collection.as_str(), &id_of(next))?;
                number = Some(next);
                next = next.saturating_add(1);
            }
            let owner = self.item_owner(collection.as_str(), head.present(), id_in(&path))?;
            named.push((path, owner, number));
        }
        Ok(named)
    }

    /// A change with all that it writes, and by how much the number of items changes.
    fn ready(
        &self,
        change: &ItemChange,
        target: Target,
        head: &Head,
        before: Before,
    ) -> Result<(Ready, i64)> {
        let (found, path, now) = (&target.found, &target.path, before.now);
        let call = Call {
            conditions: change.conditions.clone(),
            lives: change.lives,
            ..Call::default()
        };
        let edited = edited_of(change, &target, head, &call)?;
        let texts = edited.texts()?;
        let value = stored_value(found, (&edited, &texts), &call, now)?;
        let more = i64::from(value.is_some()) - i64::from(found.is_stored);
        let revision = before.revision.saturating_add(1);
        let count = before.count.saturating_add_signed(more);
        let keeping = self.keeping(path, &target.owner, found, &texts, revision, now)?;
        let note = Note::of(texts.method, now, texts.told()).with_item(id_in(path), found.version);
        let note = note.with_revision(revision).with_count(count).to_bytes()?;
        self.check_sizes(&texts, value.as_deref(), &note, keeping.value())?;
        let changed = Changed {
            path: path.clone(),
            revision,
            version: Version::ZERO,
            created: found.document.is_none(),
            count: Some(count),
            body: texts.into_body(),
            event: None,
            is_repeat: false,
        };
        let ready = Ready {
            owner: target.owner,
            version: target.found.version,
            value,
            note,
            keeping,
            changed,
        };
        Ok((ready, more))
    }

    /// Writes head, items and events in one step, if all of them are as they were read.
    async fn send_step(
        &self,
        write: &StepWrite<'_>,
        head: &Head,
        step: Step,
        left: Duration,
    ) -> Result<Vec<Changed>> {
        let revisions = i64::try_from(step.changes.len()).unwrap_or(i64::MAX);
        let mut sent = self.world.transaction().owner(write.head, |part| {
            let part = part.add(REVISION, revisions).add(COUNT, step.more);
            let part = match step.last {
                Some(number) => drawn(head, part, number),
                None => part,
            };
            // The revisions and counts of the events are those behind this version.
            head.unchanged(part).if_version(head.version)
        });
        let (mut owners, mut changes) = (Vec::new(), Vec::new());
        for ready in step.changes {
            sent = sent.owner(&ready.owner, |part| {
                let part = match ready.value {
                    Some(value) => part.set(BODY, value),
                    None => part.remove(BODY),
                };
                let part = ready.keeping.count(part).if_version(ready.version);
                part.note(ready.note)
            });
            sent = ready.keeping.join(sent);
            owners.push(ready.owner);
            changes.push(ready.changed);
        }
        if let Some(entry) = write.entry {
            sent = entry.join_step(sent, &changes, step.now)?;
        }
        let receipt = sent
            .durability(write.call.durability)
            .deadline(left)
            .await?;
        for (owner, changed) in owners.iter().zip(&mut changes) {
            let counters = receipt.of(owner);
            let position = counters.and_then(|counters| counters.ack().position());
            changed.version = receipt.version();
            changed.event = position.map(|position| (owner.partition().0, position));
        }
        if let Some(entry) = write.entry {
            entry.keep_step(&changes, step.now).await;
        }
        Ok(changes)
    }
}

/// The change of an item. The conditions of an item under a new id are those of its collection.
fn edited_of<'a>(
    change: &'a ItemChange,
    target: &Target,
    head: &Head,
    call: &Call,
) -> Result<Edited<'a>> {
    let edited = if target.number.is_some() {
        call.conditions.check(head.tag())?;
        change.edit.of(None)?
    } else {
        edited(&target.path, &target.found, &change.edit, call)?
    };
    with_id(edited, &target.path, id_in(&target.path))
}

/// Checks that a transaction of the storage takes so many owners: the head, the items, their kept
/// versions, and the entry of a key.
fn check_owners(step: &Step, has_key: bool) -> Result<()> {
    let kept = step
        .changes
        .iter()
        .filter(|ready| ready.keeping.value().is_some())
        .count();
    let items = step.changes.len();
    let most = ITEMS_MAX.saturating_sub(usize::from(has_key));
    if items.saturating_add(kept) <= most {
        return Ok(());
    }
    let message = format!(
        "the step changes {items} items, and keeps versions of {kept}, each of which counts once more; a step has room for {ITEMS_MAX}, \
         and for {} with an idempotency key, so send several steps",
        ITEMS_MAX - 1
    );
    Err(Error::new(Kind::Step, message))
}
