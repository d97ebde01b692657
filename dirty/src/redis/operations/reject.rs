//! The error map: entries that the database rejected, and their pages.

use std::collections::BTreeSet;

use bytes::Bytes;
use storage_model::{Field, Owner, Partition};

use crate::redis::RedisStore;
use crate::redis::reply;
use crate::redis::scripts;
use crate::redis::scripts::Head;
use crate::{Entry, ErrorEntry, HotError, HotKind, Mark, Page, Reject, Rejected, key, mark};

/// [`mark::SEPARATOR`] as it is stored.
const SEPARATOR_BYTE: u8 = 0x1f;
/// [`mark::PARTNER`] as it is stored. A line that begins with it names a partner.
const PARTNER: &[u8] = b"\x1e";

/// Faults that one call takes. It takes Redis some 45 µs for each of them.
const FAULTS_MAX: usize = 80;

impl RedisStore {
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

    pub(in crate::redis) async fn reject_entries(
        &self,
        reject: &Reject,
    ) -> Result<Vec<bool>, HotError> {
        if let Some(nameless) = reject
            .rejected
            .iter()
            .find(|rejected| rejected.owner.is_none() && rejected.source.is_none())
        {
            let message = format!(
                "an entry with {} faults has neither owner nor source",
                nameless.faults.len()
            );
            return Err(HotError::not_applied(HotKind::Corrupt, "reject", message));
        }
        let (partition, lock) = (reject.partition, Some(&reject.lock));
        let head = Head {
            partition,
            lock,
            epoch: reject.epoch,
            clean_ttl: self.clean_ttl,
        };
        let commands: Vec<_> = chunks(&reject.rejected)
            .map(|chunk| scripts::reject(&self.space, head, reject, chunk))
            .collect();
        let partitions = vec![partition; commands.len()];
        let rejected = |value| {
            reply::list(value)?
                .into_iter()
                .map(reply::yes)
                .collect::<Result<Vec<_>, _>>()
        };
        let chunks: Vec<_> = self
            .each("reject", &partitions, commands, rejected)
            .await
            .into_iter()
            .collect::<Result<_, _>>()?;
        Ok(chunks.concat())
    }
}

/// Chunks of entries, each with at most `FAULTS_MAX` faults or a single entry. An entry is never
/// cut, since it moves in one step. Without entries there is one empty chunk, so that epoch and
/// lock are checked all the same.
fn chunks(rejected: &[Rejected]) -> impl Iterator<Item = &[Rejected]> {
    let none = rejected.is_empty().then_some(rejected);
    let mut rest = rejected;
    let some = std::iter::from_fn(move || {
        let mut faults = 0;
        let fits = |one: &&Rejected| {
            faults += one.faults.len().max(1);
            faults <= FAULTS_MAX
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (chunk, later) = rest.split_at_checked(count)?;
        rest = later;
        Some(chunk)
    });
    none.into_iter().chain(some)
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
        .filter(|line| !line.starts_with(PARTNER))
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
    use storage_model::{Timestamp, Version};

    use super::*;

    #[test]
    fn error_entries_come_back_as_they_were_rejected_and_junk_is_an_entry_too() {
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
    }

    #[test]
    fn entries_are_rejected_in_chunks_and_never_cut() {
        let fault = crate::Fault {
            field: Field::new("f").unwrap(),
            version: Version::ZERO,
            code: 0,
            message: String::new(),
        };
        let rejected = |faults| Rejected {
            leaves: Vec::new(),
            source: None,
            owner: None,
            faults: vec![fault.clone(); faults],
        };
        let all = [
            rejected(50),
            rejected(30),
            rejected(1),
            rejected(500),
            rejected(0),
        ];
        assert_eq!(
            chunks(&all).map(<[_]>::len).collect::<Vec<_>>(),
            [2, 1, 1, 1]
        );
    }
}
