//! Writes of several items of one collection in one step.
//!
//! The step needs the head as it was read, since each change has a revision of its own. So it begins again
//! if another item changes in between.

use std::collections::HashSet;
use std::time::Duration;

use storage_sdk::{ByteOwner, Bytes, Part, Receipt, Timestamp, Transaction, Version};

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
use crate::stored::{BODY, PathState, REVISION};
use crate::{Call, Changed, Documents, Error, Kind, Path, Result};

/// The item of a change, and its state before the step.
struct Target {
    path: Path,
    /// The number of an id that the step gives.
    number: Option<u64>,
    owner: ByteOwner,
    found: PathState,
}

/// A change that can be written, if the item has this version.
struct Ready {
    owner: ByteOwner,
    version: Version,
    value: Option<Vec<u8>>,
    note: Vec<u8>,
    keeping: Keeping,
    /// By how much the number of items changes.
    more: i64,
    /// What comes of it, but for its version and its event.
    changed: Changed,
}

/// The place of a change in its step.
struct StepPlace {
    /// The revision of the collection that it makes.
    revision: u64,
    /// The items of the collection before it.
    count: u64,
    now: Timestamp,
}

/// A step that can be written.
struct Step {
    changes: Vec<Ready>,
    now: Timestamp,
    /// The number of the last id that it gives.
    last: Option<u64>,
}

/// What a step is written with.
struct StepWrite<'a> {
    head: ByteOwner,
    call: &'a Call,
    entry: Option<&'a Entry<'a>>,
}

impl Documents {
    /// Changes several items of one collection in one step: all of them, or none. Each change has a
    /// revision and an event of its own, in their order. The conditions of the call are those of the
    /// collection, and its time to live says nothing.
    ///
    /// A step takes up to [`ITEMS_MAX`] items, each once, and as many bytes as
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
        let attempts = Attempts::begin(&collection, call);
        let entry = self.entry(collection.as_str(), &collection, call)?;
        let write = StepWrite {
            head: self.head_owner(collection.as_str())?,
            call,
            entry: entry.as_ref(),
        };
        loop {
            // Otherwise posts and steps of this process would make each other begin again. Each attempt has a
            // turn of its own, so a step that begins again and again holds up nobody.
            let _turn = self.turns.take(&collection, call, &attempts).await?;
            let (head, left) = (self.head(collection.as_str()).await?, attempts.left()?);
            let targets = self.targets(&collection, &head, changes).await?;
            // ORDER: head and items before the entry. A first call that ends in between changes the
            // version of the head.
            if let Some(done) = self.repeat_step(write.entry, &write.head, left).await? {
                return Ok(done);
            }
            call.conditions.check(head.tag())?;
            let step = self.prepare(&write, &head, changes, targets)?;
            let sent = self.send_step(&write, &head, step, left);
            if let Some(done) = attempts.ended(sent.await).await? {
                return Ok(done);
            }
        }
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
            let mut targets = self.named(collection, head, changes, next)?;
            match self.read_targets(&mut targets).await? {
                Some(taken) => next = taken.saturating_add(1),
                None => return Ok(targets),
            }
        }
    }

    /// Reads the items. Returns the last number whose id is taken.
    async fn read_targets(&self, targets: &mut [Target]) -> Result<Option<u64>> {
        let owners: Vec<ByteOwner> = targets.iter().map(|one| one.owner.clone()).collect();
        let reads = self.bytes.get_many(&owners, [BODY, history::FIELD]).await;
        let mut taken = None;
        for (target, record) in targets.iter_mut().zip(reads) {
            target.found = PathState::of(&record?, self.clock.now())?;
            let is_taken = target.found.is_stored;
            taken = taken.max(target.number.filter(|_| is_taken));
        }
        Ok(taken)
    }

    /// The items of the changes before they are read, with new ids from a number on.
    fn named(
        &self,
        collection: &Path,
        head: &Head,
        changes: &[ItemChange],
        mut next: u64,
    ) -> Result<Vec<Target>> {
        let given: HashSet<&Path> = changes.iter().map(|change| &change.path).collect();
        let mut targets = Vec::new();
        for change in changes {
            let (mut path, mut number) = (change.path.clone(), None);
            // An id that another change of the step names is left out.
            while path == *collection || number.is_some() && given.contains(&path) {
                path = Path::item(collection.as_str(), &id_of(next))?;
                number = Some(next);
                next = next.saturating_add(1);
            }
            targets.push(Target {
                owner: self.item_owner(collection.as_str(), head.present(), id_in(&path))?,
                found: PathState::default(),
                path,
                number,
            });
        }
        Ok(targets)
    }

    /// Applies the changes to the items as they are.
    fn prepare(
        &self,
        write: &StepWrite<'_>,
        head: &Head,
        changes: &[ItemChange],
        targets: Vec<Target>,
    ) -> Result<Step> {
        let mut step = Step::at(self.clock.now(), &targets);
        let mut at = StepPlace {
            revision: head.revision,
            count: head.count.unwrap_or_default(),
            now: step.now,
        };
        for (place, (change, target)) in changes.iter().zip(targets).enumerate() {
            at.revision = at.revision.saturating_add(1);
            let ready = self
                .ready(change, target, head, &at)
                .map_err(|error| error.at(place))?;
            at.count = ready.changed.count.unwrap_or_default();
            step.changes.push(ready);
        }
        self.check_step(step.bytes())?;
        check_owners(&step, write.entry.is_some())?;
        Ok(step)
    }

    /// A change with all that it writes.
    fn ready(
        &self,
        change: &ItemChange,
        target: Target,
        head: &Head,
        at: &StepPlace,
    ) -> Result<Ready> {
        let (revision, now) = (at.revision, at.now);
        let call = Call {
            conditions: change.conditions.clone(),
            lives: change.lives,
            ..Call::default()
        };
        let (found, path) = (&target.found, &target.path);
        let edited = edited_of(change, &target, head, &call)?;
        let texts = edited.texts()?;
        let value = stored_value(found, &edited, &texts, &call, now)?;
        let more = i64::from(value.is_some()) - i64::from(found.is_stored);
        let count = at.count.saturating_add_signed(more);
        let keeping = self.keeping(path, &target.owner, found, &texts, revision, now)?;
        let note = Note::of(texts.method, now, texts.told())
            .with_item(id_in(path), found.version)
            .with_revision(revision)
            .with_count(count)
            .to_bytes()?;
        self.check_sizes(&texts, value.as_deref(), &note, keeping.value())?;
        Ok(Ready {
            version: found.version,
            changed: target.changed(revision, count, texts.into_body()),
            owner: target.owner,
            value,
            note,
            keeping,
            more,
        })
    }

    /// Writes head, items and events in one step, if all of them are as they were read.
    async fn send_step(
        &self,
        write: &StepWrite<'_>,
        head: &Head,
        step: Step,
        left: Duration,
    ) -> Result<Vec<Changed>> {
        let mut transaction = self
            .world
            .transaction()
            .owner(&write.head, |part| step.of_head(head, part));
        let (mut owners, mut changes) = (Vec::new(), Vec::new());
        for ready in step.changes {
            let (with, owner, changed) = ready.join(transaction);
            transaction = with;
            owners.push(owner);
            changes.push(changed);
        }
        if let Some(entry) = write.entry {
            transaction = entry.join_step(transaction, &changes, step.now)?;
        }
        let receipt = transaction
            .durability(write.call.durability)
            .deadline(left)
            .await?;
        for (owner, changed) in owners.iter().zip(&mut changes) {
            acknowledge(changed, owner, &receipt);
        }
        if let Some(entry) = write.entry {
            entry.keep_step(&changes, step.now).await;
        }
        Ok(changes)
    }
}

impl Target {
    /// What comes of its change, but for version and event.
    fn changed(&self, revision: u64, count: u64, body: Option<Bytes>) -> Changed {
        Changed {
            path: self.path.clone(),
            revision,
            version: Version::ZERO,
            created: self.found.document.is_none(),
            count: Some(count),
            body,
            event: None,
            is_repeat: false,
        }
    }
}

impl Ready {
    /// Adds the change to a step.
    fn join(self, step: Transaction) -> (Transaction, ByteOwner, Changed) {
        let step = step.owner(&self.owner, |part| {
            let part = match self.value {
                Some(value) => part.set(BODY, value),
                None => part.remove(BODY),
            };
            let part = self.keeping.count(part).if_version(self.version);
            part.note(self.note)
        });
        (self.keeping.join(step), self.owner, self.changed)
    }

    /// The bytes that the change writes.
    fn bytes(&self) -> usize {
        let texts = [
            self.value.as_deref(),
            Some(&self.note),
            self.keeping.value(),
        ];
        let sizes = texts.into_iter().flatten().map(<[u8]>::len);
        sizes.fold(0, usize::saturating_add)
    }
}

impl Step {
    /// A step that has no change yet.
    fn at(now: Timestamp, targets: &[Target]) -> Self {
        Self {
            changes: Vec::new(),
            now,
            last: targets.iter().filter_map(|target| target.number).max(),
        }
    }

    fn bytes(&self) -> usize {
        let bytes = self.changes.iter().map(Ready::bytes);
        bytes.fold(0, usize::saturating_add)
    }

    /// The part of the head. The revisions and counts of the events are those behind the version that
    /// was read.
    fn of_head(&self, head: &Head, part: Part) -> Part {
        let revisions = i64::try_from(self.changes.len()).unwrap_or(i64::MAX);
        let more = self.changes.iter().map(|change| change.more);
        let counted = part
            .add(REVISION, revisions)
            .add(COUNT, more.fold(0, i64::saturating_add));
        let part = match self.last {
            Some(number) => drawn(head, counted, number),
            None => counted,
        };
        head.unchanged(part).if_version(head.version)
    }
}

/// Completes a change that was made.
fn acknowledge(changed: &mut Changed, owner: &ByteOwner, receipt: &Receipt) {
    let counters = receipt.of(owner);
    let position = counters.and_then(|counters| counters.ack().position());
    changed.version = receipt.version();
    changed.event = position.map(|position| (owner.partition().0, position));
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
        .filter_map(|one| one.keeping.value())
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
