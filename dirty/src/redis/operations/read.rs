//! Reads of owner hashes.

use std::collections::BTreeMap;

use bytes::Bytes;
use redis::Value;
use storage_model::{Cell, Epoch, Field, Owner, Partition, Position, Version};

use crate::redis::RedisStore;
use crate::redis::connections::transport::{Answer, Command};
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts;
use crate::{Fields, Header, HotError, HotRead, Read, key};

impl RedisStore {
    pub(in crate::redis) async fn read_all(
        &self,
        reads: &[Read],
    ) -> Vec<Result<HotRead, HotError>> {
        let [read] = reads else {
            return Box::pin(self.read_several(reads)).await;
        };
        let partition = self.space.partition(&read.owner);
        let answer = self
            .send_one_verified(
                self.read_command(partition, &read.owner, &read.fields),
                partition,
            )
            .await;
        crate::redis::hot_errors(
            "read",
            false,
            &[partition],
            [self.found(read, partition, answer)],
        )
    }

    async fn read_several(&self, reads: &[Read]) -> Vec<Result<HotRead, HotError>> {
        let partitions: Vec<_> = reads
            .iter()
            .map(|read| self.space.partition(&read.owner))
            .collect();
        let command =
            |(read, at): (&Read, &Partition)| self.read_command(*at, &read.owner, &read.fields);
        let answers = self
            .send_verified(
                reads.iter().zip(&partitions).map(command).collect(),
                &partitions,
                false,
            )
            .await;
        let found = reads
            .iter()
            .zip(&partitions)
            .zip(answers)
            .map(|((read, at), answer)| self.found(read, *at, answer));
        crate::redis::hot_errors("read", false, &partitions, found)
    }

    fn found(&self, read: &Read, partition: Partition, answer: Answer) -> Result<HotRead, Failure> {
        let read = judged(
            decode(&read.fields, answer?)?,
            self.guard.generation(partition),
        );
        // A generation is the epoch that began it.
        self.answered(
            partition,
            read.header
                .map(|header| header.generation)
                .unwrap_or_default(),
        );
        Ok(read)
    }

    /// One command that reads an owner.
    pub(in crate::redis) fn read_command(
        &self,
        partition: Partition,
        owner: &Owner,
        fields: &Fields,
    ) -> Command {
        let (slot, key) = (
            self.space.slot(partition),
            self.space.keys.data(partition, owner),
        );
        let asked = match fields {
            Fields::Names => return scripts::read_names(&self.space, owner),
            Fields::All => {
                let mut cmd = redis::cmd("HGETALL");
                cmd.arg(key);
                return Command::read("read", slot, cmd);
            }
            Fields::Live(asked) | Fields::Cells(asked) => asked,
        };
        let cells = matches!(fields, Fields::Cells(_));
        // Allocated at once, since this is the most frequent command of game servers.
        let (count, bytes) = (
            asked.len(),
            asked
                .iter()
                .map(|field| field.as_str().len() + 3)
                .sum::<usize>(),
        );
        let (count, bytes) = if cells {
            (2 * count + 2, 2 * bytes)
        } else {
            (count, bytes)
        };
        let mut cmd = redis::Cmd::with_capacity(3 + count, key.len() + 16 + bytes);
        cmd.arg("HMGET").arg(key).arg(key::HEAD);
        if cells {
            cmd.arg(key::BORN).arg(key::NOTED);
        }
        for field in asked {
            cmd.arg(&*key::stored(field));
            if cells {
                cmd.arg(key::tombstone(field));
            }
        }
        Command::read("read", slot, cmd)
    }
}

/// The read. Its hash is suspect if its generation is lower than the partition's.
pub(in crate::redis) fn judged(mut read: HotRead, generation: Epoch) -> HotRead {
    if let Some(header) = &mut read.header {
        header.suspect = header.generation < generation;
    }
    read
}

/// A worker's read. A gap of the feed may tell the owner's last note.
pub(in crate::redis) fn collected(
    read: HotRead,
    generation: Epoch,
    gap: Option<Position>,
) -> HotRead {
    let mut read = judged(read, generation);
    if let Some(header) = &mut read.header {
        header.told_by(gap);
    }
    read
}

/// The answer to [`RedisStore::read_command`].
pub(in crate::redis) fn decode(fields: &Fields, value: Value) -> Result<HotRead, Failure> {
    match fields {
        Fields::All | Fields::Names => whole(reply::pairs(value)?),
        Fields::Live(asked) => some(asked, false, value),
        Fields::Cells(asked) => some(asked, true, value),
    }
}

fn some(asked: &[Field], tombstones: bool, value: Value) -> Result<HotRead, Failure> {
    let mut values = reply::list(value)?.into_iter().map(reply::maybe);
    let mut next = || {
        values
            .next()
            .ok_or_else(|| Failure::Nonsense("fewer values than fields".to_owned()))?
    };
    let mut header = next()?.map(|head| header_of(&head)).transpose()?;
    if tombstones {
        let (born, noted) = (next()?, next()?);
        header = header
            .map(|header| of_worker(header, born.as_deref(), noted.as_deref()))
            .transpose()?;
    }
    let mut cells = Vec::with_capacity(asked.len());
    for field in asked {
        let live = next()?;
        let tombstone = if tombstones { next()? } else { None };
        let cell = match (live, tombstone) {
            (Some(value), _) => Some(Cell::Live(value)),
            (None, Some(value)) => Some(buried(&value)?),
            (None, None) => None,
        };
        cells.extend(cell.map(|cell| (field.clone(), cell)));
    }
    Ok(HotRead { header, cells })
}

/// A hash from all its names and values.
pub(in crate::redis) fn whole(pairs: Vec<(Bytes, Bytes)>) -> Result<HotRead, Failure> {
    let (mut header, mut born, mut noted) = (None, None, None);
    let mut cells = BTreeMap::new();
    for (name, value) in pairs {
        if name == key::HEAD {
            header = Some(header_of(&value)?);
        } else if name == key::BORN {
            born = Some(value);
        } else if name == key::NOTED {
            noted = Some(value);
        } else if let Some(field) = name.strip_prefix(key::TOMBSTONE.as_bytes()) {
            cells.insert(reply::field(field)?, buried(&value)?);
        } else if !key::is_reserved(&name) {
            cells.insert(reply::field(&name)?, Cell::Live(value));
        }
    }
    let header = header
        .map(|header| of_worker(header, born.as_deref(), noted.as_deref()))
        .transpose()?;
    if header.is_none() && !cells.is_empty() {
        return Err(Failure::Nonsense(
            "an owner hash lacks its version".to_owned(),
        ));
    }
    Ok(HotRead {
        header,
        cells: cells.into_iter().collect(),
    })
}

/// The content of `:v`, as `head` in `owner.lua` writes it: version, generation, and whether the
/// hash is complete.
pub(in crate::redis) fn header_of(head: &[u8]) -> Result<Header, Failure> {
    let nonsense = || {
        let head = key::HEAD;
        Failure::Nonsense(format!(
            "the reserved field {head} is not version, generation and flag"
        ))
    };
    let (flag, rest) = head.split_last().ok_or_else(nonsense)?;
    let complete = match flag {
        b'a' => true,
        b'p' => false,
        _ => return Err(nonsense()),
    };
    let space = rest
        .iter()
        .position(|byte| *byte == b' ')
        .ok_or_else(nonsense)?;
    let (version, generation) = rest.split_at(space);
    let generation = reply::epoch(generation.get(1..).unwrap_or_default())?;
    Ok(Header {
        version: reply::version(version)?,
        complete,
        generation,
        suspect: false,
        born: Version::ZERO,
        noted: Position::ZERO,
    })
}

/// The header with the contents of `:b` and `:n`, which few hashes have.
fn of_worker(header: Header, born: Option<&[u8]>, noted: Option<&[u8]>) -> Result<Header, Failure> {
    Ok(Header {
        born: born.map_or(Ok(Version::ZERO), reply::version)?,
        noted: noted.map_or(Ok(Position::ZERO), reply::position)?,
        ..header
    })
}

fn buried(value: &Bytes) -> Result<Cell, Failure> {
    match value.first() {
        Some(b'r') => Ok(Cell::Removed(value.slice(1..))),
        Some(b'p') => Ok(Cell::Purged),
        _ => Err(Failure::Nonsense(
            "a tombstone is neither removed nor purged".to_owned(),
        )),
    }
}
