//! The alternative without the storage as users write it by hand: a script that sets the fields, an exist marker
//! and a dirty entry, over one connection that all tasks share.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use redis::aio::MultiplexedConnection;

use super::load::{Operation, count};
use super::place::{Place, owner_id, part_of};
use super::plain::Fields;

const SCRIPT: &str = include_str!("plain_script.lua");
/// The number of tasks that fill a place.
const TASKS: usize = 64;

/// One EVALSHA for each turn, for another owner each time.
#[derive(Debug, Clone)]
pub struct PlainScript {
    connection: MultiplexedConnection,
    digest: Arc<str>,
    owners: Arc<[Owner]>,
    fields: Fields,
}

#[derive(Debug)]
struct Owner {
    id: String,
    hash: String,
    marker: String,
    dirty: String,
}

impl Owner {
    fn new(partitions: u32, number: usize) -> Self {
        let id = owner_id("o", number);
        let part = part_of(partitions, &id);
        let key = |kind: &str| format!("plain-{kind}:{{{part}}}:game:eu:player:{id}");
        Self {
            hash: key("data"),
            marker: key("exist"),
            dirty: format!("plain-dirty:{{{part}}}"),
            id: format!("game:eu:player:{id}"),
        }
    }
}

impl PlainScript {
    /// The script on this number of owners, each of which it has written once.
    ///
    /// # Errors
    /// Redis does not answer, or a write did not happen.
    pub async fn warm(place: &Place, owners: usize, fields: Fields) -> Result<Self> {
        let mut connection = place.plain().await?;
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(SCRIPT);
        let digest: String = load.query_async(&mut connection).await?;
        let partitions = place.settings.redis.partitions;
        let script = Self {
            connection,
            digest: digest.into(),
            owners: (0..owners)
                .map(|number| Owner::new(partitions, number))
                .collect(),
            fields,
        };
        count(&script, TASKS.min(owners), owners).await?;
        script.check().await?;
        Ok(script)
    }

    /// Whether each owner has its fields, its exist marker and its dirty entries.
    async fn check(&self) -> Result<()> {
        let mut connection = self.connection.clone();
        for owner in self.owners.iter() {
            for (field, value) in self.fields.iter() {
                let mut pipeline = redis::pipe();
                pipeline.hget(&owner.hash, field).exists(&owner.marker);
                pipeline.hexists(&owner.dirty, format!("{}:{field}", owner.id));
                let found: (Vec<u8>, bool, bool) = pipeline.query_async(&mut connection).await?;
                ensure!(
                    found == (value.clone(), true, true),
                    "the script did not write {field} of {}",
                    owner.id
                );
            }
        }
        Ok(())
    }
}

impl Operation for PlainScript {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        let owner = self
            .owners
            .get(turn % self.owners.len().max(1))
            .context("no owners")?;
        let mut command = redis::cmd("EVALSHA");
        command.arg(&*self.digest).arg(3);
        command
            .arg(&owner.hash)
            .arg(&owner.marker)
            .arg(&owner.dirty);
        command.arg(&owner.id);
        for (field, value) in self.fields.iter() {
            command.arg(field).arg(value.as_slice());
        }
        let written: usize = command.query_async(&mut self.connection).await?;
        ensure!(
            written == self.fields.len(),
            "the script wrote {written} fields"
        );
        Ok(1)
    }
}
