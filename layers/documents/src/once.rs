//! Calls that are carried out once, however often they are sent.
//!
//! A call with a key leaves an entry, in the step of its change. So a repeat finds the entry if and only
//! if the change was made, even after Redis was lost or the process has ended. Each entry is an owner of
//! its own, in the group of what has changed. So no other call pushes it out, and it lands with its
//! document and with no other one.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use storage_sdk::feed::Position;
use storage_sdk::{ByteOwner, Durability, Record, Timestamp, Transaction, Version};

use crate::collection::{head_id, id_of};
use crate::stored::{BODY, KEY};
use crate::{Call, Changed, Documents, Error, Kind, Path, Result};

/// How long a call is remembered.
pub const REMEMBERED_FOR: Duration = Duration::from_hours(24);
/// The most bytes of a key.
pub const KEY_BYTES_MAX: usize = 255;

/// The field of an entry. The sweeper finds entries as it finds documents.
const DONE: &str = BODY;
/// The field of the answer, which is known only behind the step.
const ANSWER: &str = "a";
/// The time for the answer to be written. A repeat without it has no transaction.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The key of a call, and what the call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    key: String,
    request: String,
}

impl Once {
    /// A key of the caller's choice, and all that the request asks for: method, path and body. The
    /// same key with another request is an error.
    ///
    /// # Errors
    /// `Key`: the key is empty or longer than 255 bytes.
    pub fn new(key: &str, request: &[&[u8]]) -> Result<Self> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            let message = format!(
                "the idempotency key has {} bytes; send 1 to {KEY_BYTES_MAX}",
                key.len()
            );
            return Err(Error::new(Kind::Key, message));
        }
        Ok(Self {
            key: digest(&[key.as_bytes()]),
            request: digest(request),
        })
    }
}

/// SHA-256 over parts, each behind its length.
fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// The first half of [`hash`].
fn digest(parts: &[&[u8]]) -> String {
    let half = hash(parts).into_iter().take(16);
    half.map(|byte| format!("{byte:02x}")).collect()
}

impl Once {
    /// A number that the key gives to a path.
    pub(crate) fn number(&self, path: &Path) -> u64 {
        let hash = hash(&[path.as_str().as_bytes(), self.key.as_bytes()]);
        let first = hash.first_chunk().copied().unwrap_or_default();
        // As many bits as an id has.
        u64::from_be_bytes(first) >> 9
    }
}

/// A call that was carried out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct DoneCall {
    /// The digest of the key, and that of the request.
    k: String,
    q: String,
    /// When it was carried out: milliseconds since 1970.
    t: u64,
    /// Whether it created the document.
    c: bool,
    /// The revision that it made, if that was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    r: Option<u64>,
    /// The id that it gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    i: Option<String>,
    /// The changes of a step, of which the first has the revision.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    s: Vec<StepChange>,
}

/// A change of a step: the item's id, whether it was created, and the number of items since then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StepChange {
    i: String,
    c: bool,
    n: Option<u64>,
}

/// What the answer of a call had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    /// The time of the call. An answer of another time is that of an earlier call.
    t: u64,
    /// The version and the revision.
    v: u64,
    r: u64,
    /// The number of items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    n: Option<u64>,
    /// The place of the event: epoch and number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    e: Option<(u64, u64)>,
    /// The places of the events of a step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    s: Vec<(u64, u64)>,
}

impl DoneCall {
    fn is_old(&self, now: Timestamp) -> bool {
        let done = Timestamp(self.t.saturating_mul(1_000));
        now.since(done) > REMEMBERED_FOR
    }
}

/// The entry of a call.
pub(crate) struct Entry<'a> {
    call: &'a Call,
    once: &'a Once,
    /// The path that was called.
    path: &'a Path,
    owner: ByteOwner,
}

impl Documents {
    /// The entry of a call, in the group of what changes. `None` if the call has no key.
    pub(crate) fn entry<'a>(
        &self,
        group: &str,
        path: &'a Path,
        call: &'a Call,
    ) -> Result<Option<Entry<'a>>> {
        let Some(once) = &call.once else {
            return Ok(None);
        };
        let id = head_id(group) + &id_of(once.number(path));
        let owner = self.bytes.owner(KEY, id)?;
        Ok(Some(Entry {
            call,
            once,
            path,
            owner,
        }))
    }

    /// What an earlier call with this key has done, if there was one. The change is as safe as this call
    /// asks.
    ///
    /// The caller has read what it changes before, with its revision. So of two calls that find no entry,
    /// one finds another version.
    ///
    /// # Errors
    /// `KeyReused`: the earlier call asked for something else. `Unsafe`. `Lost`.
    pub(crate) async fn repeat(
        &self,
        entry: Option<&Entry<'_>>,
        changed: &ByteOwner,
        revision: u64,
        left: Duration,
    ) -> Result<Option<Changed>> {
        let Some(entry) = entry else { return Ok(None) };
        let made = self.made(entry, changed, left).await?;
        made.map(|(record, done)| entry.answered(&record, &done, revision))
            .transpose()
    }

    /// As [`Documents::repeat`], of a step.
    pub(crate) async fn repeat_step(
        &self,
        entry: Option<&Entry<'_>>,
        head: &ByteOwner,
        left: Duration,
    ) -> Result<Option<Vec<Changed>>> {
        let Some(entry) = entry else { return Ok(None) };
        let made = self.made(entry, head, left).await?;
        made.map(|(record, done)| entry.answered_step(&record, &done))
            .transpose()
    }

    /// The earlier call of a key, once its change is as safe as this call asks.
    async fn made(
        &self,
        entry: &Entry<'_>,
        changed: &ByteOwner,
        left: Duration,
    ) -> Result<Option<(Record, DoneCall)>> {
        let read = async || {
            let record = entry.owner.get([DONE, ANSWER]).await?;
            let done = entry.done(&record, self.clock.now())?;
            Ok::<_, Error>(done.map(|done| (record, done)))
        };
        let found = read().await?;
        if found.is_none() || entry.call.durability == Durability::Cached {
            return Ok(found);
        }
        // Repeats are rare, so the futures of writes stay small without this one.
        Box::pin(self.secure(changed, entry.call.durability, left)).await?;
        // ORDER: the entry again. If Redis has lost it meanwhile, it has lost the change, and nothing was
        // left to be made safe.
        match read().await? {
            None => Err(lost()),
            found => Ok(found),
        }
    }

    /// Makes all earlier changes of an owner as safe as a call asks.
    ///
    /// # Errors
    /// `Unsafe`: they are not that safe in time. `Storage`: the storage can't give this durability.
    pub(crate) async fn secure(
        &self,
        owner: &ByteOwner,
        durability: Durability,
        left: Duration,
    ) -> Result<()> {
        let sent = match durability {
            Durability::Cached => return Ok(()),
            Durability::Landed { timeout } => self.land(owner, timeout).await,
            // What the server has copied or synced, it has with all that came before.
            _ => self.write_behind(owner, durability, left).await,
        };
        sent.map_err(|error| match error.kind() {
            Kind::Storage(storage) if storage.kind() == storage_sdk::Kind::Durability => error,
            _ => Error::new(Kind::Unsafe, format!("an earlier call has made the change, which is not as safe yet as this one asks: {error}")),
        })
    }

    /// Writes into the partition of an owner.
    async fn write_behind(
        &self,
        owner: &ByteOwner,
        durability: Durability,
        left: Duration,
    ) -> Result<()> {
        let group = owner.owner().group().unwrap_or_default();
        let behind = self.bytes.owner(KEY, head_id(group))?;
        let done = DoneCall {
            t: self.clock.now().0 / 1_000,
            ..DoneCall::default()
        };
        let write = behind.update([(DONE, text_of(&done)?)]);
        write.durability(durability).deadline(left).await?;
        Ok(())
    }

    /// Whether the value of an entry is that of an old call.
    pub(crate) fn is_old(&self, entry: &[u8]) -> Result<bool> {
        let done: DoneCall = serde_json::from_slice(entry).map_err(unreadable)?;
        Ok(done.is_old(self.clock.now()))
    }

    /// Forgets an entry that is old. Returns whether it was.
    pub(crate) async fn forget(&self, owner: &ByteOwner) -> Result<bool> {
        let record = owner.get([DONE]).await?;
        let Some(value) = record.get(DONE) else {
            return Ok(false);
        };
        if !self.is_old(value)? {
            return Ok(false);
        }
        let removed = owner.remove([DONE, ANSWER]).if_version(record.version());
        match removed.await {
            // The key serves another call by now.
            Err(error) if error.is_conflict() => Ok(false),
            removed => Ok(removed.map(|_| true)?),
        }
    }

    /// Gives up the values of an entry that was forgotten, so that its rows can leave the database.
    pub(crate) async fn give_up(&self, owner: &ByteOwner) -> Result<()> {
        match owner.purge([DONE, ANSWER]).await {
            // A later pass finds it again.
            Err(error) if error.kind() == storage_sdk::Kind::NotLanded => Ok(()),
            purged => Ok(purged.map(drop)?),
        }
    }
}

impl Entry<'_> {
    /// Writes the entry in the step of a change. `path` is that of what was created, if it is another
    /// one than was called.
    pub(crate) fn join(
        &self,
        step: Transaction,
        path: &Path,
        now: Timestamp,
        created: bool,
        revision: Option<u64>,
    ) -> Result<Transaction> {
        let done = DoneCall {
            k: self.once.key.clone(),
            q: self.once.request.clone(),
            t: now.0 / 1_000,
            c: created,
            r: revision,
            i: (path != self.path).then(|| id_in(path).to_owned()),
            s: Vec::new(),
        };
        let done = text_of(&done)?;
        Ok(step.owner(&self.owner, |part| part.set(DONE, done)))
    }

    /// Writes the entry in the step of several changes, as they will be.
    pub(crate) fn join_step(
        &self,
        step: Transaction,
        changes: &[Changed],
        now: Timestamp,
    ) -> Result<Transaction> {
        let made = changes.iter().map(|change| StepChange {
            i: id_in(&change.path).to_owned(),
            c: change.created,
            n: change.count,
        });
        let done = DoneCall {
            k: self.once.key.clone(),
            q: self.once.request.clone(),
            t: now.0 / 1_000,
            r: changes.first().map(|first| first.revision),
            s: made.collect(),
            ..DoneCall::default()
        };
        let done = text_of(&done)?;
        Ok(step.owner(&self.owner, |part| part.set(DONE, done)))
    }

    /// Keeps the answer for repeats. Without it they have no transaction.
    pub(crate) async fn keep(&self, changed: &Changed, now: Timestamp) {
        let answer = Answer {
            t: now.0 / 1_000,
            v: changed.version.get(),
            r: changed.revision,
            n: changed.count,
            e: place_of(changed),
            s: Vec::new(),
        };
        self.keep_answer(&answer).await;
    }

    /// Keeps the answer of a step for repeats.
    pub(crate) async fn keep_step(&self, changes: &[Changed], now: Timestamp) {
        let Some(last) = changes.last() else { return };
        let answer = Answer {
            t: now.0 / 1_000,
            v: last.version.get(),
            r: last.revision,
            n: last.count,
            e: None,
            s: changes.iter().filter_map(place_of).collect(),
        };
        self.keep_answer(&answer).await;
    }

    async fn keep_answer(&self, answer: &Answer) {
        let Ok(answer) = text_of(answer) else { return };
        let write = self.owner.update([(ANSWER, answer)]);
        // The change is made, whatever comes of its answer.
        let _ = write.deadline(ANSWER_WITHIN).await;
    }

    /// The earlier call of this key, if there is one.
    fn done(&self, record: &Record, now: Timestamp) -> Result<Option<DoneCall>> {
        let Some(value) = record.get(DONE) else {
            return Ok(None);
        };
        let done: DoneCall = serde_json::from_slice(value).map_err(unreadable)?;
        if done.is_old(now) {
            return Ok(None);
        }
        if done.k == self.once.key && done.q == self.once.request {
            return Ok(Some(done));
        }
        let message = "the idempotency key was used for another request; choose a new key";
        Err(Error::new(Kind::KeyReused, message))
    }

    /// The answer of the earlier call.
    fn answered(&self, record: &Record, done: &DoneCall, revision: u64) -> Result<Changed> {
        let answer = answer_in(record, done)?;
        let version = answer.as_ref().and_then(|answer| Version::new(answer.v));
        let place = answer.as_ref().and_then(|answer| answer.e);
        let path = match &done.i {
            Some(id) => Path::item(self.path.as_str(), id)?,
            None => self.path.clone(),
        };
        Ok(Changed {
            path,
            revision: answer
                .as_ref()
                .map(|answer| answer.r)
                .or(done.r)
                .unwrap_or(revision),
            version: version.unwrap_or(record.version()),
            created: done.c,
            count: answer.and_then(|answer| answer.n),
            event: place.map(|place| self.event_at(place)),
            body: None,
            is_repeat: true,
        })
    }

    /// The place of an event of the owner, by its epoch and number.
    fn event_at(&self, (epoch, number): (u64, u64)) -> (u32, Position) {
        (self.owner.partition().0, Position::new(epoch, number))
    }

    /// The answer of the earlier call, which was a step.
    fn answered_step(&self, record: &Record, done: &DoneCall) -> Result<Vec<Changed>> {
        let answer = answer_in(record, done)?;
        let version = answer.as_ref().and_then(|answer| Version::new(answer.v));
        let (version, places) = (
            version.unwrap_or(record.version()),
            answer.map(|answer| answer.s).unwrap_or_default(),
        );
        let numbered = (done.r.unwrap_or_default()..).zip(&done.s).enumerate();
        let changes = numbered.map(|(at, (revision, made))| {
            let event = places.get(at).map(|place| self.event_at(*place));
            made.changed(self.path, revision, version, event)
        });
        changes.collect()
    }
}

impl StepChange {
    fn changed(
        &self,
        collection: &Path,
        revision: u64,
        version: Version,
        event: Option<(u32, Position)>,
    ) -> Result<Changed> {
        Ok(Changed {
            path: Path::item(collection.as_str(), &self.i)?,
            revision,
            version,
            created: self.c,
            count: self.n,
            event,
            body: None,
            is_repeat: true,
        })
    }
}

/// The answer of a call that was carried out, if it was kept.
fn answer_in(record: &Record, done: &DoneCall) -> Result<Option<Answer>> {
    let answer: Option<Answer> = record
        .get(ANSWER)
        .map(|value| serde_json::from_slice(value))
        .transpose()
        .map_err(unreadable)?;
    // Only the answer is written behind the step, so without it the entry has the step's version.
    Ok(answer.filter(|answer| answer.t == done.t))
}

/// The last segment of a path: the id of an item, or of a document below a path.
pub(crate) fn id_in(path: &Path) -> &str {
    let text = path.as_str();
    text.rsplit_once('/').map_or(text, |(_, id)| id)
}

/// The place of a change's event: epoch and number.
fn place_of(changed: &Changed) -> Option<(u64, u64)> {
    let (_, place) = changed.event?;
    Some((place.epoch.0, place.number))
}

fn text_of(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(unreadable)
}

/// The failure of a repeat whose change is gone. What its caller read before is gone, too, so the call ends.
fn lost() -> Error {
    let message = "an earlier call had made the change, and the hot tier lost it before it was as safe as this call asks; send it \
                   again, and it is made anew";
    Error::new(Kind::Lost, message)
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::new(
        Kind::Corrupt,
        format!("the entry of an idempotency key: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gives_each_path_a_number_of_its_own() {
        let once = |key: &str| Once::new(key, &[]).unwrap();
        let path = |path: &str| Path::new(path).unwrap();
        let number = once("a").number(&path("x"));
        assert_eq!(number, once("a").number(&path("x")));
        assert_ne!(number, once("b").number(&path("x")));
        assert_ne!(number, once("a").number(&path("y")));
        assert!(number < 1 << 55);
    }

    #[test]
    fn a_call_is_remembered_for_a_day() {
        let (now, hour) = (Timestamp(1_700_000_000_000_000), Duration::from_hours(1));
        let done = DoneCall {
            t: now.0 / 1_000,
            ..DoneCall::default()
        };
        assert!(!done.is_old(now.plus(hour * 23)));
        assert!(done.is_old(now.plus(hour * 25)));
    }
}
