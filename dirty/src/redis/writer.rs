//! What a connection may write without a script.
//!
//! `update.lua` *grants* an owner that it has written: the owner's hash names the writer, and the writer knows from then on how the
//! hash begins (version, generation, flag), that it has no tombstones, and which of its marks stand in the dirty map. While that
//! holds, a further write of the same fields needs no script: a transaction of plain commands sets what `update.lua` would have set.
//!
//! Whoever changes what a writer builds on tells it, in the same script, by a field in the writer's key: another script that writes
//! the owner, the snapshot that takes the marks away, an adoption. The writer watches its key while its transaction is on the way
//! (WATCH), so a transaction that builds on what was so no longer is not applied, and not a half of it. The key has a time to live,
//! which each round renews: a transaction that was held up for longer is not applied either.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use storage_model::{Epoch, Mutation, Partition, Version};
use tokio::time::Instant;

use super::error::Failure;
use super::reply;
use super::script::ID_WINDOW;
use crate::key;

/// How long a writer that sends nothing keeps what it was granted. A transaction that arrives later than this after the one before
/// is not applied, so a server that became a replica, lost data and is a primary again does not take it: that takes longer, as
/// `opening.rs` has it.
pub(super) const LEASE: Duration = Duration::from_millis(500);

/// The most owners that a writer keeps in mind for one partition: some 200 B each.
const OWNERS_MAX: usize = 16_384;

/// A connection that may write without scripts, and what it was granted.
#[derive(Debug)]
pub(super) struct Writer {
    /// Where it is told what holds no more.
    pub(super) key: String,
    /// Of its connection.
    pub(super) serial: u64,
    /// When its key was last known to be watched, if it is: by our clock, and in microseconds by the server's.
    watched: Option<(Instant, u64)>,
    partitions: HashMap<Partition, Granted>,
    /// What it was told and has taken note of; to be cleared in its next transaction.
    pub(super) heard: Vec<Bytes>,
}

/// What a writer was granted in a partition.
#[derive(Debug)]
struct Granted {
    epoch: Epoch,
    /// The window whose operation ids are remembered now.
    window: u64,
    /// By the keys of their hashes.
    owners: HashMap<String, Grant>,
}

/// An owner as its writer knows it.
#[derive(Debug)]
struct Grant {
    version: Version,
    /// What stands behind the version in the hash.
    flags: String,
    /// Names of its marks that stand in the dirty map.
    marks: Vec<String>,
}

/// A write that needs no script.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Direct {
    pub(super) version: Version,
    /// What the hash begins with from then on.
    pub(super) head: String,
    /// Where its operation id is remembered: in the ids of even (0) or odd (1) windows.
    pub(super) parity: u8,
}

impl Writer {
    pub(super) fn new(key: String, serial: u64) -> Self {
        Self { key, serial, watched: None, partitions: HashMap::new(), heard: Vec::new() }
    }

    /// Whether its key is watched, and has certainly not expired since.
    pub(super) fn is_watching(&self) -> bool {
        self.watched.is_some_and(|(at, _)| at.elapsed() < LEASE)
    }

    /// Takes a write that needs no script.
    pub(super) fn take(&mut self, partition: Partition, hash: &str, mark: &str, mutation: &Mutation) -> Option<Direct> {
        let (_, now) = self.watched?;
        let granted = self.partitions.get_mut(&partition)?;
        let length = micros(ID_WINDOW);
        // It is applied within LEASE from `now`, or not at all.
        let in_time = mutation.deadline.0 >= now + micros(LEASE) && mutation.deadline.0 <= now + length;
        if !in_time || mutation.epoch != Some(granted.epoch) || granted.window != now / length {
            return None;
        }
        let grant = granted.owners.get_mut(hash).filter(|grant| grant.marks.iter().any(|known| known == mark))?;
        let version = Version::new(grant.version.get() + 2)?;
        grant.version = version;
        Some(Direct { version, head: format!("{version}{}", grant.flags), parity: u8::from(granted.window % 2 == 1) })
    }

    /// Takes back what [`Writer::take`] took for a write that was not applied after all; the latest first.
    pub(super) fn give_back(&mut self, partition: Partition, hash: &str, taken: Version) {
        let granted = self.partitions.get_mut(&partition);
        if let Some(grant) = granted.and_then(|granted| granted.owners.get_mut(hash)).filter(|grant| grant.version == taken)
            && let Some(before) = taken.get().checked_sub(2).and_then(Version::new)
        {
            grant.version = before;
        }
    }

    /// Takes note of an owner that `update.lua` wrote and granted, in this epoch and window of operation ids.
    pub(super) fn grant(&mut self, partition: Partition, epoch: Epoch, window: u64, of: Granting) {
        let granted = self.partitions.entry(partition).or_insert_with(|| Granted { epoch, window, owners: HashMap::new() });
        if granted.epoch != epoch || granted.owners.len() >= OWNERS_MAX {
            granted.owners.clear();
        }
        (granted.epoch, granted.window) = (epoch, window);
        let grant = granted.owners.entry(of.hash).or_insert_with(|| Grant { version: of.version, flags: String::new(), marks: Vec::new() });
        (grant.version, grant.flags) = (of.version, of.flags);
        if !grant.marks.contains(&of.mark) {
            grant.marks.push(of.mark);
        }
    }

    /// Takes note of the end of a round: what stands in its key, which is watched again, and the server's time.
    pub(super) fn hear(&mut self, watched: Value, key: Value, time: Value) -> Result<(), Failure> {
        self.watched = None;
        let told = reply::pairs(key)?;
        let now = time_of(time)?;
        // Without its own field the key has expired, and with it what the writer was told.
        if watched != Value::Okay || !told.iter().any(|(name, _)| **name == *OWN) {
            self.forget();
            return Ok(());
        }
        self.heard = told.into_iter().map(|(name, _)| name).filter(|name| **name != *OWN).collect();
        for name in &self.heard {
            let Some((partition, hash)) = key::partition_of(name) else { continue };
            match self.partitions.get_mut(&partition).filter(|_| hash) {
                Some(granted) => drop(std::str::from_utf8(name).map(|name| granted.owners.remove(name))),
                None => drop(self.partitions.remove(&partition)),
            }
        }
        self.watched = Some((Instant::now(), now));
        Ok(())
    }

    /// Forgets all that it was granted.
    pub(super) fn forget(&mut self) {
        self.watched = None;
        self.partitions.clear();
        self.heard.clear();
    }
}

/// The field that a writer's key always has.
pub(super) const OWN: &[u8] = b":";

/// An owner that is granted.
#[derive(Debug)]
pub(super) struct Granting {
    pub(super) hash: String,
    pub(super) mark: String,
    pub(super) version: Version,
    /// What stands behind the version in the hash.
    pub(super) flags: String,
}

/// The answer of TIME in microseconds.
pub(super) fn time_of(value: Value) -> Result<u64, Failure> {
    let [seconds, part] = reply::array(value)?;
    let (seconds, part): (u64, u64) = (reply::number(seconds)?, reply::number(part)?);
    Ok(seconds.saturating_mul(1_000_000).saturating_add(part))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
