//! Locks whose answers were lost. A worker that may hold such a lock gives it to the worker whose
//! share it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use storage_config::{LandingSettings, SessionSettings, Settings};
use storage_dirty::Hot;
use storage_dirty::redis::Hooks;
use storage_dirty::redis::{Broken, Intercept, RedisStore};
use storage_landing::{Backlog, LandingWorker};
use storage_model::RandomIds;
use storage_tests::{Stack, until};
use storage_tiers::Tiers;

/// Loses the first answer to a request for locks.
#[derive(Debug, Default)]
struct LosesOneLock(AtomicBool);

#[async_trait]
impl Intercept for LosesOneLock {
    async fn before(&self, _: &[&'static str]) -> Result<(), Broken> {
        Ok(())
    }

    async fn after(&self, commands: &[&'static str]) -> Result<(), Broken> {
        if commands.contains(&"lock") && !self.0.swap(true, Ordering::SeqCst) {
            Err(Broken)
        } else {
            Ok(())
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_locked_by_a_request_whose_answer_was_lost_are_given_to_who_should_have_them()
-> Result<()> {
    let stack = Stack::open().await?;
    let Settings { redis, hot, .. } = &stack.settings;
    let gate = Arc::new(LosesOneLock::default());
    let hooks = Hooks::intercept(Arc::clone(&gate) as _);
    let hot = Arc::new(RedisStore::open_through(redis, hot, hooks).await?);
    let tiers = Tiers::new(Hot::of(&hot), stack.storage.tiers().cold().clone(), 100);
    let hour = Duration::from_hours(1);
    let start = |tiers: Tiers, name: &str, interval| {
        let landing = LandingSettings::default().with(|landing| {
            landing.worker_name = Some(name.to_owned());
            landing.interval = interval;
            landing.lock_ttl = hour;
        });
        let worker = LandingWorker::new(tiers, &landing, &SessionSettings::default(), &RandomIds);
        tokio::spawn(async move { worker.run(std::future::pending()).await })
    };
    // Slow, so that the other one is announced before it asks again.
    let first = start(tiers, "a", Duration::from_millis(500));
    until("an answer was lost", async || {
        Ok(gate.0.load(Ordering::SeqCst))
    })
    .await?;
    let second = start(
        stack.storage.tiers().clone(),
        "b",
        Duration::from_millis(20),
    );
    until("each holds half", async || {
        let backlog = Backlog::read(stack.storage.tiers().hot()).await?;
        let holders: Vec<_> = backlog
            .partitions
            .into_iter()
            .filter_map(|(_, peek)| peek.holder)
            .collect();
        Ok(holders.len() == 8 && holders.iter().filter(|holder| *holder == "a").count() == 4)
    })
    .await?;
    first.abort();
    second.abort();
    Ok(())
}
