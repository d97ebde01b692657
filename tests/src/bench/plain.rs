//! The alternative without the storage: commands of the plain Redis client, over one connection
//! that all tasks share.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use super::load::Operation;
use super::place::{Place, value};

/// Names and values of the fields of a write.
pub type Fields = Arc<[(String, Vec<u8>)]>;

/// This number of fields, each with a value of this number of bytes. Each round has other values.
#[must_use]
pub fn fields(count: usize, bytes: usize, round: u64) -> Fields {
    (0..count)
        .map(|number| (format!("field{number}"), value(bytes, round)))
        .collect()
}

/// One command for each turn, on another key each time.
#[derive(Debug, Clone)]
pub struct Plain {
    connection: MultiplexedConnection,
    keys: Arc<[String]>,
    fields: Fields,
    command: Command,
}

/// The command.
#[derive(Debug, Clone, Copy)]
pub enum Command {
    /// HSET of all fields.
    Hset,
    /// HMGET of all fields.
    Hmget,
    /// HINCRBY of a field by 1.
    Hincrby,
    /// A pipeline of this number of HSETs, each on its own key.
    HsetPipeline(usize),
    /// MULTI, this number of HSETs, each on its own key, and EXEC.
    HsetMulti(usize),
}

impl Plain {
    /// The command on keys of the same number and length as this number of owners of the storage.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn new(
        place: &Place,
        command: Command,
        owners: usize,
        fields: Fields,
    ) -> Result<Self> {
        Self::of_series(place, command, "o", owners, fields).await
    }

    /// Like [`Plain::new`], for owners of another series.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn of_series(
        place: &Place,
        command: Command,
        series: &str,
        owners: usize,
        fields: Fields,
    ) -> Result<Self> {
        Ok(Self::over(
            place.plain().await?,
            place.plain_keys(series, owners),
            command,
            fields,
        ))
    }

    /// The command on these keys over a connection.
    #[must_use]
    pub fn over(
        connection: MultiplexedConnection,
        keys: Arc<[String]>,
        command: Command,
        fields: Fields,
    ) -> Self {
        Self {
            connection,
            keys,
            fields,
            command,
        }
    }

    /// The same keys and connection for another command.
    #[must_use]
    pub fn with(&self, command: Command) -> Self {
        Self {
            command,
            ..self.clone()
        }
    }

    fn key(&self, turn: usize) -> Result<&str> {
        Ok(self
            .keys
            .get(turn % self.keys.len().max(1))
            .context("no keys")?)
    }

    fn hset(&self, turn: usize) -> Result<Cmd> {
        let mut command = redis::cmd("HSET");
        command.arg(self.key(turn)?);
        for (field, value) in self.fields.iter() {
            command.arg(field).arg(value.as_slice());
        }
        Ok(command)
    }

    fn hmget(&self, turn: usize) -> Result<Cmd> {
        let mut command = redis::cmd("HMGET");
        command.arg(self.key(turn)?);
        for (field, _) in self.fields.iter() {
            command.arg(field);
        }
        Ok(command)
    }
}

impl Operation for Plain {
    async fn run(&mut self, turn: usize) -> Result<u64> {
        let (command, count) = match self.command {
            Command::Hset => (self.hset(turn)?, 1),
            Command::Hmget => (self.hmget(turn)?, 1),
            Command::Hincrby => {
                let mut command = redis::cmd("HINCRBY");
                command.arg(self.key(turn)?).arg("count").arg(1);
                (command, 1)
            }
            Command::HsetPipeline(size) | Command::HsetMulti(size) => {
                let mut pipeline = redis::Pipeline::with_capacity(size);
                let is_transaction = matches!(self.command, Command::HsetMulti(_));
                if is_transaction {
                    pipeline.atomic();
                }
                for number in 0..size {
                    pipeline.add_command(self.hset(turn * size + number)?);
                }
                pipeline.query_async::<Value>(&mut self.connection).await?;
                return Ok(if is_transaction {
                    1
                } else {
                    u64::try_from(size)?
                });
            }
        };
        let answer: Value = command.query_async(&mut self.connection).await?;
        anyhow::ensure!(!matches!(answer, Value::Nil), "no answer");
        Ok(count)
    }
}
