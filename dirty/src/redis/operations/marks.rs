//! Marks on their way to the database: snapshot, pages, collection, settling.

use std::collections::BTreeSet;

use async_trait::async_trait;
use bytes::Bytes;
use redis::Value;
use storage_model::{Epoch, Field, Owner, Partition, Position};

use super::linked::linked_of;
use super::read;
use super::reject::refused_of;
use crate::redis::RedisStore;
use crate::redis::connections::transport::Command;
use crate::redis::error::{Failure, hot_error};
use crate::redis::reply;
use crate::redis::scripts;
use crate::redis::scripts::{Head, MarkRef, RowRef};
use crate::{
    Bound, Collected, Entry, ErrorEntry, Fields, HotError, HotRead, LandedRow, Linked, Links, Lock,
    Map, Marked, Marks, Page, Reject, Settle, Settled, Snapshot, SnapshotId, key, mark,
};

/// How many digits a mark's version has. The fields follow.
const MARK_VERSION_BYTES: usize = 14;
/// The most owners whose marks one end of a collection reads, so that none blocks the server for long.
const OWNERS_MAX: usize = 1_000;
/// The most marks that one script takes, so that none blocks the server for long.
pub(in crate::redis) const MARKS_MAX: usize = 200;

#[async_trait]
impl Marks for RedisStore {
    async fn marks_of(&self, partition: Partition, owners: &[Owner]) -> Result<Marked, HotError> {
        if owners.is_empty() {
            return Ok(Marked::default());
        }
        let names: Vec<String> = owners.iter().map(key::owner_part).collect();
        let keys = &self.space.keys;
        // ORDER: the dirty map first, since a snapshot moves its marks to the other map.
        let commands: Vec<_> = [keys.dirty(partition), keys.saving(partition)]
            .into_iter()
            .map(|key| {
                let mut cmd = redis::cmd("HMGET");
                cmd.arg(key).arg(&names);
                Command::read("marks_of", self.space.slot(partition), cmd)
            })
            .collect();
        let mut answers = self.router.send(&commands, true).await.into_iter();
        let mut entries = || {
            let texts = reply::list(answers.next().unwrap_or(Err(Failure::TimedOut))?)?;
            let named = names.iter().zip(texts);
            let found = named.filter_map(|(name, text)| match reply::maybe(text) {
                Ok(text) => Some(Ok(entry_of(Bytes::from(name.clone()), text?))),
                Err(failure) => Some(Err(failure)),
            });
            found.collect::<Result<Vec<Entry>, Failure>>()
        };
        let mut decode = || {
            Ok(Marked {
                dirty: entries()?,
                snapshot: entries()?,
            })
        };
        decode().map_err(|failure| hot_error(failure, "marks_of", false, Some(partition)))
    }

    async fn snapshot(&self, partition: Partition, lock: &Lock) -> Result<Snapshot, HotError> {
        self.one(
            "snapshot",
            Some(partition),
            scripts::snapshot(&self.space, partition, lock),
            snapshot_of,
        )
        .await
    }

    async fn scan(
        &self,
        partition: Partition,
        map: Map,
        cursor: u64,
        count: usize,
    ) -> Result<Page<Entry>, HotError> {
        let keys = &self.space.keys;
        let key = match map {
            Map::Dirty => keys.dirty(partition),
            Map::Snapshot => keys.saving(partition),
            Map::Error => keys.error(partition),
            Map::Landed => keys.landed(partition),
            Map::Expiring => keys.expiring(partition),
        };
        let entry = if map == Map::Error {
            refused_of
        } else {
            entry_of
        };
        self.page("scan", partition, key, cursor, count, |name, value| {
            [entry(name, value)]
        })
        .await
    }

    async fn errors(
        &self,
        partition: Partition,
        cursor: u64,
        count: usize,
    ) -> Result<Page<ErrorEntry>, HotError> {
        self.error_page(partition, cursor, count).await
    }

    async fn collect(
        &self,
        partition: Partition,
        wanted: &[(Owner, Vec<Field>)],
        known: Option<SnapshotId>,
    ) -> Result<Collected, HotError> {
        let fields: Vec<Fields> = wanted.iter().map(|(_, fields)| which(fields)).collect();
        let reads = wanted
            .iter()
            .zip(&fields)
            .map(|((owner, _), fields)| self.read_command(partition, owner, fields));
        let in_part: Vec<_> = wanted
            .iter()
            .filter(|(_, fields)| !fields.is_empty())
            .collect();
        let mut parts: Vec<_> = in_part.chunks(OWNERS_MAX).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        let ends = parts.iter().map(|part| {
            let owners = part.iter().map(|(owner, _)| owner);
            scripts::end_collect(&self.space, partition, known, owners)
        });
        // ORDER: the check goes last, on the same connection. So the values before it are of this
        // incarnation, too, and a mark of a later write is found (R16).
        let commands: Vec<_> = reads.chain(ends).collect();
        let mut answers = self.router.send(&commands, true).await;
        let ends = answers.split_off(wanted.len().min(answers.len()));
        let decode = || {
            let mut checked: Option<CollectionEnd> = None;
            for (part, answer) in parts.iter().zip(ends) {
                checked = Some(checked_of(part, answer?, checked)?);
            }
            let checked = checked.ok_or(Failure::TimedOut)?;
            let answers = wanted.iter().zip(&fields).zip(answers);
            let reads = answers.map(|(((owner, _), fields), answer)| {
                let read = readable(owner, answer.and_then(|value| read::decode(fields, value)))?;
                Ok(read::collected(read, checked.generation, checked.gap))
            });
            Ok(Collected {
                reads: reads.collect::<Result<_, Failure>>()?,
                ..checked.collected
            })
        };
        decode().map_err(|failure| hot_error(failure, "collect", false, Some(partition)))
    }

    async fn collect_linked(
        &self,
        partition: Partition,
        wanted: &[(Owner, Fields)],
        bound: Bound,
        follow: bool,
    ) -> Result<Linked, HotError> {
        let command = scripts::collect_linked(&self.space, partition, wanted, bound, follow);
        self.one("collect_linked", Some(partition), command, |value| {
            linked_of(wanted, value)
        })
        .await
    }

    async fn links(
        &self,
        partition: Partition,
        epoch: Epoch,
        owners: &[Owner],
        most: usize,
    ) -> Result<Links, HotError> {
        if owners.is_empty() {
            return Ok(Links::default());
        }
        let command = scripts::links(&self.space, partition, epoch, owners, most);
        self.one("links", Some(partition), command, links_of).await
    }

    async fn settle(&self, settle: &Settle) -> Result<Settled, HotError> {
        let (partition, lock) = (settle.partition, settle.lock.as_ref());
        let head = Head {
            partition,
            lock,
            epoch: settle.epoch,
            clean_ttl: self.clean_ttl,
        };
        // A call without the lock is a flush. It leaves its marks to the worker.
        let marks = if settle.lock.is_some() {
            settle.marks.as_slice()
        } else {
            &[]
        };
        let marks: Vec<MarkRef<'_>> = marks.iter().map(of_entry).collect();
        let rows: Vec<_> = settle.rows.iter().map(of_row).collect();
        // Marks and error marks go together. So a call that fits in one script is settled as a
        // whole or not at all.
        let (mut marks, mut rows) = (marks.chunks(MARKS_MAX), rows.chunks(MARKS_MAX));
        let calls = marks.len().max(rows.len()).max(1);
        let mut call =
            |_| scripts::settle(&self.space, head, settle, part(&mut marks), part(&mut rows));
        let commands: Vec<_> = (0..calls).map(&mut call).collect();
        let partitions = vec![settle.partition; commands.len()];
        let mut total = Settled::default();
        for settled in self.each("settle", &partitions, commands, settled_of).await {
            let settled = settled?;
            total.cleared = total.cleared.saturating_add(settled.cleared);
            total.errors_cleared = total.errors_cleared.saturating_add(settled.errors_cleared);
        }
        Ok(total)
    }

    async fn reject(&self, reject: &Reject) -> Result<Vec<bool>, HotError> {
        self.reject_entries(reject).await
    }

    async fn tear(&self, owner: &Owner) -> Result<bool, HotError> {
        let partition = self.space.partition(owner);
        let command = scripts::tear(&self.space, partition, owner);
        self.one("tear", Some(partition), command, reply::yes).await
    }
}

impl RedisStore {
    pub(super) async fn page<T, E: IntoIterator<Item = T>>(
        &self,
        operation: &'static str,
        partition: Partition,
        key: String,
        cursor: u64,
        count: usize,
        entries: impl Fn(Bytes, Bytes) -> E,
    ) -> Result<Page<T>, HotError> {
        let mut cmd = redis::cmd("HSCAN");
        cmd.arg(key).arg(cursor).arg("COUNT").arg(count.max(1));
        let decode = |value| {
            let [next, found] = reply::array(value)?;
            let next: u64 = reply::number(next)?;
            let entries = reply::pairs(found)?
                .into_iter()
                .flat_map(|(name, value)| entries(name, value))
                .collect();
            Ok(Page {
                entries,
                next: (next != 0).then_some(next),
            })
        };
        self.one(
            operation,
            Some(partition),
            Command::read(operation, self.space.slot(partition), cmd),
            decode,
        )
        .await
    }
}

fn part<'a, T>(chunks: &mut std::slice::Chunks<'a, T>) -> &'a [T] {
    chunks.next().unwrap_or_default()
}

/// An owner's read. Empty if the stored data is no owner's hash. Then its marks are rejected, and
/// other marks land.
pub(super) fn readable(owner: &Owner, read: Result<HotRead, Failure>) -> Result<HotRead, Failure> {
    match read {
        Err(failure) if failure.is_of_stored_data() => {
            tracing::error!(%owner, ?failure, "the hot tier's data of this owner can't be read");
            Ok(HotRead::default())
        }
        other => other,
    }
}

fn which(fields: &[Field]) -> Fields {
    if fields.is_empty() {
        Fields::All
    } else {
        Fields::Cells(fields.to_vec())
    }
}

pub(in crate::redis) fn of_entry(entry: &Entry) -> MarkRef<'_> {
    let owner = entry.mark.as_ref().map(|mark| &mark.owner);
    MarkRef {
        name: &entry.raw,
        owner: owner.filter(|_| !mark::is_aside(&entry.raw)),
    }
}

fn of_row(row: &LandedRow) -> RowRef<'_> {
    RowRef {
        owner: &row.owner,
        field: key::stored(&row.field).into_owned(),
        version: row.version,
        from: row.from,
    }
}

/// The end of a collection.
struct CollectionEnd {
    /// Without reads.
    collected: Collected,
    generation: Epoch,
    gap: Option<Position>,
}

/// The answer of `end_collect.lua` about these owners, behind the answers about others.
fn checked_of(
    owners: &[&(Owner, Vec<Field>)],
    value: Value,
    before: Option<CollectionEnd>,
) -> Result<CollectionEnd, Failure> {
    let mut values = reply::list(value)?.into_iter();
    let mut next = || values.next().unwrap_or(Value::Nil);
    let epoch = reply::epoch(&reply::bytes(next())?)?;
    let landed = reply::version(&reply::bytes(next())?)?;
    let reaches = reply::version(&reply::bytes(next())?)?;
    let generation = reply::epoch(&reply::bytes(next())?)?;
    let database = reply::database(next())?;
    let is_linked = reply::yes(next())?;
    let gap = reply::maybe_position(next())?;
    let has_errors = reply::yes(next())?;
    let stamp = reply::stamp(next())?;
    let mut named = BTreeSet::new();
    while let Some(place) = values.next() {
        let (place, text): (usize, _) = (reply::number(place)?, values.next());
        let text = reply::bytes(text.unwrap_or(Value::Nil))?;
        let Some((owner, fields)) = place.checked_sub(1).and_then(|at| owners.get(at)) else {
            continue;
        };
        if text.is_empty() || mark::names_more(text.get(MARK_VERSION_BYTES..), fields) {
            named.insert(owner);
        }
    }
    let mut partial = before.map_or_else(Vec::new, |before| before.collected.partial);
    partial.extend(named.into_iter().cloned());
    let collected = Collected {
        epoch,
        stamp,
        landed,
        reaches,
        database,
        has_errors,
        is_linked,
        partial,
        reads: Vec::new(),
    };
    Ok(CollectionEnd {
        collected,
        generation,
        gap,
    })
}

/// The answer of `snapshot.lua`.
pub(in crate::redis) fn snapshot_of(value: Value) -> Result<Snapshot, Failure> {
    let mut words = reply::list(value)?.into_iter();
    let mut next = || reply::bytes(words.next().unwrap_or(Value::Nil));
    let word = next()?;
    let mut number = || Ok(SnapshotId(reply::digits(&next()?)?));
    match &*word {
        b"empty" => Ok(Snapshot::Empty),
        b"taken" => number().map(Snapshot::Taken),
        b"leftover" => number().map(Snapshot::Leftover),
        other => Err(Failure::Nonsense(format!(
            "unknown answer {:?}",
            String::from_utf8_lossy(other)
        ))),
    }
}

/// The answer of `links.lua`.
fn links_of(value: Value) -> Result<Links, Failure> {
    let mut values = reply::list(value)?.into_iter();
    let more = reply::yes(values.next().unwrap_or(Value::Nil))?;
    let mut owners = Vec::new();
    for value in values {
        let mut names = reply::list(value)?.into_iter();
        let name = reply::bytes(names.next().unwrap_or(Value::Nil))?;
        let partners = reply::owners(names)?;
        owners.extend(mark::owner_of(&name).map(|owner| (owner, partners)));
    }
    Ok(Links { owners, more })
}

/// The answer of `settle.lua`.
pub(in crate::redis) fn settled_of(value: Value) -> Result<Settled, Failure> {
    let [cleared, errors_cleared] = reply::array(value)?;
    Ok(Settled {
        cleared: reply::number(cleared)?,
        errors_cleared: reply::number(errors_cleared)?,
    })
}

/// An entry of a map of marks. Its value is a version and then the fields. The data of another
/// program is an entry, too: without a mark, or of version 0.
pub(in crate::redis) fn entry_of(raw: Bytes, value: Bytes) -> Entry {
    let (version, fields) = value
        .split_at_checked(MARK_VERSION_BYTES)
        .unwrap_or((&value, &[]));
    let mark = mark::decode(&raw, fields);
    let version = reply::mark_version(version).unwrap_or_default();
    Entry { raw, mark, version }
}

#[cfg(test)]
mod tests {
    use storage_model::Version;

    use super::*;

    #[test]
    fn a_value_that_is_no_mark_is_an_entry_of_version_zero() {
        let junk = entry_of(Bytes::from_static(b"x"), Bytes::from_static(b"-1"));
        assert_eq!((junk.mark, junk.version), (None, Version::ZERO));
    }
}
