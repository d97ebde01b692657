//! Notes: the stream of a partition.

use async_trait::async_trait;
use bytes::Bytes;
use redis::Value;
use storage_model::{Content, Epoch, Event, Lead, Note, Owner, Partition, Position};

use crate::redis::RedisStore;
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts;
use crate::{Bound, Feed, HotError, Lock, Notes, key};

/// The most leads of one call, so that none blocks the server for long.
const LEADS_MAX: usize = 200;

#[async_trait]
impl Feed for RedisStore {
    async fn notes(
        &self,
        partition: Partition,
        after: Position,
        bound: Bound,
    ) -> Result<Notes, HotError> {
        let command = scripts::read_notes(&self.space, partition, after, bound);
        self.one("notes", Some(partition), command, |value| {
            notes_of(partition, value)
        })
        .await
    }

    async fn resync(
        &self,
        partition: Partition,
        lock: &Lock,
        epoch: Epoch,
        leads: &[Lead],
    ) -> Result<usize, HotError> {
        let mut written = 0;
        let calls = leads.len().div_ceil(LEADS_MAX).max(1);
        for call in 0..calls {
            let from = call * LEADS_MAX;
            let until = leads.len().min(from + LEADS_MAX);
            let some = leads.get(from..until).unwrap_or_default();
            let last = call + 1 == calls;
            let command = scripts::resync(&self.space, partition, lock, epoch, some, last);
            let answer = self.one("resync", Some(partition), command, reply::number::<usize>);
            written += answer.await?;
        }
        Ok(written)
    }

    async fn trim_notes(
        &self,
        partition: Partition,
        lock: &Lock,
        epoch: Epoch,
        upto: Position,
        drop: bool,
    ) -> Result<(), HotError> {
        let command = scripts::trim_notes(&self.space, partition, lock, epoch, upto, drop);
        let answer = self.one("trim_notes", Some(partition), command, reply::number::<u64>);
        answer.await.map(|_| ())
    }
}

/// The answer of `read_notes.lua`.
fn notes_of(partition: Partition, value: Value) -> Result<Notes, Failure> {
    let mut values = reply::list(value)?.into_iter();
    let mut next = || values.next().unwrap_or_default();
    let epoch = reply::epoch(&reply::bytes(next())?)?;
    let last = reply::position(&reply::bytes(next())?)?;
    let (is_resynced, more) = (reply::yes(next())?, reply::yes(next())?);
    let events = values.map(|entry| event_of(partition, entry));
    Ok(Notes {
        epoch,
        last,
        is_resynced,
        events: events.collect::<Result<_, _>>()?,
        more,
    })
}

/// An entry of the stream.
fn event_of(partition: Partition, entry: Value) -> Result<Event, Failure> {
    let [place, values] = reply::array(entry)?;
    let place = reply::bytes(place)?;
    let content = content_of(&reply::pairs(values)?);
    Ok(Event {
        partition,
        position: reply::position(&place)?,
        content: content.map_err(|wrong| of_entry(&place, wrong))?,
    })
}

/// The failure to read an entry, with its place.
fn of_entry(place: &[u8], wrong: Failure) -> Failure {
    let place = String::from_utf8_lossy(place);
    Failure::Nonsense(format!(
        "note {place} is none that a write makes: {wrong:?}"
    ))
}

/// The content of an entry: "r" and the owner of a lead, or "n" and "version previous counters…",
/// the owner and the body, with U+001F between them. The previous version is "-" if it is unknown.
fn content_of(values: &[(Bytes, Bytes)]) -> Result<Content, Failure> {
    let lacks = |what: &str| Failure::Nonsense(format!("no {what}"));
    match values {
        [(name, owner)] if *name == "r" => Ok(Content::Resync {
            owner: owner_of(owner)?,
        }),
        [(name, text)] if *name == "n" => {
            let mut parts = text.splitn(3, |byte| *byte == SEPARATOR);
            let mut next = |what| parts.next().ok_or_else(|| lacks(what));
            let (head, owner, body) = (next("versions")?, next("owner")?, next("body")?);
            let mut numbers = head.split(|byte| *byte == b' ');
            let mut next = |what| numbers.next().ok_or_else(|| lacks(what));
            let (version, previous) = (next("version")?, next("version before")?);
            let counters = numbers.filter(|text| !text.is_empty());
            Ok(Content::Note(Note {
                owner: owner_of(owner)?,
                version: reply::version(version)?,
                previous: (previous != b"-")
                    .then(|| reply::version(previous))
                    .transpose()?,
                counters: counters.map(reply::digits).collect::<Result<_, _>>()?,
                body: text.slice_ref(body),
            }))
        }
        _ => Err(lacks("note")),
    }
}

/// Between the parts of a note. No owner's name holds it.
const SEPARATOR: u8 = 0x1f;

fn owner_of(name: &[u8]) -> Result<Owner, Failure> {
    let owner = std::str::from_utf8(name).ok().and_then(key::owner_of);
    owner.ok_or_else(|| Failure::Nonsense("no owner".to_owned()))
}
