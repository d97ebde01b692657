//! A worker's calls about marks.

use std::collections::BTreeSet;

use bytes::Bytes;
use redis::Value;
use storage_model::{Field, Owner, Partition, Version};

use super::read;
use crate::redis::RedisStore;
use crate::redis::connections::transport::Command;
use crate::redis::error::{Failure, hot_error};
use crate::redis::reply;
use crate::redis::scripts;
use crate::redis::scripts::{Head, MarkRef, RowRef};
use crate::{
    Collected, Entry, ErrorEntry, Fields, HotError, HotKind, HotRead, Lock, Map, Mark, Page, Park,
    Parked, Settle, Settled, Snapshot, SnapshotId, key, mark,
};

/// How many digits a mark's version has. The fields follow.
const MARK_VERSION_BYTES: usize = 14;
/// [`mark::SEPARATOR`] as it is stored.
const SEPARATOR_BYTE: u8 = 0x1f;
/// The most marks that one script takes, so that none blocks the server for long.
pub(in crate::redis) const MARKS_MAX: usize = 200;

impl RedisStore {
    pub(in crate::redis) async fn take_snapshot(
        &self,
        partition: Partition,
        lock: &Lock,
    ) -> Result<Snapshot, HotError> {
        self.one(
            "snapshot",
            Some(partition),
            scripts::snapshot(&self.space, partition, lock),
            snapshot_of,
        )
        .await
    }

    pub(in crate::redis) async fn scan_page(
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
            Map::Leaving => keys.leaving(partition),
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

    pub(in crate::redis) async fn error_page(
        &self,
        partition: Partition,
        cursor: u64,
        count: usize,
    ) -> Result<Page<ErrorEntry>, HotError> {
        let key = self.space.keys.error(partition);
        self.page("errors", partition, key, cursor, count, error_entries_of)
            .await
    }

    async fn page<T, E: IntoIterator<Item = T>>(
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

    pub(in crate::redis) async fn collect_values(
        &self,
        partition: Partition,
        wanted: &[(Owner, Vec<Field>)],
    ) -> Result<Collected, HotError> {
        let fields: Vec<Fields> = wanted.iter().map(|(_, fields)| which(fields)).collect();
        let reads = wanted
            .iter()
            .zip(&fields)
            .map(|((owner, _), fields)| self.read_command(partition, owner, fields));
        // ORDER: the check goes last, on the same connection. So the values before it are of this
        // incarnation, too.
        let commands: Vec<_> = reads
            .chain([
                self.has_errors(partition),
                scripts::check_part(&self.space, partition),
            ])
            .collect();
        let mut answers = self.router.send(&commands, true).await;
        let decode = || {
            let check = answers.pop().unwrap_or(Err(Failure::TimedOut))?;
            let [epoch, landed, reaches, generation, database] = reply::array(check)?;
            let generation = reply::epoch(&reply::bytes(generation)?)?;
            let has_errors = reply::yes(answers.pop().unwrap_or(Err(Failure::TimedOut))?)?;
            let answers = wanted.iter().zip(&fields).zip(answers);
            let reads = answers.map(|(((owner, _), fields), answer)| {
                let read = readable(owner, answer.and_then(|value| read::decode(fields, value)))?;
                Ok(read::judged(read, generation))
            });
            Ok(Collected {
                epoch: reply::epoch(&reply::bytes(epoch)?)?,
                landed: reply::version(&reply::bytes(landed)?)?,
                reaches: reply::version(&reply::bytes(reaches)?)?,
                database: reply::database(database)?,
                has_errors,
                reads: reads.collect::<Result<_, Failure>>()?,
            })
        };
        decode().map_err(|failure| hot_error(failure, "collect", false, Some(partition)))
    }

    pub(in crate::redis) async fn settle_marks(
        &self,
        settle: &Settle,
    ) -> Result<Settled, HotError> {
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
        let rows: Vec<_> = settle
            .rows
            .iter()
            .map(|(owner, field, version)| of_row(owner, field, *version))
            .collect();
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

    /// Whether the error map has entries.
    fn has_errors(&self, partition: Partition) -> Command {
        let mut cmd = redis::cmd("EXISTS");
        cmd.arg(self.space.keys.error(partition));
        Command::read("collect", self.space.slot(partition), cmd)
    }

    pub(in crate::redis) async fn park_entries(&self, park: &Park) -> Result<Vec<bool>, HotError> {
        if let Some(nameless) = park
            .parked
            .iter()
            .find(|parked| parked.owner.is_none() && parked.source.is_none())
        {
            let message = format!(
                "an entry with {} faults has neither owner nor source",
                nameless.faults.len()
            );
            return Err(HotError::not_applied(HotKind::Corrupt, "park", message));
        }
        let (partition, lock) = (park.partition, Some(&park.lock));
        let head = Head {
            partition,
            lock,
            epoch: park.epoch,
            clean_ttl: self.clean_ttl,
        };
        let commands: Vec<_> = chunks(&park.parked)
            .map(|chunk| scripts::park(&self.space, head, park, chunk))
            .collect();
        let partitions = vec![partition; commands.len()];
        let parked = |value| {
            reply::list(value)?
                .into_iter()
                .map(reply::yes)
                .collect::<Result<Vec<_>, _>>()
        };
        let chunks: Vec<_> = self
            .each("park", &partitions, commands, parked)
            .await
            .into_iter()
            .collect::<Result<_, _>>()?;
        Ok(chunks.concat())
    }
}

/// Chunks of entries, each with at most `MARKS_MAX` faults or a single entry. An entry is never
/// cut, since it moves in one step. Without entries there is one empty chunk, so that epoch and
/// lock are checked all the same.
fn chunks(parked: &[Parked]) -> impl Iterator<Item = &[Parked]> {
    let none = parked.is_empty().then_some(parked);
    let mut rest = parked;
    let some = std::iter::from_fn(move || {
        let mut faults = 0;
        let fits = |one: &&Parked| {
            faults += one.faults.len().max(1);
            faults <= MARKS_MAX
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (chunk, later) = rest.split_at_checked(count)?;
        rest = later;
        Some(chunk)
    });
    none.into_iter().chain(some)
}

fn part<'a, T>(chunks: &mut std::slice::Chunks<'a, T>) -> &'a [T] {
    chunks.next().unwrap_or_default()
}

/// An owner's read. Empty if the stored data is no owner's hash. Then its marks are parked, and
/// other marks land.
fn readable(owner: &Owner, read: Result<HotRead, Failure>) -> Result<HotRead, Failure> {
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

fn of_row<'a>(owner: &'a Owner, field: &Field, version: Version) -> RowRef<'a> {
    RowRef {
        owner,
        field: key::stored(field).into_owned(),
        version,
    }
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

/// An entry of the error map as one mark: the fields of all its lines, and their greatest version.
pub(in crate::redis) fn refused_of(raw: Bytes, value: Bytes) -> Entry {
    let owner = mark::owner_of(&raw);
    let lines = error_entries_of(raw.clone(), value);
    let version = lines
        .iter()
        .map(|line| line.version)
        .max()
        .unwrap_or_default();
    let fields: BTreeSet<Field> = lines
        .into_iter()
        .filter_map(|line| Some(line.target?.1))
        .collect();
    let mark = owner.filter(|_| !fields.is_empty()).map(|owner| Mark {
        owner,
        fields: fields.into_iter().collect(),
    });
    Entry { raw, mark, version }
}

/// The error marks of an entry of the error map. The data of another program comes as entries that
/// can't be read.
pub(in crate::redis) fn error_entries_of(raw: Bytes, value: Bytes) -> Vec<ErrorEntry> {
    let owner = mark::owner_of(&raw);
    value
        .split(|byte| *byte == b'\n')
        .map(|line| error_entry_of(&raw, owner.as_ref(), line))
        .collect()
}

/// A line: the field, a separator, then version, attempts, first, last and next time, code and
/// message, with a space between them.
fn error_entry_of(raw: &Bytes, owner: Option<&Owner>, line: &[u8]) -> ErrorEntry {
    let separated = line.iter().position(|byte| *byte == SEPARATOR_BYTE);
    let (field, rest) = separated
        .and_then(|at| Some((line.get(..at)?, line.get(at + 1..)?)))
        .unwrap_or((&[], line));
    let field = std::str::from_utf8(field).ok().and_then(key::field_of);
    let text = String::from_utf8_lossy(rest);
    let mut parts = text.splitn(7, ' ');
    let mut next = || parts.next().unwrap_or_default().as_bytes();
    ErrorEntry {
        raw: raw.clone(),
        target: owner.cloned().zip(field),
        version: reply::version(next()).unwrap_or_default(),
        attempts: reply::digits(next()).unwrap_or_default(),
        first: reply::timestamp(next()).unwrap_or_default(),
        last: reply::timestamp(next()).unwrap_or_default(),
        next: reply::timestamp(next()).unwrap_or_default(),
        code: reply::digits(next()).unwrap_or_default(),
        message: parts.next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use storage_model::Timestamp;

    use super::*;

    #[test]
    fn error_entries_come_back_as_they_were_parked_and_junk_is_an_entry_too() {
        let (name, lines) = (
            Bytes::from_static(b"a:b:c:d"),
            Bytes::from_static(b"gold\x1f7 2 3 4 5 1406 too long: x\nhp\x1f9 1 1 1 1 0 gone"),
        );
        let [gold, hp] = error_entries_of(name.clone(), lines.clone())
            .try_into()
            .unwrap();
        assert_eq!(gold.target.unwrap().1.as_str(), "gold");
        assert_eq!(
            (gold.version.get(), gold.attempts, gold.next, gold.code),
            (7, 2, Timestamp(5), 1406)
        );
        assert_eq!((&*gold.message, &*hp.message), ("too long: x", "gone"));
        let both = refused_of(name, lines);
        assert_eq!(
            (both.version.get(), both.mark.unwrap().fields.len()),
            (9, 2)
        );
        let [junk] = error_entries_of(
            Bytes::from_static(b"\xff"),
            Bytes::from_static(b"\xff \xff"),
        )
        .try_into()
        .unwrap();
        assert_eq!((junk.target, junk.version), (None, Version::ZERO));
        assert_eq!(
            entry_of(Bytes::from_static(b"x"), Bytes::from_static(b"-1")).version,
            Version::ZERO
        );
    }

    #[test]
    fn entries_are_parked_in_chunks_and_never_cut() {
        let fault = crate::Fault {
            field: Field::new("f").unwrap(),
            version: Version::ZERO,
            code: 0,
            message: String::new(),
        };
        let parked = |faults| Parked {
            source: None,
            owner: None,
            faults: vec![fault.clone(); faults],
        };
        let all = [parked(150), parked(50), parked(1), parked(500), parked(0)];
        assert_eq!(
            chunks(&all).map(<[_]>::len).collect::<Vec<_>>(),
            [2, 1, 1, 1]
        );
    }
}
