//! Owners: leases, evictions and times to live. Reads, writes, observations and fills have files of
//! their own.

use std::time::Duration;

use async_trait::async_trait;
use redis::Value;
use storage_model::{Epoch, Evicted, Mutation, Owner};

use crate::redis::RedisStore;
use crate::redis::connections::transport::Command;
use crate::redis::reply;
use crate::redis::scripts;
use crate::{Filled, HotError, HotRead, Load, Mutated, Observed, Owners, Read};

#[async_trait]
impl Owners for RedisStore {
    async fn read(&self, reads: &[Read]) -> Vec<Result<HotRead, HotError>> {
        self.read_all(reads).await
    }

    async fn mutate(&self, mutations: &[(Mutation, Vec<Load>)]) -> Vec<Result<Mutated, HotError>> {
        self.mutate_all(mutations).await
    }

    async fn observe(&self, owners: &[Owner]) -> Vec<Result<Observed, HotError>> {
        self.observe_all(owners).await
    }

    /// By plain commands. A caller that gets no lease only waits, so no step must be atomic.
    async fn lease(&self, owners: &[Owner], ttl: Duration) -> Vec<Result<bool, HotError>> {
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
        let taken = self
            .each_owner("lease", owners, take, |value| {
                Ok(!matches!(value, Value::Nil))
            })
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

    async fn release(&self, owners: &[Owner]) -> Result<(), HotError> {
        let answers = self
            .each_owner(
                "release",
                owners,
                |owner| self.on_lease("release", owner, "DEL"),
                |_| Ok(()),
            )
            .await;
        answers.into_iter().collect()
    }

    async fn fill(&self, loads: &[Load]) -> Vec<Result<Filled, HotError>> {
        self.fill_all(loads).await
    }

    async fn marked(&self, owners: &[Owner], epoch: Option<Epoch>) -> Vec<Result<bool, HotError>> {
        self.each_owner(
            "marked",
            owners,
            |owner| scripts::marked(&self.space, owner, epoch),
            reply::yes,
        )
        .await
    }

    async fn evict(&self, owners: &[Owner]) -> Vec<Result<Evicted, HotError>> {
        let gone = |value| {
            Ok(if reply::yes(value)? {
                Evicted::Gone
            } else {
                Evicted::WhenLanded
            })
        };
        self.each_owner(
            "evict",
            owners,
            |owner| scripts::evict(&self.space, owner),
            gone,
        )
        .await
    }

    async fn refresh_ttl(&self, owners: &[Owner]) -> Result<(), HotError> {
        let refresh = |owner: &Owner| {
            let partition = self.space.partition(owner);
            let mut cmd = redis::cmd("PEXPIRE");
            cmd.arg(self.space.keys.data(partition, owner))
                .arg(scripts::millis(self.clean_ttl))
                .arg("XX");
            Command::write("refresh_ttl", self.space.slot(partition), cmd)
        };
        let answers = self
            .each_owner("refresh_ttl", owners, refresh, |_| Ok(()))
            .await;
        answers.into_iter().collect()
    }
}

impl RedisStore {
    /// A command on the lease of an owner.
    fn on_lease(&self, operation: &'static str, owner: &Owner, name: &str) -> Command {
        let partition = self.space.partition(owner);
        let mut cmd = redis::cmd(name);
        cmd.arg(self.space.keys.lease(partition, owner));
        Command::write(operation, self.space.slot(partition), cmd)
    }
}
