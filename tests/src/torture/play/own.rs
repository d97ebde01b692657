//! Owners with one writer. The possible content of each field is known exactly.

use std::time::Duration;

use anyhow::Result;
use rand::RngExt as _;
use storage_sdk::{Ack, ByteOwner, Counters, Durability, Evicted, Record, Version};
use tokio::time::sleep;

use super::{CHURNERS, OWN, Player, TASKS};
use crate::torture::history::{Call, Effect, End};
use crate::torture::value::{token_of, value_of};

/// The time for which a flush, or a write that asks to land, waits for the database.
const FLUSH: Duration = Duration::from_secs(2);
/// The number of looks of an eviction whether the owner is gone.
const CHURN_TRIES: u32 = 30;

fn acked(ack: &Ack) -> End {
    End::Acked {
        version: ack.version().get(),
        changed: ack.changed(),
        counted: Vec::new(),
    }
}

fn found(record: &Record) -> End {
    let fields = record
        .iter()
        .map(|(field, value)| (field.to_string(), token_of(value)))
        .collect();
    End::Found {
        version: record.version().get(),
        fields,
    }
}

fn as_strs(names: &[String]) -> impl Iterator<Item = &str> {
    names.iter().map(String::as_str)
}

impl Player {
    fn own(&mut self) -> u32 {
        self.hot(OWN / TASKS) * TASKS + self.task
    }

    fn some_fields(&mut self, kind: char, all: u32, most: u32) -> Vec<String> {
        let first = self.rng.random_range(0..all);
        let count = self.rng.random_range(1..=most);
        let mut names: Vec<String> = (0..count)
            .map(|at| format!("{kind}{}", (first + at) % all))
            .collect();
        names.sort();
        names
    }

    /// One operation on an owner of this task.
    pub(super) async fn play_own(&mut self) -> Result<()> {
        let at = self.own();
        let name = format!("player/p{}-{at}", self.args.server);
        let owner = self.owner(&name)?;
        let end = match self.rng.random_range(0..100) {
            0..38 => self.update(&name, &owner, None, Durability::Cached).await?,
            38..39 => {
                self.update(&name, &owner, None, Durability::Landed { timeout: FLUSH })
                    .await?
            }
            39..47 => {
                let seen = self.seen_version(at);
                self.update(&name, &owner, Some(seen), Durability::Cached)
                    .await?
            }
            47..62 => self.incr(&name, &owner).await?,
            62..70 => self.remove(&name, &owner).await?,
            70..74 => self.restore(&name, &owner).await?,
            74..75 => self.purge(&name, &owner).await?,
            75..84 => self.get(&name, &owner).await?,
            84..94 => self.get_all(&name, &owner).await?,
            94..96 => self.flush(&name, &owner).await?,
            _ => self.evict(&name, &owner).await?,
        };
        let version = match end {
            End::Acked { version, .. } | End::Found { version, .. } => Version::new(version),
            _ => None,
        };
        if let (Some(version), Some(seen)) = (version, self.seen.get_mut(usize::try_from(at)?)) {
            *seen = version;
        }
        Ok(())
    }

    /// Some times, writes an owner and drops it from the hot tier as soon as it has landed. A load
    /// that was under way all the time brings outdated rows.
    pub(super) async fn churn(&mut self) -> Result<()> {
        let name = format!("player/p{}-{}", self.args.server, self.task);
        let owner = self.owner(&name)?;
        for _ in 0..self.rng.random_range(1..4) {
            self.update(&name, &owner, None, Durability::Cached).await?;
            for _ in 0..CHURN_TRIES {
                let number = self.log.begin(self.task, &name, &Call::Evict)?;
                let evicted = owner.evict().await;
                self.ended(number, End::Done(0))?;
                if !evicted.is_ok_and(|evicted| evicted == Evicted::WhenLanded) {
                    break;
                }
                sleep(Duration::from_millis(10)).await;
            }
        }
        if self.rng.random_range(0..3) > 0 {
            self.update(&name, &owner, None, Durability::Cached).await?;
        }
        Ok(())
    }

    /// Reads an owner that another task writes.
    pub(super) async fn look_at_others(&mut self) -> Result<()> {
        let server = self.rng.random_range(0..self.args.servers);
        let at = match self.rng.random_range(0..3) {
            0 => self.rng.random_range(0..CHURNERS),
            _ => self.hot(OWN / TASKS) * TASKS + self.rng.random_range(0..TASKS),
        };
        let name = format!("player/p{server}-{at}");
        let owner = self.owner(&name)?;
        if self.rng.random_range(0..3) == 0 {
            self.get(&name, &owner).await?
        } else {
            self.get_all(&name, &owner).await?
        };
        Ok(())
    }

    pub(super) fn owner(&self, name: &str) -> Result<ByteOwner> {
        let (logic_type, id) = name.split_once('/').unwrap_or(("player", name));
        Ok(self.bytes.owner(logic_type, id)?)
    }

    fn seen_version(&self, at: u32) -> Version {
        usize::try_from(at)
            .ok()
            .and_then(|at| self.seen.get(at).copied())
            .unwrap_or_default()
    }

    async fn update(
        &mut self,
        name: &str,
        owner: &ByteOwner,
        seen: Option<Version>,
        durability: Durability,
    ) -> Result<End> {
        let fields = self.some_fields('f', 6, 3);
        let tokens: Vec<(String, String)> = fields
            .into_iter()
            .map(|field| (field, self.token()))
            .collect();
        let changes = tokens
            .iter()
            .map(|(field, token)| (field.clone(), Effect::Set(token.clone())))
            .collect();
        let call = Call::Write {
            changes,
            if_version: seen.map(Version::get),
        };
        let write = || {
            let write = owner
                .update(
                    tokens
                        .iter()
                        .map(|(field, token)| (field.as_str(), value_of(token))),
                )
                .durability(durability);
            if let Some(version) = seen {
                write.if_version(version)
            } else {
                write
            }
        };
        self.write(name, call, write, |ack| acked(&ack)).await
    }

    async fn incr(&mut self, name: &str, owner: &ByteOwner) -> Result<End> {
        let by: Vec<(String, i64)> = self
            .some_fields('c', 3, 2)
            .into_iter()
            .map(|field| (field, self.rng.random_range(-50..1_000)))
            .collect();
        let changes = by
            .iter()
            .map(|(field, by)| (field.clone(), Effect::Incr(*by)))
            .collect();
        let call = Call::Write {
            changes,
            if_version: None,
        };
        let write = || owner.incr_many(by.iter().map(|(field, by)| (field.as_str(), *by)));
        let counted = |counters: Counters| End::Acked {
            version: counters.version().get(),
            changed: counters.ack().changed(),
            counted: by
                .iter()
                .filter_map(|(field, _)| Some((field.clone(), counters.get(field)?)))
                .collect(),
        };
        self.write(name, call, write, counted).await
    }

    async fn remove(&mut self, name: &str, owner: &ByteOwner) -> Result<End> {
        let kind = if self.rng.random_range(0..4) == 0 {
            'c'
        } else {
            'f'
        };
        let fields = self.some_fields(kind, 3, 2);
        let changes = fields
            .iter()
            .map(|field| (field.clone(), Effect::Remove))
            .collect();
        let call = Call::Write {
            changes,
            if_version: None,
        };
        self.write(
            name,
            call,
            || owner.remove(as_strs(&fields)),
            |ack| acked(&ack),
        )
        .await
    }

    async fn restore(&mut self, name: &str, owner: &ByteOwner) -> Result<End> {
        let kind = if self.rng.random_range(0..4) == 0 {
            'c'
        } else {
            'f'
        };
        let fields = self.some_fields(kind, 3, 2);
        let changes = fields
            .iter()
            .map(|field| (field.clone(), Effect::Restore))
            .collect();
        let call = Call::Write {
            changes,
            if_version: None,
        };
        self.write(
            name,
            call,
            || owner.restore(as_strs(&fields)),
            |ack| acked(&ack),
        )
        .await
    }

    /// Purges a removed field. Its removal must have landed before.
    async fn purge(&mut self, name: &str, owner: &ByteOwner) -> Result<End> {
        self.flush(name, owner).await?;
        let fields = self.some_fields('f', 3, 2);
        let changes = fields
            .iter()
            .map(|field| (field.clone(), Effect::Purge))
            .collect();
        let call = Call::Write {
            changes,
            if_version: None,
        };
        self.write(
            name,
            call,
            || owner.purge(as_strs(&fields)),
            |ack| acked(&ack),
        )
        .await
    }

    async fn get(&mut self, name: &str, owner: &ByteOwner) -> Result<End> {
        let kind = if self.rng.random_range(0..3) == 0 {
            'c'
        } else {
            'f'
        };
        let fields = self.some_fields(kind, 3, 3);
        let number = self
            .log
            .begin(self.task, name, &Call::Read(Some(fields.clone())))?;
        let end = match owner.get(as_strs(&fields)).await {
            Ok(record) => found(&record),
            Err(error) => End::NotApplied(error.to_string()),
        };
        self.ended(number, end)
    }

    async fn get_all(&mut self, name: &str, owner: &ByteOwner) -> Result<End> {
        let number = self.log.begin(self.task, name, &Call::Read(None))?;
        let end = match owner.get_all().await {
            Ok(record) => found(&record),
            Err(error) => End::NotApplied(error.to_string()),
        };
        self.ended(number, end)
    }

    async fn flush(&mut self, name: &str, owner: &ByteOwner) -> Result<End> {
        let number = self.log.begin(self.task, name, &Call::Flush)?;
        let end = match owner.flush(FLUSH).await {
            Ok(flushed) => End::Flushed(flushed.version.get()),
            Err(error) => End::NotApplied(error.to_string()),
        };
        self.ended(number, end)
    }

    async fn evict(&mut self, name: &str, owner: &ByteOwner) -> Result<End> {
        let number = self.log.begin(self.task, name, &Call::Evict)?;
        let end = match owner.evict().await {
            Ok(_) => End::Done(0),
            Err(error) => End::NotApplied(error.to_string()),
        };
        self.ended(number, end)
    }
}
