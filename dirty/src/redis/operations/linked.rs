//! The answer of `collect_linked.lua`: owners that land together.

use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use storage_model::{Epoch, Field, Owner, Position};

use super::marks::{entry_of, readable};
use super::read;
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::{Collected, Fields, HotRead, Linked, Member, SnapshotId, key, mark};

/// The answer about these owners.
pub(super) fn linked_of(wanted: &[(Owner, Fields)], value: Value) -> Result<Linked, Failure> {
    let mut values = reply::list(value)?.into_iter();
    let mut next = || values.next().unwrap_or(Value::Nil);
    match &*reply::bytes(next())? {
        b"open" => return Ok(Linked::Open(reply::owners(values)?)),
        b"large" => return Ok(Linked::Large),
        _ => {}
    }
    let epoch = reply::epoch(&reply::bytes(next())?)?;
    let landed = reply::version(&reply::bytes(next())?)?;
    let reaches = reply::version(&reply::bytes(next())?)?;
    let generation = reply::epoch(&reply::bytes(next())?)?;
    let database = reply::database(next())?;
    let has_errors = reply::yes(next())?;
    let seen = PartitionAnswer {
        generation,
        gap: reply::maybe_position(next())?,
        snapshot: SnapshotId(reply::digits(&reply::bytes(next())?)?),
    };
    let stamp = reply::stamp(next())?;
    let (mut reads, mut members) = (Vec::new(), Vec::new());
    let (none, mut wanted) = (Fields::Cells(Vec::new()), wanted.iter());
    while let Some(name) = values.next() {
        let fields = wanted.next().map_or(&none, |(_, fields)| fields);
        let mut next = || values.next().unwrap_or(Value::Nil);
        let answer = Answer {
            name: reply::bytes(name)?,
            values: next(),
            names: reply::bytes(next())?,
            age: reply::bytes(next())?,
            saved: reply::bytes(next())?,
        };
        if let Some((read, member)) = answer.decode(fields, seen)? {
            reads.push(read);
            members.push(member);
        }
    }
    let collected = Collected {
        epoch,
        stamp,
        landed,
        reaches,
        database,
        has_errors,
        is_linked: true,
        partial: Vec::new(),
        reads,
    };
    Ok(Linked::Closed(collected, members))
}

/// What the answer says of the partition.
#[derive(Debug, Clone, Copy)]
struct PartitionAnswer {
    generation: Epoch,
    gap: Option<Position>,
    snapshot: SnapshotId,
}

/// What the answer says of one owner.
struct Answer {
    name: Bytes,
    values: Value,
    /// The fields and partners, as a mark names them.
    names: Bytes,
    age: Bytes,
    saved: Bytes,
}

impl Answer {
    /// The owner and its read. `None` if another program wrote a name that is none.
    fn decode(
        self,
        wanted: &Fields,
        seen: PartitionAnswer,
    ) -> Result<Option<(HotRead, Member)>, Failure> {
        let Some(owner) = mark::owner_of(&self.name) else {
            return Ok(None);
        };
        let names: Vec<&[u8]> = mark::names_in(&self.names).collect();
        let (partners, fields): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| mark::is_partner(name));
        let read = match wanted {
            Fields::All | Fields::Names => reply::pairs(self.values).and_then(read::whole),
            Fields::Cells(_) | Fields::Live(_) => cells_of(&fields, self.values),
        };
        let read = read::collected(readable(&owner, read)?, seen.generation, seen.gap);
        let fields = match wanted {
            Fields::Cells(_) => Fields::Cells(fields_of(fields)),
            other => other.clone(),
        };
        let mark =
            (!self.saved.is_empty()).then(|| (seen.snapshot, entry_of(self.name, self.saved)));
        let member = Member {
            owner,
            fields,
            partners: partners_of(partners),
            rejected_for: (!self.age.is_empty())
                .then(|| reply::digits(&self.age).map(Duration::from_micros))
                .transpose()?,
            mark,
        };
        Ok(Some((read, member)))
    }
}

/// The read of an owner from the values of `:v`, `:b`, `:n`, and of each field its value and its
/// tombstone. No values are no hash.
fn cells_of(fields: &[&[u8]], values: Value) -> Result<HotRead, Failure> {
    let mut names = vec![
        Bytes::from_static(key::HEAD.as_bytes()),
        Bytes::from_static(key::BORN.as_bytes()),
        Bytes::from_static(key::NOTED.as_bytes()),
    ];
    for field in fields {
        names.push(Bytes::copy_from_slice(field));
        names.push([key::TOMBSTONE.as_bytes(), field].concat().into());
    }
    let values = reply::list(values)?;
    if values.is_empty() {
        return Ok(HotRead::default());
    }
    if values.len() != names.len() {
        let text = format!("expected {} values, got {}", names.len(), values.len());
        return Err(Failure::Nonsense(text));
    }
    let mut pairs = Vec::with_capacity(names.len());
    for (name, value) in names.into_iter().zip(values) {
        pairs.extend(reply::maybe(value)?.map(|value| (name, value)));
    }
    read::whole(pairs)
}

/// The fields of these names, in order.
fn fields_of(names: Vec<&[u8]>) -> Vec<Field> {
    let texts = names
        .into_iter()
        .filter_map(|name| std::str::from_utf8(name).ok());
    let mut fields: Vec<Field> = texts.filter_map(key::field_of).collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}

/// The owners of these names of partners, each once. Another program may have written a name that is
/// none, and it is skipped.
fn partners_of(names: Vec<&[u8]>) -> Vec<Owner> {
    let mut owners: Vec<Owner> = names
        .into_iter()
        .filter_map(|name| mark::owner_of(name.get(mark::PARTNER.len_utf8()..)?))
        .collect();
    owners.sort_unstable();
    owners.dedup();
    owners
}
