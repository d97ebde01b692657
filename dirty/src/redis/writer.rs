//! What a connection may write without a script.
//!
//! `update.lua` *grants* an owner that is written again before it has landed: the owner's hash names the writer, and the writer knows from
//! then on how the hash begins (version, generation, flag), that it has no tombstones, which marks stand for its writes, and what its
//! counters came to. While that holds, a further write of the same fields needs no script: a transaction of plain commands sets what
//! `update.lua` would have set, but leaves the mark as it is. A mark tells what is to be landed; what has landed its owner's hash tells (R6).
//!
//! Whoever changes what a writer builds on tells it, in the same script, by a field in the writer's key: another script that writes
//! the owner, a landing after which one of its marks goes, an adoption. The writer watches its key while its transaction is on the way
//! (WATCH), so a transaction that builds on what was so no longer is not applied, and not a half of it. Nor is one that comes to a
//! server that took over another's data meanwhile, which counts as a change of all keys; whether that was before the key was watched, the
//! server's replication history tells.
//!
//! The key has a time to live, which a round renews now and then, so that a writer that is gone leaves nothing behind, and no transaction
//! is applied after it. A write whose deadline may come earlier has `direct.lua` go before the transaction, which looks at the clock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use storage_model::sabotage::broken;
use storage_model::{Applied, Epoch, Mutation, Owner, Partition, Timestamp, Version};
use tokio::time::Instant;

use super::error::Failure;
use super::grant::{Alike, Grant};
use super::reply;
use super::script::ID_WINDOW;
use super::server;
use super::space::Space;
use crate::key;

/// The most owners that a writer keeps in mind for one partition: some 300 B each, and what they have not alike.
const OWNERS_MAX: usize = 16_384;

/// The field that a writer's key always has.
pub(super) const OWN: &[u8] = b":";

/// A connection that may write without scripts, and what it was granted.
#[derive(Debug)]
pub(super) struct Writer {
    /// Where it is told what holds no more; empty if it can't be a writer.
    pub(super) key: String,
    /// What its writes are remembered under. No other writer has it.
    pub(super) number: u64,
    /// How many writes it has planned: the number of the last one.
    pub(super) planned: u64,
    /// Of its connection.
    pub(super) serial: u64,
    /// The replication history that its server was in.
    pub(super) history: String,
    /// How long its key lives on without a round.
    pub(super) lease: Duration,
    /// Whether its key is watched.
    watched: bool,
    /// When its key was made to live on last.
    renewed: Option<Renewed>,
    partitions: HashMap<Partition, Granted>,
    /// What it was told and has taken note of; to be cleared in its next transaction.
    pub(super) heard: Vec<Bytes>,
}

/// A moment when a writer's key was made to live on.
#[derive(Debug, Clone, Copy)]
struct Renewed {
    /// When the command was sent: the key lives for as long from then on at least.
    sent: Instant,
    /// The server's time in microseconds when it was carried out, or a little later: the key lives for as long from then on at the most.
    time: u64,
}

/// Who a writer is, by what its server says of its connection.
#[derive(Debug, Default)]
pub(super) struct Who {
    pub(super) key: String,
    pub(super) number: u64,
    /// The replication history that its server is in.
    pub(super) history: String,
}

/// What a writer was granted in a partition.
#[derive(Debug)]
struct Granted {
    epoch: Epoch,
    /// The window whose operation ids are remembered now.
    window: u64,
    owners: HashMap<Owner, Grant>,
    /// What most of its owners have alike, kept once: it is at hand when the next write asks.
    alike: Alike,
}

/// A write that needs no script.
pub(super) struct Direct<'a> {
    /// Its owner, with the version that the write gives it.
    pub(super) grant: &'a Grant,
    /// The epoch in which that was granted.
    pub(super) epoch: Epoch,
    /// Where it is remembered: among the ids of even (0) or odd (1) windows.
    pub(super) parity: u8,
    /// Of a write that adds, the sums.
    pub(super) sums: Vec<i64>,
}

impl Writer {
    /// A writer that was not granted anything yet. Without a key it never is.
    pub(super) fn new(who: Who, serial: u64, lease: Duration) -> Self {
        let Who { key, number, history } = who;
        let (partitions, heard) = (HashMap::new(), Vec::new());
        Self { key, number, planned: 0, serial, history, lease, watched: false, renewed: None, partitions, heard }
    }

    /// Whether it may write without scripts at all.
    pub(super) fn is_able(&self) -> bool {
        !self.key.is_empty()
    }

    /// Whether its key should be made to live on.
    pub(super) fn is_to_be_renewed(&self) -> bool {
        self.renewed.is_none_or(|renewed| renewed.sent.elapsed() > self.lease / 4)
    }

    /// Takes note that its key was made to live on: by a command sent at this moment, before this time of the server. Where that is not
    /// known, the writer does not know until when its key lives.
    pub(super) fn renew(&mut self, sent: Instant, time: Option<u64>) {
        self.renewed = time.map(|time| Renewed { sent, time });
    }

    /// Whether its key may outlive this deadline, and with it a transaction.
    pub(super) fn may_outlive(&self, deadline: Timestamp) -> bool {
        // A key lives through the whole of its last millisecond.
        let lease = micros(self.lease).saturating_add(1_000);
        self.renewed.is_none_or(|renewed| renewed.time.saturating_add(lease) > deadline.0) && !broken("R17-late")
    }

    /// About the server's time in microseconds. None if the writer's key is not watched, or has run out since.
    pub(super) fn now(&self) -> Option<u64> {
        let renewed = self.renewed.filter(|_| self.watched)?;
        let passed = renewed.sent.elapsed();
        (passed < self.lease).then(|| renewed.time.saturating_add(micros(passed)))
    }

    /// Takes a write that needs no script, at this time of the server in microseconds.
    pub(super) fn take(&mut self, now: u64, partition: Partition, mutation: &Mutation) -> Option<Direct<'_>> {
        let granted = self.partitions.get_mut(&partition)?;
        let length = micros(ID_WINDOW);
        if mutation.deadline.0 > now.saturating_add(length)
            || mutation.epoch != Some(granted.epoch)
            || granted.window != now / length
        {
            return None;
        }
        let grant = granted.owners.get_mut(&mutation.owner)?;
        if !grant.has_mark(mutation) {
            return None;
        }
        let sums = grant.sums(mutation).filter(|_| grant.satisfies(mutation.condition))?;
        grant.version = Version::new(grant.version.get() + 2)?;
        grant.wrote(mutation, &sums);
        Some(Direct { grant, epoch: granted.epoch, parity: u8::from(granted.window % 2 == 1), sums })
    }

    /// Takes back what [`Writer::take`] took for a write that was not applied after all; the latest first.
    pub(super) fn give_back(&mut self, partition: Partition, owner: &Owner, taken: Version) {
        let granted = self.partitions.get_mut(&partition);
        if let Some(grant) = granted.and_then(|granted| granted.owners.get_mut(owner)).filter(|grant| grant.version == taken)
            && let Some(before) = taken.get().checked_sub(2).and_then(Version::new)
        {
            grant.version = before;
            grant.counters.clear();
        }
    }

    /// Takes note of an owner that `update.lua` wrote and granted, in this epoch and window of operation ids; without flags, of one that
    /// it did not grant.
    pub(super) fn grant(
        &mut self,
        space: &Space,
        at: (Partition, Epoch, u64),
        mutation: &Mutation,
        applied: &Applied,
        flags: &str,
    ) {
        let (partition, epoch, window) = at;
        let new = || Granted { epoch, window, owners: HashMap::new(), alike: Alike::default() };
        let granted = self.partitions.entry(partition).or_insert_with(new);
        // With each window all that was granted ends, so that a mark which somebody deleted is missing for no longer.
        if (granted.epoch, granted.window) != (epoch, window) || granted.owners.len() >= OWNERS_MAX {
            granted.owners.clear();
        }
        (granted.epoch, granted.window) = (epoch, window);
        if flags.is_empty() {
            granted.owners.remove(&mutation.owner);
            return;
        }
        let (flags, fields) = (granted.alike.flags(flags), granted.alike.fields(mutation));
        let grant = granted.owners.entry(mutation.owner.clone()).or_insert_with(|| Grant {
            version: applied.version,
            flags: Arc::clone(&flags),
            hash: space.keys.data(partition, &mutation.owner),
            mark: Arc::clone(&fields),
            others: Vec::new(),
            counters: Vec::new(),
        });
        grant.version = applied.version;
        grant.wrote(mutation, &applied.counters);
        grant.flags = flags;
        if !grant.has_mark(mutation) {
            let other = std::mem::replace(&mut grant.mark, fields);
            grant.others.push(other);
        }
    }

    /// Takes note of the end of a round: what stands in its key, which is watched again, and what INFO says of the server. Answers whether
    /// that is in the history in which the writer was granted what it has: if so, so it was when the transaction was applied.
    pub(super) fn hear(&mut self, watched: Value, key: Value, info: Value) -> Result<bool, Failure> {
        self.watched = false;
        let is_here = server::history(&reply::text(info)?) == Some(&self.history) || broken("R17-history");
        let told = reply::pairs(key)?;
        // Without its own field the key has run out, and with it what the writer was told. In another history it may be one from before.
        if !is_here || watched != Value::Okay || !told.iter().any(|(name, _)| **name == *OWN) {
            self.forget();
            return Ok(is_here);
        }
        self.heard = told.into_iter().map(|(name, _)| name).filter(|name| **name != *OWN).collect();
        for name in &self.heard {
            let Some((partition, owner)) = key::named(name) else { continue };
            match owner {
                Some(owner) => drop(self.partitions.get_mut(&partition).map(|granted| granted.owners.remove(&owner))),
                None => drop(self.partitions.remove(&partition)),
            }
        }
        self.watched = true;
        Ok(true)
    }

    /// Forgets all that it was granted.
    pub(super) fn forget(&mut self) {
        self.watched = false;
        self.partitions.clear();
        self.heard.clear();
    }
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

#[cfg(test)]
mod tests {
    use storage_model::{Change, Field, OpId};

    use super::*;

    #[test]
    fn with_a_window_of_ids_ends_all_that_was_granted_in_it() {
        let (space, epoch, partition) = (Space::new("slug", 1), Epoch(1), Partition(0));
        let write = |owner| {
            let owner = Owner::new("game", "eu", "player", owner).unwrap();
            let changes = vec![(Field::new("gold").unwrap(), Change::Set(Bytes::new()))];
            Mutation::new(owner, changes, OpId::new([0; 16]), Timestamp(0)).sent_in(epoch)
        };
        let length = micros(ID_WINDOW);
        let mut writer = Writer::new(Who::default(), 1, Duration::from_secs(600));
        let grant = |writer: &mut Writer, owner, window| {
            let (id, version) = (OpId::new([0; 16]), Version::new(5).unwrap());
            let applied = Applied { id, version, changed: 1, counters: Vec::new() };
            writer.grant(&space, (partition, epoch, window), &write(owner), &applied, " 1p");
        };
        let takes = |writer: &mut Writer, owner, window| writer.take(window * length, partition, &write(owner)).is_some();
        grant(&mut writer, "ann", 7);
        grant(&mut writer, "bob", 7);
        assert!(takes(&mut writer, "ann", 7) && takes(&mut writer, "bob", 7) && !takes(&mut writer, "ann", 8));
        grant(&mut writer, "ann", 8);
        assert!(takes(&mut writer, "ann", 8));
        assert!(!takes(&mut writer, "bob", 8), "its mark is to be made again");
    }
}
