//! Reads of owner hashes, and the leases, evictions and times to live of owners.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use storage_model::{Cell, Epoch, Field, Owner, Partition, Version};

use crate::redis::RedisStore;
use crate::redis::connections::transport::{Answer, Command};
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts;
use crate::{Evicted, Fields, Header, HotError, HotRead, Read, key};

/// The reserved name that every read carries: version, generation and flag.
pub(in crate::redis) const HEAD: &str = ":v";

/// The reserved name that a worker's reads carry, too. It tells when the hash was born, if a map
/// named its owner then.
const BORN: &str = ":b";

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
            Fields::Names => return scripts::names(&self.space, owner),
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
            (2 * count + 1, 2 * bytes)
        } else {
            (count, bytes)
        };
        let mut cmd = redis::Cmd::with_capacity(3 + count, key.len() + 16 + bytes);
        cmd.arg("HMGET").arg(key).arg(HEAD);
        if cells {
            cmd.arg(BORN);
        }
        for field in asked {
            cmd.arg(&*key::stored(field));
            if cells {
                cmd.arg(key::tombstone(field));
            }
        }
        Command::read("read", slot, cmd)
    }

    /// By plain commands. A caller that gets no lease only waits, so no step must be atomic.
    pub(in crate::redis) async fn lease_all(
        &self,
        owners: &[Owner],
        ttl: Duration,
    ) -> Vec<Result<bool, HotError>> {
        let partitions: Vec<_> = owners
            .iter()
            .map(|owner| self.space.partition(owner))
            .collect();
        let take = |owner: &Owner| {
            let mut command = self.on_lease("lease", owner, "SET");
            command
                .cmd
                .arg("")
                .arg("NX")
                .arg("PX")
                .arg(scripts::millis(ttl));
            command
        };
        let took = |value| Ok(!matches!(value, Value::Nil));
        let taken = self
            .each(
                "lease",
                &partitions,
                owners.iter().map(take).collect(),
                took,
            )
            .await;
        // If the clock was set back, the lease of a dead holder would last longer by as much (H8).
        let shorten = |owner: &Owner| {
            let mut command = self.on_lease("lease", owner, "PEXPIRE");
            command.cmd.arg(scripts::millis(ttl)).arg("LT");
            command
        };
        let refused: Vec<_> = owners
            .iter()
            .zip(&taken)
            .filter(|(_, taken)| **taken == Ok(false))
            .map(|(owner, _)| shorten(owner))
            .collect();
        if !refused.is_empty() {
            self.router.send(&refused, false).await;
        }
        taken
    }

    pub(in crate::redis) async fn release_all(&self, owners: &[Owner]) -> Result<(), HotError> {
        let partitions: Vec<_> = owners
            .iter()
            .map(|owner| self.space.partition(owner))
            .collect();
        let release = |owner: &Owner| self.on_lease("release", owner, "DEL");
        let answers = self
            .each(
                "release",
                &partitions,
                owners.iter().map(release).collect(),
                |_| Ok(()),
            )
            .await;
        answers.into_iter().collect()
    }

    /// A command on the lease of an owner.
    fn on_lease(&self, operation: &'static str, owner: &Owner, name: &str) -> Command {
        let partition = self.space.partition(owner);
        let mut cmd = redis::cmd(name);
        cmd.arg(self.space.keys.lease(partition, owner));
        Command::write(operation, self.space.slot(partition), cmd)
    }

    pub(in crate::redis) async fn evict_all(
        &self,
        owners: &[Owner],
    ) -> Vec<Result<Evicted, HotError>> {
        let partitions: Vec<_> = owners
            .iter()
            .map(|owner| self.space.partition(owner))
            .collect();
        let commands = owners
            .iter()
            .map(|owner| scripts::evict(&self.space, owner))
            .collect();
        let gone = |value| {
            Ok(if reply::yes(value)? {
                Evicted::Gone
            } else {
                Evicted::WhenLanded
            })
        };
        self.each("evict", &partitions, commands, gone).await
    }

    pub(in crate::redis) async fn marked_all(
        &self,
        owners: &[Owner],
        epoch: Option<Epoch>,
    ) -> Vec<Result<bool, HotError>> {
        let partitions: Vec<_> = owners
            .iter()
            .map(|owner| self.space.partition(owner))
            .collect();
        let commands = owners
            .iter()
            .map(|owner| scripts::marked(&self.space, owner, epoch))
            .collect();
        self.each("marked", &partitions, commands, reply::yes).await
    }

    pub(in crate::redis) async fn touch_all(&self, owners: &[Owner]) -> Result<(), HotError> {
        let partitions: Vec<_> = owners
            .iter()
            .map(|owner| self.space.partition(owner))
            .collect();
        let touch = |owner: &Owner| {
            let partition = self.space.partition(owner);
            let mut cmd = redis::cmd("PEXPIRE");
            cmd.arg(self.space.keys.data(partition, owner))
                .arg(scripts::millis(self.clean_ttl))
                .arg("XX");
            Command::write("touch", self.space.slot(partition), cmd)
        };
        let answers = self
            .each(
                "touch",
                &partitions,
                owners.iter().map(touch).collect(),
                |_| Ok(()),
            )
            .await;
        answers.into_iter().collect()
    }
}

/// The read. Its hash is suspect if its generation is lower than the partition's.
pub(in crate::redis) fn judged(mut read: HotRead, generation: Epoch) -> HotRead {
    if let Some(header) = &mut read.header {
        header.suspect = header.generation < generation;
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
        let born = next()?;
        header = header
            .map(|header| born_at(header, born.as_deref()))
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
    let (mut header, mut born) = (None, None);
    let mut cells = BTreeMap::new();
    for (name, value) in pairs {
        match &*name {
            b":v" => header = Some(header_of(&value)?),
            b":b" => born = Some(value),
            other => match (other.strip_prefix(key::TOMBSTONE.as_bytes()), other.first()) {
                (Some(field), _) => drop(cells.insert(field_of(field)?, buried(&value)?)),
                (None, Some(b':')) => {}
                (None, _) => drop(cells.insert(field_of(other)?, Cell::Live(value))),
            },
        }
    }
    let header = header
        .map(|header| born_at(header, born.as_deref()))
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
        Failure::Nonsense("the reserved field :v is not version, generation and flag".to_owned())
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
    })
}

/// The header with the content of `:b`, which few hashes have.
fn born_at(header: Header, born: Option<&[u8]>) -> Result<Header, Failure> {
    Ok(Header {
        born: born.map_or(Ok(Version::ZERO), reply::version)?,
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

fn field_of(name: &[u8]) -> Result<Field, Failure> {
    let field = std::str::from_utf8(name).ok().and_then(key::field_of);
    field.ok_or_else(|| {
        Failure::Nonsense(format!("{:?} is no field", String::from_utf8_lossy(name)))
    })
}
